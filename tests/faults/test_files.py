"""Corrupt files as they are found on disks, sizes, and what is listed or not."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from tests.faults.conftest import assert_same_from_root, lines_of, put, sealed, unsealed
from tests.session.conftest import Open
from tests.session.helpers import loaded, said, transcript_of

import rewake
from rewake.errors import SessionNotFoundError, StorageError, UnreadableVersionError
from rewake.log.layout import Layout

GOOD = ["one", "two", "three"]


@pytest.fixture
def transcript(open_session: Open) -> Path:
    """A session of three prompts, at rest."""
    with open_session(session_id="s") as session:
        for text in GOOD:
            session.user(text)
    return transcript_of(session)


# --- corrupt files ---------------------------------------------------------------------------

DAMAGE = {
    "nuls in the middle": lambda data: data[:-300] + b"\0" * 64 + data[-300 + 64 :],
    "a long tail of nuls": lambda data: data + b"\0" * 100_000,
    "nuls after a good record": lambda data: data[:-1] + b"\0" * 512 + b"\n",
    "nuls before the next record": lambda data: data + b"\0" * 4096,
    "cut inside a character": lambda data: data + '{"x":"é'.encode()[:-1],
    "a record on the line of a torn one": lambda data: data + b'{"event_id":"0' + data[-200:],
    "null, a number and a list": lambda data: data + b"null\n7\n[1]\n",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_costs_at_most_what_it_hit_and_the_session_goes_on(
    open_session: Open, transcript: Path, kind: str
) -> None:
    damaged = DAMAGE[kind](transcript.read_bytes())
    transcript.write_bytes(damaged)
    with open_session(resume="s") as session:
        there = [text for text in GOOD if text in said(session)]
        assert len(there) >= (2 if kind == "nuls in the middle" else 3)
        session.user("four")
    assert transcript.read_bytes().startswith(damaged)
    for _ in range(2):
        with open_session(resume="s") as session:
            assert said(session) == [*there, "four"]
    assert_same_from_root(transcript)


def test_key_order_missing_checksums_and_crlf_are_no_damage(
    open_session: Open, transcript: Path
) -> None:
    turned = []
    for line in lines_of(transcript):
        values = json.loads(line)
        del values["crc32"]
        turned.append(json.dumps(dict(reversed(values.items()))).encode() + b"\r")
    put(transcript, turned)
    with open_session(resume="s") as session:
        assert session.resumed is not None
        assert session.resumed.damage == ()
        assert said(session) == GOOD


def test_line_separators_and_lone_surrogates_in_a_string_are_no_damage(
    open_session: Open, transcript: Path
) -> None:
    lines = lines_of(transcript)
    for separator in ("\\ud83d", "\u2028", "\u2029", "\x85", "\\u0000"):
        lines[-1] = sealed(unsealed(lines[-1]).replace(b"three", b"three" + separator.encode()))
    put(transcript, lines)
    with open_session(resume="s") as session:
        assert session.resumed is not None
        assert session.resumed.damage == ()
        assert said(session)[-1].startswith("three")


# --- size ------------------------------------------------------------------------------------


def test_a_session_of_100_mb_is_resumed_by_reading_its_active_end(
    open_session: Open, home: Path, project: Path
) -> None:
    with open_session(session_id="s", trace=False) as session:
        for number in range(2_200):
            session.assistant(f"{number} " + "x" * 50_000, usage=rewake.Usage(1, 1))
        session.user("the newest prompt")
        session.checkpoint("everything so far")
        session.assistant("yes")
    transcript = transcript_of(session)
    assert transcript.stat().st_size > 100 << 20
    began = time.perf_counter()
    found = loaded(transcript)
    with open_session(resume="s", trace=False) as session:
        assert "the newest prompt" in "\n".join(said(session))
    (row,) = rewake.sessions(project, home=home)
    took_s = time.perf_counter() - began
    assert row.messages == 2_202
    assert found.events_read < 20
    assert took_s < 2  # a few milliseconds; reading all of it takes longer


def test_one_line_of_12_mb_is_a_message_like_any_other(
    open_session: Open, transcript: Path, home: Path, project: Path
) -> None:
    lines = lines_of(transcript)
    lines[-2] = sealed(unsealed(lines[-2]).replace(b'"two"', b'"two' + b"x" * (12 << 20) + b'"'))
    put(transcript, lines)
    with open_session(resume="s") as session:
        assert session.resumed is not None
        assert session.resumed.damage == ()
        assert [len(text) for text in said(session)] == [3, 3 + (12 << 20), 5]
    (row,) = rewake.sessions(project, home=home)
    assert row.title == "one"


def test_a_hundred_thousand_side_records_do_not_hide_four_hundred_messages(
    open_session: Open, home: Path, project: Path
) -> None:
    with open_session(session_id="s", trace=False) as session:
        for number in range(400):
            session.user(f"prompt {number}")
            for _ in range(250):
                session.transition("a", "b")
    found = loaded(transcript_of(session))
    assert found.events_read < 4_000
    with open_session(resume="s", trace=False) as session:
        assert said(session) == [f"prompt {number}" for number in range(400)]
    (row,) = rewake.sessions(project, home=home)
    assert (row.messages, row.title) == (400, "prompt 0")


def test_ten_thousand_sessions_are_listed_newest_first(
    open_session: Open, transcript: Path, home: Path, project: Path
) -> None:
    data = transcript.read_bytes()
    sessions = transcript.parents[1]
    for number in range(10_000):
        directory = sessions / f"x{number:05}"
        directory.mkdir()
        path = directory / "transcript.jsonl"
        path.write_bytes(data)
        os.utime(path, (number + 1, number + 1))
    rows = rewake.sessions(project, home=home, limit=3)
    assert [row.session_id for row in rows] == ["s", "x09999", "x09998"]
    assert len(list(Layout(home).sessions(project))) == 10_001
    with open_session(resume="x00007") as session:
        assert said(session) == GOOD


# --- not found, not listed -------------------------------------------------------------------


def test_what_can_not_be_read_is_never_said_to_be_not_there(
    open_session: Open, transcript: Path, home: Path, project: Path
) -> None:
    newer = sealed(
        unsealed(lines_of(transcript)[0]).replace(
            b'"min_reader_version":1', b'"min_reader_version":99'
        )
    )
    whole = transcript.read_bytes()
    put(transcript, [newer, *lines_of(transcript)[1:]])
    with pytest.raises(UnreadableVersionError):
        open_session(resume="s")
    transcript.unlink()
    transcript.symlink_to(transcript)  # nobody can read it, not even root
    for wanted in ("s", rewake.NEWEST):
        with pytest.raises(StorageError, match="transcript"):
            open_session(resume=wanted)
    transcript.unlink()
    transcript.write_bytes(whole)
    with pytest.raises(SessionNotFoundError):
        open_session(resume="nobody")


def test_the_newest_is_never_an_empty_one_nor_a_sub_agents(
    open_session: Open, transcript: Path
) -> None:
    os.utime(transcript, (1, 1))
    empty = transcript.parents[1] / "empty"
    empty.mkdir()
    (empty / "transcript.jsonl").touch()
    (transcript.parents[1] / "bare").mkdir()
    child = transcript.parent / "agents" / "child.jsonl"
    child.parent.mkdir(exist_ok=True)
    child.write_bytes(transcript.read_bytes())
    with open_session(resume=rewake.NEWEST) as session:
        assert session.session_id == "s"


def test_a_session_without_an_index_is_found_by_its_title(
    open_session: Open, transcript: Path, home: Path, project: Path
) -> None:
    with open_session(resume="s") as session:
        session.metadata(title="A walk")
    rewake.sessions(project, home=home)
    for kept in home.iterdir():
        if kept.name != "projects":
            shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
    with open_session(resume="a walk") as session:
        assert session.session_id == "s"


# --- retention -------------------------------------------------------------------------------


def test_nothing_old_goes_away_by_itself(
    open_session: Open, transcript: Path, home: Path, project: Path
) -> None:
    with open_session(session_id="big") as session:
        session.user("x" * 100_000)
    old = [path for path in (home / "projects").rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in old}
    for path in (home / "projects").rglob("*"):
        os.utime(path, (1, 1))
    for _ in range(2):
        with open_session() as session:
            session.user("new")
        rewake.sessions(project, home=home)
        rewake.search("one", project, home=home)
    assert {path: path.read_bytes() for path in old} == before
    assert {"s", "big"} <= {row.session_id for row in rewake.sessions(project, home=home)}
