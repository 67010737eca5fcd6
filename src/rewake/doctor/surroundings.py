"""What lies around a transcript: permissions, leftover files, conflict copies, the lock.

The rule kept here: only looking. The session's directory is walked without following symlinks.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rewake.doctor.findings import Findings
from rewake.doctor.subject import Subject
from rewake.errors import RewakeError
from rewake.log.disk import DIRECTORY_MODE, FILE_MODE, Disk
from rewake.log.layout import SessionPaths
from rewake.log.lock import Holder, holder
from rewake.resume import shell

KEPT_PREFIX: Final = "damaged-"
_SUFFIX: Final = ".jsonl"
_kept: Final = re.compile(rf"\.{KEPT_PREFIX}\d{{8}}T\d{{6}}Z(-\d+)?").fullmatch
# What cloud storage puts between the name and its suffix: Dropbox and OneDrive " (…)", Syncthing
# ".sync-conflict-…", iCloud " 2", Nextcloud " (conflicted copy …)", OneDrive also "-HOSTNAME".
_conflict: Final = re.compile(r"[ ._(-].+").fullmatch
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def writer(subject: Subject, disk: Disk, findings: Findings) -> Holder | None:
    """Who writes the session right now; a lock that can't be used is a finding."""
    if os.path.isdir(subject.lock):  # noqa: PTH112  # unlike Path's, it never raises
        remedy = "Move the directory away."
        findings.add("lock_problem", "it is a directory", path=subject.lock, remedy=remedy)
        return None
    try:
        found = holder(subject.lock, disk)
    except RewakeError as error:
        findings.add("lock_problem", error.message, path=subject.lock, remedy=error.remedy)
        return None
    if found is not None:
        findings.add("being_written", f"by {found.describe()}", path=subject.lock)
    return found


def look_around(subject: Subject, findings: Findings, *, is_written: bool) -> None:
    """Note what lies beside the transcript and, in a home, who may read the session's files."""
    _look_for_copies(subject.transcript, findings)
    session = subject.session
    if session is None or subject.agent_id is not None:  # a sub-agent's files are its session's
        return
    for path in _files_of(session, findings):
        _check_access(path, findings)
        if path.name.endswith(".tmp") and not is_written and not _is_a_commands(path):
            findings.add("leftover_file", f"{path.name} is a temporary file", path=path)


def _is_a_commands(path: Path) -> bool:
    """Whether it is the room that a command which still runs has taken for its end."""
    try:
        return path.name == shell.EXIT_RESERVED and shell.state_of(path.parent).is_alive
    except OSError:
        return False


def is_kept_original(transcript: Path, name: str) -> bool:
    """Whether a file of this name is what a repair of `transcript` kept."""
    middle = _middle(transcript, name)
    return middle is not None and _kept(middle) is not None


def _look_for_copies(transcript: Path, findings: Findings) -> None:
    for name in _names(transcript.parent, findings):
        path = transcript.with_name(name)
        middle = _middle(transcript, name)
        if middle is None:
            continue
        if _kept(middle) is None:
            if _conflict(middle) is not None:
                findings.add("conflict_copy", f"{name} lies beside it", path=path)
        elif _is_same_file(path, transcript):
            detail = f"{name}: a repair was interrupted before it took effect"
            findings.add("leftover_file", detail, path=path, remedy="Run `rewake repair` on it.")
        else:
            findings.add("kept_original", name, path=path)


def _middle(transcript: Path, name: str) -> str | None:
    """What a name has between the transcript's own stem and its suffix."""
    stem = transcript.stem
    if name == transcript.name or not (name.startswith(stem) and name.endswith(_SUFFIX)):
        return None
    return name[len(stem) : -len(_SUFFIX)]


def _names(directory: Path, findings: Findings) -> list[str]:
    try:
        return sorted(path.name for path in directory.iterdir())
    except OSError as error:
        findings.add("unreadable_file", f"{directory}: {error.strerror}", path=directory)
        return []


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _files_of(session: SessionPaths, findings: Findings) -> Iterator[Path]:
    """The project's own directories, then everything in the session's."""
    yield from (session.project, session.blobs, session.directory.parent, session.directory)

    def note(error: OSError) -> None:
        path = Path(error.filename)
        findings.add("unreadable_file", f"{path}: {error.strerror}", path=path)

    for directory, directories, files in os.walk(session.directory, onerror=note):
        for name in sorted(directories + files):
            yield Path(directory, name)


def _check_access(path: Path, findings: Findings) -> None:
    try:
        found = path.lstat()
    except OSError:
        return  # it was removed meanwhile, or what is above it has its own finding
    if stat.S_ISLNK(found.st_mode):
        return
    wanted = DIRECTORY_MODE if stat.S_ISDIR(found.st_mode) else FILE_MODE
    mode = stat.S_IMODE(found.st_mode)
    if mode & _OTHERS or mode & wanted != wanted:
        detail = f"{path.name} has mode {mode:04o} instead of {wanted:04o}"
        findings.add("bad_permissions", detail, path=path, remedy=f"chmod {wanted:o} '{path}'")
    if found.st_uid != os.geteuid():
        detail = f"{path.name} belongs to user {found.st_uid}, you are {os.geteuid()}"
        findings.add("foreign_owner", detail, path=path)
