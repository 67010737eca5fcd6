"""Changing one file of the user, so that a crash at any moment can be settled by its content.

The rules kept here:

- Nothing is written before the intent is durable: `plan` stores both contents and says what would
  change; `apply` looks again and writes only what was planned, onto what was planned for.
- The target has the old bytes or the new ones, never less (a rename), and is durable with its
  directory when `apply` returns. Only a file with several names, or one that a rename would give
  to another owner, is written in place; recovery tells a cut there by both contents.
- Mode, owner and extended attributes stay. A link is followed, never replaced.
"""

# Descriptors and the order of system calls are the point here.
# ruff: noqa: PTH102, PTH104, PTH106, PTH108, PTH112, PTH116, PTH118, PTH120, PTH123

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput
from rewake.agent.tools.diff import line_counts, unified_diff
from rewake.agent.tools.paths import Target
from rewake.log.disk import crash_point
from rewake.model.content import Text
from rewake.model.events import Change, FileChangeIntent, FileRead, FileState, Outcome
from rewake.resume.chain import temporary_name

_FILE_BYTES_MAX: Final = 64 << 20
_READ_AGAIN: Final = "Read it again, then make your change on what is there now."
# What copying an extended attribute answers when it can't be done here; its loss is no error.
_NO_ATTRIBUTE: Final = frozenset({errno.ENOTSUP, errno.EPERM, errno.ENODATA, errno.EINVAL})


@dataclass(frozen=True, slots=True)
class Current:
    """The file before the change; `data` is None where there is none."""

    data: bytes | None
    state: FileState


@dataclass(frozen=True, slots=True)
class Plan:
    """One planned change. `told` is the result's first sentence."""

    call_id: str
    target: Target
    before: FileState
    after: FileState
    data: bytes
    told: str


