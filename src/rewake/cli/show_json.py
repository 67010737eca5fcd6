"""A session as one JSON object; docs/guide/cli.md lists its keys."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rewake.cli.results import usage_object
from rewake.cli.resumed import action_object, damage_object
from rewake.cli.show import AT_WORK, WAITS, Shown
from rewake.model.content import JsonObject, Opaque
from rewake.model.jsontext import loads
from rewake.state.conversation import Answer, Entry
from rewake.state.world import OpenCall, tool_calls


def session_object(shown: Shown) -> JsonObject:
    """Everything that `rewake show --json` says."""
    state, info = shown.loaded.state, shown.info
    verdicts = {
        item.call_id: action_object(item, shown.calls[item.call_id]) for item in shown.settlements
    }
    unfinished = [
        verdicts.get(call_id) or _unsettled(call) for call_id, call in shown.calls.items()
    ]
    return {
        "session_id": info.session_id,
        "agent_id": shown.agent_id,
        "title": info.title,
        "tags": info.tags,
        "forked_from": state.world.forked_from,
        "project": info.project,
        "state": info.state,
        "created_at": info.created_at,
        "updated_at": info.updated_at,
        "pid": info.pid,
        "runs": state.world.runs,
        "usage": usage_object(state.world.usage),
        "terminal": state.world.terminal,
        "messages": [message for entry in shown.history.entries for message in messages_of(entry)],
        "compactions": [
            _compaction(index, shown) for index in range(len(shown.history.compactions))
        ],
        "todos": state.conversation.todos,
        "memory": state.conversation.memory.render(),
        "uncertain_actions": [one for one in unfinished if one["status"] != "requested"],
        "pending_actions": [one for one in unfinished if one["status"] == "requested"],
        "damage": [damage_object(item) for item in shown.loaded.damage],
        "transcript": info.path,
    }


def messages_of(entry: Entry) -> Iterator[JsonObject]:
    """A message, then the answers to its calls, each with the id of the event that gave it."""
    message = entry.message
    yield {
        "id": entry.message_id,
        "role": message.role,
        "content": [_block(block) for block in message.content],
        "timestamp": entry.timestamp,
        "model": message.model or None,
        "usage": usage_object(message.usage) if message.usage is not None else None,
        "stop_reason": message.stop_reason,
        "source": message.source or None,
        "details": message.details,
        "typed": message.typed or None,
    }
    if entry.message.role != "assistant":
        return
    for call, answer in zip(tool_calls(message), entry.answers, strict=False):
        # A `tool` message that was recorded as such stands by itself.
        if answer is not None and answer.event_id in entry.event_ids:
            yield _answer(call.provider_call_id, call.name, answer)


def _answer(provider_call_id: str, name: str, answer: Answer) -> JsonObject:
    result = {
        "type": "tool_result",
        "provider_call_id": provider_call_id,
        "tool_name": name,
        "content": list(answer.result.content),
        "is_error": answer.result.is_error,
        "verdict": answer.verdict,
    }
    return {"id": answer.event_id, "role": "tool", "content": [result]}


def _block(block: object) -> object:
    if isinstance(block, Opaque):
        return loads(block.raw)
    return msgspec.to_builtins(block)


def _compaction(index: int, shown: Shown) -> JsonObject:
    compaction = shown.history.compactions[index]
    checkpoint = compaction.checkpoint
    return {
        "id": compaction.event.event_id,
        "timestamp": compaction.event.timestamp,
        "before_message": compaction.at,
        "summary": checkpoint.summary,
        "trigger": checkpoint.trigger,
        "tokens_before": checkpoint.tokens_before,
        "tokens_after": checkpoint.tokens_after,
    }


def _unsettled(call: OpenCall) -> JsonObject:
    """A call that the process which writes the session is at work on, or one that waits for a person."""
    waits = call.status == "unknown"
    return {
        "call_id": call.call_id,
        "tool_name": call.tool_name,
        "provider_call_id": call.provider_call_id,
        "status": call.status,
        "intent": call.intent,
        "verdict": "unknown" if waits else None,
        "evidence": {},
        "note": WAITS if waits else AT_WORK,
        "result": "",
    }
