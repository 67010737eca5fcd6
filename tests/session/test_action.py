"""An action: started before its body, ended once, settled at once when its body raises."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.session.conftest import Open
from tests.session.helpers import (
    NoTracker,
    break_off,
    nothing,
    phases_of,
    said,
    statuses_of,
    transcript_of,
)

import rewake

EDIT = rewake.ToolCall("call_1", "edit")


def verdict_of(session: rewake.Session) -> str:
    (resolution,) = [p.resolution for p in phases_of(transcript_of(session)) if p.resolution]
    return resolution.verdict


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_an_action_is_on_disk_as_started_before_its_body_runs(
    open_session: Open, durability: str
) -> None:
    with (
        open_session(durability=durability) as session,
        session.action("tool", "call_1") as action,
    ):
        assert statuses_of(transcript_of(session)) == ["requested", "started"]
        action.complete("done")
        assert statuses_of(transcript_of(session)) == ["requested", "started", "completed"]


def test_a_body_that_just_ends_has_completed_the_action(open_session: Open) -> None:
    with open_session() as session:
        with session.action("tool", "call_1") as action:
            pass
        assert action.state == "ended"
        assert statuses_of(transcript_of(session)) == ["requested", "started", "completed"]


@pytest.mark.parametrize("first", ["complete", "fail"])
@pytest.mark.parametrize("second", ["complete", "fail"])
def test_ending_an_action_twice_is_an_error_that_records_nothing(
    open_session: Open, first: str, second: str
) -> None:
    with open_session() as session, session.action("tool", "call_1") as action:
        getattr(action, first)("one")
        with pytest.raises(rewake.UsageError, match="has ended already"):
            getattr(action, second)("two")
        assert len(statuses_of(transcript_of(session))) == 3


def test_starting_an_action_twice_is_an_error(open_session: Open) -> None:
    with open_session() as session:
        action = session.action("tool", "call_1")
        with action, pytest.raises(rewake.UsageError, match="started before"):
            action.start()


def test_an_error_before_the_effect_settles_as_not_applied(
    open_session: Open, project: Path
) -> None:
    target = project / "a"
    target.write_text("old")
    with open_session() as session:
        session.user("go")
        session.assistant([EDIT])
        action = session.action(EDIT, intent=rewake.FileChange(target, "old", "new"))
        with pytest.raises(RuntimeError, match="too early"):
            break_off(action, RuntimeError("too early"), nothing)
        assert action.settlement is not None
        assert verdict_of(session) == "not_applied"
        assert "NOT applied" in said(session)[-1]
        assert "RuntimeError: too early" in said(session)[-1]


def test_an_error_after_the_effect_settles_as_applied_and_the_change_is_on_record(
    open_session: Open, project: Path
) -> None:
    target = project / "a"
    target.write_text("old")
    with open_session() as session:
        session.user("go")
        session.assistant([EDIT])
        action = session.action(EDIT, intent=rewake.FileChange(target, "old", "new"))
        with pytest.raises(RuntimeError, match="too late"):
            break_off(action, RuntimeError("too late"), lambda: target.write_text("new"))
        assert verdict_of(session) == "applied"
        assert "WAS applied" in said(session)[-1]
        (phase,) = [p for p in phases_of(transcript_of(session)) if p.status == "resolved"]
        assert phase.outcome is not None
        assert [change.path for change in phase.outcome.changes] == [str(target)]


@pytest.mark.parametrize(
    ("content", "verdict"),
    [("new", "applied"), ("old", "not_applied"), ("ne", "partial"), ("other", "unknown")],
)
def test_the_evidence_decides_whatever_the_error_says(
    open_session: Open, project: Path, content: str, verdict: str
) -> None:
    target = project / "a"
    target.write_text("old")
    with open_session() as session:
        action = session.action("edit", "x", rewake.FileChange(target, "old", "new"))
        with pytest.raises(OSError, match="disk"):
            break_off(action, OSError("disk"), lambda: target.write_text(content))
        assert verdict_of(session) == verdict


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_ends_the_program_leaves_the_action_started(
    open_session: Open, project: Path, error: type[BaseException]
) -> None:
    target = project / "a"
    with open_session() as session:
        action = session.action("edit", "x", rewake.FileChange(target, None, ""))
        with pytest.raises(error):
            break_off(action, error(), target.touch)
        assert statuses_of(transcript_of(session)) == ["requested", "started"]
    with open_session(resume=session.session_id) as again:
        assert verdict_of(again) == "applied"
        assert again.resumed is not None
        assert [item.call_id for item in again.resumed.uncertain] == [
            phases_of(transcript_of(again))[1].call_id
        ]


def test_a_cancelled_task_leaves_its_async_action_started(open_session: Open) -> None:
    async def body(session: rewake.AsyncSession, entered: asyncio.Event) -> None:
        async with session.action("tool", "call_1"):
            entered.set()
            await asyncio.Event().wait()

    async def run() -> None:
        async with rewake.AsyncSession(session) as twin:
            entered = asyncio.Event()
            task = asyncio.create_task(body(twin, entered))
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    session = open_session()
    asyncio.run(run())
    assert statuses_of(transcript_of(session)) == ["requested", "started"]


def test_an_error_in_an_async_body_settles_the_action(open_session: Open) -> None:
    async def run() -> None:
        async with rewake.AsyncSession(session) as twin, twin.action("tool", "call_1"):
            raise ValueError("no")

    session = open_session()
    with pytest.raises(ValueError, match="no"):
        asyncio.run(run())
    assert statuses_of(transcript_of(session)) == ["requested", "started", "resolved"]


def test_an_outcome_that_cannot_be_recorded_settles_the_action_instead(open_session: Open) -> None:
    with open_session() as session:
        with (
            pytest.raises(rewake.InvalidValueError),
            session.action("tool", "call_1") as action,
        ):
            action.complete("x", outcome=rewake.Outcome(details={"n": float("inf")}))
        assert statuses_of(transcript_of(session)) == ["requested", "started", "resolved"]


def test_the_same_provider_id_in_every_turn_keeps_its_answers_apart(open_session: Open) -> None:
    with open_session() as session:
        for turn in range(3):
            session.user(f"prompt {turn}")
            calls = [rewake.ToolCall("call_1", "a"), rewake.ToolCall("call_1", "b")]
            session.assistant(calls)
            for number, call in enumerate(calls):
                with session.action(call) as action:
                    action.complete(f"answer {turn}.{number}")
    answers = [text.split() for text in said(session) if "answer" in text]
    assert answers == [["answer", f"{turn}.0", "answer", f"{turn}.1"] for turn in range(3)]
    ids = [phase.call_id for phase in phases_of(transcript_of(session)) if phase.call_id]
    assert len(set(ids)) == 6


def test_calls_of_one_id_that_run_side_by_side_take_places_of_their_own(
    open_session: Open,
) -> None:
    with open_session() as session:
        session.user("go")
        calls = [rewake.ToolCall("call_1", "read", {"n": n}) for n in range(4)]
        session.assistant([*calls, calls[3]])
        actions = [session.action(call) for call in [calls[2], calls[0], calls[3], *calls[1::2]]]
        for action in actions:
            action.start()
        assert [action.index for action in actions] == [2, 0, 3, 1, 4]


HOSTILE = ["../x", "../../../../etc/passwd", "a/b", "", ".", "\x00", "\ud800", "x" * 300, "call_1"]


def test_hostile_provider_ids_stay_data(open_session: Open, home: Path, tmp_path: Path) -> None:
    with open_session() as session:
        session.user("go")
        calls = [rewake.ToolCall(provider_id, "tool") for provider_id in HOSTILE]
        session.assistant(calls)
        before = {path for path in tmp_path.rglob("*") if home not in path.parents}
        for number, call in enumerate(calls):
            with session.action(call) as action:
                assert "/" not in action.call_id
                action.complete(f"answer {number}")
        assert {path for path in tmp_path.rglob("*") if home not in path.parents} == before
    (entry,) = [entry for entry in session.messages if entry.answers]
    told = [answer.result.content[0] for answer in entry.answers if answer is not None]
    assert told == [rewake.Text(f"answer {number}") for number in range(len(HOSTILE))]
    with open_session(resume=session.session_id) as again:
        assert said(again)[:3] == said(session)[:3]


def test_interrupted_calls_of_one_provider_id_get_verdicts_of_their_own(
    open_session: Open, project: Path
) -> None:
    one, two = project / "one", project / "two"
    session = open_session()
    session.user("go")
    calls = [rewake.ToolCall("../x", "edit"), rewake.ToolCall("../x", "edit")]
    session.assistant(calls)
    session.action(calls[0], intent=rewake.FileChange(one, None, "1")).start()
    session.action(calls[1], intent=rewake.FileChange(two, None, "2")).start()
    two.write_text("2")
    session.close()
    with open_session(resume=session.session_id) as again:
        assert again.resumed is not None
        verdicts = [item.resolution.verdict for item in again.resumed.uncertain]
        assert verdicts == ["not_applied", "applied"]
        told = said(again)[-1]
        assert f"NOT applied: the session was interrupted before {one}" in told
        assert f"WAS applied before the interruption: {two}" in told


def test_a_call_that_no_message_asked_for_is_recorded_with_its_arguments(
    open_session: Open,
) -> None:
    with open_session() as session:
        with session.action(rewake.ToolCall("x", "tool", {"a": 1})) as action:
            action.complete("ok")
        assert phases_of(transcript_of(session))[0].arguments == {"a": 1}


def test_a_verify_hook_decides_about_effects_that_only_the_tool_knows(open_session: Open) -> None:
    seen = []

    def verify(call: object) -> rewake.Resolution:
        seen.append(call)
        return rewake.Resolution("applied", {"row": 7}, note="It is row 7.")

    session = open_session()
    intent = rewake.OtherIntent("insert a row", "key-7")
    session.action("sql", "x", intent).start()
    session.close()
    with open_session(resume=session.session_id, verify={"sql": verify}) as again:
        assert verdict_of(again) == "applied"
    assert [getattr(call, "intent", None) for call in seen] == [intent]


def test_open_calls_stand_in_the_order_in_which_they_started(
    open_session: Open, project: Path
) -> None:
    with open_session() as session:
        later, sooner = session.action("Edit", "call_1"), session.action("Edit", "call_2")
        later.request()
        for action, (before, after) in ((sooner, (b"0", b"1")), (later, (b"1", b"2"))):
            action.intent = rewake.FileChange(project / "a", before, after)
            action.start()
        assert list(session.state.world.calls) == [sooner.call_id, later.call_id]


def test_a_call_is_cut_short_only_after_what_another_thread_does_to_it(open_session: Open) -> None:
    scanning, may_go_on = threading.Event(), threading.Event()

    class SlowTracker(NoTracker):
        def before(self, call_id: str) -> None:
            scanning.set()
            assert may_go_on.wait(60)

    with open_session() as session:
        session.tracker = SlowTracker()
        action = session.action("tool", "call_1")
        action.request()
        starting = threading.Thread(target=action.start)
        starting.start()
        assert scanning.wait(60)
        cutting = threading.Thread(target=action.cut_short, args=(ValueError("stop"), "not run"))
        cutting.start()
        may_go_on.set()
        starting.join()
        cutting.join()
        assert statuses_of(transcript_of(session)) == ["requested", "started", "resolved"]
