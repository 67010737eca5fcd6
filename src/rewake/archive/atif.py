"""A session as an ATIF trajectory, the Agent Trajectory Interchange Format of the Harbor project.

Source of the fields: the format's RFC 0001, version 1.7 (https://harborframework.com/docs/trajectory-format).

The rules kept here:

- One step for each message of the branch: a prompt is a `user` step, an answer of the model an `agent`
  step with its calls and what they returned, a compaction a `system` step that replaces the context.
- `step_id` counts from 1; a result names a call of its own step; fields of agents stand only there.
- Sub-agents are embedded, each with its id as `trajectory_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rewake.archive.talk import Call, Said, Talk
from rewake.errors import UsageError
from rewake.model.content import (
    ContentBlock,
    File,
    Image,
    JsonObject,
    ResultBlock,
    Text,
    Thinking,
    Usage,
)
from rewake.resume.history import Compaction
from rewake.state.text import valid_json
from rewake.state.view import view_call_id

SCHEMA_VERSION: Final = "ATIF-v1.7"
_NOTES: Final = "Written by Rewake. Images and files are named by their SHA-256 and not included."


def to_atif(talk: Talk, agents: Iterable[Talk], version: str) -> JsonObject:
    """The root object. `version` is Rewake's, where the session doesn't say which one wrote it.

    Raises UsageError for a session in which nothing was said: a trajectory has at least one step.
    """
    embedded = [one for one in agents if one.said]
    known = {one.session_id for one in embedded}
    root = _trajectory(talk, talk.session_id, known, version)
    if not root["steps"]:
        raise UsageError(
            f"In the session {talk.session_id} nothing was said, so it has no trajectory.",
            remedy="Export it as an archive (without --format).",
        )
    root["session_id"] = talk.session_id
    root["notes"] = _NOTES
    if embedded:
        root["subagent_trajectories"] = [
            _trajectory(one, one.session_id, known, version) for one in embedded
        ]
    plain: JsonObject = valid_json(root)
    return plain


def _trajectory(talk: Talk, trajectory_id: str, agents: set[str], version: str) -> JsonObject:
    steps = list(_steps(talk, agents))
    for number, step in enumerate(steps, 1):
        step["step_id"] = number
    agent: JsonObject = {"name": "rewake", "version": talk.app_version or version}
    if talk.model:
        agent["model_name"] = talk.model
    return {
        "schema_version": SCHEMA_VERSION,
        "trajectory_id": trajectory_id,
        "agent": agent,
        "steps": [{"step_id": step.pop("step_id"), **step} for step in steps],
        "final_metrics": _final(talk, len(steps)),
    }


def _steps(talk: Talk, agents: set[str]) -> Iterator[JsonObject]:
    for said in talk.said:
        if said.compaction is not None:
            yield _compaction(said.compaction)
        if said.entry.message.role == "user":
            yield _user(said)
        elif said.entry.message.role == "assistant":
            yield _agent(said, agents)
    if talk.last_compaction is not None:
        yield _compaction(talk.last_compaction)


def _user(said: Said) -> JsonObject:
    message = said.entry.message
    step = _step("user", said.entry.timestamp, _words(message.content))
    extra = {"message_id": said.entry.message_id}
    if message.source:
        extra["source"] = message.source
    step["extra"] = extra
    return step


def _agent(said: Said, agents: set[str]) -> JsonObject:
    entry, message = said.entry, said.entry.message
    step = _step("agent", entry.timestamp, _words(message.content))
    if message.model:
        step["model_name"] = message.model
    thoughts = [
        block.text for block in message.content if isinstance(block, Thinking) and block.text
    ]
    if thoughts:
        step["reasoning_content"] = "\n".join(thoughts)
    if said.calls:
        step["tool_calls"] = [_tool_call(entry.message_id, call) for call in said.calls]
        results = [_result(entry.message_id, call, agents) for call in said.calls if call.answer]
        if results:
            step["observation"] = {"results": results}
    if message.usage is not None:
        step["metrics"] = _metrics(message.usage)
    step["llm_call_count"] = 1
    extra = {"message_id": entry.message_id}
    if message.stop_reason is not None:
        extra["stop_reason"] = message.stop_reason
    step["extra"] = extra
    return step


def _compaction(compaction: Compaction) -> JsonObject:
    checkpoint = compaction.checkpoint
    step = _step("system", compaction.event.timestamp, "Context compaction")
    step["observation"] = {"results": [{"content": checkpoint.summary or ""}]}
    step["extra"] = {"context_management": {"type": "compaction", "boundary": "replace"}}
    return step


def _step(source: str, timestamp: str, message: str) -> JsonObject:
    step: JsonObject = {"source": source, "message": message}
    if timestamp:
        step["timestamp"] = timestamp
    return step


def _words(content: tuple[ContentBlock, ...] | tuple[ResultBlock, ...]) -> str:
    """The text, with a word in the place of what isn't text."""
    parts: list[str] = []
    for block in content:
        if isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, Image | File):
            kind = "image" if isinstance(block, Image) else f"file {block.name}"
            parts.append(f"[{kind}: {block.media_type}, sha256 {block.sha256}]")
    return "\n".join(parts)


def _tool_call(message_id: str, call: Call) -> JsonObject:
    arguments = call.block.arguments
    found: JsonObject = {
        "tool_call_id": view_call_id(message_id, call.index),
        "function_name": call.block.name,
        "arguments": arguments,
    }
    extra: JsonObject = {}
    if call.block.provider_call_id:
        extra["provider_call_id"] = call.block.provider_call_id
    if call.block.arguments_text is not None:
        extra["arguments_text"] = call.block.arguments_text
    if extra:
        found["extra"] = extra
    return found


def _result(message_id: str, call: Call, agents: set[str]) -> JsonObject:
    answer = call.answer
    if answer is None:
        raise ValueError("a call without an answer has no result")
    found: JsonObject = {
        "source_call_id": view_call_id(message_id, call.index),
        "content": _words(answer.result.content),
    }
    if call.agent_id in agents:
        found["subagent_trajectory_ref"] = [{"trajectory_id": call.agent_id}]
    extra: JsonObject = {}
    if answer.result.is_error:
        extra["is_error"] = True
    if answer.verdict is not None:
        extra["verdict"] = answer.verdict
    if call.changes:
        extra["changed_files"] = [change.path for change in call.changes]
    if extra:
        found["extra"] = extra
    return found


def _metrics(usage: Usage) -> JsonObject:
    found: JsonObject = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
    }
    if usage.cost_usd is not None:
        found["cost_usd"] = usage.cost_usd
    if usage.cache_write_tokens:
        found["extra"] = {"cache_creation_input_tokens": usage.cache_write_tokens}
    return found


def _final(talk: Talk, steps: int) -> JsonObject:
    total = Usage()
    for said in talk.said:
        if said.entry.message.usage is not None:
            total += said.entry.message.usage
    found: JsonObject = {
        "total_prompt_tokens": total.input_tokens,
        "total_completion_tokens": total.output_tokens,
        "total_cached_tokens": total.cache_read_tokens,
        "total_steps": steps,
    }
    if total.cost_usd is not None:
        found["total_cost_usd"] = total.cost_usd
    return found
