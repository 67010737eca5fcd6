"""Hooks: what they hear, what they may decide, and what happens when they fail."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import anyio
import pytest
from tests.agent.doubles import DoubleTool, ScriptedModel, Watch, agent, calls, text
from tests.cli.shell import Shell, call, turn, wait_until
from tests.extensions.writing import user_hooks, write

import rewake
from rewake.agent.hook_answer import said_by
from rewake.agent.hook_process import STDOUT_BYTES_MAX, HookRun, run_hook
from rewake.agent.hooks import Hooks, PromptBlockedError, hooks_in
from rewake.agent.permissions import Allowed, Answer, Denied, Permissions, Question
from rewake.agent.ports import Prepared, Ruling, Tool, ToolOutput
from rewake.compose.agents import AgentOptions, build_agent
from rewake.compose.extensions import load_extensions
from rewake.model.events import Change, FileChangeIntent, FileState, OtherIntent, StateTransition
from rewake.settings.schema import HookCommand, HookMatcher, Settings


def hooks(session: rewake.Session, notices: list[str], event: str, *commands: str) -> Hooks:
    matcher = HookMatcher(tuple(HookCommand(command) for command in commands))
    found, problems = hooks_in({event: (matcher,)}, "a test")
    assert problems == []
    environment = {"PATH": os.environ["PATH"]}
    return Hooks(session, found, session.root, environment, lambda: "default", notices.append)


def run(command: str, payload: bytes = b"", timeout_s: float = 20.0) -> HookRun:
    return run_hook(
        command,
        payload,
        cwd=Path("/"),
        environment={"PATH": os.environ["PATH"]},
        timeout_s=timeout_s,
        called_off=threading.Event(),
    )


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# --- the process -----------------------------------------------------------------------------


def test_a_hook_gets_its_input_and_gives_exit_status_and_output() -> None:
    done = run("cat; echo no >&2; exit 3", b"x" * 300_000)
    assert (done.exit_code, len(done.stdout), done.stderr) == (3, STDOUT_BYTES_MAX, "no\n")


def test_a_hook_that_never_reads_its_input_ends_all_the_same() -> None:
    assert run("exit 0", b"x" * 1_000_000).exit_code == 0


def test_after_its_time_the_whole_group_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    done = run(f"sleep 1000 & echo $! > {file}; wait", timeout_s=0.5)
    assert done.exit_code is None
    assert "0.5 s" in done.problem
    wait_until(lambda: not is_alive(int(file.read_text())))


def test_what_a_hook_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    done = run(f"sleep 1000 & echo $! > {file}; echo said")
    os.kill(int(file.read_text()), signal.SIGKILL)
    assert (done.exit_code, done.stdout) == (0, "said\n")


def test_endless_output_is_read_to_its_bound_and_the_time_limit_holds() -> None:
    done = run("yes", timeout_s=0.5)
    assert len(done.stdout) == STDOUT_BYTES_MAX
    assert done.problem


def test_a_program_that_is_missing_is_no_error() -> None:
    assert run("no-such-program").exit_code == 127


def test_a_directory_that_is_gone_is_a_problem_and_no_error(tmp_path: Path) -> None:
    done = run_hook(
        "true",
        b"",
        cwd=tmp_path / "gone",
        environment={},
        timeout_s=1,
        called_off=threading.Event(),
    )
    assert "could not be started" in done.problem


# --- what they say ---------------------------------------------------------------------------


def ended(exit_code: int | None, stdout: str = "", stderr: str = "", problem: str = "") -> HookRun:
    return HookRun("h", exit_code, stdout, stderr, 1, problem)


def test_exit_status_2_blocks_with_what_is_on_stderr() -> None:
    said = said_by(ended(2, stderr=" Not on main.\n"), "PreToolUse")
    assert (said.decision, said.reason) == ("deny", "Not on main.")


@pytest.mark.parametrize(
    "done",
    [
        ended(1, stderr="boom"),
        ended(127),
        ended(None, problem="it was ended after 1 s"),
        ended(0, stdout="{not json"),
        ended(0, stdout='{"decision": "perhaps"}'),
        ended(0, stdout='{"decision": ' + "[" * 5_000),
    ],
)
def test_a_hook_that_fails_is_a_problem_and_decides_nothing(done: HookRun) -> None:
    said = said_by(done, "PreToolUse")
    assert said.decision is None
    assert len(said.problems) == 1


@pytest.mark.parametrize(
    ("printed", "decision"),
    [
        ({"decision": "block", "reason": "r"}, "deny"),
        ({"decision": "approve", "reason": "r"}, "allow"),
        ({"hookSpecificOutput": {"permissionDecision": "ask"}, "reason": "r"}, "ask"),
        (
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "r",
                }
            },
            "deny",
        ),
        ({"systemMessage": "hello"}, None),
    ],
)
def test_json_on_stdout_decides(printed: dict[str, object], decision: str | None) -> None:
    said = said_by(ended(0, json.dumps(printed)), "PreToolUse")
    assert said.decision == decision
    assert said.problems == ()


def test_a_matcher_that_is_no_regular_expression_is_told() -> None:
    found, problems = hooks_in(
        {"PreToolUse": (HookMatcher((HookCommand("x"),), "["),), "Nope": ()}, "the settings"
    )
    assert found == []
    assert [words.split(",")[0] for words in problems] == ["In the settings"] * 2


def test_a_matcher_names_the_whole_tool() -> None:
    (hook,), _ = hooks_in({"PreToolUse": (HookMatcher((HookCommand("x"),), "Edit|Write"),)}, "s")
    assert [hook.concerns(name) for name in ("Edit", "Write", "NotebookEdit")] == [
        True,
        True,
        False,
    ]


# --- around calls ----------------------------------------------------------------------------


def test_a_blocking_hook_keeps_a_call_from_starting(session: rewake.Session) -> None:
    tool = DoubleTool("change")
    used = agent(session, ScriptedModel(calls("change"), text("Done.")), [tool])
    used.loop.executor.guards = (hooks(session, [], "PreToolUse", "echo No. >&2; exit 2"),)
    used.run("Hi")
    assert tool.ran == []
    assert "A hook blocked this call: No." in used.model.heard()[-1]


def test_a_hook_hears_of_the_call_and_its_result(session: rewake.Session, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    used = agent(session, ScriptedModel(calls("look"), text("Done.")), [DoubleTool("look")])
    used.loop.executor.guards = (hooks(session, [], "PostToolUse", f"cat > {heard}"),)
    used.run("Hi")
    told = json.loads(heard.read_text())
    assert told["hook_event_name"] == "PostToolUse"
    assert (told["tool_name"], told["tool_input"]) == ("look", {})
    assert told["tool_response"]["content"] == [{"type": "text", "text": "ok"}]
    assert told["session_id"] == session.session_id


def test_a_lone_surrogate_in_an_argument_reaches_a_hook(
    session: rewake.Session, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    asked = calls(rewake.ToolCall("c1", "look", {"what": "a\ud800b"}))
    used = agent(session, ScriptedModel(asked, text("Done.")), [DoubleTool("look")])
    used.loop.executor.guards = (hooks(session, [], "PreToolUse", f"cat > {heard}"),)
    used.run("Hi")
    assert json.loads(heard.read_text())["tool_input"] == {"what": "a\ud800b"}


def test_what_a_hook_says_after_a_call_is_told_to_the_model(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(calls("look"), text("Done.")), [DoubleTool("look")])
    command = "echo 'Run the formatter.' >&2; exit 2"
    used.loop.executor.guards = (hooks(session, [], "PostToolUse", command),)
    used.run("Hi")
    assert "[hook] Run the formatter." in used.model.heard()[-1]


def test_a_failing_hook_is_told_once_and_blocks_nothing(session: rewake.Session) -> None:
    tool = DoubleTool("change")
    notices: list[str] = []
    used = agent(session, ScriptedModel(calls("change", "change"), text("Done.")), [tool])
    used.loop.executor.guards = (hooks(session, notices, "PreToolUse", "exit 1"),)
    used.run("Hi")
    assert len(tool.ran) == 2
    assert notices == ["The PreToolUse hook 'exit 1' failed with exit status 1."]


def test_each_hook_that_ran_is_in_the_transcript(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(calls("look"), text("Done.")), [DoubleTool("look")])
    used.loop.executor.guards = (hooks(session, [], "PreToolUse", "true"),)
    used.run("Hi")
    session.flush()
    with session.reader() as reader:
        payloads = [event.payload for event in reader.forward() if hasattr(event, "payload")]
    (ran,) = [
        one for one in payloads if isinstance(one, StateTransition) and one.to_state == "hook"
    ]
    assert (ran.reason, ran.details["command"], ran.details["exit_code"]) == (
        "PreToolUse",
        "true",
        0,
    )
    assert ran.details["call_id"]


def ruled(decision: str, prepared: Prepared, permissions: Permissions) -> Allowed | Denied:
    ruling = Ruling("allow" if decision == "allow" else "ask", "a hook")
    return permissions.decide(DoubleTool("change"), prepared, ruling)


CALL = Prepared(OtherIntent(), "x", "Use it")


def test_a_hook_may_allow_what_would_be_asked() -> None:
    assert isinstance(ruled("allow", CALL, Permissions()), Allowed)


def test_a_deny_rule_goes_before_what_a_hook_allows() -> None:
    assert isinstance(ruled("allow", CALL, Permissions(deny=["change"])), Denied)


def test_plan_mode_goes_before_what_a_hook_allows() -> None:
    assert isinstance(ruled("allow", CALL, Permissions("plan")), Denied)


def test_a_protected_path_is_asked_about_whatever_a_hook_allows() -> None:
    change = Change("/p/.git/config", FileState(), FileState())
    prepared = Prepared(FileChangeIntent((change,)), ".git/config", "Edit")
    assert isinstance(ruled("allow", prepared, Permissions()), Denied)


def test_a_hook_may_have_the_user_asked_whatever_allows() -> None:
    asked: list[str] = []

    def ask(question: Question) -> Answer:
        asked.append(question.tool_name)
        return "no"

    permissions = Permissions("bypass", allow=["change"], ask=ask)
    assert isinstance(ruled("ask", CALL, permissions), Denied)
    assert asked == ["change"]


# --- prompts and the end ---------------------------------------------------------------------


def test_a_stop_hook_sends_the_model_back(session: rewake.Session, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    command = f"test -e {flag} || {{ touch {flag}; echo 'Run the tests.' >&2; exit 2; }}"
    used = agent(session, ScriptedModel(text("Done."), text("Really done.")))
    used.loop.gates = (hooks(session, [], "Stop", command),)
    assert used.run("Hi").response == "Really done."
    assert "[hook] Run the tests." in used.model.heard(1)


def test_a_blocked_prompt_is_answered_by_nobody_and_heard_by_no_later_request(
    session: rewake.Session,
) -> None:
    command = "grep -q secret && { echo 'No secrets.' >&2; exit 2; } || exit 0"
    used = agent(session, ScriptedModel(text("Hello."), text("Fine.")))
    used.loop.attendants = (hooks(session, [], "UserPromptSubmit", command),)
    used.run("Good morning")
    with pytest.raises(PromptBlockedError, match=r"No secrets\. Ask"):
        used.run("my secret is x")
    used.loop.result("error", session.state.world.usage)
    used.run("How are you?")
    assert used.model.heard() == ["Good morning", "Hello.", "How are you?"]


def test_a_session_s_first_prompt_can_be_blocked(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(text("Hello.")))
    used.loop.attendants = (hooks(session, [], "UserPromptSubmit", "exit 2"),)
    with pytest.raises(PromptBlockedError):
        used.run("secret")
    assert session.messages == ()


def test_context_from_a_hook_comes_after_the_prompt(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(text("Hello.")))
    used.loop.attendants = (hooks(session, [], "UserPromptSubmit", "echo It rains."),)
    used.run("How is it?")
    assert used.model.heard(0) == ["How is it?", "[hook] It rains."]


def test_sessions_begin_and_end_with_their_hooks(shell: Shell) -> None:
    heard = shell.root / "heard"
    matcher = [{"hooks": [{"command": f"cat >> {heard}; echo >> {heard}"}]}]
    (shell.home).mkdir()
    (shell.home / "settings.json").write_text(
        json.dumps({"hooks": {"SessionStart": matcher, "SessionEnd": matcher}})
    )
    done = shell.run("-p", "Hi", "--model", shell.script(turn("Hello.")), "--json")
    shell.run("-p", "Hi", "--resume", done.json["session_id"], "--json")
    told = [json.loads(line) for line in heard.read_text().splitlines() if line]
    assert [(one["hook_event_name"], one.get("source", one.get("reason"))) for one in told] == [
        ("SessionStart", "startup"),
        ("SessionEnd", "done"),
        ("SessionStart", "resume"),
        ("SessionEnd", "done"),
    ]


# --- with the real command -------------------------------------------------------------------


def test_hooks_see_no_key_of_a_provider(shell: Shell) -> None:
    heard = shell.root / "heard"
    user_hooks(shell.home, "PreToolUse", f"env > {heard}", matcher="Bash")
    model = shell.script(turn("", call("Bash", command="true")), turn("Done."))
    env = {"OPENAI_API_KEY": "k-secret", "GITHUB_TOKEN": "kept"}
    shell.run("-p", "go", "--model", model, "--permission-mode", "bypass", env=env)
    assert "k-secret" not in heard.read_text()
    assert "GITHUB_TOKEN=kept" in heard.read_text()
    assert f"REWAKE_PROJECT_DIR={shell.project}" in heard.read_text()


def test_an_interruption_kills_the_hook_that_runs(shell: Shell) -> None:
    file = shell.root / "pid"
    user_hooks(shell.home, "PreToolUse", f"echo $$ > {file}; sleep 1000")
    model = shell.script(turn("", call("Bash", command="true")), turn("Done."))
    process = shell.start("-p", "go", "--model", model, "--json", "--permission-mode", "bypass")
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
    process.send_signal(signal.SIGINT)
    assert process.wait(15) == 130
    wait_until(lambda: not is_alive(int(file.read_text())))
    (call_event,) = [
        event["payload"]
        for event in shell.events(json.loads(process.stdout.read())["session_id"])  # type: ignore[union-attr]
        if event["payload"].get("status") == "failed"
    ]
    assert "was not executed" in call_event["result"]["content"][0]["text"]


def test_a_cancelled_run_waits_until_its_hook_is_dead(
    session: rewake.Session, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    used = hooks(session, [], "Stop", f"echo $$ > {file}; sleep 1000")

    async def cancelled() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(used.holds_back)
            while not (file.exists() and file.read_text().endswith("\n")):  # noqa: ASYNC110  # a file has no event
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    anyio.run(cancelled)
    assert not is_alive(int(file.read_text()))


def test_hooks_that_come_with_a_project_run_only_once_they_are_trusted(shell: Shell) -> None:
    ran = shell.root / "ran"
    hooks = [{"hooks": [{"type": "command", "command": f"touch {ran}"}]}]
    write(shell.project / ".rewake/settings.json", json.dumps({"hooks": {"SessionStart": hooks}}))
    arguments = ("-p", "Hi", "--model", shell.script(turn("Hello.")))
    assert "rewake config trust" in shell.run(*arguments).err
    assert not ran.exists()
    assert shell.run("config", "trust", "--yes").code == 0
    shell.run(*arguments)
    assert ran.exists()


def test_a_hook_stands_before_what_a_sub_agent_does(shell: Shell) -> None:
    user_hooks(shell.home, "PreToolUse", "echo Not here. >&2; exit 2", matcher="Write")
    model = shell.script(
        turn("", call("Task", description="Write it", prompt="Write a.", agent="worker")),
        turn("", call("Write", file_path="a", content="x"), agent="worker"),
        turn("I could not.", agent="worker"),
        turn("Done."),
    )
    done = shell.run("-p", "go", "--model", model, "--permission-mode", "bypass", "--json")
    assert done.code == 0, done.err
    assert not (shell.project / "a").exists()
    (sidechain,) = shell.home.glob("projects/*/sessions/*/agents/*.jsonl")
    assert "A hook blocked this call: Not here." in sidechain.read_text()


def test_a_library_puts_its_own_guards_beside_those_of_the_extensions(
    session: rewake.Session, tmp_path: Path
) -> None:
    class Warden:
        async def before(self, tool: Tool, prepared: Prepared) -> str | None:
            return f"No {tool.spec.name} here: {prepared.arguments['command']}"

        async def after(self, tool: Tool, prepared: Prepared, output: ToolOutput) -> ToolOutput:
            return output

    heard = tmp_path / "heard"
    settings = Settings(hooks={"Stop": (HookMatcher((HookCommand(f"touch {heard}"),)),)})
    extensions = load_extensions(tmp_path / "home", session.root, settings)
    model = ScriptedModel(
        calls(rewake.ToolCall("c1", "Bash", {"command": "true"})), text("I was not let.")
    )
    loop = build_agent(
        session,
        model,
        Watch(),
        settings,
        AgentOptions("bypass"),
        cwd=session.root,
        extensions=extensions,
        guards=(Warden(),),
    )
    anyio.run(loop.run, "go")
    assert "No Bash here: true" in model.heard()[-1]
    assert heard.exists()
