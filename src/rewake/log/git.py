"""What a project's git repository says of which project it is.

The rules kept here: what stands in small files is read from them; git itself is run only for what
doesn't (commits), never with settings that could make it run something else, never to fetch, and
never for long; and no credentials are kept.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_FILE_BYTES_MAX: Final = 1 << 20  # these files have some hundred bytes
_NAME_LENGTH_MAX: Final = 0xFFF  # of an index entry: longer ones say this
_TIMEOUT_S: Final = (
    2  # for the first of a million commits; without it a moved project counts as new
)
NEVER: Final = ""
"""Instead of a first commit: git was asked and doesn't tell, so it needn't be asked again."""
_SAFE: Final = (
    "--no-optional-locks",
    "--no-replace-objects",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "protocol.allow=never",
)


def main_root(root: Path) -> Path:
    """The root of the repository that `root` is a worktree of; `root` itself where it is none.

    The repository must say so, too: `.git` is a file that anybody can write into an archive.
    """
    entry = root / ".git"
    if not entry.is_file():
        return root
    directory = _git_directory(root)
    pointer = _read(directory / "commondir") if directory is not None else None
    if directory is None or pointer is None:
        return root  # a submodule, or no repository any more
    common = Path(os.path.normpath(directory / pointer.strip()))
    if not common.is_dir() or not _is_registered(common, directory, entry):
        return root
    return (common.parent if common.name == ".git" else common).resolve()


def _is_registered(common: Path, directory: Path, entry: Path) -> bool:
    """Whether the repository at `common` has the worktree whose `.git` file is `entry`."""
    if directory.resolve().parent != common.resolve() / "worktrees":
        return False
    back = (_read(directory / "gitdir") or "").strip()
    return bool(back) and (directory / back).resolve() == entry.resolve()


def origin_url(root: Path) -> str | None:
    """The URL of the remote `origin` without credentials, or None."""
    common = _common_directory(root)
    config = _read(common / "config") if common is not None else None
    if config is None:
        return None
    section = ""
    for line in config.splitlines():
        text = line.strip()
        if text.startswith("["):
            section = text
        elif section == '[remote "origin"]':
            name, equals, value = text.partition("=")
            if equals and name.strip().lower() == "url" and value.strip():
                return without_credentials(value.strip().strip('"'))
    return None


def without_credentials(url: str) -> str:
    """A URL without user and password; the `user@host:path` of ssh stays, where a user is no secret."""
    if "://" not in url:
        return url
    from urllib.parse import urlsplit, urlunsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def branch_name(root: Path) -> str:
    """The branch that is checked out, empty for none (a detached head, no repository)."""
    directory = _git_directory(root)
    head = _read(directory / "HEAD") if directory is not None else None
    beginning = "ref: refs/heads/"
    return head.strip().removeprefix(beginning) if head and head.startswith(beginning) else ""


def has_commits(root: Path) -> bool:
    """Whether HEAD can be a commit at all, so that asking git for one is worth its while."""
    directory, common = _git_directory(root), _common_directory(root)
    if directory is None or common is None:
        return False
    head = (_read(directory / "HEAD") or "").strip()
    if not head.startswith("ref: "):
        return bool(head)
    name = head.removeprefix("ref: ")
    if (common / name).is_file() or (common / "reftable").is_dir():
        return True
    return f" {name}\n" in (_read(common / "packed-refs") or "")


def first_commit(root: Path) -> str | None:
    """The oldest commit without a parent that HEAD descends from.

    None where there is none yet (or no git), NEVER where git doesn't tell: a shallow clone, a
    history that takes too long.
    """
    common = _common_directory(root)
    if common is None or not has_commits(root):
        return None
    if (common / "shallow").exists():
        return NEVER
    listed = _git(root, "rev-list", "--max-parents=0", "HEAD")
    commits = (listed or "").split()
    return commits[-1] if commits else (None if listed is None else NEVER)


def has_commit(root: Path, commit: str) -> bool:
    """Whether this commit is in the repository at `root`; much cheaper than `first_commit`."""
    return has_commits(root) and bool(_git(root, "cat-file", "-t", commit))


def is_repository(root: Path) -> bool:
    """Whether `root` is the root of a repository or of a worktree."""
    return _git_directory(root) is not None


def is_tracked(root: Path, path: Path) -> bool:
    """Whether `path` came with the repository at `root`: it, what it leads to, or a link on the way.

    False where there is no repository, true in doubt. Most often the bytes of the index say no, which
    costs no process; else git is asked.
    """
    common = _git_directory(root)
    if common is None:
        return False
    names = _names_in(root, path)
    index = _bytes(common / "index")
    if index is None:
        return (common / "index").exists()
    if _is_plain_index(index):
        lowered = index.lower()
        if not any(_may_have_entry(index, lowered, os.fsencode(name).lower()) for name in names):
            return False
    specs = [f":(top,icase,literal){name}" for name in names]
    listed = _git(root, "ls-files", "-z", "--", *specs)
    return True if listed is None else bool(listed) or not _git(root, "rev-parse", "--git-dir")


def _names_in(root: Path, path: Path) -> list[str]:
    """Every name under `root` by which a repository could have brought along what is at `path`."""
    real_root, found = root.resolve(), []
    for place, base in ((path, root), (path.resolve(), real_root)):
        if place.is_relative_to(base):
            relative = place.relative_to(base)
            found += [str(relative), *(str(parent) for parent in relative.parents[:-1])]
    return list(dict.fromkeys(found))


def _is_plain_index(index: bytes) -> bool:
    """Whether every path stands in it as a whole: no compressed, split or sparse one."""
    version = int.from_bytes(index[4:8], "big")
    is_known = index.startswith(b"DIRC") and version in {2, 3}
    return is_known and b"link" not in index and b"sdir" not in index


def _may_have_entry(index: bytes, lowered: bytes, name: bytes) -> bool:
    """False only if no entry has this name (`name` and `lowered` are in lower case).

    In an entry the length of its name stands before it; that tells it from the directories of the
    index's cache of trees.
    """
    at = lowered.find(name + b"\0")
    while at > 0:
        length = int.from_bytes(index[at - 2 : at], "big") & _NAME_LENGTH_MAX
        if length == min(len(name), _NAME_LENGTH_MAX):
            return True
        at = lowered.find(name + b"\0", at + 1)
    return False


def listed_files(root: Path) -> list[str] | None:
    """The files below `root`, relative to it, that git has or would take; None where it can't tell."""
    if _git_directory(root) is None and not any(
        (above / ".git").exists() for above in root.parents
    ):
        return None
    listed = _output(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if not listed:
        return None
    return list(dict.fromkeys(os.fsdecode(name) for name in listed.split(b"\0") if name))


def environment() -> dict[str, str]:
    """What git is started with: this process's variables without those that would point it elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints, empty where it fails or takes too long; None where there is no git."""
    printed = _output(root, *arguments)
    return printed.decode("ascii", "replace") if printed is not None else None


def _output(root: Path, *arguments: str) -> bytes | None:
    import subprocess

    environ = environment()
    environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    try:
        ended = subprocess.run(
            ["git", *_SAFE, "-C", os.fspath(root), *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return b""
    except OSError:
        return None
    return ended.stdout if ended.returncode == 0 else b""


def _git_directory(root: Path) -> Path | None:
    entry = root / ".git"
    if entry.is_dir():
        return entry
    pointer = _read(entry)
    if pointer is None or not pointer.startswith("gitdir:"):
        return None
    return Path(os.path.normpath(root / pointer.removeprefix("gitdir:").strip()))


def _common_directory(root: Path) -> Path | None:
    directory = _git_directory(root)
    if directory is None:
        return None
    pointer = _read(directory / "commondir")
    return directory if pointer is None else Path(os.path.normpath(directory / pointer.strip()))


def _read(path: Path) -> str | None:
    data = _bytes(path, _FILE_BYTES_MAX)
    return None if data is None else os.fsdecode(data)


def _bytes(path: Path, limit: int = -1) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError:
        return None
