"""Two machines: each a home and a project of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.archive.machines import Machine


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    return Machine(tmp_path.resolve() / "here")


@pytest.fixture
def there(tmp_path: Path) -> Machine:
    return Machine(tmp_path.resolve() / "there")
