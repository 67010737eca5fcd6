"""`rewake memory`: the notes of the user and of the project, listed, shown, edited, searched, forgotten.

The rules kept here: what a person has typed is never lost (a draft that can't be kept stays, and is named);
nothing is forgotten that wasn't named; and what could be joined is said, never done.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from rewake.cli.amounts import confirm
from rewake.cli.editor import chosen_editor, is_edited
from rewake.cli.terminal import clean, fit, let_readers_leave, note, one_line, say, style_for
from rewake.compose.memory import (
    find_note,
    forget_note,
    now,
    read_note,
    search_notes,
    write_note,
)
from rewake.compose.memory import notes as all_notes
from rewake.errors import RewakeError, UsageError
from rewake.memory.directory import Scope, Stored
from rewake.memory.note import NOTE_BYTES_MAX, Note, checked_note_name, parse_note, render_note
from rewake.memory.ranking import Hit
from rewake.model.content import JsonObject
from rewake.screentext import age

Act = Literal["list", "show", "edit", "search", "forget"]
ACTS: Final[dict[str, Act]] = {
    "list": "list",
    "show": "show",
    "edit": "edit",
    "search": "search",
    "forget": "forget",
}
_NAME_COLUMNS: Final = 28
_DESCRIPTION_COLUMNS: Final = 90
_SCOPES: Final[dict[str, Scope]] = {"user": "user", "project": "project"}


@dataclass(frozen=True, slots=True)
class MemoryChoices:
    """What was asked for besides names; None leaves it as it is."""

    scope: str | None = None
    file: str | None = None
    description: str | None = None
    kind: str | None = None
    allow_secrets: bool = False
    yes: bool = False
    limit: int | None = None


def memory(
    act: str, words: Sequence[str], cwd: Path | None, choices: MemoryChoices, *, as_json: bool
) -> int:
    """Do it; returns the exit status. Raises UsageError, NoteNotFoundError, NoteConflictError."""
    project = cwd or Path()
    match ACTS.get(act):
        case "list":
            let_readers_leave()
            _list(project, choices, as_json=as_json)
        case "search":
            let_readers_leave()
            _search(" ".join(words), project, choices, as_json=as_json)
        case "show":
            let_readers_leave()
            for name in _named(words):
                _show(name, project, choices, as_json=as_json)
        case "edit":
            (name, *more) = _named(words)
            if more:
                raise UsageError("One note is edited at a time.", remedy="Give one name.")
            _edit(name, project, choices, as_json=as_json)
        case "forget":
            _forget(_named(words), project, choices, as_json=as_json)
        case None:
            raise UsageError(
                f"{act!r} is nothing that can be done with memory.",
                remedy=f"There are: {', '.join(ACTS)}.",
            )
    return 0


def _named(words: Sequence[str]) -> Sequence[str]:
    if not words:
        raise UsageError(
            "No note is named.", remedy="Give its name; `rewake memory list` has them."
        )
    return words


def _scope(choices: MemoryChoices) -> Scope | None:
    return _SCOPES[choices.scope] if choices.scope is not None else None


# --- looking ---------------------------------------------------------------------------------


def _list(project: Path, choices: MemoryChoices, *, as_json: bool) -> None:
    found = all_notes(project, scope=_scope(choices))
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(
            {
                "notes": [_object(stored) for stored in found.notes],
                "problems": [{"path": path, "reason": why} for path, why in found.problems],
                "proposals": [
                    {"kind": one.kind, "scope": one.scope, "names": one.names, "reason": one.reason}
                    for one in found.proposals
                ],
            }
        )
        return
    for path, why in found.problems:
        note(f"{path} is no note: {why}.")
    style, today = style_for(sys.stdout), now()
    for stored in found.notes:
        name = f"{one_line(stored.scope)}/{one_line(stored.name)}"
        when = _when(stored, today)
        said = fit(stored.note.description, _DESCRIPTION_COLUMNS)
        say(f"{name:<{_NAME_COLUMNS}}  {style.dim(f'{when:>8}')}  {said}")
    if not found.notes:
        say("There are no notes yet. The agent keeps them, and so does `rewake memory edit NAME`.")
    if found.proposals:
        say(style.dim("Worth a look:"))
    for one in found.proposals:
        names = ", ".join(f"{one_line(one.scope)}/{one_line(name)}" for name in one.names)
        say(style.dim(f"  {names}: {one.reason}"))


def _object(stored: Stored) -> JsonObject:
    said = stored.note
    return {
        "scope": stored.scope,
        "name": stored.name,
        "description": said.description,
        "type": said.type or None,
        "created": said.created or None,
        "updated": said.updated or None,
        "sources": list(said.sources),
        "path": str(stored.path),
        "sha256": stored.sha256,
        "bytes": stored.size,
    }


def _show(name: str, project: Path, choices: MemoryChoices, *, as_json: bool) -> None:
    stored = read_note(name, project, scope=_scope(choices))
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json({**_object(stored), "body": stored.note.body})
        return
    style = style_for(sys.stdout)
    say(style.dim(clean(str(stored.path))))
    say(clean(stored.data.decode("utf-8", "replace")).rstrip("\n"))


def _search(query: str, project: Path, choices: MemoryChoices, *, as_json: bool) -> None:
    if not query.strip():
        raise UsageError("There is no word to search for.", remedy="Give one.")
    hits = search_notes(query, project, scope=_scope(choices), limit=choices.limit or 10)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json({"hits": [_hit_object(hit) for hit in hits]})
        return
    style = style_for(sys.stdout)
    for hit in hits:
        name = f"{one_line(hit.stored.scope)}/{one_line(hit.stored.name)}"
        words = ", ".join(one_line(word) for word in hit.words)
        mark = "" if hit.passes else "  (a prompt would not recall it)"
        say(f"{name:<{_NAME_COLUMNS}}  {fit(hit.stored.note.description, _DESCRIPTION_COLUMNS)}")
        say(style.dim(f"  score {hit.score:.1f}: {words}{mark}"))
    if not hits:
        say("No note speaks of that.")


def _hit_object(hit: Hit) -> JsonObject:
    return {
        **_object(hit.stored),
        "score": round(hit.score, 3),
        "share": round(hit.share, 3),
        "words": list(hit.words),
        "would_be_recalled": hit.passes,
    }


# --- changing --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Edit:
    """One note being edited; `draft` is what it will be but for its text."""

    project: Path
    scope: Scope
    before: Stored | None
    draft: Note
    choices: MemoryChoices


def _edit(name: str, project: Path, choices: MemoryChoices, *, as_json: bool) -> None:
    before = find_note(name, project, scope=_scope(choices))
    scope: Scope = before.scope if before is not None else _scope(choices) or "project"
    edit = _Edit(project, scope, before, _draft(name, before, choices), choices)
    if choices.file is not None:
        _write(edit, _kept(edit, _given(choices.file)))
    elif choices.description is not None or choices.kind is not None:
        if before is None:
            raise UsageError("A new note needs a text.", remedy="Give it with --file - on stdin.")
        _write(edit, edit.draft)
    elif not _in_editor(edit):
        say("Nothing was changed.")
        return
    stored = read_note(name, project, scope=scope)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(_object(stored))
    else:
        say(f"{one_line(scope)}/{one_line(stored.name)} is kept in {clean(str(stored.path))}.")


def _when(stored: Stored, today: datetime) -> str:
    """How old it is; a note says the day, and hours since midnight would be no one's."""
    written = stored.written()
    return "today" if (today - written).days < 1 else age(written.isoformat(), today)


