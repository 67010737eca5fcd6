"""Changes of names and shapes between versions of the settings, as data.

The rules kept here:

- A file without `settings_version` is of version 0: it was written before there was a number, or
  brings along the names that other coding agents use. No key of Rewake's own was ever renamed, so the
  step to version 1 takes in those names.
- A step changes values in memory and says what it did. What it doesn't know stays as it is. A value
  under the new name already is never overwritten.
- Applied to its own result, a step does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rewake.settings.keys import VERSION_KEY
from rewake.settings.spots import Path, Spot, dotted

Data = dict[str, Any]
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """A key under another name, in the same place or elsewhere."""

    old: Names
    new: Names


@dataclass(frozen=True, slots=True)
class Converted:
    """A value in another shape. `convert` returns the value itself where it has nothing to do."""

    key: Names
    convert: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Split:
    """One key that became several. `divide` returns None for a value that it can't divide."""

    old: Names
    divide: Callable[[Any], Mapping[Names, Any] | None]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A key that nothing reads any more; `why` is told to the user."""

    key: Names
    why: str


Change = Moved | Converted | Split | Dropped


@dataclass(frozen=True, slots=True)
class Step:
    """What leads from the version before to `version`."""

    version: int
    changes: tuple[Change, ...]


def _mode(value: Any) -> Any:
    return "bypass" if value == "bypassPermissions" else value


STEPS: Final = (
    Step(
        1,
        (
            Moved(("permissions", "defaultMode"), ("permissions", "mode")),
            Moved(
                ("permissions", "additionalDirectories"), ("permissions", "additional_directories")
            ),
            Converted(("permissions", "mode"), _mode),
            Moved(("mcpServers",), ("mcp_servers",)),
            Moved(("maxSteps",), ("max_steps",)),
            Moved(("maxTurns",), ("max_steps",)),
            Moved(("maxCostUsd",), ("max_cost_usd",)),
            Moved(("smallModel",), ("small_model",)),
            Moved(("cleanupPeriodDays",), ("retention", "age_days_max")),
        ),
    ),
)
CURRENT: Final = STEPS[-1].version


def version_of(data: Mapping[str, Any]) -> int:
    """The version that a file says it is of; 0 where it says none."""
    said = data.get(VERSION_KEY)
    return said if isinstance(said, int) and not isinstance(said, bool) else 0


def migrate(
    data: Data, spots: dict[Path, Spot] | None = None, steps: Sequence[Step] = STEPS
) -> tuple[str, ...]:
    """Bring `data` to the newest version in place; one sentence per change, none if it is there.

    `settings_version` is set only where something changed. `spots` follow what is moved.
    """
    version = version_of(data)
    places = {} if spots is None else spots
    notes: list[str] = []
    for step in steps:
        if step.version > version:
            for change in step.changes:
                notes.extend(_apply(change, data, places))
    if notes:
        data[VERSION_KEY] = steps[-1].version
    return tuple(notes)


def _apply(change: Change, data: Data, spots: dict[Path, Spot]) -> list[str]:
    match change:
        case Moved():
            return _move(change, data, spots)
        case Converted():
            return _convert(change, data)
        case Split():
            return _split(change, data, spots)
        case Dropped():
            holder = _holder(data, change.key)
            if holder is None:
                return []
            del holder[change.key[-1]]
            return [f"{dotted(change.key)} was dropped: {change.why}"]


def _move(change: Moved, data: Data, spots: dict[Path, Spot]) -> list[str]:
    holder = _holder(data, change.old)
    if holder is None or not _is_free(data, change.new):
        return []
    _put(data, change.new, holder.pop(change.old[-1]))
    _move_spots(spots, change.old, change.new)
    return [f"{dotted(change.old)} is {dotted(change.new)} now"]


def _convert(change: Converted, data: Data) -> list[str]:
    holder = _holder(data, change.key)
    if holder is None:
        return []
    before = holder[change.key[-1]]
    after = change.convert(before)
    if after == before:
        return []
    holder[change.key[-1]] = after
    return [f"{dotted(change.key)} is written in another way now"]


def _split(change: Split, data: Data, spots: dict[Path, Spot]) -> list[str]:
    holder = _holder(data, change.old)
    parts = change.divide(holder[change.old[-1]]) if holder is not None else None
    if holder is None or parts is None:
        return []
    if not all(_is_free(data, names) for names in parts):
        return []
    del holder[change.old[-1]]
    for names, value in parts.items():
        _put(data, names, value)
    spot = spots.get(change.old)
    if spot is not None:
        spots.update(dict.fromkeys(parts, spot))
    return [f"{dotted(change.old)} became {', '.join(dotted(names) for names in parts)}"]


def _holder(data: Data, names: Names) -> Data | None:
    """The object that has the last name in it, None where that isn't there."""
    holder: Any = data
    for name in names[:-1]:
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder if isinstance(holder, dict) and names[-1] in holder else None


def _is_free(data: Data, names: Names) -> bool:
    """Whether a value can be put there without taking another's place."""
    holder: Any = data
    for name in names[:-1]:
        holder = holder.get(name, {})
        if not isinstance(holder, dict):
            return False
    return names[-1] not in holder


def _put(data: Data, names: Names, value: Any) -> None:
    holder = data
    for name in names[:-1]:
        holder = holder.setdefault(name, {})
    holder[names[-1]] = value


def _move_spots(spots: dict[Path, Spot], old: Names, new: Names) -> None:
    for path in [path for path in spots if path[: len(old)] == old]:
        spots[(*new, *path[len(old) :])] = spots[path]
