"""Recovers a session from a disk after a power loss, and compares it with everything promised.

The rule kept here: the truth is looked at before the recovery runs (the bytes of the transcript, the
blobs, the user's files), so a recovery can't hide what it did. A sentence in `Found.broken` is a
broken promise; there must be none.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

import rewake
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.model.codec import Decoder
from rewake.model.content import File, Image
from rewake.model.events import (
    Change,
    Checkpoint,
    Event,
    FileChangeIntent,
    Message,
    Spilled,
    ToolLifecycle,
)
from rewake.testing.power_loss_session import HOME, PROJECT, SESSION_ID
from rewake.testing.provider_rules import violations_anthropic, violations_openai

_ENDED = frozenset({"completed", "failed", "resolved"})


Promise = Literal[
    "acknowledged bytes are there",
    "no damage in the middle",
    "blobs are there before their events",
    "the session loads",
    "interrupted changes have the right verdict",
    "completed changes are there",
    "the next request is valid",
    "a second recovery finds nothing",
]


class Found(msgspec.Struct):
    """What one crash state held: promises that were not kept, and a count of what was met."""

    broken: list[tuple[Promise, str]] = []
    seen: Counter[str] = msgspec.field(default_factory=Counter)

    def breaks(self, promise: Promise, how: str) -> None:
        """Note a promise that was not kept."""
        self.broken.append((promise, how))


class _Log:
    """The crash state's transcript, read without any of the recovery's code but the codec."""

    def __init__(self, raw: bytes) -> None:
        decoder = Decoder(0)
        self.events = [item for item in decoder.feed(raw) if isinstance(item, Event)]
        self.open: dict[str, FileChangeIntent] = {}
        self.completed: dict[str, Change] = {}
        self.since_checkpoint: set[str] = set()
        for event in self.events:
            if isinstance(event.payload, ToolLifecycle):
                self._call(event.payload)
            elif isinstance(event.payload, Checkpoint):
                self.since_checkpoint = set()

    def _call(self, call: ToolLifecycle) -> None:
        if call.status == "started" and isinstance(call.intent, FileChangeIntent):
            self.open[call.call_id] = call.intent
        if call.status not in _ENDED:
            return
        self.open.pop(call.call_id, None)
        for change in call.outcome.changes if call.outcome is not None else ():
            self.completed[change.path] = change
            self.since_checkpoint.add(change.path)


def check(root: Path, whole: bytes, acknowledged: int, *, files_synced: bool = True) -> Found:
    """Check the disk mounted at `root`; `whole` is the transcript as it would have become.

    `acknowledged` bytes of it were promised. Where the tools didn't sync the user's files, a
    completed change may be lost, if the recovery says so. Recovers the session, so it changes the
    disk.
    """
    found = Found()
    transcript = next(
        (root / HOME).glob(f"projects/*/sessions/{SESSION_ID}/transcript.jsonl"), None
    )
    if transcript is None:
        found.seen["before the session"] += 1
        if acknowledged > 0:
            found.breaks("acknowledged bytes are there", f"{acknowledged} are gone with their file")
        return found
    raw = transcript.read_bytes()
    _check_bytes(raw, whole, acknowledged, found)
    log = _Log(raw)
    _check_blobs(log, BlobStore(transcript.parents[2] / "blobs", Disk(), durable=False), found)
    actual = {path: _hash(Path(path)) for path in _paths(log)}
    try:
        with rewake.open_session(root / PROJECT, home=root / HOME, resume=SESSION_ID) as session:
            _check_interrupted(session, log, actual, found)
            _check_completed(session, log, actual, found, files_synced=files_synced)
            _check_request(session, found)
            session.user("Go on.")
        _check_again(root, found)
    except rewake.RewakeError as error:
        found.breaks("the session loads", str(error))
    return found


def _check_bytes(raw: bytes, whole: bytes, acknowledged: int, found: Found) -> None:
    agreeing = _common(raw, whole)
    if agreeing < acknowledged:
        found.breaks("acknowledged bytes are there", f"of {acknowledged} only {agreeing} are right")
    if agreeing == len(raw):
        found.seen["torn tail" if raw and not raw.endswith(b"\n") else "whole lines"] += 1
        return
    found.seen["garbage tail"] += 1
    start = raw.rfind(b"\n", 0, agreeing) + 1
    if any(isinstance(item, Event) for item in Decoder(start).feed(raw[start:])):
        found.breaks(
            "no damage in the middle", f"whole events follow byte {agreeing}, which is wrong"
        )


def _check_blobs(log: _Log, blobs: BlobStore, found: Found) -> None:
    for event in log.events:
        for sha256 in _blobs_named(event):
            try:
                blobs.get(sha256)
                found.seen["blobs named"] += 1
            except rewake.StorageError as error:
                found.breaks("blobs are there before their events", f"event {event.seq}: {error}")


def _blobs_named(event: Event) -> Iterator[str]:
    payload = event.payload
    if isinstance(payload, Spilled):
        yield payload.blob.sha256
    elif isinstance(payload, Message):
        yield from (block.sha256 for block in payload.content if isinstance(block, Image | File))
    elif isinstance(payload, ToolLifecycle):
        intent = payload.intent
        changes = intent.changes if isinstance(intent, FileChangeIntent) else ()
        for change in (*changes, *(payload.outcome.changes if payload.outcome else ())):
            for state in (change.before, change.after):
                if state.sha256 is not None:
                    yield state.sha256


def _paths(log: _Log) -> set[str]:
    started = {change.path for intent in log.open.values() for change in intent.changes}
    return started | log.completed.keys()


def _hash(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _check_interrupted(
    session: rewake.Session, log: _Log, actual: dict[str, str | None], found: Found
) -> None:
    verdicts = {item.call_id: item.resolution.verdict for item in _uncertain(session)}
    for call_id, intent in log.open.items():
        for change in intent.changes:
            truth = _truth(change, actual[change.path])
            found.seen[f"interrupted change {' or '.join(sorted(truth))}"] += 1
            if verdicts.get(call_id) not in truth:
                found.breaks(
                    "interrupted changes have the right verdict",
                    f"{change.path} was {truth}, the verdict says {verdicts.get(call_id)}",
                )


def _truth(change: Change, actual: str | None) -> set[str]:
    if actual == change.after.sha256:
        return {"applied"}
    return {"not_applied"} if actual == change.before.sha256 else {"partial", "unknown"}


def _uncertain(session: rewake.Session) -> tuple[rewake.Settlement, ...]:
    return session.resumed.uncertain if session.resumed is not None else ()


def _check_completed(
    session: rewake.Session,
    log: _Log,
    actual: dict[str, str | None],
    found: Found,
    *,
    files_synced: bool,
) -> None:
    lost = {
        str(item.resolution.evidence.get("path"))
        for item in _uncertain(session)
        if item.resolution.verdict == "lost"
    }
    being_written = {
        change.path: change.after.sha256
        for intent in log.open.values()
        for change in intent.changes
    }
    promise: Promise = "completed changes are there"
    for path, change in log.completed.items():
        if actual[path] in {change.after.sha256, being_written.get(path, change.after.sha256)}:
            found.seen["completed change kept"] += 1
            if path in lost:
                found.breaks(promise, f"{path} is called lost and is there")
        elif files_synced:
            found.breaks(promise, f"{path} isn't as its completed call left it")
        elif path in lost:
            found.seen["completed change lost, and said so"] += 1
        elif path in log.since_checkpoint and path not in being_written:
            found.breaks(promise, f"{path} isn't as it was left, and nobody says so")
        else:
            found.seen["completed change lost before the checkpoint"] += 1


def _check_request(session: rewake.Session, found: Found) -> None:
    messages = session.view()
    if not messages:
        return
    openai = {"model": "m", "messages": rewake.openai_messages(messages, session.blobs.get)}
    anthropic = {
        "model": "m",
        "max_tokens": 1,
        "messages": rewake.anthropic_messages(messages, session.blobs.get),
    }
    refused = violations_openai(openai) + violations_anthropic(anthropic)
    for why in refused:
        found.breaks("the next request is valid", why)


def _check_again(root: Path, found: Found) -> None:
    """The recovery itself is durable and whole: a second one finds nothing to do."""
    again = rewake.resume(SESSION_ID, project=root / PROJECT, home=root / HOME)
    if again.pending or any(item.resolution.verdict != "lost" for item in again.uncertain):
        found.breaks("a second recovery finds nothing", "calls that the first one left open")
    if len(again.damage) > 1:
        found.breaks("a second recovery finds nothing", "; ".join(map(str, again.damage)))


def _common(one: bytes, other: bytes) -> int:
    """How many bytes agree from the beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
