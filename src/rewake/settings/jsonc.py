"""Reads JSON as people write it by hand: with comments and trailing commas, each value with its place.

The rules kept here: whatever the text is, the result is a value or a TextError with its offset. A key
that stands twice in one object is refused, because only one of the two would count and nobody could
tell which. Besides comments and trailing commas it is plain JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from rewake.settings.spots import Path, Spot, TextError

DEPTH_MAX: Final = 64  # settings nest five levels deep; a thousand brackets are an attack
_NUMBER_CHARS_MAX: Final = 400  # more than the longest double has
_SHOWN_CHARS: Final = 20
# Only classes of characters are possessive: of groups that are, early versions of Python 3.11 lose
# track. Each alternative begins and ends in one way only, so that no text makes them slow.
_GAP: Final = r"(?:[ \t\r\n]++|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/)*"
_TEXT: Final = r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*"'
_SKIP: Final = re.compile(_GAP)
_STRING: Final = re.compile(_TEXT)
# Whole pieces of what is right are matched at once; what isn't is looked at step by step.
_MEMBER: Final = re.compile(rf"{_GAP}({_TEXT}){_GAP}:{_GAP}")
_COMMA: Final = re.compile(rf"{_GAP},{_GAP}")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?P<float>(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)")
_WORD: Final = re.compile(r"[A-Za-z_$][\w$]*+")
_LITERALS: Final = {"true": True, "false": False, "null": None}


class JsonReader:
    """One text. `spots` has the place of everything in it once `read` has returned."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spots: dict[Path, Spot] = {}
        self._at = 0

    def read(self) -> Any:
        """The value; None for a text of nothing but space and comments. Raises TextError."""
        self.skip()
        if self._at == len(self.text):
            self.spots[()] = Spot(0, self._at, self._at)
            return None
        value = self._value((), self._at)
        self.skip()
        if self._at < len(self.text):
            raise self._unexpected("the end of the file")
        return value

    def skip(self, offset: int | None = None) -> int:
        """The offset behind space and comments that begin at `offset` (default: where it reads)."""
        start = self._at if offset is None else offset
        found = _SKIP.match(self.text, start)
        end = found.end() if found else start
        if offset is None:
            self._at = end
            if self.text.startswith("/*", end):
                raise TextError("a comment has no end", end, expected="*/")
        return end

    def _value(self, path: Path, key: int) -> Any:
        start = self._at
        match self.text[start : start + 1]:
            case '"':
                value: Any = self._string()
            case "{":
                value = self._object(path)
            case "[":
                value = self._array(path)
            case _:
                value = self._scalar()
        self.spots[path] = Spot(key, start, self._at)
        return value

    def _object(self, path: Path) -> dict[str, Any]:
        self._enter(path)
        members: dict[str, Any] = {}
        while True:
            whole = _MEMBER.match(self.text, self._at)
            if whole is not None:
                key, self._at = whole.start(1), whole.end()
                name = self._text_of(whole[1], key)
            else:
                self.skip()
                if self._take("}"):
                    return members
                key = self._at
                name = self._name()
                self.skip()
                if not self._take(":"):
                    raise self._unexpected("a colon")
                self.skip()
            if name in members:
                raise TextError(f'the key "{name}" stands twice in one object', key)
            members[name] = self._value((*path, name), key)
            self._separate("}")

    def _array(self, path: Path) -> list[Any]:
        self._enter(path)
        items: list[Any] = []
        self.skip()
        while self._peek() != "]":
            items.append(self._value((*path, len(items)), self._at))
            self._separate("]")
        self._at += 1
        return items

    def _separate(self, closing: str) -> None:
        """Go to the next member or item, or to what closes them all."""
        comma = _COMMA.match(self.text, self._at)
        if comma is not None:
            self._at = comma.end()
            return
        self.skip()
        if self._peek() != closing:
            raise self._unexpected(f"a comma or {closing}")

    def _enter(self, path: Path) -> None:
        if len(path) >= DEPTH_MAX:
            raise TextError(f"it is nested more than {DEPTH_MAX} levels deep", self._at)
        self._at += 1

    def _name(self) -> str:
        if self._peek() != '"':
            raise self._unexpected('a key in "quotes"')
        return self._string()

    def _string(self) -> str:
        start = self._at
        found = _STRING.match(self.text, start)
        if found is None:
            raise TextError("a text in quotes has no end on its line", start)
        self._at = found.end()
        return self._text_of(found[0], start)

    @staticmethod
    def _text_of(quoted: str, start: int) -> str:
        if "\\" not in quoted:
            return quoted[1:-1] if quoted.isascii() else _valid(quoted[1:-1], start)
        try:
            value = json.loads(quoted)
        except ValueError as error:
            at = getattr(error, "pos", 0)
            raise TextError("an escape that JSON doesn't have", start + at) from error
        return _valid(str(value), start)

    def _scalar(self) -> Any:
        word = _WORD.match(self.text, self._at)
        if word is not None and word[0] in _LITERALS:
            self._at = word.end()
            return _LITERALS[word[0]]
        number = _NUMBER.match(self.text, self._at)
        if number is None:
            raise self._unexpected("a value")
        if len(number[0]) > _NUMBER_CHARS_MAX:
            raise TextError("a number with too many digits", self._at)
        value = float(number[0]) if number["float"] else int(number[0])
        if value in {float("inf"), float("-inf")}:
            raise TextError("a number that is too large", self._at)
        self._at = number.end()
        return value

    def _peek(self) -> str:
        return self.text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._at += 1
        return True

    def _unexpected(self, expected: str) -> TextError:
        word = _WORD.match(self.text, self._at)
        if self._at >= len(self.text):
            found = "the end of the file"
        elif word is not None:
            found = word[0][:_SHOWN_CHARS]
        else:
            character = self.text[self._at]
            found = character if character.isprintable() else f"U+{ord(character):04X}"
        return TextError(
            f"expected {expected}, found {found}", self._at, expected=expected, found=found
        )


def _valid(value: str, offset: int) -> str:
    """Half a surrogate pair can't be written back, nor compared with anything."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise TextError("a text with half a surrogate pair in it", offset) from error
    return value
