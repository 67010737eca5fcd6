"""A session as the page takes it: its story, its sub-agents' stories, its damage, as JSON.

The rules kept here: the page of a file and the live one get the same shapes; what is asked of a
session costs what is new in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from rewake.doctor.check import check
from rewake.doctor.findings import Report
from rewake.doctor.subject import Subject
from rewake.errors import RewakeError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths, checked_name, is_name
from rewake.log.lock import holder
from rewake.model import jsontext
from rewake.report.clean import Cleaner
from rewake.report.contents import HIGHLIGHTED_CHARS_MAX, Contents
from rewake.report.reading import Reading
from rewake.report.story import KINDS, Story
from rewake.resume.lineage import Ancestors, OpenTranscript
from rewake.resume.listing import SessionInfo, describe
from rewake.resume.sidechains import agent_files

_FINDINGS_MAX: Final = 300
_AGENTS_MAX: Final = 200
_STEPS_AGAIN: Final = 20  # whose usage may have come late


class Telling:
    """One session being told. `main` is its own story; those of sub-agents are opened when asked for."""

    def __init__(
        self,
        paths: SessionPaths,
        open_transcript: OpenTranscript,
        blobs: BlobStore,
        cleaner: Cleaner,
    ) -> None:
        self.paths = paths
        self._blobs = blobs
        self._cleaner = cleaner
        self._highlighted_max = HIGHLIGHTED_CHARS_MAX
        self.main = Reading(
            paths.transcript, open_transcript, blobs, cleaner, lambda: Story(self._contents())
        )
        self._agents: dict[str, Reading] = {}

    def _contents(self) -> Contents:
        limit = self._highlighted_max
        return Contents(self._blobs, self._cleaner, highlighted_chars_max=limit)

    # --- sub-agents ------------------------------------------------------------------------

    def agent_ids(self) -> list[str]:
        """Those that have a transcript here, in order of their ids."""
        found = (path.stem for path in agent_files(self.paths.directory))
        return list(islice(filter(is_name, found), _AGENTS_MAX))

    def agent(self, agent_id: str) -> Reading:
        """The story of one, read as far as it goes. Raises UsageError for an id that is none, and what
        `Reading.catch_up` raises.
        """
        checked_name(agent_id)
        reading = self._agents.get(agent_id)
        if reading is None:
            reading = Reading(
                self.paths.agent_transcript(agent_id),
                Ancestors(self.paths),
                self._blobs,
                self._cleaner,
                lambda: Story(self._contents()),
            )
            self._agents[agent_id] = reading
        reading.catch_up()
        return reading

    def forget(self, agent_id: str) -> None:
        """Don't keep the story of one."""
        self._agents.pop(agent_id, None)

    def readable_agents(self) -> Iterator[tuple[str, Reading]]:
        """All of them; a broken one costs only itself, `check` reports it."""
        for agent_id in self.agent_ids():
            try:
                yield agent_id, self.agent(agent_id)
            except RewakeError:
                continue

    # --- for the page ----------------------------------------------------------------------

    def head(self, disk: Disk) -> dict[str, Any]:
        """What stands above everything."""
        info = describe(self.paths, self._blobs, disk)
        story = self.main.story
        told = story.figures.listed()
        told["title"] = told["title"] or self._cleaner.clipped(info.title)
        return {
            "kinds": KINDS,
            "id": self.paths.session_id,
            **told,
            **self._told_by(info),
            "forkedFrom": self._origin(),
            "workingMs": story.timeline.working_ms,
            "segments": story.segments.listed(),
            "current": story.segments.current,
            "promptRows": [prompt[:4] for prompt in story.prompts],
            "interrupted": story.calls.interrupted,
            "agents": self._listed_agents(),
            "redacted": self._cleaner.counts,
            "damaged": story.damaged,
        }

    def _listed_agents(self) -> list[dict[str, Any]]:
        """Those with a transcript here, then those that are only told of."""
        known = self.main.story.calls.agents
        here = self.agent_ids()
        listed = [
            {"id": one, "here": True, **self._facts(one), **known.get(one, {})} for one in here
        ]
        others = [one for one in known if one not in set(here)][:_AGENTS_MAX]
        return listed + [{"id": one, "here": False, **known[one]} for one in others]

    def _facts(self, agent_id: str) -> dict[str, Any]:
        """What an agent's own transcript says of it; of one below another there is nothing else."""
        reading = self._agents.get(agent_id)
        if reading is None and agent_id in self.main.story.calls.agents:
            return {}
        try:
            figures = (reading or self.agent(agent_id)).story.figures
        except RewakeError:
            return {}
        facts = {"task": figures.title, "type": figures.agent_type, "parent": figures.parent_agent}
        return {key: value for key, value in facts.items() if value}

    def _told_by(self, info: SessionInfo) -> dict[str, Any]:
        return {
            "project": self._cleaner.text(info.project),
            "branch": self._cleaner.text(info.branch),
            "state": info.state,
            "problem": self._cleaner.text(info.problem) if info.problem else None,
            "bytes": info.size_bytes,
        }

    def _origin(self) -> str | None:
        inherited = [item for item in self.main.story.segments.all if item.inherited]
        return inherited[-1].last_id if inherited else None

    def is_written(self, disk: Disk) -> bool:
        """Whether a process has the session open for writing now."""
        try:
            return holder(self.paths.lock, disk) is not None
        except RewakeError:
            return False  # `head` says what is wrong with the lock

    def findings(self, disk: Disk) -> dict[str, Any]:
        """What `check` says. Reads the whole transcript."""
        report: Report = check(Subject.of(self.paths, disk), disk)
        listed = [msgspec.to_builtins(finding) for finding in report.findings[:_FINDINGS_MAX]]
        for finding in listed:
            finding.update(
                {
                    key: self._cleaner.text(value)
                    for key, value in finding.items()
                    if isinstance(value, str)
                }
            )
        return {"findings": listed, "counts": report.counts, "ok": report.ok}


def told(reading: Reading, rows: int = 0, steps: int = 0) -> dict[str, Any]:
    """The rows and steps of a story from these numbers on, and the contents that stand in no chunk."""
    story = reading.story
    start = max(0, min(steps, story.timeline.count) - _STEPS_AGAIN)
    return {
        "generation": reading.generation,
        "rows": story.store.rows(rows),
        "steps": story.timeline.columns(start),
    }


def files(reading: Reading) -> dict[str, Any]:
    """What changed in files, by turn; the differences of turns that are over stand in chunks."""
    turns = reading.story.turns
    contents = [[row, jsontext.loads(content)] for row, content in turns.store.open_contents()]
    return {**turns.listed(), "rows": turns.store.rows(), "open": contents}
