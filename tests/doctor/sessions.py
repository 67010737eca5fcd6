"""A session in its place on disk, whose transcript a test writes byte for byte."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from tests.model.strategies import Writer

from rewake.doctor.check import check
from rewake.doctor.findings import Finding, Report
from rewake.doctor.repair import RepairReport, repair
from rewake.doctor.subject import Subject
from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths
from rewake.log.lock import Holder
from rewake.model import events as ev
from rewake.model.codec import CRC_BYTES, seal_line
from rewake.model.content import Text

SESSION_ID = "00000000-0000-7000-8000-000000000000"
MOMENT = "20260102T030405Z"


@dataclass
class Patient:
    """`write` sets the transcript's bytes; the rest looks at them."""

    paths: SessionPaths
    disk: Disk

    @property
    def subject(self) -> Subject:
        return Subject.of(self.paths, self.disk)

    def write(self, data: bytes) -> None:
        self.disk.make_directory(self.paths.directory, sync=False)
        self.disk.make_directory(self.paths.blobs, sync=False)
        self.paths.transcript.unlink(missing_ok=True)
        self.disk.write_atomic(self.paths.transcript, data, sync=False)

    def read(self) -> bytes:
        return self.paths.transcript.read_bytes()

    def check(self, *, deep: bool = False) -> Report:
        return check(self.subject, self.disk, deep=deep)

    def found(self, data: bytes | None = None) -> list[str]:
        """The kinds found, in order, without what says that all is as it should be."""
        if data is not None:
            self.write(data)
        return [finding.kind for finding in self.check().findings]

    def the(self, kind: str) -> Finding:
        """The one finding of a kind."""
        (finding,) = [item for item in self.check().findings if item.kind == kind]
        return finding

    def repair(self, *, dry_run: bool = False) -> RepairReport:
        return repair(self.subject, self.disk, Holder(), moment=MOMENT, dry_run=dry_run)


def story(*prompts: str) -> list[bytes]:
    """The lines, each with its newline, of a healthy session with these prompts."""
    writer = Writer()
    writer.write(ev.SessionStart(project={"root": "/p"}))
    writer.write(ev.RunStart(1))
    for prompt in prompts or ("one", "two", "three"):
        writer.write(ev.Message("user", (Text(prompt),)))
    return writer.lines


def of_another_session(line: bytes) -> bytes:
    """The same event as a line of somebody else's transcript, checksum and all."""
    body = line[: -CRC_BYTES - 1].replace(
        SESSION_ID.encode(), SESSION_ID.replace("7", "8", 1).encode()
    )
    return seal_line(body)


def without_checksum(line: bytes) -> bytes:
    """The same event as a writer that knows no checksums writes it."""
    return line[: -CRC_BYTES - 1] + b"}\n"


def rewritten(line: bytes, **members: object) -> bytes:
    """The line with other members, and the checksum that belongs to it."""
    fields = {**msgspec.json.decode(line), **members}
    del fields["crc32"]
    return seal_line(msgspec.json.encode(fields)[:-1])
