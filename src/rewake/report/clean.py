"""What a session holds, made fit to be shown: terminal sequences gone, hidden characters seen, secrets out.

The rules kept here:

- Everything on its way into a page comes by here first: payloads as they are read, contents of files
  before they are compared. What is made of a text later can't bring back what was taken out.
- Sequences go before secrets are looked for, since a coloured key is still a key.
- A character that hides or turns others is named in the text, where it stood.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from rewake.errors import InvalidValueError, StorageError
from rewake.model import jsontext
from rewake.model.codec import decode_payload
from rewake.model.events import Event, Spilled, Unknown
from rewake.redaction.redactor import Redactor
from rewake.resume.load import BlobReader
from rewake.screentext import without_sequences

_LINE_ENDS: Final = re.compile("\r\n?|[\x85\u2028\u2029]")
# Control characters but newline and tab, what embeds or overrides a direction, lone surrogates.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SUSPECT: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSEEN: Final = re.compile(
    "[\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
_PICTURES_AT: Final = 0x2400
_CONTROLS: Final = 0x20
_DELETE: Final = 0x7F
# Letters of these look like Latin ones; a name that mixes them with Latin means to be misread.
_LOOKALIKES: Final = frozenset({"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "FULLWIDTH"})
_WORD_END: Final = re.compile(r"[\s/\\._-]+")
_CUT_WORD: Final = re.compile(
    r"(?=\S*[0-9_=+-])[^\s…]{8,}(?= ?…$)|(?<=^… )(?=\S*[0-9_=+-])[^\s…]{8,}"
)
_SEPARATOR: Final = "\n\n"
# What is in each name that makes its value a secret (`Redactor`), but not in the format's own names.
_SECRET_NAME: Final = re.compile(r"(?i)passw|passphrase|secret|key|token(?!s_before|s_after|s\b)")


class _Payload(msgspec.Struct):
    payload: msgspec.Raw


_decode: Final = msgspec.json.Decoder().decode
_find_payload: Final = msgspec.json.Decoder(_Payload).decode


def visible(text: str) -> str:
    """`text` without terminal sequences, its line ends as newlines, and hidden characters named."""
    if _SUSPECT.search(text) is None:
        return text
    return _HIDDEN.sub(_named, without_sequences(_LINE_ENDS.sub("\n", text)))


def _named(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < _CONTROLS:
        return chr(_PICTURES_AT + code)
    return "\u2421" if code == _DELETE else f"⟨U+{code:04X}⟩"


def name_warnings(name: str) -> list[str]:
    """What may mislead in a name: characters that aren't seen, letters of scripts that look alike."""
    if name.isascii():
        return []
    found = [f"U+{ord(char):04X} can't be seen" for char in dict.fromkeys(_UNSEEN.findall(name))]
    for word in _WORD_END.split(name):
        found.extend(_lookalikes(word))
    return list(dict.fromkeys(found))


def _lookalikes(word: str) -> Iterator[str]:
    """Letters beside Latin ones that may be taken for those."""
    scripts: dict[str, str] = {}
    for char in word:
        if char.isalpha():
            scripts.setdefault(unicodedata.name(char, "?").split(" ")[0], char)
    if "LATIN" not in scripts:
        return
    for script, char in scripts.items():
        if script in _LOOKALIKES:
            yield f"{char} is {unicodedata.name(char).lower()} (U+{ord(char):04X})"


