"""The agent keeps, changes and forgets notes, on record and able to be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent.doubles import text
from tests.memory.conftest import Worker, Workshop, call, keep
from tests.memory.test_directory import FullDisk

import rewake
from rewake.agent.permissions import Answer, Question
from rewake.agent.ports import Reply
from rewake.agent.tools.memory import MemoryTool
from rewake.compose.memory import memory_directories
from rewake.compose.place import Place
from rewake.memory.directory import MemoryDirectory, Scope
from rewake.settings.schema import Permissions, Settings

KEY = "sk-ant-api03-" + "a1B2" * 10


@pytest.fixture
def directory(at: Place) -> MemoryDirectory:
    at.layout.create_project(at.root, at.disk, sync=False)
    return memory_directories(at)["project"]


def remember(**changed: object) -> Reply:
    given: dict[str, object] = {
        "action": "write",
        "scope": "project",
        "name": "tabs",
        "description": "Indentation of this project",
        "content": "Tabs, because of the make files.",
        "type": "decision",
        "reason": "The user decided it.",
    }
    return call("Memory", **{**given, **changed})


def last_result(worker: Worker) -> tuple[str, bool]:
    _, said, is_error = worker.results()[-1]
    return said, is_error


def test_a_note_is_written_with_its_source_and_stands_in_the_index(
    workshop: Workshop, directory: MemoryDirectory
) -> None:
    worker = workshop.worker(remember(), text("Done."))
    worker.run("Remember that we use tabs")
    assert last_result(worker) == ("Remembered the project note tabs.", False)
    note = directory.read("tabs").note
    assert (note.description, note.type) == ("Indentation of this project", "decision")
    assert note.sources[0].startswith(worker.session.session_id)
    assert "- [tabs](tabs.md): Indentation of this project" in directory.index()


def test_an_update_needs_the_note_to_have_been_read(
    workshop: Workshop, directory: MemoryDirectory, at: Place
) -> None:
    keep(at, "tabs", "Indentation", "Spaces.")
    update = remember(action="update", content="Tabs.")
    worker = workshop.worker(update, call("MemoryRead", name="tabs"), update, text("Done."))
    worker.run("Change it")
    (first, _, last) = worker.results()
    assert "Read the note tabs with MemoryRead first" in first[1]
    assert last[1] == "Changed the project note tabs."
    assert directory.read("tabs").note.body.strip() == "Tabs."


def test_a_note_that_somebody_else_changed_must_be_read_again(
    workshop: Workshop, directory: MemoryDirectory, at: Place
) -> None:
    keep(at, "tabs", "Indentation", "Spaces.")
    worker = workshop.worker(
        call("MemoryRead", name="tabs"), text("Read."), remember(action="update")
    )
    worker.run("Read it")
    path = directory.path / "tabs.md"
    path.write_text("Nobody knows.")
    worker.run("Change it")
    said, is_error = last_result(worker)
    assert is_error
    assert "has changed since you read it" in said
    assert path.read_text() == "Nobody knows."


def test_a_note_is_forgotten_with_its_line(
    workshop: Workshop, directory: MemoryDirectory, at: Place
) -> None:
    keep(at, "tabs", "Indentation", "Spaces.")
    worker = workshop.worker(
        call("MemoryRead", name="tabs"),
        call("Memory", action="forget", scope="project", name="tabs", reason="It is wrong."),
        text("Done."),
    )
    worker.run("Forget it")
    assert directory.find("tabs") is None
    assert "tabs" not in directory.index()


def test_a_secret_is_not_written(workshop: Workshop, directory: MemoryDirectory) -> None:
    worker = workshop.worker(remember(content=f"The key is {KEY}."), text("Done."))
    worker.run("Remember the key")
    said, is_error = last_result(worker)
    assert is_error
    assert "looks like a secret (Anthropic Key)" in said
    assert directory.find("tabs") is None


def test_a_change_is_on_record_with_its_reason_and_its_files(
    workshop: Workshop, directory: MemoryDirectory, project: Path, home: Path
) -> None:
    worker = workshop.worker(remember(), text("Done."))
    worker.run("Remember")
    diffs = rewake.file_changes(worker.session.session_id, project=project, home=home)
    names = [Path(diff.path).name for diff in diffs]
    assert sorted(names) == ["MEMORY.md", "memory", "tabs.md"]
    assert "The user decided it." in worker.session.memory


def test_a_rewind_of_files_takes_the_note_and_its_line_back_and_an_undo_brings_them(
    workshop: Workshop, directory: MemoryDirectory
) -> None:
    worker = workshop.worker(text("Hi."), remember(), text("Done."))
    worker.run("Hello")
    start = worker.session.messages[-1].message_id
    worker.run("Remember")
    plan = rewake.plan_rewind(worker.session, start)
    assert sorted(Path(step.shown).name for step in plan.changes) == [
        "MEMORY.md",
        "memory",
        "tabs.md",
    ]
    rewake.rewind_files(worker.session, start)
    assert directory.find("tabs") is None
    assert "tabs" not in directory.index()
    rewake.undo_files_rewind(worker.session)
    assert directory.read("tabs").note.type == "decision"
    assert "tabs" in directory.index()


def test_the_default_mode_asks_before_a_note_is_kept(
    workshop: Workshop, directory: MemoryDirectory
) -> None:
    worker = workshop.worker(remember(), text("Done."), mode="default")
    worker.run("Remember")
    said, is_error = last_result(worker)
    assert is_error
    assert 'the rule "Memory"' in said
    assert directory.find("tabs") is None


@pytest.mark.parametrize(("scope", "is_kept"), [("project", True), ("user", False)])
def test_leave_to_edit_the_project_is_none_to_keep_a_note_for_all_projects(
    workshop: Workshop,
    at: Place,
    scope: Scope,
    is_kept: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    """What a clone talks the agent into would be recalled everywhere."""
    worker = workshop.worker(remember(scope=scope), text("Done."), mode="acceptEdits")
    worker.run("Remember")
    found = memory_directories(at)[scope].find("tabs")
    assert (found is not None) == is_kept


def test_notes_are_listed_and_found(workshop: Workshop, at: Place) -> None:
    keep(at, "tabs", "Indentation of this project", "Tabs.")
    keep(at, "release", "How a release is made", "Tag it.")
    worker = workshop.worker(
        call("MemoryRead"), call("MemoryRead", query="releasing"), text("Done.")
    )
    worker.run("What do you know?")
    listed, found = (said for _, said, _ in worker.results())
    assert "project/tabs: Indentation of this project" in listed
    assert "project/release" in found
    assert "project/tabs" not in found


def test_a_note_that_says_the_same_is_proposed_to_be_joined(workshop: Workshop, at: Place) -> None:
    keep(at, "indent", "Indentation of this project", "Tabs, because of the make files.")
    worker = workshop.worker(remember(), text("Done."))
    worker.run("Remember")
    assert "about the same as indent" in last_result(worker)[0]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"name": "../../x"}, "can't be the name of a note"),
        ({"name": "MEMORY"}, "can't be the name of a note"),
        ({"content": None}, "needs a description and a content"),
        ({"content": "x" * 20_000}, "is all a note takes"),
        ({"reason": " "}, "Give a reason"),
        ({"action": "update"}, "There is no project note"),
        ({"scope": "team"}, "can't be called so"),
    ],
)
def test_what_can_not_be_a_note_is_refused_with_a_reason(
    workshop: Workshop, directory: MemoryDirectory, changed: dict[str, object], reason: str
) -> None:
    worker = workshop.worker(remember(**changed), text("Done."))
    worker.run("Remember")
    said, is_error = last_result(worker)
    assert is_error
    assert reason in said
    assert directory.listing().notes == ()


def test_a_rule_allows_notes_of_the_project_only(
    workshop: Workshop, directory: MemoryDirectory
) -> None:
    worker = workshop.worker(
        remember(),
        remember(scope="user", name="vim"),
        text("Done."),
        mode="default",
        settings=Settings(permissions=Permissions(allow=("Memory(project/**)",))),
    )
    worker.run("Remember")
    (_, first, first_failed), (_, second, second_failed) = worker.results()
    assert (first, first_failed) == ("Remembered the project note tabs.", False)
    assert second_failed
    assert "needs the user's permission" in second


def test_always_for_a_note_allows_no_edits(workshop: Workshop, directory: MemoryDirectory) -> None:
    worker = workshop.worker(remember(), text("Done."), mode="default")
    asked: list[Question] = []

    def ask(question: Question) -> Answer:
        asked.append(question)
        return "always"

    worker.loop.executor.permissions._ask = ask
    worker.run("Remember")
    assert [question.rule for question in asked] == ["Memory"]


def test_a_full_disk_under_the_notes_does_not_end_the_run(
    workshop: Workshop, directory: MemoryDirectory
) -> None:
    worker = workshop.worker(remember(), text("Done."))
    tool = worker.loop.executor.tools["Memory"]
    assert isinstance(tool, MemoryTool)
    tool._store.directories["project"]._disk = FullDisk(0)
    result = worker.run("Remember")
    assert result.reason == "done"
    said, is_error = last_result(worker)
    assert is_error
    assert "NOT applied" in said
    assert directory.find("tabs") is None


def test_a_rewind_leaves_the_index_that_another_session_has_changed_since(
    workshop: Workshop, directory: MemoryDirectory
) -> None:
    first = workshop.worker(text("Hi."), remember(), text("Done."))
    first.run("Hello")
    start = first.session.messages[-1].message_id
    first.run("Remember")
    other = workshop.worker(remember(name="other", description="Another"), text("Done."))
    other.run("Remember, too")
    plan = rewake.plan_rewind(first.session, start)
    assert [Path(step.shown).name for step in plan.changes] == ["tabs.md"]
    assert "MEMORY.md" in [Path(step.shown).name for step in plan.conflicts]
    rewake.rewind_files(first.session, start)
    assert [stored.name for stored in directory.listing().notes] == ["other"]
    assert "(other.md)" in directory.index()
