"""A session of its own for every test of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import rewake

Open = Callable[..., rewake.Session]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def open_session(home: Path, project: Path) -> Open:
    return partial(rewake.open_session, project, home=home, durability="process")


@pytest.fixture
def session(open_session: Open) -> Iterator[rewake.Session]:
    with open_session() as opened:
        yield opened
