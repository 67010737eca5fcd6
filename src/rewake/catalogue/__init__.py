"""Finding sessions: the list of them, and full-text search over what was said and done in them."""
