"""Markdown for people and ATIF for other programs, by the fields that its specification documents."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.archive.machines import LONG, Machine

import rewake
from rewake.compose.archives import export
from rewake.errors import UsageError

STEP_FIELDS = {
    "step_id", "timestamp", "source", "model_name", "reasoning_effort", "message", "reasoning_content",
    "tool_calls", "observation", "metrics", "extra", "llm_call_count", "is_copied_context",
}  # fmt: skip
ROOT_FIELDS = {
    "schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics",
    "continued_trajectory_ref", "extra", "subagent_trajectories",
}  # fmt: skip
ONLY_AGENTS = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
METRICS = {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra"}
TOTALS = {
    "total_prompt_tokens", "total_completion_tokens", "total_cached_tokens", "total_cost_usd",
    "total_steps", "extra",
}  # fmt: skip


def valid(root: dict[str, Any], *, embedded: bool = False) -> dict[str, Any]:
    """Everything that ATIF 1.7 requires of a trajectory; its own implementation checks the same."""
    assert root["schema_version"] == "ATIF-v1.7"
    assert root.keys() <= ROOT_FIELDS
    assert {"name", "version"} <= root["agent"].keys() <= {"name", "version", "model_name", "extra"}
    assert root["steps"]
    assert root["final_metrics"].keys() <= TOTALS
    assert "trajectory_id" in root or not embedded
    agents = root.get("subagent_trajectories", [])
    known = [valid(one, embedded=True)["trajectory_id"] for one in agents]
    assert len(set(known)) == len(known)
    for number, step in enumerate(root["steps"], 1):
        assert step["step_id"] == number
        assert step.keys() <= STEP_FIELDS
        assert step["source"] in {"system", "user", "agent"}
        assert isinstance(step["message"], str)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", step["timestamp"])
        assert step["source"] == "agent" or not step.keys() & ONLY_AGENTS
        assert step.get("metrics", {}).keys() <= METRICS
        calls = [call["tool_call_id"] for call in step.get("tool_calls", [])]
        assert len(set(calls)) == len(calls)
        for call in step.get("tool_calls", []):
            assert call.keys() <= {"tool_call_id", "function_name", "arguments", "extra"}
            assert isinstance(call["arguments"], dict)
        for result in step.get("observation", {"results": []})["results"]:
            assert result.keys() <= {
                "source_call_id", "content", "subagent_trajectory_ref", "extra"
            }  # fmt: skip
            assert "source_call_id" not in result or result["source_call_id"] in calls
            assert isinstance(result.get("content", ""), str)
            for ref in result.get("subagent_trajectory_ref", []):
                assert ref["trajectory_id"] in known
    return root


def written(here: Machine, session_id: str, form: Any, tmp_path: Path, **more: Any) -> str:
    output = tmp_path / "out"
    export(session_id, output, form=form, project=here.project, home=here.home, **more)
    return output.read_text("utf-8")


def atif(here: Machine, session_id: str, tmp_path: Path) -> dict[str, Any]:
    return valid(json.loads(written(here, session_id, "atif", tmp_path)))


def working(here: Machine) -> str:
    """Two calls (one of them interrupted), a changed file, a thought, usage, a note."""
    target = here.project / "a.py"
    target.write_text("one\ntwo\n")
    with here.open() as session:
        session.user("Change ```a.py```")
        write = rewake.ToolCall("same", "Write", {"file_path": "a.py"})
        bash = rewake.ToolCall("same", "Bash", arguments_text="no JSON")
        usage = rewake.Usage(100, 20, 40, 5, 0.25)
        session.assistant(
            [rewake.Thinking("hm", signature="c2ln"), rewake.Text("I do."), write, bash],
            model="m-1",
            usage=usage,
        )
        change = rewake.FileChange(target, b"one\ntwo\n", b"one\n```\n")
        with session.action(write, intent=change) as action:
            target.write_bytes(b"one\n```\n")
            action.complete("written \x1b[31mred\x1b[0m")
        session_id = session.session_id
    with here.open(session_id) as session:
        session.assistant("Done 🙂 \ud83d", model="m-1", usage=rewake.Usage(200, 10))
        session.terminal("done")
    return session_id


def test_a_trajectory_has_everything_that_was_said_and_done(here: Machine, tmp_path: Path) -> None:
    root = atif(here, working(here), tmp_path)
    user, agent, *_, last = root["steps"]
    assert user["message"] == "Change ```a.py```"
    assert agent["reasoning_content"] == "hm"
    assert agent["model_name"] == "m-1"
    assert agent["metrics"] == {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "cached_tokens": 40,
        "cost_usd": 0.25,
        "extra": {"cache_creation_input_tokens": 5},
    }
    assert [call["function_name"] for call in agent["tool_calls"]] == ["Write", "Bash"]
    first, second = agent["observation"]["results"]
    assert first["extra"]["changed_files"] == [str(here.project / "a.py")]
    assert second["extra"]["verdict"] == "not_applied"
    assert last["message"].startswith("Done 🙂")
    assert root["final_metrics"]["total_prompt_tokens"] == 300
    assert root["final_metrics"]["total_steps"] == len(root["steps"])


def test_compactions_and_origins_are_steps_too(here: Machine, tmp_path: Path) -> None:
    origin = here.talk("one", answer=LONG)
    with here.open(origin) as session:
        session.checkpoint("what was said")
        session.user("after")
    fork = here.fork(origin, "in the fork")
    root = atif(here, fork, tmp_path)
    assert [step["source"] for step in root["steps"]] == ["user", "agent", "system", "user", "user"]
    boundary = root["steps"][2]
    assert boundary["extra"]["context_management"]["boundary"] == "replace"
    assert boundary["observation"]["results"] == [{"content": "what was said"}]


def test_a_sub_agent_is_embedded(here: Machine, tmp_path: Path) -> None:
    session_id = here.talk("one")
    helper = here.talk("helped")
    agents = here.paths(session_id).agents
    agents.mkdir()
    (agents / "helper.jsonl").write_bytes(here.paths(helper).transcript.read_bytes())
    (agents / "broken.jsonl").write_bytes(b"")
    root = atif(here, session_id, tmp_path)
    assert [one["trajectory_id"] for one in root["subagent_trajectories"]] == ["helper"]


def test_a_session_in_which_nothing_was_said_has_no_trajectory(
    here: Machine, tmp_path: Path
) -> None:
    with here.open() as session:
        session_id = session.session_id
    with pytest.raises(UsageError, match="nothing was said"):
        written(here, session_id, "atif", tmp_path)
    assert "# Session" in written(here, session_id, "markdown", tmp_path)


def test_markdown_shows_calls_diffs_results_and_verdicts(here: Machine, tmp_path: Path) -> None:
    text = written(here, working(here), "markdown", tmp_path)
    assert "### Tool: Write" in text
    assert "````diff" in text  # longer than the fence in the file
    assert "+```" in text
    assert "\x1b" not in text
    assert "written red" in text
    assert "verdict: **not applied**" in text
    assert "$0.25" in text


@pytest.mark.parametrize("form", ["markdown", "atif"])
def test_secrets_are_taken_out_of_texts_too(here: Machine, tmp_path: Path, form: str) -> None:
    key = "gh" + "p_" + "0123456789abcdefghijABCDEFGHIJ012345"
    session_id = here.talk(f"use {key}", answer="T0P-secret-value")
    environ = {"MY_TOKEN": "T0P-secret-value"}
    text = written(here, session_id, form, tmp_path, environ=environ)
    assert key not in text
    assert "T0P" not in text
    assert key in written(here, session_id, form, tmp_path, redact=False)
