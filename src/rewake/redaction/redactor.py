"""Takes secrets out of transcripts, outputs and blobs, and leaves all of them valid.

The rules kept here:

- A line whose payload holds a secret is written anew under the same id; every other line, and every
  blob without a secret, keeps its bytes.
- A blob that changes has another name, and everything that refers to it says that one.
- A thinking block that changes loses its signature, which would no longer fit.
- Content that is no UTF-8 text is left alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Final, NamedTuple

from rewake.model import jsontext
from rewake.model.codec import decode_line, with_members
from rewake.model.events import Event
from rewake.redaction.detector import Detector, secret_values

_BLOCK_BYTES: Final = 1 << 20
_PRIVATE_KEY_BYTES_MAX: Final = 1 << 16  # a key that spans blocks is waited for this long
_BEGIN: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")
_END: Final = re.compile(rb"-----END [A-Z0-9 ]*PRIVATE KEY")
_HASH: Final = re.compile(r"[0-9a-f]{64}").fullmatch
# Members that hold no prose: ids, hashes, what a provider has signed.
_VERBATIM: Final = frozenset({"signature", "sha256", "event_ids", "base", "message_id", "call_id"})
# A member of this name is a secret whatever it looks like.
_SECRET_KEY: Final = re.compile(
    r"(?i)(?:.*[_-])?(?:password|passwd|passphrase|secret|api_?key|private_?key|access_?key|"
    r"(?:access|auth|refresh|id|api|bearer)_?token|client_?secret|secret_?(?:access_?)?key)"
)
_SECRET_CHARS_MIN: Final = 6
_PLAIN_NAMES_MAX: Final = 4096


class Moved(NamedTuple):
    """What a changed blob is called now, and how many bytes it has."""

    sha256: str
    size: int


class Redactor:
    """Counts what it takes out, by kind, in `counts`."""

    def __init__(self, environ: Mapping[str, str], *, detector: Detector | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.moved: dict[str, Moved] = {}
        self.detector = detector or Detector(secret_values(environ))
        self._plain_names: set[str] = set()

    # --- text ----------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """The text with `[redacted: KIND]` in the place of each secret."""
        found = self.detector.find(text)
        if not found:
            return text
        pieces: list[str] = []
        end = 0
        for secret in found:
            self.counts[secret.kind] += 1
            pieces += text[end : secret.start], f"[redacted: {secret.kind}]"
            end = secret.end
        return "".join((*pieces, text[end:]))

    def data(self, data: bytes) -> bytes:
        """The same for UTF-8 text; anything else as it is."""
        if b"\x00" in data:
            return data
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return data
        redacted = self.text(text)
        return data if redacted is text else redacted.encode("utf-8")

    def stream(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        """The first `size` bytes of a file of any size, redacted; bytes that are no text stay."""
        rest = b""
        while size > 0:
            block = file.read(min(_BLOCK_BYTES, size))
            if not block:
                break
            size -= len(block)
            rest += block
            cut = _cut(rest)
            if cut:
                yield self._bytes(rest[:cut])
                rest = rest[cut:]
        if rest:
            yield self._bytes(rest)

    def _bytes(self, data: bytes) -> bytes:
        # Output may hold a broken character anywhere; that is no reason to leave a key in it.
        text = data.decode("utf-8", "surrogateescape")
        redacted = self.text(text)
        return data if redacted is text else redacted.encode("utf-8", "surrogateescape")

    # --- JSON ----------------------------------------------------------------------------

    def value(self, value: object) -> object:
        """JSON with its strings redacted and its references to changed blobs brought up to date.

        The value itself where nothing changes.
        """
        if isinstance(value, str):
            if _HASH(value) is not None:
                moved = self.moved.get(value)
                return value if moved is None else moved.sha256
            return self.text(value)
        if isinstance(value, list | tuple):
            return self._list(value)
        if isinstance(value, dict):
            return self._object(value)
        return value

    def _list(self, value: Sequence[object]) -> object:
        items = [self.value(item) for item in value]
        changed = any(new is not old for new, old in zip(items, value, strict=True))
        return items if changed else value

    def _object(self, value: dict[str, object]) -> object:
        items = {key: self._member(key, item) for key, item in value.items()}
        if not all(map(self._is_plain_name, items)):
            items = self._renamed(items)
        elif all(items[key] is value[key] for key in value):
            return value
        moved = self.moved.get(str(value.get("sha256")))
        if moved is not None and "size" in value:
            items["size"] = moved.size
        if value.get("type") == "thinking" and items.get("text") != value.get("text"):
            items.pop("signature", None)
            items.pop("provider", None)
        return items

    def _is_plain_name(self, name: str) -> bool:
        """Whether no secret is in it. The names of a format come again and again."""
        if name in self._plain_names:
            return True
        if self.detector.find(name):
            return False
        if len(self._plain_names) < _PLAIN_NAMES_MAX:
            self._plain_names.add(name)
        return True

    def _renamed(self, items: dict[str, object]) -> dict[str, object]:
        """With the secrets taken out of the names as well; no two become one."""
        renamed: dict[str, object] = {}
        for key, item in items.items():
            name = self.text(key)
            while name in renamed:
                name += "'"
            renamed[name] = item
        return renamed

    def _member(self, key: str, value: object) -> object:
        if key in _VERBATIM:
            moved = self.moved.get(value) if isinstance(value, str) else None
            return value if moved is None else moved.sha256
        if (
            isinstance(value, str)
            and len(value) >= _SECRET_CHARS_MIN
            and " " not in value
            and not value.startswith("[redacted: ")
            and _SECRET_KEY.fullmatch(key) is not None
        ):
            self.counts["Password"] += 1
            return "[redacted: Password]"
        return self.value(value)

    def json(self, data: bytes) -> bytes:
        """JSON text, redacted; the same bytes where nothing changes and where it can't be read."""
        try:
            value = jsontext.loads(data)
            redacted = self.value(value)
            return data if redacted is value else jsontext.dumps(redacted)
        except (ValueError, RecursionError):
            return self.data(data)

    def line(self, line: bytes) -> bytes:
        """A line of a transcript."""
        event = decode_line(line)
        if not isinstance(event, Event):
            return self._bytes(line)
        try:
            raw = jsontext.members(line.strip(b"\x00\r"))["payload"]
            payload = jsontext.loads(raw)
            redacted = self.value(payload)
        except (ValueError, RecursionError):
            return self._bytes(line)
        if redacted is payload:
            return line
        return with_members(line, {"payload": jsontext.dumps(redacted)})


def _cut(data: bytes) -> int:
    """Where to cut a text in two without cutting a line or a private key."""
    cut = data.rfind(b"\n") + 1
    if not cut:
        return 0 if len(data) < 2 * _BLOCK_BYTES else len(data)
    begins = [match.start() for match in _BEGIN.finditer(data, 0, cut)]
    if begins and _END.search(data, begins[-1], cut) is None:
        start = data.rfind(b"\n", 0, begins[-1]) + 1
        if cut - start < _PRIVATE_KEY_BYTES_MAX:
            return start
    return cut
