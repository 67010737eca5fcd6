"""Floor 4: one session as a program uses it: record facts, wrap actions, get the next request.

What is on disk, and whether anything is, has been decided before a `Session` exists
(`rewake.compose` opens them); here it only meets its ports.
"""
