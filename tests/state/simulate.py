"""The simulated session of the public view suite, and the same as another reader sees it."""

from __future__ import annotations

import msgspec

from rewake.model.events import Checkpoint, Event, Rewind
from rewake.testing.view_suite_simulation import NoBlobs, Simulation, Source

__all__ = ["NoBlobs", "Simulation", "Source", "checkpoints_removed"]


def checkpoints_removed(events: list[Event]) -> list[Event]:
    """The same events as seen by a reader of another fold version: no checkpoint can be used."""
    return [
        msgspec.structs.replace(event, payload=_other_version(event.payload)) for event in events
    ]


def _other_version(payload: object) -> object:
    if isinstance(payload, Checkpoint):
        return msgspec.structs.replace(payload, fold_version=0)
    if isinstance(payload, Rewind):
        return msgspec.structs.replace(
            payload, checkpoint=msgspec.structs.replace(payload.checkpoint, fold_version=0)
        )
    return payload
