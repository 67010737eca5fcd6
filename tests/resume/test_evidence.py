from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.resume.test_shell import wrapper

from rewake.model.content import plain_text
from rewake.model.events import (
    AgentIntent,
    Change,
    FileChangeIntent,
    FileState,
    Intent,
    OtherIntent,
    ReadOnlyIntent,
    Resolution,
    ShellIntent,
)
from rewake.resume import shell
from rewake.resume.chain import temporary_name
from rewake.resume.evidence import Settlement, settle
from rewake.state.world import OpenCall

ABSENT = FileState()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def state(data: bytes | None, mode: int | None = 0o644) -> FileState:
    return ABSENT if data is None else FileState("file", sha(data), len(data), mode)


def change(path: Path, before: bytes | None, after: bytes | None) -> Change:
    return Change(str(path), state(before), state(after))


def started(intent: Intent | None, number: int = 1, tool: str = "Edit") -> OpenCall:
    return OpenCall(
        call_id=f"call-{number}",
        tool_name=tool,
        status="started",
        intent=intent,
        started_at=f"2026-01-01T00:00:{number:02d}.000000Z",
    )


def edit_call(*changes: Change, number: int = 1) -> OpenCall:
    return started(FileChangeIntent(changes), number)


def settle_one(call: OpenCall, session: Path = Path("/nonexistent"), **more: object) -> Settlement:
    (settlement,) = settle([call], session_directory=session, boot_id="boot", **more)  # type: ignore[arg-type]  # passed on as given
    return settlement


def said(settlement: Settlement) -> str:
    return plain_text(settlement.result.content)


# --- calls that had no effect ----------------------------------------------------------------


def test_a_call_that_was_only_requested_was_not_executed() -> None:
    call = OpenCall(call_id="call-1", tool_name="Edit", status="requested")
    settlement = settle_one(call)
    assert settlement.resolution.verdict == "not_applied"
    assert settlement.resolution.note == "not executed"
    assert "NOT executed" in said(settlement)


def test_a_read_only_call_may_be_repeated() -> None:
    settlement = settle_one(started(ReadOnlyIntent(), tool="Read"))
    assert settlement.resolution.verdict == "not_applied"
    assert settlement.resolution.evidence == {"replayable": True}


# --- files -----------------------------------------------------------------------------------


def test_a_file_with_the_new_content_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"new")
    settlement = settle_one(edit_call(change(path, b"old", b"new")))
    assert settlement.resolution.verdict == "applied"
    assert settlement.outcome.changes[0].path == str(path)
    assert settlement.outcome.reads[0].sha256 == sha(b"new")
    assert not settlement.result.is_error
    assert "WAS applied" in said(settlement)
    assert "Do not repeat it" in said(settlement)


def test_a_file_with_the_old_content_was_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    settlement = settle_one(edit_call(change(path, b"old", b"new")))
    assert settlement.resolution.verdict == "not_applied"
    assert settlement.outcome.changes == ()


def test_a_foreign_content_is_unknown_and_all_three_hashes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"somebody else's")
    settlement = settle_one(edit_call(change(path, b"old", b"new")))
    evidence = settlement.resolution.evidence
    assert settlement.resolution.verdict == "unknown"
    assert evidence["expected_before"]["sha256"] == sha(b"old")
    assert evidence["expected_after"]["sha256"] == sha(b"new")
    assert evidence["actual"]["sha256"] == sha(b"somebody else's")


@pytest.mark.parametrize(
    ("there", "before", "after", "verdict"),
    [
        (None, None, b"new", "not_applied"),
        (b"new", None, b"new", "applied"),
        (None, b"old", None, "applied"),
        (b"old", b"old", None, "not_applied"),
        (None, b"old", b"new", "unknown"),
        (b"same", b"same", b"same", "applied"),
    ],
)
def test_a_missing_file_counts_as_a_content(
    tmp_path: Path, there: bytes | None, before: bytes | None, after: bytes | None, verdict: str
) -> None:
    path = tmp_path / "a"
    if there is not None:
        path.write_bytes(there)
    assert settle_one(edit_call(change(path, before, after))).resolution.verdict == verdict


def test_a_touched_file_is_judged_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"new")
    os.utime(path, (0, 0))
    assert settle_one(edit_call(change(path, b"old", b"new"))).resolution.verdict == "applied"


