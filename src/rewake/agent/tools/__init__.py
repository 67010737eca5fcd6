"""The tools of the coding agent, one module each."""
