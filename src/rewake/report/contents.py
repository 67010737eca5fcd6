"""What stands in a row: texts cut to a size, arguments, results, pictures, diffs, as plain JSON.

The rules kept here:

- A picture is shown if its bytes are of a raster format that every browser knows, whatever its media
  type says; anything else is named with its size.
- Everything has a greatest size, and what is missing from it is told in characters, lines or bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from rewake.errors import InvalidValueError, StorageError
from rewake.files.differ import diff_states
from rewake.model.content import File, Image, ResultBlock, Text, ToolCall
from rewake.model.events import Change, FileState, Resolution
from rewake.report.clean import Cleaner, name_warnings
from rewake.report.nodes import Highlighting, Node, cut, diff_lines, markdown
from rewake.resume.chain import path_of
from rewake.resume.load import BlobReader

TEXT_CHARS_MAX: Final = 200_000
RESULT_CHARS_MAX: Final = 24_000
ARGUMENT_CHARS_MAX: Final = 12_000
_DIFF_LINES_MAX: Final = 1_500
_DIFF_CHARS_MAX: Final = 150_000
_DIFFS_MAX: Final = 100
_CONTENT_BYTES_MAX: Final = 4 << 20  # of one side of a diff
_REMEMBERED_BYTES_MAX: Final = 1 << 18
_REMEMBERED_MAX: Final = 32  # a session goes back and forth between a few files
_IMAGE_BYTES_MAX: Final = 2 << 20
_IMAGES_BYTES_MAX: Final = 16 << 20
HIGHLIGHTED_CHARS_MAX: Final = 3_000_000  # about four seconds of Pygments
_LINE_CHARS_MAX: Final = 160
_ABOUT_CHARS_MAX: Final = 200
_OBJECT_KEYS: Final = ("file_path", "path", "command", "pattern", "query", "url", "description")
_LANGUAGES: Final = {"command": "bash"}
# What begins with these bytes is such a picture.
_RASTER: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_EVIDENCE_CHARS_MAX: Final = 4_000


class Contents:
    """Makes contents for one page; `root` shortens the paths in it."""

    def __init__(
        self,
        blobs: BlobReader,
        cleaner: Cleaner,
        *,
        highlighted_chars_max: int = HIGHLIGHTED_CHARS_MAX,
    ) -> None:
        self.root = ""
        self._blobs = blobs
        self._cleaner = cleaner
        self._highlighting = Highlighting(highlighted_chars_max)
        self._images_left = _IMAGES_BYTES_MAX
        self._read_last: dict[str, bytes] = {}

    # --- texts -----------------------------------------------------------------------------

    def markdown(self, text: str) -> list[Node]:
        """Prose of a model."""
        return markdown(text, self._highlighting)

    def blocks(self, blocks: Iterable[ResultBlock]) -> list[dict[str, Any]]:
        """What a tool answered."""
        return [self.block(block) for block in blocks]

    def block(self, block: ResultBlock) -> dict[str, Any]:
        """One block of it."""
        if isinstance(block, Text):
            return {"text": cut(block.text, RESULT_CHARS_MAX)}
        return self.attached(block)

    def attached(self, block: Image | File) -> dict[str, Any]:
        """A picture, or the name of what is none."""
        named: dict[str, Any] = {"type": block.media_type, "size": block.size}
        if isinstance(block, File):
            named["name"] = self.name(block.name)
        if isinstance(block, Image) or block.media_type.startswith("image/"):
            named.update(self._picture(block.sha256, block.size))
        return named

    def _picture(self, sha256: str, size: int) -> dict[str, Any]:
        if size > _IMAGE_BYTES_MAX or size > self._images_left:
            return {"problem": "It is too large for this page."}
        try:
            data = self._blobs.get(sha256)
        except (StorageError, InvalidValueError):
            return {"problem": "Its bytes are gone."}
        kind = _raster_type(data)
        if kind is None or len(data) > self._images_left:
            return {"problem": "It is no picture of a kind that is shown."}
        self._images_left -= len(data)
        return {"src": f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"}

    def name(self, path: str) -> dict[str, Any]:
        """A path as it is called in the project, with what may mislead in it."""
        prefix = f"{self.root}/"
        short = path.removeprefix(prefix) if self.root else path
        named: dict[str, Any] = {"path": short}
        warnings = name_warnings(short)
        if warnings:
            named["warnings"] = warnings
        return named

    # --- calls -----------------------------------------------------------------------------

    def call(self, block: ToolCall) -> dict[str, Any]:
        """A call as the model asked for it."""
        content: dict[str, Any] = {"name": block.name, "about": self._about(block)}
        if block.arguments_text is not None:
            content["argumentsText"] = cut(block.arguments_text, ARGUMENT_CHARS_MAX)
        else:
            content["arguments"] = self.members(block.arguments, ARGUMENT_CHARS_MAX)
        return content

    def members(self, members: Mapping[str, Any], chars_max: int) -> list[list[Any]]:
        """The members of an object: name, text, and its highlighted form where there is one."""
        found: list[list[Any]] = []
        for key, value in members.items():
            text = value if isinstance(value, str) else _json(value)
            language = _LANGUAGES.get(key) if isinstance(value, str) else None
            row: list[Any] = [key, cut(text, chars_max)]
            if language is not None and len(text) <= chars_max:
                pairs = self._highlighting.code(text, language)
                if pairs is not None:
                    row.append(pairs)
            found.append(row)
        return found

    def evidence(self, resolution: Resolution) -> dict[str, Any]:
        """A verdict with its proof."""
        return {
            "verdict": resolution.verdict,
            "evidence": self.members(resolution.evidence, _EVIDENCE_CHARS_MAX),
            "by": resolution.by,
            "note": resolution.note,
        }

    def _about(self, block: ToolCall) -> str:
        for key in _OBJECT_KEYS:
            value = block.arguments.get(key)
            if isinstance(value, str) and value:
                short = value.removeprefix(f"{self.root}/") if self.root else value
                return _first_line(short)
        if block.arguments_text is not None:
            return _first_line(block.arguments_text)
        return _first_line(_short_json(block.arguments)) if block.arguments else ""

    # --- changes ---------------------------------------------------------------------------

    def diffs(self, changes: Sequence[Change]) -> list[dict[str, Any]]:
        """The differences that a call made."""
        found = [self.diff(change.path, change) for change in changes[:_DIFFS_MAX]]
        if len(changes) > _DIFFS_MAX:
            more = len(changes) - _DIFFS_MAX
            found.append({"path": "…", "kind": "", "problem": f"{more} more files were changed."})
        return found

    def diff(self, path: str, change: Change) -> dict[str, Any]:
        """The difference of one path."""
        return self.difference(path, change.before, change.after, change)

    def difference(
        self, path: str, before: FileState, after: FileState, change: Change | None = None
    ) -> dict[str, Any]:
        """The difference of two states of a path."""
        named = self.name(path)
        shown = named["path"]
        if max(before.size, after.size) > _CONTENT_BYTES_MAX:
            size = f"{before.size:,} → {after.size:,} bytes"
            return {
                **named,
                "kind": _kind(before, after),
                "problem": f"Too large to compare: {size}.",
            }
        try:
            exact = path_of(change) if change is not None else path.encode("utf-8", "replace")
            found = diff_states(exact, shown, before, after, self._read)
        except (ValueError, InvalidValueError):
            return {**named, "kind": _kind(before, after), "problem": "Its path can't be read."}
        named.update(kind=found.kind, added=found.added, removed=found.removed)
        if found.problem:
            return {**named, "problem": "Its content can't be read any more."}
        text = found.text
        if len(text) > _DIFF_CHARS_MAX:
            text = text[:_DIFF_CHARS_MAX].rpartition("\n")[0]
        lines = diff_lines(text, PurePosixPath(shown).name, self._highlighting)
        named["lines"] = lines[:_DIFF_LINES_MAX]
        left_out = found.text.count("\n") - text.count("\n") + max(0, len(lines) - _DIFF_LINES_MAX)
        if left_out:
            named["leftOut"] = left_out
        return named

    def _read(self, sha256: str) -> bytes:
        """A content, cleaned; what an edit left is what the next one begins with."""
        known = self._read_last.pop(sha256, None)
        if known is None:
            known = self._cleaner.content(self._blobs.get(sha256))
        if len(known) <= _REMEMBERED_BYTES_MAX:
            self._read_last[sha256] = known
            if len(self._read_last) > _REMEMBERED_MAX:
                del self._read_last[next(iter(self._read_last))]
        return known


def _raster_type(data: bytes) -> str | None:
    for beginning, kind in _RASTER:
        if data.startswith(beginning):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _kind(before: FileState, after: FileState) -> str:
    if before.kind == "absent":
        return "created"
    return "deleted" if after.kind == "absent" else "changed"


def _json(value: object) -> str:
    """On one line where that is short enough to be read at a glance."""
    short = _short_json(value)
    return (
        short if len(short) <= _LINE_CHARS_MAX else json.dumps(value, ensure_ascii=False, indent=2)
    )


def _short_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _first_line(text: str) -> str:
    line = text.strip().split("\n")[0]
    return line if len(line) <= _ABOUT_CHARS_MAX else line[:_ABOUT_CHARS_MAX] + "…"
