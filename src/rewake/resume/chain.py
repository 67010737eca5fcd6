"""Interrupted file changes against the files: which were applied, path by path.

The rule kept here: the calls on one path are a chain in the order in which they started (writes of
one path never overlap), so a content that is met proves a position in the chain, and the position
gives each call its verdict. Only a leftover temporary file of the very call is removed.
"""

# Paths are bytes here, because they may be no text.
# ruff: noqa: PTH108, PTH115, PTH118, PTH120, PTH123

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from rewake.errors import StorageError
from rewake.model.content import JsonObject
from rewake.model.events import Change, FileChangeIntent, FileRead, FileState

ChainVerdict = Literal["applied", "not_applied", "partial", "unknown"]
_READ_BYTES: Final = 1 << 20
# Comparing byte by byte wants both contents in memory; beyond this a cut write stays unknown.
_COMPARE_BYTES_MAX: Final = 64 << 20


class FileVerdict(msgspec.Struct, frozen=True):
    """One change of one call: what was concluded, from which content."""

    change: Change
    verdict: ChainVerdict
    actual: FileState | None = None
    error: str = ""
    temporary_removed: bool = False

    def evidence(self) -> JsonObject:
        """The proof as it goes into the transcript."""
        facts: JsonObject = {
            "path": self.change.path,
            "verdict": self.verdict,
            "expected_before": _short(self.change.before),
            "expected_after": _short(self.change.after),
            "actual": _short(self.actual) if self.actual is not None else None,
        }
        if self.error:
            facts["error"] = self.error
        if self.temporary_removed:
            facts["temporary_removed"] = True
        return facts

    def reads(self) -> tuple[FileRead, ...]:
        """What the model knows of the file now: the content that it wrote itself."""
        after = self.change.after
        if self.verdict != "applied" or after.kind != "file" or after.sha256 is None:
            return ()
        return (FileRead(self.change.path, after.sha256),)


def temporary_name(call_id: str) -> str:
    """The name of the file beside its target that a call writes before it renames."""
    return f".rewake-{call_id}.tmp"


def path_of(change: Change) -> bytes:
    """The path as the system takes it, also where it isn't UTF-8. Raises ValueError when damaged."""
    if change.path_base64 is not None:
        return base64.b64decode(change.path_base64, validate=True)
    return os.fsencode(change.path)


def settle_files(
    calls: Sequence[tuple[str, FileChangeIntent]],
    read_blob: Callable[[str], bytes] | None,
    *,
    clean: bool,
) -> Mapping[str, list[FileVerdict]]:
    """The verdict of every change of every call, which must be given in start order.

    With `clean`, temporary files that the calls left behind are removed.
    """
    chains: dict[bytes, list[tuple[str, Change]]] = {}
    verdicts: dict[str, list[FileVerdict]] = {call_id: [] for call_id, _ in calls}
    for call_id, intent in calls:
        for change in intent.changes:
            try:
                path = path_of(change)
            except ValueError as error:
                verdicts[call_id].append(_unknown(change, f"the recorded path is damaged: {error}"))
            else:
                chains.setdefault(path, []).append((call_id, change))
    for path, chain in chains.items():
        removed = [clean and _remove_temporary(path, call_id) for call_id, _ in chain]
        settled = _settle_path(path, [change for _, change in chain], read_blob)
        for (call_id, _), verdict, was_removed in zip(chain, settled, removed, strict=True):
            verdicts[call_id].append(
                msgspec.structs.replace(verdict, temporary_removed=was_removed)
            )
    return verdicts


def _unknown(change: Change, error: str, actual: FileState | None = None) -> FileVerdict:
    return FileVerdict(change, "unknown", actual, error)


def _settle_path(
    path: bytes, chain: Sequence[Change], read_blob: Callable[[str], bytes] | None
) -> list[FileVerdict]:
    try:
        actual = observe(path)
    except (OSError, ValueError) as error:
        return [_unknown(change, f"the file can't be looked at: {error}") for change in chain]
    position = _position(actual, chain)
    if position is not None:
        return [
            FileVerdict(change, "applied" if at < position else "not_applied", actual)
            for at, change in enumerate(chain)
        ]
    cut = _cut_short(path, actual, chain, read_blob)
    if cut is None:
        return [_unknown(change, "", actual) for change in chain]
    return [FileVerdict(change, _beside(at, cut), actual) for at, change in enumerate(chain)]


