"""Notes come to mind when a prompt is about them: once, in time, and with their reasons."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from tests.agent.doubles import ScriptedModel, Watch, text
from tests.memory.conftest import Workshop, call, keep

import rewake
from rewake.agent.judging import numbers_in
from rewake.agent.ports import Model, ModelRequest, Reply
from rewake.agent.recall import Recall
from rewake.compose.memory import memory_directories
from rewake.compose.place import Place
from rewake.errors import ModelError
from rewake.model.content import Usage
from rewake.settings.schema import Memory, Settings

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def notes(at: Place) -> None:
    keep(
        at,
        "release-steps",
        "How a release of the library is made",
        "Bump the version, tag it, and let the workflow upload the wheel.",
        created="2026-08-01",
    )
    keep(at, "vacuum", "Autovacuum of the big tables", "The scale factor is 0.02 for orders.")
    keep(at, "user-editor", "The user works in Neovim", "Give key hints for it.")


def test_a_prompt_recalls_the_note_that_is_about_it(workshop: Workshop) -> None:
    worker = workshop.worker()
    worker.run("Make a release of version 2.1")
    assert worker.recalled() == ["release-steps"]
    prompt, recalled = worker.said()
    assert prompt == "Make a release of version 2.1"
    assert "let the workflow upload the wheel" in recalled
    assert "2026-08-01" in recalled


def test_an_unrelated_prompt_recalls_nothing(workshop: Workshop) -> None:
    worker = workshop.worker()
    worker.run("Write a haiku about autumn")
    assert worker.said() == ["Write a haiku about autumn"]


def test_what_was_recalled_is_not_recalled_again_also_after_a_resume(workshop: Workshop) -> None:
    first = workshop.worker()
    first.run("Make a release")
    first.run("Is the release out?")
    assert first.recalled() == ["release-steps"]
    first.session.close()
    second = workshop.worker(resume=first.session.session_id)
    second.run("Make another release")
    assert second.recalled() == ["release-steps"]


def test_a_fork_knows_what_its_origin_recalled(workshop: Workshop) -> None:
    first = workshop.worker()
    first.run("Make a release")
    first.session.close()
    fork = workshop.worker(resume=first.session.session_id, fork=True)
    fork.run("Make another release")
    assert fork.recalled() == ["release-steps"]


def test_a_rewound_recall_may_come_again(workshop: Workshop) -> None:
    worker = workshop.worker()
    worker.run("Hello there")
    start = worker.session.messages[-1].message_id
    worker.run("Make a release")
    worker.session.rewind(start)
    assert worker.recalled() == []
    worker.run("Make a release")
    assert worker.recalled() == ["release-steps"]


def test_a_note_that_changed_may_be_recalled_again(workshop: Workshop, at: Place) -> None:
    worker = workshop.worker()
    worker.run("Make a release")
    directory = memory_directories(at)["project"]
    stored = directory.read("release-steps")
    directory.write(
        rewake.Note("release-steps", "How a release is made", "Ask Ada."), stored.sha256
    )
    worker.run("Make a release")
    assert worker.recalled() == ["release-steps", "release-steps"]


def test_a_note_that_the_model_has_read_is_not_recalled(workshop: Workshop) -> None:
    worker = workshop.worker(call("MemoryRead", name="release-steps"), text("Done."))
    worker.run("What do you remember?")
    worker.run("Make a release")
    assert worker.recalled() == []


def test_recall_can_be_switched_off(workshop: Workshop) -> None:
    worker = workshop.worker(settings=Settings(memory=Memory(recall=False)))
    worker.run("Make a release")
    assert worker.recalled() == []
    assert "Memory" in worker.loop.executor.tools
    other = workshop.worker(settings=Settings(memory=Memory(enabled=False)))
    assert "Memory" not in other.loop.executor.tools


@pytest.mark.parametrize(("most", "expected"), [(0, 0), (1, 1), (5, 3)])
def test_only_so_many_notes_are_recalled(
    workshop: Workshop, at: Place, most: int, expected: int
) -> None:
    for number in range(2):
        keep(at, f"release-{number}", "How a release of the library is made", "Tag it.")
    worker = workshop.worker(settings=Settings(memory=Memory(recall_notes_max=most)))
    worker.run("Make a release of the library")
    assert len(worker.recalled()) == expected
    assert len(worker.said()) == 1 + (expected > 0)


def test_long_notes_are_cut_to_a_part_of_a_small_window(workshop: Workshop, at: Place) -> None:
    keep(at, "history", "The history of the parser", "Once. " * 2_000)
    worker = workshop.worker(context_tokens=4_000)
    worker.run("What is the history of the parser?")
    _, recalled = worker.said()
    assert len(recalled.encode()) < 2_000
    assert 'cut="only its beginning; MemoryRead shows all of it"' in recalled


def test_why_a_note_was_recalled_is_on_record(workshop: Workshop) -> None:
    worker = workshop.worker()
    worker.run("Make a release")
    (entry,) = [one for one in worker.session.messages if one.message.source == "memory"]
    assert entry.message.details is not None
    (note,) = entry.message.details["notes"]
    assert note["why"] == "in common with the prompt: release"
    assert note["written"].startswith("2026-08-01")
    assert entry.message.details["by"] == "ranking"


# --- a model that judges ---------------------------------------------------------------------


class Judge(ScriptedModel):
    """A judge that answers, fails or takes for ever."""

    def __init__(
        self, *answers: Reply | BaseException, hold: threading.Event | None = None
    ) -> None:
        super().__init__(*answers)
        self.hold = hold

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        if self.hold is not None:
            await anyio.sleep_forever()
        return await super().request(request, on_text)


def recalled_by(
    session: rewake.Session,
    at: Place,
    open_judge: Callable[[], Model],
    prompt: str = "Make a release",
    time_ms_max: int = 20_000,
) -> tuple[list[str], Watch]:
    """Which notes a recall with this judge brings."""
    watch = Watch()
    recall = Recall(
        session,
        tuple(memory_directories(at).values()),
        cache=None,
        disk=at.disk,
        now=lambda: NOW,
        on_notice=watch.on_notice,
        judge=open_judge,
        time_ms_max=time_ms_max,
    )

    async def remember() -> None:
        await recall.on_prompt(prompt)
        await recall.before_request()

    anyio.run(remember)
    names = [
        note["name"]
        for entry in session.messages
        if entry.message.source == "memory" and entry.message.details is not None
        for note in entry.message.details["notes"]
    ]
    return names, watch


@pytest.fixture
def session(workshop: Workshop) -> rewake.Session:
    return workshop.worker().session


def test_a_judge_chooses_among_the_candidates(session: rewake.Session, at: Place) -> None:
    judge = Judge(Reply((rewake.Text("[1]"),), "end", Usage(100, 5)))
    names, watch = recalled_by(session, at, lambda: judge)
    assert (names, watch.notices) == (["release-steps"], [])
    assert "release-steps" in judge.heard()[0]
    assert session.state.world.usage.input_tokens == 100


def test_a_judge_may_find_that_none_matters(session: rewake.Session, at: Place) -> None:
    names, _ = recalled_by(session, at, lambda: Judge(text("None of them: []")))
    assert names == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (text("I like notes."), "the model that judges gave no list"),
        (ModelError("Overloaded."), "Overloaded"),
        (RuntimeError("a bug"), "the model that judges failed (RuntimeError: a bug)"),
    ],
)
def test_a_judge_that_fails_leaves_it_to_the_ranking(
    session: rewake.Session, at: Place, answer: Reply | BaseException, why: str
) -> None:
    names, watch = recalled_by(session, at, lambda: Judge(answer))
    assert names == ["release-steps"]
    assert watch.notices == [f"Notes were recalled by their words alone: {why}."]


def test_a_judge_that_cannot_be_opened_leaves_it_to_the_ranking(
    session: rewake.Session, at: Place
) -> None:
    def fails() -> Model:
        raise ModelError("There is no key.")

    names, watch = recalled_by(session, at, fails)
    assert names == ["release-steps"]
    assert "There is no key" in watch.notices[0]


def test_a_judge_that_takes_too_long_leaves_it_to_the_ranking(
    session: rewake.Session, at: Place
) -> None:
    names, watch = recalled_by(
        session, at, lambda: Judge(hold=threading.Event()), time_ms_max=3_000
    )
    assert names == ["release-steps"]
    assert len(watch.notices) == 1


def test_a_recall_without_any_time_holds_nothing_up(session: rewake.Session, at: Place) -> None:
    names, watch = recalled_by(session, at, lambda: Judge(text("[1]")), time_ms_max=0)
    assert names == []
    assert watch.notices == ["Notes were recalled not at all: the time for it was over."]


def test_the_small_model_of_the_settings_judges(workshop: Workshop, tmp_path: Path) -> None:
    script = tmp_path / "judge.jsonl"
    script.write_text('{"text": "[]"}\n')
    settings = Settings(small_model=f"script:{script}", memory=Memory(recall_time_ms_max=20_000))
    worker = workshop.worker(settings=settings)
    worker.run("Make a release")
    assert worker.recalled() == []
    script.write_text('{"text": "[1]"}\n')
    worker.run("Make a release")
    assert worker.recalled() == ["release-steps"]
    (entry,) = [one for one in worker.session.messages if one.message.source == "memory"]
    assert entry.message.details is not None
    assert entry.message.details["by"] == "judge"


def test_an_interrupted_recall_leaves_a_session_that_goes_on(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ended = threading.Event(), threading.Event()

    class Slow(Judge):
        async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
            asked.set()
            return await super().request(request, on_text)

        async def close(self) -> None:
            ended.set()

    worker = workshop.worker(text("Done."))
    (recall,) = [one for one in worker.loop.attendants if isinstance(one, Recall)]
    monkeypatch.setattr(recall, "_judge", lambda: Slow(hold=threading.Event()))
    monkeypatch.setattr(recall, "_time_s_max", 60.0)

    async def interrupted() -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(worker.loop.run, "Make a release")
                await anyio.to_thread.run_sync(asked.wait, 30)
                scope.cancel()

    anyio.run(interrupted)
    assert ended.wait(30)  # nobody waits for the judge any more, so it ends by itself
    assert worker.recalled() == []
    assert worker.model.requests == []
    monkeypatch.setattr(recall, "_judge", None)
    assert worker.run("Make a release").reason == "done"
    assert worker.recalled() == ["release-steps"]


def test_a_run_without_a_prompt_drops_the_recall_that_was_under_way(
    session: rewake.Session, at: Place
) -> None:
    judge = Judge(hold=threading.Event())
    recall = Recall(
        session,
        tuple(memory_directories(at).values()),
        cache=None,
        disk=at.disk,
        now=lambda: NOW,
        on_notice=lambda _text: None,
        judge=lambda: judge,
        time_ms_max=1_000,
    )

    async def begin() -> None:
        await recall.on_prompt("Make a release")
        assert recall._pending is not None
        await recall.on_prompt(None)  # another run: what was under way is dropped
        assert recall._pending is None

    anyio.run(begin)
    assert [one for one in session.messages if one.message.source == "memory"] == []


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("[2, 1]", (1, 0)),
        ("[]", ()),
        ("Thinking of [1] and [2], I say [2].", (1,)),
        ("[7, 0, 2, 2]", (1,)),
        ("[" + "9" * 5_000 + "]", ()),
        ("two", None),
        ("", None),
    ],
)
def test_an_answer_is_numbers_of_the_list_or_none(
    answer: str, chosen: tuple[int, ...] | None
) -> None:
    assert numbers_in(answer, 3) == chosen


def test_a_project_without_notes_costs_no_index(workshop: Workshop, at: Place) -> None:
    for stored in memory_directories(at)["project"].listing().notes:
        stored.path.unlink()
    stored.path.parent.joinpath("MEMORY.md").unlink()
    stored.path.parent.rmdir()
    worker = workshop.worker()
    worker.run("Make a release")
    assert not Path(worker.session.directory.parents[1], "memory.sqlite").exists()
