"""What the transcript of a sub-agent says: how far it came, what it answered, what it did.

The rules kept here:

- A sidechain is the truth about its agent; the record beside it only spares a list the reading.
- Ids order the lines of parent and children, so what an agent did for a call is what its transcript has
  after the call's id.
- An agent whose last word is an answer has finished, also when it died before it could say so: it is
  never asked again for what it has given already.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from rewake.errors import RewakeError, StorageError
from rewake.log.disk import storage_error
from rewake.log.layout import checked_name
from rewake.log.scan import Transcript
from rewake.model.content import Usage, plain_text
from rewake.model.events import AgentEvent, Event, ToolLifecycle
from rewake.resume import shell
from rewake.resume.load import BlobReader, Loaded, inflate, load
from rewake.state.fold import SessionState
from rewake.state.world import World

SidechainState = Literal["absent", "idle", "done", "failed", "open", "unreadable"]
_SEPARATOR: Final = re.compile(r"[ ._(-]")
# What a line that is no more may be the reason for; a torn one was never acknowledged.
_LOSSES: Final = frozenset({"corrupt_line", "missing_event", "missing_parent", "foreign_session"})
_DONE: Final = "done"
CUT_SHORT: Final = frozenset({"interrupted", "terminated", "hangup"})
"""Ends of a run from outside; any other than `done` is the agent's own failure."""


class Sidechain(msgspec.Struct, frozen=True):
    """How far an agent came with a call.

    `absent`: it has no transcript; `idle`: it was not given this task yet; `done`: `answer` is its
    last word; `failed`: it ended by itself, `reason` says why; `open`: it was cut short;
    `unreadable`: `reason` says what is wrong. `steps` counts its model calls, those for earlier
    tasks included. `running` names the commands that it left in the background, where that was asked.
    """

    agent_id: str
    state: SidechainState
    answer: str = ""
    reason: str = ""
    steps: int = 0
    running: tuple[str, ...] = ()


class Blobs:
    """A function that reads blobs, as the reader that loading wants."""

    def __init__(self, read: Callable[[str], bytes] | None) -> None:
        self._read = read

    def get(self, sha256: str) -> bytes:
        """The bytes. Raises StorageError."""
        if self._read is None:
            raise StorageError(f"The blob {sha256} is elsewhere.", path="", remedy="")
        return self._read(sha256)


def sidechain_path(session_directory: Path, agent_id: str) -> Path:
    """Where an agent's transcript is. Raises UsageError for an id that is no name of a file."""
    return session_directory / "agents" / f"{checked_name(agent_id)}.jsonl"


def look(path: Path, agent_id: str, blobs: BlobReader, *, since: str = "") -> Sidechain:
    """How far the agent came with the call of the id `since`. Never raises."""
    if not os.path.lexists(path):
        return Sidechain(agent_id, "absent")
    try:
        with Transcript(path) as reader:
            loaded = load(reader, blobs)
    except (OSError, RewakeError) as error:
        return Sidechain(agent_id, "unreadable", reason=str(error))
    running = tuple(_running(loaded.state.world, path.parents[1]))
    return msgspec.structs.replace(found_in(loaded, agent_id, since=since), running=running)


def _running(world: World, session_directory: Path) -> Iterator[str]:
    """The commands that the agent left in the background and that still run."""
    for command in world.commands.values():
        directory = session_directory / command.output_directory
        if command.state != "running" or not shell.is_below(directory, session_directory):
            continue
        with contextlib.suppress(OSError):  # its directory can't be read: nothing is known of it
            if shell.state_of(directory).state == "running":
                yield f"{command.short_id} ({command.command})"


def found_in(loaded: Loaded, agent_id: str, *, since: str = "") -> Sidechain:
    """The same of a transcript that is loaded already."""
    conversation, world = loaded.state.conversation, loaded.state.world
    prompt = conversation.newest_prompt
    if loaded.newest is None or prompt is None or prompt < since:
        lost = [str(damage) for damage in loaded.damage if damage.kind in _LOSSES]
        if lost:  # the task may have stood there, and all that was done for it
            why = lost[0] + (f" (and {len(lost) - 1} more)" if lost[1:] else "")
            return Sidechain(agent_id, "unreadable", reason=why, steps=world.step)
        return Sidechain(agent_id, "idle", steps=world.step)
    state, reason = _ending(loaded.state)
    answer = last_words(loaded.state)
    return Sidechain(agent_id, state, answer, reason, world.step)


