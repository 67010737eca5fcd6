"""Paths as events hold them, and states of a path as they are compared.

The rule kept here: a path is bytes; its text is for people, and counts only where it is UTF-8.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

from rewake.model.events import Change, FileState


def text_of(path: bytes) -> tuple[str, str | None]:
    """The path for people, and its bytes in base64 where they aren't UTF-8."""
    try:
        return path.decode(), None
    except UnicodeDecodeError:
        return path.decode("utf-8", "replace"), base64.b64encode(path).decode()


def change(path: bytes, before: FileState, after: FileState) -> Change:
    """The recorded form of a change of an absolute path."""
    text, exact = text_of(path)
    return Change(text, before, after, exact)


def link_target(state: FileState) -> bytes:
    """A symlink's target as the system takes it."""
    if state.target_base64 is not None:
        return base64.b64decode(state.target_base64)
    return os.fsencode(state.target or "")


def same(one: FileState, other: FileState) -> bool:
    """Whether two states are the same: kind, content, target, and mode where both know it."""
    if not same_content(one, other):
        return False
    if one.kind == "symlink" or one.mode is None or other.mode is None:
        return True
    return one.mode == other.mode


def same_content(one: FileState, other: FileState) -> bool:
    """Whether kind and content (a link: its target) are the same; permissions don't count."""
    return (one.kind, one.sha256, one.target, one.target_base64) == (
        other.kind,
        other.sha256,
        other.target,
        other.target_base64,
    )


def is_below(path: bytes, directory: bytes) -> bool:
    """Whether `path` is `directory` or something in it."""
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")


def absolute(root: Path, path: str | Path) -> bytes:
    """The path as histories name it: real directories, the last part as it is."""
    joined = os.path.normpath(os.path.join(root, path))  # noqa: PTH118  # must not lose surrogates
    parent, name = os.path.split(joined)
    return os.fsencode(os.path.join(os.path.realpath(parent), name))  # noqa: PTH118  # the same
