from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.catalogue.conftest import Make, Search, go_on

from rewake.catalogue import indexing
from rewake.catalogue.database import open_catalogue
from rewake.catalogue.files import Found, find_files
from rewake.catalogue.indexing import CaughtUp, catch_up
from rewake.catalogue.rebuild import Rebuilt, reindex
from rewake.log.disk import Disk
from rewake.log.layout import Layout


def fail(path: Path, error: OSError) -> None:
    raise AssertionError(f"{path}: {error}")


def caught_up(home: Path) -> CaughtUp:
    with open_catalogue(home, Disk(), wait_ms=1_000) as catalogue:
        return catch_up(catalogue, Disk(), find_files(Layout(home), None, fail))


def rows(home: Path, question: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(home / "catalogue.sqlite")) as connection:
        return connection.execute(question).fetchall()


def test_only_what_is_new_is_read(make: Make, home: Path, project: Path) -> None:
    paths = make("s1", ("One", "Two"))
    size = paths.transcript.stat().st_size
    assert caught_up(home).bytes_read == size
    assert caught_up(home) == CaughtUp()
    go_on(home, project, "s1", ("Three",))
    more = caught_up(home)
    assert more.bytes_read == paths.transcript.stat().st_size - size
    assert more.passages == 1


def test_a_torn_tail_is_read_when_it_is_whole(make: Make, home: Path, search: Search) -> None:
    paths = make("s1", ("One", "An otter"))
    whole = paths.transcript.read_bytes()
    cut = whole.index(b"otter")
    paths.transcript.write_bytes(whole[:cut])
    assert search("otter") == []
    with paths.transcript.open("ab") as file:
        file.write(whole[cut:])
    assert len(search("otter")) == 1
    assert len(search("one")) == 1


def test_a_file_that_was_swapped_is_read_anew(make: Make, search: Search) -> None:
    paths = make("s1", ("An otter",))
    other = make("s2", ("A badger", "x" * 5_000))
    assert len(search("otter")) == 1
    paths.transcript.unlink()
    shutil.copyfile(other.transcript, paths.transcript)
    assert search("otter") == []
    assert {hit.session_id for hit in search("badger")} == {"s1", "s2"}


def test_a_file_that_was_shortened_is_read_anew(make: Make, search: Search) -> None:
    paths = make("s1", ("An otter", "A badger"))
    assert len(search("badger")) == 1
    content = paths.transcript.read_bytes()
    with paths.transcript.open("r+b") as file:
        file.truncate(content.rindex(b"\n", 0, content.index(b"badger")) + 1)
    assert search("badger") == []
    assert len(search("otter")) == 1


def test_a_file_that_was_written_anew_in_place_is_read_anew(make: Make, search: Search) -> None:
    paths = make("s1", ("An otter",))
    other = make("s2", ("A badger and more of it", "x" * 500))
    assert len(search("otter")) == 1
    with paths.transcript.open("r+b") as file:  # the same inode
        file.truncate()
        file.write(other.transcript.read_bytes())
    assert search("otter") == []
    assert {hit.session_id for hit in search("badger")} == {"s1", "s2"}


def test_a_long_transcript_is_read_in_several_transactions(
    make: Make, home: Path, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "_CHUNK_CHARS", 100)
    make("s1", tuple(f"Otter number {number} " + "x" * 60 for number in range(30)))
    done: list[tuple[int, int]] = []
    with open_catalogue(home, Disk(), wait_ms=1_000) as catalogue:
        files = find_files(Layout(home), None, fail)
        catch_up(catalogue, Disk(), files, lambda *progress: done.append(progress))
    assert len(done) > 10
    assert [count for count, _ in done] == sorted(count for count, _ in done)
    assert done[-1] == (files[0].size, files[0].size)
    assert rows(home, "SELECT count(*) FROM passages") == [(30,)]
    assert len(search("number", limit=50)) == 3