def _ending(state: SessionState) -> tuple[SidechainState, str]:
    terminal = state.world.terminal
    if terminal is not None and terminal.reason == _DONE:
        return "done", ""
    if terminal is not None and terminal.reason not in CUT_SHORT:
        return "failed", str(terminal.details.get("error") or terminal.reason.replace("_", " "))
    return ("done", "") if terminal is None and has_answered(state) else ("open", "")


def has_answered(state: SessionState) -> bool:
    """Whether the last word is a whole answer, with nothing left at work."""
    conversation, world = state.conversation, state.world
    last = conversation.last_assistant()
    return (
        conversation.ends_with_answer()
        and last is not None
        and last.message.stop_reason not in {"length", "interrupted"}
        and not any(agent.is_at_work for agent in world.open_agents.values())
    )


def last_words(state: SessionState) -> str:
    """The text of the newest answer that has one."""
    for entry in reversed(state.conversation.entries):
        if entry.message.role == "assistant":
            said = plain_text(entry.message.content).strip()
            if said:
                return said
    return ""


def told(found: Sidechain) -> str:
    """What the model is told of an agent that has ended; it learns the id for a further question."""
    steps = f"{found.steps} step{'s' * (found.steps != 1)} in all"
    foot = f"[rewake] Agent {found.agent_id}: {steps}.{left_running(found)}"
    if found.state == "done":
        return f"{found.answer or '(it gave no answer)'}\n\n{foot}"
    return (
        f"The agent did not finish: {found.reason.rstrip('.')}.{in_its_words(found)}\n\n{foot} Task "
        "with resume goes on with it."
    )


def left_running(found: Sidechain) -> str:
    """What it left in the background, to be put at the end of a sentence about it."""
    if not found.running:
        return ""
    return (
        f" Commands of its own still run in the background: {', '.join(found.running)}. Only that "
        "agent can read or end them: Task with resume."
    )


def in_its_words(found: Sidechain) -> str:
    """What it said last, to be put at the end of a sentence about it."""
    return f"\n\nIts last words:\n{found.answer}" if found.answer else ""


# --- what it did since -----------------------------------------------------------------------


class Since(msgspec.Struct, frozen=True):
    """The events of a sidechain after an id, whole and in order, and the tokens that they cost."""

    events: tuple[Event, ...]
    usage: Usage


def events_since(path: Path, blobs: BlobReader, since: str) -> Since:
    """What an agent recorded after the event `since`; reads back no further. Raises StorageError."""
    found: list[Event] = []
    try:
        with Transcript(path) as reader:
            for item in reader.backward():
                if not isinstance(item, Event):
                    continue
                if item.event_id <= since:
                    break
                found.append(inflate(item, blobs)[0])
    except FileNotFoundError:
        return Since((), Usage())
    except OSError as error:
        raise storage_error(error, path, "read") from error
    found.reverse()
    world = World()
    for event in found:
        world.apply(event)
    return Since(tuple(found), world.usage)


def has_changes(events: tuple[Event, ...]) -> bool:
    """Whether any of the events can have changed a file."""
    return any(_may_change(event) for event in events)


def _may_change(event: Event) -> bool:
    payload = event.payload
    if isinstance(payload, AgentEvent):
        return bool(payload.changes)
    if not isinstance(payload, ToolLifecycle):
        return False
    outcome = payload.outcome
    return payload.resolution is not None or bool(outcome is not None and outcome.changes)


def agent_files(session_directory: Path) -> Iterator[Path]:
    """The transcripts of a session's agents, by id; none where there is no such directory.

    What a repair kept beside one, and copies by a cloud sync, are no agents.
    """
    try:
        found = sorted((session_directory / "agents").glob("*.jsonl"))
    except OSError:
        return  # nothing of it can be read; `check` says so
    stems = {path.stem for path in found}
    for path in found:
        beginnings = (path.stem[: place.start()] for place in _SEPARATOR.finditer(path.stem))
        if not stems.intersection(beginnings):
            yield path
