"""A session and a shell for tests of what users add to the agent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.cli.shell import Shell

import rewake


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path.resolve())
    yield opened
    opened.close()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[rewake.Session]:
    project = tmp_path / "project"
    project.mkdir()
    opening = partial(rewake.open_session, project, home=tmp_path / "home", durability="process")
    with opening() as opened:
        yield opened
