"""The loop, step by step: answers, retries, limits; what the model is asked and what is recorded."""

from __future__ import annotations

import itertools

import pytest
from tests.agent.conftest import Open
from tests.agent.doubles import Answer, DoubleTool, ScriptedModel, agent, calls, text

import rewake
from rewake.agent.loop import TRANSITIONS, Limits
from rewake.agent.ports import ModelRequest, Reply
from rewake.errors import ModelError
from rewake.log.scan import Transcript
from rewake.model.events import Event, StateTransition, Terminal


def payloads(session: rewake.Session) -> list[object]:
    assert session.transcript is not None
    session.flush()
    with Transcript(session.transcript) as reader:
        return [item.payload for item in reader.forward() if isinstance(item, Event)]


def busy(status: int = 529) -> ModelError:
    return ModelError(f"status {status}.", status=status, retryable=True)


def test_an_answer_of_text_ends_the_run(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(text("Hello.", usage=rewake.Usage(10, 2, cost_usd=0.5))))
    result = used.run("Hi")
    assert (result.reason, result.response, result.steps) == ("done", "Hello.", 1)
    assert result.usage == rewake.Usage(10, 2, cost_usd=0.5)
    assert used.model.heard() == ["Hi"]
    assert used.watch.streamed == ["Hello."]
    (terminal,) = [p for p in payloads(session) if isinstance(p, Terminal)]
    assert terminal.reason == "done"


def test_tools_are_run_until_the_model_wants_no_more(session: rewake.Session) -> None:
    tool = DoubleTool("look", read_only=True)
    used = agent(session, ScriptedModel(calls("look"), calls("look"), text("Done.")), [tool])
    result = used.run()
    assert (result.reason, result.steps, len(tool.ran)) == ("done", 3, 2)
    assert used.model.heard() == ["go", "", "\nok", "", "\nok"]
    assert [request.turn for request in used.model.requests] == [0, 1, 2]


def test_only_the_transitions_of_the_table_are_recorded(session: rewake.Session) -> None:
    model = ScriptedModel(busy(), calls("look"), text(""), text("more", "length"), text("end"))
    agent(session, model, [DoubleTool("look")]).run()
    steps = [p for p in payloads(session) if isinstance(p, StateTransition)]
    assert steps[0].from_state == "idle"
    assert steps[-1].to_state == "stopped"
    for before, after in itertools.pairwise(steps):
        assert before.to_state == after.from_state
    for step in steps:
        assert step.to_state in TRANSITIONS[step.from_state]  # type: ignore[index]  # the table's names


def test_the_prompt_is_durable_before_the_model_is_asked(session: rewake.Session) -> None:
    async def look(_request: ModelRequest) -> Reply:
        assert session.transcript is not None
        assert b'"the prompt"' in session.transcript.read_bytes()
        return text("ok")

    model = ScriptedModel(look)
    assert agent(session, model).run("the prompt").reason == "done"


# --- answers that are none ---------------------------------------------------------------------


def test_empty_answers_are_asked_for_again_and_counted(session: rewake.Session) -> None:
    blank = text(" \n ", usage=rewake.Usage(5, 1))
    used = agent(session, ScriptedModel(blank, text(""), text("here")))
    result = used.run()
    assert (result.reason, result.response) == ("done", "here")
    assert used.model.requests[0].messages == used.model.requests[2].messages


def test_a_model_that_only_gives_empty_answers_ends_the_run(session: rewake.Session) -> None:
    result = agent(session, ScriptedModel(text(""), text(""), text(""), text("late"))).run()
    assert result.reason == "model_error"
    assert "empty answer" in str(result.error)


def test_thinking_alone_is_no_answer(session: rewake.Session) -> None:
    thought = Reply((rewake.Thinking("hm", "signed"),), "end")
    assert agent(session, ScriptedModel(thought, text("so"))).run().response == "so"


def test_an_answer_cut_at_its_limit_goes_on(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(text("one", "length"), text("two", "length"), text("3")))
    assert used.run().response == "3"
    told = used.model.heard()
    assert [told[0], told[1], told[3]] == ["go", "one", "two"]
    assert all("Go on where it stopped" in told[place] for place in (2, 4))
    assert used.session.state.conversation.newest_prompt == used.session.messages[0].message_id


def test_an_endless_answer_is_cut_after_three_continuations(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(*(text(f"{n}", "length") for n in range(20))))
    assert used.run().steps == 4


# --- errors of the provider ---------------------------------------------------------------------


