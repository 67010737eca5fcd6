"""MCP servers as a user has them: from `.mcp.json` and settings, with permissions, intents, evidence."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.agent.doubles import ScriptedModel, Watch, text
from tests.cli.shell import Shell, call, turn, wait_until
from tests.cli.terminal import ASKED, CTRL_D, ENTER, PROMPT, Terminal
from tests.extensions.test_mcp_servers import SERVER, is_alive
from tests.extensions.writing import write

import rewake
from rewake.agent.loop import RunResult
from rewake.agent.mcp.config import server_configs
from rewake.agent.mcp.tool import McpAttendant
from rewake.agent.ports import ModelRequest
from rewake.agent.rules import parse_rule
from rewake.compose.agents import AgentOptions, build_agent
from rewake.compose.extensions import load_extensions
from rewake.errors import SettingsError
from rewake.settings.schema import McpServer, Settings

REAL = {"command": sys.executable, "args": [str(SERVER), "stdio"]}


def user_servers(
    shell: Shell, *, permissions: dict[str, Any] | None = None, **more: object
) -> None:
    """The user's own settings have the real server."""
    settings: dict[str, Any] = {
        "mcp_servers": {"real": {**REAL, **more}},
        "permissions": permissions or {},
    }
    settings["mcp_wait_s"] = 60
    write(shell.home / "settings.json", json.dumps(settings))


def mcp_json(shell: Shell, **servers: object) -> None:
    """The project has these servers, and the user is patient."""
    write(shell.home / "settings.json", '{"mcp_wait_s": 60}')
    write(shell.project / ".mcp.json", json.dumps({"mcpServers": servers}))


def lifecycles(shell: Shell, session_id: str) -> list[dict[str, Any]]:
    return [
        event["payload"]
        for event in shell.events(session_id)
        if event["event_type"] == "tool_lifecycle"
    ]


def ended(shell: Shell, session_id: str) -> dict[str, Any]:
    """The line that ended the one call of a session."""
    (found,) = [one for one in lifecycles(shell, session_id) if "result" in one]
    return found


def text_of(ending: dict[str, Any]) -> str:
    return str(ending["result"]["content"][0]["text"])


def run(shell: Shell, *calls: dict[str, object], mode: str = "bypass") -> dict[str, Any]:
    """Ask once; what `--json` printed, with the standard error as `err`."""
    model = shell.script(turn("", *calls), turn("Done."))
    done = shell.run("-p", "go", "--model", model, "--permission-mode", mode, "--json")
    assert done.code == 0, done.err
    return {**done.json, "err": done.err}


# --- calls -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """How calls of one session ended, by the tool, in permission mode default."""
    shell = Shell(tmp_path_factory.mktemp("calls").resolve())
    allow = ["mcp__real__add", "mcp__real__*"]
    user_servers(
        shell,
        permissions={"allow": allow, "deny": ["mcp__real__pid"]},
        env={"GIVEN": "${HAVE:-none}-${LACK:-default}"},
    )
    calls: list[dict[str, object]] = [
        call("mcp__real__add", a=2, b=3),
        call("mcp__real__key"),
        call("mcp__real__fails"),
        call("mcp__real__picture"),
        call("mcp__real__huge", chars=300_000),
        {"name": "mcp__real__environment", "arguments": {"name": "OPENAI_API_KEY"}},
        {"name": "mcp__real__environment", "arguments": {"name": "GIVEN"}},
        call("mcp__real__pid"),
        call("mcp__real__add", a="no number"),
    ]
    model = shell.script(*(turn("", one) for one in calls), turn("Done."))
    env = {"OPENAI_API_KEY": "k-secret", "HAVE": "had"}
    done = shell.run("-p", "go", "--model", model, "--json", env=env)
    assert done.code == 0, done.err
    session_id = done.json["session_id"]
    shown = shell.run_json("show", session_id, "--json")
    answers = [one["content"][0] for one in shown["messages"] if one["role"] == "tool"]
    phases = lifecycles(shell, session_id)
    started = {one["call_id"]: one for one in phases if one.get("status") == "started"}
    # A payload in a blob says nothing by itself.
    ends = [one for one in phases if one.get("status") not in {"requested", "started"}]
    names = ["add", "key", "fails", "picture", "huge", "secret", "given", "denied", "wrong"]
    return {
        name: {
            **end,
            "answer": answer,
            "started": started.get(end.get("call_id", "")),
            "home": shell.home,
        }
        for name, end, answer in zip(names, ends, answers, strict=True)
    }


Endings = dict[str, dict[str, Any]]


def answer(ending: dict[str, Any]) -> str:
    return str(ending["answer"]["content"][0]["text"])


