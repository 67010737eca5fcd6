"""The one place where parts are put together; everything else is handed its ports."""
