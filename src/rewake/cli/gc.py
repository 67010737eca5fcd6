"""`rewake gc`: what no session needs any more goes, after it was announced.

The rule kept here: nothing is removed that wasn't listed first, and without a terminal only with --yes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewake.archive.gc import Collected, Collection, Collector
from rewake.archive.retention import DAY_S, Aged, over_quota, parse_age, parse_size, too_old, weigh
from rewake.archive.trash import tree_size
from rewake.cli.amounts import SIZE_COLUMNS, amount, confirm
from rewake.cli.bar import Bar
from rewake.cli.terminal import clean, fit, one_line, say
from rewake.compose.archives import collectors, delete_session
from rewake.compose.place import Place, place
from rewake.compose.settings import load_for
from rewake.log.layout import SessionPaths
from rewake.resume.listing import describe, newest_first
from rewake.settings.load import Loaded

_LISTED_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Choices:
    """What was asked for; None is no limit."""

    everywhere: bool
    older_than: str | None
    quota: str | None
    dry_run: bool
    yes: bool


@dataclass(frozen=True, slots=True)
class _Limits:
    """Seconds and bytes from which sessions go, None for no limit, and where they were set."""

    age_s: float | None
    quota: int | None
    reasons: tuple[str, ...]


def gc(cwd: Path | None, choices: Choices, *, as_json: bool) -> int:
    """Announce, ask, remove; returns the exit status. Raises SessionBusyError, StorageError."""
    at = place(cwd or ".")
    limits = _limits(at, choices)
    found = collectors(at.root, home=at.home, everywhere=choices.everywhere)
    leaving = _leaving(at, found, limits)
    with Bar("Looking") as bar:
        plans = [(collector, collector.plan(bar.show)) for collector in found]
    if not as_json:
        _announce(leaving, [plan for _, plan in plans], limits)
    anything = bool(leaving) or any(plan.useless for _, plan in plans)
    go_on = anything and not choices.dry_run and confirm("Go on?", yes=choices.yes)
    done: list[Collected] = []
    if go_on:
        for item in leaving:
            delete_session(at, item.paths)
        done = [collector.collect(plan) for collector, plan in plans if plan.useless]
    if as_json:
        _print_json([plan for _, plan in plans], leaving, done, limits, dry_run=choices.dry_run)
    elif go_on:
        _tell(leaving, done)
    elif anything:
        say("Nothing was removed.")
    return 0


def _limits(at: Place, choices: Choices) -> _Limits:
    """What the options say, else what the settings say; those of one project hold for it alone."""
    age_s = parse_age(choices.older_than) if choices.older_than is not None else None
    quota = parse_size(choices.quota) if choices.quota is not None else None
    reasons = [
        f"{flag} {text}"
        for flag, text in (("--older-than", choices.older_than), ("--quota", choices.quota))
        if text is not None
    ]
    if age_s is not None and quota is not None:
        return _Limits(age_s, quota, tuple(reasons))
    loaded = load_for(at, sources="user" if choices.everywhere else None)
    given = loaded.settings.retention
    if age_s is None and given.age_days_max is not None:
        age_s = given.age_days_max * DAY_S
        reasons.append(_set_at(loaded, "retention.age_days_max", given.age_days_max))
    if quota is None and given.bytes_max is not None:
        quota = given.bytes_max
        reasons.append(_set_at(loaded, "retention.bytes_max", given.bytes_max))
    return _Limits(age_s, quota, tuple(reasons))


def _set_at(loaded: Loaded, key: str, value: int) -> str:
    where = next(said.where for said in loaded.said(key) if said.status == "counts")
    return f"{key} {value:,} in {where}"


def _leaving(at: Place, found: Iterable[Collector], limits: _Limits) -> list[Aged]:
    """The sessions that a limit sends to the trash."""
    age_s, quota = limits.age_s, limits.quota
    if age_s is None and quota is None:
        return []
    leaving: dict[str, Aged] = {}
    for collector in found:
        aged = weigh(
            (paths, changed_at, describe(paths, at.blobs(paths), at.disk))
            for paths, changed_at in newest_first(_sessions(collector.project))
        )
        old = too_old(aged, age_s, time.time()) if age_s is not None else []
        rest = [item for item in aged if item not in old]
        if quota is not None:
            total = tree_size(collector.project) - sum(item.size for item in old)
            old += over_quota(rest, total, quota)
        leaving.update({item.paths.session_id: item for item in old})
    return list(leaving.values())


def _sessions(project: Path) -> list[SessionPaths]:
    directories = sorted((project / "sessions").glob("*/transcript.jsonl"))
    return [SessionPaths(project, transcript.parent.name) for transcript in directories]


def _announce(leaving: list[Aged], plans: list[Collection], limits: _Limits) -> None:
    if leaving:
        size = amount(sum(item.size for item in leaving))
        why = clean("; ".join(limits.reasons))
        say(f"To the trash: {len(leaving)} sessions ({size}), because of {why}")
    id_columns = max((len(one_line(item.paths.session_id)) for item in leaving), default=0)
    for item in leaving:
        day = time.strftime("%Y-%m-%d", time.gmtime(item.changed_at))
        name = f"{one_line(item.paths.session_id):<{id_columns}}"
        say(f"  {day}  {name}  {amount(item.size):>{SIZE_COLUMNS}}  {fit(item.title, 40)}")
    for plan in plans:
        blobs = [one for one in plan.useless if one.kind == "blob"]
        leftovers = [one for one in plan.useless if one.kind == "leftover"]
        say(
            f"{clean(Path(plan.project).name)}: {len(blobs)} blobs without a name"
            f" ({amount(sum(one.size for one in blobs))}), {len(leftovers)} leftovers"
            f" ({amount(sum(one.size for one in leftovers))});"
            f" {plan.kept:,} blobs are needed ({amount(plan.kept_size)})."
        )
        for one in plan.useless[:_LISTED_MAX]:
            say(f"  {amount(one.size):>{SIZE_COLUMNS}}  {clean(one.path)}")
        if len(plan.useless) > _LISTED_MAX:
            say(f"  … and {len(plan.useless) - _LISTED_MAX:,} more")
    if not plans:
        say("There is no project here yet.")


def _tell(leaving: list[Aged], done: list[Collected]) -> None:
    if leaving:
        say(
            f"{len(leaving)} sessions are in the trash; `rewake trash empty` removes them for good."
        )
    blobs, size = sum(item.blobs for item in done), sum(item.size for item in done)
    leftovers = sum(item.leftovers for item in done)
    say(f"Removed {blobs:,} blobs and {leftovers:,} leftovers ({amount(size)}).")


def _print_json(
    plans: list[Collection],
    leaving: list[Aged],
    done: list[Collected],
    limits: _Limits,
    *,
    dry_run: bool,
) -> None:
    from rewake.cli.jsonout import print_json

    sessions = [
        {"session_id": item.paths.session_id, "size": item.size, "title": item.title}
        for item in leaving
    ]
    print_json(
        {
            "dry_run": dry_run,
            "limits": limits.reasons,
            "to_trash": sessions,
            "plans": plans,
            "removed": done,
        }
    )
