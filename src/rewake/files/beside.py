"""A second tree of a project, for a line of work beside the first.

The rules kept here:

- The project is only read. In a repository git makes a worktree, which adds an entry of its own to
  `.git/worktrees`; no branch, index or hook of the user's is touched, and no filter is run.
- What is copied is what is there, byte for byte: links stay links, and nothing is read through one.
- The tree is made under a name of its own beside its place, and moved there when it is whole. Whoever
  fails takes away what was made; what a process that died has left is taken away by the next try for
  that place, which finds it by its name.
"""

# Paths are bytes here, because they may be no text.
# ruff: noqa: PTH115, PTH211

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from rewake.errors import StorageError, UsageError
from rewake.files.walk import CACHES
from rewake.log.disk import storage_error
from rewake.log.git import environment as git_environment
from rewake.log.layout import project_root

_TIMEOUT_S: Final = 120
_SHOWN_MAX: Final = 5
_DIGEST_CHARS: Final = 12
_SAFE: Final = (
    *("--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.untrackedCache=false", "-c", "protocol.allow=never"),
    *("-c", "submodule.recurse=false", "-c", "worktree.useRelativePaths=false"),
)


class CopyLimits(msgspec.Struct, frozen=True):
    """What is copied at most: as many files as are tracked, and what a disk has room for."""

    files_max: int = 100_000
    bytes_max: int = 4 << 30


