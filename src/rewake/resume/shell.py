"""What became of a shell command, read from its output directory alone.

The rule kept here: the answer comes from the files and the lock of docs/format.md, "Shell", never
from a process id. Two questions, two files: `exit` says how the command ended, the lock of `alive`
says whether anything it started still lives.

| `start` | `exit` | lock | state |
| --- | --- | --- | --- |
| missing | | | never started (after `claim`, for certain) |
| there | there | free | finished |
| there | there | held | finished, with background processes |
| there | missing | held | running |
| there | missing | free | vanished: killed with its wrapper, or the machine went down |
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import re
from collections import deque
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeVar

import msgspec

from rewake.log.disk import Disk

START: Final = "start"
ALIVE: Final = "alive"
STDOUT: Final = "stdout"
STDERR: Final = "stderr"
EXIT: Final = "exit"
EXIT_RESERVED: Final = "exit.tmp"

_CLAIMED: Final = b"claimed by recovery\n"
# About 8,000 tokens of a model's context for both streams together; the rest stays in the files.
_STDOUT_CHARS: Final = (8_000, 16_000)
_STDERR_CHARS: Final = (2_000, 6_000)
# A longer line is looked at in pieces of this size.
_LINE_BYTES_MAX: Final = 1 << 20
_CONTROL: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles, links
    r"|\x1b[@-Z\\-_]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_CHARACTER_BYTES_MAX: Final = 4
_CONTINUATION: Final = range(0x80, 0xC0)  # bytes that can't begin a UTF-8 character

_Record = TypeVar("_Record")
ShellState = Literal["never_started", "running", "finished", "vanished"]


class ShellExit(msgspec.Struct, frozen=True):
    """The wrapper's record of the end. One of `exit_code` and `signal` is set."""

    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    output_limit: bool = False
    cancelled: bool = False
    output_bytes_dropped: int = 0
    duration_ms: int = 0
    finished_at: str = ""
    boot_id: str = ""


class ShellStart(msgspec.Struct, frozen=True):
    """The wrapper's record of the beginning; empty if it died while writing it."""

    pid: int = 0
    boot_id: str = ""
    started_at: str = ""


class Excerpt(msgspec.Struct, frozen=True):
    """The head and the tail of one output file as plain text; `size` is the whole file's bytes."""

    path: str
    text: str = ""
    size: int = 0
    cut: bool = False


class ShellSeen(msgspec.Struct, frozen=True):
    """A mere look: the state, and whether anything that the command started still lives."""

    state: ShellState
    is_alive: bool


class ShellStatus(msgspec.Struct, frozen=True):
    """What the directory says. `background`: something that the command started still lives."""

    state: ShellState
    stdout: Excerpt
    stderr: Excerpt
    start: ShellStart = ShellStart()
    exit: ShellExit | None = None
    background: bool = False


def is_below(directory: Path, session_directory: Path) -> bool:
    """Whether an output directory, as recorded, is inside its session's: a file can claim anything."""
    try:
        return session_directory.resolve() in directory.resolve().parents
    except (OSError, ValueError, RuntimeError):  # no path at all, or links in a circle
        return False


def inspect(directory: Path, *, claim: bool = False) -> ShellStatus:
    """Read the status. Raises OSError when the files can't be read.

    With `claim`, a command without `start` is kept from ever starting (`start` is created in its
    place, and the directory where it is missing), so that "never started" stays true.
    """
    if claim:
        _claim_if_possible(directory)
    state, background = _state(directory)
    exit_record = _read(directory / EXIT, ShellExit) if state == "finished" else None
    return ShellStatus(
        state=state,
        stdout=_excerpt(directory / STDOUT, *_STDOUT_CHARS),
        stderr=_excerpt(directory / STDERR, *_STDERR_CHARS),
        start=_read(directory / START, ShellStart) or ShellStart(),
        exit=exit_record or (ShellExit() if state == "finished" else None),
        background=background,
    )


def state_of(directory: Path) -> ShellSeen:
    """Only the state: no output is read. Raises OSError."""
    state, background = _state(directory)
    return ShellSeen(state, background or state == "running")


def exit_of(directory: Path) -> ShellExit:
    """The record of the end; empty where there is none or it is damaged."""
    return _read(directory / EXIT, ShellExit) or ShellExit()


def wait(directory: Path) -> ShellStatus:
    """Block until nothing of the command lives any more, then tell how it ended."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(directory / ALIVE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)
    return inspect(directory)


def _claim_if_possible(directory: Path) -> None:
    try:
        _claim(directory)
    except OSError:
        # A full disk has no room for the claim. None is needed where `alive` is free: the wrapper
        # holds it from its birth, so there is nobody left who could start the command.
        if _is_held(directory / ALIVE):
            raise


def _claim(directory: Path) -> None:
    Disk().make_directory(directory)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    try:
        descriptor = os.open(directory / START, flags, 0o600)
    except FileExistsError:
        return
    try:
        os.write(descriptor, _CLAIMED)
        os.fsync(descriptor)
    except OSError:
        (directory / START).unlink()  # an empty `start` would look like one of the wrapper's
        raise
    finally:
        os.close(descriptor)
    Disk().sync_directory(directory)


def _state(directory: Path) -> tuple[ShellState, bool]:
    try:
        start = (directory / START).read_bytes()
    except FileNotFoundError:
        return "never_started", False
    if start == _CLAIMED:
        return "never_started", False
    # The lock first: a command that ends between the two questions has its exit on disk by then.
    held = _is_held(directory / ALIVE)
    if (directory / EXIT).exists():
        return "finished", held
    return ("running" if held else "vanished"), False


def _is_held(alive: Path) -> bool:
    try:
        descriptor = os.open(alive, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read(path: Path, record_type: type[_Record]) -> _Record | None:
    """The record, or None where the file is missing or was cut short by a crash."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=record_type)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