class Cleaner:
    """Cleans for one page. With `environ` secrets are taken out, the values of its keys, too.

    `counts` has what was taken out, by kind; None where nothing is.
    """

    def __init__(self, environ: Mapping[str, str] | None) -> None:
        self._redactor = Redactor(environ) if environ is not None else None

    @property
    def counts(self) -> dict[str, int] | None:
        """By kind, in order of the kinds."""
        return dict(sorted(self._redactor.counts.items())) if self._redactor is not None else None

    def text(self, text: str) -> str:
        """A text as it may be shown."""
        shown = visible(text)
        return shown if self._redactor is None else self._redactor.text(shown)

    def clipped(self, text: str) -> str:
        """The same of a text that was cut before: a secret that was cut in two is none to a detector,
        so a word beside the cut that may be half of one goes.
        """
        shown = self.text(text)
        return shown if self._redactor is None else _CUT_WORD.sub("", shown)

    def content(self, data: bytes) -> bytes:
        """The content of a file; what is no text stays as it is, since nothing of it is shown."""
        if b"\0" in data:
            return data
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return data
        cleaned = self.text(text)
        return data if cleaned is text else cleaned.encode("utf-8", "backslashreplace")

    def events(self, events: Sequence[Event], blobs: BlobReader) -> list[Event]:
        """The events with their whole payloads, all of them cleaned.

        A payload whose blob is gone is what its preview has. Nearly always nothing is to be done, which
        one search over all strings of many events finds out; one for each takes thirty times as long.
        """
        read = [_read(event, blobs) for event in events]
        if self._is_clean(one.value for one in read):
            return [_whole(one) for one in read]
        return [self._cleaned(one) for one in read]

    def _cleaned(self, read: _Read) -> Event:
        if self._is_clean((read.value,)):
            return _whole(read)
        try:
            shown = _mapped(read.value)
            shown = shown if self._redactor is None else self._redactor.value(shown)
            return _with_payload(read.event, jsontext.dumps(shown))
        except (ValueError, RecursionError) as error:
            return _unread(read.event, str(error))

    def _is_clean(self, values: Iterable[object]) -> bool:
        names: set[str] = set()
        joined = _SEPARATOR.join(text for value in values for text in _strings(value, names))
        if _SUSPECT.search(joined) is not None or _SECRET_NAME.search(" ".join(names)) is not None:
            return False
        return self._redactor is None or not self._redactor.detector.find(joined)


class _Read(NamedTuple):
    """An event with its payload's JSON and that as a value; None where it can't be read."""

    event: Event
    raw: bytes | None
    value: object


def _read(event: Event, blobs: BlobReader) -> _Read:
    raw = _raw(event, blobs)
    if raw is None:
        return _Read(event, None, None)
    try:
        return _Read(event, raw, _loads(raw))
    except (ValueError, RecursionError) as error:
        return _Read(_unread(event, str(error)), None, None)


def _whole(read: _Read) -> Event:
    if read.raw is None or not isinstance(read.event.payload, Spilled):
        return read.event
    return _with_payload(read.event, read.raw)


def _with_payload(event: Event, raw: bytes) -> Event:
    payload = decode_payload(event.event_type, event.schema_version, raw)
    return msgspec.structs.replace(event, payload=payload)


def _unread(event: Event, why: str) -> Event:
    return msgspec.structs.replace(event, payload=Unknown(b"", f"its JSON can't be read: {why}"))


def _raw(event: Event, blobs: BlobReader) -> bytes | None:
    """The payload's JSON; None where it can't be read, so that nothing of it is shown either."""
    payload = event.payload
    if isinstance(payload, Unknown):
        return None
    if isinstance(payload, Spilled):
        try:
            return blobs.get(payload.blob.sha256)
        except (StorageError, InvalidValueError):
            return bytes(payload.preview)
    try:
        return bytes(_find_payload(event.line).payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return jsontext.members(event.line.strip(b"\x00\r"))["payload"]


def _loads(raw: bytes) -> object:
    """The fast decoder's value; what that refuses (lone surrogates) is read by the other one."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return jsontext.loads(raw)


def _mapped(value: object) -> object:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [_mapped(item) for item in value]
    if isinstance(value, dict):
        return {visible(key): _mapped(item) for key, item in value.items()}
    return value


def _strings(value: object, names: set[str]) -> Iterator[str]:
    """All strings of a JSON value, its names among them, which are also put into `names`."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, names)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in names:
                names.add(key)
                yield key
            yield from _strings(item, names)