def test_a_call_is_recorded_with_its_intent_and_its_structured_answer(endings: Endings) -> None:
    add = endings["add"]
    assert add["started"]["intent"]["kind"] == "other"
    assert add["started"]["intent"]["idempotency_key"] == f"rewake:{add['call_id']}"
    assert add["outcome"]["details"]["structured_content"] == {"result": 5}
    assert answer(add) == "5"


def test_the_server_gets_the_key_of_the_intent(endings: Endings) -> None:
    assert answer(endings["key"]) == f"rewake:{endings['key']['call_id']}"


@pytest.mark.parametrize(
    ("tool", "words"), [("fails", "Error executing tool fails"), ("wrong", "a")]
)
def test_an_error_of_the_tool_is_a_failed_call(endings: Endings, tool: str, words: str) -> None:
    assert endings[tool]["status"] == "failed"
    assert words in answer(endings[tool])


def test_an_image_is_kept_as_a_blob(endings: Endings) -> None:
    (block,) = endings["picture"]["answer"]["content"]
    assert (block["type"], block["media_type"]) == ("image", "image/png")
    assert list(endings["picture"]["home"].glob(f"projects/*/blobs/**/{block['sha256']}"))


def test_a_huge_answer_is_cut_with_a_word(endings: Endings) -> None:
    said = answer(endings["huge"])
    assert len(said) < 101_000
    assert "200000 more characters are left out" in said


def test_a_server_sees_no_key_of_a_provider_but_what_it_is_given(endings: Endings) -> None:
    assert answer(endings["secret"]) == "(unset)"
    assert answer(endings["given"]) == "had-default"


def test_a_rule_that_denies_one_tool_goes_before_one_that_allows_the_server(
    endings: Endings,
) -> None:
    assert "forbids this call" in answer(endings["denied"])


# --- permissions -----------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["mcp__real", "mcp__real__add", "mcp__real__*"])
def test_a_rule_speaks_of_a_server_or_of_a_tool(text: str) -> None:
    rule = parse_rule(text)
    assert rule.allows("mcp__real__add", "")
    assert rule.denies("mcp__real__add", "")
    assert not rule.allows("mcp__really__add", "")
    assert not rule.allows("mcp__other__add", "")


def test_a_rule_with_more_than_the_tool_s_name_is_refused() -> None:
    with pytest.raises(SettingsError, match="say no more than the tool"):
        parse_rule("mcp__real__add(2)")


def test_without_a_rule_a_call_is_asked_about_and_the_answer_says_how_to_allow_it(
    shell: Shell,
) -> None:
    user_servers(shell)
    said = run(shell, call("mcp__real__look"), mode="default")
    assert '"mcp__real__look"' in text_of(ended(shell, said["session_id"]))


def test_a_read_only_hint_counts_where_the_settings_trust_it(shell: Shell) -> None:
    user_servers(shell, trust_read_only_hint=True)
    said = run(shell, call("mcp__real__look"), mode="default")
    phases = lifecycles(shell, said["session_id"])
    assert phases[1]["intent"]["kind"] == "read_only"
    assert text_of(phases[2]) == "seen"


# --- where servers come from -----------------------------------------------------------------


def test_a_project_s_server_starts_only_once_it_is_trusted(shell: Shell) -> None:
    mcp_json(shell, real=REAL)
    said = run(shell, call("mcp__real__add", a=1, b=1))
    assert "There is no tool 'mcp__real__add'" in text_of(ended(shell, said["session_id"]))
    assert "rewake config trust" in said["err"]
    assert shell.run_json("mcp", "--json")["servers"][0]["state"] == "not trusted"
    assert shell.run("config", "trust", "--yes").code == 0
    said = run(shell, call("mcp__real__add", a=1, b=1))
    assert text_of(ended(shell, said["session_id"])) == "2"
    mcp_json(shell, real={**REAL, "env": {"NEW": "1"}})
    said = run(shell, call("mcp__real__add", a=1, b=1))
    assert "There is no tool" in text_of(ended(shell, said["session_id"]))


def test_a_project_can_not_trust_its_own_hints(shell: Shell) -> None:
    mcp_json(shell, real={**REAL, "trust_read_only_hint": True})
    shell.run("config", "trust", "--yes")
    said = run(shell, call("mcp__real__look"), mode="default")
    assert "needs the user's permission" in text_of(ended(shell, said["session_id"]))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('{"mcpServers": ', ".mcp.json:1:"),
        ('{"mcpServers": []}', "no object of servers"),
        ('{"mcpServers": {\n"x": {}}}', "either a command or a url"),
        ('{"mcpServers": {\n"x": {"command": 3}}}', ".mcp.json:2"),
    ],
)
def test_a_broken_mcp_json_is_told_and_stops_nothing(shell: Shell, written: str, told: str) -> None:
    write(shell.project / ".mcp.json", written)
    done = shell.run("-p", "go", "--model", shell.script(turn("Done.")))
    assert done.code == 0
    assert told in done.err


