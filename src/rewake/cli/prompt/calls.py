"""Tool calls as lines: name, subject, how long it took, what came of it.

The rule kept here: a call that went well takes a line or two, an error is never hidden, and a long
diff or output is cut with its cut said.
"""

from __future__ import annotations

from typing import Final

from rewake.agent.ports import Prepared
from rewake.agent.workers import AgentProgress
from rewake.cli.terminal import Style, clean, diff_lines, fit, one_line, width
from rewake.model.events import FileChangeIntent, Outcome, ShellIntent

DIFF_LINES_MAX: Final = 16
_OUTPUT_LINES_MAX: Final = 3
_ERROR_LINES_MAX: Final = 6
_LINE_CHARS_MAX: Final = 1000  # what is longer says nothing more to a reader
_SHOWN_FROM_S: Final = 0.1
_MINUTE_S: Final = 60


def seconds(elapsed_s: float) -> str:
    """A duration in a few characters: `0.4 s`, `12 s`, `3 min 5 s`."""
    if elapsed_s < 10:  # noqa: PLR2004  # below that, tenths are of interest
        return f"{elapsed_s:.1f} s"
    if elapsed_s < _MINUTE_S:
        return f"{elapsed_s:.0f} s"
    return f"{int(elapsed_s // _MINUTE_S)} min {int(elapsed_s % _MINUTE_S)} s"


def subject(tool_name: str, prepared: Prepared) -> str:
    """What a call is about, without the tool's name, which stands before it."""
    if isinstance(prepared.intent, ShellIntent):
        return one_line(prepared.intent.command)
    summary = one_line(prepared.summary)
    return summary.removeprefix(f"{tool_name} ").removeprefix(f"{tool_name}: ")


def title(tool_name: str, prepared: Prepared | None, columns: int, style: Style, mark: str) -> str:
    """`● Bash npm test`; the mark is coloured by the caller."""
    name = fit(tool_name, max(columns - 2, 4))
    room = columns - len(name) - 4
    about = fit(subject(tool_name, prepared), room) if prepared is not None and room > 1 else ""
    return f"{mark} {style.bold(name)} {about}".rstrip()


def ended(
    tool_name: str,
    text: str,
    *,
    is_error: bool,
    prepared: Prepared | None,
    outcome: Outcome | None,
    elapsed_s: float | None,
    columns: int,
    style: Style,
    with_diff: bool,
) -> list[str]:
    """The lines that stay of a call."""
    paint = style.red if is_error else style.green
    facts = _facts(text, is_error=is_error, prepared=prepared, outcome=outcome, elapsed_s=elapsed_s)
    room = columns - len(facts) - 3 if len(facts) + 24 < columns else columns
    line = title(tool_name, prepared, room, style, paint("●"))
    lines = [f"{line}  {style.dim(facts)}".rstrip()] if room < columns else [line]
    if room == columns and facts:
        lines.append(f"  {style.dim(fit(facts, max(columns - 2, 4)))}")
    if is_error:
        return lines + _said(
            text or f"{tool_name} failed", _ERROR_LINES_MAX, columns, style, style.red
        )
    if prepared is not None and isinstance(prepared.intent, FileChangeIntent):
        return lines + (diff(prepared.preview, columns, style) if with_diff else [])
    if prepared is not None and isinstance(prepared.intent, ShellIntent):
        output, _, last = text.rpartition("\n")
        output = output if last.startswith("Exit code") else text  # the code was said above
        return lines + _said(output, _OUTPUT_LINES_MAX, columns, style, style.dim)
    return lines


def agent_at_work(progress: AgentProgress, took: str, columns: int, style: Style) -> str:
    """`◌ explorer: Find the tests · Grep def test · 3 s`."""
    doing = progress.doing if progress.status == "running" else "waiting for its turn"
    said = f"{'  ' * progress.depth}◌ {_agent_name(progress)}"
    facts = " · ".join(part for part in (one_line(doing), took) if part)
    room = max(columns - 2, 8)
    return style.dim(_indented(f"{said} · {facts}", room))


