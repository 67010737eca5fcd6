"""The bytes of a line, formatted by hand because this runs for every event.

The rule kept here: keys stand in the order of docs/format.md, and `event_id` first, so that readers
find an id by position. What never changes within a run is encoded once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Final

from rewake.model.codec import seal_line
from rewake.model.events import SCHEMA_VERSIONS, Event

_NS_PER_S: Final = 1_000_000_000
_NS_PER_US: Final = 1_000


class LineFormat:
    """Makes the lines of one run of one session (or of one of its sidechains)."""

    def __init__(self, session_id: str, run_id: str, agent_id: str | None) -> None:
        agent = "" if agent_id is None else f',"agent_id":{json.dumps(agent_id)}'
        self._constant = (
            f',"session_id":{json.dumps(session_id)},"run_id":{json.dumps(run_id)}{agent},"step":'
        )
        self._previous_id: str | None = None
        self._types = {
            name: f',"event_type":"{name}","schema_version":{version},"payload":'
            for name, version in SCHEMA_VERSIONS.items()
        }

    def line(self, event: Event, payload: bytes) -> bytes:
        """The event's line with its newline; `payload` is what stands for its payload."""
        parent_id = event.parent_id
        # The usual parent is the id formatted just before: our own, so it needs no escapes.
        own = parent_id is not None and parent_id is self._previous_id
        parent = f'"{parent_id}"' if own else json.dumps(parent_id)
        self._previous_id = event.event_id
        head = (
            f'{{"event_id":"{event.event_id}","parent_id":{parent}'
            f',"seq":{event.seq},"timestamp":"{event.timestamp}"{self._constant}{event.step}'
            f"{self._types[event.event_type]}"
        )
        return seal_line(head.encode("ascii") + payload)


class Timestamps:
    """RFC 3339 UTC with microseconds from Unix nanoseconds; the seconds are formatted once each."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._second = -1
        self._prefix = ""

    def __call__(self) -> str:
        second, rest_ns = divmod(self._clock_ns(), _NS_PER_S)
        if second != self._second:
            self._prefix = _format_second(second)
            self._second = second
        return f"{self._prefix}{rest_ns // _NS_PER_US:06d}Z"


def _format_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
