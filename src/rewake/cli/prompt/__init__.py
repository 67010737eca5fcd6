"""The prompt in a terminal: what is typed, what is shown while the agent works, what is asked."""
