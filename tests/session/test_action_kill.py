"""SIGKILL inside an action, in a real process: the verdict says what really happened."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.session.conftest import Open
from tests.session.helpers import die_at, said, statuses_of, transcript_of

import rewake

EDIT = """
point, durability = sys.argv[3:5]
target = project / "a.txt"
session = rewake.open_session(project, home=home, session_id="s", durability=durability)
session.user("go")
call = rewake.ToolCall("call_1", "edit", {"to": "new"})
session.assistant([call], usage=rewake.Usage(1, 1))
action = session.action(call, intent=rewake.FileChange(target, "old", "new"))
if point == "asked":
    session.commit()
    wait(point)
action.request()
if point == "requested":
    session.commit()
    wait(point)
with action:
    if point == "started":
        wait(point)
    if point == "half":
        target.write_text("ne")
        wait(point)
    target.write_text("new")
    if point == "effect":
        wait(point)
    action.complete("done")
    wait(point)
"""
VERDICTS = {
    "asked": None,
    "requested": "not_applied",
    "started": "not_applied",
    "half": "partial",
    "effect": "applied",
    "completed": None,
}


@pytest.mark.parametrize("durability", ["process", "disk"])
@pytest.mark.parametrize("point", VERDICTS)
def test_a_killed_edit_is_settled_by_what_the_file_says(
    open_session: Open, home: Path, project: Path, point: str, durability: str
) -> None:
    (project / "a.txt").write_text("old")
    assert die_at(EDIT, home, project, point, durability) == point
    content = (project / "a.txt").read_text()
    with open_session(resume="s", durability=durability) as session:
        found = session.resumed
        assert found is not None
        settled = {item.resolution.verdict for item in (*found.pending, *found.uncertain)}
        verdict = VERDICTS[point]
        assert settled == ({verdict} if verdict else set())
        assert [item for item in found.pending if point != "requested"] == []
        assert (project / "a.txt").read_text() == content  # a resume changes no file
        messages = session.view()
        assert [message.role for message in messages] == ["user", "assistant", "tool"]
        assert said(session)[0] == "go"
    with open_session(resume="s") as again:
        assert again.resumed is not None
        assert (again.resumed.pending, again.resumed.uncertain) == ((), ())
        assert again.view() == messages


PARALLEL = """
session = rewake.open_session(project, home=home, session_id="s")
session.user("go")
calls = [rewake.ToolCall("call_1", "read", {"n": n}) for n in range(3)]
session.assistant(calls)
actions = [session.action(call, intent=rewake.ReadOnlyIntent()) for call in calls]
for action in actions:
    action.request()
for action in actions:
    action.start()
actions[2].complete("third")
actions[0].complete("first")
session.commit()
wait("two of three")
"""


def test_killed_after_two_of_three_results_both_stay_and_the_third_may_be_repeated(
    open_session: Open, home: Path, project: Path
) -> None:
    assert die_at(PARALLEL, home, project) == "two of three"
    with open_session(resume="s") as session:
        (entry,) = [entry for entry in session.messages if entry.answers]
        told = [
            "".join(block.text for block in answer.result.content if isinstance(block, rewake.Text))
            for answer in entry.answers
            if answer is not None
        ]
        assert told[0] == "first"
        assert "call it again if you still need it" in told[1]
        assert told[2] == "third"


INTERRUPT = """
import os, signal
session = rewake.open_session(project, home=home, session_id="s")
target = project / "a.txt"
with session:
    with session.action("edit", "x", rewake.FileChange(target, None, "new")):
        target.write_text("new")
        os.kill(os.getpid(), signal.SIGINT)
        wait("not reached")
"""


def test_ctrl_c_in_the_body_leaves_it_started_and_the_session_whole(
    open_session: Open, home: Path, project: Path
) -> None:
    assert die_at(INTERRUPT, home, project) == ""  # it ended by itself
    transcript = next(home.rglob("transcript.jsonl"))
    assert statuses_of(transcript) == ["requested", "started"]
    with open_session(resume="s") as session:
        assert session.resumed is not None
        (item,) = session.resumed.uncertain
        assert item.resolution.verdict == "applied"


CRASH_LOOP = """
session = rewake.open_session(project, home=home, resume="s")
(project / "a.txt").write_text("new")
wait(str(len(session.resumed.uncertain)))
"""


def test_killed_in_every_resume_the_call_is_settled_once(
    open_session: Open, home: Path, project: Path
) -> None:
    (project / "a.txt").write_text("old")
    die_at(EDIT, home, project, "started", "disk")
    assert [die_at(CRASH_LOOP, home, project) for _ in range(3)] == ["1", "0", "0"]
    with open_session(resume="s") as session:
        assert statuses_of(transcript_of(session)) == ["requested", "started", "resolved"]
        assert "NOT applied" in said(session)[-1]
