"""Finds what users write for the agent in Markdown: skills, commands.

The rules kept here: a file that can't be used is a `Problem` with its place and never an error; what
comes with a project is read only from inside of it; and every count and size is bounded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from rewake.frontmatter import Document, FrontMatterError, parse

FILES_MAX: Final = 500
"""Of one kind below one root; more would fill a model's context and a user's screen."""
_DEPTH_MAX: Final = 6
_DIRECTORIES_MAX: Final = 5_000
FILE_BYTES_MAX: Final = 256 << 10

Origin = Literal["project", "user"]


@dataclass(frozen=True, slots=True)
class Root:
    """A directory that holds `skills/` and `commands/`. What lies in `inside` and only that is read."""

    path: Path
    origin: Origin
    inside: Path | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that can't be used, and why; `line` counts from 1, 0 where no line is meant."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Written:
    """One file with its document. `parts` is its path below the root's directory for its kind."""

    path: Path
    parts: tuple[str, ...]
    document: Document
    origin: Origin


def written(root: Root, kind: str, name: str | None, problems: list[Problem]) -> list[Written]:
    """The Markdown files below `root/kind`, in order of their paths; `name` limits them to one name."""
    directory = root.path / kind
    if root.inside is not None and not _is_inside(directory, root.inside):
        where = os.path.realpath(directory)
        problems.append(Problem(directory, 0, f"it leads out of the project, to {where}"))
        return []
    found: list[Written] = []
    seen: set[Path] = set()  # a link may lead to where one was already
    for path in _files(directory, name, root.inside):
        real = Path(os.path.realpath(path))
        if real in seen:
            continue
        seen.add(real)
        if len(seen) > FILES_MAX:  # those that can't be used count, too: each is a sentence
            problems.append(Problem(directory, 0, f"more than {FILES_MAX} files; the rest is left"))
            break
        one = _read(path, root, directory, problems)
        if one is not None:
            found.append(one)
    return found


def _files(directory: Path, name: str | None, inside: Path | None) -> Iterator[Path]:
    """Files below `directory`, and links out of `inside`, which are not walked."""
    depth = len(directory.parts)
    for count, (here, directories, files) in enumerate(os.walk(directory, followlinks=True)):
        if count >= _DIRECTORIES_MAX or len(Path(here).parts) - depth >= _DEPTH_MAX:
            directories.clear()
        if inside is not None:
            links = [one for one in directories if _leads_out(Path(here, one), inside)]
            directories[:] = [one for one in directories if one not in links]
            yield from (Path(here, link) for link in sorted(links))
        directories.sort()
        for file in sorted(files):
            if file == name if name is not None else file.endswith(".md"):
                yield Path(here, file)


def _leads_out(path: Path, inside: Path) -> bool:
    return path.is_symlink() and not _is_inside(path, inside)


def _is_inside(path: Path, inside: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(inside)


def _read(path: Path, root: Root, directory: Path, problems: list[Problem]) -> Written | None:
    data = b""
    try:
        real = path.resolve(strict=True)
        if root.inside is not None and not real.is_relative_to(root.inside):
            problems.append(Problem(path, 0, f"it leads out of the project, to {real}"))
            return None
        if not real.is_file():
            problems.append(Problem(path, 0, "it is no regular file"))
            return None
        with real.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            problems.append(Problem(path, 0, f"it is larger than {FILE_BYTES_MAX} bytes"))
            return None
        document = parse(data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.append(Problem(path, line, "it is not UTF-8"))
    except OSError as error:
        problems.append(Problem(path, 0, f"it can't be read: {error.strerror or error}"))
    except FrontMatterError as error:
        problems.append(Problem(path, error.line, str(error)))
    else:
        return Written(path, path.relative_to(directory).parts, document, root.origin)
    return None