def agent_ended(
    progress: AgentProgress, elapsed_s: float | None, columns: int, style: Style
) -> str:
    """The line that stays of a sub-agent."""
    facts = [
        str(progress.status),
        f"{progress.steps} step{'s' * (progress.steps != 1)}",
        f"{progress.calls} call{'s' * (progress.calls != 1)}",
        *([seconds(elapsed_s)] if elapsed_s is not None else []),
    ]
    name = f"{'  ' * progress.depth}◉ {_agent_name(progress)}"
    return style.dim(_indented(f"{name} · {' · '.join(facts)}", max(columns - 2, 8)))


def _agent_name(progress: AgentProgress) -> str:
    return f"{one_line(progress.agent_type)}: {one_line(progress.task)}"


def _indented(line: str, columns: int) -> str:
    """A line cut to its room, its indentation kept."""
    bare = line.lstrip(" ")
    indent = min(len(line) - len(bare), columns // 2)
    return " " * indent + fit(bare, columns - indent)


def _facts(
    text: str,
    *,
    is_error: bool,
    prepared: Prepared | None,
    outcome: Outcome | None,
    elapsed_s: float | None,
) -> str:
    facts = []
    if elapsed_s is not None and elapsed_s >= _SHOWN_FROM_S:
        facts.append(seconds(elapsed_s))
    if outcome is not None and outcome.exit_code is not None:
        facts.append(f"exit {outcome.exit_code}")
    is_said_otherwise = prepared is not None and isinstance(
        prepared.intent, FileChangeIntent | ShellIntent
    )
    if not is_error and not is_said_otherwise:
        count = sum(1 for line in text.split("\n") if line.strip())
        facts.append(fit(text, 40) if count <= 1 and len(text) <= 40 else _lines(count))  # noqa: PLR2004  # a few words
    return " · ".join(fact for fact in facts if fact)


def _lines(count: int) -> str:
    return f"{count} line{'s' * (count != 1)}"


def diff(preview: str, columns: int, style: Style) -> list[str]:
    """A diff without its head, coloured and bounded."""
    lines = [line for line in clean(preview).split("\n") if not line.startswith(("--- ", "+++ "))]
    while lines and not lines[-1].strip():
        lines.pop()
    shown = [_cut(line, columns) for line in lines[:DIFF_LINES_MAX]]
    coloured = diff_lines("\n".join(shown), style).split("\n") if shown else []
    return [f"  {line}" for line in [*coloured, *_more(lines, DIFF_LINES_MAX, style)]]


def _said(text: str, lines_max: int, columns: int, style: Style, paint: object) -> list[str]:
    lines = [line for line in clean(text).split("\n") if line.strip()]
    coloured = paint if callable(paint) else style.dim
    bar = style.dim("│")
    room = max(columns - 5, 8)
    shown = [
        f"  {bar} {coloured(piece)}"
        for line in lines[:lines_max]
        for piece in _wrapped(_cut(line, columns - 2), room)
    ]
    return shown + [f"  {bar} {line}" for line in _more(lines, lines_max, style)]


def _wrapped(line: str, columns: int) -> list[str]:
    """The line in rows, between words where there are some."""
    rows, row, taken = [], "", 0
    for char in line:
        if taken + width(char) > columns:
            at = row.rfind(" ") + 1
            at = at if at > columns // 2 else len(row)
            rows.append(row[:at].rstrip())
            row = row[at:]
            taken = width(row)
        row, taken = row + char, taken + width(char)
    return [*rows, row]


def _more(lines: list[str], lines_max: int, style: Style) -> list[str]:
    return [style.dim(f"… {len(lines) - lines_max} more lines")] if len(lines) > lines_max else []


def _cut(line: str, columns: int) -> str:
    """A line with its indentation, not much wider than the terminal."""
    line = line.expandtabs(4).rstrip()
    room = max(min(3 * columns, _LINE_CHARS_MAX), 8)
    return line if len(line) <= room else line[: room - 1] + "…"