@pytest.mark.parametrize(("mode", "verdict"), [(0o755, "applied"), (0o644, "not_applied")])
def test_where_only_the_mode_changes_the_mode_decides(
    tmp_path: Path, mode: int, verdict: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    path.chmod(mode)
    only_mode = Change(str(path), state(b"x", 0o644), state(b"x", 0o755))
    assert settle_one(edit_call(only_mode)).resolution.verdict == verdict


CONTENTS = st.lists(st.binary(min_size=1, max_size=8), min_size=2, max_size=7, unique=True)


@settings(max_examples=150, deadline=None)
@given(contents=CONTENTS, data=st.data())
def test_any_prefix_of_a_chain_that_was_really_applied_is_found(
    contents: list[bytes], data: st.DataObject
) -> None:
    applied = data.draw(st.integers(0, len(contents) - 1))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a"
        calls = [
            edit_call(change(path, before, after), number=number)
            for number, (before, after) in enumerate(pairwise(contents), 1)
        ]
        path.write_bytes(contents[applied])
        # What a clock says of them decides nothing: it may have been set back meanwhile.
        times = data.draw(st.permutations([call.started_at for call in calls]))
        calls = [
            msgspec.structs.replace(call, started_at=time)
            for call, time in zip(calls, times, strict=True)
        ]
        settled = settle(calls, session_directory=Path(directory), boot_id="")
    assert [one.call_id for one in settled] == [call.call_id for call in calls]
    verdicts = [one.resolution.verdict for one in settled]
    assert verdicts == ["applied"] * applied + ["not_applied"] * (len(calls) - applied)


def test_a_chain_without_a_known_content_is_unknown_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"foreign")
    calls = [
        edit_call(change(path, b"1", b"2"), number=1),
        edit_call(change(path, b"2", b"3"), number=2),
    ]
    settled = settle(calls, session_directory=tmp_path, boot_id="")
    assert [one.resolution.verdict for one in settled] == ["unknown", "unknown"]


def test_of_several_files_some_changed_is_partial(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    one.write_bytes(b"new")
    other.write_bytes(b"old")
    call = edit_call(change(one, b"old", b"new"), change(other, b"old", b"new"))
    settlement = settle_one(call)
    assert settlement.resolution.verdict == "partial"
    assert [c.path for c in settlement.outcome.changes] == [str(one)]
    assert [f["verdict"] for f in settlement.resolution.evidence["files"]] == [
        "applied",
        "not_applied",
    ]


def test_an_emptied_file_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"")
    assert settle_one(edit_call(change(path, b"old", b"new"))).resolution.verdict == "partial"


@given(before=st.binary(max_size=30), after=st.binary(min_size=1, max_size=30), data=st.data())
def test_a_write_cut_anywhere_is_partial_where_the_contents_are_known(
    before: bytes, after: bytes, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(after)))
    in_place = data.draw(st.booleans())
    content = after[:cut] + (before[cut:] if in_place else b"")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a"
        path.write_bytes(content)
        kept = {sha(before): before, sha(after): after}
        call = edit_call(change(path, before, after))
        verdict = settle_one(call, read_blob=kept.__getitem__).resolution.verdict
    if content == after:
        assert verdict == "applied"
    elif content == before:
        assert verdict == "not_applied"
    else:
        assert verdict == "partial"


def test_only_the_calls_own_temporary_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    own, others = (tmp_path / temporary_name(name) for name in ("call-1", "call-11"))
    for leftover in (own, others, tmp_path / "a.tmp"):
        leftover.write_bytes(b"half")
    settlement = settle_one(edit_call(change(path, b"old", b"new")))
    assert settlement.resolution.evidence["temporary_removed"] is True
    assert {path.name for path in tmp_path.iterdir()} == {others.name, "a", "a.tmp"}


def test_looking_without_a_claim_writes_and_removes_nothing(tmp_path: Path) -> None:
    path, temporary = tmp_path / "a", tmp_path / temporary_name("call-1")
    path.write_bytes(b"old")
    temporary.write_bytes(b"a live agent's")
    session = tmp_path / "session"
    edit = edit_call(change(path, b"old", b"new"))
    command = started(ShellIntent("x", "/", "outputs/call-2"), 2, "Bash")
    settled = settle([edit, command], session_directory=session, boot_id="", claim=False)
    assert [one.resolution.verdict for one in settled] == ["not_applied", "not_applied"]
    assert {file.name for file in tmp_path.iterdir()} == {"a", temporary.name}


