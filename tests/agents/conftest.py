"""A home and a project for every test of sub-agents."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.crew import Crew


@pytest.fixture
def crew(tmp_path: Path) -> Crew:
    return Crew(tmp_path / "home", tmp_path / "project")
