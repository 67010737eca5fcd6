"""Notes are found by what a prompt is about, in a directory of one as in one of many."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rewake.log.disk import Disk
from rewake.memory.directory import MemoryDirectory
from rewake.memory.note import Note, render_note
from rewake.memory.note_index import NAME
from rewake.memory.ranking import Hit, rank
from rewake.memory.words import query_words

LABELLED = json.loads(
    (Path(__file__).parents[2] / "benchmarks" / "data" / "recall.json").read_text("utf-8")
)


def put(memory: MemoryDirectory, *notes: Note) -> None:
    memory.path.mkdir(exist_ok=True)
    for note in notes:
        (memory.path / f"{note.name}.md").write_text(render_note(note), "utf-8")


def found(memory: MemoryDirectory, text: str, cache: Path | None = None) -> list[str]:
    """The notes that a prompt would recall."""
    return [hit.stored.name for hit in hits(memory, text, cache) if hit.passes]


def hits(memory: MemoryDirectory, text: str, cache: Path | None = None) -> list[Hit]:
    return rank([memory], text, cache=cache, disk=Disk())


RELEASE = Note("release", "How a release of the library is made", "Tag it, wait for the wheel.")


def test_a_single_note_is_found_and_an_unrelated_prompt_finds_none(memory: MemoryDirectory) -> None:
    put(memory, RELEASE)
    assert found(memory, "make a release") == ["release"]
    assert found(memory, "Please write a haiku about autumn.") == []
    assert found(memory, "the of and") == []
    assert found(memory, "") == []
    assert found(memory, "?!") == []


@pytest.mark.parametrize(
    "text", ["releases", "releasing the library", "RELEASED!", "re-release", "library"]
)
def test_forms_of_a_word_are_one_word(memory: MemoryDirectory, text: str) -> None:
    put(memory, RELEASE)
    assert found(memory, text) == ["release"]


def test_words_that_the_stemmer_takes_apart_are_one_word(memory: MemoryDirectory) -> None:
    put(memory, Note("deploy", "Deployments of the service", "Use the script."))
    assert found(memory, "deploy it") == ["deploy"]


@pytest.mark.parametrize(
    ("description", "prompt"),
    [
        ("データベースの移行手順", "移行を始めてください"),
        ("数据库迁移的步骤", "请开始迁移"),
        ("ขั้นตอนการย้ายฐานข้อมูล", "ย้ายฐานข้อมูล"),
        ("Миграция базы данных", "базы данных"),
        ("Überblick über Prüfungen", "ÜBERBLICK bitte"),
        ("createOrder needs a lock", "why does create order hang"),
        ("The HTTPServer class", "http server"),
        ("C++ templates", "c++ template error"),
    ],
)
def test_other_languages_and_names_in_code_are_found(
    memory: MemoryDirectory, description: str, prompt: str
) -> None:
    put(memory, Note("note", description, "x"), RELEASE)
    assert found(memory, prompt) == ["note"]


def test_a_word_in_the_name_says_more_than_one_in_the_text(memory: MemoryDirectory) -> None:
    put(
        memory,
        Note("vacuum", "Settings of the tables", "x " * 20),
        Note("other", "Something else", "Long text with vacuum somewhere. " + "y " * 20),
    )
    assert [hit.stored.name for hit in hits(memory, "vacuum")] == ["vacuum", "other"]


def test_a_long_unrelated_prompt_recalls_nothing(memory: MemoryDirectory) -> None:
    put(memory, *(labelled_notes()))
    log = "\n".join(
        f"2026-11-30 worker {n} wrote page {n * 7} of image to disk" for n in range(500)
    )
    assert found(memory, f"What does this mean?\n{log}") == []


def labelled_notes() -> list[Note]:
    return [
        Note(one["name"], one["description"], one["body"], one["type"]) for one in LABELLED["notes"]
    ]


def test_the_labelled_set_is_one_that_can_be_measured_by() -> None:
    names = {one["name"] for one in LABELLED["notes"]}
    assert len(names) == len(LABELLED["notes"]) >= 60
    assert len(LABELLED["queries"]) >= 40
    assert all(set(one["relevant"]) <= names for one in LABELLED["queries"])
    assert sum(not one["relevant"] for one in LABELLED["queries"]) >= 10


def test_ranked_search_is_good_enough_to_stand_alone(
    memory: MemoryDirectory, tmp_path: Path
) -> None:
    """A guard against a change that breaks ranking; the figures are in docs/benchmarks.md."""
    put(memory, *labelled_notes())
    right, recalled, noise = [], [], 0
    for query in LABELLED["queries"]:
        names = found(memory, query["text"], tmp_path)[:5]
        wanted = set(query["relevant"])
        if wanted:
            recalled.append(len(wanted.intersection(names)) / len(wanted))
        else:
            noise += bool(names)
        if names:
            right.append(len(wanted.intersection(names)) / len(names))
    assert sum(right) / len(right) > 0.8
    assert sum(recalled) / len(recalled) > 0.8
    assert noise == 0


# --- the index -------------------------------------------------------------------------------


def test_the_index_follows_the_files(memory: MemoryDirectory, tmp_path: Path) -> None:
    put(memory, RELEASE)
    assert found(memory, "release", tmp_path) == ["release"]
    put(memory, Note("release", "Backups", "Restore them."), Note("tabs", "Indentation", "Tabs."))
    assert found(memory, "release of the library", tmp_path) == [
        "release"
    ]  # its name still says so
    assert found(memory, "indentation", tmp_path) == ["tabs"]
    (memory.path / "tabs.md").unlink()
    assert found(memory, "indentation", tmp_path) == []


@pytest.mark.parametrize(
    "damage", ["garbage", "other tables", "newer", "cut", "directory", "inside"]
)
def test_an_index_that_is_damaged_is_made_anew_or_done_without(
    memory: MemoryDirectory, tmp_path: Path, damage: str
) -> None:
    put(memory, RELEASE)
    found(memory, "release", tmp_path)
    path = tmp_path / NAME
    if damage == "garbage":
        path.write_bytes(b"no database at all" * 1000)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "inside":
        data = path.read_bytes()
        path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    elif damage == "directory":
        path.unlink()
        path.mkdir()
    else:
        with sqlite3.connect(path) as connection:
            if damage == "newer":
                connection.execute("PRAGMA user_version = 99")
            else:
                connection.execute("DROP TABLE notes")
        connection.close()
    assert found(memory, "release", tmp_path) == ["release"]
    assert found(memory, "release", tmp_path) == ["release"]


def test_the_index_is_private(memory: MemoryDirectory, tmp_path: Path) -> None:
    put(memory, RELEASE)
    found(memory, "release", tmp_path)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


SEARCHER = """
import sys
from pathlib import Path
from rewake.log.disk import Disk
from rewake.memory.directory import MemoryDirectory
from rewake.memory.ranking import rank
directory = MemoryDirectory(Path(sys.argv[1]), "project", Disk())
for _ in range(20):
    (hit,) = rank([directory], "release", cache=Path(sys.argv[2]), disk=Disk())
    assert hit.stored.name == "release"
