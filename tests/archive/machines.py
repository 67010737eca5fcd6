"""A machine for tests: a home, a project, sessions in it, and what can be done with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import rewake
from rewake.archive.export import Exported, export_session
from rewake.archive.gc import Collected, Collector
from rewake.archive.importing import Imported, check_archive, import_session
from rewake.archive.trash import Deleted, Trash
from rewake.compose.place import Place, place
from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths
from rewake.log.lock import Holder
from rewake.redaction.redactor import Redactor
from rewake.resume.lineage import Ancestors
from rewake.session.core import Session

DELETED_AT = "2026-01-02T03:04:05.000000Z"
LONG = "a long answer, " * 6_000  # over 64 KiB, so that its payload is spilled


@dataclass
class Machine:
    """`open` opens a session there; the other methods do what the commands do."""

    root: Path

    def __post_init__(self) -> None:
        self.project.mkdir(parents=True)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def at(self) -> Place:
        return place(self.project, self.home)

    @property
    def trash(self) -> Trash:
        return Trash(self.home, Disk())

    def open(self, resume: str | None = None, *, fork: bool = False) -> Session:
        return rewake.open_session(
            self.project, home=self.home, resume=resume, fork=fork, durability="process"
        )

    def talk(self, *prompts: str, answer: str = "done") -> str:
        """The id of a new session in which this was said."""
        with self.open() as session:
            for prompt in prompts or ("one", "two"):
                session.user(prompt)
                session.assistant(answer)
            session.terminal("done")
            return session.session_id

    def fork(self, origin: str, *prompts: str) -> str:
        """The id of a fork of it, in which this was said after it."""
        with self.open(origin, fork=True) as session:
            for prompt in prompts:
                session.user(prompt)
            session.terminal("done")
            return session.session_id

    def said(self, session_id: str) -> list[str]:
        """The texts of the next request, from a resume without any damage."""
        with self.open(session_id) as session:
            assert session.resumed is not None
            assert session.resumed.damage == ()
            return texts(session)

    def paths(self, session_id: str) -> SessionPaths:
        return self.at.layout.find(session_id)

    def blobs(self) -> list[str]:
        return sorted(path.name for path in self.home.glob("projects/*/blobs/*"))

    def export(
        self,
        session_id: str,
        output: Path,
        redactor: Redactor | None = None,
        disk: Disk | None = None,
    ) -> Exported:
        paths = self.paths(session_id)
        ancestors = Ancestors(paths, self.at.layout.find)
        return export_session(paths, ancestors, output, disk or Disk(), redactor)

    def take(
        self, archive: Path, *, new_id: str | None = None, disk: Disk | None = None
    ) -> Imported:
        checked = check_archive(archive)
        return import_session(checked, self.home, self.project, disk or Disk(), new_id=new_id)

    def delete(self, session_id: str, *, disk: Disk | None = None) -> Deleted:
        return Trash(self.home, disk or Disk()).delete(
            self.paths(session_id), Holder(started_at=DELETED_AT)
        )

    def empty_trash(self) -> None:
        for entry in self.trash.entries():
            self.trash.remove(entry)

    def collector(self, *, days_later: float = 0) -> Collector:
        import time

        directory = self.at.layout.project_directory(self.project)
        return Collector(
            directory, self.home, Disk(), clock=lambda: time.time() + days_later * 86_400
        )

    def gc(self, *, days_later: float = 0) -> Collected:
        collector = self.collector(days_later=days_later)
        return collector.collect(collector.plan())


def texts(session: Session) -> list[str]:
    return [
        block.text
        for message in session.view()
        for block in message.content
        if isinstance(block, rewake.Text)
    ]
