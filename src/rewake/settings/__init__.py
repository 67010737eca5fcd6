"""Floor 3: what the user has set, from files that people write by hand."""

from __future__ import annotations

from rewake.settings.load import Loaded, Places, load, load_settings
from rewake.settings.schema import Permissions, Settings

__all__ = ["Loaded", "Permissions", "Places", "Settings", "load", "load_settings"]
