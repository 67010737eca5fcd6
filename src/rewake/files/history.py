"""The file history of a session, from its transcript alone.

The rules kept here: the world's clock counts, so what a branch changed that was left later counts as
well, in the order of the file; a fork has its origin's changes up to where it started, by reference;
and nothing is kept that the events don't say, so any number of readers find the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from rewake.files.names import change as make_change
from rewake.files.names import same, same_content
from rewake.files.weave import Strand, weave
from rewake.model.events import (
    AgentEvent,
    Change,
    Event,
    FileChangeIntent,
    FileState,
    Message,
    OtherIntent,
    Rewind,
    RunStart,
    SessionStart,
    ShellIntent,
    ToolLifecycle,
)
from rewake.resume.chain import path_of
from rewake.resume.lineage import Lineage
from rewake.resume.load import BlobReader, inflate

COPIED_FROM: Final = "copied_from"
"""In the project of a session's first line: the root whose files its own are a copy of."""

WHILE_IN_BACKGROUND: Final = "while_in_background"
"""In the details of an outcome: its changes are what was found while a command ran by itself."""

_DOUBTFUL: Final = frozenset({"partial", "unknown"})


class Recorded(msgspec.Struct, frozen=True):
    """What one event says was changed. `doubtful`: it may have happened, wholly or in part.

    `began_id` is the event with which the call or the sub-agent began: what else is on record from
    there on happened at the same time. `background`: the changes are all that was found while a command
    ran in the background, so that some may be somebody else's. `scanned`: its changes were found by
    scans, which don't see what they don't cover.
    """

    event_id: str
    session_id: str
    changes: tuple[tuple[bytes, Change], ...]
    tool_name: str = ""
    call_id: str = ""
    doubtful: bool = False
    background: bool = False
    not_covered: tuple[str, ...] = ()
    began_id: str = ""
    scanned: bool = False


class Folded(msgspec.Struct, frozen=True):
    """A path over a stretch of history: what it was, and what the agent left.

    `mixed`: somebody else changed it between two changes of the agent, so that going back would take
    that along. `doubtful`: whether the last change happened isn't known. `background`: one of the
    changes may be a background command's or somebody else's.
    """

    path: bytes
    before: FileState
    after: FileState
    first_id: str
    last_id: str
    mixed: bool = False
    doubtful: bool = False
    background: bool = False


def recorded(
    reader: Lineage,
    blobs: BlobReader,
    *,
    root: Path | None = None,
    after: str = "",
    until: str = "",
) -> Iterator[Recorded]:
    """Every event with changes in file order, those of origins first.

    Only events after the id `after` and up to `until` (inclusive), where given. With `root`, paths of
    a project that has moved since are those at its root now. Events that can't be read are skipped:
    `rewake check` reports them.
    """
    if reader.origin is not None and reader.is_inherited(after or "0"):
        above = reader.ancestor()
        if above is not None:
            end = min(filter(None, (until, reader.origin.event_id)))
            yield from _inherited(reader, above, blobs, root=root, after=after, until=end)
    moved = _Moved(root)
    started: dict[str, _Started] = {}
    seen: set[str] = set()
    for item in reader.forward():
        if not isinstance(item, Event) or item.event_id in seen:
            continue
        if until and item.event_id > until:
            break
        if item.event_type not in _RELEVANT:
            continue
        seen.add(item.event_id)
        event, _ = inflate(item, blobs)
        moved.hear(event)
        found = _changes(event, started)
        if found is not None and event.event_id > after:
            yield _placed(found, moved)


def _inherited(
    reader: Lineage,
    above: Lineage,
    blobs: BlobReader,
    *,
    root: Path | None,
    after: str,
    until: str,
) -> Iterator[Recorded]:
    """The changes of a fork's origin; those of a fork that took a copy of the files, in the copy."""
    start = next(iter(reader.forward()), None)
    payload = start.payload if isinstance(start, Event) else None
    project = payload.project if isinstance(payload, SessionStart) else {}
    there, here = project.get(COPIED_FROM), project.get("root")
    if not isinstance(there, str) or not isinstance(here, str):
        yield from recorded(above, blobs, root=root, after=after, until=until)
        return
    moved = _Moved(root)
    if isinstance(start, Event):
        moved.hear(start)
    for found in recorded(above, blobs, root=Path(there), after=after, until=until):
        yield _placed(relocated(found, Path(there), Path(here)), moved)


