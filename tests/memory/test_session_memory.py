"""Session memory in use: where the model gets it, and that it is bounded whatever happened."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.agent.doubles import text
from tests.memory.conftest import Workshop, call
from tests.state.simulate import Simulation

import rewake
from rewake.agent.ports import Reply
from rewake.model.content import Text, Usage
from rewake.model.events import (
    Change,
    FileState,
    Outcome,
    Resolution,
    Result,
    Todo,
    Verification,
)
from rewake.settings.schema import Settings
from rewake.state.memory import TOKENS_MAX, SessionMemory
from rewake.state.text import estimate_tokens

LONG = st.sampled_from(["a", "👩‍👩‍👧‍👦", "日本", "\ud800", "é\u0301", "x y\n"]).flatmap(
    lambda piece: st.integers(0, 3_000).map(lambda count: piece * count)
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from("pcfrtvd"), LONG), max_size=120))
def test_the_budget_holds_whatever_happened(happened: list[tuple[str, str]]) -> None:
    memory = SessionMemory()
    for number, (kind, said) in enumerate(happened):
        event_id = f"e{number}"
        match kind:
            case "p":
                memory.prompt(event_id, said)
            case "c":
                changes = (Change(said, FileState(), FileState("file", "0" * 64)),)
                memory.completed_call(event_id, "Edit", Outcome(changes=changes))
            case "f":
                memory.failed_call(event_id, said, None, Result((Text(said),), is_error=True))
            case "r":
                memory.resolved_call(event_id, said, Resolution("unknown"), None)
            case "t":
                todos = tuple(Todo(said) for _ in range(200))
                memory.completed_call(event_id, "TodoWrite", Outcome(todos=todos))
            case "v":
                outcome = Outcome(verification=Verification(said, passed=True))
                memory.completed_call(event_id, "Bash", outcome)
            case _:
                memory.remember("decisions", event_id, said)
        rendered = memory.render()
        assert estimate_tokens(rendered) <= TOKENS_MAX
        rendered.encode()  # valid Unicode, whatever went in


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_budget_holds_for_any_session(data: st.DataObject) -> None:
    simulation = Simulation(data)
    simulation.run(data.draw(st.integers(1, 40)))
    conversation = simulation.state.conversation
    assert estimate_tokens(conversation.memory.render()) <= TOKENS_MAX


@pytest.mark.parametrize("resumes", [False, True])
def test_after_a_compaction_the_model_has_it_before_the_summary_in_every_request(
    workshop: Workshop, *, resumes: bool
) -> None:
    large = Usage(900, 10)
    edit = call("Write", file_path="a.txt", content="x")
    compacting = Settings(compact_at_tokens=800)
    worker = workshop.worker(
        edit,
        Reply((rewake.Text("word " * 400),), "end", large),
        text("A summary."),
        text("Two."),
        settings=compacting,
    )
    worker.run("Write a file")
    worker.run("Go on with it")
    if resumes:
        worker.session.close()
        worker = workshop.worker(text("Three."), resume=worker.session.session_id)
    worker.run("And now?")
    opening = worker.said()[0]
    known, summary = opening.index("What is known of this session"), opening.index("A summary.")
    assert known < summary
    assert "Current goal: Go on with it" in opening
    assert "Create a.txt" in opening
    assert estimate_tokens(opening[known:summary]) <= TOKENS_MAX + 50
