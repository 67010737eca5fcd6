"""Every key as data: how sources combine, whether a project must be trusted with it, what it means.

The rule kept here: loading, `rewake config`, the schema for editors and the guide all read this table,
so none of them can tell anything else about a key. Types and units are in `schema.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Merge = Literal["nearest", "together", "by_name"]
"""How several sources combine: the nearest one counts; lists add up; mappings add up by key."""

MERGE_WORDS: Final[dict[Merge, str]] = {
    "nearest": "the nearest source counts",
    "together": "the lists of all sources add up",
    "by_name": "all sources add up, the nearest counts for each name",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key, by its dotted `name`; `path` is the way to its value.

    `needs_trust`: in a file that comes with a project, it counts only once the user trusts that
    project; values in `narrows` only forbid, or spare something, and count always. `above_zero`: a number
    that must be more than 0 (any other may be 0). `default` is for people.
    """

    name: str
    meaning: str
    default: str
    merge: Merge = "nearest"
    needs_trust: bool = False
    above_zero: bool = False
    narrows: tuple[str | bool, ...] = ()
    path: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", tuple(self.name.split(".")))


_KEYS: Final = (
    Key(
        "model",
        "The model, as `--model` says it.",
        "a key in the environment, a local server, else `local:`",
        needs_trust=True,
    ),
    Key(
        "small_model",
        "The model that judges and titles.",
        "the session's model",
        needs_trust=True,
    ),
    Key(
        "permissions.allow",
        "Rules for what may be done without asking: `Tool` or `Tool(what)`.",
        "none",
        "together",
        needs_trust=True,
    ),
    Key("permissions.deny", "Rules for what is never done.", "none", "together"),
    Key(
        "permissions.mode",
        "As `--permission-mode`; never `bypass` in a file that comes with a project, where without"
        " trust only `plan` counts.",
        "`default`",
        needs_trust=True,
        narrows=("plan",),
    ),
    Key(
        "permissions.additional_directories",
        "Where tools may work besides the project.",
        "none",
        "together",
        needs_trust=True,
    ),
    Key(
        "max_steps",
        "How many model calls a run may make.",
        "no limit",
        needs_trust=True,
        above_zero=True,
    ),
    Key(
        "max_cost_usd",
        "How many US dollars a run may cost.",
        "no limit",
        needs_trust=True,
        above_zero=True,
    ),
    Key(
        "compact_at_tokens",
        "The size of a request from which older messages are summed up.",
        "from the model's context",
        needs_trust=True,
        above_zero=True,
    ),
    Key(
        "verify",
        "A command that must succeed before a run counts as done.",
        "none",
        needs_trust=True,
    ),
    Key(
        "verify_max",
        "How often the agent is sent back at most.",
        "3",
        needs_trust=True,
        above_zero=True,
    ),
    Key(
        "hooks",
        "Commands that run at events, by the event's name.",
        "none",
        "by_name",
        needs_trust=True,
    ),
    Key("mcp_servers", "MCP servers, by name.", "none", "by_name", needs_trust=True),
    Key(
        "mcp_wait_s",
        "How many seconds the first request waits at most for MCP servers that are starting.",
        "5",
        needs_trust=True,
        above_zero=True,
    ),
    Key(
        "agents.depth_max",
        "How deep sub-agents nest; with 0 there are none.",
        "2",
        needs_trust=True,
    ),
    Key(
        "agents.parallel_max",
        "How many sub-agents work at once.",
        "4",
        needs_trust=True,
        above_zero=True,
    ),
    Key(
        "agents.max_steps",
        "How many model calls a sub-agent may make.",
        "50",
        needs_trust=True,
        above_zero=True,
    ),
    Key(
        "memory.enabled",
        "Whether there are memory directories.",
        "yes",
        needs_trust=True,
        narrows=(False,),
    ),
    Key(
        "memory.recall",
        "Whether notes come back by themselves.",
        "yes",
        needs_trust=True,
        narrows=(False,),
    ),
    Key("memory.recall_notes_max", "How many notes come back at once.", "5", needs_trust=True),
    Key(
        "memory.recall_time_ms_max",
        "How many milliseconds looking for them may take.",
        "500, with `small_model` 2500",
        needs_trust=True,
    ),
    Key(
        "instructions.import_directories",
        "Directories outside the project that instruction files may import from.",
        "none",
        "together",
        needs_trust=True,
    ),
    Key(
        "redact_transcript",
        "Whether secrets are taken out of what is recorded.",
        "no",
        needs_trust=True,
        narrows=(True,),
    ),
    Key(
        "trace.enabled",
        "Whether a debug log is written beside the transcript.",
        "yes",
        needs_trust=True,
        narrows=(False,),
    ),
    Key(
        "trace.file_bytes_max",
        "How large one of its files may grow.",
        "16 MiB",
        needs_trust=True,
        above_zero=True,
    ),
    Key(
        "trace.files_max",
        "How many of its files are kept.",
        "4",
        needs_trust=True,
        above_zero=True,
    ),
    Key(
        "trace.content",
        "Whether it holds what was said.",
        "yes",
        needs_trust=True,
        narrows=(False,),
    ),
    Key(
        "telemetry.enabled",
        "Whether spans and metrics are sent over OTLP.",
        "no",
        needs_trust=True,
        narrows=(False,),
    ),
    Key(
        "telemetry.endpoint",
        "Where they are sent to.",
        "as the environment says",
        needs_trust=True,
    ),
    Key(
        "telemetry.content",
        "Whether words and arguments go along.",
        "no",
        needs_trust=True,
        narrows=(False,),
    ),
    Key(
        "retention.age_days_max",
        "`rewake gc` moves sessions to the trash that haven't changed for so many days.",
        "no limit",
        needs_trust=True,
        above_zero=True,
    ),
    Key(
        "retention.bytes_max",
        "`rewake gc` moves the oldest sessions of a project to the trash above so many bytes.",
        "no limit",
        needs_trust=True,
        above_zero=True,
    ),
    Key("theme", "The colours of the terminal: `ansi`, `dark`, `light` or `none`.", "`ansi`"),
)
KEYS: Final[dict[str, Key]] = {key.name: key for key in _KEYS}

SCHEMA_KEY: Final = "$schema"
VERSION_KEY: Final = "settings_version"
FILE_KEYS: Final[dict[str, str]] = {
    SCHEMA_KEY: "Where an editor finds the schema; Rewake doesn't read it.",
    VERSION_KEY: "The version that the file's keys are of; written by migrations.",
}
"""What a file may say about itself; no settings."""


def key_of(path: tuple[str | int, ...]) -> Key | None:
    """The key that `path` is, or is a part of; None for a group of keys and for what isn't known."""
    for length in range(1, len(path) + 1):
        found = KEYS.get(".".join(str(part) for part in path[:length]))
        if found is not None:
            return found
    return None


def keys_under(path: tuple[str | int, ...]) -> tuple[Key, ...]:
    """The keys of a group such as `permissions`; all for an empty path."""
    return tuple(key for key in _KEYS if key.path[: len(path)] == path)
