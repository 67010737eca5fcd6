"""The blobs that a transcript refers to: there, and with the bytes of their names.

The rule kept here: each blob is read once, and one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rewake.doctor.findings import Findings, Kind
from rewake.doctor.lines import Line
from rewake.errors import RewakeError
from rewake.log.blobs import BlobStore
from rewake.model.codec import decode_payload
from rewake.model.content import ContentBlock, File, Image, ResultBlock, ToolResult
from rewake.model.events import Event, Message, Spilled, ToolLifecycle


class Contents:
    """Checks blobs by name; without a store they are only counted."""

    def __init__(self, findings: Findings, blobs: BlobStore | None) -> None:
        self._findings = findings
        self._blobs = blobs
        self._looked_at: set[str] = set()

    def inflate(self, event: Event, line: Line) -> Event:
        """The event with its whole payload if that is in a blob and can be read; else as it is."""
        payload = event.payload
        if not isinstance(payload, Spilled):
            return event
        raw = self._read(payload.blob.sha256, "its payload", event.offset, line.number)
        if raw is None:
            return event
        whole = decode_payload(event.event_type, event.schema_version, raw)
        return msgspec.structs.replace(event, payload=whole)

    def accept(self, event: Event, line: Line) -> None:
        """Check the images and files that the event shows."""
        payload = event.payload
        blocks: tuple[ContentBlock, ...] | tuple[ResultBlock, ...] = ()
        if isinstance(payload, Message):
            blocks = payload.content
        elif isinstance(payload, ToolLifecycle) and payload.result is not None:
            blocks = payload.result.content
        for block in _attached(blocks):
            what = f"a file of type {block.media_type}"
            self.check(block.sha256, what, event.offset, line.number)

    def check(self, sha256: str, what: str, offset: int, line_number: int) -> None:
        """See that one blob is whole."""
        if sha256 not in self._looked_at:
            self._read(sha256, what, offset, line_number)

    def finish(self) -> None:
        """Say if nobody could look."""
        if self._blobs is None and self._looked_at:
            detail = f"{len(self._looked_at)} blobs are named and were not looked for"
            self._findings.add("blobs_unchecked", detail)

    def _read(self, sha256: str, what: str, offset: int, line_number: int) -> bytes | None:
        self._looked_at.add(sha256)
        if self._blobs is None:
            return None
        try:
            return self._blobs.get(sha256)
        except RewakeError as error:
            is_missing = isinstance(error.__cause__, FileNotFoundError)
            kind: Kind = "missing_blob" if is_missing else "damaged_blob"
            detail = f"{what}: {error.message}"
            self._findings.add(kind, detail, offset=offset, line_number=line_number)
            return None


def _attached(
    blocks: tuple[ContentBlock, ...] | tuple[ResultBlock, ...],
) -> Iterator[Image | File]:
    for block in blocks:
        if isinstance(block, Image | File):
            yield block
        elif isinstance(block, ToolResult):
            yield from _attached(block.content)
