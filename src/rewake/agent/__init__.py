"""Floor 5: the coding agent: its loop, tools, permissions and model providers."""
