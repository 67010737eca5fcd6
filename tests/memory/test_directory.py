"""A directory of notes under several writers, a full disk and files that nobody should read."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rewake.errors import NoteConflictError, NoteNotFoundError, StorageError, UsageError
from rewake.log.disk import Disk
from rewake.memory import directory as module
from rewake.memory.directory import MemoryDirectory
from rewake.memory.likeness import alike, proposals
from rewake.memory.note import Note, render_note

NOTE = Note("tabs", "Indentation", "Tabs.")


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_a_note_that_was_written_is_there_and_private(memory: MemoryDirectory) -> None:
    memory.write(NOTE, None)
    assert memory.read("tabs").note.body.strip() == "Tabs."
    assert (memory.path / "tabs.md").stat().st_mode & 0o777 == 0o600
    assert memory.path.stat().st_mode & 0o777 == 0o700
    assert names_in(memory.path) == ["MEMORY.md", "tabs.md"]


def test_reading_makes_nothing(memory: MemoryDirectory) -> None:
    assert memory.listing().notes == ()
    assert memory.find("tabs") is None
    assert memory.index() == ""
    assert not memory.path.exists()


def test_the_second_writer_of_one_note_is_told(memory: MemoryDirectory) -> None:
    memory.write(NOTE, None)
    with pytest.raises(NoteConflictError):
        memory.write(Note("tabs", "Other", "Spaces."), None)
    base = memory.read("tabs").sha256
    memory.write(Note("tabs", "Other", "Spaces."), base)
    with pytest.raises(NoteConflictError):
        memory.write(Note("tabs", "Third", "Both."), base)
    with pytest.raises(NoteConflictError):
        memory.forget("tabs", base)
    assert memory.read("tabs").note.body.strip() == "Spaces."


WRITER = """
import sys
from pathlib import Path
from rewake.errors import NoteConflictError
from rewake.log.disk import Disk
from rewake.memory.directory import MemoryDirectory
from rewake.memory.note import Note
path, who, mine, shared = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
directory = MemoryDirectory(path, "project", Disk())
for number in range(mine):
    directory.write(Note(f"own-{who}-{number}", f"Note {number} of {who}", "x"), None)
done = 0
while done < shared:
    now = directory.find("shared")
    body = (now.note.body.strip() + "\\n" if now else "") + f"{who} {done}"
    try:
        directory.write(Note("shared", "Everybody's", body), now.sha256 if now else None)
    except NoteConflictError:
        continue
    done += 1
"""


def test_processes_that_write_at_once_lose_nothing(memory: MemoryDirectory) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(memory.path), str(who), "5", "5"])
        for who in range(4)
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0, 0]
    lines = memory.read("shared").note.body.split()
    assert len(lines) == 2 * 4 * 5
    names = [stored.name for stored in memory.listing().notes]
    assert len(names) == 4 * 5 + 1
    index = memory.index()
    assert all(index.count(f"({name}.md)") == 1 for name in names)
    assert names_in(memory.path) == sorted([*(f"{n}.md" for n in names), "MEMORY.md"])


class FullDisk(Disk):
    """Has room for so many writes."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, descriptor: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= 1
        return super().write(descriptor, data)


def test_a_full_disk_leaves_the_note_as_it_was(memory: MemoryDirectory) -> None:
    memory.write(NOTE, None)
    before = {path.name: path.read_bytes() for path in memory.path.iterdir()}
    full = MemoryDirectory(memory.path, "project", FullDisk(0))
    with pytest.raises(StorageError, match="free some space"):
        full.write(Note("tabs", "Other", "Spaces."), memory.read("tabs").sha256)
    with pytest.raises(StorageError):
        full.write(Note("more", "More", "x"), None)
    assert {path.name: path.read_bytes() for path in memory.path.iterdir()} == before


def test_a_disk_that_fills_up_before_the_index_keeps_the_note_and_says_so(
    memory: MemoryDirectory,
) -> None:
    memory.write(NOTE, None)
    changed = MemoryDirectory(memory.path, "project", FullDisk(1)).write(
        Note("more", "More", "x"), None
    )
    assert "was left as it is" in changed.problem
    assert memory.read("more").note.body.strip() == "x"
    memory.write(Note("third", "Third", "x"), None)
    assert "(more.md)" in memory.index()


def test_what_a_killed_writer_left_is_removed_by_the_next(memory: MemoryDirectory) -> None:
    memory.write(NOTE, None)
    (memory.path / ".tabs.md.0123456789abcdef.tmp").write_text("half")
    (memory.path / ".keep.tmp").write_text("somebody's")
    memory.write(Note("more", "More", "x"), None)
    assert names_in(memory.path) == [".keep.tmp", "MEMORY.md", "more.md", "tabs.md"]


def test_a_directory_that_can_not_be_written_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("a file")
    with pytest.raises(StorageError):
        MemoryDirectory(tmp_path / "memory", "user", Disk()).write(NOTE, None)


