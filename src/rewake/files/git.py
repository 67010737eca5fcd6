"""A git repository as a source of facts: what is dirty, what is untracked, what an object holds.

The rules kept here:

- The user's repository is only read. Git works on a copy of the index in a git directory of our own,
  with our own configuration: no hook, monitor, filter or text conversion of the user's can run, and
  nothing of theirs is refreshed, locked or written. The objects are theirs, read in place.
- An object stands for a file only while the file's bytes are known to equal it. What git may convert,
  doesn't look at, has staged only, or saw too recently is looked at by ourselves.
- Whatever goes wrong raises GitUnusableError; the caller then walks the tree itself.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from rewake.files.git_index import IndexEntry, parse_index
from rewake.log.disk import Disk
from rewake.log.git import environment as git_environment

_TIMEOUT_S: Final = 120
_SAFE: Final = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.untrackedCache=false", "-c", "core.preloadIndex=true"),
    *("-c", "submodule.recurse=false", "-c", "protocol.allow=never"),
)
_CONVERTING: Final = ("text", "crlf", "eol", "ident", "filter", "working-tree-encoding")
_HARMLESS: Final = frozenset({b"unspecified", b"unset"})
SUBMODULE: Final = 0o160000


class GitUnusableError(Exception):
    """Git isn't there, or doesn't answer as expected; the text says how."""


class Git:
    """One repository. `root` is the top of its work tree; `directory` is ours to write in."""

    def __init__(self, root: Path, directory: Path, disk: Disk) -> None:
        self.root = root
        self.directory = directory
        self._disk = disk
        self.git_directory = _git_directory(root)
        pointer = _read(self.git_directory / "commondir")
        self.common = self.git_directory
        if pointer is not None:
            common = os.fsdecode(pointer).rstrip("\n")
            self.common = Path(os.path.normpath(self.git_directory / common))
        self.head: str | None = None
        self.hash_name = "sha1"
        self._excludes = ""
        self.converts_all = False
        self._attributes_file = ""

    # --- our own git directory -----------------------------------------------------------------

    @property
    def index(self) -> Path:
        """Our copy of the index."""
        return self.directory / "index"

    def copy_index(self) -> list[IndexEntry]:
        """Take the user's index as it is now, and what is configured; returns its entries."""
        self.configure()
        try:
            status = self._user_index.stat()
            data = self._user_index.read_bytes()
        except FileNotFoundError:
            self.index.unlink(missing_ok=True)
            return []
        except OSError as error:
            raise GitUnusableError(f"the index can't be read: {error}") from error
        self._disk.write_atomic(self.index, data, sync=False)
        # Git looks twice at files as young as its index, so the copy must not be younger.
        os.utime(self.index, ns=(status.st_atime_ns, status.st_mtime_ns))
        return self.entries()

    def entries(self) -> list[IndexEntry]:
        """What our copy of the index holds."""
        try:
            return parse_index(self.index.read_bytes(), 20 if self.hash_name == "sha1" else 32)
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise GitUnusableError(str(error)) from error

    def index_stamp(self) -> tuple[int, int, int]:
        """What changes when the user's index is written."""
        try:
            status = self._user_index.stat()
        except OSError:
            return (0, 0, 0)
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    @property
    def index_mtime_ns(self) -> int:
        """When our copy was last known to agree with the files."""
        try:
            return self.index.stat().st_mtime_ns
        except OSError:
            return 0

    @property
    def _user_index(self) -> Path:
        return self.git_directory / "index"

    def configure(self) -> None:
        """Read what matters of the user's configuration and write ours. Raises GitUnusableError."""
        wanted = self._user_config()
        self.hash_name = wanted.get("extensions.objectformat", "sha1")
        self.converts_all = wanted.get("core.autocrlf", "false") in {"true", "input"}
        self._excludes = wanted.get("core.excludesfile", "")
        self._attributes_file = wanted.get("core.attributesfile", "")
        head = self._run_theirs("rev-parse", "--verify", "-q", "HEAD^{commit}")
        self.head = head.decode("ascii", "replace").strip() or None
        # 0700 and 0600 like everything of ours; HEAD and refs make it a git directory.
        self._disk.make_directory(self.directory / "refs", sync=False)
        self._disk.make_directory(self.directory / "objects", sync=False)
        self._disk.make_directory(self.directory / "info", sync=False)
        version = 0 if self.hash_name == "sha1" else 1
        config = f"[core]\n\trepositoryformatversion = {version}\n\tbare = false\n"
        if version:
            config += f"[extensions]\n\tobjectformat = {self.hash_name}\n"
        self._write("config", config.encode())
        self._write("HEAD", b"ref: refs/heads/none\n")
        for name in ("exclude", "attributes"):
            self._write(f"info/{name}", _read(self.common / "info" / name) or b"")

    def _write(self, name: str, data: bytes) -> None:
        if _read(self.directory / name) != data:
            self._disk.write_atomic(self.directory / name, data, sync=False)

    def _user_config(self) -> dict[str, str]:
        keys = r"^(core\.(autocrlf|excludesfile|attributesfile)|extensions\.objectformat)$"
        found = self._run_theirs("config", "-z", "--get-regexp", keys)
        pairs: dict[str, str] = {}
        for item in found.split(b"\0"):
            name, _, value = item.partition(b"\n")
            if name:
                pairs[os.fsdecode(name).lower()] = os.fsdecode(value)
        return pairs

    # --- questions -----------------------------------------------------------------------------

    def start_dirty(self) -> Running:
        """Begin to ask which indexed paths have another stat than the index says."""
        return self._start("diff-files", "--raw", "-z", "--no-renames", "--ignore-submodules=all")

    def start_untracked(self) -> Running:
        """Begin to ask which files git doesn't know and doesn't ignore."""
        return self._start("ls-files", "-o", "-z", "--exclude-standard")

    def ignored(self) -> list[bytes]:
        """What git ignores, whole directories as one, with a slash."""
        return _parts(
            self._start("ls-files", "-o", "-i", "-z", "--exclude-standard", "--directory").output()
        )

    def refresh(self) -> None:
        """Have git compare the files with our copy of the index once, so that stats agree."""
        self._start("update-index", "-q", "--refresh").output(allowed=(0, 1))

    def staged(self) -> set[bytes]:
        """Indexed paths whose object isn't in HEAD, so that nothing keeps it from being pruned."""
        if self.head is None:
            return {entry.path for entry in self.entries()}
        raw = self._start(
            "diff-index",
            "--cached",
            "--raw",
            "-z",
            "--no-renames",
            "--ignore-submodules=all",
            self.head,
        ).output()
        return set(raw_paths(raw))

    def converted(self, paths: Iterable[bytes]) -> set[bytes]:
        """Those paths whose files git may store in other bytes than they have."""
        listed = list(paths)
        if not self.converts_all and not self._has_attributes(listed):
            return set()
        out = self._start("check-attr", "-z", "--stdin", *_CONVERTING, given=True).output(
            b"\0".join([*listed, b""])
        )
        fields = out.split(b"\0")
        text_unset: set[bytes] = set()
        converted: set[bytes] = set()
        for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
            if value not in _HARMLESS:
                converted.add(path)
            elif name == b"text" and value == b"unset":
                text_unset.add(path)
        return converted | set(listed) - text_unset if self.converts_all else converted

    def _has_attributes(self, paths: list[bytes]) -> bool:
        if any(path == b".gitattributes" or path.endswith(b"/.gitattributes") for path in paths):
            return True
        if os.path.lexists(self.root / ".gitattributes") or _read(
            self.directory / "info/attributes"
        ):
            return True
        # Somebody else's home, such as after `su`, may be closed to this user, and to git as well.
        default = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  # never raises
        there = os.path.exists(os.path.join(default, "git", "attributes"))  # noqa: PTH110, PTH118  # the same
        return bool(self._attributes_file) or there

    def objects(self, oids: Iterable[str], bytes_max: int) -> dict[str, bytes]:
        """The bytes of objects; those that are missing or larger than `bytes_max` are left out."""
        wanted = sorted(set(oids))
        if not wanted:
            return {}
        listing = b"".join(f"{oid}\n".encode() for oid in wanted)
        sizes = self._start("cat-file", "--batch-check", given=True).output(listing)
        small = [
            line.split(b" ")[0]
            for line in sizes.split(b"\n")
            if line.count(b" ") == 2 and int(line.split(b" ")[2]) <= bytes_max  # noqa: PLR2004  # oid, type, size
        ]
        if not small:
            return {}
        data = self._start("cat-file", "--batch", given=True).output(b"\n".join(small) + b"\n")
        return dict(_batch(data))

    # --- running git ---------------------------------------------------------------------------

    def _start(self, *arguments: str, given: bool = False) -> Running:
        environ = git_environment()
        environ |= {
            "GIT_DIR": os.fspath(self.directory),
            "GIT_WORK_TREE": os.fspath(self.root),
            "GIT_INDEX_FILE": os.fspath(self.index),
            "GIT_OBJECT_DIRECTORY": os.fspath(self.common / "objects"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_PAGER": "cat",
            "LC_ALL": "C",
        }
        more = []
        if self._excludes:
            more += ["-c", f"core.excludesFile={self._excludes}"]
        if self._attributes_file:
            more += ["-c", f"core.attributesFile={self._attributes_file}"]
        return Running(["git", *_SAFE, *more, *arguments], environ, self.root, given=given)

    def _run_theirs(self, *arguments: str) -> bytes:
        """Ask the user's own repository; only for what reads settings and names, and runs nothing."""
        environ = git_environment()
        environ |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        command = ["git", *_SAFE, "--no-pager", *arguments]
        return Running(command, environ, self.root).output(allowed=(0, 1))


class Running:
    """A git process that has been started."""

    def __init__(
        self, command: list[str], environ: dict[str, str], cwd: Path, *, given: bool = False
    ) -> None:
        self._problem: OSError | None = None
        try:
            self._process = subprocess.Popen(
                command,
                env=environ,
                cwd=cwd,
                stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            self._problem = error

    def stop(self) -> None:
        """End it, if it still runs; what it printed is not wanted."""
        if self._problem is None and self._process.returncode is None:
            self._process.kill()
            self._process.communicate()

    def output(self, given: bytes | None = None, allowed: tuple[int, ...] = (0,)) -> bytes:
        """What it printed. Raises GitUnusableError when it failed or took too long."""
        if self._problem is not None:
            raise GitUnusableError(f"git can't be run: {self._problem}") from self._problem
        try:
            out, _ = self._process.communicate(given, _TIMEOUT_S)
        except BaseException as error:
            self._process.kill()
            self._process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise GitUnusableError(f"git took more than {_TIMEOUT_S} s") from error
            raise
        if self._process.returncode not in allowed:
            raise GitUnusableError(f"git failed with {self._process.returncode}")
        return out


def raw_paths(raw: bytes) -> list[bytes]:
    """The paths of `--raw -z` without renames: fields alternate between what and where."""
    return raw.split(b"\0")[1::2]


def parts(raw: bytes) -> list[bytes]:
    """The fields of a list that ends with a NUL."""
    return _parts(raw)


def _parts(raw: bytes) -> list[bytes]:
    return raw.split(b"\0")[:-1]


def _batch(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(data):
        newline = data.index(b"\n", at)
        head = data[at:newline].split(b" ")
        at = newline + 1
        if len(head) != 3:  # noqa: PLR2004  # "<oid> missing"
            continue
        size = int(head[2])
        yield head[0].decode(), data[at : at + size]
        at += size + 1


def _git_directory(root: Path) -> Path:
    entry = root / ".git"
    if os.path.isdir(entry):  # noqa: PTH112  # never raises
        return entry
    pointer = _read(entry)
    if pointer is None or not pointer.startswith(b"gitdir:"):
        raise GitUnusableError("no repository")
    target = os.fsdecode(pointer.removeprefix(b"gitdir:").strip())
    return Path(os.path.normpath(root / target))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
