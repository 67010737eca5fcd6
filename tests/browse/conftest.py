"""A home with a project as a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.browse.seed import Seeded


@pytest.fixture
def seeded(tmp_path: Path) -> Seeded:
    return Seeded(tmp_path)
