"""Hooks: commands of the user's that hear of what the agent does and may stand in its way.

The rules kept here:

- A hook that blocks (`hook_answer.py` says which does) blocks; one that fails in any other way is a
  notice and blocks nothing.
- What a hook allows is still subject to deny rules, to plan mode and to protected paths.
- A hook is an effect of its own: each one that ran is a line of the transcript.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from rewake.agent.hook_answer import EVENTS, HookEvent, Said, said_by
from rewake.agent.hook_process import HookRun, run_hook
from rewake.agent.ports import Prepared, Ruling, Tool, ToolOutput
from rewake.errors import ExitCode, RewakeError
from rewake.model.content import Image, JsonObject, ResultBlock, Text
from rewake.session.core import Session
from rewake.settings.schema import HookCommand, HookMatcher

TIMEOUT_S_DEFAULT: Final = 60.0
# Whoever leaves waits for these; what takes longer belongs in the background.
END_TIMEOUT_S_DEFAULT: Final = 1.5
_TIMEOUT_S_MAX: Final = 600.0


class PromptBlockedError(RewakeError):
    """A hook refused a prompt; it is not part of the conversation any more."""

    exit_code = ExitCode.FAILED


@dataclass(frozen=True, slots=True)
class Hook:
    """One command for one event; `matcher` of None matches every tool."""

    event: HookEvent
    command: str
    matcher: re.Pattern[str] | None
    timeout_s: float
    origin: str

    def concerns(self, tool_name: str | None) -> bool:
        """Whether it runs for a tool of this name (None: for an event without a tool)."""
        return self.matcher is None or tool_name is None or bool(self.matcher.fullmatch(tool_name))


def hooks_in(
    given: Mapping[str, Sequence[HookMatcher]], origin: str
) -> tuple[list[Hook], list[str]]:
    """The hooks of one source of settings, and a sentence for each that can't be used."""
    hooks: list[Hook] = []
    problems: list[str] = []
    for name, matchers in given.items():
        event = next((one for one in EVENTS if one == name), None)
        if event is None:
            problems.append(f"In {origin}, there is no hook event {name!r}.")
            continue
        for matcher in matchers:
            try:
                pattern = _pattern(matcher.matcher)
            except re.error as error:
                problems.append(
                    f"In {origin}, the matcher {matcher.matcher!r} of {event} is no regular "
                    f"expression ({error}), so its hooks don't run."
                )
                continue
            hooks += [_hook(event, one, pattern, origin) for one in matcher.hooks]
    return hooks, problems


def _pattern(matcher: str) -> re.Pattern[str] | None:
    return None if matcher in {"", "*"} else re.compile(matcher)


def _hook(
    event: HookEvent, given: HookCommand, pattern: re.Pattern[str] | None, origin: str
) -> Hook:
    usual = END_TIMEOUT_S_DEFAULT if event == "SessionEnd" else TIMEOUT_S_DEFAULT
    timeout_s = min(given.timeout or usual, _TIMEOUT_S_MAX)
    return Hook(event, given.command, pattern, timeout_s, origin)


# --- beside the loop -------------------------------------------------------------------------


