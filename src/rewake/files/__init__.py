"""Floor 4: what an agent did to files, and how to take it back.

`track` finds what a command changed, `history` folds the changes that a transcript names, `plan` says
what going back would do, `apply` does it so that a crash in the middle is finished by the next start.
Nothing here knows a session: facts come in as events and go out as changes.
"""
