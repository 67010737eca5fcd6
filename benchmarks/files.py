"""What file history costs: a scan around a command, a tool's edit, a rewind, and the store's growth.

Beside each stands what does the same work without Rewake: `git status`, a bare scandir with stat, an
edit's syncs alone, a loop of write, sync and rename, full copies, and a shadow repository that is
added to every turn.
`python -m benchmarks.files --large` scans 50,000 files instead of 10,000.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.harness import (
    FULL,
    TINY,
    Figure,
    Setting,
    Target,
    interleaved,
    median_of,
    rows,
    say,
    seconds,
    setting,
)

import rewake
from rewake.compose.files import rewind_files, track_files, undo_files_rewind
from rewake.files.track import Tracker
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk

_MS: Final = 1_000
_MB: Final = 1e6
_FILES_A_DIRECTORY: Final = 20
_REWOUND: Final = 100
_EDIT_BYTES: Final = 10_000
_EDITS_A_ROUND: Final = 20
_COMMITS: Final = 2  # before the edit and after it
_EDITED_BYTES: Final = 100_000
# Younger files are hashed at every scan, which is not what is measured.
_SETTLED_S: Final = 2.5


def measure(where: Setting, files: int = 10_000) -> list[Figure]:
    """All figures of this benchmark."""
    is_tiny = where.sizes.name == TINY.name
    files, edits, rewound = (60, 5, 5) if is_tiny else (files, 1_000, _REWOUND)
    directory = where.directory / "files"
    figures = _scans(directory, files, where.sizes.rounds)
    figures += _edits(directory, where.sizes.rounds)
    figures += _rewinds(directory, rewound, min(where.sizes.rounds, 5))
    figures += _growth(directory, edits)
    shutil.rmtree(directory)
    return figures


# --- scans -----------------------------------------------------------------------------------


def _scans(directory: Path, files: int, rounds: int) -> list[Figure]:
    root = directory / "tree"
    for number in range(files):
        path = root / f"d{number // _FILES_A_DIRECTORY:05}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"value = %d\n" % number * 40)
        os.utime(path, (1e9, 1e9))
    time.sleep(_SETTLED_S)
    say(f"scanning {files} files without git")
    plain = _Calls(_tracker(root, directory / "plain"))
    plain.call()
    first = plain.before_s.pop()
    before, after, bare = plain.beside(partial(_bare, root), rounds)
    figures = [
        Figure("first scan without git (copies every file)", first * _MS, "ms"),
        _compared("scan before a command, no git", before, bare, "bare scandir and stat", 1.5),
        _compared("scan after a command, no git", after, bare, "bare scandir and stat", 1.5),
    ]
    _git(root, "init", "-q")
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", "all")
    time.sleep(_SETTLED_S)
    say(f"scanning {files} files with git")
    tracked = _Calls(_tracker(root, directory / "git"))
    tracked.call()
    first = tracked.before_s.pop()
    before, after, git = tracked.beside(partial(_git, root, "status", "--porcelain"), rounds)
    return [
        *figures,
        Figure("first scan with git", first * _MS, "ms"),
        _compared("scan before a command, git", before, git, "git status", 1.2),
        _compared("scan after a command, git", after, git, "git status", 1.2),
    ]


class _Calls:
    """Calls that change nothing, and how long the scans around them took."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self.before_s: list[float] = []
        self.after_s: list[float] = []

    def call(self) -> None:
        """One call, by itself."""
        self.before_s.append(seconds(partial(self._tracker.before, "call")))
        self.after_s.append(seconds(partial(self._tracker.after, "call")))

    def beside(self, other: Callable[[], object], rounds: int) -> tuple[float, float, float]:
        """The medians of both scans and of other work, in turns."""
        _, others = interleaved((self.call, other), rounds)
        middle = statistics.median
        return middle(self.before_s[-rounds:]), middle(self.after_s[-rounds:]), middle(others)


