"""`rewake stats`: how much was done and what it cost, as tables and a small chart."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rewake.archive.stats import Counts, Statistics
from rewake.cli.bar import Bar
from rewake.cli.terminal import clean, fit, let_readers_leave, say, width
from rewake.compose.archives import stats
from rewake.compose.place import place

_NAME_COLUMNS: Final = 32
_CHART_DAYS: Final = 14
_CHART_COLUMNS: Final = 40
_BLOCKS: Final = " ▏▎▍▌▋▊▉█"


def show_stats(cwd: Path | None, *, everywhere: bool, as_json: bool) -> int:
    """Print them; returns the exit status."""
    let_readers_leave()
    at = place(cwd or ".")
    with Bar("Reading", "sessions") as bar:
        found = stats(at.root, home=at.home, everywhere=everywhere, progress=bar.show)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(found)
        return 0
    if not found.total.sessions:
        where = "" if everywhere else f" in {clean(str(at.root))}"
        say(f"No sessions{where} yet." + ("" if everywhere else " --all counts everywhere."))
        return 0
    for line in _lines(found, with_projects=everywhere):
        say(line)
    return 0


def _lines(found: Statistics, *, with_projects: bool) -> list[str]:
    lines = _table("", (found.total,))
    if with_projects:
        lines += ["", *_table("project", found.projects)]
    if found.models:
        lines += ["", *_table("model", found.models)]
    return [*lines, "", *_chart(found.days[-_CHART_DAYS:])]


def _table(name: str, rows: tuple[Counts, ...]) -> list[str]:
    head = f"{name:<{_NAME_COLUMNS}} {'sessions':>8} {'messages':>9} {'calls':>8}"
    lines = [f"{head} {'tokens in':>13} {'out':>11} {'cost':>10}"]
    for row in rows:
        shown = fit(_short(row.name), _NAME_COLUMNS)
        padded = shown + " " * (_NAME_COLUMNS - width(shown))
        cost = f"${row.cost_usd:,.2f}" if row.cost_usd is not None else "-"
        calls = f"{row.calls:,}" if name != "model" else ""
        lines.append(
            f"{padded} {row.sessions:>8,} {row.messages:>9,} {calls:>8}"
            f" {row.input_tokens:>13,} {row.output_tokens:>11,} {cost:>10}"
        )
    return lines


def _short(name: str) -> str:
    """The end of a path tells more than its beginning."""
    text = clean(name)
    return text if len(text) <= _NAME_COLUMNS else f"…{text[-_NAME_COLUMNS + 1 :]}"


def _chart(days: tuple[Counts, ...]) -> list[str]:
    """Tokens a day: the days on which a session was last at work."""
    most = max((row.input_tokens + row.output_tokens for row in days), default=0)
    lines = ["tokens by the day on which a session was last at work"]
    for row in days:
        tokens = row.input_tokens + row.output_tokens
        lines.append(f"{clean(row.name)}  {_bar(tokens, most)}  {tokens:,}")
    return lines


def _bar(value: int, most: int) -> str:
    eighths = round(value / most * _CHART_COLUMNS * 8) if most else 0
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (_BLOCKS[part] if part else "")).ljust(_CHART_COLUMNS)