@dataclass(slots=True)
class Hooks:
    """All hooks of a session, as an attendant, a gate and a guard.

    `environment` is what the commands get; `mode` tells the permission mode. Cancelled, it kills what
    it runs before it lets go.
    """

    session: Session
    hooks: Sequence[Hook]
    cwd: Path
    environment: Mapping[str, str]
    mode: Callable[[], str]
    notice: Callable[[str], None]
    _has_started: bool = False
    _was_held_back: bool = False
    _told: set[str] = field(default_factory=set)

    # --- attendant

    async def on_prompt(self, prompt: str | None) -> None:
        """SessionStart once, then UserPromptSubmit; a prompt that is blocked is taken back."""
        self._was_held_back = False
        if not self._has_started:
            self._has_started = True
            source = "startup" if self.session.resumed is None else "resume"
            self._tell(await self.run("SessionStart", {"source": source}))
        if prompt is None:
            return
        said = await self.run("UserPromptSubmit", {"prompt": prompt})
        if said.decision == "deny":
            raise self._blocked(said.reason)
        self._tell(said)

    async def before_request(self) -> None:
        """Nothing is to be said here."""

    def _tell(self, said: Said) -> None:
        if said.context:
            self.session.user(f"[hook] {said.context}", source="hook")

    def _blocked(self, reason: str) -> PromptBlockedError:
        prompt_id = self.session.state.conversation.newest_prompt
        is_gone = prompt_id is not None and _taken_back(self.session, prompt_id)
        rest = "" if is_gone else " It stays in this session's history."
        return PromptBlockedError(
            f"A hook blocked the prompt: {reason.rstrip('. ')}.{rest}", remedy="Ask in other words."
        )

    # --- gate

    async def holds_back(self) -> str | None:
        """What a Stop hook still wants done."""
        said = await self.run("Stop", {"stop_hook_active": self._was_held_back})
        if said.decision != "deny":
            return None
        self._was_held_back = True
        return f"[hook] {said.reason}"

    # --- guard

    async def before(self, tool: Tool, prepared: Prepared) -> str | Ruling | None:
        """What the PreToolUse hooks say of a call."""
        said = await self.run("PreToolUse", _call(tool, prepared), tool.spec.name)
        match said.decision:
            case "deny":
                return f"A hook blocked this call: {said.reason}"
            case "allow" | "ask":
                return Ruling(said.decision, said.reason or "a hook")
            case None:
                return None

    async def after(self, tool: Tool, prepared: Prepared, output: ToolOutput) -> ToolOutput:
        """The output with what the PostToolUse hooks say of it."""
        told = {**_call(tool, prepared), "tool_response": _response(output)}
        said = await self.run("PostToolUse", told, tool.spec.name)
        words = [said.reason if said.decision == "deny" else "", said.context]
        added = [Text(f"[hook] {word}") for word in words if word]
        return replace(output, content=(*output.content, *added)) if added else output

    # --- the end

    async def end(self, reason: str) -> None:
        """SessionEnd; harmless where no session began."""
        if self._has_started:
            self._has_started = False
            await self.run("SessionEnd", {"reason": reason})

    # --- running

    async def run(self, event: HookEvent, told: JsonObject, tool_name: str | None = None) -> Said:
        """Run the hooks for an event one after the other until one blocks; record each."""
        said = Said()
        payload: bytes | None = None
        for hook in self.hooks:
            if hook.event != event or not hook.concerns(tool_name):
                continue
            payload = payload or _encoded({**self._common(event), **told})
            done = await _to_its_end(
                partial(
                    run_hook,
                    hook.command,
                    payload,
                    cwd=self.cwd,
                    environment=self.environment,
                    timeout_s=hook.timeout_s,
                )
            )
            one = said_by(done, event)
            self._record(hook, done, one, told)
            said = said.joined(one)
            if one.decision == "deny":
                break
        for problem in said.problems:
            if problem not in self._told:  # a hook that always fails is told of once
                self._told.add(problem)
                self.notice(problem)
        for message in said.messages:
            self.notice(message)
        return said

    def _common(self, event: HookEvent) -> JsonObject:
        return {
            "session_id": self.session.session_id,
            "transcript_path": str(self.session.transcript or ""),
            "cwd": str(self.cwd),
            "permission_mode": self.mode(),
            "hook_event_name": event,
        }

    def _record(self, hook: Hook, done: HookRun, said: Said, told: JsonObject) -> None:
        details: JsonObject = {
            "event": hook.event,
            "command": hook.command,
            "exit_code": done.exit_code,
            "duration_ms": done.duration_ms,
            "decision": said.decision,
            "reason": said.reason or None,
            "problem": "; ".join(said.problems) or None,
            "call_id": told.get("tool_use_id"),
        }
        shown = {key: value for key, value in details.items() if value is not None}
        self.session.transition("hook", "hook", hook.event, shown)


def _encoded(told: JsonObject) -> bytes:
    """What a hook reads; the standard encoder takes a lone surrogate from a model, too."""
    return json.dumps(told, default=str).encode("ascii")


async def _to_its_end(run: Callable[..., HookRun]) -> HookRun:
    """Run it in a thread; cancelled, call it off and wait until it has killed its command."""
    called_off = threading.Event()

    async def call_off() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            called_off.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call_off)
        done = await anyio.to_thread.run_sync(partial(run, called_off=called_off))
        tasks.cancel_scope.cancel()
    return done


def _call(tool: Tool, prepared: Prepared) -> JsonObject:
    return {
        "tool_name": tool.spec.name,
        "tool_input": prepared.arguments,
        "tool_use_id": prepared.call_id,
    }


def _response(output: ToolOutput) -> JsonObject:
    return {"content": [_block(one) for one in output.content], "is_error": output.is_error}


def _block(block: ResultBlock) -> JsonObject:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    kind = "image" if isinstance(block, Image) else "file"
    return {"type": kind, "media_type": block.media_type, "size": block.size}


def _taken_back(session: Session, message_id: str) -> bool:
    """Go back to just before a message; False in a session that keeps nothing to go back to."""
    if session.transcript is None:
        return False
    session.flush()
    with session.reader() as reader:
        found = reader.locate(message_id)
    parent_id = found[1].parent_id if found is not None else None
    if parent_id is None:
        return False
    session.rewind(parent_id)
    return True