def test_a_variable_that_is_missing_keeps_the_server_from_starting(shell: Shell) -> None:
    user_servers(shell, env={"TOKEN": "${NO_SUCH_TOKEN}"})
    assert "NO_SUCH_TOKEN is not set" in run(shell)["err"]


def test_a_dead_server_is_told_once_and_the_run_goes_on(shell: Shell) -> None:
    write(
        shell.home / "settings.json",
        '{"mcp_wait_s": 60, "mcp_servers": {"dead": {"command": "false"}}}',
    )
    said = run(shell)
    assert said["err"].count("The MCP server dead is not there") == 1


# --- interruptions ---------------------------------------------------------------------------


def test_a_call_cut_short_by_kill_9_is_unknown_and_its_server_ends(shell: Shell) -> None:
    user_servers(shell)
    file = shell.root / "pid"
    model = shell.script(turn("", call("mcp__real__hang", file=str(file))), turn("Done."))
    arguments = ("-p", "go", "--model", model, "--permission-mode", "bypass", "--json")
    process = shell.start(*arguments, "--session-id", "s1")
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
    server = int(file.read_text())
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(server))
    done = shell.run("-p", "", "--resume", "s1", "--json")
    (action,) = done.json["uncertain_actions"]
    assert action["verdict"] == "unknown"
    assert action["evidence"]["description"] == "MCP real: hang"
    assert action["evidence"]["idempotency_key"].startswith("rewake:")


def test_a_server_killed_in_a_call_leaves_the_call_unknown_and_the_next_one_its_own(
    shell: Shell,
) -> None:
    user_servers(shell)
    file = shell.root / "pid"
    model = shell.script(
        turn("", call("mcp__real__hang", file=str(file))),
        turn("", call("mcp__real__add", a=1, b=1)),
        turn("Done."),
    )
    arguments = ("-p", "go", "--model", model, "--permission-mode", "bypass", "--json")
    process = shell.start(*arguments, "--session-id", "s1")
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
    os.kill(int(file.read_text()), signal.SIGKILL)
    assert process.wait(60) == 0
    phases = [one for one in lifecycles(shell, "s1") if "result" in one]
    assert phases[0]["resolution"]["verdict"] == "unknown"
    assert phases[0]["resolution"]["by"] == "action"
    assert text_of(phases[0]).startswith("The call was cut short: ")  # by no class of ours
    # It is started again at once or after a moment, and never answers for the one that is lost.
    assert phases[1]["status"] == "completed" or "Nothing was sent to it" in text_of(phases[1])


def test_ctrl_c_tells_the_server_and_leaves_no_process(shell: Shell) -> None:
    user_servers(shell)
    file = shell.root / "pid"
    model = shell.script(turn("", call("mcp__real__hang", file=str(file))), turn("Done."))
    arguments = ("-p", "go", "--model", model, "--permission-mode", "bypass", "--json")
    process = shell.start(*arguments, "--session-id", "s1")
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
    server = int(file.read_text())
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    wait_until(lambda: file.read_text() == "cancelled\n")
    wait_until(lambda: not is_alive(server))


# --- looking ---------------------------------------------------------------------------------


def test_rewake_mcp_shows_servers_states_and_tools(shell: Shell) -> None:
    dead = {"command": "sh", "args": ["-c", "echo no such module >&2; exit 1"]}
    servers = {"real": REAL, "dead": dead, "off": {**REAL, "disabled": True}}
    write(shell.home / "settings.json", json.dumps({"mcp_servers": servers}))
    listed = shell.run_json("mcp", "list", "--json")["servers"]
    assert {one["name"]: one["state"] for one in listed} == {
        "real": "ready",
        "dead": "failed",
        "off": "disabled",
    }
    (real,) = [one for one in listed if one["name"] == "real"]
    assert "mcp__real__add" in [tool["name"] for tool in real["tools"]]
    assert [one["printed"] for one in listed if one["name"] == "dead"] == [["no such module"]]
    shown = shell.run("mcp").out
    assert "mcp__real__add" in shown
    assert "│ no such module" in shown


def test_the_servers_are_shown_at_the_prompt(shell: Shell) -> None:
    user_servers(shell)
    with Terminal(shell, "--model", shell.script(turn("Hello."))) as terminal:
        terminal.expect(PROMPT)
        terminal.type(f"/mcp{ENTER}")
        terminal.expect("not started yet")
        terminal.expect(PROMPT)
        terminal.type(f"Hi{ENTER}")
        terminal.expect("Hello.")
        terminal.expect(PROMPT)
        terminal.type(f"/mcp{ENTER}")
        terminal.expect("mcp__real__add")
        terminal.expect(PROMPT)
        terminal.type(CTRL_D)
        assert terminal.code() == 0


# --- the library -----------------------------------------------------------------------------


