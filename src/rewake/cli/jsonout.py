"""JSON on stdout: one line an object, ASCII, valid Unicode, whatever went into it."""

from __future__ import annotations

import json
import sys

import msgspec

from rewake.cli.terminal import say
from rewake.errors import RewakeError
from rewake.model.content import JsonObject
from rewake.model.events import Event, Spilled, Unknown
from rewake.state.text import valid_json


def to_json(value: object) -> str:
    """One line of ASCII JSON. A line end of any kind inside a string is escaped."""
    plain = msgspec.to_builtins(value, enc_hook=repr)
    return json.dumps(valid_json(plain), separators=(", ", ": "))


def print_json(value: object) -> None:
    """Print one line to stdout."""
    say(to_json(value), stream=sys.stdout)


def error_object(error: RewakeError) -> JsonObject:
    """An error as it stands in JSON output."""
    return {
        "message": error.message,
        "remedy": error.remedy,
        "exit_code": int(error.exit_code),
        "type": type(error).__name__,
    }


def event_object(event: Event) -> JsonObject:
    """An event with the keys that its line in the transcript has, and `type` "event".

    Those of a sub-agent have its `agent_id`.
    """
    payload = event.payload
    if isinstance(payload, Unknown | Spilled):
        content: object = {}
    else:
        content = msgspec.to_builtins(payload, enc_hook=repr)
    return {
        "type": "event",
        "event_id": event.event_id,
        "parent_id": event.parent_id,
        "seq": event.seq,
        "timestamp": event.timestamp,
        "session_id": event.session_id,
        "run_id": event.run_id,
        **({"agent_id": event.agent_id} if event.agent_id is not None else {}),
        "step": event.step,
        "event_type": event.event_type,
        "schema_version": event.schema_version,
        "payload": content,
    }
