"""`rewake sessions`, `rewake path` and `rewake show`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.shell import Shell, call, texts, turn

from rewake.cli.lists import age, short_ids


@pytest.fixture
def session(shell: Shell) -> Path:
    """The directory of a session `s` that was asked "Mend the fence"."""
    model = shell.script(
        turn("I look.", call("Bash", command="echo out; exit 3"), usage={"input_tokens": 5})
    )
    shell.run(
        *("-p", "Mend the fence", "--model", model, "--session-id", "s"),
        *("--permission-mode", "bypass"),
    )
    return shell.transcript("s").parent


def test_sessions_as_json_are_objects_newest_first(shell: Shell, session: Path) -> None:
    shell.run("-p", "second", "--model", shell.script(), "--session-id", "t")
    listed = json.loads(shell.run("sessions", "--json").out)
    assert [item["session_id"] for item in listed] == ["t", "s"]
    assert listed[1]["title"] == "Mend the fence"
    assert listed[1]["project"] == str(shell.project)
    assert listed[1]["state"] == "done"
    assert listed[1]["updated_at"].endswith("Z")


def test_the_list_is_of_this_project_unless_all_are_asked_for(shell: Shell, session: Path) -> None:
    elsewhere = shell.root / "elsewhere"
    elsewhere.mkdir()
    assert "No sessions" in shell.run("sessions", cwd=elsewhere).out
    assert "Mend the fence" in shell.run("sessions", "--all", cwd=elsewhere).out
    assert "Mend the fence" in shell.run("sessions", "--cwd", str(shell.project), cwd=elsewhere).out


def test_the_table_shows_fifty_and_says_how_many_more_there_are(
    shell: Shell, session: Path
) -> None:
    for number in range(60):
        shutil.copytree(session, session.parent / f"copy-{number:02}")
    lines = shell.run("sessions").out.splitlines()
    assert len(lines) == 51
    assert "11 older ones" in lines[-1]
    assert len(shell.run("sessions", "--limit", "0").out.splitlines()) == 61
    assert len(shell.run("sessions", "--limit", "2").out.splitlines()) == 3
    assert len(json.loads(shell.run("sessions", "--json").out)) == 61
    assert len(json.loads(shell.run("sessions", "--json", "--limit", "2").out)) == 2


def test_one_broken_session_costs_its_own_row(shell: Shell, session: Path) -> None:
    broken = session.parent / "broken"
    broken.mkdir()
    (broken / "transcript.jsonl").write_bytes(b"\x00\xff not json\n")
    done = shell.run("sessions")
    assert done.code == 0
    assert len(done.out.splitlines()) == 2
    assert "Mend the fence" in done.out


def test_path_says_where_everything_is(shell: Shell, session: Path) -> None:
    places = shell.run("path", "s", "--json").json
    assert places["transcript"] == str(session / "transcript.jsonl")
    assert Path(places["blobs"]).parent == session.parent.parent
    assert str(session / "transcript.jsonl") in shell.run("path", "s").out


def test_path_of_a_session_that_is_not_there(shell: Shell) -> None:
    done = shell.run("path", "nobody", "--json")
    assert (done.code, done.json["status"]) == (4, "error")


def test_show_as_json_has_messages_with_id_role_and_content(shell: Shell, session: Path) -> None:
    shown = shell.run("show", "s", "--json").json
    assert shown["session_id"] == "s"
    assert [message["role"] for message in shown["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    ids = [message["id"] for message in shown["messages"]]
    assert ids == sorted(set(ids))
    assert texts(shown["messages"])[0] == ("user", "Mend the fence")
    (result,) = shown["messages"][2]["content"]
    assert (result["type"], result["is_error"], result["verdict"]) == ("tool_result", True, None)
    assert "out" in result["content"][0]["text"]
    assert shown["uncertain_actions"] == shown["pending_actions"] == shown["damage"] == []


def test_show_for_people_is_readable(shell: Shell, session: Path) -> None:
    shown = shell.run("show", "newest").out
    for part in ("Mend the fence", "I look.", "Bash", "out", "done"):
        assert part in shown


def test_show_can_print_what_session_memory_says(shell: Shell, session: Path) -> None:
    assert "Mend the fence" in shell.run("show", "s", "--memory").out


def test_messages_from_before_a_compaction_are_shown(shell: Shell) -> None:
    shell.home.mkdir(parents=True, exist_ok=True)
    (shell.home / "settings.json").write_text('{"compact_at_tokens": 3000}')
    model = shell.script(
        turn("first answer " + "x" * 9000, usage={"input_tokens": 4000, "output_tokens": 3000}),
        turn("THE SUMMARY"),
        turn("second answer"),
    )
    shell.run("-p", "first prompt", "--model", model, "--session-id", "s")
    shell.run("-p", "second prompt", "--resume", "s", "--model", model)
    shown = shell.run("show", "s", "--json").json
    said = [text for _, text in texts(shown["messages"])]
    assert said[0] == "first prompt"
    assert said[1].startswith("first answer")
    assert len(shown["compactions"]) == 1
    text = shell.run("show", "s").out
    assert text.index("first answer") < text.index("compacted")


def test_short_ids_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    assert short_ids(["01a22d36-9af5-77bc", "01a22d36-9af6-77bc"]) == [
        "01a22d36-9af5",
        "01a22d36-9af6",
    ]
    assert short_ids(["01a22d36-9af5-77bc", "01a22d36-9af5-77bd"])[0] == "01a22d36-9af5-77bc"
    assert short_ids(["mine"]) == ["mine"]


def test_ages_are_what_a_person_would_say() -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    ages = [
        age((now - timedelta(**ago)).isoformat(), now)
        for ago in ({"seconds": 3}, {"minutes": 5}, {"hours": 3}, {"days": 4}, {"days": 90})
    ]
    assert ages == ["just now", "5 min", "3 h", "4 d", "26-01-31"]
    assert age("", now) == "-"


def test_a_title_can_be_asked_of_the_model_without_a_run(shell: Shell) -> None:
    paid = {"input_tokens": 7, "output_tokens": 3}
    model = shell.script(turn("Red."), turn("# Colours of the sky.", usage=paid))
    shell.run("-p", "one", "--model", model, "--session-id", "s")
    before = shell.run("show", "s", "--json").json
    done = shell.run("title", "s", "--generate", "--json")
    assert done.json == {"session_id": "s", "title": "Colours of the sky"}
    after = shell.run("show", "s", "--json").json
    assert after["usage"]["input_tokens"] == before["usage"]["input_tokens"] + 7
    assert (after["runs"], after["messages"]) == (before["runs"], before["messages"])
    assert shell.run("title", "s").out == "Colours of the sky\n"
    assert shell.run("check", "s").code == 0


def test_a_title_that_the_model_does_not_find_leaves_the_old_one(shell: Shell) -> None:
    failing = shell.script(turn("Red."), {"error": {"status": 400, "message": "no"}})
    shell.run("-p", "one", "--model", failing, "--session-id", "s")
    assert shell.run("title", "s", "--generate", "--model", failing).code == 7
    assert shell.run("title", "s").out == "one\n"
    assert shell.run("title", "s", "x", "--generate").code == 2
    assert shell.run("title", "s", "--model", failing).code == 2