def relocated(found: Recorded, there: Path, here: Path) -> Recorded:
    """The same changes, of the paths below `there` as they are called below `here`."""
    old, new = os.fsencode(there) + b"/", os.fsencode(here) + b"/"
    changes = tuple(
        (new + path[len(old) :] if path.startswith(old) else path, change)
        for path, change in found.changes
    )
    return msgspec.structs.replace(found, changes=changes)


_BEGINNINGS: Final = frozenset({"spawned", "resumed"})
_RELEVANT: Final = frozenset({"session", "run", "tool_lifecycle", "rewind", "agent"})


class _Started(NamedTuple):
    """Where a call or a sub-agent began, and what a file tool meant to change."""

    event_id: str
    intent: FileChangeIntent | None = None
    scanned: bool = False


def _changes(event: Event, started: dict[str, _Started]) -> Recorded | None:
    payload = event.payload
    if isinstance(payload, Rewind):
        return _record(event, payload.changes, tool_name="rewind")
    if isinstance(payload, AgentEvent):
        return _changes_of_agent(event, payload, started)
    if not isinstance(payload, ToolLifecycle):
        return None
    call_id = payload.call_id or event.event_id
    if payload.status in {"requested", "started"}:
        intent = payload.intent if isinstance(payload.intent, FileChangeIntent) else None
        scanned = isinstance(payload.intent, ShellIntent | OtherIntent)
        started[call_id] = _Started(event.event_id, intent, scanned)
        return None
    began_id, intent, scanned = started.pop(call_id, _Started(event.event_id))
    outcome = payload.outcome
    made = outcome.changes if outcome is not None else ()
    missed = outcome.details.get("not_covered") if outcome is not None else None
    verdict = payload.resolution.verdict if payload.resolution is not None else None
    doubtful = verdict in _DOUBTFUL and intent is not None and not made
    if doubtful and intent is not None:
        made = intent.changes
    name = payload.tool_name
    found = _record(event, made, tool_name=name, call_id=call_id, began_id=began_id, missed=missed)
    shared = outcome is not None and bool(outcome.details.get(WHILE_IN_BACKGROUND))
    if found is None and scanned:
        found = Recorded(event.event_id, event.session_id, (), name, call_id, began_id=began_id)
    if found is None:
        return None
    return msgspec.structs.replace(found, doubtful=doubtful, background=shared, scanned=scanned)


def _changes_of_agent(
    event: Event, payload: AgentEvent, started: dict[str, _Started]
) -> Recorded | None:
    """What a sub-agent did for the call that it worked for."""
    began = started.get(payload.agent_id)
    if began is None or payload.status in _BEGINNINGS:
        began = started[payload.agent_id] = _Started(event.event_id)
    name, call_id = payload.agent_type or "agent", payload.call_id
    return _record(event, payload.changes, tool_name=name, call_id=call_id, began_id=began.event_id)


def _record(
    event: Event,
    changes: Iterable[Change],
    *,
    tool_name: str,
    began_id: str = "",
    call_id: str = "",
    missed: object = None,
) -> Recorded | None:
    placed = []
    for change in changes:
        try:
            placed.append((path_of(change), change))
        except ValueError:
            continue  # a damaged path names no file
    told = tuple(_sentences(missed))
    if not placed and not told:
        return None
    return Recorded(
        *(event.event_id, event.session_id, tuple(placed), tool_name, call_id),
        not_covered=told,
        began_id=began_id,
    )


def _sentences(missed: object) -> Iterator[str]:
    for item in missed if isinstance(missed, list) else ():
        if isinstance(item, dict):
            paths = item.get("paths")
            listed = ", ".join(map(str, paths)) if isinstance(paths, list) else ""
            yield f"{item.get('reason', '')}: {listed}"


class _Moved:
    """Where the project was when an event was written, if it isn't there any more."""

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._from: bytes | None = None

    def hear(self, event: Event) -> None:
        """A run says where it works."""
        payload = event.payload
        if self._root is None or not isinstance(payload, RunStart | SessionStart):
            return
        told = payload.cwd if isinstance(payload, RunStart) else payload.project.get("root")
        if isinstance(told, str) and told:
            there = Path(told)
            is_here = there == self._root or os.path.exists(there)  # noqa: PTH110  # never raises
            self._from = None if is_here else os.fsencode(there)

    def place(self, path: bytes) -> bytes:
        """The path where the project is now."""
        if self._from is None or self._root is None or not path.startswith(self._from + b"/"):
            return path
        return os.fsencode(self._root) + path[len(self._from) :]