class Beside:
    """A tree beside the project at `root`. `own` is Rewake's home, which is never copied."""

    def __init__(
        self, root: Path, directory: Path, own: Path, limits: CopyLimits | None = None
    ) -> None:
        self.root = root
        named = Path(os.path.normpath(directory.absolute()))
        self.directory = named.parent.resolve() / named.name
        self.is_worktree = os.path.lexists(root / ".git")
        self.left_out: list[bytes] = []
        self._own = os.fsencode(own.resolve())
        self._limits = limits or CopyLimits()
        self._was_there = self.directory.is_dir()
        digest = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:_DIGEST_CHARS]
        self._making = self.directory.with_name(f".rewake-{digest}.tmp")
        self._lock: int | None = None
        self._is_placed = False
        self._has_cleaned = False

    def check(self) -> None:
        """Raises UsageError where the directory can't be used. Changes nothing."""
        directory = self.directory
        if directory.is_symlink() or (os.path.lexists(directory) and not directory.is_dir()):
            raise UsageError(f"{directory} is no directory.", remedy="Name one that isn't there.")
        if directory.is_dir() and any(directory.iterdir()):
            raise UsageError(
                f"{directory} isn't empty.", remedy="Name a directory that isn't there or is empty."
            )
        if directory.is_relative_to(self.root):
            raise UsageError(
                f"{directory} is inside the project {self.root}.",
                remedy="Name a directory beside the project.",
            )
        if self.is_worktree:
            if not _git(self.root, "rev-parse", "--verify", "-q", "HEAD^{commit}", allowed=(0, 1)):
                raise UsageError(
                    f"The repository {self.root} has no commit yet, so it can't have a worktree.",
                    remedy="Commit something first.",
                )
            return
        above = project_root(directory)
        if above != directory:
            raise UsageError(
                f"{directory} would belong to the repository {above}.",
                remedy="Name a directory outside of it.",
            )

    @property
    def tree(self) -> Path:
        """Where the tree is made."""
        return self._making / self.directory.name

    def make(self, touched: Iterable[bytes]) -> None:
        """Make the tree as the project is now, with the absolute paths `touched` in any case.

        Raises UsageError (nothing was made) where there is too much of it or another process makes
        the same one, StorageError.
        """
        root = os.fsencode(self.root)
        try:
            listed = set(self._listed(root) if self.is_worktree else self._walked(root))
        except OSError as error:
            raise storage_error(error, self.root, "read") from error
        listed.update(
            path[len(root) + 1 :]
            for path in touched
            if path.startswith(root + b"/") and b".git" not in path.split(b"/")
        )
        paths = sorted(listed)
        self._measure(root, paths)
        try:
            self._claim()
            tree = os.fspath(self.tree)
            if self.is_worktree:
                _git(self.root, "worktree", "add", "--detach", "--no-checkout", "--", tree)
                _git(self.tree, "read-tree", "HEAD")
            else:
                self.tree.mkdir()
            _Copier(root, os.fsencode(tree), self.left_out).run(paths)
        except OSError as error:
            raise storage_error(error, self.directory, "copy the project to") from error

    def place(self) -> None:
        """Move the tree to its place. Raises StorageError."""
        try:
            if self._was_there:
                self.directory.rmdir()
            self.tree.rename(self.directory)
            self._is_placed = True
            self._making.rmdir()
            if self.is_worktree:
                self._tell_git()
        except OSError as error:
            raise storage_error(error, self.directory, "move the copy to") from error
        self._release()

    def _tell_git(self) -> None:
        """Set the entry that git has of the worktree; `git worktree repair` would set others, too."""
        pointer = (self.directory / ".git").read_bytes().removeprefix(b"gitdir:").strip()
        entry = Path(os.fsdecode(pointer)) / "gitdir"
        beside = entry.with_name("gitdir.tmp")
        beside.write_bytes(os.fsencode(self.directory) + b"/.git\n")
        beside.replace(entry)

    def remove(self) -> None:
        """Take away what was made; a directory that was there before stays, empty."""
        if self._is_placed:
            self._take_away(self.directory)
        elif self._lock is not None:
            self._take_away(self.tree)
            shutil.rmtree(self._making, ignore_errors=True)
        self._release()
        if self._was_there:
            self.directory.mkdir(exist_ok=True)

    def sentence(self) -> str:
        """What isn't in the copy and the like, for people; empty where that is nothing."""
        said = ["What an earlier try had left was removed."] if self._has_cleaned else []
        if self.left_out:
            shown = [path.decode("utf-8", "replace") for path in self.left_out[:_SHOWN_MAX]]
            more = len(self.left_out) - _SHOWN_MAX
            and_more = f" and {more} more" if more > 0 else ""
            said.append(f"Not copied: {', '.join(shown)}{and_more}.")
        return " ".join(said)

    def _claim(self) -> None:
        """Make the directory to work in, or take over that of a process that died."""
        self._making.parent.mkdir(parents=True, exist_ok=True)
        self._making.mkdir(exist_ok=True)
        self._lock = os.open(self._making, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._release()
            raise UsageError(
                f"Another process is making a copy for {self.directory}.",
                remedy="Wait until it has ended, or name another directory.",
            ) from error
        if any(self._making.iterdir()):
            self._has_cleaned = True
            self._take_away(self.tree)
            for left in self._making.iterdir():
                shutil.rmtree(left)

    def _take_away(self, tree: Path) -> None:
        if self.is_worktree:
            # Twice forced: git locks a worktree while it makes it. What is left goes as files.
            with contextlib.suppress(StorageError):
                _git(self.root, "worktree", "remove", "--force", "--force", "--", os.fspath(tree))
        shutil.rmtree(tree, ignore_errors=True)

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _measure(self, root: bytes, paths: list[bytes]) -> None:
        size = 0
        for path in paths:
            with contextlib.suppress(OSError):  # deleted, which a copy may be, too
                size += os.lstat(root + b"/" + path).st_size
        limits = self._limits
        if len(paths) > limits.files_max or size > limits.bytes_max:
            raise UsageError(
                f"{self.root} is too large to be copied: {len(paths)} paths, {size} bytes.",
                remedy=f"At most {limits.files_max} and {limits.bytes_max} are.",
            )

    def _listed(self, root: bytes) -> Iterator[bytes]:
        """What git tracks or doesn't ignore, submodules as their directories."""
        out = _git(self.root, "ls-files", "-c", "-o", "-z", "--exclude-standard")
        for path in out.split(b"\0"):
            if path.endswith(b"/"):
                self.left_out.append(path)  # another repository
            elif path and not self._is_own(root + b"/" + path):
                yield path

    def _walked(self, root: bytes) -> Iterator[bytes]:
        waiting = [root]
        count = 0
        while waiting:
            directory = waiting.pop()
            try:
                with os.scandir(directory) as listing:
                    found = list(listing)
            except PermissionError:
                self.left_out.append(directory[len(root) + 1 :])
                continue
            for entry in found:
                path = entry.path[len(root) + 1 :]
                is_directory = entry.is_dir(follow_symlinks=False)
                if is_directory and entry.name in CACHES:
                    self.left_out.append(path)
                    continue
                if self._is_own(entry.path):
                    continue
                if is_directory and os.path.lexists(entry.path + b"/.git"):
                    self.left_out.append(path)
                    continue
                yield path
                count += 1
                if count > self._limits.files_max:
                    return  # which is refused; no need to see all of it
                if is_directory:
                    waiting.append(entry.path)

    def _is_own(self, path: bytes) -> bool:
        return path == self._own or path.startswith(self._own + b"/")


class _Copier:
    """Copies paths from one tree to another; what can't be read is added to `left_out`."""

    def __init__(self, root: bytes, to: bytes, left_out: list[bytes]) -> None:
        self._root = root
        self._to = to
        self._left_out = left_out
        self._entered: dict[bytes, bool] = {b"": True}
        self._modes: dict[bytes, int] = {}

    def run(self, paths: Iterable[bytes]) -> None:
        for path in paths:
            try:
                self._copy(path)
            except PermissionError:
                self._left_out.append(path)
        # Last, since a directory may be one that nothing can be made in.
        for path in sorted(self._modes, reverse=True):
            os.chmod(self._to + b"/" + path, self._modes[path])  # noqa: PTH101  # bytes

    def _enter(self, path: bytes) -> bool:
        """Make a directory that is one in the project; whether it is."""
        known = self._entered.get(path)
        if known is not None:
            return known
        self._entered[path] = False
        if not self._enter(path.rpartition(b"/")[0]):
            return False
        try:
            status = os.lstat(self._root + b"/" + path)
        except OSError:
            return False
        if not stat.S_ISDIR(status.st_mode):
            return False
        os.mkdir(self._to + b"/" + path)  # noqa: PTH102  # bytes
        self._modes[path] = stat.S_IMODE(status.st_mode)
        self._entered[path] = True
        return True

    def _copy(self, path: bytes) -> None:
        if not self._enter(path.rpartition(b"/")[0]):
            return  # a directory on the way is gone, or is a link now
        source, target = self._root + b"/" + path, self._to + b"/" + path
        try:
            status = os.lstat(source)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(status.st_mode):
            self._enter(path)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(source), target)
        elif stat.S_ISREG(status.st_mode):
            shutil.copyfile(source, target, follow_symlinks=False)
            os.chmod(target, stat.S_IMODE(status.st_mode))  # noqa: PTH101  # bytes
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _git(root: Path, *arguments: str, allowed: tuple[int, ...] = (0,)) -> bytes:
    """Run git in `root` and nowhere above it. Raises StorageError with what git says."""
    environ = git_environment()
    environ |= {
        "GIT_CEILING_DIRECTORIES": os.fspath(root.parent),
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    try:
        done = subprocess.run(
            ["git", *_SAFE, "-C", os.fspath(root), *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _git_error(root, str(error)) from error
    if done.returncode not in allowed:
        raise _git_error(root, done.stderr.decode("utf-8", "replace").strip())
    return done.stdout


def _git_error(root: Path, words: str) -> StorageError:
    return StorageError(
        f"git can't be used in {root}: {words}",
        path=os.fspath(root),
        remedy="Set right what git says.",
    )
