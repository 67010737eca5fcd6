"""What is learnt of a message late, and what a refused fact leaves behind."""

from __future__ import annotations

import pytest
from tests.session.conftest import Open

from rewake.errors import InvalidValueError
from rewake.model.content import Usage
from rewake.model.events import StateTransition


def test_a_message_counts_once_in_the_session_s_total(open_session: Open) -> None:
    with open_session() as session:
        session.user("hello")
        known = session.assistant("hi", usage=Usage(10, 5))
        session.amend(known, usage=Usage(100, 50))
        late = session.assistant("again")
        session.amend(late, usage=Usage(20, 7))
        session.amend(late, usage=Usage(200, 70))
        assert [entry.message.usage for entry in session.messages[1:]] == [
            Usage(10, 5),
            Usage(20, 7),
        ]
        assert session.state.world.usage == Usage(30, 12)
    with open_session(resume=session.session_id) as again:
        assert again.state.world.usage == Usage(30, 12)


def test_a_step_that_could_not_be_recorded_is_not_counted(open_session: Open) -> None:
    with open_session() as session:
        session.user("hello")
        with pytest.raises(InvalidValueError):
            session.record(StateTransition("idle", "requesting", "", {"cost": float("nan")}))
        session.transition("idle", "requesting")
        session.assistant("hi")
        assert session.state.world.step == 1


def test_closing_releases_everything_whatever_fails(open_session: Open) -> None:
    session = open_session()
    session.on_close(fail)
    with pytest.raises(RuntimeError, match="the last thing to be released"):
        session.close()
    session.close()
    open_session(resume=session.session_id).close()


def fail() -> None:
    raise RuntimeError("the last thing to be released")
