"""MemoryRead: shows a note, finds notes, or lists them.

The rule kept here: what is shown of a note stands in a frame that nothing in it can close, and says how
old it is; a note that was shown as a whole counts as read, so that it may be changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio.to_thread
import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.recall import when
from rewake.agent.tools.arguments import parse
from rewake.agent.tools.memory import NAME, SCOPE, MemoryStore
from rewake.agent.tools.paths import Target
from rewake.errors import NoteNotFoundError, RewakeError
from rewake.memory.directory import SCOPES, MemoryDirectory, Scope, Stored
from rewake.memory.frame import framed, inert
from rewake.model.content import JsonObject, Text
from rewake.model.events import FileRead, Outcome, ReadOnlyIntent
from rewake.state.text import clip

_LISTED_MAX: Final = 100
_FOUND_MAX: Final = 8


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A note by its name, notes about a query, or the list of all."""

    name: str | None = None
    scope: Scope | None = None
    query: str | None = None


class MemoryReadTool:
    """Shows a note, finds notes, or lists them."""

    read_only = True

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.spec = ToolSpec(
            name="MemoryRead",
            description=(
                "Looks into the notes of earlier sessions: one by its name, those about a query, or the "
                "list of all without arguments. Notes may be out of date: check what you rely on."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "name": NAME,
                    "scope": SCOPE,
                    "query": {"type": "string", "description": "Words that the note is about."},
                },
                "additionalProperties": False,
            },
        )

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        given = parse("MemoryRead", ReadArguments, arguments)
        if given.name is not None and given.query is not None:
            raise ToolInputError("Give a name or a query, not both.")
        about = given.name or given.query
        summary = f"Look up {clip(about, 80)} in memory" if about else "List the notes of memory"
        return Prepared(
            intent=ReadOnlyIntent(), subject=given.name or "", summary=summary, data=given
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the port's
        given = prepared.data
        if not isinstance(given, ReadArguments):
            raise TypeError("this call was not prepared by MemoryRead")
        try:
            return await anyio.to_thread.run_sync(self._shown, given, abandon_on_cancel=True)
        except RewakeError as error:
            return ToolOutput((Text(str(error)),), is_error=True)

    def _shown(self, given: ReadArguments) -> ToolOutput:
        scopes = [given.scope] if given.scope is not None else list(SCOPES)
        directories = [self._store.directories[scope] for scope in scopes]
        if given.name is not None:
            return self._notes(given.name, directories)
        if given.query is not None:
            return ToolOutput((Text(self._found(given.query, directories)),))
        return ToolOutput((Text(self._list(directories)),))

    def _notes(self, name: str, directories: Sequence[MemoryDirectory]) -> ToolOutput:
        found = [(one, one.find(name)) for one in directories]
        parts: list[str] = []
        reads: list[FileRead] = []
        for directory, stored in found:
            if stored is None:
                continue
            parts.append(self._note(stored))
            if not stored.is_cut:
                target = Target(str(directory.place(name)), name)
                reads.append(FileRead(target.text, stored.sha256))
        if not parts:
            raise NoteNotFoundError(
                f"There is no note called {name}.",
                remedy="MemoryRead without arguments lists them.",
            )
        return ToolOutput((Text("\n\n".join(parts)),), outcome=Outcome(reads=tuple(reads)))

    def _note(self, stored: Stored) -> str:
        note = stored.note
        said = {
            "name": note.name,
            "scope": stored.scope,
            "written": when(stored, self._store.now()),
        }
        if note.type:
            said["type"] = note.type
        if stored.is_cut:
            said["cut"] = "only its beginning; it is too long for a note"
        return framed("note", {**said, "description": note.description}, note.body)

    def _found(self, query: str, directories: Sequence[MemoryDirectory]) -> str:
        from rewake.memory.ranking import rank  # a database, which few calls need

        store = self._store
        hits = rank(
            directories,
            query,
            cache=store.cache,
            disk=store.disk,
            limit=_FOUND_MAX,
            every_word=True,
        )
        lines = [self._line(hit.stored) for hit in hits]
        return (
            framed("notes", {"about": query}, "\n".join(lines))
            if lines
            else "No note is about that."
        )

    def _list(self, directories: Sequence[MemoryDirectory]) -> str:
        stored = [note for directory in directories for note in directory.listing().notes]
        lines = [self._line(one) for one in stored[:_LISTED_MAX]]
        if len(stored) > _LISTED_MAX:
            lines.append(f"… {len(stored) - _LISTED_MAX} more; give a query")
        indexes = [
            framed("memory", {"index": directory.scope}, _by_hand(directory.index()))
            for directory in directories
            if _by_hand(directory.index()).strip()
        ]
        listed = framed("notes", {}, "\n".join(lines)) if lines else "There are no notes yet."
        return "\n\n".join([*indexes, listed])

    def _line(self, stored: Stored) -> str:
        said = inert(stored.note.description)
        return f"- {stored.scope}/{stored.name}: {said} ({when(stored, self._store.now())})"


def _by_hand(index: str) -> str:
    """What a person wrote into the index besides the list."""
    lines = [
        line for line in index.split("\n")[:_LISTED_MAX] if not line.lstrip().startswith("- [")
    ]
    text = "\n".join(lines).strip()
    return "" if text == "# Memory" else text
