"""What a hook says, by its exit status and by what it printed.

The rule kept here: exit status 2, or JSON that says so, blocks; every other way to fail is a sentence for
the user and blocks nothing. What is passed on is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import msgspec

from rewake.agent.hook_process import HookRun

HookEvent = Literal[
    "PreToolUse", "PostToolUse", "Stop", "UserPromptSubmit", "SessionStart", "SessionEnd"
]
EVENTS: Final[tuple[HookEvent, ...]] = get_args(HookEvent)
_REASON_CHARS_MAX: Final = 4_000
_CONTEXT_CHARS_MAX: Final = 10_000
_BLOCKS: Final = 2


class _Specific(msgspec.Struct, frozen=True, rename="camel"):
    permission_decision: Literal["allow", "deny", "ask"] | None = None
    permission_decision_reason: str = ""
    additional_context: str = ""


class _Json(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a hook's JSON that means something here."""

    decision: Literal["allow", "approve", "deny", "block", "ask"] | None = None
    reason: str = ""
    additional_context: str = ""
    system_message: str = ""
    hook_specific_output: _Specific = _Specific()


@dataclass(frozen=True, slots=True)
class Said:
    """What came of all hooks for one event. `problems` are failures, `messages` words for the user."""

    decision: Literal["allow", "ask", "deny"] | None = None
    reason: str = ""
    context: str = ""
    problems: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()

    def joined(self, later: Said) -> Said:
        """Both; of two decisions the stricter one counts."""
        order = (None, "allow", "ask", "deny")
        stricter = max(self, later, key=lambda said: order.index(said.decision))
        return Said(
            stricter.decision,
            stricter.reason,
            "\n".join(filter(None, (self.context, later.context))),
            (*self.problems, *later.problems),
            (*self.messages, *later.messages),
        )


def said_by(run: HookRun, event: HookEvent) -> Said:
    """What a command that has ended says."""
    name = _shortened(run.command, 80)
    if run.problem:
        return Said(problems=(f"The {event} hook {name!r} failed: {run.problem}.",))
    if run.exit_code == _BLOCKS:
        reason = run.stderr.strip() or f"The hook {name!r} gave no reason."
        return Said("deny", _shortened(reason, _REASON_CHARS_MAX))
    if run.exit_code != 0:
        words = _shortened(" ".join(run.stderr.split()), 200)
        told = f"The {event} hook {name!r} failed with exit status {run.exit_code}"
        return Said(problems=(f"{told}: {words}" if words else f"{told}.",))
    text = run.stdout.strip()
    if not text.startswith("{"):
        # Plain words are for the model where it is told something, and for nobody elsewhere.
        is_told = event in {"UserPromptSubmit", "SessionStart"}
        return Said(context=_shortened(text, _CONTEXT_CHARS_MAX) if is_told else "")
    try:
        return _of_json(msgspec.json.decode(text, type=_Json), name)
    except (msgspec.DecodeError, RecursionError) as error:
        return Said(problems=(f"The {event} hook {name!r} printed JSON of no use: {error}.",))


def _of_json(given: _Json, name: str) -> Said:
    specific = given.hook_specific_output
    chosen = specific.permission_decision or given.decision
    decision: Literal["allow", "ask", "deny"] | None
    match chosen:
        case "allow" | "approve":
            decision = "allow"
        case "deny" | "block":
            decision = "deny"
        case _:
            decision = chosen
    reason = specific.permission_decision_reason or given.reason
    if decision == "deny" and not reason:
        reason = f"The hook {name!r} gave no reason."
    return Said(
        decision,
        _shortened(reason, _REASON_CHARS_MAX),
        _shortened(specific.additional_context or given.additional_context, _CONTEXT_CHARS_MAX),
        messages=(given.system_message[:_REASON_CHARS_MAX],) if given.system_message else (),
    )


def _shortened(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
