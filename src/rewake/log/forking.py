"""A forked child of the agent is not the agent: it must neither write nor keep the lock alive.

The rule kept here: whatever writes a session gives up in a forked child, before the child runs any
Python code of its own. Commands started with `exec` need nothing of this (descriptors close then).
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import Protocol

from rewake.errors import RewakeError


class Writer(Protocol):
    """Something that a forked child must not go on with."""

    def abandon_after_fork(self) -> None:
        """Release this process's copies of descriptors and refuse all further use."""
        ...


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()


def give_up_in_forked_children(writer: Writer) -> None:
    """Have `writer.abandon_after_fork` called in every child forked while `writer` lives."""
    _writers.add(writer)


def _after_fork_in_child() -> None:
    for writer in list(_writers):
        # One whose file can't be closed must not leave the others at work.
        with contextlib.suppress(OSError, RewakeError):
            writer.abandon_after_fork()
    _writers.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
