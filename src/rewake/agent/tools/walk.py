"""The files below a directory as Git sees them: sorted, without what is ignored, within a deadline.

The rule kept here: `.git` is never entered and no symlink is followed, so a walk ends and stays
inside. Ignore files count from the repository's root down, the nearest deciding.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pathspec

FILES_MAX: Final = 200_000
_IGNORE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one ignore file, and the directory that they are relative to."""

    base: str
    spec: pathspec.GitIgnoreSpec

    def decides(self, path: str, *, is_directory: bool) -> bool | None:
        """Whether `path` is ignored; None where no pattern speaks of it."""
        relative = path[len(self.base) :].lstrip("/")
        return self.spec.check_file(relative + "/" * is_directory).include


@dataclass(slots=True)
class Walk:
    """One walk. `stopped` says afterwards why it ended early, if it did."""

    root: Path
    deadline: float
    stopped: str = ""
    seen: int = 0

    def files(self) -> Iterator[str]:
        """Absolute paths of regular files and of symlinks, in the order of their path's parts."""
        if not self.root.is_dir():
            yield str(self.root)
            return
        yield from self._below(str(self.root), _rules_above(self.root))

    def _below(self, directory: str, rules: tuple[_Rules, ...]) -> Iterator[str]:
        own = _rules_in(directory)
        rules = (*rules, own) if own is not None else rules
        try:
            with os.scandir(directory) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            return  # unreadable or just removed: nothing in it can be found
        for entry in listed:
            if self._is_over():
                return
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or _is_ignored(entry.path, rules, is_directory=is_directory):
                continue
            if is_directory:
                yield from self._below(entry.path, rules)
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield entry.path

    def _is_over(self) -> bool:
        self.seen += 1
        if self.seen > FILES_MAX:
            self.stopped = f"stopped after {FILES_MAX} files"
        elif self.seen % 256 == 0 and time.monotonic() > self.deadline:
            self.stopped = "stopped at the time limit"
        return bool(self.stopped)


def _is_ignored(path: str, rules: tuple[_Rules, ...], *, is_directory: bool) -> bool:
    for one in reversed(rules):
        decision = one.decides(path, is_directory=is_directory)
        if decision is not None:
            return decision
    return False


def _rules_above(root: Path) -> tuple[_Rules, ...]:
    """The rules that hold for `root` from the directories above it, up to its repository's root."""
    above: list[Path] = []
    for directory in (root, *root.parents):
        above.append(directory)
        if (directory / ".git").exists():
            break
    else:
        return ()
    repository = above[-1]
    found = [_rules_of(repository / ".git" / "info" / "exclude", str(repository))]
    found += [_rules_in(str(directory)) for directory in reversed(above[1:])]
    return tuple(rules for rules in found if rules is not None)


def _rules_in(directory: str) -> _Rules | None:
    return _rules_of(Path(directory, ".gitignore"), directory)


def _rules_of(file: Path, base: str) -> _Rules | None:
    try:
        with file.open("rb") as opened:
            text = opened.read(_IGNORE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return None
    lines = [line for line in text.split("\n") if _is_pattern(line)]
    return _Rules(base, pathspec.GitIgnoreSpec.from_lines(lines)) if lines else None


def _is_pattern(line: str) -> bool:
    """Whether the line means anything; one that can't be read is left out, as Git does."""
    if not line.strip() or line.startswith("#"):
        return False
    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


# --- file name patterns ----------------------------------------------------------------------


def name_pattern(pattern: str) -> re.Pattern[str]:
    """A file name pattern as an expression over a path relative to the search's root.

    `*` and `?` stay within one part, `**` crosses parts, `[…]` and `{a,b}` as in a shell. A pattern
    without a slash is matched at any depth. Raises ValueError when it can't be one.
    """
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    try:
        return re.compile(_translate(pattern.removeprefix("./").lstrip("/")) + r"\Z", re.DOTALL)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no file name pattern: {error}") from error


def _translate(pattern: str) -> str:
    out: list[str] = []
    at, depth = 0, 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            out.append("(?:[^/]+/)*")
            while pattern.startswith("**/", at):
                at += 3
            continue
        if pattern.startswith("**", at):
            out.append(".*")
            at += 2
            continue
        if char == "[" and (end := pattern.find("]", at + 2)) > 0:
            inside = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[^/{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]")
            at = end + 1
            continue
        if char == "{" and "}" in pattern[at:]:
            out.append("(?:")
            depth += 1
        elif char == "}" and depth:
            out.append(")")
            depth -= 1
        elif char == "," and depth:
            out.append("|")
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)))
        at += 1
    return "".join(out)
