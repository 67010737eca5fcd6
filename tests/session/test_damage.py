"""Damage in a transcript: it costs its own line, is reported where it is, and nothing else suffers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.session.conftest import Open
from tests.session.helpers import events_of, loaded, said, transcript_of

import rewake
from rewake.log.scan import Transcript
from rewake.model.codec import seal_line

WIDE = "é☃😀 nǐ\u2028hǎo"
BAD_LINES = {
    "garbage": b"garbage",
    "nothing": b"",
    "nuls": b"\x00" * 50,
    "null": b"null",
    "number": b"1",
    "list": b"[]",
    "half": b'{"event_id":"01',
    "not utf-8": b'{"event_id":"\xff\xfe"}',
    "missing keys": b'{"event_id":"x"}',
    "deep": b"[" * 100_000,
}


def three_messages(open_session: Open, session_id: str = "s") -> Path:
    with open_session(session_id=session_id) as session:
        for text in ("one", "two", "three"):
            session.user(text)
    return transcript_of(session)


def lines_of(transcript: Path) -> list[bytes]:
    return transcript.read_bytes().split(b"\n")[:-1]


def put(transcript: Path, lines: list[bytes]) -> None:
    transcript.write_bytes(b"\n".join(lines) + b"\n")


def test_a_record_torn_at_any_byte_costs_only_itself(open_session: Open) -> None:
    with open_session(session_id="s") as session:
        session.user("one")
        before = transcript_of(session).stat().st_size
        session.user(WIDE)
    transcript = transcript_of(session)
    whole = transcript.read_bytes()
    for cut in range(before + 1, len(whole)):
        transcript.write_bytes(whole[:cut])
        is_whole = cut == len(whole) - 1  # only its newline is missing
        with open_session(resume="s", trace=False) as again:
            assert again.resumed is not None
            damage = again.resumed.damage
            assert [item.offset for item in damage] == ([] if is_whole else [before]), cut
            again.user("next")
            assert said(again) == (["one", WIDE, "next"] if is_whole else ["one", "next"]), cut
        if cut % 50 == 0 or is_whole:
            assert transcript.read_bytes().startswith(whole[:cut] + b"\n")
            assert [event.seq for event in events_of(transcript)][-2:] == [
                len(transcript.read_bytes().split(b"\n")) - 3,
                len(transcript.read_bytes().split(b"\n")) - 2,
            ]


@pytest.mark.parametrize("kind", BAD_LINES)
def test_a_bad_line_in_the_middle_is_reported_and_everything_around_it_stays(
    open_session: Open, home: Path, project: Path, kind: str
) -> None:
    transcript = three_messages(open_session)
    lines = lines_of(transcript)
    offset = sum(len(line) + 1 for line in lines[:3])
    put(transcript, [*lines[:3], BAD_LINES[kind], *lines[3:]])
    found = rewake.resume("s", project=project, home=home)
    assert [(item.kind, item.offset) for item in found.damage] == [("corrupt_line", offset)]
    with open_session(resume="s") as session:
        assert said(session) == ["one", "two", "three"]
        session.user("four")
    with open_session(resume="s") as session:
        assert said(session) == ["one", "two", "three", "four"]


def test_a_line_that_went_bad_costs_its_message_and_the_gap_is_reported(
    open_session: Open,
) -> None:
    transcript = three_messages(open_session)
    lines = lines_of(transcript)
    offset = sum(len(line) + 1 for line in lines[:3])
    lines[3] = lines[3].replace(b"two", b"twe")
    put(transcript, lines)
    with open_session(resume="s") as session:
        assert said(session) == ["one", "three"]
        assert session.resumed is not None
        kinds = {item.kind: item.offset for item in session.resumed.damage}
        assert kinds == {
            "corrupt_line": offset,
            "missing_parent": offset + len(lines[3]) + 1,
        }


def test_an_unknown_type_in_the_middle_is_kept_and_changes_nothing(open_session: Open) -> None:
    transcript = three_messages(open_session)
    lines = lines_of(transcript)
    alien = lines[3][: lines[3].rindex(b',"crc32"')].replace(b'"message"', b'"hologram"')
    lines[3] = seal_line(alien)[:-1]
    put(transcript, lines)
    with open_session(resume="s") as session:
        assert session.resumed is not None
        assert session.resumed.damage == ()
        assert said(session) == ["one", "three"]
        session.user("four")
    assert lines[3] in transcript.read_bytes()
    assert loaded(transcript).damage == []


def test_a_missing_parent_in_the_middle_is_bridged_and_reported(open_session: Open) -> None:
    transcript = three_messages(open_session)
    lines = lines_of(transcript)
    put(transcript, [*lines[:3], *lines[4:]])
    offset = sum(len(line) + 1 for line in lines[:3])
    with open_session(resume="s") as session:
        assert session.resumed is not None
        assert [(i.kind, i.offset) for i in session.resumed.damage] == [("missing_parent", offset)]
        assert said(session) == ["one", "three"]


def test_a_line_of_another_session_is_reported_and_left_out(open_session: Open) -> None:
    other = lines_of(three_messages(open_session, "other"))
    transcript = three_messages(open_session)
    lines = lines_of(transcript)
    put(transcript, [*lines[:4], other[3], *lines[4:]])
    with open_session(resume="s") as session:
        assert session.resumed is not None
        assert [item.kind for item in session.resumed.damage] == ["foreign_session"]
        assert said(session) == ["one", "two", "three"]


def test_a_line_that_stands_twice_counts_once(open_session: Open) -> None:
    transcript = three_messages(open_session)
    lines = lines_of(transcript)
    put(transcript, [*lines, lines[3]])
    with open_session(resume="s") as session:
        assert session.resumed is not None
        assert "duplicate_event" in {item.kind for item in session.resumed.damage}
        assert said(session) == ["one", "two", "three"]


def test_a_lost_blob_leaves_a_preview_and_is_reported(open_session: Open, home: Path) -> None:
    with open_session(session_id="s") as session:
        session.user("beginning " + "x" * 100_000)
        session.user("two")
    (blob,) = [path for path in (home / "projects").rglob("blobs/*") if path.is_file()]
    blob.unlink()
    with open_session(resume="s") as again:
        assert again.resumed is not None
        assert [item.kind for item in again.resumed.damage] == ["missing_blob"]
        texts = said(again)
        assert texts[0].startswith("beginning xxx")
        assert texts[1] == "two"


def test_a_damaged_message_that_a_checkpoint_names_costs_only_itself(open_session: Open) -> None:
    with open_session(session_id="s") as session:
        for text in ("one", "two", "three"):
            session.user(text)
        session.record(session.state.checkpoint())
        session.user("four")
    transcript = transcript_of(session)
    transcript.write_bytes(transcript.read_bytes().replace(b'"two"', b'"twe"'))
    with open_session(resume="s") as again:
        assert again.resumed is not None
        assert [item.kind for item in again.resumed.damage] == ["missing_event"]
        assert said(again) == ["one", "three", "four"]


@pytest.mark.parametrize("part", ["state", "history"])
def test_a_damaged_checkpoint_is_not_used(open_session: Open, part: str) -> None:
    with open_session(session_id="s") as session:
        session.user("one")
        session.record(session.state.checkpoint())
        session.user("two")
    transcript = transcript_of(session)
    lines = lines_of(transcript)
    (place,) = [n for n, line in enumerate(lines) if b'"event_type":"checkpoint"' in line]
    body = lines[place][: lines[place].rindex(b',"crc32"')]
    damaged = {
        "state": body.replace(b'"conversation":{', b'"conversation":7,"was":{'),
        "history": body.replace(b'"history":{', b'"history":{"base":"gone",'),
    }[part]
    assert damaged != body
    lines[place] = seal_line(damaged)[:-1]
    put(transcript, lines)
    with open_session(resume="s") as again:
        assert said(again) == ["one", "two"]
        assert again.resumed is not None
        assert "unusable_checkpoint" in {item.kind for item in again.resumed.damage}


# --- other sessions --------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x00" * 5000, b"null\n1\n[]\n", b"{}\n"])
def test_a_session_of_nothing_but_damage_hides_no_other(
    open_session: Open, home: Path, project: Path, content: bytes
) -> None:
    good = three_messages(open_session, "good")
    bad = three_messages(open_session, "bad")
    bad.write_bytes(content)
    rows = {row.session_id: row for row in rewake.sessions(project, home=home)}
    assert set(rows) == {"good", "bad"}
    assert rows["good"].title == "one"
    assert [event.event_type for event in events_of(good)][-1] == "message"
    with open_session(resume="good") as session:
        assert said(session) == ["one", "two", "three"]
    with open_session(resume="bad") as session:
        session.user("a new beginning")
        assert said(session) == ["a new beginning"]


def test_a_session_whose_file_cannot_be_read_is_a_row_with_its_problem(
    open_session: Open, home: Path, project: Path
) -> None:
    three_messages(open_session, "good")
    bad = three_messages(open_session, "bad")
    bad.unlink()
    bad.symlink_to(bad)  # a loop: nobody can read it, not even root
    rows = {row.session_id: row for row in rewake.sessions(project, home=home)}
    assert rows["good"].title == "one"


def test_a_transcript_copied_while_it_is_written_loads(open_session: Open, tmp_path: Path) -> None:
    with open_session() as session:
        session.user("one")
        copy = tmp_path / "copy.jsonl"
        copy.write_bytes(transcript_of(session).read_bytes()[:-7])
        with Transcript(copy) as reader:
            assert len(list(reader.forward())) == 3
