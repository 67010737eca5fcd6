"""Memory: notes that outlive the session, written, changed and forgotten by the agent.

The rules kept here:

- A change goes the way of every change of a file: intent first, outcome after, the reason on record; so it
  is settled after a crash and can be rewound.
- A note that is there was read by the model before it changes it, and is as it was then.
- What looks like a secret isn't written: a note is plain text that goes into later prompts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.tools.arguments import parse
from rewake.agent.tools.diff import unified_diff
from rewake.agent.tools.paths import Target
from rewake.errors import (
    NoteConflictError,
    NoteNotFoundError,
    RewakeError,
    StorageError,
    UsageError,
)
from rewake.log.disk import FILE_MODE, Disk
from rewake.memory.directory import (
    SCOPES,
    Changed,
    MemoryDirectory,
    Scope,
    Stored,
    Written,
    note_bytes,
)
from rewake.memory.likeness import alike
from rewake.memory.note import DESCRIPTION_BYTES_MAX, TYPES, Note, checked_note_name, with_source
from rewake.model.content import JsonObject, Text
from rewake.model.events import (
    Change,
    FileChangeIntent,
    FileRead,
    FileState,
    Outcome,
)
from rewake.state.text import clip

SCOPE: Final[JsonObject] = {
    "type": "string",
    "enum": list(SCOPES),
    "description": "project: for this project; user: for everything this user does.",
}
NAME: Final[JsonObject] = {
    "type": "string",
    "description": "Its name: small letters, digits and dashes, such as release-steps.",
}


@dataclass(frozen=True, slots=True)
class MemoryStore:
    """The directories, and what is needed to write in them.

    `secrets_in` names the kinds of secrets in a text. `session_id` is noted as where a note is from.
    """

    directories: Mapping[Scope, MemoryDirectory]
    session_id: str
    now: Callable[[], datetime]
    secrets_in: Callable[[str], Sequence[str]]
    disk: Disk
    cache: Path | None = None


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What Memory is asked to do."""

    action: Literal["write", "update", "forget"]
    scope: Scope
    name: str
    reason: str
    description: str | None = None
    content: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    action: Literal["write", "update", "forget"]
    directory: MemoryDirectory
    note: Note
    base: str | None
    target: Target
    like: tuple[str, ...]


