"""The conversation: history, answers to calls, todo list, read-state, compaction, session memory.

The rules kept here:

- The conversation follows the *branch*: it is the fold of the events on the path root → leaf.
- An entry is known by its event's id, never by its position.
- An answer that a provider has been sent never changes: once a request went out with a call still
  unanswered, the call is *sealed*, and what is learnt later becomes a note, a message of its own.
- `listing()` names the events that make the conversation; folding just those, with the small state
  of `snapshot()`, gives the same conversation (tests/state proves it for random sessions).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from rewake.model.content import File, Image, Text, ToolCall, ToolResult, plain_text
from rewake.model.events import (
    AgentEvent,
    Checkpoint,
    Event,
    History,
    Message,
    MessageAmendment,
    Outcome,
    OutputRead,
    Result,
    Rewind,
    SessionStart,
    StateTransition,
    Todo,
    ToolLifecycle,
    Verdict,
)
from rewake.state.memory import SessionMemory
from rewake.state.world import tool_calls

REQUESTING: Final = "requesting"
"""The loop state in which a request is sent to the model (`state_transition`'s `to`)."""

GO_ON: Final = "[rewake] Go on."
"""What a request ends with when nothing was said since the model's last answer."""

# Beyond this many files the oldest is forgotten, which only means "read it again" before an edit.
READ_STATE_MAX: Final = 500
# Background commands whose output was read; the oldest's is then shown from its beginning again.
OUTPUT_READ_MAX: Final = 50
_ENDED: Final = frozenset({"completed", "failed", "resolved"})
# Ends of a run that a later one should know of; the ordinary end is none.
_STOPPED: Final = "stopped"
_ORDINARY: Final = frozenset({"", "done"})


class Answer(msgspec.Struct, frozen=True):
    """What a call was answered with, and by which event."""

    event_id: str
    result: Result
    verdict: Verdict | None = None


class Entry(msgspec.Struct, gc=False):
    """A message with the answers to its calls, one place a call in call order.

    A note tells of a call whose answer had been sealed or compacted away. `answers_to` is set in a
    `tool` message: the assistant message it answers. `event_ids` are the events that shaped the entry.
    """

    message_id: str
    message: Message
    timestamp: str = ""
    answers: list[Answer | None] = []
    sealed: bool = False
    note: bool = False
    answers_to: str | None = None
    event_ids: list[str] = []

    def is_open(self) -> bool:
        """Whether a call here still waits for its answer."""
        return not self.sealed and None in self.answers

    def is_orphan(self) -> bool:
        """Whether this is a `tool` message that answered no call."""
        return self.message.role == "tool" and self.answers_to is None


class Snapshot(msgspec.Struct):
    """The part of a conversation that a checkpoint embeds: bounded, and no message."""

    sealed: list[str] = []
    notes: list[str] = []
    orphans: list[str] = []
    summary: str | None = None
    summary_id: str | None = None
    session_memory: str | None = None
    kept_through: str | None = None
    todos: tuple[Todo, ...] = ()
    read_state: dict[str, str] = {}
    output_read: dict[str, OutputRead] = {}
    memory: SessionMemory = msgspec.field(default_factory=SessionMemory)
    assistant_messages: int = 0
    newest_prompt: str | None = None


class Conversation:
    """The mutable owner of the conversation; `apply` folds one event of the branch in."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.summary: str | None = None
        self.summary_id: str | None = None
        self.session_memory: str | None = None
        self.kept_through: str | None = None
        self.todos: tuple[Todo, ...] = ()
        self.read_state: dict[str, str] = {}
        self.output_read: dict[str, OutputRead] = {}
        self.memory = SessionMemory()
        self.assistant_messages = 0
        self.newest_prompt: str | None = None
        self.base: str | None = None
        self.since: list[str] = []
        self._by_id: dict[str, Entry] = {}
        self._open: list[Entry] = []

    # --- folding -------------------------------------------------------------------------

    def apply(self, event: Event, *, fold_version: int) -> None:
        """Fold one event of the branch in. Never raises: what it can't use changes nothing."""
        payload = event.payload
        if isinstance(payload, Message):
            self._message(event, payload)
        elif isinstance(payload, ToolLifecycle):
            if payload.status in _ENDED:
                self._ended(event, payload)
        elif isinstance(payload, StateTransition):
            self._transition(event, payload)
        elif isinstance(payload, MessageAmendment):
            self._amend(event, payload)
        elif isinstance(payload, Checkpoint):
            self._checkpoint(event, payload, fold_version)
        elif isinstance(payload, Rewind):
            self.memory.remember("decisions", event.event_id, f"Went back ({payload.scope})")
            self.memory.went_elsewhere()
            self._based_on(event.event_id, payload.checkpoint, fold_version)
        elif isinstance(payload, AgentEvent):
            self.memory.agent(event.event_id, payload)
        elif isinstance(payload, SessionStart) and payload.checkpoint is not None:
            self._based_on(event.event_id, payload.checkpoint, fold_version)

    def _message(self, event: Event, message: Message) -> None:
        if event.event_id in self._by_id:
            return
        if message.role == "assistant":
            self.assistant_messages += 1
            self._seal()
        elif message.role == "user" and not message.source:
            self.newest_prompt = event.event_id
            self.memory.prompt(event.event_id, plain_text(message.content))
        self._add(event, message)

    def _add(self, event: Event, message: Message, *, answers: bool = True) -> None:
        if event.event_id in self._by_id:
            return
        calls = tool_calls(message) if message.role == "assistant" else ()
        event_id = event.event_id
        entry = Entry(event_id, message, event.timestamp, [None] * len(calls), event_ids=[event_id])
        self._insert(entry)
        if message.role == "tool" and answers:
            self._answer_by_provider_id(entry)

    def _insert(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._by_id[entry.message_id] = entry
        self.since.append(entry.message_id)
        if entry.answers:
            self._open.append(entry)

    def _seal(self) -> None:
        for entry in self._open:
            entry.sealed = None in entry.answers
        self._open.clear()

    def _answer_by_provider_id(self, answering: Entry) -> None:
        """Match the results of a `tool` message with the open calls of the newest assistant message."""
        asked = self.last_assistant()
        if asked is None or asked.sealed:
            return
        calls = tool_calls(asked.message)
        for block in answering.message.content:
            if not isinstance(block, ToolResult):
                continue
            for index, call in enumerate(calls):
                if call.provider_call_id == block.provider_call_id and asked.answers[index] is None:
                    result = Result(block.content, block.is_error)
                    asked.answers[index] = Answer(answering.message_id, result)
                    answering.answers_to = asked.message_id
                    break

    def _ended(self, event: Event, payload: ToolLifecycle) -> None:
        self._remember_call(event.event_id, payload)
        if payload.outcome is not None:
            self._outcome(payload.outcome)
        if payload.message_id is None or event.event_id in self._by_id:
            return
        if payload.result is None:
            payload = msgspec.structs.replace(payload, result=Result())
        self._answer(event, payload)

    def _answer(self, event: Event, payload: ToolLifecycle) -> None:
        entry = self._by_id.get(payload.message_id or "")
        verdict = payload.resolution.verdict if payload.resolution is not None else None
        answer = Answer(event.event_id, payload.result or Result(), verdict)
        if entry is None or not 0 <= payload.index < len(entry.answers):
            self._note(event, payload)
            return
        present = entry.answers[payload.index]
        if present is not None and present.event_id == event.event_id:
            return
        if present is None and not entry.sealed:
            entry.answers[payload.index] = answer
            entry.event_ids.append(event.event_id)
            self.since.append(event.event_id)
        elif present is None or verdict is not None or present.verdict is not None:
            # A verdict after an answer is news: the command that it left running has ended.
            self._note(event, payload)

    def _note(self, event: Event, payload: ToolLifecycle) -> None:
        if payload.status == "resolved" and not (payload.result and payload.result.content):
            return  # the model knows already
        message = Message("user", (Text(_note_text(payload)),), source="rewake")
        self._insert(
            Entry(event.event_id, message, event.timestamp, note=True, event_ids=[event.event_id])
        )

    def _remember_call(self, event_id: str, payload: ToolLifecycle) -> None:
        if payload.status == "completed":
            self.memory.completed_call(event_id, payload.tool_name, payload.outcome)
        elif payload.status == "failed":
            self.memory.failed_call(event_id, payload.tool_name, payload.outcome, payload.result)
        elif payload.resolution is not None:
            self.memory.resolved_call(
                event_id, payload.tool_name, payload.resolution, payload.outcome
            )

    def _outcome(self, outcome: Outcome) -> None:
        if outcome.todos is not None:
            self.todos = outcome.todos
        for change in outcome.changes:
            if change.after.kind == "file" and change.after.sha256 is not None:
                self._saw(change.path, change.after.sha256)
            else:
                self.read_state.pop(change.path, None)
        for read in outcome.reads:
            self._saw(read.path, read.sha256)
        if outcome.output_read is not None:
            self.output_read.pop(outcome.output_read.command_id, None)
            self.output_read[outcome.output_read.command_id] = outcome.output_read
            if len(self.output_read) > OUTPUT_READ_MAX:
                del self.output_read[next(iter(self.output_read))]

    def _saw(self, path: str, sha256: str) -> None:
        self.read_state.pop(path, None)
        self.read_state[path] = sha256
        if len(self.read_state) > READ_STATE_MAX:
            del self.read_state[next(iter(self.read_state))]

    def _transition(self, event: Event, payload: StateTransition) -> None:
        if payload.to_state == REQUESTING:
            self._seal()
            if self.ends_with_answer():
                self._go_on(event)
        elif payload.to_state == _STOPPED and payload.reason not in _ORDINARY:
            self.memory.remember("decisions", event.event_id, f"Stopped: {payload.reason}")

    def _go_on(self, event: Event) -> None:
        """Providers refuse a request that ends with an answer, so a word follows it for good."""
        message = Message("user", (Text(GO_ON),), source="rewake")
        self._insert(Entry(event.event_id, message, event.timestamp, event_ids=[event.event_id]))

    def _amend(self, event: Event, payload: MessageAmendment) -> None:
        entry = self._by_id.get(payload.message_id)
        if entry is None:
            return
        if event.event_id == entry.message_id:
            # It landed on the message's own line, which a reader will find whole.
            entry.message = amended(entry.message, payload)
        elif event.event_id not in entry.event_ids:
            entry.message = amended(entry.message, payload)
            entry.event_ids.append(event.event_id)
            self.since.append(event.event_id)

    def _checkpoint(self, event: Event, payload: Checkpoint, fold_version: int) -> None:
        if payload.kind == "compaction":
            self._compact(event, payload)
        self._based_on(event.event_id, payload, fold_version)

    def _compact(self, event: Event, payload: Checkpoint) -> None:
        kept = self._kept(set(payload.history.event_ids))
        self.entries = kept
        self._by_id = {entry.message_id: entry for entry in kept}
        self._open = [entry for entry in self._open if entry.message_id in self._by_id]
        self.since = listing_of(kept)
        self.base = None
        self.summary = payload.summary
        self.summary_id = event.event_id
        self.session_memory = payload.session_memory
        self.kept_through = kept[-1].message_id if kept else None
        self.memory.remember("decisions", event.event_id, f"Compacted ({payload.trigger})")

    def _kept(self, wanted: set[str]) -> list[Entry]:
        """The entries that a compaction to `wanted` leaves.

        Whatever it says, the newest prompt stays: it is what the next answer must be about. A
        `tool` message stays and goes with the calls it answers.
        """
        ids = {entry.message_id for entry in self.entries} & wanted
        if self.newest_prompt is not None:
            ids.add(self.newest_prompt)
        return [
            entry
            for entry in self.entries
            if (entry.message_id if entry.message.role != "tool" else entry.answers_to) in ids
        ]

    def _based_on(self, event_id: str, checkpoint: Checkpoint, fold_version: int) -> None:
        """Later checkpoints may refer to this one instead of listing its events again.

        One that lists nothing is skipped: the bases that a resume has to read are then as many as
        there are messages at most, not as many as side records made checkpoints necessary.
        """
        if checkpoint.fold_version == fold_version and checkpoint.history.event_ids:
            self.base = event_id
            self.since = []

    # --- checkpoints ---------------------------------------------------------------------

    def history(self) -> History:
        """The events that make this conversation, relative to the newest checkpoint."""
        return History(self.base, tuple(self.since))

    def history_of(self, kept: Iterable[Entry]) -> History:
        """The events that make a conversation of only these entries (for a compaction)."""
        return History(None, tuple(listing_of(self._kept({entry.message_id for entry in kept}))))

    def snapshot(self) -> Snapshot:
        """What a checkpoint embeds beside the history."""
        return Snapshot(
            sealed=[entry.message_id for entry in self.entries if entry.sealed],
            notes=[entry.message_id for entry in self.entries if entry.note],
            orphans=[entry.message_id for entry in self.entries if entry.is_orphan()],
            summary=self.summary,
            summary_id=self.summary_id,
            session_memory=self.session_memory,
            kept_through=self.kept_through,
            todos=self.todos,
            read_state=self.read_state,
            output_read=self.output_read,
            memory=self.memory,
            assistant_messages=self.assistant_messages,
            newest_prompt=self.newest_prompt,
        )

    @classmethod
    def restore(cls, snapshot: Snapshot, events: Iterable[Event], history: History) -> Conversation:
        """The conversation just before a checkpoint; applying the checkpoint's event comes next.

        `events` are those that `history` names, the ones of its base first; one that is missing
        costs what it said.
        """
        conversation = cls()
        apart = {*snapshot.notes, *snapshot.orphans}
        for event in events:
            conversation._replay(event, apart=event.event_id in apart)
        sealed = set(snapshot.sealed)
        for entry in conversation.entries:
            entry.sealed = entry.message_id in sealed
        conversation._open = [entry for entry in conversation.entries if entry.is_open()]
        conversation.summary = snapshot.summary
        conversation.summary_id = snapshot.summary_id
        conversation.session_memory = snapshot.session_memory
        conversation.kept_through = snapshot.kept_through
        conversation.todos = snapshot.todos
        conversation.read_state = dict(snapshot.read_state)
        conversation.output_read = dict(snapshot.output_read)
        conversation.memory = snapshot.memory
        conversation.assistant_messages = snapshot.assistant_messages
        conversation.newest_prompt = snapshot.newest_prompt
        conversation.base = history.base
        conversation.since = list(history.event_ids)
        return conversation

    def _replay(self, event: Event, *, apart: bool) -> None:
        """Fold a listed event again; `apart` if it answered no call then, so it must not now."""
        payload = event.payload
        if isinstance(payload, Message):
            self._add(event, payload, answers=not apart)
        elif isinstance(payload, MessageAmendment):
            self._amend(event, payload)
        elif isinstance(payload, ToolLifecycle):
            if apart:
                self._note(event, payload)
            else:
                self._answer(event, payload)
        elif isinstance(payload, StateTransition):
            self._go_on(event)

    # --- questions -----------------------------------------------------------------------

    def entry(self, message_id: str) -> Entry | None:
        """The entry of a message, if it is in the active conversation."""
        return self._by_id.get(message_id)

    def unanswered(self) -> list[tuple[Entry, int, ToolCall]]:
        """Calls whose answer is still missing and would be made up by the view."""
        return [
            (entry, index, call)
            for entry in self.entries
            for index, call in enumerate(tool_calls(entry.message) if entry.answers else ())
            if entry.answers[index] is None
        ]

    def ends_with_answer(self) -> bool:
        """Whether the last thing said is an answer without calls."""
        for entry in reversed(self.entries):
            message = entry.message
            if message.role == "tool" or not _is_visible(message):
                continue
            return message.role == "assistant" and not entry.answers
        return False

    def last_assistant(self) -> Entry | None:
        """The newest assistant message of the active conversation."""
        for entry in reversed(self.entries):
            if entry.message.role == "assistant":
                return entry
        return None


def _is_visible(message: Message) -> bool:
    return any(
        isinstance(block, ToolCall | Image | File)
        or (isinstance(block, Text) and bool(block.text.strip()))
        for block in message.content
    )


def listing_of(entries: Iterable[Entry]) -> list[str]:
    """The ids of all events that shaped these entries, each entry's own first."""
    return list(dict.fromkeys(event_id for entry in entries for event_id in entry.event_ids))


def amended(message: Message, amendment: MessageAmendment) -> Message:
    """The message with what was learnt late. A field that is known already stays as it is."""
    return msgspec.structs.replace(
        message,
        usage=message.usage if message.usage is not None else amendment.usage,
        stop_reason=message.stop_reason or amendment.stop_reason,
        model=message.model or amendment.model or "",
    )


def _note_text(payload: ToolLifecycle) -> str:
    said = plain_text(payload.result.content) if payload.result is not None else ""
    call = f"the earlier {payload.tool_name} call {payload.call_id}"
    return f"[rewake] More is known now about {call}: {said or payload.status}"
