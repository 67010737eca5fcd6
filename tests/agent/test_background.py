"""Commands in the background: they outlive their call and their agent, and the model is told once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.agent.built import Built, phases, tool
from tests.agent.conftest import Open
from tests.agent.doubles import ScriptedModel, calls, text
from tests.cli.shell import wait_until

import rewake
from rewake.agent.ports import ModelRequest, Reply, ToolContext
from rewake.agent.tools import bash
from rewake.compose.commands import find_command, running_in
from rewake.log.lock import boot_id
from rewake.model.content import ToolCall
from rewake.model.events import Outcome, ShellIntent
from rewake.resume import running, shell
from rewake.state.world import COMMANDS_MAX, BackgroundCommand


def start(command: str, **more: object) -> ToolCall:
    return tool("Bash", command=command, run_in_background=True, **more)


def the_command(session: rewake.Session) -> BackgroundCommand:
    (command,) = session.state.world.commands.values()
    return command


def output_of(session: rewake.Session) -> Path:
    return session.directory / the_command(session).output_directory


def ended(session: rewake.Session) -> bool:
    return shell.state_of(output_of(session)).state == "finished"


@pytest.fixture
def gate(project: Path) -> Callable[[], None]:
    """A pipe `go` in the project that commands read from; called, it lets them go on."""
    os.mkfifo(project / "go")

    def open_it() -> None:
        (project / "go").write_text("on\n")

    return open_it


@pytest.fixture(autouse=True)
def nothing_is_left(home: Path) -> Iterator[None]:
    """Whatever a test started is ended with it."""
    yield
    for start_file in home.glob("projects/*/sessions/*/outputs/*/start"):
        assert running.stop(start_file.parent, boot_id())


# --- in one run ------------------------------------------------------------------------------


def test_the_call_ends_at_once_and_the_command_goes_on(
    session: rewake.Session, gate: Callable[[], None]
) -> None:
    Built(session, ScriptedModel(calls(start("cat go")), text("It runs."))).run()
    (call,) = phases(session, "completed")
    assert isinstance(call.outcome, Outcome)
    assert call.outcome.details["command_id"] == the_command(session).short_id
    assert shell.state_of(output_of(session)).state == "running"
    gate()
    wait_until(lambda: ended(session))


def test_the_model_reads_only_what_is_new_and_the_offset_is_on_record(
    open_session: Open, gate: Callable[[], None]
) -> None:
    def read(request: ModelRequest) -> ToolCall:
        return tool("BashOutput", id=the_command(session).short_id)

    async def reads(request: ModelRequest) -> Reply:
        return calls(read(request))

    with open_session() as session:
        begin = "echo caf\u00e9; echo warn >&2; echo ready > began; cat go; cat go"
        Built(session, ScriptedModel(calls(start(begin)), text("ok"))).run()
        wait_until((session.root / "began").exists)
        used = Built(session, ScriptedModel(reads, reads, text("ok")))
        used.run()
        assert "caf\u00e9\n[stderr]\nwarn\nStill running." in used.model.heard(1)[-1]
        assert used.model.heard(2)[-1].strip() == "(nothing new)\nStill running."
        name = session.session_id
    gate()
    with open_session(resume=name) as session:
        wait_until(
            lambda: (output_of(session) / "stdout").stat().st_size > len("caf\u00e9\n".encode())
        )
        used = Built(session, ScriptedModel(reads, text("ok")))
        used.run()
        assert used.model.heard(1)[-1].strip() == "on\nStill running."
    gate()


def test_a_rewind_takes_back_what_the_model_has_read(
    session: rewake.Session, gate: Callable[[], None]
) -> None:
    async def reads(request: ModelRequest) -> Reply:
        return calls(tool("BashOutput", id=the_command(session).short_id))

    Built(session, ScriptedModel(calls(start("echo one; cat go")), text("ok"))).run()
    wait_until(lambda: (output_of(session) / "stdout").stat().st_size > 0)
    before = session.messages[-1].message_id
    Built(session, ScriptedModel(reads, text("ok"))).run()
    session.rewind(before)
    used = Built(session, ScriptedModel(reads, text("ok")))
    used.run()
    assert used.model.heard(1)[-1].strip() == "one\nStill running."
    gate()


def test_only_lines_with_a_text_are_shown_when_they_are_asked_for(
    session: rewake.Session,
) -> None:
    async def reads(request: ModelRequest) -> Reply:
        wanted = {"filter": "0000", "wait_ms": 20_000}
        return calls(tool("BashOutput", id=the_command(session).short_id, **wanted))

    model = ScriptedModel(calls(start("seq 1 30000; echo last 0000")), reads, text("ok"))
    Built(session, model).run()
    told = model.heard(2)
    assert any("10000\n20000\n30000\nlast 0000\n" in said for said in told)


def test_the_end_is_told_once_before_the_next_request(
    session: rewake.Session, gate: Callable[[], None]
) -> None:
    async def ends(request: ModelRequest) -> Reply:
        gate()
        wait_until(lambda: ended(session))
        return calls(tool("Glob", pattern="*"))

    model = ScriptedModel(calls(start("cat go; exit 3")), ends, text("I see."), text("Yes."))
    used = Built(session, model)
    used.run()
    used.run("And?")
    told = [said for said in model.heard() if "has ended" in said]
    assert len(told) == 1
    assert "Exit code 3" in told[0]
    assert [p.status for p in phases(session, "resolved")] == ["resolved"]
    command = the_command(session)
    assert (command.state, command.exit_code) == ("ended", 3)


def test_who_has_read_of_the_end_is_not_told_again(session: rewake.Session) -> None:
    async def waits(request: ModelRequest) -> Reply:
        return calls(tool("BashOutput", id=the_command(session).short_id, wait_ms=20_000))

    model = ScriptedModel(calls(start("sleep 0.3; echo out")), waits, text("I see."))
    Built(session, model).run()
    assert sum("Exit code 0" in said for said in model.heard()) == 1
    assert the_command(session).state == "ended"


def test_kill_shell_ends_it_with_all_it_started(session: rewake.Session) -> None:
    async def kills(request: ModelRequest) -> Reply:
        wait_until((session.root / "pids").exists)
        return calls(tool("KillShell", id=the_command(session).short_id))

    command = "(setsid sleep 600 & echo $!) > pid; sleep 600 & mv pid pids; sleep 600"
    model = ScriptedModel(calls(start(command)), kills, text("ok"))
    Built(session, model).run()
    assert "Stopped after" in model.heard(2)[-1]
    assert not shell.state_of(output_of(session)).is_alive
    assert not Path(f"/proc/{(session.root / 'pids').read_text().strip()}/cwd").exists()


def test_without_an_id_the_commands_are_listed(
    session: rewake.Session, gate: Callable[[], None]
) -> None:
    model = ScriptedModel(calls(start("cat go")), calls(tool("BashOutput")), text("ok"))
    Built(session, model).run()
    assert f"{the_command(session).short_id}  Still running.  cat go" in model.heard(2)[-1]
    gate()


@pytest.mark.parametrize("name", ["BashOutput", "KillShell"])
def test_an_id_that_is_none_is_refused_with_those_there_are(
    session: rewake.Session, name: str
) -> None:
    model = ScriptedModel(calls(tool(name, id="nobody")), text("ok"))
    Built(session, model).run()
    assert "There is no background command 'nobody'" in model.heard(1)[-1]


def test_so_many_at_once_and_no_more(
    session: rewake.Session, gate: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bash, "BACKGROUND_MAX", 1)
    model = ScriptedModel(calls(start("cat go")), calls(start("cat go")), text("ok"))
    Built(session, model).run()
    assert "1 commands run in the background already" in model.heard(2)[-1]
    gate()


def test_its_own_time_limit_ends_it(session: rewake.Session) -> None:
    Built(session, ScriptedModel(calls(start("sleep 600", timeout_ms=300)), text("ok"))).run()
    wait_until(lambda: ended(session))
    model = ScriptedModel(text("I see."))
    Built(session, model).run("And now?")
    assert "Timed out after" in model.heard()[-1] + model.heard()[-2]


def test_no_time_limit_is_none(session: rewake.Session, gate: Callable[[], None]) -> None:
    Built(session, ScriptedModel(calls(start("cat go", timeout_ms=0)), text("ok"))).run()
    assert "It has no time limit." in str(phases(session, "completed"))
    gate()
    wait_until(lambda: ended(session))


def test_what_is_known_of_commands_is_bounded(session: rewake.Session) -> None:
    for _ in range(COMMANDS_MAX + 5):
        with session.action("Bash", intent=ShellIntent("x", "/", "outputs/x", 0, True)):
            pass
    assert len(session.state.world.commands) == COMMANDS_MAX


# --- files -----------------------------------------------------------------------------------


in_git_and_elsewhere = pytest.mark.parametrize("git", [False, True], ids=["plain", "git"])


def make_repository(root: Path) -> None:
    """The project as it is, committed."""
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)


@in_git_and_elsewhere
def test_what_it_changed_after_its_call_is_on_record_and_goes_back_only_when_forced(
    session: rewake.Session, gate: Callable[[], None], *, git: bool
) -> None:
    (session.root / "f.txt").write_text("before\n")
    if git:
        make_repository(session.root)
    before = session.user("First.")
    command = "cat go; echo after > f.txt; echo new > made.txt"
    used = Built(session, ScriptedModel(calls(start(command)), text("It runs.")))
    used.run()
    gate()
    wait_until(lambda: ended(session))
    used.run("And?")
    (end,) = phases(session, "resolved")
    assert end.outcome is not None
    assert {Path(one.path).name for one in end.outcome.changes} == {"f.txt", "made.txt"}
    plan = rewake.plan_rewind(session, before)
    assert {step.why for step in plan.conflicts} == {"background"}
    assert plan.changes == ()
    rewake.rewind_files(session, before, force=True)
    assert (session.root / "f.txt").read_text() == "before\n"
    assert not (session.root / "made.txt").exists()


@in_git_and_elsewhere
@pytest.mark.parametrize("how", ["Edit", "Bash"])
def test_a_users_own_change_meanwhile_is_never_taken_for_another_calls(
    session: rewake.Session, gate: Callable[[], None], how: str, *, git: bool
) -> None:
    file = session.root / "f.txt"
    file.write_text("one\n")
    if git:
        make_repository(session.root)

    async def looks(request: ModelRequest) -> Reply:
        file.write_text("the user's\n")
        return calls(tool("Read", file_path="f.txt"))

    edit = tool("Edit", file_path="f.txt", old_string="user", new_string="agent")
    if how == "Bash":
        edit = tool("Bash", command="sed -i s/user/agent/ f.txt")
    before = session.user("First.")
    used = Built(session, ScriptedModel(calls(start("cat go")), looks, calls(edit), text("Done.")))
    used.run()
    assert file.read_text() == "the agent's\n"
    rewake.rewind_files(session, before)
    assert file.read_text() == "the user's\n"
    gate()
    wait_until(lambda: ended(session))


def test_that_its_changes_are_not_covered_after_its_agent_is_said(
    open_session: Open, gate: Callable[[], None]
) -> None:
    with open_session() as session:
        Built(session, ScriptedModel(calls(start("cat go; echo x > f")), text("ok"))).run()
        name = session.session_id
    gate()
    with open_session(resume=name) as session:
        wait_until(lambda: ended(session))
        Built(session, ScriptedModel(text("I see."))).run("And?")
        (end,) = phases(session, "resolved")
        assert end.outcome is not None
        assert "went on after its agent" in end.outcome.details["not_covered"][0]["reason"]


# --- across lives ----------------------------------------------------------------------------


def test_it_is_found_again_and_its_end_told_although_nobody_was_there(
    open_session: Open, gate: Callable[[], None]
) -> None:
    with open_session() as session:
        Built(session, ScriptedModel(calls(start("cat go; exit 5")), text("ok"))).run()
        name = session.session_id
    gate()
    with open_session(resume=name) as session:
        wait_until(lambda: ended(session))
        model = ScriptedModel(text("I see."))
        Built(session, model).run("Go on.")
        assert sum("Exit code 5" in said for said in model.heard()) == 1
        name = session.session_id
    with open_session(resume=name) as session:
        model = ScriptedModel(text("Yes."))
        Built(session, model).run("Once more.")
        assert sum("Exit code 5" in said for said in model.heard()) == 1


@pytest.mark.parametrize("on_running", ["leave", "wait", "stop"])
def test_on_running_is_not_about_commands_in_the_background(
    open_session: Open, gate: Callable[[], None], on_running: str
) -> None:
    with open_session() as session:
        Built(session, ScriptedModel(calls(start("cat go")), text("ok"))).run()
        name = session.session_id
    with open_session(resume=name, on_running=on_running) as session:
        assert shell.state_of(output_of(session)).state == "running"
    gate()


def test_a_fork_has_none_of_its_origins_commands(
    open_session: Open, gate: Callable[[], None]
) -> None:
    with open_session() as session:
        Built(session, ScriptedModel(calls(start("cat go")), text("ok"))).run()
        name = session.session_id
    with open_session(resume=name, fork=True) as fork:
        assert fork.state.world.commands == {}
    gate()


def test_one_that_left_the_conversation_by_a_rewind_still_runs_and_its_end_is_told(
    session: rewake.Session, gate: Callable[[], None]
) -> None:
    first = session.user("First.")
    Built(session, ScriptedModel(calls(start("cat go; exit 4")), text("ok"))).run()
    session.rewind(first)
    gate()
    wait_until(lambda: ended(session))
    model = ScriptedModel(text("I see."))
    Built(session, model).run("Another way.")
    assert sum("Exit code 4" in said for said in model.heard()) == 1


def test_one_that_is_gone_after_a_restart_is_told_of_as_gone(
    open_session: Open, gate: Callable[[], None]
) -> None:
    with open_session() as session:
        Built(session, ScriptedModel(calls(start("exec cat go")), text("ok"))).run()
        output = output_of(session)
        start_file = json.loads((output / "start").read_bytes())
        # As after a power loss: nothing lives, and the start names a boot that is over.
        os.kill(start_file["pid"], signal.SIGKILL)
        gate()
        shell.wait(output)
        (output / "start").write_text(json.dumps({**start_file, "boot_id": "another"}))
        name = session.session_id
    with open_session(resume=name) as session:
        model = ScriptedModel(text("I see."))
        Built(session, model).run("Go on.")
        assert sum("gone without an exit code" in said for said in model.heard()) == 1
        assert the_command(session).state == "vanished"
        assert session.state.world.calls == {}


def test_a_session_that_leaves_nothing_behind_ends_its_commands(open_session: Open) -> None:
    with open_session(durability="memory") as session:
        Built(session, ScriptedModel(calls(start("exec sleep 600")), text("ok"))).run()
        pid = json.loads((output_of(session) / "start").read_bytes())["pid"]
        directory = session.directory
    assert not directory.exists()
    wait_until(lambda: not Path(f"/proc/{pid}/cwd").exists())


AGENT = """
import sys
sys.path.insert(0, sys.argv[1])
import rewake
from tests.agent.built import Built, tool
from tests.agent.doubles import ScriptedModel, calls, text
session = rewake.open_session(sys.argv[2], home=sys.argv[3], session_id="s")
bash = tool("Bash", command="echo $$ >> ran; cat go; exit 6", run_in_background=True)
Built(session, ScriptedModel(calls(bash), calls(tool("Bash", command="echo > begun; sleep 600")))).run()
"""


def killed_agent(project: Path, home: Path) -> None:
    """An agent that was killed in a command of its own, with another one in the background."""
    os.mkfifo(project / "begun")
    arguments = [str(Path(__file__).parents[2]), str(project), str(home)]
    agent = subprocess.Popen([sys.executable, "-c", AGENT, *arguments], stderr=subprocess.DEVNULL)
    (project / "begun").read_text()
    agent.kill()
    agent.wait()


def test_kill_9_of_the_agent_leaves_it_running_with_its_limits(
    project: Path, home: Path, open_session: Open, gate: Callable[[], None]
) -> None:
    killed_agent(project, home)
    with open_session(resume="s", on_running="stop") as session:
        command = the_command(session)
        assert shell.state_of(output_of(session)).state == "running"
        gate()
        wait_until(lambda: ended(session))
        model = ScriptedModel(text("I see."))
        Built(session, model).run(None)
        assert (
            sum(command.short_id in said and "Exit code 6" in said for said in model.heard()) == 1
        )
    assert (project / "ran").read_text().count("\n") == 1


@pytest.mark.parametrize("point", ["after the spawn", "before the spawn"])
def test_a_call_cut_short_around_its_start_is_settled_as_running_in_the_background(
    open_session: Open, gate: Callable[[], None], point: str
) -> None:
    """The agent dies after the spawn and before the outcome: the command is there, once."""
    with open_session() as session:
        action = session.action("Bash", arguments={})
        call_id = action.request()
        intent = ShellIntent("cat go", str(session.root), f"outputs/{call_id}", 0, background=True)
        action.intent = intent
        action.start()
        if point == "after the spawn":
            spawn(session, intent)
        name = session.session_id
    with open_session(resume=name) as session:
        assert session.resumed is not None
        (settled,) = session.resumed.uncertain
        if point == "after the spawn":
            assert settled.resolution.verdict == "still_running"
            assert the_command(session).call_id == call_id
            assert session.state.world.calls == {}
            gate()
        else:
            assert settled.resolution.verdict == "not_applied"
            assert session.state.world.commands == {}


def spawn(session: rewake.Session, intent: ShellIntent) -> None:
    """Start the command as Bash does, and forget about it."""
    context = ToolContext(session.root, session.root, session.directory, session.blobs, session)
    plan = bash._Plan(intent.output_directory.split("/")[1], intent, 0)
    directory = session.directory / intent.output_directory
    process, report = bash.BashTool()._start(plan, directory, context)
    assert bash._wait(report)
    bash._reap_later(process)


# --- for the user ----------------------------------------------------------------------------


def test_a_user_lists_reads_and_stops_them_from_outside(
    session: rewake.Session, home: Path
) -> None:
    Built(session, ScriptedModel(calls(start("echo hello; exec sleep 600")), text("ok"))).run()
    wait_until(lambda: (output_of(session) / "stdout").stat().st_size > 0)
    session.flush()
    where = {"project": session.root, "home": home}
    (found,) = rewake.shell_commands(session.session_id, **where)
    assert (found.state, found.command) == ("running", "echo hello; exec sleep 600")
    assert (found.output_bytes, found.in_background) == (6, True)
    stopped = rewake.stop_shell_command(session.session_id, found.id, **where)
    assert (stopped.state, stopped.has_processes) == ("finished", False)
    assert "Stopped after" in stopped.ended
    with pytest.raises(rewake.SessionNotFoundError, match="no command"):
        find_command(session.session_id, "nobody", **where)


def test_a_command_whose_wrapper_was_killed_can_still_be_stopped(
    session: rewake.Session, home: Path
) -> None:
    if not Path("/proc/self/fdinfo").exists():
        pytest.skip("only /proc tells who holds a lock")
    Built(session, ScriptedModel(calls(start("sleep 600 & sleep 600")), text("ok"))).run()
    output = output_of(session)
    os.kill(json.loads((output / "start").read_bytes())["pid"], signal.SIGKILL)
    session.flush()
    assert shell.state_of(output).state == "running"
    where = {"project": session.root, "home": home}
    stopped = rewake.stop_shell_command(session.session_id, the_command(session).short_id, **where)
    assert (stopped.state, stopped.has_processes) == ("vanished", False)


def test_a_sub_agents_command_is_listed_with_it_and_named_at_the_end_of_the_run(
    session: rewake.Session, home: Path, gate: Callable[[], None]
) -> None:
    assert session.sidechains is not None
    child = session.sidechains.spawn(session, task="Build it.")
    Built(child, ScriptedModel(calls(start("cat go")), text("It builds."))).run()
    (running_now,) = running_in(session)
    assert (running_now.agent_id, running_now.command) == (child.agent_id, "cat go")
    (listed,) = rewake.shell_commands(session.session_id, project=session.root, home=home)
    assert (listed.id, listed.agent_id) == (running_now.id, child.agent_id)
    gate()
    wait_until(lambda: not running_in(session))


def test_what_changed_during_the_last_answer_is_on_record_when_the_run_has_ended(
    session: rewake.Session, gate: Callable[[], None]
) -> None:
    async def last_word(request: ModelRequest) -> Reply:
        gate()
        wait_until(lambda: ended(session))
        return text("It is built.")

    Built(session, ScriptedModel(calls(start("cat go > built")), last_word)).run()
    (line,) = phases(session, "resolved")
    assert line.outcome is not None
    assert [Path(change.path).name for change in line.outcome.changes] == ["built"]
