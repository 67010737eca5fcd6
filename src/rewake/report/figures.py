"""What the head of the page says: runs, models, tokens, cost, time, title.

The rule kept here: what a fork's origin used is the origin's; a cost that nobody told is unknown, not
zero.
"""

from __future__ import annotations

from typing import Any, Final

from rewake.model.content import Usage
from rewake.model.events import Metadata, RunStart, Terminal

_RUNS_MAX: Final = 500


class Figures:
    """The counts of one transcript."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.calls = 0
        self.failed = 0
        self.prompts = 0
        self.added = 0
        self.removed = 0
        self.runs = 0
        self.reason: str | None = None
        self.created_at = ""
        self.updated_at = ""
        self.title = ""
        self.agent_type = ""
        self.parent_agent = ""
        self._first_prompt = ""
        self._tags: list[str] = []
        self._runs: list[dict[str, Any]] = []
        self._models: dict[str, list[Any]] = {}
        self._model = ""

    def heard(self, timestamp: str) -> None:
        """Any event."""
        self.created_at = self.created_at or timestamp
        self.updated_at = timestamp

    def prompted(self, label: str) -> None:
        """A person said something."""
        self.prompts += 1
        self._first_prompt = self._first_prompt or label

    def answered(self, model: str, *, inherited: bool) -> None:
        """A model said something."""
        if not inherited:
            self._model_row(model)[0] += 1

    def used(self, usage: Usage, model: str) -> None:
        """What a model call used."""
        self.usage = self.usage + usage
        row = self._model_row(model)
        row[1] = row[1] + usage

    def _model_row(self, model: str) -> list[Any]:
        name = model or self._model or "unknown"
        return self._models.setdefault(name, [0, Usage()])

    def changed(self, diff: dict[str, Any]) -> None:
        """A difference that a call made."""
        self.added += diff.get("added", 0)
        self.removed += diff.get("removed", 0)

    def began(self, run: RunStart, timestamp: str, row: int) -> dict[str, Any]:
        """A run; what its row says."""
        self.runs += 1
        self.reason = None
        self._model = run.model or self._model
        told = {
            "number": self.runs,
            "begun": timestamp,
            "model": run.model,
            "version": run.app_version,
            "host": run.host,
            "pid": run.pid,
            "cwd": run.cwd,
            "mode": run.permission_mode,
        }
        self._runs.append({**told, "row": row, "ended": None, "reason": None})
        if len(self._runs) > _RUNS_MAX:
            del self._runs[1]
        return told

    def ended(self, terminal: Terminal, timestamp: str) -> None:
        """A run ended in an orderly way."""
        self.reason = terminal.reason
        if self._runs:
            self._runs[-1].update(ended=timestamp, reason=terminal.reason)

    def named(self, metadata: Metadata) -> None:
        """A title, tags."""
        if "title" in metadata.entries:
            title = metadata.entries["title"]
            self.title = title if isinstance(title, str) else ""
        self.agent_type = str(metadata.entries.get("agent_type") or self.agent_type)
        self.parent_agent = str(metadata.entries.get("parent_agent_id") or self.parent_agent)
        if "tags" in metadata.entries:
            tags = metadata.entries["tags"]
            self._tags = [str(tag) for tag in tags] if isinstance(tags, list) else []

    def listed(self) -> dict[str, Any]:
        """For the page."""
        return {
            "title": self.title or self._first_prompt,
            "tags": self._tags,
            "created": self.created_at,
            "updated": self.updated_at,
            "reason": self.reason,
            "runs": self._runs,
            "runCount": self.runs,
            "prompts": self.prompts,
            "calls": self.calls,
            "failed": self.failed,
            "added": self.added,
            "removed": self.removed,
            "usage": _usage(self.usage),
            "models": [
                {"name": name, "steps": steps, **_usage(usage)}
                for name, (steps, usage) in self._models.items()
            ],
        }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cacheRead": usage.cache_read_tokens,
        "cacheWrite": usage.cache_write_tokens,
        "cost": usage.cost_usd,
    }
