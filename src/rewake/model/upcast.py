"""Old payload shapes become the current one when they are read; files are never rewritten for it.

The rule kept here: one pure function per step, from version n to n + 1 of one event type. A golden
file of every version ever written must load (tests/golden/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rewake.model.content import JsonObject

Step = Callable[[JsonObject], JsonObject]

STEPS: Final[Mapping[tuple[str, int], Step]] = {}
"""`(event_type, version)` → the step to `version + 1`. Empty while version 1 is the only one."""


def upcast(
    event_type: str,
    version: int,
    current: int,
    payload: JsonObject,
    steps: Mapping[tuple[str, int], Step] = STEPS,
) -> JsonObject:
    """Walk `payload` from `version` up to `current`; a version without a step keeps its shape.

    Raises ValueError when there is no such version or when a step can't use the payload.
    """
    if version < 1 or not isinstance(payload, dict):
        raise ValueError(f"no payload of {event_type} has version {version} and this shape")
    for at in range(version, current):
        step = steps.get((event_type, at))
        if step is not None:
            payload = _take(step, payload, f"{event_type} from version {at}")
    return payload


def _take(step: Step, payload: JsonObject, name: str) -> JsonObject:
    try:
        return step(payload)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"can't upcast {name}: {error!r}") from error