# --- output ----------------------------------------------------------------------------------


class Piece(msgspec.Struct, frozen=True):
    """What one output file has from an offset on; `end` is the offset to go on from."""

    text: str
    end: int


def read_from(path: Path, offset: int, *, only: str = "", ended: bool = False) -> Piece:
    """What was written since `offset` bytes, as plain text: all of it, or its head and tail.

    A character at the end that isn't there as a whole yet is left for the next time; with `only`, which
    takes just the lines that have this text in them, a line is, unless the command has `ended`. A file that was cut meanwhile, because it was over
    its limit, is read from the beginning of its tail.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = offset if offset <= size else max(size - sum(_STDOUT_CHARS), 0)
            file.seek(begin)
            if only:
                return _matching(file, only, begin, ended=ended)
            left_out = size - begin - sum(_STDOUT_CHARS)
            if left_out <= 0:
                data = _whole_characters(file.read(size - begin))
                return Piece(plain(data), begin + len(data))
            head = file.read(_STDOUT_CHARS[0])
            file.seek(size - _STDOUT_CHARS[1])
            tail = _whole_characters(file.read(_STDOUT_CHARS[1]))
    except FileNotFoundError:
        return Piece("", 0)
    note = f"\n[… {left_out} bytes left out; all of it is in {path} …]\n"
    text = plain(head, cut_end=True) + note + plain(tail, cut_start=True)
    return Piece(text, size - _STDOUT_CHARS[1] + len(tail))


def _matching(file: BinaryIO, only: str, begin: int, *, ended: bool) -> Piece:
    """The lines with a text in them: the newest ones, as many as fit."""
    wanted = os.fsencode(only)
    found: deque[bytes] = deque()
    kept = dropped = 0
    end = begin
    while line := file.readline(_LINE_BYTES_MAX):
        if not line.endswith(b"\n") and len(line) < _LINE_BYTES_MAX and not ended:
            break
        end += len(line)
        if wanted not in line:
            continue
        found.append(line)
        kept += len(line)
        while kept > sum(_STDOUT_CHARS) and len(found) > 1:
            kept -= len(found.popleft())
            dropped += 1
    note = f"[… {dropped} earlier lines with it left out …]\n" if dropped else ""
    return Piece(note + plain(b"".join(found)), end)


def _whole_characters(data: bytes) -> bytes:
    """Without the beginning of a UTF-8 character at the end, which may be written on."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-_CHARACTER_BYTES_MAX:])
    pending, _ = decoder.getstate()
    return data[: len(data) - len(pending)]


def _excerpt(path: Path, head_bytes: int, tail_bytes: int) -> Excerpt:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= head_bytes + tail_bytes:
                return Excerpt(str(path), plain(file.read(head_bytes + tail_bytes)), size)
            head = file.read(head_bytes)
            file.seek(size - tail_bytes)
            tail = file.read(tail_bytes)
    except FileNotFoundError:
        return Excerpt(str(path))
    left_out = size - head_bytes - tail_bytes
    note = f"\n[… {left_out} bytes left out; all of it is in {path} …]\n"
    text = plain(head, cut_end=True) + note + plain(tail, cut_start=True)
    return Excerpt(str(path), text, size, cut=True)


def describe_exit(status: ShellStatus) -> str:
    """One sentence on how the command ended."""
    ended = status.exit or ShellExit()
    seconds = f"{ended.duration_ms / 1000:.1f} s"
    if ended.timed_out:
        how = f"Timed out after {seconds}; it and everything it had started were killed."
    elif ended.output_limit:
        how = f"Killed after {seconds}: its output reached the limit."
    elif ended.cancelled:
        how = f"Stopped after {seconds}: somebody asked for it."
    elif ended.signal is not None:
        how = f"Killed by signal {ended.signal} after {seconds}."
    elif ended.exit_code is not None:
        how = f"Exit code {ended.exit_code} after {seconds}."
    else:
        how = "It ended, but its exit record is damaged."
    if ended.output_bytes_dropped:
        how += (
            f" {ended.output_bytes_dropped} bytes of its output were over the limit and not kept."
        )
    if status.background:
        return f"{how} Processes that it started still run in the background."
    return how


def describe_output(status: ShellStatus) -> str:
    """Both streams' excerpts, the second one marked; empty when nothing was written."""
    parts = [status.stdout.text.rstrip("\n")]
    if status.stderr.text.strip():
        parts.append(f"[stderr]\n{status.stderr.text.rstrip(chr(10))}")
    return "\n".join(part for part in parts if part)


def plain(data: bytes, *, cut_start: bool = False, cut_end: bool = False) -> str:
    """Text of a terminal's bytes: replacements for what is no UTF-8, no control characters.

    A character that was cut apart at a `cut` end is left out, not replaced.
    """
    start = 0
    while cut_start and start < min(3, len(data)) and data[start] in _CONTINUATION:
        start += 1
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data[start:], final=not cut_end)
    return _CONTROL.sub("", text.replace("\r\n", "\n")).replace("\r", "\n")
