"""Draws items and rows as Rich renderables, the same in the preview and in the conversation.

The rules kept here: what was recorded is cleaned before it is drawn, and it is only ever put into
`Text` or parsed as Markdown without HTML and without links that could be opened: no markup of any
library in it is interpreted. Colours are the sixteen of the terminal, so that every theme has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, assert_never

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from rewake.browse.items import Call, Item
from rewake.resume.listing import SessionInfo, SessionStateName
from rewake.screentext import age, clean, fit, one_line

_TEXT_CHARS_MAX: Final = 20_000  # of one message: ten screens; more of it is for `rewake show`
_RESULT_LINES_MAX: Final = 40
_ARGUMENT_LINES_MAX: Final = 30
_LINE_CHARS_MAX: Final = 1_000
_PREVIEW_CHARS_MAX: Final = 1_500

STATE_MARKS: Final[dict[SessionStateName, tuple[str, str]]] = {
    "done": ("✓", "green"),
    "running": ("▶", "cyan"),
    "interrupted": ("◐", "yellow"),
    "failed": ("✗", "red"),
    "damaged": ("!", "red"),
    "empty": ("·", "dim"),
}
"""What stands for a session's state; each has its own shape, for screens without colour."""

_VERDICTS: Final = {
    "applied": "interrupted, but it was applied",
    "not_applied": "interrupted: not applied",
    "partial": "interrupted: applied in part",
    "still_running": "still running",
    "lost": "its effect is lost",
    "unknown": "interrupted: not known whether it was applied",
}


def title_of(info: SessionInfo) -> str:
    """A clean title on one line."""
    if info.problem is not None:
        return f"(can't be read: {one_line(info.problem)})"
    return one_line(info.title) or "(no prompt)"


