"""From a transcript back to the state: backwards to the newest checkpoint, then forwards.

The rules kept here:

- Cost follows what is active: the newest checkpoint in file order is always on the active branch,
  so everything after it is linear and nothing before it is read but the messages it names.
- Nothing is written. Whatever can't be used is reported with its offset, and costs only itself.
- A checkpoint that can't be used (another fold version, damage, a broken base) is no reason to
  fail: the transcript is then folded from its root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, Protocol

import msgspec

from rewake.errors import InvalidValueError, StorageError, UnreadableVersionError, UsageError
from rewake.log.scan import Lookup
from rewake.model import tree
from rewake.model.codec import CorruptLine, TornTail, decode_payload
from rewake.model.events import (
    READER_VERSION,
    Checkpoint,
    Event,
    History,
    KnownPayload,
    Message,
    Rewind,
    RunStart,
    SessionStart,
    Spilled,
    ToolLifecycle,
    Unknown,
)
from rewake.resume.lineage import Lineage
from rewake.state.conversation import Conversation
from rewake.state.fold import FOLD_VERSION, SessionState, checkpoint_of, history_of
from rewake.state.world import tool_calls

_Payload = KnownPayload | Spilled | Unknown
_CUT: Final = -1  # no fold ever has this version

DamageKind = Literal[
    "torn_tail",
    "corrupt_line",
    "unreadable_payload",
    "missing_blob",
    "missing_parent",
    "missing_event",
    "duplicate_event",
    "foreign_session",
    "missing_origin",
    "unusable_checkpoint",
]


class Damage(msgspec.Struct, frozen=True):
    """One damaged place: `offset` is in bytes from the beginning of the file, -1 where it has none."""

    kind: DamageKind
    offset: int
    detail: str

    def __str__(self) -> str:
        place = f" at byte {self.offset}" if self.offset >= 0 else ""
        return f"{self.kind.replace('_', ' ')}{place}: {self.detail}"


class Loaded(msgspec.Struct):
    """A folded transcript. `events_read` counts the lines that were decoded for it.

    `since_checkpoint` counts the events, and `bytes_since_checkpoint` the bytes, after the anchor.
    """

    state: SessionState
    damage: list[Damage]
    events_read: int
    since_checkpoint: int
    bytes_since_checkpoint: int
    newest: Event | None


class Reader(Protocol):
    """The part of a transcript's reader that loading needs; `log.scan.Transcript` has it."""

    def size(self) -> int: ...

    def backward(self, end: int | None = None) -> Iterator[Event | CorruptLine | TornTail]: ...

    def forward(self) -> Iterator[Event | CorruptLine | TornTail]: ...

    def find_many(self, event_ids: Iterable[str]) -> Lookup: ...


class BlobReader(Protocol):
    """Where spilled payloads are."""

    def get(self, sha256: str) -> bytes: ...


