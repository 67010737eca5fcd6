"""Interrupted anywhere: nothing runs on, every call is settled, the next prompt is accepted."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.agent.conftest import Open
from tests.agent.doubles import Agent, Body, DoubleTool, ScriptedModel, agent, calls, text
from tests.session.helpers import NoTracker

import rewake
from rewake.agent.permissions import Answer as Decision
from rewake.agent.permissions import Permissions, Question
from rewake.agent.ports import ModelRequest, Reply
from rewake.agent.tools.bash import BashTool
from rewake.log.scan import Transcript
from rewake.model.content import ToolCall
from rewake.model.events import Event, FileChangeIntent, Intent, ToolLifecycle


class Interruption:
    """One run that is cut short by `stop()`, called from anywhere."""

    def __init__(self, used: Agent, *, native: bool) -> None:
        self._used = used
        self._native = native
        self._stop: Callable[[], object] = lambda: None
        self.soon: Callable[[Callable[[], object]], object] = lambda _call: None

    def stop(self) -> None:
        """Cancel the run: its task as `asyncio.run` does at Ctrl-C, or the scope around it."""
        self._stop()

    def run(self, ended: Callable[[], None] = lambda: None) -> None:
        """The run to its end, which is then recorded; `ended` hears of it at once."""
        before = self._used.session.state.world.usage
        asyncio.run(self._as_task(ended) if self._native else self._in_scope(ended))
        self._used.loop.result("interrupted", before)

    async def _in_scope(self, ended: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self.soon = loop.call_soon_threadsafe
        with anyio.CancelScope() as scope:
            self._stop = lambda: loop.call_soon_threadsafe(scope.cancel)
            await self._used.loop.run("go")
        assert scope.cancelled_caught
        ended()

    async def _as_task(self, ended: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self.soon = loop.call_soon_threadsafe
        task = asyncio.create_task(self._used.loop.run("go"))
        self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        ended()


def phases(session: rewake.Session) -> list[tuple[str, str]]:
    assert session.transcript is not None
    session.flush()
    with Transcript(session.transcript) as reader:
        found = [item.payload for item in reader.forward() if isinstance(item, Event)]
    return [(p.tool_name, p.status) for p in found if isinstance(p, ToolLifecycle)]


def goes_on(used: Agent) -> list[str]:
    """The next prompt's request; the model double refuses a bad one."""
    used.model._answers.clear()
    result = used.run("the next prompt")
    assert (result.reason, result.response) == ("done", "done")
    heard = used.model.heard()
    assert heard[-1] == "the next prompt"
    assert used.session.state.world.calls == {}
    return heard


kinds = pytest.mark.parametrize("native", [True, False], ids=["task", "scope"])


@kinds
def test_during_a_model_call(session: rewake.Session, *, native: bool) -> None:
    async def hang(request: ModelRequest) -> Reply:
        run.stop()
        await anyio.sleep_forever()
        raise AssertionError

    used = agent(session, ScriptedModel(hang))
    run = Interruption(used, native=native)
    run.run()
    assert session.state.world.terminal is not None
    assert session.state.world.terminal.reason == "interrupted"
    assert goes_on(used) == ["go", "the next prompt"]


@kinds
def test_during_a_wait_for_a_busy_provider(session: rewake.Session, *, native: bool) -> None:
    async def wait(seconds: float) -> None:
        run.stop()
        await anyio.sleep_forever()

    used = agent(session, ScriptedModel(rewake.ModelError("busy", status=529, retryable=True)))
    used.loop.sleep = wait
    run = Interruption(used, native=native)
    run.run()
    assert goes_on(used) == ["go", "the next prompt"]


@kinds
def test_during_parallel_reads_what_had_ended_stays(
    session: rewake.Session, *, native: bool
) -> None:
    def hanging(inside: list[str]) -> Body:
        async def body(call_id: str) -> str:
            inside.append(call_id)
            if len(inside) == 2:
                while not used.watch.results:  # until the quick one's outcome is recorded
                    await anyio.lowlevel.checkpoint()
                run.stop()
            await anyio.sleep_forever()
            raise AssertionError

        return body

    tools = [
        DoubleTool("quick", read_only=True),
        DoubleTool("slow", hanging([]), read_only=True),
        DoubleTool("after"),
    ]
    used = agent(session, ScriptedModel(calls("slow", "quick", "slow", "after")), tools)
    run = Interruption(used, native=native)
    run.run()
    answers = goes_on(used)[2]
    assert answers.count("call it again if you still need it") == 2
    assert "\nok\n" in answers
    assert "not executed" in answers
    assert tools[2].ran == []


