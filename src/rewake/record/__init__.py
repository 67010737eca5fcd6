"""Floor 3: facts become events: the write queue, the recorder and its sinks."""
