"""Models behind one port: scripted, embedded, and everything pydantic-ai speaks to.

The rule kept here: importing this package costs next to nothing; the libraries behind a model are
imported when a model of that kind is opened.
"""

from rewake.agent.providers.choose import open_model

__all__ = ["open_model"]
