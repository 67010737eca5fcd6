"""The JSON Schema of a settings file, for editors: made from the types and the table of keys.

The rule kept here: nothing is written twice. Types come from `schema.py`, words from `keys.py`; keys
that aren't known stay allowed, because a newer version may know them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rewake.settings.keys import FILE_KEYS, KEYS, MERGE_WORDS, SCHEMA_KEY, VERSION_KEY, Key
from rewake.settings.migrations import CURRENT
from rewake.settings.schema import Settings

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema as JSON values."""
    made = msgspec.json.schema(Settings)
    definitions: dict[str, Any] = made["$defs"]
    for key in KEYS.values():
        _describe(definitions, key)
    for definition in definitions.values():
        for member in definition.get("properties", {}).values():
            member.pop("default", None)  # "nobody has set it" is no value to write
    settings = definitions.pop("Settings")
    settings["properties"] = {
        SCHEMA_KEY: {"type": "string", "description": FILE_KEYS[SCHEMA_KEY]},
        VERSION_KEY: {
            "type": "integer",
            "minimum": 0,
            "maximum": CURRENT,
            "description": FILE_KEYS[VERSION_KEY],
        },
        **settings["properties"],
    }
    return {
        "$schema": _DRAFT,
        **settings,
        "title": "Rewake settings",
        "description": "What can be set for the coding agent Rewake.",
        "allowComments": True,
        "allowTrailingCommas": True,
        "$defs": definitions,
    }


def _describe(definitions: dict[str, Any], key: Key) -> None:
    holder = definitions["Settings"]
    for name in key.path[:-1]:
        member = holder["properties"][name]
        reference = member.get("$ref") or member["anyOf"][0]["$ref"]
        holder = definitions[reference.rpartition("/")[2]]
    member = holder["properties"][key.path[-1]]
    trust = " Counts from a project's file only once you trust it." if key.needs_trust else ""
    how = "" if key.merge == "nearest" else f" ({MERGE_WORDS[key.merge]})"
    member["description"] = f"{key.meaning}{how} Default: {key.default}.{trust}".replace("`", "")
    for kind in member.get("anyOf", [member]):
        if kind.get("type") in {"integer", "number"}:
            kind["exclusiveMinimum" if key.above_zero else "minimum"] = 0
