"""`rewake delete`: sessions go to the trash, from where they can be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rewake.cli.amounts import amount
from rewake.cli.terminal import one_line, say
from rewake.compose.archives import delete_session
from rewake.compose.place import find_session, place


def delete_sessions(wanted: Sequence[str], cwd: Path | None, *, as_json: bool) -> int:
    """Delete them one after the other; returns the exit status.

    All are looked up first, so that a wrong name deletes nothing. Raises what `delete` raises.
    """
    at = place(cwd or ".")
    found = {paths.session_id: paths for paths in (find_session(at, name) for name in wanted)}
    done = [delete_session(at, paths) for paths in found.values()]
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(done)
        return 0
    for item in done:
        say(
            f"Deleted {one_line(item.session_id)} ({amount(item.trashed.size)}): it is in the trash."
        )
        if item.forks:
            names = ", ".join(one_line(name) for name in item.forks)
            say(f"  Its history stays with what was forked from it: {names}.")
        say(f"  Take it back: rewake trash restore {one_line(item.session_id)}")
    return 0
