"""A second tree of a project, for a line of work beside the first.

The rules kept here:

- The project is only read. In a repository git makes a worktree, which adds an entry of its own to
  `.git/worktrees`; no branch, index or hook of the user's is touched, and no filter is run.
- What is copied is what is there, byte for byte: links stay links, and nothing is read through one.
- Whoever fails takes away what was made.
"""

# Paths are bytes here, because they may be no text.
# ruff: noqa: PTH115, PTH211

from __future__ import annotations

import contextlib
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
_SAFE: Final = (
    *("--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.untrackedCache=false", "-c", "protocol.allow=never"),
    *("-c", "submodule.recurse=false"),
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

    def make(self, touched: Iterable[bytes]) -> None:
        """Make the tree as the project is now, with the absolute paths `touched` in any case.

        Raises UsageError (nothing was made) where there is too much of it, StorageError.
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
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            if self.is_worktree:
                _git(self.root, "worktree", "add", "--detach", "--no-checkout", *self._target())
                _git(self.directory, "read-tree", "HEAD")
            else:
                self.directory.mkdir(exist_ok=True)
            _Copier(root, os.fsencode(self.directory), self.left_out).run(paths)
        except OSError as error:
            raise storage_error(error, self.directory, "copy the project to") from error

    def remove(self) -> None:
        """Take away what was made; a directory that was there before stays, empty."""
        if self.is_worktree and os.path.lexists(self.directory / ".git"):
            with contextlib.suppress(StorageError):  # what is left is removed below, as files
                _git(self.root, "worktree", "remove", "--force", *self._target())
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._was_there:
            self.directory.mkdir(exist_ok=True)

    def sentence(self) -> str:
        """What isn't in the copy, for people; empty where that is nothing."""
        if not self.left_out:
            return ""
        names = ", ".join(path.decode("utf-8", "replace") for path in self.left_out[:_SHOWN_MAX])
        more = len(self.left_out) - _SHOWN_MAX
        return f"Not copied: {names}{f' and {more} more' if more > 0 else ''}."

    def _target(self) -> tuple[str, str]:
        return "--", os.fspath(self.directory)

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
