"""Markdown with front matter, as skills, commands, agents and notes have it.

The rule kept here: whatever the text is, the answer is its fields and its body, or the one error that
names the line. The YAML that is read is plain data: no tags, no aliases, bounded in size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import yaml
from yaml.nodes import MappingNode, Node

FRONT_MATTER_CHARS_MAX: Final = 16_384
_FENCE: Final = re.compile(r"---[ \t]*\r?\n")
_END: Final = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_PLAIN: Final = re.compile(r"(?P<key>[\w-]+):[ \t]+(?P<value>[^\s\[{'\"|>&*!].*)")

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]


class FrontMatterError(ValueError):
    """Front matter that can't be used; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """The fields of the front matter (none without one) and what follows it."""

    body: str
    fields: dict[str, Value] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """A field as one text; empty where it is missing. A list is joined by commas."""
        value = self.fields.get(key)
        if isinstance(value, list):
            return ", ".join(str(item) for item in value)
        return "" if value is None or isinstance(value, dict) else str(value).strip()

    def texts(self, key: str) -> tuple[str, ...]:
        """A field as a list; a text is split at commas that stand outside of parentheses."""
        value = self.fields.get(key)
        if isinstance(value, list):
            return tuple(str(item).strip() for item in value if item is not None)
        return tuple(filter(None, map(str.strip, _split(self.text(key)))))


def _split(text: str) -> list[str]:
    """Parts between commas that stand outside of parentheses; one that isn't closed keeps the rest together."""
    parts, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        if char in "()":
            depth = max(depth + (1 if char == "(" else -1), 0)
        elif char == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]


class _Loader(yaml.SafeLoader):
    """Plain data only: an alias could make a small text a huge value."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.get_mark()
            raise yaml.composer.ComposerError(None, None, "aliases are not used", mark)
        return super().compose_node(parent, index)


def parse(text: str) -> Document:
    """The document in `text`. Raises FrontMatterError."""
    text = text.removeprefix("\ufeff")
    opening = _FENCE.match(text)
    if opening is None:
        return Document(text)
    ending = _END.search(text, opening.end())
    if ending is None:
        raise FrontMatterError("the front matter has no end: a line of three dashes", 1)
    head = text[opening.end() : ending.start()]
    if len(head) > FRONT_MATTER_CHARS_MAX:
        message = f"the front matter is longer than {FRONT_MATTER_CHARS_MAX} characters"
        raise FrontMatterError(message, 1)
    return Document(text[ending.end() :], _fields(head))


def _fields(head: str) -> dict[str, Value]:
    try:
        return _loaded(head)
    except yaml.YAMLError as error:
        # People write `description: Use it for: this`, which is no YAML but plain enough.
        quoted = "\n".join(_quoted(line) for line in head.splitlines())
        try:
            return _loaded(quoted)
        except yaml.YAMLError:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 2 if mark is not None else 1
            problem = getattr(error, "problem", None) or "it is no YAML"
            raise FrontMatterError(f"the front matter can't be read: {problem}", line) from error


def _loaded(head: str) -> dict[str, Value]:
    loader = _Loader(head)
    try:
        node = loader.get_single_node()
        if node is None:
            return {}
        if not isinstance(node, MappingNode):
            raise FrontMatterError("the front matter holds no fields", 2)
        found = loader.construct_document(node)
    except (RecursionError, ValueError, TypeError) as error:
        if isinstance(error, FrontMatterError):
            raise
        raise FrontMatterError(f"the front matter can't be read: {error}", 2) from error
    finally:
        loader.dispose()
    return {str(key): value for key, value in found.items()}


def _quoted(line: str) -> str:
    match = _PLAIN.fullmatch(line.rstrip())
    if match is None:
        return line
    value = match["value"].replace("\\", "\\\\").replace('"', '\\"')
    return f'{match["key"]}: "{value}"'
