"""The session browser: find a session, look into it, go on with it. Runs in a terminal (Textual)."""