def test_transient_errors_are_waited_out_longer_each_time(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(busy(429), busy(500), busy(529), text("at last")))
    assert used.run().response == "at last"
    assert used.slept == [1.0, 2.0, 4.0]
    assert len(used.watch.notices) == 3


def test_a_provider_that_stays_away_ends_the_run(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(*(busy() for _ in range(10))))
    result = used.run()
    assert (result.reason, len(used.model.requests)) == ("model_error", 6)
    assert used.slept == [1.0, 2.0, 4.0, 8.0, 16.0]
    used.session.user("again")
    assert len(used.session.view()) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_asking_again_cannot_change_is_not_asked_again(
    session: rewake.Session, status: int
) -> None:
    used = agent(session, ScriptedModel(ModelError("no.", status=status), text("late")))
    result = used.run()
    assert (result.reason, used.slept, len(used.model.requests)) == ("model_error", [], 1)
    assert isinstance(result.error, ModelError)
    assert result.error.status == status


def test_each_step_has_its_own_patience(session: rewake.Session) -> None:
    answers: list[Answer] = [busy(), busy(), calls("look"), busy(), busy(), text("end")]
    used = agent(session, ScriptedModel(*answers), [DoubleTool("look", read_only=True)])
    assert used.run().reason == "done"
    assert used.slept == [1.0, 2.0, 1.0, 2.0]


def test_a_failed_run_does_not_answer_with_the_words_of_the_one_before(
    session: rewake.Session,
) -> None:
    used = agent(session, ScriptedModel(text("first answer"), ModelError("no.", status=401)))
    assert used.run("one").response == "first answer"
    assert used.run("two").response == ""


def test_an_error_that_nobody_foresaw_leaves_a_history_that_goes_on(
    session: rewake.Session,
) -> None:
    used = agent(session, ScriptedModel(ZeroDivisionError("defect"), text("fine")))
    with pytest.raises(ZeroDivisionError):
        used.run("one")
    assert used.run("two").response == "fine"
    assert used.model.heard() == ["one", "two"]


# --- limits --------------------------------------------------------------------------------------


def test_a_run_stops_after_its_steps_and_can_be_continued(session: rewake.Session) -> None:
    tool = DoubleTool("look", read_only=True)
    model = ScriptedModel(*(calls("look") for _ in range(3)))
    used = agent(session, model, [tool], limits=Limits(max_steps=2))
    assert (used.run().reason, len(tool.ran)) == ("max_steps", 2)
    assert (used.run(None).reason, len(tool.ran)) == ("done", 3)


def test_a_run_stops_once_it_has_cost_its_limit(session: rewake.Session) -> None:
    costly = [calls("look", usage=rewake.Usage(1, 1, cost_usd=0.4)) for _ in range(5)]
    used = agent(
        session,
        ScriptedModel(*costly),
        [DoubleTool("look", read_only=True)],
        limits=Limits(max_cost_usd=1.0),
    )
    result = used.run()
    assert (result.reason, result.steps) == ("max_cost", 3)
    assert used.run("next").reason == "done"  # the limit is of one run


def test_empty_answers_cost_too(session: rewake.Session) -> None:
    blank = text("", usage=rewake.Usage(1, 1, cost_usd=0.4))
    used = agent(session, ScriptedModel(blank, text("x", usage=rewake.Usage(1, 1, cost_usd=0.4))))
    assert used.run().usage.cost_usd == pytest.approx(0.8)


# --- going on --------------------------------------------------------------------------------------


def test_going_on_after_an_answer_never_ends_the_request_with_it(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(text("one"), text("two")))
    used.run()
    assert used.run(None).response == "two"
    assert used.model.heard() == ["go", "one", "[rewake] Go on."]


def test_a_resumed_session_goes_on_with_the_same_words(open_session: Open) -> None:
    with open_session() as first:
        before = agent(first, ScriptedModel(calls("look")), [DoubleTool("look", read_only=True)])
        before.loop.limits = Limits(max_steps=1)
        before.run()
    with open_session(resume=first.session_id) as second:
        after = agent(second, ScriptedModel(text("end")), [DoubleTool("look", read_only=True)])
        assert after.run(None).response == "end"
    assert after.model.heard() == ["go", "", "\nok"]
    assert after.model.requests[0].turn == 1


def test_a_loop_over_a_session_in_memory_works_the_same(open_session: Open) -> None:
    with open_session(durability="memory") as memory:
        used = agent(memory, ScriptedModel(calls("look"), text("end")), [DoubleTool("look")])
        assert used.run().response == "end"
