"""What a session was found in, in plain sentences and as JSON.

The rule kept here: whatever was interrupted or damaged is told with its evidence or its offset, on
every resume; nothing is skipped because it is long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rewake.cli.jsonout import to_json
from rewake.cli.terminal import one_line
from rewake.model.content import JsonObject, Text, plain_text
from rewake.model.events import FileChangeIntent, Intent, ShellIntent, Terminal
from rewake.resume.evidence import Settlement
from rewake.resume.load import Damage
from rewake.session.ports import ResumeState
from rewake.state.conversation import Entry
from rewake.state.world import OpenCall

_HASH_CHARS: Final = 12
_SAID: Final = {
    "applied": "it WAS applied",
    "not_applied": "it was NOT applied",
    "partial": "it was applied only in PART",
    "still_running": "it is STILL RUNNING",
    "lost": "it was applied, but its effect is LOST",
    "unknown": "it is NOT KNOWN whether it was applied",
}
_COMMANDS: Final = {
    "never_started": "the command never ran",
    "finished": "it ended",
    "running": "it still runs",
    "vanished": "it was started, its end was not recorded, and nothing of it runs any more",
}
_KILLED: Final = {
    "timed_out": "it was killed at its time limit",
    "output_limit": "it was killed at its output limit",
    "cancelled": "it was stopped with the run",
}
_ENDS: Final = {
    "done": "ended as it should",
    "interrupted": "was interrupted by the user",
    "terminated": "was told to end (SIGTERM)",
    "hangup": "lost its terminal (SIGHUP)",
    "max_steps": "stopped at its limit of steps",
    "max_cost": "stopped at its limit of cost",
    "unfinished": "ended with something unfinished",
    "model_error": "stopped at an error of the model",
}


def sentences(state: ResumeState) -> Iterator[str]:
    """What to tell the user when a session goes on."""
    count = len(state.messages)
    corrupt = sum(item.kind == "corrupt_line" for item in state.damage)
    if not count and corrupt:
        yield (
            f"NOTHING of the session {one_line(state.session_id)} can be read: {corrupt} corrupt "
            "lines. What follows is a new conversation in it; `rewake check` tells more."
        )
    summed_up = " and a summary of earlier ones" if state.summary else ""
    yield (
        f"Resumed session {one_line(state.session_id)} ({count} message{'s' * (count != 1)}"
        f"{summed_up}); the run before {_ending(state.terminal)}."
    )
    for settlement in state.uncertain:
        yield from uncertain_sentences(settlement, state.calls.get(settlement.call_id))
    for settlement in state.pending:
        call = state.calls.get(settlement.call_id)
        yield f"Pending: {describe_call(call)} had not started; it was not executed."
    yield from map(one_line, state.notices)
    yield from damage_sentences(state.damage)


def last_exchange(entries: Sequence[Entry]) -> tuple[str, str]:
    """The last prompt as it was typed, and the last words said to it; empty where there are none."""
    answer = ""
    for entry in reversed(entries):
        message = entry.message
        if message.role == "assistant":
            answer = answer or plain_text(message.content).strip()
        elif message.role == "user" and not message.source:
            first = next((block.text for block in message.content if isinstance(block, Text)), "")
            return message.typed or first.strip(), answer
    return "", answer


def damage_sentences(damage: tuple[Damage, ...] | list[Damage]) -> Iterator[str]:
    """One sentence for each damaged place."""
    for item in damage:
        yield f"Damage: {one_line(str(item))}."


def _ending(terminal: Terminal | None) -> str:
    if terminal is None:
        return "was cut off"
    return _ENDS.get(terminal.reason, f"ended with {one_line(terminal.reason)!r}")


def uncertain_sentences(settlement: Settlement, call: OpenCall | None) -> Iterator[str]:
    """The verdict on an interrupted call, then its evidence."""
    resolution = settlement.resolution
    note = f" ({one_line(resolution.note)})" if resolution.note else ""
    yield f"Interrupted: {describe_call(call)}: {_SAID[resolution.verdict]}{note}."
    facts = resolution.evidence.get("files", [resolution.evidence])
    for fact in facts if isinstance(facts, list) else []:
        yield f"  evidence: {evidence_sentence(fact)}"


def describe_call(call: OpenCall | None) -> str:
    """A call as a person would name it."""
    if call is None:
        return "a call"
    name = one_line(call.tool_name)
    what = _object_of(call.intent)
    return f"{name} {what}" if what else name


def _object_of(intent: Intent | None) -> str:
    if isinstance(intent, FileChangeIntent):
        return ", ".join(one_line(change.path) for change in intent.changes)
    if isinstance(intent, ShellIntent):
        return f"`{one_line(intent.command)}`"
    return ""


def evidence_sentence(fact: JsonObject) -> str:
    """The proof of one verdict: hashes for files, the end of a command, key and value for the rest."""
    if fact.get("state") in _COMMANDS:
        return _command_sentence(fact)
    if "expected_after" not in fact:
        return ", ".join(f"{one_line(key)}={_value(fact[key])}" for key in fact)
    actual = fact.get("actual")
    found = _content(actual) if isinstance(actual, dict) else "it can't be looked at"
    before, after = _content(fact.get("expected_before")), _content(fact["expected_after"])
    parts = [f"the file is {found}; before the call: {before}, as intended: {after}"]
    if fact.get("error"):
        parts.append(one_line(str(fact["error"])))
    if fact.get("temporary_removed"):
        parts.append("a leftover temporary file was removed")
    return "; ".join(parts)


def _command_sentence(fact: JsonObject) -> str:
    said = _COMMANDS[str(fact.get("state"))]
    ended = fact.get("exit")
    if isinstance(ended, dict):
        said = f"{_end_of_command(ended)} after {_seconds(ended.get('duration_ms'))}"
        lives = "processes that it started still run"
        said += f"; {lives if fact.get('background') else 'nothing of it runs any more'}"
    if fact.get("rebooted"):
        said += "; the machine was restarted since"
    return f"{said}; {one_line(str(fact['exception']))}" if fact.get("exception") else said


def _end_of_command(ended: JsonObject) -> str:
    for key, said in _KILLED.items():
        if ended.get(key):
            return said
    if ended.get("signal") is not None:
        return f"it was killed by signal {ended['signal']}"
    if ended.get("exit_code") is not None:
        return f"it ended with exit code {ended['exit_code']}"
    return "it ended, nobody knows how,"


def _seconds(duration_ms: object) -> str:
    return f"{duration_ms / 1000:.1f} s" if isinstance(duration_ms, int) else "an unknown time"


def _value(value: object) -> str:
    return one_line(value if isinstance(value, str) else to_json(value))


def _content(state: object) -> str:
    if not isinstance(state, dict):
        return "unknown"
    sha256 = state.get("sha256")
    if isinstance(sha256, str):
        return f"sha256 {one_line(sha256)[:_HASH_CHARS]}… ({state.get('size')} bytes)"
    return one_line(str(state.get("kind", "unknown")))


# --- JSON ------------------------------------------------------------------------------------


def action_object(settlement: Settlement, call: OpenCall | None) -> JsonObject:
    """A settled call for JSON output."""
    resolution = settlement.resolution
    return {
        "call_id": settlement.call_id,
        "tool_name": call.tool_name if call is not None else "",
        "provider_call_id": call.provider_call_id if call is not None else "",
        "status": call.status if call is not None else "",
        "intent": call.intent if call is not None else None,
        "verdict": resolution.verdict,
        "evidence": resolution.evidence,
        "note": resolution.note,
        "result": plain_text(settlement.result.content),
    }


def damage_object(damage: Damage) -> JsonObject:
    """A damaged place for JSON output; `offset` in bytes, -1 where there is none."""
    return {"kind": damage.kind, "offset": damage.offset, "detail": damage.detail}