# --- weird files and damaged intents ---------------------------------------------------------


def test_a_directory_in_the_files_place_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir()
    settlement = settle_one(edit_call(change(path, b"old", b"new")))
    assert settlement.resolution.verdict == "unknown"
    assert settlement.resolution.evidence["actual"]["kind"] == "directory"


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    settlement = settle_one(edit_call(change(tmp_path / "a", b"old", b"new")))
    assert settlement.resolution.verdict == "unknown"
    assert "pipe" in settlement.resolution.evidence["error"]


def test_a_symlink_in_the_files_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"new")
    (tmp_path / "a").symlink_to("b")
    settlement = settle_one(edit_call(change(tmp_path / "a", b"old", b"new")))
    assert settlement.resolution.verdict == "unknown"


def test_a_file_below_a_file_is_missing(tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(b"")
    settlement = settle_one(edit_call(change(tmp_path / "d/a", None, b"new")))
    assert settlement.resolution.verdict == "not_applied"


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_an_unreadable_file_is_unknown_with_the_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"new")
    path.chmod(0)
    settlement = settle_one(edit_call(change(path, b"old", b"new")))
    assert settlement.resolution.verdict == "unknown"
    assert "Permission denied" in settlement.resolution.evidence["error"]


def test_a_loop_of_links_above_the_file_is_unknown_with_the_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    settlement = settle_one(edit_call(change(tmp_path / "loop/a", b"old", b"new")))
    assert settlement.resolution.verdict == "unknown"
    assert settlement.resolution.evidence["error"]


@pytest.mark.parametrize(
    "damaged",
    [
        Change("/a\0b", ABSENT, state(b"x")),
        Change("x", ABSENT, state(b"x"), path_base64="***"),
        Change("/\ud800", ABSENT, state(b"x")),
    ],
)
def test_a_damaged_path_is_unknown_with_the_error(damaged: Change) -> None:
    settlement = settle_one(edit_call(damaged))
    assert settlement.resolution.verdict == "unknown"
    assert settlement.resolution.evidence["error"]


def test_an_intent_without_hashes_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    blank = Change(str(path), FileState("file"), FileState("file"))
    assert settle_one(edit_call(blank)).resolution.verdict == "unknown"