@kinds
def test_during_the_scan_before_a_call_it_is_settled_and_never_runs(
    session: rewake.Session, *, native: bool
) -> None:
    tool = DoubleTool("slow")
    used = agent(session, ScriptedModel(calls("slow")), [tool])
    run = Interruption(used, native=native)
    heard = threading.Event()

    class Scan(NoTracker):
        def before(self, call_id: str) -> None:
            if heard.is_set():
                return
            run.stop()
            run.soon(heard.set)
            assert heard.wait(20), "the event loop waits for the scan"

    session.tracker = Scan()
    run.run()
    assert phases(session) == [("slow", "requested"), ("slow", "started"), ("slow", "failed")]
    assert tool.ran == []
    assert "not executed" in goes_on(used)[2]


@kinds
def test_during_an_edit_the_file_decides(
    session: rewake.Session, project: Path, *, native: bool
) -> None:
    target = project / "a"

    async def body(call_id: str) -> str:
        target.write_text("new")
        run.stop()
        await anyio.sleep_forever()
        raise AssertionError

    def intent(_context: object) -> Intent:
        made = session.frozen_intent(rewake.FileChange(target, None, "new"))
        assert isinstance(made, FileChangeIntent)
        return made

    used = agent(session, ScriptedModel(calls("edit")), [DoubleTool("edit", body, intent=intent)])
    run = Interruption(used, native=native)
    run.run()
    assert "WAS applied" in goes_on(used)[2]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@kinds
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_during_a_shell_command_its_whole_group_is_dead_and_it_is_settled(
    session: rewake.Session, project: Path, *, native: bool
) -> None:
    pipe = project / "pids"
    os.mkfifo(pipe)
    command = f"sleep 600 & echo $! $$ > {pipe}; wait"
    pids: list[int] = []

    def stop_once_it_runs() -> None:
        pids.extend(map(int, pipe.read_text().split()))  # blocks until the command writes
        run.stop()

    used = agent(
        session, ScriptedModel(calls(ToolCall("x", "Bash", {"command": command}))), [BashTool()]
    )
    run = Interruption(used, native=native)
    thread = threading.Thread(target=stop_once_it_runs)
    thread.start()
    began = time.monotonic()
    run.run()
    thread.join()
    assert len(pids) == 2
    assert not any(map(is_alive, pids))
    assert time.monotonic() - began < 10
    assert phases(session)[-1] == ("Bash", "resolved")
    assert goes_on(used)[2] != ""


@kinds
def test_during_a_question_to_the_user(session: rewake.Session, *, native: bool) -> None:
    answered = threading.Event()

    def ask(question: Question) -> Decision:
        run.stop()
        answered.wait(5)  # so that a defect ends in a failure
        return "yes"

    tool = DoubleTool("write")
    used = agent(
        session,
        ScriptedModel(calls("write", "write")),
        [tool],
        permissions=Permissions("default", ask=ask),
    )
    run = Interruption(used, native=native)

    ended_unanswered: list[bool] = []

    def ended() -> None:
        ended_unanswered.append(not answered.is_set())
        answered.set()

    run.run(ended)
    assert ended_unanswered == [True]
    assert tool.ran == []
    assert goes_on(used)[2].count("not executed") == 2


def test_a_user_who_answers_by_raising_leaves_a_history_that_goes_on(
    session: rewake.Session,
) -> None:
    def ask(question: Question) -> Decision:
        raise rewake.RewakeError("stopped")

    tool = DoubleTool("write")
    used = agent(
        session,
        ScriptedModel(calls("write", "write")),
        [tool],
        permissions=Permissions("default", ask=ask),
    )
    with pytest.raises(rewake.RewakeError, match="stopped"):
        used.run()
    assert tool.ran == []
    assert goes_on(used)[2].count("not executed") == 2


def test_an_interrupted_session_resumes_as_it_was_left(open_session: Open) -> None:
    async def hang(call_id: str) -> str:
        run.stop()
        await anyio.sleep_forever()
        raise AssertionError

    with open_session() as first:
        used = agent(first, ScriptedModel(calls("t", "t")), [DoubleTool("t", hang)])
        run = Interruption(used, native=False)
        run.run()
        shown = [entry.message_id for entry in first.messages]
    with open_session(resume=first.session_id) as second:
        assert second.resumed is not None
        assert (second.resumed.pending, second.resumed.damage) == ((), ())
        assert [entry.message_id for entry in second.messages] == shown
        after = agent(second, ScriptedModel(text("end")), [DoubleTool("t")])
        assert after.run("on").response == "end"
