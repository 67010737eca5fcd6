"""The version, in one place that costs nothing to import."""

from typing import Final

VERSION: Final = "0.1.0"
