"""Models behind one port: scripted, embedded, and everything pydantic-ai speaks to."""