def test_a_late_server_s_tools_come_with_a_later_request_and_the_messages_only_grow(
    session: rewake.Session, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    server = McpServer(sys.executable, (str(SERVER), "slow", str(gate)))
    settings = Settings(mcp_servers={"late": server}, mcp_wait_s=0.01)
    extensions = load_extensions(tmp_path / "home", session.root, settings)
    model = ScriptedModel(text("One."), text("Two."))
    options = AgentOptions("bypass")
    loop = build_agent(
        session, model, Watch(), settings, options, cwd=session.root, extensions=extensions
    )
    (attendant,) = [one for one in loop.attendants if isinstance(one, McpAttendant)]

    async def ask(prompt: str) -> RunResult:
        with anyio.fail_after(60):
            return await loop.run(prompt)

    anyio.run(ask, "Hi")
    gate.touch()
    assert attendant.hub.wait(30)
    anyio.run(ask, "Again")
    anyio.run(loop.end, "done")
    first, second = model.requests
    assert not _mcp_tools(first)
    assert "mcp__late__add" in _mcp_tools(second)
    assert second.messages[: len(first.messages)] == first.messages
    names = [spec.name for spec in first.tools]
    assert [spec.name for spec in second.tools][: len(names)] == names


def _mcp_tools(request: ModelRequest) -> list[str]:
    return [spec.name for spec in request.tools if spec.name.startswith("mcp__")]


def test_a_sub_agent_has_the_servers_tools(shell: Shell) -> None:
    user_servers(shell)
    model = shell.script(
        turn("", call("Task", description="Add it", prompt="Add.", agent="worker")),
        turn("", call("mcp__real__add", a=20, b=3), agent="worker"),
        turn("It is 23.", agent="worker"),
        turn("Done."),
    )
    done = shell.run("-p", "go", "--model", model, "--permission-mode", "bypass", "--json")
    assert done.code == 0, done.err
    (sidechain,) = shell.home.glob("projects/*/sessions/*/agents/*.jsonl")
    ends = [json.loads(line)["payload"] for line in sidechain.read_text().splitlines()]
    (ending,) = [one for one in ends if one.get("status") == "completed"]
    assert text_of(ending) == "23"


def test_without_the_extra_it_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewake.compose.extensions.find_spec", lambda _name: None)
    settings = Settings(mcp_servers={"real": McpServer("server")})
    found = load_extensions(tmp_path, tmp_path, settings)
    assert found.servers == ()
    assert "rewake[mcp]" in found.problems[0]


def test_a_server_needs_either_a_command_or_a_url_and_names_are_made_safe() -> None:
    given = {
        "both": McpServer("x", url="http://localhost"),
        "a__b": McpServer("x"),
        "a b": McpServer("x"),
        "\U0001f600": McpServer("x"),
        "n" * 100: McpServer("x"),
        "off": McpServer("x", disabled=True),
    }
    configs, problems = server_configs(given, {})
    assert problems == ["The MCP server 'both' needs either a command or a url."]
    safe = [config.safe_name for config in configs]
    assert len(safe) == len(set(safe)) == 4
    assert safe[0] == "a_b"
    assert all("__" not in name and len(name) <= 24 for name in safe)


def test_variables_are_filled_in_or_named() -> None:
    given = {"x": McpServer("run", ("${A}", "${B:-b}", "${A:-c}", "$A", "${}"))}
    ((config,), problems) = server_configs(given, {"A": "a"})
    assert config.args == ("a", "b", "a", "$A", "${}")
    assert problems == []
    ((), problems) = server_configs(given, {})
    assert problems == ["The MCP server 'x' isn't started: A is not set."]


def test_the_question_of_trust_shows_a_server_s_whole_command(shell: Shell) -> None:
    mcp_json(shell, real={"command": "run", "args": ["x" * 500, "the-end"]})
    assert "the-end" in shell.run("config", "trust", "--show").err


def test_at_a_terminal_a_project_s_server_is_asked_about_once_and_its_calls_each_time(
    shell: Shell,
) -> None:
    mcp_json(shell, real=REAL)
    model = shell.script(turn("", call("mcp__real__add", a=20, b=3)), turn("It is so."))
    with Terminal(shell, "--model", model) as terminal:
        terminal.expect("Trust these settings of the project?")
        terminal.type(f"y{ENTER}")
        terminal.expect(PROMPT)
        terminal.type(f"Add{ENTER}")
        terminal.see(ASKED)
        terminal.type("y")
        terminal.see_idle("It is so.")
    assert text_of(ended(shell, shell.run_json("sessions", "--json")[0]["session_id"])) == "23"
    with Terminal(shell, "--model", model) as terminal:
        assert "Trust" not in terminal.expect(PROMPT)
        terminal.type(CTRL_D)
        assert terminal.code() == 0
