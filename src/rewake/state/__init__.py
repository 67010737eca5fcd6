"""Floor 1: the one fold and the view of it. Pure: events in, state out."""
