"""A session as Markdown for people: prompts, answers, tool calls with what they changed, verdicts.

The rule kept here: whatever a message, a command or a file holds stays inside its own part: a fence
is longer than any run of backticks in it, and control characters are left out.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Final

from rewake.archive.talk import Call, Said, Talk
from rewake.errors import InvalidValueError, StorageError
from rewake.log.blobs import BlobStore
from rewake.model.content import File, Image, Text, ToolCall, plain_text
from rewake.model.events import Change, FileState
from rewake.resume.history import Compaction
from rewake.resume.listing import SessionInfo
from rewake.screentext import clean, one_line

_TIME: Final = slice(0, 19)  # of an RFC 3339 timestamp
_RESULT_LINES: Final = 200
_DIFF_LINES: Final = 400
_DIFF_BYTES_MAX: Final = 1 << 20  # of one side; difflib takes seconds for more
_TICKS: Final = re.compile("`+")


def to_markdown(talk: Talk, info: SessionInfo, blobs: BlobStore) -> str:
    """The whole branch, oldest first."""
    return "\n".join(_document(talk, info, blobs)).rstrip() + "\n"


def _document(talk: Talk, info: SessionInfo, blobs: BlobStore) -> Iterator[str]:
    yield f"# {one_line(info.title) or 'Session'}"
    yield ""
    yield f"- Session: `{one_line(info.session_id)}` ({info.state})"
    yield f"- Project: `{one_line(info.project)}`" + (
        f", branch `{one_line(info.branch)}`" if info.branch else ""
    )
    yield f"- From {info.created_at[_TIME]} to {info.updated_at[_TIME]} UTC"
    cost = f", ${info.cost_usd:.4f}" if info.cost_usd is not None else ""
    yield f"- Tokens: {info.input_tokens:,} in, {info.output_tokens:,} out{cost}"
    for said in talk.said:
        if said.compaction is not None:
            yield from _compaction(said.compaction)
        yield from _message(said, blobs)
    if talk.last_compaction is not None:
        yield from _compaction(talk.last_compaction)


def _message(said: Said, blobs: BlobStore) -> Iterator[str]:
    message = said.entry.message
    if message.role == "tool":
        return  # its results stand with the calls that they answer
    who = message.source or {"user": "User", "assistant": "Assistant"}[message.role]
    model = f", {one_line(message.model)}" if message.model else ""
    yield ""
    yield f"## {one_line(who)} <small>{said.entry.timestamp[_TIME]}{model}</small>"
    calls = iter(said.calls)
    for block in message.content:
        if isinstance(block, Text):
            yield ""
            yield clean(block.text).rstrip()
        elif isinstance(block, ToolCall):
            call = next(calls, None)
            if call is not None:
                yield from _call(call, blobs)
        elif isinstance(block, Image | File):
            yield ""
            yield f"*({one_line(block.media_type)}, {block.size:,} bytes)*"


def _call(call: Call, blobs: BlobStore) -> Iterator[str]:
    block = call.block
    arguments = block.arguments_text or json.dumps(block.arguments, indent=1, ensure_ascii=False)
    yield ""
    yield f"### Tool: {one_line(block.name)}"
    yield ""
    yield from _fenced(arguments, "json")
    for change in call.changes:
        yield ""
        yield from _change(change, blobs)
    yield ""
    if call.answer is None:
        yield "*No result was recorded.*"
        return
    if call.answer.verdict is not None:
        yield f"*Interrupted; verdict: **{call.answer.verdict.replace('_', ' ')}**.*"
        yield ""
    text = plain_text(call.answer.result.content)
    if call.answer.result.is_error:
        yield "*Error:*"
        yield ""
    yield from _fenced(text, "", _RESULT_LINES)


def _compaction(compaction: Compaction) -> Iterator[str]:
    yield ""
    yield "---"
    yield ""
    yield "*Compacted here: from now on the model had this summary of what is above.*"
    yield ""
    for line in clean(compaction.checkpoint.summary or "").splitlines():
        yield f"> {line}"


def _fenced(text: str, language: str, lines_max: int | None = None) -> Iterator[str]:
    text = clean(text).rstrip("\n")
    lines = text.split("\n")
    if lines_max is not None and len(lines) > lines_max:
        more = len(lines) - lines_max
        text = "\n".join([*lines[:lines_max], f"… {more} more lines"])
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield text
    yield fence


# --- changes ---------------------------------------------------------------------------------


def _change(change: Change, blobs: BlobStore) -> Iterator[str]:
    before, after = _text(change.before, blobs), _text(change.after, blobs)
    if before is None or after is None:
        yield f"*{one_line(change.path)}: {_kind(change.before)} → {_kind(change.after)}*"
        return
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), change.path, change.path, lineterm=""
    )
    yield from _fenced("\n".join(lines), "diff", _DIFF_LINES)


def _kind(state: FileState) -> str:
    return f"{state.kind}, {state.size:,} bytes" if state.kind == "file" else state.kind


def _text(state: FileState, blobs: BlobStore) -> str | None:
    """The content as text; None where there is none or it can't be shown."""
    if state.kind == "absent":
        return ""
    if state.kind != "file" or state.sha256 is None or state.size > _DIFF_BYTES_MAX:
        return None
    try:
        return blobs.get(state.sha256).decode("utf-8")
    except (StorageError, InvalidValueError, UnicodeDecodeError):
        return None
