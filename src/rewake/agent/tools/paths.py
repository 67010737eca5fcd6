"""Which file a model means, and whether it may be touched.

The rule kept here: a path is judged by where it really is. Symlinks are resolved first, and only
what lies inside the project or an extra directory passes.
"""

# Real paths are text here; Path would normalise what must be compared as it is.
# ruff: noqa: PTH118, PTH119, PTH120, PTH208

from __future__ import annotations

import base64
import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewake.agent.ports import ToolContext, ToolInputError

_SUGGESTIONS_MAX: Final = 3
# Looking for a file of the same name elsewhere stops here; it is a courtesy, not a search.
_SUGGESTION_ENTRIES_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class Target:
    """A real path: resolved and allowed. `shown` is how it is called in messages and rules."""

    real: str
    shown: str

    @property
    def text(self) -> str:
        """The path as an event holds it: UTF-8 with replacements where it isn't (see `base64`)."""
        return os.fsencode(self.real).decode("utf-8", "replace")

    @property
    def base64(self) -> str | None:
        """The path's bytes where they aren't UTF-8, else None."""
        raw = os.fsencode(self.real)
        try:
            raw.decode()
        except UnicodeDecodeError:
            return base64.b64encode(raw).decode()
        return None


def resolve(file_path: str, context: ToolContext, *, reading: bool = False) -> Target:
    """The file that `file_path` names; relative paths are the project's. Raises ToolInputError.

    `reading` lets it be where the session may only read.
    """
    if not file_path:
        raise ToolInputError("The path is empty: give the path of a file.")
    if "\0" in file_path:
        raise ToolInputError("The path contains a NUL character: give the path without it.")
    try:
        real = os.path.realpath(os.path.join(context.project, file_path))
    except (OSError, ValueError) as error:
        raise ToolInputError(f"{file_path!r} is no usable path: {error}.") from error
    if not is_inside(real, context, reading=reading):
        raise ToolInputError(_outside(file_path, real, context))
    return Target(real, shown(real, context))


def is_inside(real: str, context: ToolContext, *, reading: bool = False) -> bool:
    """Whether a resolved path is one of the allowed directories or below one."""
    readable = context.readable_directories if reading else ()
    return any(
        real == str(root) or real.startswith(os.path.join(root, ""))
        for root in (context.project, *context.extra_directories, *readable)
    )


def shown(real: str, context: ToolContext) -> str:
    """The path relative to the project where it is inside, else absolute."""
    inside = real == str(context.project) or real.startswith(os.path.join(context.project, ""))
    return os.path.relpath(real, context.project) if inside else real


def _outside(file_path: str, real: str, context: ToolContext) -> str:
    roots = ", ".join(str(root) for root in (context.project, *context.extra_directories))
    leads = f" (it leads to {real})" if real != os.path.normpath(file_path) else ""
    return f"{file_path!r}{leads} is outside of the allowed directories: {roots}."


def missing(target: Target, context: ToolContext) -> str:
    """A message for a file that isn't there, with the likely ones."""
    near = _similar(target) or _same_name(target, context)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{target.shown} does not exist.{hint}"


def _similar(target: Target) -> list[str]:
    parent, name = os.path.split(target.real)
    try:
        names = os.listdir(parent)
    except OSError:
        return []
    near = difflib.get_close_matches(name, names, _SUGGESTIONS_MAX, cutoff=0.6)
    return [os.path.join(os.path.dirname(target.shown), one) for one in near]


def _same_name(target: Target, context: ToolContext) -> list[str]:
    name = os.path.basename(target.real)
    found: list[str] = []
    seen = 0
    for directory, directories, files in os.walk(context.project):
        directories[:] = sorted(d for d in directories if not d.startswith("."))
        seen += len(files) + len(directories)
        if name in files:
            found.append(shown(os.path.join(directory, name), context))
        if len(found) == _SUGGESTIONS_MAX or seen > _SUGGESTION_ENTRIES_MAX:
            break
    return found


def allowed_root(path: str | None, context: ToolContext) -> Path:
    """The directory or file that a search starts from: `path`, or the project."""
    return Path(resolve(path, context, reading=True).real) if path else context.project
