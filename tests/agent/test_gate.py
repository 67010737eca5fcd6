"""The completion gate: a run is done when its todos are and its check has passed, on fresh evidence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.agent.built import Built, phases, terminal_of, tool
from tests.agent.conftest import Open
from tests.agent.doubles import ScriptedModel, calls, text

import rewake
from rewake.agent import gate
from rewake.agent.gate import VerifyGate
from rewake.agent.permissions import Permissions
from rewake.compose.agents import AgentOptions
from rewake.model.content import ToolCall
from rewake.model.events import AgentEvent, ShellIntent
from rewake.resume import shell
from rewake.settings.schema import Settings

CHECK = "echo x >> ../runs; grep -q right f.txt"
VERIFY = Settings(verify=CHECK)


def write(content: str) -> ToolCall:
    return tool("Write", file_path="f.txt", content=content)


def todos(*statuses: str) -> ToolCall:
    items = [{"content": f"Item {n}", "status": status} for n, status in enumerate(statuses)]
    return tool("TodoWrite", todos=items)


def times_checked(session: rewake.Session) -> int:
    try:
        return (session.root.parent / "runs").read_text().count("x")
    except FileNotFoundError:
        return 0


def read(session: rewake.Session) -> ToolCall:
    return tool("Read", file_path=str(session.root / "f.txt"))


# --- todos -----------------------------------------------------------------------------------


def test_open_todos_send_the_model_back_until_they_are_done(session: rewake.Session) -> None:
    model = ScriptedModel(
        calls(todos("in_progress", "pending")),
        text("Done."),
        calls(todos("completed", "completed")),
        text("Now it is."),
    )
    result = Built(session, model).run()
    assert (result.reason, result.response, result.unfinished) == ("done", "Now it is.", ())
    assert "- [in_progress] Item 0\n- [pending] Item 1" in model.heard(2)[-1]


def test_cancelled_todos_count_as_finished(session: rewake.Session) -> None:
    model = ScriptedModel(calls(todos("completed", "cancelled")), text("Done."))
    assert Built(session, model).run().steps == 2


def test_a_model_that_does_nothing_about_open_todos_is_not_sent_back_again(
    session: rewake.Session,
) -> None:
    model = ScriptedModel(calls(todos("pending")), text("Which one?"), text("I have to ask you."))
    result = Built(session, model).run()
    assert (result.reason, result.steps) == ("unfinished", 3)
    assert "- [pending] Item 0" in result.unfinished[0]


def test_in_plan_mode_nothing_is_missing(session: rewake.Session) -> None:
    model = ScriptedModel(calls(todos("pending")), text("That is my plan."))
    planning = AgentOptions(permission_mode="plan")
    assert Built(session, model, VERIFY, planning).run().reason == "done"


def test_open_todos_are_named_only_so_often(session: rewake.Session) -> None:
    again = [calls(todos("pending")), text("Done.")] * 9
    result = Built(session, ScriptedModel(*again), Settings(verify_max=2)).run()
    assert (result.reason, result.steps) == ("unfinished", 2 * 3)
    assert terminal_of(session)["details"]["unfinished"] == list(result.unfinished)


# --- the check -------------------------------------------------------------------------------


def test_a_check_that_passes_at_once_lets_the_run_end(session: rewake.Session) -> None:
    model = ScriptedModel(calls(write("right\n")), text("Done."))
    result = Built(session, model, VERIFY).run()
    assert (result.reason, result.steps, times_checked(session)) == ("done", 2, 1)
    (check,) = [p for p in phases(session, "completed") if p.message_id is None]
    assert check.outcome is not None
    assert check.outcome.verification == rewake.Verification(CHECK, passed=True)
    assert f"Verification: {CHECK} passed" in session.memory


def test_a_failing_check_sends_the_model_back_with_what_it_says(session: rewake.Session) -> None:
    settings = Settings(verify="cat f.txt; grep -q right f.txt")
    model = ScriptedModel(
        calls(write("this is wrong\n")),
        text("Done."),
        calls(write("right\n")),
        text("Mended."),
    )
    result = Built(session, model, settings).run()
    assert (result.reason, result.response) == ("done", "Mended.")
    told = model.heard(2)[-1]
    assert "this is wrong" in told
    assert "Exit code 1" in told


def test_without_a_change_there_is_no_check(session: rewake.Session) -> None:
    assert Built(session, ScriptedModel(text("Hello.")), VERIFY).run().reason == "done"
    assert times_checked(session) == 0


def test_a_check_that_passed_is_not_repeated_before_the_next_change(open_session: Open) -> None:
    with open_session() as session:
        Built(session, ScriptedModel(calls(write("right\n")), text("Done.")), VERIFY).run()
        Built(session, ScriptedModel(calls(read(session)), text("I see.")), VERIFY).run()
        assert times_checked(session) == 1
        name = session.session_id
    with open_session(resume=name) as session:
        Built(session, ScriptedModel(text("Still done.")), VERIFY).run()
        assert times_checked(session) == 1


def test_an_edit_after_the_check_makes_it_stale_also_after_a_resume(open_session: Open) -> None:
    with open_session() as session:
        Built(session, ScriptedModel(calls(write("right\n")), text("Done.")), VERIFY).run()
        # A run without the gate changes something and is gone.
        Built(session, ScriptedModel(calls(write("wrong\n")), text("Done."))).run()
        name = session.session_id
    with open_session(resume=name) as session:
        model = ScriptedModel(text("Done."), calls(write("right\n")), text("Mended."))
        result = Built(session, model, VERIFY).run()
        assert (result.reason, result.response, times_checked(session)) == ("done", "Mended.", 3)


@pytest.mark.parametrize("how", ["a command", "a sub-agent", "a rewind"])
def test_whoever_changes_something_makes_the_check_stale(session: rewake.Session, how: str) -> None:
    used = Built(session, ScriptedModel(calls(write("right\n")), text("Done.")), VERIFY)
    (gate_of_check,) = [g for g in used.loop.gates if isinstance(g, VerifyGate)]
    before = session.user("Before it.")
    used.run()
    assert not gate_of_check.is_due()
    change = rewake.Change(str(session.root / "f.txt"), rewake.FileState(), rewake.FileState())
    if how == "a command":
        used.model._answers = [calls(tool("Bash", command="echo more >> f.txt")), text("So.")]
        used.loop.gates = ()
        used.run()
    elif how == "a sub-agent":
        session.record(AgentEvent("a", "completed", changes=(change,)))
    else:
        rewake.rewind_files(session, before)
    assert gate_of_check.is_due()


def test_the_models_own_run_of_the_check_is_evidence_too(session: rewake.Session) -> None:
    (session.root / "Makefile").write_text("check:\n\techo x >> ../runs\n")
    model = ScriptedModel(
        calls(write("anything\n")), calls(tool("Bash", command="make check")), text("Done.")
    )
    assert Built(session, model, Settings(verify="make check")).run().reason == "done"
    assert times_checked(session) == 1


def test_a_check_that_changes_files_itself_is_not_stale_at_once(session: rewake.Session) -> None:
    settings = Settings(verify="echo x >> ../runs; date >> log.txt")
    used = Built(session, ScriptedModel(calls(write("right\n")), text("Done.")), settings)
    used.run()
    used.run("and now?")
    assert times_checked(session) == 1


def test_after_the_last_attempt_the_run_says_what_still_fails(session: rewake.Session) -> None:
    answers = [calls(write("wrong\n")), *[text("Done, really.")] * 9]
    result = Built(session, ScriptedModel(*answers), Settings(verify=CHECK, verify_max=2)).run()
    assert (result.reason, result.steps, times_checked(session)) == ("unfinished", 4, 3)
    assert f"the check `{CHECK}` failed" in result.unfinished[0]
    assert terminal_of(session)["reason"] == "unfinished"


def test_a_check_that_nothing_forbids_needs_no_permission_and_one_that_is_forbidden_is_named(
    session: rewake.Session,
) -> None:
    used = Built(session, ScriptedModel(calls(write("right\n")), text("Done.")), VERIFY)
    used.loop.executor.permissions = Permissions("acceptEdits")
    assert used.run().reason == "done"
    used.model._answers = [calls(write("right again\n")), text("Done.")]
    used.loop.executor.permissions = Permissions("bypass", deny=["Bash(echo:*)"])
    result = used.run()
    assert (result.reason, result.steps) == ("unfinished", 2)
    assert "was not run" in result.unfinished[0]


def test_a_check_that_hangs_is_ended_and_has_failed(
    session: rewake.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "TIMEOUT_MS_MAX", 300)
    model = ScriptedModel(calls(write("right\n")), *[text("Done.")] * 9)
    settings = Settings(verify="sleep 600", verify_max=1)
    result = Built(session, model, settings).run()
    assert result.reason == "unfinished"
    assert "Timed out" in result.unfinished[0]


def test_long_output_of_a_check_is_told_by_its_end(session: rewake.Session) -> None:
    settings = Settings(verify="seq 1 100000; false", verify_max=1)
    model = ScriptedModel(calls(write("right\n")), *[text("Done.")] * 9)
    Built(session, model, settings).run()
    told = model.heard(2)[-1]
    assert len(told) < 5000
    assert "\n100000\n" in told


def test_a_check_that_is_interrupted_is_settled_and_counts_for_nothing(
    session: rewake.Session, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "begun")
    begun = os.open(tmp_path / "begun", os.O_RDONLY | os.O_NONBLOCK)
    settings = Settings(verify=f"echo > {tmp_path}/begun; sleep 600")
    used = Built(session, ScriptedModel(calls(write("right\n")), text("Done.")), settings)

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(used.loop.run, "go")
            await anyio.wait_readable(begun)
            group.cancel_scope.cancel()

    anyio.run(run)
    os.close(begun)
    (check,) = phases(session, "resolved")
    assert check.resolution is not None
    assert check.resolution.evidence["exit"]["cancelled"] is True
    assert session.state.world.checks == {}
    assert session.state.world.calls == {}


AGENT = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import rewake
from rewake.settings.schema import Settings
from tests.agent.built import Built, tool
from tests.agent.doubles import ScriptedModel, calls, text
session = rewake.open_session(sys.argv[2], home=sys.argv[3], session_id="s")
model = ScriptedModel(calls(tool("Write", file_path="f.txt", content="right")), text("Done."))
Built(session, model, Settings(verify=sys.argv[4])).run()
"""


@pytest.fixture
def killed_in_its_check(project: Path, home: Path) -> str:
    """An agent that was killed while its check waits at a pipe; the check's command."""
    os.mkfifo(project / "begun")
    check = "echo x >> ../runs; test -e ../again || { echo > begun; sleep 600; }"
    checkout = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", AGENT, checkout, str(project), str(home), check],
        stderr=subprocess.DEVNULL,
    )
    (project / "begun").read_text()
    process.kill()
    assert process.wait() == -signal.SIGKILL
    (project / "begun").unlink()
    (project.parent / "again").touch()
    return check


def test_a_check_that_outlived_a_killed_agent_is_ended_before_it_runs_again(
    killed_in_its_check: str, open_session: Open
) -> None:
    with open_session(resume="s") as session:
        (left,) = session.state.world.calls.values()
        assert left.status == "running"
        used = Built(session, ScriptedModel(text("Done.")), Settings(verify=killed_in_its_check))
        result = used.run()
        assert (result.reason, times_checked(session)) == ("done", 2)
        assert isinstance(left.intent, ShellIntent)
        assert not shell.state_of(session.directory / left.intent.output_directory).is_alive