def current(target: Target) -> Current:
    """The target's content and state. Raises ToolInputError for what is no changeable file."""
    try:
        status = os.stat(target.real)
    except FileNotFoundError:
        return Current(None, FileState())
    except OSError as error:
        raise ToolInputError(f"{target.shown} can't be used: {error.strerror or error}.") from error
    if stat.S_ISDIR(status.st_mode):
        raise ToolInputError(f"{target.shown} is a directory; give the path of a file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolInputError(f"{target.shown} is a device, a pipe or a socket, not a file.")
    if status.st_size > _FILE_BYTES_MAX:
        raise ToolInputError(f"{target.shown} is too large to be changed here; use Bash for it.")
    try:
        with open(target.real, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ToolInputError(f"{target.shown} can't be read: {error.strerror or error}.") from error
    if not os.access(target.real, os.W_OK):
        raise ToolInputError(f"{target.shown} is read-only; ask the user before changing that.")
    digest = hashlib.sha256(data).hexdigest()
    return Current(data, FileState("file", digest, len(data), stat.S_IMODE(status.st_mode)))


def require_read(target: Target, now: Current, context: ToolContext) -> None:
    """The lock: what is there must be what the model last saw. Raises ToolInputError."""
    if now.data is None:
        return
    known = context.files.read_hash(target.text)
    if known is None:
        raise ToolInputError(f"{target.shown} exists but was not read yet. Read it first.")
    if known != now.state.sha256:
        raise ToolInputError(f"{target.shown} has changed since you read it. {_READ_AGAIN}")


def plan(
    call_id: str,
    target: Target,
    now: Current,
    data: bytes,
    *,
    asked: str,
    told: str,
    context: ToolContext,
) -> Prepared:
    """The prepared call. Both contents are durable blobs when this returns.

    `asked` says what is about to be done ("Create a.py"), `told` that it was ("Created a.py").
    """
    *_, sha256 = context.blobs.put_all([data] if now.data is None else [now.data, data])
    mode = now.state.mode if now.state.mode is not None else 0o666 & ~_umask()
    after = FileState("file", sha256, len(data), mode)
    added, removed = line_counts(now.data or b"", data)
    size = f"(+{added} -{removed} lines)"
    change = Change(target.text, now.state, after, target.base64)
    return Prepared(
        intent=FileChangeIntent((change,)),
        subject=target.shown,
        summary=f"{asked} {size}",
        preview=unified_diff(target.shown, now.data, data),
        serial_keys=(target.real,),
        data=Plan(call_id, target, now.state, after, data, f"{told} {size}."),
    )


def apply(prepared: Prepared) -> ToolOutput:
    """Write what was planned; durable when this returns.

    An error output means that nothing changed. Raises OSError when that can't be said, which leaves
    the call to be settled by evidence.
    """
    planned, intent = prepared.data, prepared.intent
    if not isinstance(planned, Plan) or not isinstance(intent, FileChangeIntent):
        raise TypeError("this call was not prepared by a tool that changes files")
    problem = _changed_meanwhile(planned)
    if problem:
        return ToolOutput((Text(problem),), is_error=True)
    created = _Created()
    try:
        if planned.before.kind == "file" and _needs_writing_in_place(planned):
            _write_in_place(planned)
        else:
            _replace(planned, created)
    except _NothingWrittenError as error:
        created.undo()
        return ToolOutput((Text(str(error)),), is_error=True)
    outcome = Outcome(
        changes=intent.changes,
        reads=(FileRead(planned.target.text, planned.after.sha256 or ""),),
    )
    return ToolOutput((Text(planned.told),), outcome=outcome)


class _NothingWrittenError(Exception):
    """The target is as it was; the text says why."""


def _changed_meanwhile(planned: Plan) -> str:
    """Why the plan no longer fits what is there; empty when it does."""
    target = planned.target
    if os.path.realpath(target.real) != target.real:
        return f"{target.shown} now leads somewhere else. Nothing was changed. {_READ_AGAIN}"
    try:
        now = current(target)
    except ToolInputError as error:
        return f"{error} Nothing was changed."
    if (now.state.kind, now.state.sha256) != (planned.before.kind, planned.before.sha256):
        return f"{target.shown} was changed by somebody else. Nothing was written. {_READ_AGAIN}"
    return ""


# --- replacing a file ------------------------------------------------------------------------


class _Created:
    """Directories made for a new file, outermost first, so that a failure leaves none behind."""

    def __init__(self) -> None:
        self.directories: list[str] = []

    def make(self, directory: str) -> None:
        """Create what is missing of `directory`; the new entries are durable when this returns."""
        if os.path.isdir(directory):
            return
        parent = os.path.dirname(directory)
        self.make(parent)
        os.mkdir(directory)
        self.directories.append(directory)
        _sync_directory(parent)

    def undo(self) -> None:
        """Remove them again, where they are still empty."""
        for directory in reversed(self.directories):
            with contextlib.suppress(OSError):
                os.rmdir(directory)


def _replace(planned: Plan, created: _Created) -> None:
    target = planned.target.real
    directory = os.path.dirname(target)
    temporary = os.path.join(directory, temporary_name(planned.call_id))
    with _nothing_written(planned):
        created.make(directory)
        _write_temporary(planned, temporary)
    crash_point("before_replace_target")
    try:
        with _nothing_written(planned):
            os.rename(temporary, target)
    except _NothingWrittenError:
        _remove(temporary)
        raise
    crash_point("after_replace_target")
    _sync_directory(directory)


@contextlib.contextmanager
def _nothing_written(planned: Plan) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _NothingWrittenError(
            f"{planned.target.shown} could not be written: {error.strerror or error}. "
            "Nothing was changed."
        ) from error


def _write_temporary(planned: Plan, temporary: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    # A new file's mode is the umask's business; an existing one's is set below, before it shows.
    mode = 0o666 if planned.before.kind == "absent" else 0o600
    descriptor = os.open(temporary, flags, mode)
    try:
        _write_all(descriptor, planned.data)
        if planned.before.kind == "file":
            _keep_attributes(planned, descriptor)
        os.fsync(descriptor)
    except BaseException:
        _remove(temporary)
        raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _keep_attributes(planned: Plan, descriptor: int) -> None:
    target = planned.target.real
    status = os.stat(target)
    if (status.st_uid, status.st_gid) != _owner(descriptor):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    for name in _attribute_names(target):
        try:
            os.setxattr(descriptor, name, os.getxattr(target, name))
        except OSError as error:
            if error.errno not in _NO_ATTRIBUTE:
                raise
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _owner(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_uid, status.st_gid


def _attribute_names(target: str) -> list[str]:
    if not hasattr(os, "listxattr"):
        return []  # macOS: the standard library can't
    try:
        return os.listxattr(target)
    except OSError:
        return []


def _remove(temporary: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    # The system only tells the mask by setting it; a tight one meanwhile can't expose anything.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


# --- writing in place ------------------------------------------------------------------------


def _needs_writing_in_place(planned: Plan) -> bool:
    """Whether a rename would break a hard link or give the file to another owner."""
    status = os.stat(planned.target.real)
    if status.st_nlink > 1:
        return True
    if os.geteuid() == 0:
        return False  # may give a new file to anybody
    return status.st_uid != os.geteuid() or status.st_gid not in {os.getegid(), *os.getgroups()}


def _write_in_place(planned: Plan) -> None:
    flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    with _nothing_written(planned):
        descriptor = os.open(planned.target.real, flags)
    try:
        crash_point("before_replace_target")
        # Over the old bytes and cut afterwards: at every moment a beginning of the new content is
        # followed by the rest of the old one, which recovery can recognise.
        _write_all(descriptor, planned.data)
        os.ftruncate(descriptor, len(planned.data))
        crash_point("after_replace_target")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
