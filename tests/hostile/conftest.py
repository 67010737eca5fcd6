"""A session whose transcript is whatever a test puts there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import rewake

Plant = Callable[[bytes], Path]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def directory(home: Path, project: Path) -> Path:
    """The directory of the session `s`, which has its first lines and one prompt."""
    with rewake.open_session(project, home=home, session_id="s", trace=False) as session:
        session.user("hello")
    (found,) = home.glob("projects/*/sessions/s")
    return found


@pytest.fixture
def plant(directory: Path) -> Plant:
    """Replaces the transcript; returns its path."""

    def write(data: bytes) -> Path:
        path = directory / "transcript.jsonl"
        path.write_bytes(data)
        return path

    return write