class _Loader:
    """One load. `end` cuts the file there, for the state as of an earlier event."""

    def __init__(
        self, reader: Reader, blobs: BlobReader, end: int | None, fold_version: int
    ) -> None:
        self.reader = reader
        self.blobs = blobs
        self.end = end
        self.fold_version = fold_version
        self.damage: list[Damage] = []
        self.read = 0
        self.session_id: str | None = None
        self.lineage = reader if isinstance(reader, Lineage) else None

    def run(self) -> Loaded:
        self._first_line()
        anchor, later = self._backward()
        state = self._restore(anchor) if anchor is not None else None
        if state is None:
            return self.from_root()
        previous = anchor
        for event in later:
            self._report_gap(previous, event)
            state.apply(event)
            previous = event
        start = anchor.offset if anchor is not None else 0
        size = self.reader.size() if self.end is None else self.end
        return Loaded(state, self.damage, self.read, len(later), size - start, previous)

    def _first_line(self) -> None:
        """Whose transcript this is, and whether it may be read at all."""
        for item in self.reader.forward():
            if isinstance(item, Event):
                self.session_id = item.session_id
                refuse_newer(item)
            return

    # --- backwards to the checkpoint --------------------------------------------------------

    def _backward(self) -> tuple[Event | None, list[Event]]:
        """The newest event with a usable checkpoint, and the events after it in file order."""
        later: list[Event] = []
        for item in self.reader.backward(self.end):
            event = self._usable(item)
            if event is None:
                continue
            checkpoint = checkpoint_of(event)
            if checkpoint is not None and checkpoint.fold_version == self.fold_version:
                later.reverse()
                return event, self._unique(later)
            if event.event_type == "rewind":
                # What follows it hangs under its target, so without its checkpoint it isn't linear.
                return None, []
            later.append(event)
        return None, []

    def _usable(self, item: Event | CorruptLine | TornTail) -> Event | None:
        self.read += 1
        if isinstance(item, TornTail):
            detail = f"{len(item.line)} bytes without a newline: a write that was cut short"
            self.damage.append(Damage("torn_tail", item.offset, detail))
            return None
        if isinstance(item, CorruptLine):
            self.damage.append(Damage("corrupt_line", item.offset, item.reason))
            return None
        if self.session_id is None:
            self.session_id = item.session_id
        if item.session_id != self.session_id:
            detail = f"a line of session {item.session_id}"
            self.damage.append(Damage("foreign_session", item.offset, detail))
            return None
        event, problem = inflate(item, self.blobs)
        if problem is not None:
            self.damage.append(problem)
        refuse_newer(event)
        return event

    def _unique(self, events: list[Event]) -> list[Event]:
        seen: set[str] = set()
        unique: list[Event] = []
        for event in events:
            if event.event_id in seen:
                detail = f"event {event.event_id} stands twice; the first one counts"
                self.damage.append(Damage("duplicate_event", event.offset, detail))
            else:
                seen.add(event.event_id)
                unique.append(event)
        return unique

    def _restore(self, anchor: Event) -> SessionState | None:
        history = history_of(anchor)
        if history is None:
            return None
        event_ids = self._listed(history)
        if event_ids is None:
            detail = "a checkpoint that it builds on is gone; folded from the root instead"
            self.damage.append(Damage("unusable_checkpoint", anchor.offset, detail))
            return None
        recalled = list(self._recall(event_ids))
        try:
            state = SessionState.restore(anchor, recalled, fold_version=self.fold_version)
        except ValueError as error:
            self.damage.append(Damage("unusable_checkpoint", anchor.offset, str(error)))
            return None
        if state.world.run is not None:
            # Its line may stand before the checkpoint, where nothing is read.
            _refuse_newer(state.world.run, anchor.session_id)
        return state

    def _listed(self, history: History) -> list[str] | None:
        """All ids that a history names, those of its bases first; None if a base can't be read."""
        parts = [history.event_ids]
        seen: set[str] = set()
        base = history.base
        while base is not None:
            event = self.reader.find_many((base,)).found.get(base)
            below = checkpoint_of(inflate(event, self.blobs)[0]) if event is not None else None
            if below is None or below.fold_version == _CUT or base in seen:
                return None
            seen.add(base)
            parts.append(below.history.event_ids)
            base = below.history.base
        return [event_id for part in reversed(parts) for event_id in part]

    def _recall(self, event_ids: list[str]) -> Iterator[Event]:
        lookup = self.reader.find_many(event_ids)
        self.read += len(lookup.found)
        for event_id in event_ids:
            found = lookup.found.get(event_id)
            if found is None:
                detail = f"event {event_id} of the conversation is gone"
                self.damage.append(Damage("missing_event", -1, detail))
                continue
            event, problem = inflate(found, self.blobs)
            if problem is not None:
                self.damage.append(problem)
            yield event

    def _report_gap(self, previous: Event | None, event: Event) -> None:
        if previous is not None and event.parent_id != previous.event_id:
            detail = f"event {event.event_id} hangs under {event.parent_id}, which is not before it"
            self.damage.append(Damage("missing_parent", event.offset, detail))

    # --- from the root ----------------------------------------------------------------------

    def from_root(self) -> Loaded:
        """Fold every event: the world in file order, the conversation along the path to the leaf."""
        self.damage = [item for item in self.damage if item.kind == "unusable_checkpoint"]
        links = ((event.event_id, self._parent(event)) for event in self._all(report=False))
        drawn = tree.build(links)
        path = set(tree.path(drawn, drawn.leaf))
        gaps = {gap.event_id for gap in drawn.gaps}
        state = SessionState(fold_version=self.fold_version)
        seen: set[str] = set()
        newest: Event | None = None
        count = 0
        for event in self._all(report=True):
            if event.event_id in seen:
                detail = f"event {event.event_id} stands twice; the first one counts"
                self.damage.append(Damage("duplicate_event", event.offset, detail))
                continue
            seen.add(event.event_id)
            if event.event_id in gaps:
                detail = f"event {event.event_id} hangs under {event.parent_id}, which is not here"
                self.damage.append(Damage("missing_parent", event.offset, detail))
            if event.event_id in path:
                state.apply(event, target=self._inherited(event))
            else:
                state.world.apply(event)
            newest = event
            count += 1
        size = self.reader.size() if self.end is None else self.end
        return Loaded(state, self.damage, self.read, count, size, newest)

    def _parent(self, event: Event) -> str | None:
        """Where the event hangs in this file; what hangs under an inherited event is a root here."""
        parent = event.parent_id
        if parent is not None and self.lineage is not None and self.lineage.is_inherited(parent):
            return None
        return parent

    def _inherited(self, event: Event) -> Conversation | None:
        """The conversation that an event takes over from an ancestor, if it does."""
        payload = event.payload
        if self.lineage is None or self.lineage.origin is None:
            return None
        if isinstance(payload, SessionStart):
            inherited = self.lineage.origin.event_id
        elif isinstance(payload, Rewind) and self._parent(event) != event.parent_id:
            inherited = event.parent_id or ""
        else:
            return None
        located = self.lineage.locate_in_ancestors(inherited)
        if located is None:
            detail = f"event {inherited} of the session it was forked from is gone"
            self.damage.append(Damage("missing_origin", event.offset, detail))
            return None
        reader, target = located
        end = target.offset + len(target.line) + 1
        above = _Loader(reader, self.blobs, end, self.fold_version).from_root()
        self.read += above.events_read
        return above.state.conversation

    def _all(self, *, report: bool) -> Iterator[Event]:
        known = self.damage
        if not report:
            self.damage = []
        for item in self.reader.forward():
            if self.end is not None and item.offset >= self.end:
                break
            event = self._usable(item)
            if event is not None:
                yield event
        if not report:
            self.damage = known


