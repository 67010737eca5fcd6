"""What memory says of a session: the fold of it, and which notes came to mind, when and why."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rewake.agent.recall import recalled_in
from rewake.cli.terminal import clean, one_line, say, style_for
from rewake.model.content import JsonObject
from rewake.state.conversation import Entry


def recalled_notes(entries: Iterable[Entry]) -> list[JsonObject]:
    """Every note that was recalled in these entries, each with the message that brought it."""
    return [
        {"message_id": entry.message_id, "timestamp": entry.timestamp, **note}
        for entry in entries
        for note in recalled_in(entry.message.source, entry.message.details)
    ]


def print_memory(memory: str, entries: Sequence[Entry]) -> None:
    """Print both for people."""
    style = style_for(sys.stdout)
    say(clean(memory) or "Session memory is empty.")
    notes = recalled_notes(entries)
    if notes:
        say()
        say(style.bold("Recalled notes"))
    for note in notes:
        name = f"{one_line(str(note.get('scope')))}/{one_line(str(note.get('name')))}"
        say(f"{name}  {one_line(str(note.get('description', '')))}")
        written = one_line(str(note.get("written", "")))[:10]
        why = one_line(str(note.get("why", "")))
        say(style.dim(f"  written {written}; {why}; for {one_line(str(note['message_id']))}"))
