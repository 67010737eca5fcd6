"""One transcript told: events go in one by one, rows with contents, branches and figures come out.

The rules kept here:

- It is a fold like any other: the same events give the same story, at once or while they are written.
- Rows stand in the order of the file, each in its branch; nothing is left out because a branch was
  left, and nothing that can't be read ends the telling.
- Memory is bounded by what the page may hold, open calls and a number an event.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from rewake.model.content import (
    File,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    plain_text,
)
from rewake.model.events import (
    AgentEvent,
    Checkpoint,
    Event,
    Message,
    MessageAmendment,
    Metadata,
    Rewind,
    RunStart,
    SessionStart,
    StateTransition,
    Terminal,
    ToolLifecycle,
)
from rewake.report.calls import Calls, key_of
from rewake.report.chunks import CHANGES, Store
from rewake.report.contents import TEXT_CHARS_MAX, Contents
from rewake.report.figures import Figures
from rewake.report.nodes import cut
from rewake.report.segments import Segments
from rewake.report.timeline import Timeline
from rewake.report.turns import Turns
from rewake.resume.load import Damage
from rewake.state.text import clip

KINDS: Final = (
    *("prompt", "answer", "thinking", "call", "result", "note", "summary"),
    *("attached", "run", "end", "rewind", "damage", "opaque", "agent"),
)
_KIND: Final = {name: number for number, name in enumerate(KINDS)}
_SAID: Final = frozenset({"prompt", "answer", "call", "note", "attached"})
_LABEL_BYTES_MAX: Final = 160
_PROMPTS_MAX: Final = 2_000
_DAMAGE_MAX: Final = 1_000
_CHARS_PER_LINE: Final = 90


class Story:
    """The fold of one transcript, a session's or a sub-agent's."""

    def __init__(self, contents: Contents) -> None:
        self.store = Store()
        self.segments = Segments()
        self.timeline = Timeline()
        self.turns = Turns(contents)
        self.figures = Figures()
        self.prompts: list[list[Any]] = []
        self.damaged = 0
        self._contents = contents
        self._inherited = False
        self.calls = Calls(self.store, contents, self.timeline, self.turns, self.figures)
        self._began: datetime | None = None
        self._now = 0
        self._before = 0
        self._tellers: dict[type, Callable[[Event, Any], None]] = {
            Message: self._message,
            ToolLifecycle: self._phase,
            StateTransition: lambda _event, payload: self.timeline.transition(payload, self._now),
            MessageAmendment: self._amendment,
            Checkpoint: self._compaction,
            RunStart: self._run,
            Terminal: self._terminal,
            Rewind: self._rewind,
            AgentEvent: self._agent,
            SessionStart: self._start,
            Metadata: lambda _event, payload: self.figures.named(payload),
        }

    # --- events ----------------------------------------------------------------------------

    def place(self, event: Event, parent_id: str | None, *, inherited: bool) -> bool:
        """Take up where an event stands; False for one that was there before. Comes before `apply`."""
        self._before, self._now = self._now, self._time(event.timestamp)
        self._inherited = inherited
        self.figures.heard(event.timestamp)
        return self.segments.place(
            event.event_id, parent_id, rows=self.store.count, inherited=inherited
        )

    def apply(self, event: Event) -> None:
        """Take up what it says; its payload must be whole and clean. Never raises for what is odd."""
        tell = self._tellers.get(type(event.payload))
        if tell is not None:
            tell(event, event.payload)

    def damage(self, damage: Damage) -> None:
        """A line that can't be read."""
        self.damaged += 1
        if self.damaged <= _DAMAGE_MAX and self.segments.all:
            row = self.store.add(_KIND["damage"], self.segments.current, self._now, self._step)
            self.store.put(row, {"text": str(damage)})

    @property
    def _step(self) -> int:
        return self.timeline.count

    def _time(self, timestamp: str) -> int:
        """Milliseconds since the first event; a time that can't be read is that of the line before."""
        try:
            moment = datetime.fromisoformat(timestamp)
        except ValueError:
            return self._now
        if self._began is None:
            self._began = moment
        try:
            return int((moment - self._began).total_seconds() * 1000)
        except TypeError:  # one with a zone, the other without
            return self._now

    def _row(self, event: Event, kind: str) -> int:
        row = self.store.add(_KIND[kind], self.segments.current, self._now, self._step)
        self.segments.has_row(event.event_id, row)
        return row

    def _put(self, event: Event, kind: str, content: dict[str, Any], lines: int = 1) -> int:
        row = self._row(event, kind)
        self.store.put(row, content, lines)
        return row

    # --- messages --------------------------------------------------------------------------

    def _message(self, event: Event, message: Message) -> None:
        first = self.store.count
        kind = _kind_of(message)
        text = message.typed or plain_text(message.content)
        if kind == "prompt":
            self.timeline.prompt()
            self._prompt(event, text)
        for index, block in enumerate(message.content):
            self._block(event, message, kind, block, index)
        if self.store.count > first and kind in _SAID:
            self.segments.said(clip(text, _LABEL_BYTES_MAX), self._now)
        if message.role == "assistant":
            row = first if self.store.count > first else -1
            self.timeline.answer(event.event_id, row, message.usage, self._now, self._before)
            self.figures.answered(message.model, inherited=self._inherited)
            if message.usage is not None and not self._inherited:
                self.figures.used(message.usage, message.model)

    def _prompt(self, event: Event, text: str) -> None:
        label = clip(text, _LABEL_BYTES_MAX)
        row = self.store.count
        self.turns.begin(row, label, self._now)
        self.prompts.append([row, label, self._now, self.segments.current, event.event_id])
        if len(self.prompts) > _PROMPTS_MAX * 5 // 4:
            del self.prompts[:-_PROMPTS_MAX]
        self.figures.prompted(label)

    def _block(self, event: Event, message: Message, kind: str, block: object, index: int) -> None:
        match block:
            case Text():
                if block.text.strip():
                    self._text(event, message, kind, block.text)
            case Thinking():
                if block.text.strip():
                    thought = {"text": cut(block.text, TEXT_CHARS_MAX)}
                    self._put(event, "thinking", thought, _lines(block.text))
            case ToolCall():
                self._asked(event, message, block, index)
            case ToolResult():
                self._answered(event, block)
            case Opaque():
                self._put(event, "opaque", {"bytes": len(block.raw)})
            case _:
                content = {"who": message.source or message.role, **self._attached(block)}
                self._put(event, "attached", content, 8 if "src" in content else 1)

    def _attached(self, block: object) -> dict[str, Any]:
        return self._contents.attached(block) if isinstance(block, Image | File) else {}

    def _text(self, event: Event, message: Message, kind: str, text: str) -> None:
        content: dict[str, Any] = {"id": event.event_id}
        if kind == "answer":
            content["nodes"] = self._contents.markdown(text)
            content["model"] = message.model
            if message.stop_reason not in {None, "end", "tool_use"}:
                content["stop"] = message.stop_reason
        else:
            if message.typed:
                content["sent"] = cut(text, TEXT_CHARS_MAX)
            content["text"] = cut(message.typed or text, TEXT_CHARS_MAX)
            content["who"] = message.source or message.role
        self._put(event, kind, content, _lines(text))

    # --- calls -----------------------------------------------------------------------------

    def _asked(self, event: Event, message: Message, block: ToolCall, index: int) -> None:
        number = sum(isinstance(item, ToolCall) for item in message.content[:index])
        row = self._row(event, "call")
        self.calls.asked(event, (event.event_id, number), block, row=row, now=self._now)

    def _answered(self, event: Event, block: ToolResult) -> None:
        """A result in a message of its own, as loops write it that don't use actions."""
        if not self.calls.answered(block, self._now):
            content = {"result": self._contents.blocks(block.content)}
            self._put(event, "result", content, 4)

    def _phase(self, event: Event, phase: ToolLifecycle) -> None:
        if not self.calls.knows(event, phase):
            # Nobody asked for it, or the message that did can't be read.
            block = ToolCall(phase.provider_call_id, phase.tool_name, phase.arguments or {})
            row = self._row(event, "call")
            self.calls.asked(event, key_of(event, phase), block, row=row, now=self._now)
        self.calls.phase(event, phase, self._now)

    def show_open(self) -> None:
        """Somebody looks now: calls that are at work say what they are about to change."""
        self.calls.show_open()

    # --- everything else -------------------------------------------------------------------

    def _amendment(self, _event: Event, amendment: MessageAmendment) -> None:
        if amendment.usage and self.timeline.amend(amendment.message_id, amendment.usage):
            self.figures.used(amendment.usage, amendment.model or "")

    def _terminal(self, event: Event, terminal: Terminal) -> None:
        self.figures.ended(terminal, event.timestamp)
        content = {"reason": terminal.reason}
        detail = terminal.details.get("error") or terminal.details.get("message")
        if isinstance(detail, str):
            content["detail"] = detail
        self._put(event, "end", content)

    def _start(self, _event: Event, start: SessionStart) -> None:
        root = start.project.get("root")
        if isinstance(root, str) and not self._inherited:
            self._contents.root = root

    def _run(self, event: Event, run: RunStart) -> None:
        if self._inherited:
            return
        self.timeline.run()
        row = self._row(event, "run")
        told = self.figures.began(run, event.timestamp, row)
        self.store.put(row, told)

    def _compaction(self, event: Event, checkpoint: Checkpoint) -> None:
        if checkpoint.usage is not None and not self._inherited:
            self.figures.used(checkpoint.usage, "")
        if checkpoint.kind != "compaction":
            return
        summary = checkpoint.summary or ""
        content = {
            "nodes": self._contents.markdown(summary),
            "before": checkpoint.tokens_before,
            "after": checkpoint.tokens_after,
            "trigger": checkpoint.trigger,
            "kept": len(checkpoint.history.event_ids),
        }
        row = self._put(event, "summary", content)
        self.timeline.compacted(checkpoint, row)

    def _rewind(self, event: Event, rewind: Rewind) -> None:
        row = self._row(event, "rewind")
        diffs = self._contents.diffs(rewind.changes)
        content = {
            "target": rewind.target_id,
            "scope": rewind.scope,
            "diffs": diffs,
            "undo": rewind.undoes is not None,
            "conflicts": [self._contents.name(item.path) for item in rewind.conflicts],
        }
        self.store.put(row, content, 1 + len(diffs), CHANGES if diffs else 0)
        for number, (change, diff) in enumerate(zip(rewind.changes, diffs, strict=False)):
            self.turns.changed(change, diff, row, number)

    def _agent(self, event: Event, agent: AgentEvent) -> None:
        known = self.calls.agents.setdefault(agent.agent_id, {})
        known.update(status=agent.status)
        if agent.task:
            known["task"] = clip(agent.task, _LABEL_BYTES_MAX)
        if agent.agent_type:
            known["type"] = agent.agent_type
        if agent.usage is not None and not self._inherited:
            self.figures.used(agent.usage, "sub-agents")
        if not agent.changes:
            return
        row = self._row(event, "agent")
        diffs = self._contents.diffs(agent.changes)
        content = {"agent": agent.agent_id, "status": agent.status, "diffs": diffs}
        self.store.put(row, content, 1, CHANGES)
        for number, (change, diff) in enumerate(zip(agent.changes, diffs, strict=False)):
            self.turns.changed(change, diff, row, number)

    def finish(self) -> None:
        """Nothing follows."""
        self.calls.show_open()
        self.turns.finish()
        self.store.finish()


def _kind_of(message: Message) -> str:
    if message.role == "assistant":
        return "answer"
    return "prompt" if message.role == "user" and not message.source else "note"


def _lines(text: str) -> int:
    """About how many lines it takes on the page."""
    return text.count("\n") + 1 + len(text) // _CHARS_PER_LINE
