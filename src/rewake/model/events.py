"""The event: one immutable line of a transcript, and the payload of each event type.

The rule kept here: payloads are frozen and typed; a type, a field or a shape that this version
doesn't know is kept as the bytes it came in (`Unknown`, `Event.line`) and never rewritten.

`PAYLOAD_TYPES` is the closed table of event types; docs/format.md is its prose.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from rewake.model.content import Content, JsonObject, ResultBlock, Usage

FORMAT_NAME: Final = "rewake-transcript"
FORMAT_VERSION: Final = 1
READER_VERSION: Final = 1
"""A transcript whose `min_reader_version` is above this is refused."""

Role = Literal["user", "assistant", "tool"]
StopReason = Literal["end", "tool_use", "length", "content_filter", "interrupted", "error"]
CallStatus = Literal["requested", "started", "completed", "failed", "resolved"]
Verdict = Literal["applied", "not_applied", "partial", "still_running", "lost", "unknown"]
FileKind = Literal["absent", "file", "symlink", "directory"]


class Payload(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of all payloads. Fields at their default are left out of the line."""


# --- sessions and runs -----------------------------------------------------------------------


class ForkOrigin(Payload, frozen=True):
    """Where a fork started: everything up to and including `event_id` of `session_id`."""

    session_id: str
    event_id: str


class History(Payload, frozen=True):
    """Which events made the conversation, by id: those of checkpoint `base`, then `event_ids`.

    Listed are messages, amendments and outcomes of tool calls, in the order they were folded.
    """

    base: str | None = None
    event_ids: tuple[str, ...] = ()


class Checkpoint(Payload, frozen=True):
    """Lets resume stop reading backwards: the folded state and, by id, the conversation.

    A `compaction` replaces the conversation by `summary` and the kept messages and freezes
    `session_memory`; a `state` checkpoint changes nothing when applied. `usage` is that of the
    model call which wrote the summary.
    """

    kind: Literal["compaction", "state"]
    fold_version: int
    history: History
    state: JsonObject
    summary: str | None = None
    session_memory: str | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    trigger: str = ""
    usage: Usage | None = None


class SessionStart(Payload, frozen=True, omit_defaults=False):
    """The first line. `project` identifies the project; a fork carries its origin and a checkpoint.

    Every field is written, so that the file says by itself what it is.
    """

    format: str = FORMAT_NAME
    version: int = FORMAT_VERSION
    min_reader_version: int = 1
    project: JsonObject = msgspec.field(default_factory=dict)
    forked_from: ForkOrigin | None = None
    checkpoint: Checkpoint | None = None


class RunStart(Payload, frozen=True):
    """One process begins to work on the session. `generation` only rises."""

    generation: int
    host: str = ""
    boot_id: str = ""
    pid: int = 0
    app_version: str = ""
    min_reader_version: int = 1
    cwd: str = ""
    model: str = ""
    permission_mode: str = ""


# --- conversation ----------------------------------------------------------------------------


class Message(Payload, frozen=True):
    """One message. Its id is the id of its event.

    `provider` holds what the provider needs back verbatim. `source` tells messages that no person
    typed (`rewake`: a note about a verdict, `skill`, …) from prompts (empty); `details` is what their
    writer says of them for programs (`memory`: which notes, and why), which no provider gets. `typed`
    is what a person typed where the content is what that stands for (a command written in Markdown).
    """

    role: Role
    content: Content
    model: str = ""
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    provider: JsonObject | None = None
    source: str = ""
    typed: str = ""
    details: JsonObject | None = None


class MessageAmendment(Payload, frozen=True):
    """Fields of a message known only after its line was written. A field that is None is not amended."""

    message_id: str
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    model: str | None = None


class StateTransition(Payload, frozen=True):
    """The loop went from one state to another."""

    from_state: str = msgspec.field(name="from")
    to_state: str = msgspec.field(name="to")
    reason: str = ""
    details: JsonObject = msgspec.field(default_factory=dict)


# --- tools -----------------------------------------------------------------------------------


class FileState(Payload, frozen=True):
    """What a path is: content by hash (a blob once the event that names it is durable), mode, kind.

    `mode` is the permission bits; `target` a symlink's target, `target_base64` where it isn't UTF-8.
    """

    kind: FileKind = "absent"
    sha256: str | None = None
    size: int = 0
    mode: int | None = None
    target: str | None = None
    target_base64: str | None = None


class Change(Payload, frozen=True):
    """One path before and after. `path` is absolute; a path that isn't UTF-8 is `path_base64`."""

    path: str
    before: FileState
    after: FileState
    path_base64: str | None = None


class ReadOnlyIntent(Payload, frozen=True, tag_field="kind", tag="read_only"):
    """Nothing will change: the call may be repeated at will."""


class FileChangeIntent(Payload, frozen=True, tag_field="kind", tag="file_change"):
    """These paths will go from `before` to `after`; both contents are durable blobs already."""

    changes: tuple[Change, ...]


class ShellIntent(Payload, frozen=True, tag_field="kind", tag="shell"):
    """`command` will run in `cwd`; what it does is written to `output_directory`.

    The directory is relative to the session's directory. Protocol: docs/format.md, "Shell". A command
    in the `background` is there to go on after its call has ended; a `timeout_ms` of 0 is no limit.
    """

    command: str
    cwd: str
    output_directory: str
    timeout_ms: int | None = None
    background: bool = False


class AgentIntent(Payload, frozen=True, tag_field="kind", tag="agent"):
    """A sub-agent with this id will run; its own transcript is the evidence."""

    agent_id: str


class OtherIntent(Payload, frozen=True, tag_field="kind", tag="other"):
    """An effect that only the tool itself could verify, by `idempotency_key`."""

    description: str = ""
    idempotency_key: str = ""


