from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.catalogue.conftest import List, Make, Search

from rewake.catalogue import database
from rewake.catalogue.database import open_catalogue
from rewake.catalogue.rebuild import reindex
from rewake.catalogue.search import search_sessions
from rewake.errors import CatalogueUnusableError, SearchUnavailableError
from rewake.log.disk import Disk

needs_mount = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting needs root"
)


def filled(make: Make, search: Search, home: Path) -> Path:
    """A catalogue with three sessions in it."""
    for number in range(3):
        make(f"s{number}", ("An otter", "Yes"))
    assert len(search("otter")) == 3
    return home / "catalogue.sqlite"


def test_its_files_are_private(make: Make, home: Path, search: Search) -> None:
    filled(make, search, home)
    with open_catalogue(home, Disk(), wait_ms=0) as catalogue:
        catalogue.connection.execute("INSERT INTO files VALUES (1, 'a')")
        there = sorted(path.name for path in home.glob("catalogue.*"))
        assert "catalogue.sqlite-wal" in there
        assert {stat.S_IMODE((home / name).stat().st_mode) for name in there} == {0o600}


@pytest.mark.parametrize("damage", ["garbage", "cut", "zeros", "empty", "middle", "other tables"])
def test_a_damaged_catalogue_is_made_anew(
    make: Make, home: Path, search: Search, listed: List, damage: str
) -> None:
    path = filled(make, search, home)
    before = listed()
    content = path.read_bytes()
    if damage == "garbage":
        path.write_bytes(b"This is no database. " * 1_000)
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2 - 100])
    elif damage == "zeros":
        path.write_bytes(bytes(len(content)))
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "middle":
        path.write_bytes(content[:4_096] + os.urandom(len(content) - 4_096))
    else:
        path.unlink()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE mine (a)")
            connection.execute("PRAGMA user_version = 1")
    assert listed() == before
    assert len(search("otter")) == 3
    assert listed() == before
    reindex(home, Disk())
    assert len(search("otter")) == 3


def test_a_missing_catalogue_is_made(make: Make, home: Path, search: Search) -> None:
    path = filled(make, search, home)
    path.unlink()
    assert len(search("otter")) == 3


def test_an_older_version_s_is_made_anew(make: Make, home: Path, search: Search) -> None:
    path = filled(make, search, home)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = -1")
    assert len(search("otter")) == 3


def test_a_newer_version_s_is_left_alone(
    make: Make, home: Path, search: Search, listed: List
) -> None:
    path = filled(make, search, home)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()
    assert listed().total == 3
    found = search_sessions(home, Disk(), "otter")
    assert len(found.hits) == 3
    assert "a newer Rewake made it" in found.problems[0]
    assert path.read_bytes() == content


def test_a_catalogue_that_is_in_use_is_never_deleted(
    make: Make, home: Path, search: Search
) -> None:
    path = filled(make, search, home)
    with open_catalogue(home, Disk(), wait_ms=0):
        with pytest.raises(CatalogueUnusableError, match="can't be used"):
            database.discard(home, Disk())
        assert path.exists()
    database.discard(home, Disk())
    assert not path.exists()


def test_a_writer_holds_up_neither_the_list_nor_what_is_known_already(
    make: Make, home: Path, search: Search, listed: List
) -> None:
    filled(make, search, home)
    before = listed()
    make("s4", ("An otter",))
    with (
        open_catalogue(home, Disk(), wait_ms=0) as other,
        other.transaction() as connection,
    ):
        connection.execute("INSERT INTO files VALUES (1, 'a')")
        assert listed().rows[1:] == before.rows
        assert listed().total == 4


def test_without_full_text_search_there_is_still_a_list(
    make: Make, home: Path, listed: List, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("s1", ("An otter",))
    monkeypatch.setattr(database, "has_full_text", lambda _connection: False)
    assert listed().total == 1
    assert listed().total == 1
    with pytest.raises(SearchUnavailableError, match="no full-text search"):
        search_sessions(home, Disk(), "otter")
    assert reindex(home, Disk()).sessions == 1


def test_a_file_system_without_locks_does_without(
    make: Make, home: Path, listed: List, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("s1", ("An otter",))
    real = Disk.lock

    def refuse(self: Disk, descriptor: int, operation: int) -> None:
        if os.path.samestat(os.fstat(descriptor), (home / "catalogue.lock").stat()):
            raise OSError(95, "Operation not supported")
        real(self, descriptor, operation)

    monkeypatch.setattr(Disk, "lock", refuse)
    assert listed().total == 1
    found = search_sessions(home, Disk(), "otter")
    assert len(found.hits) == 1
    assert "Searched without it" in found.problems[0]


@pytest.fixture
def read_only(make: Make, home: Path) -> Iterator[Path]:
    make("s1", ("An otter",))
    subprocess.run(["mount", "--bind", str(home), str(home)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(home)], check=True)
        yield home
    finally:
        subprocess.run(["umount", str(home)], check=True)


@needs_mount
def test_a_read_only_home_is_listed_and_searched(read_only: Path, listed: List) -> None:
    assert listed().total == 1
    found = search_sessions(read_only, Disk(), "otter")
    assert len(found.hits) == 1
    assert not (read_only / "catalogue.sqlite").exists()


def fill(directory: Path) -> None:
    with (directory / "filler").open("wb", buffering=0) as file:
        for size in (4_096, 1):  # to the last byte
            with suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass


@needs_mount
def test_on_a_full_disk_there_is_still_a_list(
    make: Make, home: Path, listed: List, search: Search
) -> None:
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(home)], check=True)
    try:
        filled(make, search, home)
        make("s4", ("A badger " * 100,))
        fill(home)
        assert listed().total == 4
        assert listed().rows[0].title.startswith("A badger")
        found = search_sessions(home, Disk(), "otter")
        assert len(found.hits) == 3
        assert found.problems
    finally:
        subprocess.run(["umount", str(home)], check=True)