def _draft(name: str, before: Stored | None, choices: MemoryChoices) -> Note:
    """The note as it will be but for its text."""
    today = now().date().isoformat()
    if before is None:
        old = Note(checked_note_name(name), "", "", created=today)
    else:
        old = replace(before.note, updated=today)
    return replace(
        old,
        description=choices.description if choices.description is not None else old.description,
        type=choices.kind if choices.kind is not None else old.type,
    )


def _given(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(
            f"{file} can't be read: {error.strerror or error}.", remedy="Give another file."
        ) from error


def _kept(edit: _Edit, text: str) -> Note:
    """The note that the text is: whole with front matter, else only the body of the draft."""
    draft, choices = edit.draft, edit.choices
    typed = parse_note(draft.name, text)
    if not text.startswith("---"):
        return replace(draft, body=text, description=draft.description or typed.description)
    return replace(
        typed,
        description=choices.description if choices.description is not None else typed.description,
        type=choices.kind if choices.kind is not None else typed.type,
        created=typed.created or draft.created,
        updated=draft.updated,
        sources=typed.sources or draft.sources,
    )


def _write(edit: _Edit, kept: Note) -> None:
    changed = write_note(
        kept,
        edit.project,
        scope=edit.scope,
        base=edit.before.sha256 if edit.before is not None else None,
        allow_secrets=edit.choices.allow_secrets,
    )
    if changed.problem:
        note(changed.problem)


def _in_editor(edit: _Edit) -> bool:
    """Let the user edit; whether anything was changed. A draft that can't be kept stays."""
    if not chosen_editor() or not sys.stdin.isatty():
        raise UsageError(
            "There is no editor to edit it in.",
            remedy="Set EDITOR and use a terminal, or give the text with --file FILE (- is stdin).",
        )
    shown = render_note(edit.draft)
    file = Path(tempfile.mkdtemp(prefix="rewake-note-")) / f"{edit.draft.name}.md"
    file.write_text(shown, "utf-8")
    try:
        ended_well = is_edited(file)
    except UsageError:
        _remove(file)
        raise
    text = file.read_bytes()[: 8 * NOTE_BYTES_MAX].decode("utf-8", "replace")
    if not ended_well or text == shown or not text.strip():
        _remove(file)
        return False
    try:
        _write(edit, _kept(edit, text))
    except RewakeError:
        note(f"What you wrote is in {file}.")
        raise
    _remove(file)
    return True


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
    if not any(file.parent.iterdir()):  # an editor may have left its own files
        file.parent.rmdir()


def _forget(names: Sequence[str], project: Path, choices: MemoryChoices, *, as_json: bool) -> None:
    found = [read_note(name, project, scope=_scope(choices)) for name in names]
    if not as_json:
        for stored in found:
            said = fit(stored.note.description, _DESCRIPTION_COLUMNS)
            say(f"{one_line(stored.scope)}/{one_line(stored.name)}  {said}")
    if not confirm("Forget?", yes=choices.yes, otherwise="Add --yes to go on without a question."):
        say("Nothing was forgotten.")
        return
    for stored in found:
        forget_note(stored.name, project, scope=stored.scope, base=stored.sha256)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json({"forgotten": [_object(stored) for stored in found]})
