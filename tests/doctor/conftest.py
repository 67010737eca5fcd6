"""Sessions made of bytes, and short names for what is found in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.doctor.sessions import SESSION_ID, Patient

from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    return Patient(SessionPaths(tmp_path / "home" / "projects" / "p", SESSION_ID), Disk())


@pytest.fixture
def make_patient(tmp_path: Path) -> Callable[[str], Patient]:
    return lambda name: Patient(SessionPaths(tmp_path / "home" / "projects" / "p", name), Disk())
