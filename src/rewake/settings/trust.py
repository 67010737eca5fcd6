"""Whether the user trusts what a project's own files would allow.

The rules kept here:

- What widens what runs (rules that allow, hooks, servers, commands …; `needs_trust` in the table of
  keys) counts from a file that comes with a project only after the user said yes to exactly that
  content. Another content is another question.
- The answers are in the user's home, never in the project. A file of answers that can't be read means
  that nothing is trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rewake.log.disk import Disk
from rewake.log.git import main_root
from rewake.settings.check import lookup
from rewake.settings.keys import KEYS, Key
from rewake.settings.source import Source

FILE_NAME: Final = "trusted.json"
_ANSWERS_MAX: Final = 20  # per project: contents of its branches, so that switching asks no more
_FILE_BYTES_MAX: Final = 1 << 22


class Answer(msgspec.Struct, frozen=True):
    """What the user said to one content; `at` is RFC 3339 UTC."""

    sha256: str
    trusted: bool
    at: str = ""


class Answers(msgspec.Struct, frozen=True):
    """All answers, by the real path of the project (the main one of a repository's worktrees)."""

    version: int = 1
    projects: dict[str, tuple[Answer, ...]] = {}

    def to(self, root: Path, sha256: str) -> bool | None:
        """The answer to this content; None where nobody was asked."""
        found = [item for item in self.projects.get(_name(root), ()) if item.sha256 == sha256]
        return found[-1].trusted if found else None


def widening(source: Source) -> dict[str, Any]:
    """What of a source needs trust, by key."""
    found: dict[str, Any] = {}
    for key in KEYS.values():
        value = lookup(source.data, key.path)
        if key.needs_trust and value is not None and value not in ([], {}):
            found[key.name] = value
    return {name: value for name, value in found.items() if not narrows(KEYS[name], value)}


def narrows(key: Key, value: Any) -> bool:
    """Whether this value of a key that needs trust only forbids."""
    return isinstance(value, str | bool) and value in key.narrows


def content_hash(sources: Iterable[Source]) -> str:
    """The SHA-256 of what needs trust in the sources that come with a project; empty if nothing does."""
    parts: Mapping[str, Any] = {
        source.name: found
        for source in sources
        if source.is_foreign and (found := widening(source))
    }
    if not parts:
        return ""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def read_answers(home: Path) -> Answers:
    """The answers so far; none where they can't be read."""
    try:
        with (home / FILE_NAME).open("rb") as file:
            return msgspec.json.decode(file.read(_FILE_BYTES_MAX), type=Answers)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Answers()


def with_answer(answers: Answers, root: Path, answer: Answer) -> Answers:
    """The answers with one more."""
    name = _name(root)
    others = [item for item in answers.projects.get(name, ()) if item.sha256 != answer.sha256]
    kept = (*others, answer)[-_ANSWERS_MAX:]
    return Answers(answers.version, {**answers.projects, name: kept})


def write_answers(home: Path, answers: Answers, disk: Disk) -> None:
    """Put them in the home, durable on return; what a killed writer left goes. Raises StorageError."""
    for leftover in home.glob(f".{FILE_NAME}.*.tmp"):
        disk.remove(leftover)
    disk.write_atomic(home / FILE_NAME, msgspec.json.encode(answers) + b"\n")


def _name(root: Path) -> str:
    return os.fspath(main_root(root)).encode("utf-8", "backslashreplace").decode()
