"""Compaction: when, what stays, what it costs, and that it always ends."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.agent.conftest import Open
from tests.agent.doubles import DoubleTool, ScriptedModel, agent, calls, text

import rewake
from rewake.agent.compaction import INSTRUCTION
from rewake.agent.loop import Limits
from rewake.agent.ports import ModelRequest, Reply
from rewake.errors import ModelError, PromptTooLongError
from rewake.log.scan import Transcript
from rewake.model.events import Checkpoint, Event

LONG = "word " * 600  # about a thousand tokens
TOO_LONG = PromptTooLongError("too long", status=400)


def checkpoints(session: rewake.Session) -> list[Checkpoint]:
    assert session.transcript is not None
    session.flush()
    with Transcript(session.transcript) as reader:
        found = [item.payload for item in reader.forward() if isinstance(item, Event)]
    return [p for p in found if isinstance(p, Checkpoint) and p.kind == "compaction"]


def is_summary(request: ModelRequest) -> bool:
    return any(
        isinstance(block, rewake.Text) and block.text == INSTRUCTION
        for block in request.messages[-1].content
    )


class Worker(ScriptedModel):
    """Calls a tool `steps` times, sums up when it is asked to, and is then done."""

    def __init__(self, steps: int, *, usage: bool = False, window: int | None = None) -> None:
        super().__init__(context_tokens=window)
        self.left = steps
        self.usage = usage
        self.summaries = 0

    async def request(self, request: ModelRequest, on_text: object) -> Reply:
        await super().request(request, lambda _text: None)
        if is_summary(request):
            self.summaries += 1
            return text(f"summary {self.summaries}")
        self.left -= 1
        # Usage as a provider would count it: a little less than the offline estimate.
        tokens = sum(len(said) for said in self.heard()) // 4
        used = rewake.Usage(max(tokens, 1), 10) if self.usage else None
        return calls("work", usage=used) if self.left >= 0 else text("done", usage=used)

    def asked(self) -> list[ModelRequest]:
        return [request for request in self.requests if not is_summary(request)]


async def work_long(call_id: str) -> str:
    return LONG


async def work_short(call_id: str) -> str:
    return "ok"


def prompts_of(model: ScriptedModel) -> list[list[str]]:
    return [model.heard(number) for number in range(len(model.requests))]


@pytest.mark.parametrize("usage", [True, False])
def test_a_single_long_turn_is_compacted_in_its_middle(
    session: rewake.Session, *, usage: bool
) -> None:
    model = Worker(30, usage=usage)
    used = agent(session, model, [DoubleTool("work", work_long)], compact_at_tokens=8000)
    result = used.run("the newest prompt")
    assert (result.reason, result.steps) == ("done", 31)
    assert model.summaries >= 2
    assert all("the newest prompt" in heard for heard in prompts_of(model))
    sizes = [sum(len(said) for said in heard) // 3 for heard in prompts_of(model)]
    assert max(sizes) < 12_000
    assert model.heard()[0].count("summary ") == 1


def test_a_compaction_is_not_due_again_because_of_the_usage_of_what_was_kept(
    session: rewake.Session,
) -> None:
    model = Worker(12, usage=True)
    used = agent(session, model, [DoubleTool("work", work_long)], compact_at_tokens=8000)
    assert used.run().reason == "done"
    places = [number for number, request in enumerate(model.requests) if is_summary(request)]
    gaps = [after - before for before, after in itertools.pairwise(places)]
    assert all(gap > 3 for gap in gaps), places


def test_what_does_not_fit_for_other_reasons_is_not_compacted_at_every_step(
    session: rewake.Session,
) -> None:
    """A system prompt larger than the budget: nothing that is left out would help."""
    model = Worker(30)
    used = agent(
        session,
        model,
        [DoubleTool("work", work_short)],
        compact_at_tokens=2000,
        system=LONG * 5,
    )
    assert used.run().reason == "done"
    assert model.summaries <= 10


def test_the_providers_own_count_decides_where_it_is_higher_than_the_estimate(
    session: rewake.Session,
) -> None:
    """Tokens that no estimate sees (images, reasoning, a script with many tokens a word)."""
    full = rewake.Usage(50_000, 10)
    answers = [calls("work", usage=full), text("the summary"), text("end")]
    for number in range(10):
        session.user(f"old {number}")
        session.assistant("ok")
    used = agent(session, ScriptedModel(*answers), [DoubleTool("work")], compact_at_tokens=40_000)
    assert used.run("newest").response == "end"
    heard = used.model.heard()
    assert "the summary" in heard[0]
    assert "newest" in heard
    assert len(heard) < 6


def test_a_small_conversation_that_is_refused_is_left_with_its_newest_prompt(
    session: rewake.Session,
) -> None:
    session.user("old")
    used = agent(session, ScriptedModel(TOO_LONG, text("sum"), text("end")), system=LONG)
    assert used.run("newest").response == "end"
    assert used.model.heard()[1:] == ["newest"]


def test_sizes_on_record_say_what_a_compaction_gained(session: rewake.Session) -> None:
    model = Worker(15)
    agent(session, model, [DoubleTool("work", work_long)], compact_at_tokens=8000).run()
    for checkpoint in checkpoints(session):
        assert checkpoint.trigger == "budget"
        assert checkpoint.tokens_before >= 8000
        assert checkpoint.tokens_after < checkpoint.tokens_before // 2


def test_session_memory_and_summary_stay_the_same_until_the_next_compaction(
    session: rewake.Session,
) -> None:
    model = Worker(30)
    agent(session, model, [DoubleTool("work", work_long)], compact_at_tokens=8000).run()
    opening = [request.messages[0] for request in model.asked()]
    assert len(set(map(repr, opening))) == model.summaries + 1


# --- the provider says that it is too long ---------------------------------------------------------


def test_a_prompt_too_long_is_compacted_and_asked_again(session: rewake.Session) -> None:
    for number in range(5):
        session.user(f"old {number} {LONG}")
        session.assistant("ok")
    used = agent(session, ScriptedModel(TOO_LONG, text("the summary"), text("answer")))
    assert used.run("newest").response == "answer"
    heard = used.model.heard()
    assert "the summary" in heard[0]
    assert heard[-1] == "newest"
    assert sum(map(len, heard)) < sum(map(len, used.model.heard(0))) // 2
    assert [checkpoint.trigger for checkpoint in checkpoints(session)] == ["prompt_too_long"]


def test_a_provider_that_still_refuses_is_given_up_after_two_compactions(
    session: rewake.Session,
) -> None:
    for number in range(20):
        session.user(f"old {number} {LONG}")
        session.assistant("ok")

    async def sum_up(request: ModelRequest) -> Reply:
        assert is_summary(request)
        return text("sum")

    used = agent(session, ScriptedModel(TOO_LONG, sum_up, TOO_LONG, sum_up, TOO_LONG, text("late")))
    result = used.run("newest")
    assert (result.reason, type(result.error)) == ("model_error", PromptTooLongError)
    assert len(checkpoints(session)) <= 2
    assert used.run("again").reason == "done"


def test_one_prompt_that_no_provider_takes_ends_the_run(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(*(TOO_LONG for _ in range(90))))
    result = used.run(LONG * 100)
    assert (result.reason, type(result.error)) == ("model_error", PromptTooLongError)
    assert len(used.model.requests) <= 6


def test_a_summary_that_is_too_long_to_ask_for_is_asked_of_the_newer_half(
    session: rewake.Session,
) -> None:
    for number in range(8):
        session.user(f"old {number}")
        session.assistant(f"answer {number}")
    used = agent(session, ScriptedModel(TOO_LONG, TOO_LONG, text("half a summary"), text("end")))
    assert used.run("newest").response == "end"
    asked = [request for request in used.model.requests if is_summary(request)]
    assert len(asked[1].messages) < len(asked[0].messages)
    assert "half a summary" in used.model.heard()[0]


def test_a_summary_that_is_always_too_long_is_replaced_by_session_memory(
    session: rewake.Session,
) -> None:
    for number in range(8):
        session.user(f"old {number}")
        session.assistant(f"answer {number}")
    used = agent(session, ScriptedModel(*(TOO_LONG for _ in range(6)), text("end"), text("end")))
    result = used.run("newest")
    assert len(used.model.requests) < 20
    assert result.reason in {"done", "model_error"}
    assert checkpoints(session)[0].summary


@pytest.mark.parametrize(
    "answer",
    [
        ModelError("overloaded", status=529, retryable=True),
        ModelError("no", status=401),
        text(""),
        calls("work"),
    ],
)
def test_a_model_that_cannot_sum_up_leaves_it_to_session_memory(
    session: rewake.Session, answer: ModelError | Reply
) -> None:
    session.user("a goal to remember")
    session.assistant(LONG)
    used = agent(session, ScriptedModel(answer, text("end")), [DoubleTool("work")])
    anyio.run(used.loop.compact, "manual")
    assert checkpoints(session)[0].summary == session.state.conversation.summary
    assert "a goal to remember" in (checkpoints(session)[0].summary or "")
    assert used.run("next").reason == "done"


# --- by hand, and around its end ---------------------------------------------------------------------


def test_compacting_by_hand_can_be_repeated_and_followed_by_anything(
    session: rewake.Session,
) -> None:
    session.user("one")
    session.assistant("two")
    used = agent(session, ScriptedModel(text("s1"), text("s2"), text("end")))
    anyio.run(used.loop.compact, "manual")
    anyio.run(used.loop.compact, "manual")
    assert used.run("three").response == "end"
    assert "s2" in used.model.heard()[0]
    assert used.model.heard()[-1] == "three"


def test_a_cancelled_compaction_leaves_the_conversation_as_it_was(
    session: rewake.Session,
) -> None:
    session.user("one")
    session.assistant("two")
    before = [entry.message_id for entry in session.messages if not entry.message.source]

    scopes: list[anyio.CancelScope] = []

    async def hang(request: ModelRequest) -> Reply:
        scopes[0].cancel()
        await anyio.sleep_forever()
        raise AssertionError

    async def run() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await used.loop.compact("manual")

    used = agent(session, ScriptedModel(hang, text("s"), text("end")))
    anyio.run(run)
    assert [e.message_id for e in session.messages if not e.message.source] == before
    anyio.run(used.loop.compact, "manual")
    assert used.run("three").response == "end"


def test_exit_right_after_a_compaction_keeps_the_newest_prompt_in_the_next_request(
    open_session: Open,
) -> None:
    with open_session() as first:
        model = Worker(30)
        used = agent(
            first,
            model,
            [DoubleTool("work", work_long)],
            compact_at_tokens=8000,
            limits=Limits(max_steps=8),
        )
        used.run("the newest prompt")
        anyio.run(used.loop.compact, "manual")
    with open_session(resume=first.session_id) as second:
        after = agent(second, ScriptedModel(text("end")), [DoubleTool("work")])
        assert after.run(None).response == "end"
    heard = after.model.heard()
    assert "summary" in heard[0]
    assert "the newest prompt" in heard


KILLED = """
import os, signal, sys
from pathlib import Path
import anyio, rewake
from tests.agent.doubles import DoubleTool, agent
from tests.agent.test_compaction import Worker, work_long

home, project = map(Path, sys.argv[1:3])

def die_at_checkpoint(event):
    if event.event_type == "checkpoint":
        os.kill(os.getpid(), signal.SIGKILL)

session = rewake.open_session(project, home=home, session_id="s", on_recorded=die_at_checkpoint)
used = agent(session, Worker(30), [DoubleTool("work", work_long)], compact_at_tokens=8000)
used.run("the newest prompt")
"""


def test_killed_right_after_a_compaction_the_next_request_has_prompt_and_summary(
    open_session: Open, home: Path, project: Path
) -> None:
    root = Path(__file__).parents[2]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(home), str(project)],
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    with open_session(resume="s") as session:
        assert session.resumed is not None
        assert session.resumed.summary == "summary 1"
        after = agent(session, ScriptedModel(text("end")), [DoubleTool("work")])
        assert after.run(None).response == "end"
    heard = after.model.heard()
    assert "summary 1" in heard[0]
    assert "the newest prompt" in heard
