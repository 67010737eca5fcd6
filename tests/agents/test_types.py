"""Types of agents that users write in Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.crew import Crew, TypedModel, bash, calls, says, task

from rewake.compose.extensions import load_types

REVIEWER = """---
name: reviewer
description: Reads changes and says what is wrong with them.
tools: Read, Grep
max_steps: 3
---
You review. Be brief.
"""


def define(root: Path, name: str, text: str) -> Path:
    path = root / "agents" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_type_of_the_project_has_its_prompt_and_its_tools(crew: Crew) -> None:
    define(crew.project / ".rewake", "reviewer", REVIEWER)
    model = TypedModel(
        main=[calls(task("review", "reviewer")), says("ok")],
        reviewer=[calls(bash("true")), says("Fine.")],
    )
    crew.run(model)
    asked = [request for request in model.requests if request.agent == "reviewer"]
    assert {spec.name for spec in asked[0].tools} == {"Read", "Grep"}
    assert "You review. Be brief." in asked[0].system
    assert "There is no tool 'Bash'" in model.heard("reviewer")
    assert "reviewer: Reads changes" in str(model.requests[0].tools)


def test_the_projects_type_goes_before_the_users_and_the_built_in(crew: Crew) -> None:
    define(crew.project / ".rewake", "x", REVIEWER.replace("Be brief", "Of the project"))
    second = define(crew.home, "y", REVIEWER.replace("Be brief", "Of the user"))
    define(crew.home, "worker", "---\ndescription: Mine.\n---\nWork my way.\n")
    types, problems = load_types(crew.home, crew.project)
    assert types["reviewer"].prompt == "You review. Of the project."
    assert types["worker"].prompt == "Work my way."
    assert set(types) == {"explorer", "worker", "verifier", "reviewer"}
    (problem,) = problems
    assert problem.path == second
    assert "defined nearer" in problem.message


@pytest.mark.parametrize(
    ("text", "line", "says_so"),
    [
        ("---\nname: a b\ndescription: x\n---\nhi", 2, "no name"),
        ("---\nname: a\n---\nhi", 1, "no description"),
        ("---\nname: a\ndescription: x\n---\n", 1, "no body"),
        ("---\nname: a\ndescription: x\nmax_steps: many\n---\nhi", 4, "max_steps"),
        ("---\nname: a\ndescription: x\nmax_steps: 0\n---\nhi", 4, "max_steps"),
        ("---\nname: [\n---\nhi", 3, "can't be read"),
        ("---\nname: a\n", 1, "no end"),
        ("no front matter at all", 1, "no description"),
    ],
)
def test_a_broken_file_is_told_with_its_line_and_hides_no_other(
    crew: Crew, text: str, line: int, says_so: str
) -> None:
    path = define(crew.project / ".rewake", "broken", text)
    define(crew.project / ".rewake", "reviewer", REVIEWER)
    types, problems = load_types(crew.home, crew.project)
    assert "reviewer" in types
    assert [(problem.path, problem.line) for problem in problems] == [(path, line)]
    assert says_so in problems[0].message


def test_a_file_that_leads_out_of_the_project_is_not_read(crew: Crew, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text(REVIEWER)
    link = crew.project / ".rewake" / "agents" / "link.md"
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    types, problems = load_types(crew.home, crew.project)
    assert "reviewer" not in types
    assert "leads out of the project" in problems[0].message


def test_a_type_without_tools_has_none(crew: Crew) -> None:
    define(
        crew.home, "thinker", "---\ndescription: Thinks.\ntools: []\n---\nThink about what is said."
    )
    types, _ = load_types(crew.home, crew.project)
    assert types["thinker"].tools == ()


def test_models_of_other_programs_mean_the_parents_model(crew: Crew) -> None:
    define(crew.home, "a", "---\ndescription: x\nmodel: sonnet\n---\nhi")
    define(crew.home, "b", "---\ndescription: x\nmodel: openai:gpt-x\n---\nhi")
    types, _ = load_types(crew.home, crew.project)
    assert (types["a"].model, types["b"].model) == (None, "openai:gpt-x")


def test_a_type_of_the_project_brings_no_model_of_its_own(crew: Crew) -> None:
    define(crew.project / ".rewake", "a", "---\ndescription: x\nmodel: script:evil.jsonl\n---\nhi")
    model = TypedModel(main=[calls(task("look", "a"))], a=[says("From the user's model.")])
    crew.run(model)
    assert "From the user's model." in model.heard()
    assert any("its model script:evil.jsonl doesn't count" in one for one in crew.watch.notices)


def test_an_agent_whose_type_is_gone_is_not_taken_for_another(crew: Crew) -> None:
    path = define(crew.home, "reviewer", REVIEWER)
    crew.run(TypedModel(main=[calls(task("review", "reviewer"))], reviewer=[says("Fine.")]))
    path.unlink()
    (agent_id,) = crew.agent_ids()
    again = TypedModel(main=[says("x"), says("x"), calls(task("", resume=agent_id)), says("ok")])
    crew.run(again, "Again.")
    assert f"The type of agent {agent_id} is not defined any more" in again.heard()
