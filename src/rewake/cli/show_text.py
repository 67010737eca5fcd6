"""A session for reading, from the first message to what was interrupted or damaged."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Final

from rewake.cli.resumed import damage_sentences, describe_call, uncertain_sentences
from rewake.cli.show import AT_WORK, WAITS, Shown
from rewake.cli.terminal import Style, clean, fit, one_line, say, style_for
from rewake.model.content import File, Image, Text, ToolCall, ToolResult, plain_text
from rewake.state.conversation import Answer, Entry

_RESULT_LINES: Final = 12
_TIME: Final = slice(11, 19)  # of an RFC 3339 timestamp


def print_session(shown: Shown) -> None:
    """Print everything."""
    style = style_for(sys.stdout)
    columns = shutil.get_terminal_size((100, 24)).columns
    _head(shown, style)
    places = {compaction.at: compaction for compaction in shown.history.compactions}
    for index, entry in enumerate(shown.history.entries):
        if index in places:
            _compacted(places[index].checkpoint.summary or "", style)
        _entry(entry, style, columns)
    end = places.get(len(shown.history.entries))
    if end is not None:
        _compacted(end.checkpoint.summary or "", style)
    _unfinished(shown, style)


def _head(shown: Shown, style: Style) -> None:
    info, world = shown.info, shown.loaded.state.world
    name = style.bold("Session")
    if shown.agent_id is not None:
        name = f"{style.bold('Agent')} {one_line(shown.agent_id)} of session"
    say(f"{name} {one_line(info.session_id)}  {one_line(info.title)}")
    usage = world.usage
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    state = f"{info.state} (process {info.pid})" if info.pid is not None else info.state
    say(
        style.dim(
            f"{one_line(info.project)}  {state}  {_messages(shown)}  "
            f"{world.runs} run{'s' * (world.runs != 1)}  "
            f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"
        )
    )


def _messages(shown: Shown) -> str:
    count = len(shown.history.entries)
    return f"{count} message{'s' * (count != 1)}"


def _entry(entry: Entry, style: Style, columns: int) -> None:
    message = entry.message
    who = message.source or message.role
    paint = style.green if message.role == "user" else style.cyan
    stamp = style.dim(one_line(entry.timestamp[_TIME]))
    say()
    say(f"{paint(style.bold(one_line(who)))} {stamp} {style.dim(one_line(entry.message_id))}")
    if message.typed:
        say(style.dim(clean(message.typed)))
    answers = iter(entry.answers)
    for block in message.content:
        if isinstance(block, Text):
            say(clean(block.text))
        elif isinstance(block, ToolCall):
            arguments = block.arguments_text or json.dumps(block.arguments, ensure_ascii=False)
            say(
                f"{style.cyan('●')} {style.bold(one_line(block.name))} {fit(arguments, columns - 20)}"
            )
            _answer(next(answers, None), style, columns)
        elif isinstance(block, ToolResult):
            _lines(plain_text(block.content), style, columns, is_error=block.is_error)
        elif isinstance(block, Image | File):
            say(style.dim(f"({one_line(block.media_type)}, {block.size:,} bytes)"))


def _answer(answer: Answer | None, style: Style, columns: int) -> None:
    if answer is None:
        say(f"  {style.yellow('│ no result was recorded')}")
        return
    if answer.verdict is not None:
        say(f"  {style.yellow('│ interrupted; verdict: ' + answer.verdict.replace('_', ' '))}")
    _lines(plain_text(answer.result.content), style, columns, is_error=answer.result.is_error)


def _lines(text: str, style: Style, columns: int, *, is_error: bool) -> None:
    lines = clean(text).rstrip("\n").split("\n")
    paint = style.red if is_error else style.dim
    for line in lines[:_RESULT_LINES]:
        say(f"  {style.dim('│')} {paint(fit(line, columns - 4))}")
    if len(lines) > _RESULT_LINES:
        say(style.dim(f"  │ … {len(lines) - _RESULT_LINES} more lines (all of it: --json)"))


def _compacted(summary: str, style: Style) -> None:
    say()
    say(style.yellow("─── compacted: from here on the model had this summary of what is above ───"))
    say(style.dim(clean(summary)))


def _unfinished(shown: Shown, style: Style) -> None:
    verdicts = {item.call_id: item for item in shown.settlements}
    lines: list[str] = []
    for call_id, call in shown.calls.items():
        settlement = verdicts.get(call_id)
        if settlement is None:
            note = WAITS if call.status == "unknown" else AT_WORK
            lines.append(f"Unfinished: {describe_call(call)}: {note}.")
        elif call.status != "requested":
            lines.extend(uncertain_sentences(settlement, call))
        else:
            lines.append(f"Pending: {describe_call(call)} had not started; it was not executed.")
    lines.extend(damage_sentences(shown.loaded.damage))
    if lines:
        say()
    for line in lines:
        say(style.yellow(line))