def test_who_was_overtaken_writes_nothing_twice(
    make: Make, home: Path, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process catches up between this one's reading and its writing."""
    make("s1", ("An otter", "Another otter"))
    real = indexing._write
    nested: list[CaughtUp] = []

    def overtaken(*arguments: object) -> list[Found]:
        if not nested:
            nested.append(CaughtUp())
            nested[0] = caught_up(home)
        return real(*arguments)  # type: ignore[arg-type]  # handed on as they come

    monkeypatch.setattr(indexing, "_write", overtaken)
    late = caught_up(home)
    assert (nested[0].passages, late.passages) == (2, 0)
    assert rows(home, "SELECT count(*) FROM passages") == [(2,)]
    assert len(search("otter")) == 2


def test_who_was_overtaken_by_one_that_saw_less_reads_the_rest(
    make: Make, home: Path, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process looked at the file earlier, while it was still being written."""
    transcript = make("s1", ("An otter", "A badger")).transcript
    whole = transcript.read_bytes()
    half = whole.rindex(b"\n", 0, whole.index(b"badger")) + 1
    real = indexing._chunks
    nested: list[CaughtUp] = []

    def overtaken(*arguments: object) -> Iterator[object]:
        if not nested:
            nested.append(CaughtUp())
            os.truncate(transcript, half)
            nested[0] = caught_up(home)
            with transcript.open("ab") as file:
                file.write(whole[half:])
        yield from real(*arguments)  # type: ignore[arg-type]  # handed on as they come

    monkeypatch.setattr(indexing, "_chunks", overtaken)
    late = caught_up(home)
    assert (nested[0].passages, late.passages) == (1, 1)
    assert len(search("otter")) == len(search("badger")) == 1


WORKER = """
import sys
from pathlib import Path
import rewake
from rewake.catalogue.listing import list_sessions
from rewake.catalogue.search import search_sessions
from rewake.log.disk import Disk

home, project, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
sys.stdin.readline()
problems = []
for number in range(6):
    with rewake.open_session(
        project, home=home, durability="process", session_id=f"{name}-{number}", trace=False
    ) as session:
        session.user(f"The otter of {name} {number}")
        session.assistant("A badger")
        session.terminal("done")
    found = search_sessions(home, Disk(), f'"otter of {name} {number}"')
    problems += found.problems
    assert [hit.session_id for hit in found.hits] == [f"{name}-{number}"], found
    listed = list_sessions(home, Disk(), on_problem=lambda *_: None)
    assert f"{name}-{number}" in {row.session_id for row in listed.rows}
print(problems)
"""


@pytest.mark.parametrize("count", [2, 10])
def test_many_processes_write_list_and_search_at_once(
    home: Path, project: Path, search: Search, count: int
) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(home), str(project), f"p{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * count
    assert printed == ["[]\n"] * count
    assert len(search("otter", limit=1_000)) == 6 * count
    assert rows(home, "SELECT count(*) FROM passages") == [(12 * count,)]
    assert rows(home, "SELECT count(DISTINCT session || ' ' || line) FROM passages") == [
        (12 * count,)
    ]
    assert rows(home, "PRAGMA integrity_check") == [("ok",)]


# --- made anew -------------------------------------------------------------------------------


def test_everything_made_anew_is_as_before(make: Make, home: Path, search: Search) -> None:
    for number in range(3):
        make(f"s{number}", ("An otter", "Yes"))
    before = search("otter")
    done = reindex(home, Disk())
    assert (done.sessions, done.passages, done.problems) == (3, 6, ())
    assert search("otter") == before


def test_one_project_is_made_anew_and_what_is_gone_is_forgotten(
    make: Make, home: Path, search: Search, project: Path, tmp_path: Path
) -> None:
    make("s1", ("An otter",))
    gone = make("s2", ("An otter",))
    make("s3", ("An otter",), root=tmp_path / "other")
    assert len(search("otter")) == 3
    shutil.rmtree(gone.directory)
    assert reindex(home, Disk(), project).sessions == 1
    assert rows(home, "SELECT count(*) FROM sessions") == [(2,)]
    assert rows(home, "SELECT count(*) FROM passages") == [(2,)]
    assert {hit.session_id for hit in search("otter")} == {"s1", "s3"}


def test_made_anew_under_a_process_that_has_it_open(make: Make, home: Path, search: Search) -> None:
    make("s1", ("An otter",))
    search("otter")
    with open_catalogue(home, Disk(), wait_ms=1_000) as other:
        assert reindex(home, Disk()).passages == 1
        assert other.connection.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
    assert len(search("otter")) == 1


def test_an_empty_home_has_nothing_to_index(home: Path) -> None:
    assert reindex(home, Disk()) == Rebuilt(0, 0, 0, ())
    assert not home.exists()