Intent = ReadOnlyIntent | FileChangeIntent | ShellIntent | AgentIntent | OtherIntent


class FileRead(Payload, frozen=True):
    """A file whose whole content at this hash the model has now seen."""

    path: str
    sha256: str


class OutputRead(Payload, frozen=True):
    """How far the model has read a background command's output: bytes of each stream.

    `command_id` is the call that started it; `ended`: the model was told that it has ended.
    """

    command_id: str
    stdout: int = 0
    stderr: int = 0
    ended: bool = False


class Verification(Payload, frozen=True):
    """The result of a check command (tests, a build): whether it passed, and what it was."""

    command: str
    passed: bool


class Outcome(Payload, frozen=True):
    """What a call did to the world, as far as it is known."""

    changes: tuple[Change, ...] = ()
    reads: tuple[FileRead, ...] = ()
    exit_code: int | None = None
    duration_ms: int | None = None
    todos: tuple[Todo, ...] | None = None
    verification: Verification | None = None
    output_read: OutputRead | None = None
    details: JsonObject = msgspec.field(default_factory=dict)


class Todo(Payload, frozen=True):
    """One item of the todo list."""

    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


class Result(Payload, frozen=True):
    """What the model is told of a call."""

    content: tuple[ResultBlock, ...] = ()
    is_error: bool = False


class Resolution(Payload, frozen=True):
    """What recovery concluded about an interrupted call, and its proof.

    `by` is `recovery` (at resume), `action` (an exception inside the running action) or `user`.
    """

    verdict: Verdict
    evidence: JsonObject = msgspec.field(default_factory=dict)
    by: Literal["recovery", "action", "user"] = "recovery"
    note: str = ""


class ToolLifecycle(Payload, frozen=True):
    """One phase of a tool call.

    `call_id` is the event id of the `requested` line (empty in that line itself). `message_id` and
    `index` name the assistant message and the position of the call among its tool calls, so that
    any later line answers its call by itself; both are unset for a call that no message asked for.
    """

    tool_name: str
    status: CallStatus
    call_id: str = ""
    message_id: str | None = None
    index: int = 0
    provider_call_id: str = ""
    arguments: JsonObject | None = None
    intent: Intent | None = None
    outcome: Outcome | None = None
    result: Result | None = None
    resolution: Resolution | None = None


# --- everything else -------------------------------------------------------------------------


class Rewind(Payload, frozen=True):
    """The conversation, the files or both went back to `target_id` (None: before the first message)."""

    target_id: str | None
    scope: Literal["conversation", "files", "both"]
    checkpoint: Checkpoint
    undoes: str | None = None
    changes: tuple[Change, ...] = ()
    conflicts: tuple[Change, ...] = ()


class AgentEvent(Payload, frozen=True):
    """A sub-agent or a remote agent was spawned, went on or ended.

    `changes` and `usage` are what it did since the event of this agent before. `background`: the call
    that spawned it has ended without it, so the model is still to be told of its end (`reported`).
    """

    agent_id: str
    status: str
    task: str = ""
    agent_type: str = ""
    call_id: str = ""
    changes: tuple[Change, ...] = ()
    details: JsonObject = msgspec.field(default_factory=dict)
    usage: Usage | None = None
    background: bool = False


class Metadata(Payload, frozen=True):
    """Title, tags and the like: the last value of each key counts, null removes it."""

    entries: JsonObject


class Terminal(Payload, frozen=True):
    """The run ended. `reason` is one of the loop's terminal reasons."""

    reason: str
    details: JsonObject = msgspec.field(default_factory=dict)


class Unknown(msgspec.Struct, frozen=True):
    """A payload that this version can't read: its bytes, and why if its type is a known one."""

    raw: bytes
    problem: str | None = None


class Spilled(Payload, frozen=True):
    """Stands in for a payload too large for its line.

    `blob` names the payload's bytes; `preview` is the same payload with its long strings cut,
    read in its place if the blob is gone.
    """

    blob: SpilledBlob
    preview: msgspec.Raw = msgspec.Raw(b"{}")


class SpilledBlob(Payload, frozen=True):
    """The blob's name and the count of its bytes (uncompressed)."""

    sha256: str
    size: int


KnownPayload = (
    SessionStart
    | RunStart
    | Message
    | MessageAmendment
    | StateTransition
    | ToolLifecycle
    | Checkpoint
    | Rewind
    | AgentEvent
    | Metadata
    | Terminal
)

PAYLOAD_TYPES: Final[dict[str, type[KnownPayload]]] = {
    "session": SessionStart,
    "run": RunStart,
    "message": Message,
    "message_amendment": MessageAmendment,
    "state_transition": StateTransition,
    "tool_lifecycle": ToolLifecycle,
    "checkpoint": Checkpoint,
    "rewind": Rewind,
    "agent": AgentEvent,
    "metadata": Metadata,
    "terminal": Terminal,
}

EVENT_TYPES: Final[dict[type[KnownPayload], str]] = {
    payload_type: name for name, payload_type in PAYLOAD_TYPES.items()
}

SCHEMA_VERSIONS: Final[dict[str, int]] = dict.fromkeys(PAYLOAD_TYPES, 1)
"""The version of each payload's shape that this version writes."""


class Event(msgspec.Struct, frozen=True):
    """One committed line. `line` is its bytes without the newline; `offset` where it starts.

    `timestamp` is RFC 3339 in UTC with microseconds. `step` counts model calls within the session.
    """

    event_id: str
    parent_id: str | None
    seq: int
    timestamp: str
    session_id: str
    run_id: str
    event_type: str
    schema_version: int
    payload: KnownPayload | Spilled | Unknown
    step: int = 0
    agent_id: str | None = None
    line: bytes = b""
    offset: int = 0
