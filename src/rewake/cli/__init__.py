"""Floor 6: the `rewake` command. One file per command: parse, call, render."""
