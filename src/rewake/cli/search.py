"""`rewake search`: where something was said or done, and how to go on from there.

The rule kept here: nothing that was found reaches the terminal unclean, and each hit ends with a
command that can be pasted.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from rewake.catalogue.search import Filters, SearchHit, SearchResult, search_sessions
from rewake.cli.bar import Bar
from rewake.cli.lists import age
from rewake.cli.terminal import Style, clean, fit, let_readers_leave, note, one_line, say, style_for
from rewake.compose.place import place
from rewake.errors import UsageError
from rewake.model.content import JsonObject

_SHOWN: Final = 20
_TITLE_COLUMNS: Final = 80
_DAYS: Final = re.compile(r"(\d{1,4})([dw])")
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SearchChoices:
    """What was asked for besides the words. Days are those of the user's own time zone."""

    everywhere: bool = False
    since: str | None = None
    until: str | None = None
    tag: str | None = None
    tool: str | None = None
    file: str | None = None
    limit: int | None = None


def search(query: str, cwd: Path | None, choices: SearchChoices, *, as_json: bool) -> int:
    """Print the hits, or one object; returns the exit status. Raises UsageError."""
    let_readers_leave()
    at = place(cwd or ".")
    now = datetime.now().astimezone()
    filters = Filters(
        since_ms=_unix_ms(choices.since, now, "--since"),
        until_ms=_unix_ms(choices.until, now, "--until", is_end=True),
        tag=choices.tag,
        tool=choices.tool,
        file=choices.file,
    )
    with Bar("Indexing what is new") as bar:
        found = search_sessions(
            at.home,
            at.disk,
            query,
            None if choices.everywhere else at.root,
            filters=filters,
            limit=choices.limit or _SHOWN,
            progress=bar.show,
        )
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json({**_plain(found), "hits": [_hit_object(hit) for hit in found.hits]})
        return 0
    for problem in found.problems:
        note(problem)
    _print(found, everywhere=choices.everywhere, root=at.root)
    return 0


def resume_command(hit: SearchHit) -> str:
    """The command that goes on where this was said."""
    words = ["rewake", "--resume", hit.session_id]
    if hit.message_id is not None:
        words += ["--resume-session-at", hit.message_id]
    return " ".join(shlex.quote(clean(word)) for word in words)


def _plain(found: SearchResult) -> JsonObject:
    return {"problems": list(found.problems)}


def _hit_object(hit: SearchHit) -> JsonObject:
    return {
        "session_id": hit.session_id,
        "title": hit.title,
        "project": hit.project,
        "message_id": hit.message_id,
        "timestamp": hit.timestamp,
        "kind": hit.kind,
        "tool": hit.tool,
        "snippet": hit.snippet,
        "marks": [list(mark) for mark in hit.marks],
        "rank": hit.rank,
        "path": hit.path,
        "resume": resume_command(hit),
    }


def _print(found: SearchResult, *, everywhere: bool, root: Path) -> None:
    if not found.hits:
        where = "" if everywhere else f" in {clean(str(root))}"
        say(f"Nothing found{where}." + ("" if everywhere else " --all looks everywhere."))
        return
    style, now = style_for(sys.stdout), datetime.now(UTC)
    for number, hit in enumerate(found.hits):
        if number:
            say()
        where = f"  {one_line(hit.project)}" if everywhere else ""
        title = fit(hit.title, _TITLE_COLUMNS) or "(no prompt)"
        say(f"{style.bold(title)}{style.dim(f'  {age(hit.timestamp, now)}{where}')}")
        what = f"{hit.kind} {one_line(hit.tool)}".strip()
        say(f"  {style.dim(f'{what}:')} {_marked(hit, style)}")
        say(f"  {style.dim(resume_command(hit))}")


def _marked(hit: SearchHit, style: Style) -> str:
    """The snippet with its hits shown: in colour, or in brackets where there is none."""
    parts: list[str] = []
    at = 0
    for start, end in hit.marks:
        word = clean(hit.snippet[start:end])
        parts += [clean(hit.snippet[at:start])]
        parts += [style.yellow(word) if style.enabled else f"[{word}]"]
        at = end
    return "".join([*parts, clean(hit.snippet[at:])])


def _unix_ms(text: str | None, now: datetime, option: str, *, is_end: bool = False) -> int | None:
    """A day, a moment, or so many days or weeks ago. A day as the end includes all of it."""
    if text is None:
        return None
    moment = _moment(text, now, is_end=is_end)
    if moment is None:
        raise UsageError(
            f"{option} {text!r} is no time.",
            remedy="Give a day (2026-03-01), a moment (2026-03-01T14:00), today, yesterday, 7d or 2w.",
        )
    return int(moment.timestamp() * 1000)


def _moment(text: str, now: datetime, *, is_end: bool) -> datetime | None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": 0, "yesterday": 1}.get(text)
    ago = _DAYS.fullmatch(text)
    if days is not None:
        return today - days * _DAY + is_end * _DAY
    try:
        if ago is not None:
            return now - int(ago[1]) * (7 if ago[2] == "w" else 1) * _DAY
        moment = datetime.fromisoformat(text)
        is_day = "T" not in text and " " not in text
        return (moment if moment.tzinfo else moment.astimezone()) + (is_end and is_day) * _DAY
    except (ValueError, OverflowError):
        return None
