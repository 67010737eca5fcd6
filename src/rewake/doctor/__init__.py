"""Looks at a session's files for damage (`check`) and makes a transcript whole again (`repair`)."""