def _beside(at: int, cut: int) -> ChainVerdict:
    if at == cut:
        return "partial"
    return "applied" if at < cut else "not_applied"


def _position(actual: FileState, chain: Sequence[Change]) -> int | None:
    """How many changes of the chain were applied; the most, where a content comes twice."""
    for position in range(len(chain), -1, -1):
        if position > 0 and _is(actual, chain[position - 1].after, chain[position - 1]):
            return position
        if position < len(chain) and _is(actual, chain[position].before, chain[position]):
            return position
    return None


def _is(actual: FileState, expected: FileState, change: Change) -> bool:
    if actual.kind != expected.kind:
        return False
    # Permissions decide only where they are all that the change was about.
    only_mode = content_of(change.before) == content_of(change.after)
    if only_mode and change.before.mode != change.after.mode and actual.mode != expected.mode:
        return False
    if expected.kind == "file":
        return expected.sha256 is not None and actual.sha256 == expected.sha256
    return content_of(actual) == content_of(expected)


def content_of(state: FileState) -> tuple[str, str | None, str | None, str | None]:
    """All of a state but its permissions; equal for equal contents."""
    return state.kind, state.sha256, state.target, state.target_base64


# --- the file as it is -----------------------------------------------------------------------


def observe(path: bytes) -> FileState:
    """What is at `path` now; a symlink is not followed. Raises OSError, also for special files."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return FileState()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return FileState("directory", mode=mode)
    if stat.S_ISLNK(status.st_mode):
        return _symlink(os.readlink(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{os.fsdecode(path)!r} is a device, a pipe or a socket")
    return _hash(path, mode)


def _symlink(target: bytes) -> FileState:
    try:
        return FileState("symlink", target=target.decode())
    except UnicodeDecodeError:
        return FileState("symlink", target_base64=base64.b64encode(target).decode())


def _hash(path: bytes, mode: int) -> FileState:
    digest, size = hashlib.sha256(), 0
    # Not blocking and not following, in case the path becomes a pipe or a link just now.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags)
    try:
        while chunk := os.read(descriptor, _READ_BYTES):
            digest.update(chunk)
            size += len(chunk)
    finally:
        os.close(descriptor)
    return FileState("file", digest.hexdigest(), size, mode)


def _short(state: FileState) -> JsonObject:
    return {"kind": state.kind, "sha256": state.sha256, "size": state.size}


def _remove_temporary(path: bytes, call_id: str) -> bool:
    name = os.fsencode(temporary_name(call_id))
    if b"/" in name or b"\0" in name:
        return False
    try:
        os.unlink(os.path.join(os.path.dirname(path), name))
    except (OSError, ValueError):
        return False  # missing, or not ours to remove; either way it decides nothing
    return True


# --- writes that were cut short --------------------------------------------------------------


def _cut_short(
    path: bytes,
    actual: FileState,
    chain: Sequence[Change],
    read_blob: Callable[[str], bytes] | None,
) -> int | None:
    """The change that was being written in place when it stopped, or None."""
    if actual.kind != "file":
        return None
    if actual.size == 0 and len(chain) == 1 and chain[0].after.size > 0:
        return 0  # opened for writing, which empties a file, and not written
    if read_blob is None or actual.size > _COMPARE_BYTES_MAX:
        return None
    with contextlib.suppress(OSError, StorageError):
        with open(path, "rb") as file:
            content = file.read()
        for at in range(len(chain) - 1, -1, -1):
            if _is_between(content, chain[at], read_blob):
                return at
    return None


def _is_between(content: bytes, change: Change, read_blob: Callable[[str], bytes]) -> bool:
    """Whether `content` is a beginning of `after`, alone or still followed by the rest of `before`."""
    after = _blob(change.after, read_blob)
    common = _common(content, after)
    if common == 0:
        return False
    if common == len(content):
        return True
    before = _blob(change.before, read_blob)
    # Bytes may agree with both by chance, so the seam is looked for at any place up to `common`.
    return len(content) == max(common, len(before)) and content[common:] == before[common:]


def _common(one: bytes, other: bytes) -> int:
    """How many bytes agree from the beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _blob(state: FileState, read_blob: Callable[[str], bytes]) -> bytes:
    if state.sha256 is None or state.size > _COMPARE_BYTES_MAX:
        return b""
    return read_blob(state.sha256)