def test_files_that_are_traps_are_problems_and_hide_no_note(
    memory: MemoryDirectory, tmp_path: Path
) -> None:
    memory.write(NOTE, None)
    secret = tmp_path / "shadow"
    secret.write_text("root:SECRET")
    (memory.path / "link.md").symlink_to(secret)
    os.mkfifo(memory.path / "pipe.md")
    (memory.path / "folder.md").mkdir()
    (memory.path / "binary.md").write_bytes(b"\x7fELF\0\0")
    (memory.path / "latin.md").write_bytes("caf\xe9".encode("latin-1"))
    (memory.path / "huge.md").write_bytes(b"word " * 200_000)
    (memory.path / ".hidden.md").write_text("x")
    found = memory.listing()
    assert [stored.name for stored in found.notes] == ["huge", "latin", "tabs"]
    assert found.notes[0].is_cut
    assert "caf\ufffd" in found.notes[1].note.body
    reasons = {problem.path.name: problem.reason for problem in found.problems}
    assert reasons == {
        "link.md": "it is a symbolic link",
        "pipe.md": "it is no regular file",
        "folder.md": "it is no regular file",
        "binary.md": "it is no text (it has NUL bytes)",
    }
    for name in ("link", "pipe", "folder", "binary"):
        with pytest.raises(NoteNotFoundError):
            memory.read(name)


def test_an_index_that_is_a_trap_is_left_alone(memory: MemoryDirectory, tmp_path: Path) -> None:
    memory.write(NOTE, None)
    target = tmp_path / "precious"
    target.write_text("precious")
    (memory.path / "MEMORY.md").unlink()
    (memory.path / "MEMORY.md").symlink_to(target)
    changed = memory.write(Note("more", "More", "x"), None)
    assert "symbolic link" in changed.problem
    assert target.read_text() == "precious"


def test_a_name_that_only_a_person_would_choose_can_be_read(memory: MemoryDirectory) -> None:
    memory.write(NOTE, None)
    (memory.path / "Über uns.md").write_text("Hallo.")
    assert memory.read("Über uns").note.body == "Hallo."
    with pytest.raises(UsageError):
        memory.read("../tabs")


def test_a_name_that_is_no_text_stands_in_the_index_as_it_is(memory: MemoryDirectory) -> None:
    memory.path.mkdir()
    Path(os.fsdecode(os.fsencode(memory.path) + b"/caf\xe9.md")).write_text("Coffee.")
    for note in (NOTE, Note("more", "More", "x")):
        memory.write(note, None)
    index = (memory.path / "MEMORY.md").read_bytes()
    assert index.count(b"- [caf\xe9](caf\xe9.md): Coffee.\n") == 1


def test_notes_are_bounded_in_number_and_size(
    memory: MemoryDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NOTES_MAX", 2)
    memory.write(NOTE, None)
    memory.write(Note("more", "More", "x"), None)
    with pytest.raises(UsageError, match="all it takes"):
        memory.write(Note("third", "Third", "x"), None)
    memory.write(Note("more", "More", "y"), memory.read("more").sha256)
    with pytest.raises(UsageError, match="all a note takes"):
        memory.write(Note("more", "More", "y" * 20_000), memory.read("more").sha256)
    with pytest.raises(UsageError, match="must say something"):
        memory.write(Note("more", "More", " \n"), memory.read("more").sha256)


def test_duplicates_and_old_notes_are_proposed(memory: MemoryDirectory) -> None:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    body = (
        "The staging server is restarted each night at three by cron, so jobs must be idempotent."
    )
    old = (now - timedelta(days=500)).date().isoformat()
    for note in (
        Note("restart", "Nightly restart of staging", body, updated="2026-11-01"),
        Note("nightly", "Staging restarts each night", body, updated="2026-11-02"),
        Note("owner", "Who owns the build", "Ada does.", created=old),
    ):
        memory.write(note, None)
    found = proposals(memory.listing().notes, now)
    assert [(one.kind, one.names) for one in found] == [
        ("duplicate", ("nightly", "restart")),
        ("stale", ("owner",)),
    ]
    assert alike(Note("new", "Restart of staging", body), memory.listing().notes) == [
        "nightly",
        "restart",
    ]


def test_a_note_says_when_it_was_written_as_far_as_it_knows(memory: MemoryDirectory) -> None:
    memory.path.mkdir()
    for name, said in (("day", "2026-01-02"), ("moment", "2026-01-02T03:04:05Z"), ("odd", "soon")):
        note = Note(name, name, "x", updated=said)
        (memory.path / f"{name}.md").write_text(render_note(note))
    day, moment, odd = (stored.written() for stored in memory.listing().notes)
    assert day == datetime(2026, 1, 2, tzinfo=UTC)
    assert moment == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert odd.tzinfo is not None


def test_a_note_of_its_file_s_day_is_as_old_as_the_file(memory: MemoryDirectory) -> None:
    """Not as old as that day: a list would call a new note one of many hours ago."""
    moment = datetime(2026, 1, 2, 21, 30, tzinfo=UTC)
    memory.write(Note("new", "New", "x", created="2026-01-02"), None)
    os.utime(memory.path / "new.md", (moment.timestamp(), moment.timestamp()))
    (listed,) = memory.listing().notes
    assert listed.written() == moment
