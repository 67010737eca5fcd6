"""`MEMORY.md`: the list of notes that a person reads and edits.

The rule kept here: whatever a person wrote stays, byte for byte. Only a line of exactly our form is ever
changed or removed: when its note is gone, or when its words are the note's description from before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rewake.memory.note import Note

INDEX_NAME: Final = "MEMORY.md"
INDEX_BYTES_MAX: Final = 262_144
_HEADING: Final = "# Memory"
_ENTRY: Final = re.compile(
    r"[ \t]*[-*+][ \t]+\[([^\]]*)\]\((?:\./)?([^)/\s]+)\.md\)(.*)", re.DOTALL
)


def entry(name: str, description: str) -> str:
    """The line of a note, as we write it."""
    said = " ".join(description.split()).replace("\r", " ")
    return f"- [{name}]({name}.md): {said}" if said else f"- [{name}]({name}.md)"


def merged_index(data: bytes | None, notes: Iterable[Note], was: Note | None = None) -> bytes:
    """The index for `notes`, made from the one there is; `was` is what a changed note was before."""
    if data is None or not data.strip():
        lines = [_HEADING, "", *(entry(note.name, note.description) for note in notes), ""]
        return "\n".join(lines).encode("utf-8", "surrogateescape")
    text = data.decode("utf-8", "surrogateescape")
    end = "\r\n" if "\r\n" in text else "\n"
    known = {note.name: note for note in notes}
    kept: list[str] = []
    listed: set[str] = set()
    last_entry = -1
    for line in text.split("\n"):
        found = _ENTRY.fullmatch(line.removesuffix("\r"))
        if found is None:
            kept.append(line)
            continue
        name = found[2]
        if name not in known and _is_ours(found[0], name):
            continue
        if name in known:
            listed.add(name)
            line = _current(line, known[name], was)  # noqa: PLW2901  # the line is what is kept
        kept.append(line)
        last_entry = len(kept) - 1
    missing = [
        entry(note.name, note.description) for note in known.values() if note.name not in listed
    ]
    return _with(kept, missing, last_entry, end).encode("utf-8", "surrogateescape")


def _is_ours(line: str, name: str) -> bool:
    return line == entry(name, "") or line.startswith(f"{entry(name, '')}: ")


def _current(line: str, note: Note, was: Note | None) -> str:
    ending = "\r" if line.endswith("\r") else ""
    if (
        was is None
        or was.name != note.name
        or line.removesuffix("\r") != entry(was.name, was.description)
    ):
        return line
    return entry(note.name, note.description) + ending


def _with(kept: list[str], missing: list[str], last_entry: int, end: str) -> str:
    """New entries stand after the last one there is, else at the end of the file."""
    if not missing:
        return "\n".join(kept)
    carriage = end.removesuffix("\n")
    added = [line + carriage for line in missing]
    if last_entry >= 0:
        if last_entry == len(kept) - 1:  # the file ends without a newline
            kept = [*kept[:-1], kept[-1].removesuffix("\r") + carriage]
            return "\n".join([*kept, *added, ""])
        return "\n".join([*kept[: last_entry + 1], *added, *kept[last_entry + 1 :]])
    if kept and kept[-1] == "":
        kept = kept[:-1]
    elif kept:
        kept = [*kept[:-1], kept[-1].removesuffix("\r") + carriage]
    return "\n".join([*kept, carriage, *added, ""])