def counted(count: int, what: str) -> str:
    """Such as 1 call, 2 calls."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def head(
    info: SessionInfo, now: datetime, *, with_title: bool, messages: int | None = None
) -> Group:
    """What a session is, above the preview. `messages` are those of its conversation, once read.

    The list's own count is another: what was written in its transcript, without the messages that a
    fork shares with its origin and with those of branches that were left.
    """
    mark, colour = STATE_MARKS[info.state]
    state = f"{mark} {info.state}" + (f", process {info.pid}" if info.pid is not None else "")
    facts = [age(info.updated_at, now)]
    facts += [counted(messages, "message") if messages is not None else ""]
    facts += [counted(info.calls, "call") if info.calls else ""]
    tokens = info.input_tokens + info.output_tokens
    facts += [counted(tokens, "token") if info.input_tokens else ""]
    facts += [f"${info.cost_usd:.2f}" if info.cost_usd else ""]
    first = Text.assemble((state, colour), ("  " + "  ".join(filter(None, facts)), "dim"))
    for tag in info.tags:
        first.append(f"  #{one_line(tag)}", "magenta")
    where = one_line(info.project) + (f" ({one_line(info.branch)})" if info.branch else "")
    last = Text(f"{one_line(info.session_id)}  {where}", "dim", no_wrap=True, overflow="ellipsis")
    return Group(Text(title_of(info), "bold"), first, last) if with_title else Group(first, last)


def problems(found: Sequence[str]) -> RenderableType:
    """Damage, each place on a line."""
    return Text("\n".join(f"! {one_line(problem)}" for problem in found), "red")


def preview(items: Iterable[Item], now: datetime, *, is_dark: bool) -> Group:
    """Items for a glance: long ones cut, calls folded and close together."""
    parts: list[RenderableType] = []
    is_after_call = False
    for item in items:
        if not (is_after_call and item.kind == "call"):
            parts.append(Text())
        parts.append(draw_item(item, now, is_dark=is_dark, chars_max=_PREVIEW_CHARS_MAX))
        is_after_call = item.kind == "call"
    return Group(*parts)


def draw_item(  # noqa: PLR0911  # one return a kind
    item: Item,
    now: datetime,
    *,
    is_dark: bool,
    unfolded: bool = False,
    diffs: Sequence[str] | None = None,
    chars_max: int = _TEXT_CHARS_MAX,
) -> RenderableType:
    """One item. A foldable one shows its first line only, unless it is `unfolded`."""
    text, rest = _cut(clean(item.text), chars_max)
    when = Text(f"  {age(item.timestamp, now)}" if item.timestamp else "", "dim")
    match item.kind:
        case "prompt":
            return Group(Text.assemble(("You", "bold green"), when), Text(text), *rest)
        case "answer":
            who = one_line(item.who)
            return Group(
                Text.assemble((who, "bold cyan"), when), markdown(text, is_dark=is_dark), *rest
            )
        case "note":
            label = "" if not item.who or item.who == "user" else f"{one_line(item.who)}: "
            return Text(f"{label}{text}", "italic dim")
        case "thinking":
            return _folded("thinking", text, "dim italic", unfolded=unfolded)
        case "result":
            return _folded("result", text, "dim", unfolded=unfolded)
        case "summary":
            return _folded(
                "compacted: a summary of what came before", text, "yellow", unfolded=unfolded
            )
        case "call":
            if item.call is None:
                return Text()
            line = _call_line(item.call, unfolded=unfolded)
            return _unfolded_call(line, item.call, diffs) if unfolded else _one_line(line)
        case _ as unreachable:
            assert_never(unreachable)


def _cut(text: str, chars_max: int) -> tuple[str, list[RenderableType]]:
    if len(text) <= chars_max:
        return text.strip("\n"), []
    note = f"… {len(text) - chars_max:,} more characters"
    return text[:chars_max].strip("\n"), [Text(note, "dim italic")]


def _folded(label: str, text: str, style: str, *, unfolded: bool) -> RenderableType:
    if unfolded:
        return Group(Text(f"▾ {label}", style), Padding(Text(text, "dim"), (0, 0, 0, 2)))
    line = Text.assemble((f"▸ {label}", style), (f"  {fit(text[:300], 200)}", "dim"))
    return _one_line(line)


# --- calls -----------------------------------------------------------------------------------


def _call_line(call: Call, *, unfolded: bool) -> Text:
    mark, colour, note = _ending(call)
    return Text.assemble(
        ("▾ " if unfolded else "▸ ", "dim"),
        (mark + " ", colour),
        (one_line(call.name), "bold"),
        (f"  {note}" if note else "", colour),
        f"  {fit(call.about[:300], 200)}",
    )


def _one_line(line: Text) -> RenderableType:
    """Cut where the screen ends. In a group, because the toolkit would wrap a text of its own."""
    line.no_wrap, line.overflow = True, "ellipsis"
    return Group(line)


def _ending(call: Call) -> tuple[str, str, str]:
    """Mark, colour and words for how a call ended."""
    if call.verdict is not None:
        return "◐", "yellow", _VERDICTS[call.verdict]
    match call.state:
        case "done":
            return "✓", "green", ""
        case "error":
            return "✗", "red", "failed"
        case "running":
            return "▶", "cyan", "at work"
        case "open":
            return "◐", "yellow", "no result was recorded"
        case _ as unreachable:
            assert_never(unreachable)


def _unfolded_call(line: Text, call: Call, diffs: Sequence[str] | None) -> Group:
    parts: list[RenderableType] = []
    if diffs:
        parts += [draw_diff(diff) for diff in diffs]
    else:
        parts.append(_lines(call.arguments, _ARGUMENT_LINES_MAX, "cyan"))
    if call.result:
        parts.append(
            _lines(call.result, _RESULT_LINES_MAX, "red" if call.state == "error" else "dim")
        )
    if diffs is None:
        parts.append(Text("reading …", "dim italic"))
    return Group(_one_line(line), *[Padding(part, (0, 0, 0, 2)) for part in parts])


def _lines(text: str, lines_max: int, style: str) -> Text:
    lines = clean(text).rstrip("\n").split("\n")
    shown = [fit_line(line) for line in lines[:lines_max]]
    if len(lines) > lines_max:
        shown.append(f"… {len(lines) - lines_max:,} more lines")
    return Text("\n".join(shown), style)


def fit_line(line: str) -> str:
    """A clean line, cut where it is endless."""
    return line if len(line) <= _LINE_CHARS_MAX else f"{line[:_LINE_CHARS_MAX]}…"


def draw_diff(diff: str) -> Text:
    """A unified diff in its colours."""
    drawn = Text()
    for number, line in enumerate(clean(diff).split("\n")):
        style = ""
        if line.startswith(("+++", "---")):
            style = "bold"
        elif line.startswith("+"):
            style = "green"
        elif line.startswith("-"):
            style = "red"
        elif line.startswith("@@"):
            style = "cyan"
        drawn.append(("\n" if number else "") + fit_line(line), style)
    return drawn


# --- Markdown --------------------------------------------------------------------------------


def markdown(text: str, *, is_dark: bool) -> RenderableType:
    """Clean Markdown, drawn. HTML in it is shown as it stands, and links show where they lead."""
    from markdown_it import MarkdownIt
    from rich import markdown as rich_markdown

    drawn = rich_markdown.Markdown(
        "", hyperlinks=False, code_theme="ansi_dark" if is_dark else "ansi_light"
    )
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    drawn.parsed = parser.parse(text)
    return drawn
