"""A home and a project with settings files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewake.compose.place import Place
from rewake.settings import Loaded, Settings, load, load_settings
from rewake.settings import Places as SettingPlaces


class Files:
    """The directories that settings come from."""

    def __init__(self, root: Path) -> None:
        self.home, self.project = root / "home", root / "project"
        self.managed_directory = root / "etc"
        self.home.mkdir()
        self.managed_directory.mkdir()
        (self.project / ".rewake").mkdir(parents=True)
        (self.project / ".git").mkdir()  # a local file that isn't tracked there is the user's own

    @property
    def at(self) -> Place:
        """The same for what puts parts together."""
        return Place(self.home, self.project, managed=self.managed_directory)

    def places(self, **more: Any) -> SettingPlaces:
        return SettingPlaces(self.home, self.project, managed=self.managed_directory, **more)

    def managed(self, text: str, suffix: str = ".json") -> Path:
        return self._write(self.managed_directory / f"settings{suffix}", text)

    def user(self, text: str, suffix: str = ".json") -> Path:
        return self._write(self.home / f"settings{suffix}", text)

    def team(self, text: str, suffix: str = ".json") -> Path:
        return self._write(self.project / f".rewake/settings{suffix}", text)

    def local(self, text: str, suffix: str = ".json") -> Path:
        return self._write(self.project / f".rewake/settings.local{suffix}", text)

    def load(self, **overrides: object) -> Settings:
        return load_settings(self.home, self.project, overrides)

    def loaded(self, *, may_leave_out: bool = False, **more: Any) -> Loaded:
        return load(self.places(**more), may_leave_out=may_leave_out)

    @staticmethod
    def _write(path: Path, text: str) -> Path:
        path.write_text(text)
        return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)
