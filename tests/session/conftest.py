"""A home and a project of their own for every test of sessions."""

from __future__ import annotations

from collections.abc import Callable
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
    """`rewake.open_session` at the test's own place; what it records survives SIGKILL."""
    return partial(rewake.open_session, project, home=home, durability="process")