def _compared(name: str, taken: float, other: float, what: str, limit: float) -> Figure:
    """A time, judged by its ratio to the other one."""
    return Figure(f"{name}: ratio", taken / other, "x", Target("≤", limit), 1.0, what, _note(taken))


def _note(taken: float) -> str:
    return f"{taken * _MS:.1f} ms"


def _tracker(root: Path, directory: Path) -> Tracker:
    disk = Disk()
    blobs = directory / "blobs"
    bulk = BlobStore(blobs, disk, durable=False)
    return Tracker(
        root,
        directory / "files",
        BlobStore(blobs, disk, durable=True),
        disk=disk,
        bulk=(bulk, lambda: disk.sync_file_system(directory)),
    )


def _bare(root: Path) -> None:
    waiting = [os.fspath(root)]
    while waiting:
        with os.scandir(waiting.pop()) as listing:
            for entry in listing:
                entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


# --- edits -----------------------------------------------------------------------------------


def _edits(directory: Path, rounds: int) -> list[Figure]:
    """Syncs of edits in a new store, and their time beside that of the syncs alone."""
    say("edits by a tool")
    root = directory / "edited"
    root.mkdir()
    target = root / "file.py"
    data = b"value = 1\n" * (_EDIT_BYTES // 10)
    target.write_bytes(data)
    number = 0

    def edit() -> None:
        nonlocal data, number
        number += 1
        after = b"value = %010d\n" % number + data[18:]
        # The target's own syncs are the tool's, with and without tracking, so it has none here.
        with session.action("Edit", intent=rewake.FileChange(target, data, after)):
            target.write_bytes(after)
        data = after

    with rewake.open_session(root, home=directory / "edits") as session:
        track_files(session)
        session.user("Edit it")
        counts = []
        for _ in range(_EDITS_A_ROUND):
            with _noting_syncs() as syncs:
                edit()
            counts.append(len(syncs) - _COMMITS)
        with _noting_syncs() as syncs:
            edit()
        with _bare_syncs(directory / "bare", syncs, data) as bare:
            ours, theirs = median_of((edit, bare), rounds * _EDITS_A_ROUND)
    first, *later = counts
    name = "beyond the two commits and the target's own"
    return [
        Figure(f"syncs of a file's first edit {name}", first, "", Target("≤", 3)),
        Figure(f"syncs of its later edits {name}, the most", max(later), "", Target("≤", 3)),
        _compared("edit with tracking", ours, theirs, f"its {len(syncs)} syncs alone", 1.3),
    ]


Sync = tuple[bool, int]
"""Whether it was of a directory, and the file's bytes."""


@contextmanager
def _noting_syncs() -> Iterator[list[Sync]]:
    """Note what this process syncs; every sync of a session goes through these two functions."""
    noted: list[Sync] = []
    fsync, fdatasync = os.fsync, os.fdatasync

    def note(real: Callable[[int], None], descriptor: int) -> None:
        status = os.fstat(descriptor)
        noted.append((stat.S_ISDIR(status.st_mode), status.st_size))
        real(descriptor)

    os.fsync, os.fdatasync = partial(note, fsync), partial(note, fdatasync)
    try:
        yield noted
    finally:
        os.fsync, os.fdatasync = fsync, fdatasync


@contextmanager
def _bare_syncs(directory: Path, syncs: list[Sync], data: bytes) -> Iterator[Callable[[], None]]:
    """The same syncs by the fewest system calls: a new file and its directory, lines appended."""
    directory.mkdir()
    blobs = [size for is_directory, size in syncs[:-_COMMITS] if not is_directory]
    directories = sum(is_directory for is_directory, _ in syncs)
    line = bytes((syncs[-1][1] - syncs[-2][1]) or 1)
    entries = os.open(directory, os.O_RDONLY)
    log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    number = 0

    def bare() -> None:
        nonlocal number
        for size in blobs:
            number += 1
            blob = os.open(directory / f"{number}.tmp", os.O_WRONLY | os.O_CREAT)
            os.write(blob, data[:size])
            os.fdatasync(blob)
            os.close(blob)
            (directory / f"{number}.tmp").rename(directory / str(number))
        for _ in range(directories):
            os.fsync(entries)
        os.write(log, line)
        os.fdatasync(log)
        (directory / "target").write_bytes(data)
        os.write(log, line)
        os.fdatasync(log)

    try:
        yield bare
    finally:
        os.close(entries)
        os.close(log)


# --- rewinds ---------------------------------------------------------------------------------


def _rewinds(directory: Path, count: int, rounds: int) -> list[Figure]:
    say(f"rewinding {count} files")
    root = directory / "rewound"
    root.mkdir()
    contents = {root / f"f{number}": b"old %d\n" % number * 500 for number in range(count)}
    beside = directory / "beside"
    beside.mkdir()
    elsewhere = {beside / path.name: data for path, data in contents.items()}
    for path, data in (contents | elsewhere).items():
        path.write_bytes(data)
    with rewake.open_session(root, home=directory / "home") as session:
        track_files(session)
        asked = session.user("Change all")
        intent = rewake.ShellIntent("…", str(root), "outputs/x")
        with session.action("Bash", intent=intent) as action:
            for path in contents:
                path.write_bytes(b"new\n")
            action.complete("done")

        def there_and_back() -> None:
            done = rewind_files(session, asked)
            assert len(done.plan.changes) == count  # noqa: S101  # else nothing was measured
            undo_files_rewind(session)

        def bare() -> None:
            for _ in range(2):
                _write_all(elsewhere)

        taken = interleaved((there_and_back, bare), rounds)
    ours, theirs = (sorted(one)[len(one) // 2] / 2 for one in taken)
    return [_compared(f"rewind of {count} files", ours, theirs, "write, sync, rename", 1.5)]


def _write_all(contents: dict[Path, bytes]) -> None:
    for path, data in contents.items():
        temporary = path.with_name(f".{path.name}.tmp")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)


# --- growth ----------------------------------------------------------------------------------


def _growth(directory: Path, edits: int) -> list[Figure]:
    say(f"{edits} edits of a file of {_EDITED_BYTES // 1000} KB, kept in three ways")
    source = Path(os.__file__).read_bytes() + Path(random.__file__).read_bytes()
    lines = (source * 3)[:_EDITED_BYTES].split(b"\n")
    store = BlobStore(directory / "growth" / "blobs", Disk(), durable=True)
    copies, shadow = directory / "copies", directory / "shadow"
    copies.mkdir()
    shadow.mkdir()
    _git(shadow, "init", "-q")

    def copy(number: int, data: bytes) -> None:
        (copies / str(number)).write_bytes(data)

    def add(_number: int, data: bytes) -> None:
        (shadow / "file").write_bytes(data)
        _git(shadow, "add", "-A")
        _git(shadow, "write-tree")

    ways: tuple[Callable[[int, bytes], object], ...] = (
        lambda _number, data: store.put(data),
        copy,
        add,
    )
    taken = [0.0, 0.0, 0.0]
    chance = random.Random(1)
    for number in range(edits):
        lines[chance.randrange(len(lines))] = b"changed = %d" % number
        data = b"\n".join(lines)
        for index, way in enumerate(ways):
            began = time.perf_counter()
            way(number, data)
            taken[index] += time.perf_counter() - began
    sizes = [_size(store.directory), _size(copies), _size(shadow / ".git" / "objects")]
    names = ("blobs", "full copies", "a shadow git repository")
    bytes_figures = [
        Figure(f"store after {edits} edits, {name}", size / _MB, "MB")
        for name, size in zip(names, sizes, strict=True)
    ]
    time_figures = [
        Figure(f"time of an edit, {name}", one / edits * _MS, "ms")
        for name, one in zip(names, taken, strict=True)
    ]
    return bytes_figures + time_figures


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


if __name__ == "__main__":
    with setting(FULL, None) as whole:
        for row in rows(measure(whole, 50_000 if "--large" in sys.argv else 10_000)):
            print(row)
