"""One note: front matter and Markdown, as a person would write it too.

The rules kept here:

- We write front matter as plain `key: value` lines, and read such lines here: a directory may hold a
  thousand notes, and a YAML parser takes a millisecond for each. What a person wrote in other YAML goes
  to that.
- What a person wrote stays: keys that aren't known keep their lines and their order.
- Whatever a file holds, there is a note to be made of it; front matter that can't be read costs itself.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Final

from rewake.errors import UsageError
from rewake.state.text import clip

NOTE_BYTES_MAX: Final = 16_384
"""About 4,000 tokens: a note is one thing that is worth knowing, not a document."""
NAME_CHARS_MAX: Final = 80
DESCRIPTION_BYTES_MAX: Final = 300
TYPES: Final = ("fact", "preference", "decision", "how-to", "reference")
"""What a note can be; a person may write any other word, too."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_FENCE: Final = "---"
_HEAD_LINES_MAX: Final = 64
_KEY: Final = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")
_ITEM: Final = re.compile(r"[ \t]*-[ \t]+(.*)$")
_SOURCES_MAX: Final = 20
_WORD_BYTES_MAX: Final = 40
_YAML_SIGNS: Final = tuple(">|{&*!%@`")
_SPECIAL: Final = "\"'[]{}>|*&!%#`@-?:,"
_KNOWN: Final = ("name", "description", "type", "created", "updated", "sources")


@dataclass(frozen=True, slots=True)
class Note:
    """`created` and `updated` are RFC 3339 or a day, empty if unknown; `sources` name where it is from.

    A source is `SESSION/EVENT`. `others` are lines of the front matter that aren't ours, as they were.
    """

    name: str
    description: str
    body: str
    type: str = ""
    created: str = ""
    updated: str = ""
    sources: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def checked_note_name(name: str) -> str:
    """`name` if it can be a note's: safe as a file name anywhere. Raises UsageError."""
    bare = name.removesuffix(".md")
    fits = _NAME.fullmatch(bare) is not None and len(bare) <= NAME_CHARS_MAX and ".." not in bare
    if not fits or bare == "memory":
        raise UsageError(
            f"{name!r} can't be the name of a note.",
            remedy=f"Use small letters, digits, '-', '_' and '.', at most {NAME_CHARS_MAX}, beginning "
            "with a letter or a digit (and not 'memory', which is the index).",
        )
    return bare


def name_from(text: str) -> str:
    """A name for a note that is about `text`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60].strip("-") or "note"


def parse_note(file_stem: str, text: str) -> Note:
    """The note in `text`. One without front matter is named after its file and described by its start."""
    head, body = _split(text)
    blocks = _blocks(head)
    fields: dict[str, tuple[str, ...]] = {}
    others: list[str] = []
    for key, lines in blocks:
        if key in _KNOWN and key not in fields:
            fields[key] = _values(lines)
        else:
            others += lines
    if any(key in _KNOWN and not _is_plain(key, lines) for key, lines in blocks):
        fields |= _by_yaml(head)

    def one(key: str, bytes_max: int) -> str:
        return clip(" ".join(fields.get(key, ())), bytes_max)

    return Note(
        name=file_stem,
        description=one("description", DESCRIPTION_BYTES_MAX) or _beginning(body),
        body=body,
        type=one("type", _WORD_BYTES_MAX),
        created=one("created", _WORD_BYTES_MAX),
        updated=one("updated", _WORD_BYTES_MAX),
        sources=fields.get("sources", ())[:_SOURCES_MAX],
        others=tuple(others),
    )


def render_note(note: Note) -> str:
    """The file's text."""
    lines = [_FENCE, f"name: {note.name}", f"description: {_value(note.description)}"]
    lines += [f"{key}: {_value(value)}" for key, value in _dated(note) if value]
    if note.sources:
        lines += ["sources:", *(f"  - {_value(source)}" for source in note.sources[-_SOURCES_MAX:])]
    return "\n".join([*lines, *note.others, _FENCE, "", note.body.strip("\n"), ""])


def with_source(note: Note, source: str) -> Note:
    """The note with one more source, the newest last."""
    kept = tuple(one for one in note.sources if one != source)
    return replace(note, sources=(*kept, source)[-_SOURCES_MAX:]) if source else note


def _dated(note: Note) -> tuple[tuple[str, str], ...]:
    return ("type", note.type), ("created", note.created), ("updated", note.updated)


def _split(text: str) -> tuple[list[str], str]:
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return [], text
    for number, line in enumerate(lines[1 : _HEAD_LINES_MAX + 2], 1):
        if line.rstrip() == _FENCE:
            return [one.rstrip() for one in lines[1:number]], "\n".join(lines[number + 1 :])
    return [], text  # never closed: it is a rule of dashes, and all of it is the text


def _blocks(head: list[str]) -> list[tuple[str, list[str]]]:
    """The lines of each key; lines before the first key have none."""
    blocks: list[tuple[str, list[str]]] = []
    for line in head:
        found = _KEY.match(line)
        if found is not None:
            blocks.append((found[1], [line]))
        elif blocks:
            blocks[-1][1].append(line)
        else:
            blocks.append(("", [line]))
    return blocks


def _is_plain(key: str, lines: list[str]) -> bool:
    """Whether the lines mean to YAML what they mean here."""
    _, _, value = lines[0].partition(":")
    if key == "sources":
        return all(_ITEM.match(line) for line in lines[1:])
    return len(lines) == 1 and value.strip()[:1] not in _YAML_SIGNS


def _values(lines: list[str]) -> tuple[str, ...]:
    """A value, or the items of a list."""
    _, _, value = lines[0].partition(":")
    items = tuple(_plain(item[1]) for item in map(_ITEM.match, lines[1:]) if item is not None)
    if items:
        return items
    bare = value.strip()
    if bare.startswith("[") and bare.endswith("]"):
        return tuple(filter(None, (_plain(one) for one in bare[1:-1].split(","))))
    return (_plain(bare),) if bare else ()


def _by_yaml(head: list[str]) -> dict[str, tuple[str, ...]]:
    """The known fields as YAML has them; none where it is no YAML."""
    from rewake import frontmatter  # slow to load, and few notes need it

    try:
        document = frontmatter.parse("\n".join([_FENCE, *head, _FENCE, ""]))
    except frontmatter.FrontMatterError:
        return {}
    return {
        key: document.texts(key) if key == "sources" else (document.text(key),)
        for key in _KNOWN
        if key in document.fields
    }


def _beginning(body: str) -> str:
    """The first line that says something."""
    for line in body.split("\n"):
        said = line.strip().lstrip("#").strip()
        if said:
            return clip(said, DESCRIPTION_BYTES_MAX)
    return ""


def _plain(value: str) -> str:
    bare = value.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'":
        quote, inner = bare[0], bare[1:-1]
        return inner.replace(f"\\{quote}", quote) if quote == '"' else inner.replace("''", "'")
    return bare


def _value(text: str) -> str:
    """One line; in quotes where another reader of front matter would take it for something else."""
    folded = " ".join(text.split())
    is_plain = folded and folded[0] not in _SPECIAL and ": " not in folded and " #" not in folded
    if is_plain and not folded.endswith(":"):
        return folded
    if '"' not in folded:
        return f'"{folded}"'
    return "'" + folded.replace("'", "''") + "'"
