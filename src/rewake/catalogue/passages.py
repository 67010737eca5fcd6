"""What of an event can be searched: prompts, answers, tool calls, file names, titles.

The rules kept here: what a tool gave back is not searched (it is most of a transcript, and not what
was said or done); the same event always gives the same passages in the same order, so that a passage
is named by its line and its number; and what can't hold any is told by its bytes, without decoding.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from rewake.model.content import ContentBlock, File, JsonObject, Text, ToolCall
from rewake.model.events import Event, Message, Metadata, ToolLifecycle
from rewake.screentext import without_sequences
from rewake.state.text import valid_unicode

Kind = Literal["title", "prompt", "answer", "tool", "file"]
KINDS: Final[tuple[Kind, ...]] = ("title", "prompt", "answer", "tool", "file")

_TEXT_CHARS_MAX: Final = 1 << 16  # of one passage; beyond that it is data, not something said
_PATH_ARGUMENTS: Final = frozenset({"path", "file_path", "filename", "file", "notebook_path"})
_PATH_CHARS_MAX: Final = 4096
_TYPE_KEY: Final = b'"event_type":"'
_HEADER_BYTES_MAX: Final = 512
_ACCENTS: Final = re.compile("[\u0300-\u036f]")  # of Latin, Greek and Cyrillic letters
# Scripts that set no spaces between words: each character is a word, and a word of theirs a phrase.
_UNSPACED: Final = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])"
)


class Passage(msgspec.Struct, frozen=True):
    """One searchable text. `files` are the paths that it names as such.

    `message_id` is the message that it belongs to, None where it belongs to the session.
    """

    kind: Kind
    text: str
    message_id: str | None = None
    tool: str = ""
    files: tuple[str, ...] = ()


def may_hold_passages(line: bytes) -> bool:
    """False for a line that has none for certain; costs nothing next to decoding it."""
    start = line.find(_TYPE_KEY, 0, _HEADER_BYTES_MAX)
    if start < 0:
        return True
    start += len(_TYPE_KEY)
    if line.startswith((b'message"', b'metadata"'), start):
        return True
    if not line.startswith(b'tool_lifecycle"', start):
        return False
    return b'"changes":[' in line or b'"arguments":{' in line


def passages_of(event: Event) -> list[Passage]:
    """The passages of an event whose payload is whole."""
    payload = event.payload
    if isinstance(payload, Message):
        return list(_of_message(event.event_id, payload))
    if isinstance(payload, ToolLifecycle):
        return list(_of_call(payload))
    if isinstance(payload, Metadata):
        title = payload.entries.get("title")
        return [Passage("title", title)] if isinstance(title, str) and title else []
    return []


def searchable(text: str) -> str:
    """`text` as it is indexed and asked for: valid, without case and accents,
    unspaced scripts spaced out.
    """
    text = without_sequences(text[:_TEXT_CHARS_MAX])
    if text.isascii():
        return text.replace("\0", " ")
    # Folded here because SQLite's tokenizer knows one letter for one letter, of some scripts.
    plain = unicodedata.normalize("NFKD", valid_unicode(text).replace("\0", " ").casefold())
    composed = unicodedata.normalize("NFC", _ACCENTS.sub("", plain))
    return _UNSPACED.sub(r" \1 ", composed)


def _of_message(message_id: str, message: Message) -> Iterator[Passage]:
    if message.role == "tool" or (message.role == "user" and message.source):
        return
    kind: Kind = "prompt" if message.role == "user" else "answer"
    for block in message.content:
        yield from _of_block(message_id, kind, block)


def _of_block(message_id: str, kind: Kind, block: ContentBlock) -> Iterator[Passage]:
    if isinstance(block, Text) and block.text:
        yield Passage(kind, block.text, message_id)
    elif isinstance(block, ToolCall):
        text = "\n".join(_strings(block.arguments)) or block.arguments_text or ""
        files = _paths(block.arguments)
        yield Passage("tool", f"{block.name}\n{text}", message_id, block.name, files)
    elif isinstance(block, File):
        yield Passage("file", block.name, message_id, files=(block.name,))


def _of_call(call: ToolLifecycle) -> Iterator[Passage]:
    if call.status == "requested" and call.arguments is not None:
        text = "\n".join((call.tool_name, *_strings(call.arguments)))
        yield Passage("tool", text, call.message_id, call.tool_name, _paths(call.arguments))
    if call.outcome is not None and call.outcome.changes:
        paths = tuple(change.path for change in call.outcome.changes)
        yield Passage("file", "\n".join(paths), call.message_id, call.tool_name, paths)


def _strings(value: object) -> Iterator[str]:
    """The texts in a JSON value, in order; keys are the tool's words, not anybody's."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _paths(arguments: JsonObject) -> tuple[str, ...]:
    return tuple(
        value
        for name, value in arguments.items()
        if name in _PATH_ARGUMENTS and isinstance(value, str) and 0 < len(value) < _PATH_CHARS_MAX
    )
