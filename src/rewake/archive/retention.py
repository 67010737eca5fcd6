"""Which sessions a limit of age or size would send to the trash. Nothing here moves anything.

The rule kept here: the oldest go first, a session at work never goes, and the reason is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from rewake.archive.trash import tree_size
from rewake.errors import UsageError
from rewake.log.layout import SessionPaths
from rewake.resume.listing import SessionInfo

DAY_S: Final = 86_400
_AGES: Final = {"h": 3600, "d": DAY_S, "w": 7 * DAY_S, "m": 30 * DAY_S, "y": 365 * DAY_S}
_SIZES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_age: Final = re.compile(r"(\d{1,6})([hdwmy])").fullmatch
_size: Final = re.compile(r"(\d{1,12}(?:\.\d{1,3})?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE).fullmatch


class Aged(msgspec.Struct, frozen=True):
    """A session and what it weighs: its own files, without the blobs that it may share."""

    paths: SessionPaths
    changed_at: float
    size: int
    title: str
    is_running: bool


def weigh(sessions: Iterable[tuple[SessionPaths, float, SessionInfo]]) -> list[Aged]:
    """Sessions with their time of last change (Unix seconds) and size, the oldest first."""
    found = [
        Aged(paths, changed_at, tree_size(paths.directory), info.title, info.state == "running")
        for paths, changed_at, info in sessions
    ]
    found.sort(key=lambda item: (item.changed_at, item.paths.session_id))
    return found


def too_old(sessions: Iterable[Aged], age_s: float, now: float) -> list[Aged]:
    """Those that haven't changed for longer than `age_s` seconds."""
    return [item for item in sessions if not item.is_running and now - item.changed_at > age_s]


def over_quota(sessions: Iterable[Aged], total: int, quota: int) -> list[Aged]:
    """The oldest ones without which a project of `total` bytes has no more than `quota`."""
    found: list[Aged] = []
    for item in sessions:
        if total <= quota:
            break
        if not item.is_running:
            found.append(item)
            total -= item.size
    return found


def parse_age(text: str) -> float:
    """Seconds of an age such as 36h, 30d, 8w, 6m (months of 30 days) or 1y. Raises UsageError."""
    found = _age(text.strip().lower())
    if found is None:
        raise UsageError(f"{text!r} is no age.", remedy="Write it as 36h, 30d, 8w, 6m or 1y.")
    return float(found[1]) * _AGES[found[2]]


def parse_size(text: str) -> int:
    """Bytes of a size such as 500MB or 5GB (powers of ten). Raises UsageError."""
    found = _size(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no size.", remedy="Write it as 500MB, 5GB or 1.5TB.")
    return int(float(found[1]) * _SIZES[found[2].lower()])