def test_a_path_that_is_no_utf8_is_found(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/\xff"
    Path(os.fsdecode(raw)).write_bytes(b"new")
    encoded = base64.b64encode(raw).decode()
    settlement = settle_one(
        edit_call(Change("shown", state(b"old"), state(b"new"), path_base64=encoded))
    )
    assert settlement.resolution.verdict == "applied"


def test_a_started_call_without_an_intent_is_unknown() -> None:
    assert settle_one(started(None)).resolution.verdict == "unknown"


# --- shell -----------------------------------------------------------------------------------


def bash_call(directory: str = "outputs/call-1") -> OpenCall:
    return started(ShellIntent("the command", "/", directory), tool="Bash")


def output_directory(session: Path) -> Path:
    directory = session / "outputs/call-1"
    directory.mkdir(parents=True)
    return directory


@pytest.mark.parametrize(("code", "is_error"), [(0, False), (4, True)])
def test_a_command_that_ended_alone_is_applied_with_its_result(
    tmp_path: Path,
    code: int,
    is_error: bool,  # noqa: FBT001  # a table's column
) -> None:
    wrapper(output_directory(tmp_path), f"echo done; exit {code}").wait()
    settlement = settle_one(bash_call(), tmp_path)
    assert settlement.resolution.verdict == "applied"
    assert settlement.outcome.exit_code == code
    assert settlement.result.is_error == is_error
    assert f"Exit code {code}" in said(settlement)
    assert "done" in said(settlement)


def test_of_a_command_that_was_killed_the_model_is_not_told_that_it_was_through(
    tmp_path: Path,
) -> None:
    wrapper(output_directory(tmp_path), "kill -9 $$").wait()
    settlement = settle_one(bash_call(), tmp_path)
    assert "was killed before it was through" in said(settlement)
    assert "Do not repeat it" not in said(settlement)


def test_a_command_that_still_runs_is_told_with_its_output(tmp_path: Path) -> None:
    directory = output_directory(tmp_path)
    for pipe in ("begun", "go"):
        os.mkfifo(directory / pipe)
    process = wrapper(directory, "echo begun; echo > begun; cat go")
    (directory / "begun").read_bytes()
    settlement = settle_one(bash_call(), tmp_path)
    (directory / "go").write_text("")
    process.wait()
    assert settlement.resolution.verdict == "still_running"
    assert "begun" in said(settlement)


def test_a_command_that_never_started_never_will(tmp_path: Path) -> None:
    settlement = settle_one(bash_call(), tmp_path)
    assert settlement.resolution.verdict == "not_applied"
    assert shell.inspect(tmp_path / "outputs/call-1").state == "never_started"
    assert (tmp_path / "outputs/call-1/start").exists()


def test_a_command_that_vanished_is_unknown_with_the_output_so_far(tmp_path: Path) -> None:
    directory = output_directory(tmp_path)
    (directory / "start").write_text('{"boot_id": "another"}')
    (directory / "stdout").write_text("half of it")
    settlement = settle_one(bash_call(), tmp_path)
    assert settlement.resolution.verdict == "unknown"
    assert settlement.resolution.evidence["rebooted"] is True
    assert "half of it" in said(settlement)


@pytest.mark.parametrize("escape", ["../x", "/tmp", ".", "outputs/../.."])  # noqa: S108  # not written to
def test_an_output_directory_outside_of_the_session_is_not_touched(
    tmp_path: Path, escape: str
) -> None:
    session = tmp_path / "session"
    session.mkdir()
    assert settle_one(bash_call(escape), session).resolution.verdict == "unknown"
    assert list(tmp_path.iterdir()) == [session]
    assert list(session.iterdir()) == []


def test_output_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    directory = output_directory(tmp_path)
    (directory / "start").mkdir()
    settlement = settle_one(bash_call(), tmp_path)
    assert settlement.resolution.verdict == "unknown"
    assert settlement.resolution.evidence["error"]


# --- other tools -----------------------------------------------------------------------------


def test_a_tool_without_a_hook_is_unknown() -> None:
    call = started(OtherIntent("pay", "key-1"), tool="pay")
    assert settle_one(call).resolution.verdict == "unknown"


def test_an_agent_without_a_transcript_never_began() -> None:
    settlement = settle_one(started(AgentIntent("agent-1"), tool="Task"))
    assert settlement.resolution.verdict == "not_applied"
    assert "did NOT begin" in said(settlement)


@pytest.mark.parametrize("agent_id", ["../up", "a/b", "", "nul\0"])
def test_an_agent_id_that_is_no_file_name_is_unknown(agent_id: str) -> None:
    settlement = settle_one(started(AgentIntent(agent_id), tool="Task"))
    assert settlement.resolution.verdict == "unknown"


def test_a_hook_knows_better_than_a_sidechain() -> None:
    call = started(AgentIntent("elsewhere"), tool="Remote")
    hooks = {"Remote": lambda _call: Resolution("applied")}
    assert settle_one(call, verify=hooks).resolution.verdict == "applied"


def test_a_tools_hook_decides(tmp_path: Path) -> None:
    asked: list[str] = []

    def verify(call: OpenCall) -> Resolution:
        assert isinstance(call.intent, OtherIntent)
        asked.append(call.intent.idempotency_key)
        return Resolution("applied", {"receipt": 7}, note="Receipt 7 exists.")

    call = started(OtherIntent("pay", "key-1"), tool="pay")
    settlement = settle_one(call, tmp_path, verify={"pay": verify})
    assert asked == ["key-1"]
    assert settlement.resolution.verdict == "applied"
    assert "Receipt 7" in said(settlement)


def test_a_hook_that_fails_proves_nothing(tmp_path: Path) -> None:
    def verify(call: OpenCall) -> Resolution:
        raise RuntimeError("no network")

    call = started(OtherIntent(), tool="pay")
    settlement = settle_one(call, tmp_path, verify={"pay": verify})
    assert settlement.resolution.verdict == "unknown"
    assert "no network" in settlement.resolution.evidence["error"]


def test_an_exception_in_a_running_action_is_settled_in_its_name(tmp_path: Path) -> None:
    settlement = settle_one(started(ReadOnlyIntent()), tmp_path, by="action")
    assert settlement.resolution.by == "action"
