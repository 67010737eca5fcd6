"""Order, parents, calls, contents, versions and checkpoints: what is wrong with whole lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.doctor.sessions import SESSION_ID, Patient, of_another_session, rewritten, story
from tests.model.strategies import Writer

import rewake
from rewake.doctor.check import check
from rewake.doctor.subject import Subject
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.model import events as ev
from rewake.model.content import File, Image, Text, ToolCall, ToolResult

LINES = story("one", "two", "three", "four")
WHOLE = b"".join(LINES)


def written(*payloads: ev.KnownPayload) -> bytes:
    writer = started()
    for payload in payloads:
        writer.write(payload)
    return b"".join(writer.lines)


def started() -> Writer:
    writer = Writer()
    writer.write(ev.SessionStart(project={"root": "/p"}))
    writer.write(ev.RunStart(1))
    return writer


# --- order -----------------------------------------------------------------------------------


def test_the_same_line_twice_is_a_repetition(patient: Patient) -> None:
    assert patient.found(b"".join([*LINES, LINES[3]])) == ["duplicate_event"]
    assert patient.check().events == len(LINES)


def test_another_event_with_the_same_id_is_a_conflict(patient: Patient) -> None:
    other = rewritten(LINES[3], timestamp="2027-01-01T00:00:00.000000Z")
    assert patient.found(b"".join([*LINES, other])) == ["conflicting_event"]
    assert patient.the("conflicting_event").severity == "warning"


def test_swapped_lines_are_out_of_order_and_the_parent_stands_after_its_child(
    patient: Patient,
) -> None:
    a, b, c, d, e, f = LINES
    found = patient.found(b"".join([a, b, d, c, e, f]))
    assert found[:3] == ["parent_not_before", "id_not_rising", "seq_not_rising"]


def test_a_parent_that_is_the_event_itself_is_named(patient: Patient) -> None:
    last = rewritten(LINES[-1], parent_id=msgspec.json.decode(LINES[-1])["event_id"])
    assert patient.found(b"".join([*LINES[:-1], last])) == ["parent_not_before"]
    assert "itself" in patient.the("parent_not_before").detail


def test_a_lost_line_leaves_a_missing_parent_and_a_missing_number(patient: Patient) -> None:
    assert patient.found(b"".join([*LINES[:3], *LINES[4:]])) == ["missing_parent"]
    assert "number 3 is not here" in patient.the("missing_parent").detail


def test_a_missing_number_between_events_that_follow_each_other_is_only_noted(
    patient: Patient,
) -> None:
    last = rewritten(LINES[-1], seq=len(LINES) + 6)
    assert patient.found(b"".join([*LINES[:-1], last])) == ["seq_gap"]
    assert patient.check().ok


def test_an_event_that_doesn_t_continue_the_line_before_it_is_told(patient: Patient) -> None:
    earlier = msgspec.json.decode(LINES[1])["event_id"]
    last = rewritten(LINES[-1], parent_id=earlier)
    assert patient.found(b"".join([*LINES[:-1], last])) == ["unexpected_parent"]


def test_an_event_of_a_type_of_tomorrow_may_hang_anywhere(patient: Patient) -> None:
    earlier = msgspec.json.decode(LINES[1])["event_id"]
    last = rewritten(LINES[-1], parent_id=earlier, event_type="hologram")
    assert patient.found(b"".join([*LINES[:-1], last])) == []


def test_a_rewind_hangs_under_its_target(patient: Patient) -> None:
    writer = started()
    checkpoint = ev.Checkpoint("state", 1, ev.History(), {})
    writer.write(ev.Message("user", (Text("one"),)))
    writer.write(ev.Rewind(writer.ids[1], "conversation", checkpoint))
    writer.write(ev.Rewind(None, "both", checkpoint))
    assert patient.found(b"".join(writer.lines)) == []


def test_a_session_without_its_first_line_is_told(patient: Patient) -> None:
    found = patient.found(b"".join(LINES[1:]))
    assert found == ["no_session_line", "missing_parent"]


def test_lines_that_are_mostly_of_another_session_than_the_directory_are_an_error(
    make_patient: Callable[[str], Patient],
) -> None:
    renamed = make_patient("renamed")
    assert renamed.found(WHOLE) == ["wrong_directory"]
    assert renamed.check().session_id == SESSION_ID


# --- versions and payloads -------------------------------------------------------------------


def test_a_transcript_that_asks_for_a_newer_reader_is_an_error(patient: Patient) -> None:
    assert patient.found(written(ev.RunStart(2, min_reader_version=99))) == ["version_too_new"]


def test_a_payload_that_can_t_be_read_is_a_warning(patient: Patient) -> None:
    last = rewritten(LINES[-1], payload={"role": "narrator", "content": []})
    assert patient.found(b"".join([*LINES[:-1], last])) == ["unreadable_payload"]


# --- calls -----------------------------------------------------------------------------------


def test_a_call_without_an_end_is_only_noted(patient: Patient) -> None:
    found = patient.found(written(ev.ToolLifecycle("Bash", "requested")))
    assert found == ["open_call"]
    assert patient.check().ok


@pytest.mark.parametrize("status", ["started", "completed", "failed", "resolved"])
def test_a_phase_of_a_call_that_no_line_requested_is_an_orphan(
    patient: Patient, status: ev.CallStatus
) -> None:
    phase = ev.ToolLifecycle("Bash", status, call_id="01945a62-9e00-7000-8000-abc0ffee0000")
    assert patient.found(written(phase)) == ["orphan_outcome"]


def test_a_call_that_recovery_found_in_its_message_alone_is_no_orphan(patient: Patient) -> None:
    writer = started()
    asked = writer.write(ev.Message("assistant", (ToolCall("c", "Bash"),)))
    call = ev.ToolLifecycle("Bash", "resolved", call_id=f"{asked}/0", message_id=asked)
    writer.write(call)
    assert patient.found(b"".join(writer.lines)) == []


def test_a_call_that_ended_is_none_of_the_open_ones(patient: Patient) -> None:
    writer = started()
    call_id = writer.write(ev.ToolLifecycle("Bash", "requested"))
    writer.write(ev.ToolLifecycle("Bash", "started", call_id=call_id, intent=ev.ReadOnlyIntent()))
    writer.write(ev.ToolLifecycle("Bash", "failed", call_id=call_id))
    assert patient.found(b"".join(writer.lines)) == []


def test_each_call_of_a_message_takes_one_result(patient: Patient) -> None:
    asked = ev.Message("assistant", (ToolCall("c", "Read"), ToolCall("c", "Read")))
    answers = ev.Message("tool", (ToolResult("c"), ToolResult("c"), ToolResult("c")))
    assert patient.found(written(asked, answers)) == ["orphan_result"]


def test_after_a_rewind_a_result_gets_the_benefit_of_the_doubt(patient: Patient) -> None:
    writer = started()
    asked = writer.write(ev.Message("assistant", (ToolCall("c", "Read"),)))
    writer.write(ev.Message("assistant", (Text("other"),)))
    writer.write(
        ev.Rewind(asked, "conversation", ev.Checkpoint("state", 1, ev.History(None, (asked,)), {}))
    )
    writer.write(ev.Message("tool", (ToolResult("c"),)))
    assert patient.found(b"".join(writer.lines)) == []


def test_an_amendment_of_a_message_that_is_gone_is_an_orphan(patient: Patient) -> None:
    assert patient.found(written(ev.MessageAmendment("gone", model="m"))) == ["orphan_amendment"]


# --- blobs -----------------------------------------------------------------------------------

NOWHERE = "0" * 64


def test_an_image_whose_blob_is_gone_is_an_error(patient: Patient) -> None:
    assert patient.found(written(ev.Message("user", (Image("image/png", NOWHERE),)))) == [
        "missing_blob"
    ]


def test_a_blob_whose_bytes_are_not_those_of_its_name_is_damaged(patient: Patient) -> None:
    store = BlobStore(patient.paths.blobs, patient.disk, durable=False)
    sha256 = store.put(b"content")
    store.path(sha256).write_bytes(b"")
    shown = ev.Message("user", (File("a", "text/plain", sha256),))
    assert patient.found(written(shown, shown)) == ["damaged_blob"]


def test_a_name_that_is_no_hash_is_a_damaged_blob_and_leads_nowhere(patient: Patient) -> None:
    shown = ev.ToolLifecycle("Read", "requested", result=ev.Result((Image("i", "../../x"),)))
    assert patient.found(written(shown)) == ["damaged_blob", "open_call"]


def test_a_spilled_payload_is_read_from_its_blob_and_looked_into(patient: Patient) -> None:
    store = BlobStore(patient.paths.blobs, patient.disk, durable=False)
    inner = msgspec.json.encode(ev.Message("user", (Image("image/png", NOWHERE),)))
    spilled = {"blob": {"sha256": store.put(inner), "size": len(inner)}, "preview": {}}
    last = rewritten(LINES[-1], payload=spilled)
    assert patient.found(b"".join([*LINES[:-1], last])) == ["missing_blob"]
    assert "image/png" in patient.the("missing_blob").detail


def test_a_spilled_payload_whose_blob_is_gone_is_an_error(patient: Patient) -> None:
    spilled = {"blob": {"sha256": NOWHERE, "size": 70_000}, "preview": {}}
    last = rewritten(LINES[-1], payload=spilled)
    assert patient.found(b"".join([*LINES[:-1], last])) == ["missing_blob"]


def test_what_an_unfinished_edit_needs_to_be_settled_is_looked_for(patient: Patient) -> None:
    before = ev.FileState("file", NOWHERE, 3, 0o644)
    intent = ev.FileChangeIntent((ev.Change("/a", before, ev.FileState()),))
    writer = started()
    call_id = writer.write(ev.ToolLifecycle("Edit", "requested"))
    writer.write(ev.ToolLifecycle("Edit", "started", call_id=call_id, intent=intent))
    assert sorted(patient.found(b"".join(writer.lines))) == ["missing_blob", "open_call"]
    writer.write(ev.ToolLifecycle("Edit", "completed", call_id=call_id))
    assert patient.found(b"".join(writer.lines)) == []


# --- checkpoints -----------------------------------------------------------------------------


def test_a_checkpoint_whose_state_can_t_be_read_is_unusable(patient: Patient) -> None:
    broken = ev.Checkpoint("state", 1, ev.History(), {"world": 7})
    assert patient.found(written(broken)) == ["unusable_checkpoint"]


def test_a_checkpoint_that_names_a_lost_message_is_told(patient: Patient) -> None:
    gone = "01945a62-9e00-7000-8000-abc0ffee0000"
    assert patient.found(written(ev.Checkpoint("state", 1, ev.History(None, (gone,)), {}))) == [
        "missing_event"
    ]


def test_deep_compares_what_a_checkpoint_says_with_what_the_events_say(patient: Patient) -> None:
    patient.write(
        written(ev.Message("user", (Text("hi"),)), ev.Checkpoint("state", 1, ev.History(), {}))
    )
    assert patient.check().ok
    assert [item.kind for item in patient.check(deep=True).findings] == ["checkpoint_differs"]


def test_a_fork_whose_origin_is_gone_is_an_error(patient: Patient) -> None:
    writer = Writer()
    origin = ev.ForkOrigin("gone", "00000000-0000-7000-8000-000000000001")
    writer.write(ev.SessionStart(forked_from=origin, checkpoint=None))
    writer.write(ev.RunStart(1))
    assert patient.found(b"".join(writer.lines)) == ["missing_origin"]


def test_a_bare_fork_is_checked_without_its_origin(patient: Patient, tmp_path: Path) -> None:
    writer = Writer()
    writer.write(ev.SessionStart(forked_from=ev.ForkOrigin("origin", "id")))
    bare = tmp_path / "fork.jsonl"
    bare.write_bytes(b"".join(writer.lines))
    report = check(Subject.at(bare, patient.disk), patient.disk, deep=True)
    assert [item.kind for item in report.findings] == ["origin_unchecked"]
    assert report.ok


def test_a_fork_beside_its_origin_is_healthy(tmp_path: Path) -> None:
    with rewake.open_session(tmp_path, home=tmp_path / "home") as session:
        session.user("one")
        session.user("two")
        origin = session.session_id
    with rewake.open_session(tmp_path, home=tmp_path / "home", resume=origin, fork=True) as fork:
        fork.user("three")
        assert fork.transcript is not None
        subject = Subject.at(fork.transcript, Disk())
    assert check(subject, Disk(), deep=True).findings == ()


def test_lines_of_a_third_party_don_t_disturb_the_order(patient: Patient) -> None:
    strange = of_another_session(LINES[5])
    assert patient.found(b"".join([*LINES[:4], strange, *LINES[4:]])) == ["foreign_session"]
