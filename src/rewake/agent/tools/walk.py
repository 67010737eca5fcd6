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
from itertools import pairwise
from pathlib import Path
from typing import Final

import pathspec

FILES_MAX: Final = 200_000
_IGNORE_BYTES_MAX: Final = 1 << 20
_IGNORE_STARS_MAX: Final = 3  # a name of 255 letters then costs milliseconds
_STARS: Final = re.compile(r"\*+")


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

    def _below(self, directory: str, above: tuple[_Rules, ...]) -> Iterator[str]:
        levels = [
            _level(directory, above)
        ]  # no recursion: a clone may be a thousand directories deep
        while levels:
            entries, rules = levels[-1]
            entry = next(entries, None)
            if entry is None:
                levels.pop()
                continue
            if self._is_over():
                return
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or _is_ignored(entry.path, rules, is_directory=is_directory):
                continue
            if is_directory:
                levels.append(_level(entry.path, rules))
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield entry.path

    def _is_over(self) -> bool:
        self.seen += 1
        if self.seen > FILES_MAX:
            self.stopped = f"stopped after {FILES_MAX} files"
        elif self.seen % 256 == 0 and time.monotonic() > self.deadline:
            self.stopped = "stopped at the time limit"
        return bool(self.stopped)


def _level(
    directory: str, above: tuple[_Rules, ...]
) -> tuple[Iterator[os.DirEntry[str]], tuple[_Rules, ...]]:
    """What is in a directory, in order, and the rules for it."""
    own = _rules_in(directory)
    rules = (*above, own) if own is not None else above
    try:
        with os.scandir(directory) as entries:
            return iter(sorted(entries, key=lambda entry: entry.name)), rules
    except OSError:
        return iter(()), rules  # unreadable or just removed: nothing in it can be found


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
    """Whether the line means anything; one that can't be read is left out, as Git does.

    One of many stars is left out, too: its expression would try each star at each place, and the file
    comes with a clone. What it would have hidden is found, no more.
    """
    if not line.strip() or line.startswith("#") or len(_STARS.findall(line)) > _IGNORE_STARS_MAX:
        return False
    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


# --- file name patterns ----------------------------------------------------------------------


_BRACES: Final = re.compile(
    r"\[[^\]].*?\]|[{},]", re.DOTALL
)  # or a class, in which they are letters
_ALTERNATIVES_MAX: Final = 64  # of all braces together; a pattern is a line that somebody typed


def name_pattern(pattern: str) -> re.Pattern[str]:
    """A file name pattern as an expression over a path relative to the search's root.

    `*` and `?` stay within one part, `**` crosses parts, `[…]` and `{a,b}` as in a shell. A pattern
    without a slash is matched at any depth. Raises ValueError when it can't be one. However many stars
    it has, matching takes no longer than the square of the path's length: a pattern may be a rule that
    came with a project.
    """
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    found = _alternatives(pattern.removeprefix("./").lstrip("/"))
    try:
        return re.compile(f"(?:{'|'.join(map(_translate, found))})\\Z", re.DOTALL)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no file name pattern: {error}") from error


def _alternatives(pattern: str) -> list[str]:
    """The patterns without braces that one with braces stands for. Raises ValueError for too many."""
    if pattern.count("{") > _ALTERNATIVES_MAX:
        raise ValueError(f"{pattern!r} has more than {_ALTERNATIVES_MAX} braces")
    marks = _outer_brace(pattern)
    if not marks:
        return [pattern]
    inner = [pattern[start + 1 : end] for start, end in pairwise(marks)]
    middles = [one for part in inner for one in _alternatives(part)]
    rests = _alternatives(pattern[marks[-1] + 1 :])
    if len(middles) * len(rests) > _ALTERNATIVES_MAX:
        raise ValueError(f"{pattern!r} has more than {_ALTERNATIVES_MAX} alternatives")
    return [f"{pattern[: marks[0]]}{middle}{rest}" for middle in middles for rest in rests]


def _outer_brace(pattern: str) -> list[int]:
    """Where the first brace, its commas and its end are; none where it stands for itself.

    Raises ValueError for one that has no end, although there are others.
    """
    marks: list[int] = []
    depth = 0
    for found in _BRACES.finditer(pattern):
        match found[0]:
            case "{":
                depth += 1
                marks += [found.start()] * (depth == 1)
            case "," if depth == 1:
                marks.append(found.start())
            case "}" if depth == 1:
                return [*marks, found.start()]
            case "}" if depth:
                depth -= 1
            case _:
                continue
    if marks and "}" in pattern[marks[0] :]:
        raise ValueError(f"{pattern!r} has a brace that isn't closed")
    return []


def _translate(pattern: str) -> str:
    """A pattern without braces. What stands between two stars is taken where it first fits and never
    looked for again (`(?>…)`), for that leaves most to whatever follows the later star.
    """
    chunks: list[list[str]] = [[""]]  # between `**`, and in each between `*`
    deep: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            while pattern.startswith("**/", at):
                at += 3
            deep.append("(?:[^/]+/)*?")
            chunks.append([""])
        elif pattern.startswith("**", at):
            at += len(pattern[at:]) - len(pattern[at:].lstrip("*"))
            deep.append(".*?")
            chunks.append([""])
        elif pattern[at] == "*":
            at += 1
            chunks[-1].append("")
        else:
            piece, at = _piece(pattern, at)
            chunks[-1][-1] += piece
    *before, last = (
        star + _within_a_part(chunk) for star, chunk in zip(["", *deep], chunks, strict=True)
    )
    return "".join(f"(?>{one})" for one in before) + last


def _piece(pattern: str, at: int) -> tuple[str, int]:
    """What stands at `at` and is no star, as an expression, and where it ends."""
    char = pattern[at]
    if char == "[" and (end := pattern.find("]", at + 2)) > 0:
        inside = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
        return (f"[^/{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]"), end + 1
    return "[^/]" if char == "?" else re.escape(char), at + 1


def _within_a_part(pieces: list[str]) -> str:
    first, *rest = pieces
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>[^/]*?{one})" for one in middle) + f"[^/]*?{last}"
