"""Session memory: what a model should still know of a session when its early messages are gone.

The rules kept here: everything is bounded (newest kept, older counted), each event costs O(1), each
item names the event it came from, and the rendered text stays within `TOKENS_MAX` whatever happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from rewake.model.content import plain_text
from rewake.model.events import (
    AgentEvent,
    Change,
    Outcome,
    Resolution,
    Result,
    Todo,
    Verification,
)
from rewake.state.text import clip, estimate_tokens, head, valid_unicode

TOKENS_MAX: Final = 2000
_GOAL_BYTES_MAX: Final = 400
_ITEM_BYTES_MAX: Final = 120

Section = Literal["completed", "decisions", "failed"]
# Sized so that all sections full of longest items stay below TOKENS_MAX at 3 bytes a token.
_ITEMS_MAX: Final[dict[Section, int]] = {"completed": 10, "decisions": 6, "failed": 6}
_TODOS_MAX: Final = 12
_TITLES: Final[dict[Section, str]] = {
    "completed": "Completed work",
    "decisions": "Decisions",
    "failed": "Failed attempts",
}


class Item(msgspec.Struct, frozen=True):
    """One remembered fact and the event it came from."""

    text: str
    event_id: str


class SessionMemory(msgspec.Struct):
    """The bounded fold. `older` counts, by section, what no longer fits."""

    goal: Item | None = None
    completed: list[Item] = []
    decisions: list[Item] = []
    failed: list[Item] = []
    older: dict[str, int] = {}
    todos: tuple[Todo, ...] = ()
    todos_event_id: str = ""
    verification: Verification | None = None
    verification_event_id: str = ""
    verification_stale: bool = False

    def prompt(self, event_id: str, text: str) -> None:
        """A user's prompt is the current goal."""
        self.goal = Item(head(text, _GOAL_BYTES_MAX), event_id)

    def remember(self, section: Section, event_id: str, text: str) -> None:
        """Add an item; the oldest of a full section is only counted from then on."""
        items: list[Item] = getattr(self, section)
        items.append(Item(clip(text, _ITEM_BYTES_MAX), event_id))
        if len(items) > _ITEMS_MAX[section]:
            del items[0]
            self.older[section] = self.older.get(section, 0) + 1

    def completed_call(self, event_id: str, tool_name: str, outcome: Outcome | None) -> None:
        """A call that ended as it should. Calls that only read are no work worth remembering."""
        if outcome is None:
            return
        if outcome.todos is not None:
            self.todos = outcome.todos
            self.todos_event_id = event_id
        self.changed(outcome.changes)
        self._verified(event_id, outcome)
        command_id = outcome.details.get("command_id")
        if outcome.output_read is None and isinstance(command_id, str):
            text = f"{_summary(tool_name, outcome)} (in the background as {command_id})"
            self.remember("completed", event_id, text)
        elif outcome.changes or outcome.exit_code is not None:
            self.remember("completed", event_id, _summary(tool_name, outcome))

    def changed(self, changes: Sequence[Change]) -> None:
        """Files were changed: what was verified before that is no longer."""
        if changes:
            self.went_elsewhere()

    def went_elsewhere(self) -> None:
        """What there is may not be what was verified."""
        self.verification_stale = self.verification is not None

    def _verified(self, event_id: str, outcome: Outcome) -> None:
        if outcome.verification is not None:
            self.verification = outcome.verification
            self.verification_event_id = event_id
            self.verification_stale = False

    def failed_call(
        self, event_id: str, tool_name: str, outcome: Outcome | None, result: Result | None
    ) -> None:
        """A call that failed, with the beginning of what it said."""
        said = plain_text(result.content) if result is not None else ""
        self.remember("failed", event_id, f"{_summary(tool_name, outcome)}: {said}".rstrip(": "))
        if outcome is not None:
            self.changed(outcome.changes)
            self._verified(event_id, outcome)

    def resolved_call(
        self, event_id: str, tool_name: str, resolution: Resolution, outcome: Outcome | None
    ) -> None:
        """An interrupted call with its verdict, or the end of a command in the background."""
        section: Section = "completed" if resolution.verdict == "applied" else "failed"
        if outcome is not None:
            self.changed(outcome.changes)
        command_id = resolution.evidence.get("command_id")
        if isinstance(command_id, str):
            if outcome is not None and outcome.exit_code != 0:
                section = "failed"
            self.remember(section, event_id, f"{tool_name} {command_id}: {resolution.note}")
            return
        words = resolution.verdict.replace("_", " ")
        self.remember(section, event_id, f"{tool_name} was interrupted: {words}")

    def agent(self, event_id: str, event: AgentEvent) -> None:
        """What a sub-agent changed since it was heard of last."""
        self.changed(event.changes)
        if event.changes:
            who = f"{event.agent_type or 'sub'}-agent {event.status}"
            self.remember("completed", event_id, f"{who}: {event.task}".rstrip(": "))

    def render(self) -> str:
        """The text for the model; empty when there is nothing to say."""
        completed, decisions, failed = list(self.completed), list(self.decisions), list(self.failed)
        while True:
            text = self._render(completed, decisions, failed)
            longest = max((completed, failed, decisions), key=len)
            if estimate_tokens(text) <= TOKENS_MAX or not longest:
                return text
            del longest[0]

    def _render(self, completed: list[Item], decisions: list[Item], failed: list[Item]) -> str:
        parts: list[str] = []
        if self.goal is not None:
            parts.append(f"Current goal: {clip(self.goal.text, _GOAL_BYTES_MAX)}")
        parts.extend(self._open_todos())
        if self.verification is not None:
            state = "passed" if self.verification.passed else "failed"
            stale = ", before later changes" if self.verification_stale else ""
            parts.append(f"Verification: {clip(self.verification.command, 80)} {state}{stale}")
        parts += self._section("decisions", decisions)
        parts += self._section("failed", failed)
        parts += self._section("completed", completed)
        return valid_unicode("\n".join(parts))

    def _section(self, section: Section, items: list[Item]) -> list[str]:
        kept: list[Item] = getattr(self, section)
        older = self.older.get(section, 0) + len(kept) - len(items)
        if not items and not older:
            return []
        more = f" ({older} older not shown)" if older else ""
        return [f"{_TITLES[section]}{more}:", *(f"- {item.text}" for item in items)]

    def _open_todos(self) -> list[str]:
        unfinished = [todo for todo in self.todos if todo.status in {"pending", "in_progress"}]
        if not unfinished:
            return []
        shown = unfinished[:_TODOS_MAX]
        more = f" ({len(unfinished) - len(shown)} more)" if len(unfinished) > len(shown) else ""
        lines = [f"- [{todo.status}] {clip(todo.content, _ITEM_BYTES_MAX)}" for todo in shown]
        return [f"Open todos{more}:", *lines]


def _summary(tool_name: str, outcome: Outcome | None) -> str:
    if outcome is None:
        return tool_name
    said = outcome.details.get("summary")
    if isinstance(said, str) and said:
        text = said if said.startswith(tool_name) else f"{tool_name} {said}"
    else:
        text = f"{tool_name} {' '.join(change.path for change in outcome.changes[:3])}".rstrip()
    return text if outcome.exit_code is None else f"{text} (exit code {outcome.exit_code})"