class MemoryTool:
    """Writes, changes and forgets notes."""

    read_only = False

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.spec = ToolSpec(
            name="Memory",
            description=(
                "Keeps notes that outlive this session and come back by themselves when a later prompt is "
                "about them. Write down what will still be true and useful then and can't be seen in the "
                "code: decisions and their reasons, the user's preferences, how something is done here. "
                "One subject a note. Not for the work at hand (use TodoWrite), and never for keys or "
                "passwords. write makes a new note, update changes one that you have read with "
                "MemoryRead (what you leave out stays), forget removes one."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["write", "update", "forget"]},
                    "scope": SCOPE,
                    "name": NAME,
                    "reason": {
                        "type": "string",
                        "description": "Why this is worth keeping, changing or forgetting.",
                    },
                    "description": {
                        "type": "string",
                        "description": "One line: what the note is about. It decides when it comes back.",
                    },
                    "content": {"type": "string", "description": "The note, in Markdown."},
                    "type": {"type": "string", "description": f"One of: {', '.join(TYPES)}."},
                },
                "required": ["action", "scope", "name", "reason"],
                "additionalProperties": False,
            },
        )

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:
        given = parse("Memory", Arguments, arguments)
        if not given.reason.strip():
            raise ToolInputError("Give a reason.")
        directory = self._store.directories[given.scope]
        try:
            plan, before, data = self._planned(given, directory, call_id, context)
        except StorageError:
            raise
        except RewakeError as error:
            raise ToolInputError(str(error)) from error
        if before is not None:
            context.blobs.put(before.data)
        shown = f"{given.scope}/{plan.note.name}.md"
        change = Change(
            plan.target.text,
            _state(before.data, before.mode) if before is not None else FileState(),
            _state_put(context, data, before.mode if before is not None else FILE_MODE),
            plan.target.base64,
        )
        verb = {"write": "Remember", "update": "Change", "forget": "Forget"}[given.action]
        return Prepared(
            intent=FileChangeIntent((change,)),
            subject=shown,
            summary=f"{verb} the {given.scope} note {plan.note.name}: {clip(given.reason, 120)}",
            preview=unified_diff(shown, before.data if before is not None else None, data or b""),
            serial_keys=(str(directory.path),),
            is_for_all_projects=given.scope == "user",
            data=plan,
        )

    def _planned(
        self, given: Arguments, directory: MemoryDirectory, call_id: str, context: ToolContext
    ) -> tuple[_Plan, Stored | None, bytes | None]:
        """The plan, the note before and the bytes after. Raises RewakeError, ToolInputError."""
        before = directory.find(given.name)
        target = Target(str(directory.place(given.name)), given.name)
        if before is None and given.action != "write":
            raise NoteNotFoundError(
                f"There is no {given.scope} note called {given.name}.",
                remedy="MemoryRead without arguments lists them.",
            )
        if before is not None:
            _require_read(before, target, given, context)
        note = self._note(given, before, call_id)
        like: tuple[str, ...] = ()
        if given.action == "forget":
            data = None
        else:
            self._refuse_secrets(note)
            data = note_bytes(note)
            if before is None:
                like = tuple(alike(note, directory.listing().notes))
        base = before.sha256 if before is not None else None
        return _Plan(given.action, directory, note, base, target, like), before, data

    def _note(self, given: Arguments, before: Stored | None, call_id: str) -> Note:
        today = self._store.now().date().isoformat()
        if before is None:
            old = Note(checked_note_name(given.name), "", "", created=today)
        else:
            old = replace(before.note, updated=today)
        if given.action == "write" and not (given.content and given.description):
            raise ToolInputError("A new note needs a description and a content.")
        note = replace(
            old,
            description=clip(given.description or old.description, DESCRIPTION_BYTES_MAX),
            body=given.content if given.content is not None else old.body,
            type=clip(given.type, 40) if given.type is not None else old.type,
        )
        return with_source(note, f"{self._store.session_id}/{call_id}")

    def _refuse_secrets(self, note: Note) -> None:
        kinds = self._store.secrets_in(f"{note.description}\n{note.body}")
        if kinds:
            raise ToolInputError(
                f"This looks like a secret ({', '.join(kinds)}), and notes are plain text that goes into "
                "later prompts. Leave it out, and say where it is kept instead. Only the user can "
                "override this: rewake memory edit --allow-secrets."
            )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        # In this thread on purpose: a cancelled task must not leave a write going on behind it.
        plan = prepared.data
        if not isinstance(plan, _Plan):
            raise TypeError("this call was not prepared by Memory")
        try:
            if plan.action == "forget":
                changed = plan.directory.forget(plan.note.name, plan.base)
            else:
                changed = plan.directory.write(plan.note, plan.base)
        except (NoteConflictError, NoteNotFoundError, UsageError) as error:
            return ToolOutput((Text(f"{error} Nothing was written."),), is_error=True)
        except StorageError as error:
            # Whether it is there is for the evidence to say; the session itself can still be recorded.
            raise OSError(str(error)) from error
        return ToolOutput((Text(_told(plan, changed)),), outcome=_outcome(plan, changed, context))


def _require_read(before: Stored, target: Target, given: Arguments, context: ToolContext) -> None:
    """The lock: a note is changed by who has seen it as it is now."""
    if given.action == "write":
        raise ToolInputError(
            f"There is a {given.scope} note called {given.name} already. Read it with MemoryRead, then "
            "update it, or take another name."
        )
    known = context.files.read_hash(target.text)
    if known is None:
        raise ToolInputError(f"Read the note {given.name} with MemoryRead first.")
    if known != before.sha256:
        raise ToolInputError(
            f"The note {given.name} has changed since you read it. Read it again, then change it."
        )


def _state(data: bytes, mode: int) -> FileState:
    return FileState("file", hashlib.sha256(data).hexdigest(), len(data), mode)


def _state_put(context: ToolContext, data: bytes | None, mode: int) -> FileState:
    """The state of a file with this content, which is a durable blob when this returns."""
    return (
        FileState("file", context.blobs.put(data), len(data), mode)
        if data is not None
        else FileState()
    )


def _outcome(plan: _Plan, changed: Changed, context: ToolContext) -> Outcome:
    """What was changed: the note, and the index as it was brought along."""
    changes = tuple(_change(written, context) for written in changed.files)
    after = changes[0].after.sha256
    reads = (FileRead(plan.target.text, after),) if after is not None else ()
    return Outcome(changes=changes, reads=reads)


def _change(written: Written, context: ToolContext) -> Change:
    target = Target(str(written.path), written.path.name)
    before = _state_put(context, written.before, written.mode)
    return Change(
        target.text, before, _state_put(context, written.after, written.mode), target.base64
    )


def _told(plan: _Plan, changed: Changed) -> str:
    name, scope = plan.note.name, plan.directory.scope
    done = {"write": "Remembered", "update": "Changed", "forget": "Forgot"}[plan.action]
    parts = [f"{done} the {scope} note {name}."]
    if plan.like:
        parts.append(
            f"It says about the same as {', '.join(plan.like)}: propose to the user to join them."
        )
    if changed.problem:
        parts.append(f"The index is not up to date: {changed.problem}.")
    return " ".join(parts)
