"""`rewake trash`: what was deleted, taken back or removed for good."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime

from rewake.archive.retention import parse_age
from rewake.archive.trash import Trashed
from rewake.cli.amounts import SIZE_COLUMNS, amount, confirm
from rewake.cli.terminal import fit, one_line, say
from rewake.compose.archives import empty_trash, restore
from rewake.compose.archives import trash as entries_of_trash
from rewake.errors import UsageError


def trash(
    action: str, session: str | None, *, older_than: str | None, yes: bool, as_json: bool
) -> int:
    """List, restore or empty; returns the exit status. Raises RewakeError."""
    if action == "restore":
        return _restore(session, as_json=as_json)
    if session is not None:
        raise UsageError(f"{action!r} takes no session.", remedy="Use `rewake trash restore ID`.")
    found = entries_of_trash()
    if older_than is not None:
        limit = time.time() - parse_age(older_than)
        found = [item for item in found if _unix(item.deleted_at) < limit]
    if action == "list":
        return _list(found, as_json=as_json)
    if action == "empty":
        return _empty(found, yes=yes, as_json=as_json)
    raise UsageError(
        f"The trash can't {action!r}.", remedy="Say list, restore ID or empty, or nothing."
    )


def _list(found: list[Trashed], *, as_json: bool) -> int:
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(found)
        return 0
    if not found:
        say("The trash is empty.")
    for line in _rows(found):
        say(line)
    return 0


def _rows(found: list[Trashed]) -> list[str]:
    columns = shutil.get_terminal_size((100, 24)).columns
    rows = []
    ids = [one_line(item.session_id) for item in found]
    id_columns = max(map(len, ids), default=0)
    for item, name in zip(found, ids, strict=True):
        head = f"{item.deleted_at[:10]}  {name:<{id_columns}}  {amount(item.size):>{SIZE_COLUMNS}}"
        rows.append(f"{head}  {fit(item.title, max(columns - len(head) - 2, 20))}")
    return rows


def _restore(session: str | None, *, as_json: bool) -> int:
    if session is None:
        raise UsageError("Which session?", remedy="`rewake trash` lists them.")
    paths = restore(session)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json({"session_id": paths.session_id, "directory": str(paths.directory)})
        return 0
    say(f"Restored {one_line(paths.session_id)}. Go on with it: rewake --resume {paths.session_id}")
    return 0


def _empty(found: list[Trashed], *, yes: bool, as_json: bool) -> int:
    if not as_json:
        if not found:
            say("There is nothing to remove.")
            return 0
        for line in _rows(found):
            say(line)
    total = sum(item.size for item in found)
    question = f"Remove {len(found)} session{'s' * (len(found) != 1)} ({amount(total)}) for good?"
    if not confirm(question, yes=yes or not found):
        say("Nothing was removed.")
        return 0
    freed = empty_trash(found)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json({"removed": found, "size": freed})
        return 0
    say(f"Removed {len(found)}. `rewake gc` removes the blobs that nothing names any more.")
    return 0


def _unix(timestamp: str) -> float:
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return time.time()  # nobody knows how old it is: it stays
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
