"""`rewake agents`, `rewake show --agent`, and a session with sub-agents at the command line."""

from __future__ import annotations

import json

from tests.cli.shell import Shell, call, turn

import rewake


def delegated(shell: Shell) -> list[dict[str, object]]:
    """A session `s` with an explorer and a worker, which has an explorer of its own."""
    task = call("Task", description="look around", prompt="Look.", agent="explorer")
    work = call("Task", description="write it", prompt="Write.", agent="worker")
    model = shell.script(
        turn("I delegate.", task, work),
        turn("All done."),
        turn("Nothing is here.", agent="explorer"),
        turn("", task, call("Bash", command="echo done > done.txt"), agent="worker"),
        turn("Written.", agent="worker"),
    )
    mode = ("--permission-mode", "bypass")
    done = shell.run("-p", "go", "--model", model, "--session-id", "s", "--json", *mode)
    assert done.json["response"] == "All done."
    listed = json.loads(shell.run("agents", "s", "--json").out)
    assert isinstance(listed, list)
    return listed


def test_agents_are_listed_with_what_they_did(shell: Shell) -> None:
    rows = delegated(shell)
    assert [(row["task"], row["agent_type"], row["depth"], row["status"]) for row in rows] == [
        ("look around", "explorer", 1, "completed"),
        ("write it", "worker", 1, "completed"),
        ("look around", "explorer", 2, "completed"),
    ]
    lines = shell.run("agents").out.splitlines()
    assert len(lines) == 3
    assert "completed" in lines[1]
    assert "worker: write it" in lines[1]
    assert "2 steps" in lines[1]


def test_the_way_of_each_agent_is_told_while_it_runs(shell: Shell) -> None:
    task = call("Task", description="look around", prompt="Look.", agent="explorer")
    model = shell.script(turn("", task), turn("Ok."), turn("Nothing.", agent="explorer"))
    done = shell.run("-p", "go", "--model", model)
    assert "explorer: look around: completed, 1 step, 0 calls" in done.err


def test_an_agent_is_shown_by_the_beginning_of_its_id(shell: Shell) -> None:
    rows = delegated(shell)
    agent_id = str(rows[1]["agent_id"])
    shown = shell.run("show", "s", "--agent", agent_id, "--json").json
    assert (shown["session_id"], shown["agent_id"]) == ("s", agent_id)
    assert shown["messages"][0]["content"][0]["text"] == "Write."
    assert shown["title"] == "write it"
    text = shell.run("show", "s", "--agent", agent_id).out
    assert f"Agent {agent_id} of session s" in text
    assert "Written." in text
    assert shell.run("show", "s", "--agent", agent_id, "--tree").code == 0
    assert shell.run("show", "s", "--agent", agent_id, "--memory").code == 0


def test_what_an_agent_changed_is_what_its_call_changed(shell: Shell) -> None:
    rows = delegated(shell)
    looked, wrote = (str(row["parent_call_id"]) for row in rows[:2])
    assert "done.txt" in shell.run("diff", "s", "--call", wrote, "--stat").out
    assert "done.txt" not in shell.run("diff", "s", "--call", looked, "--stat").out


def test_an_agent_that_is_not_there_is_not_found(shell: Shell) -> None:
    delegated(shell)
    done = shell.run("show", "s", "--agent", "nobody")
    assert done.code == rewake.ExitCode.NOT_FOUND
    assert "Its agents:" in done.err
    shared = shell.run("show", "s", "--agent", "0")
    assert shared.code == rewake.ExitCode.NOT_FOUND
    assert "3 agents" in shared.err


def test_a_session_without_agents_says_so(shell: Shell) -> None:
    shell.run("-p", "go", "--model", shell.script(turn("Hi.")), "--session-id", "s")
    assert "no sub-agents" in shell.run("agents", "s").out
    assert shell.run("agents", "s", "--json").out.strip() == "[]"


def test_types_are_listed_with_what_is_wrong_with_their_files(shell: Shell) -> None:
    directory = shell.project / ".rewake" / "agents"
    directory.mkdir(parents=True)
    (directory / "good.md").write_text("---\ndescription: Good.\ntools: Read\n---\nBe good.\n")
    (directory / "bad.md").write_text("---\nname: bad\n---\nBe bad.\n")
    listed = shell.run("agents", "--types", "--json").json
    assert [kind["name"] for kind in listed["types"]] == ["explorer", "worker", "verifier", "good"]
    assert [problem["line"] for problem in listed["problems"]] == [1]
    done = shell.run("agents", "--types")
    assert "Be" not in done.out
    assert "bad.md:1: it has no description" in done.err


def test_events_of_sub_agents_are_streamed_with_their_agent(shell: Shell) -> None:
    task = call("Task", description="look", prompt="Look.", agent="explorer")
    model = shell.script(turn("", task), turn("Ok."), turn("Nothing.", agent="explorer"))
    done = shell.run("-p", "go", "--model", model, "--output-format", "stream-json")
    events = [json.loads(line) for line in done.out.splitlines()]
    agents = {event.get("agent_id") for event in events if event.get("type") == "event"}
    assert len(agents) == 2
    assert None in agents
