"""A home with sessions in it, made by the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import rewake
from rewake.catalogue.listing import Listed, list_sessions
from rewake.catalogue.search import Filters, SearchHit, search_sessions
from rewake.log.disk import Disk
from rewake.log.layout import Layout, SessionPaths

Make = Callable[..., SessionPaths]
List = Callable[..., Listed]
Search = Callable[..., list[SearchHit]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def make(home: Path, project: Path) -> Make:
    """A session of this id in which this was said: prompt, answer, prompt, answer…"""

    def make_session(
        session_id: str, said: Sequence[str] = ("Fix it",), root: Path | None = None, **meta: object
    ) -> SessionPaths:
        where = root or project
        where.mkdir(exist_ok=True)
        with rewake.open_session(
            where, home=home, durability="process", session_id=session_id, trace=False
        ) as session:
            say(session, said)
            if meta:
                session.metadata(**meta)
            session.terminal("done")
        return Layout(home).find(session_id)

    return make_session


def say(session: rewake.Session, said: Sequence[str]) -> None:
    for number, text in enumerate(said):
        if number % 2 == 0:
            session.user(text)
        else:
            session.assistant(text, usage=rewake.Usage(100, 10, cost_usd=0.5))


def go_on(home: Path, project: Path, session_id: str, said: Sequence[str]) -> None:
    with rewake.open_session(
        project, home=home, durability="process", resume=session_id, trace=False
    ) as session:
        say(session, said)
        session.terminal("done")


@pytest.fixture
def listed(home: Path) -> List:
    """The list; a directory that can't be read fails the test unless it looks for that."""

    def call(root: Path | None = None, **options: object) -> Listed:
        options.setdefault("on_problem", _fail)
        return list_sessions(home, Disk(), root, **options)  # type: ignore[arg-type]  # tests pass what they mean

    return call


@pytest.fixture
def search(home: Path) -> Search:
    def call(query: str, root: Path | None = None, limit: int = 20, **filters: object) -> object:
        chosen = Filters(**filters)  # type: ignore[arg-type]  # tests pass what they mean
        found = search_sessions(home, Disk(), query, root, filters=chosen, limit=limit)
        assert found.problems == ()
        return list(found.hits)

    return call  # type: ignore[return-value]  # the list of hits


def _fail(path: Path, error: OSError) -> None:
    raise AssertionError(f"{path}: {error}")
