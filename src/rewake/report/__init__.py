"""A session as a page that people look at: one file, or live while the session is at work.

The rules kept here: reading only, streamed, with memory bounded by what the page may hold; secrets are
taken out before anything else is made of a text; and nothing that a session holds can run, load or
hide in the page: it becomes text nodes, built by the page's own script.
"""