def load(
    reader: Reader,
    blobs: BlobReader,
    *,
    end: int | None = None,
    fold_version: int = FOLD_VERSION,
) -> Loaded:
    """The state of a transcript, or of its first `end` bytes (which must end with a line).

    Raises UnreadableVersionError when the transcript asks for a newer reader, StorageError when the
    file can't be read. Damage is reported in the result, never raised.
    """
    return _Loader(reader, blobs, end, fold_version).run()


def load_from_root(
    reader: Reader,
    blobs: BlobReader,
    *,
    end: int | None = None,
    fold_version: int = FOLD_VERSION,
) -> Loaded:
    """The same state without using any checkpoint; what `load` is compared with."""
    return _Loader(reader, blobs, end, fold_version).from_root()


def conversation_at(
    lineage: Lineage, blobs: BlobReader, target_id: str
) -> tuple[Conversation, Event]:
    """The conversation just after an event of a session or of one it was forked from; and the event.

    A message of the model counts together with the answers to its calls, so the event is the last
    of those. Raises UsageError when there is no such event.
    """
    located = lineage.locate(target_id)
    if located is None:
        raise UsageError(
            f"This session has no event {target_id}.",
            remedy="`rewake show` lists the messages with their ids.",
        )
    reader, target = located
    target = _last_answer(reader, blobs, target)
    end = target.offset + len(target.line) + 1
    return load(reader, blobs, end=end).state.conversation, target


def _last_answer(reader: Lineage, blobs: BlobReader, target: Event) -> Event:
    """The last line that answers a call of this message, as long as nothing else was said between."""
    asked = inflate(target, blobs)[0].payload
    if not isinstance(asked, Message) or not tool_calls(asked):
        return target
    last = target
    for item in reader.transcript.forward(target.offset + len(target.line) + 1):
        if not isinstance(item, Event):
            break
        payload = inflate(item, blobs)[0].payload
        if isinstance(payload, Message | Rewind) or _compacts(payload):
            break
        if isinstance(payload, ToolLifecycle) and payload.message_id == target.event_id:
            last = item if payload.status not in {"requested", "started"} else last
    return last


def _compacts(payload: object) -> bool:
    return isinstance(payload, Checkpoint) and payload.kind == "compaction"


def inflate(event: Event, blobs: BlobReader) -> tuple[Event, Damage | None]:
    """The event with its whole payload where that was spilled to a blob.

    A blob that is gone leaves the preview, cut strings and all, and is reported. A checkpoint in it
    has lists that are cut, too, so it gets a fold version that nobody restores.
    """
    payload = event.payload
    if isinstance(payload, Unknown) and payload.problem is not None:
        return event, Damage("unreadable_payload", event.offset, payload.problem)
    if not isinstance(payload, Spilled):
        return event, None
    problem = None
    try:
        raw = blobs.get(payload.blob.sha256)
    except (StorageError, InvalidValueError) as error:
        problem = Damage("missing_blob", event.offset, f"{error.message} Only a preview is left.")
        raw = bytes(payload.preview)
    whole = decode_payload(event.event_type, event.schema_version, raw)
    if problem is not None:
        whole = _not_to_be_restored(whole)
    return msgspec.structs.replace(event, payload=whole), problem


def _not_to_be_restored(payload: _Payload) -> _Payload:
    if isinstance(payload, Checkpoint):
        return msgspec.structs.replace(payload, fold_version=_CUT)
    if isinstance(payload, Rewind | SessionStart) and payload.checkpoint is not None:
        cut = msgspec.structs.replace(payload.checkpoint, fold_version=_CUT)
        return msgspec.structs.replace(payload, checkpoint=cut)
    return payload


def refuse_newer(event: Event) -> None:
    """Raise UnreadableVersionError if this line says that readers like this one must not go on."""
    if isinstance(event.payload, SessionStart | RunStart):
        _refuse_newer(event.payload, event.session_id)


def _refuse_newer(payload: SessionStart | RunStart, session_id: str) -> None:
    if payload.min_reader_version > READER_VERSION:
        raise UnreadableVersionError(
            f"Session {session_id} needs a reader of version {payload.min_reader_version}; "
            f"this Rewake reads version {READER_VERSION}.",
            remedy="Upgrade Rewake to open it; nothing was changed.",
        )
