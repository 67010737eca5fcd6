"""Floor 3: from a transcript back to a running session: load, and settle what was interrupted."""