def _placed(found: Recorded, moved: _Moved) -> Recorded:
    changes = tuple((moved.place(path), change) for path, change in found.changes)
    return msgspec.structs.replace(found, changes=changes)


def not_covered(events: Iterable[Recorded], after: str) -> tuple[str, ...]:
    """What calls after an event may have changed without a trace here, as sentences.

    It is told once in a process, so what was told before counts too, if something was scanned since.
    """
    listed = list(events)
    if not any(event.event_id > after and (event.scanned or event.not_covered) for event in listed):
        return ()
    newest: dict[str, str] = {}
    for event in listed:
        for told in event.not_covered:
            newest[told.partition(":")[0]] = told
    return tuple(newest.values())


# --- folding ---------------------------------------------------------------------------------


def fold(events: Iterable[Recorded]) -> dict[bytes, Folded]:
    """Per path: the state before its first change and after its last one.

    A path that is again what it was stays listed, since somebody may have changed it since.
    """
    strands: dict[bytes, list[Strand]] = {}
    background: set[bytes] = set()
    for event in events:
        began_id = event.began_id or event.event_id
        for path, change in event.changes:
            if event.background:
                background.add(path)
            strands.setdefault(path, []).append(
                Strand(began_id, event.event_id, change.before, change.after, event.doubtful)
            )
    return {
        path: _folded(path, listed, background=path in background)
        for path, listed in strands.items()
    }


def _folded(path: bytes, strands: list[Strand], *, background: bool) -> Folded:
    woven = weave(strands)
    first, last = strands[0], strands[-1]
    ids = (first.event_id, last.event_id)
    return Folded(path, *woven[:2], *ids, woven.mixed, last.doubtful, background)


def net_changes(events: Iterable[Event], blobs: BlobReader) -> tuple[Change, ...]:
    """What events did to files in sum: per path first before and last after.

    Where somebody else changed a file in between, its changes stay apart, so that nobody takes that
    for the agent's own.
    """
    started: dict[str, _Started] = {}
    found = [_changes(inflate(event, blobs)[0], started) for event in events]
    heard = [one for one in found if one is not None]
    net: list[Change] = []
    for path, folded in fold(heard).items():
        if folded.mixed:
            made = [change for one in heard for at, change in one.changes if at == path]
            net += _joined(made)
        elif not same(folded.before, folded.after):
            net.append(make_change(path, folded.before, folded.after))
    return tuple(net)


def _joined(changes: Iterable[Change]) -> Iterator[Change]:
    """Each stretch of one path's changes in which each begins with what the one before had left."""
    last: Change | None = None
    for change in changes:
        if last is not None and same_content(last.after, change.before):
            last = msgspec.structs.replace(last, after=change.after)
            continue
        if last is not None:
            yield last
        last = change
    if last is not None:
        yield last


def changes_since(
    reader: Lineage, blobs: BlobReader, message_id: str, *, root: Path | None = None
) -> dict[bytes, Folded]:
    """What has been changed after a message (any event), whatever became of its branch."""
    return fold(recorded(reader, blobs, root=root, after=message_id))


def user_messages(reader: Lineage) -> list[tuple[str, str]]:
    """The messages that people wrote, with their time: each is a point to which files can go back."""
    found: list[tuple[str, str]] = []
    above = reader.ancestor()
    if above is not None and reader.origin is not None:
        end = reader.origin.event_id
        found = [point for point in user_messages(above) if point[0] <= end]
    found.extend(
        (item.event_id, item.timestamp)
        for item in reader.forward()
        if isinstance(item, Event) and _is_prompt(item)
    )
    return found


def _is_prompt(event: Event) -> bool:
    payload = event.payload
    if event.event_type != "message":
        return False
    return not isinstance(payload, Message) or (payload.role == "user" and not payload.source)


def paths_changed(reader: Lineage, blobs: BlobReader, *, root: Path | None = None) -> set[bytes]:
    """Every path that the session has ever changed."""
    return {path for event in recorded(reader, blobs, root=root) for path, _ in event.changes}