"""


def test_processes_that_search_at_once_all_find(memory: MemoryDirectory, tmp_path: Path) -> None:
    put(memory, RELEASE, Note("tabs", "Indentation", "Tabs."))
    searchers = [
        subprocess.Popen([sys.executable, "-c", SEARCHER, str(memory.path), str(tmp_path)])
        for _ in range(4)
    ]
    assert [searcher.wait(120) for searcher in searchers] == [0, 0, 0, 0]


def test_paths_that_are_no_text_are_no_trouble(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    memory = MemoryDirectory(odd, "project", Disk())
    put(memory, RELEASE)
    (odd / os.fsdecode(b"r\xe9sum\xe9.md")).write_text("How a resume is written.")
    for _ in range(2):
        assert found(memory, "release", tmp_path) == ["release"]
        assert found(memory, "resume", tmp_path) == [os.fsdecode(b"r\xe9sum\xe9")]


def test_a_prompt_that_is_no_valid_text_is_no_trouble(memory: MemoryDirectory) -> None:
    put(memory, RELEASE)
    assert found(memory, "release \ud800 \x00 \U000e0041 \"'*()^") == ["release"]


def test_two_directories_are_ranked_together(memory: MemoryDirectory, tmp_path: Path) -> None:
    user = MemoryDirectory(tmp_path / "user", "user", Disk())
    put(memory, RELEASE)
    put(user, Note("release", "Release notes as the user likes them", "Short."))
    scopes = [hit.stored.scope for hit in rank([memory, user], "release", cache=None, disk=Disk())]
    assert sorted(scopes) == ["project", "user"]


def test_words_of_a_prompt_are_the_telling_ones_or_all() -> None:
    assert query_words("How do I make a release of the library?") == ["release", "library"]
    assert query_words("can you do it") == []
    assert query_words("can you do it", every_word=True) == ["can", "you", "do", "it"]
    assert query_words("") == []
    assert len(query_words(" ".join(f"word{n}" for n in range(1000)))) == 64
