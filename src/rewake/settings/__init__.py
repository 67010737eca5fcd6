"""Floor 3: what the user has set, from files that people write by hand."""

from __future__ import annotations

from rewake.settings.load import load_settings, settings_files
from rewake.settings.schema import Permissions, Settings

__all__ = ["Permissions", "Settings", "load_settings", "settings_files"]
