"""`rewake path`: where everything of a session is."""

from __future__ import annotations

from pathlib import Path

from rewake.cli.jsonout import to_json
from rewake.cli.terminal import clean, let_readers_leave, say
from rewake.compose.place import find_session, place


def show_path(session: str, cwd: Path | None, *, as_json: bool) -> int:
    """Print the paths; returns the exit status. Raises SessionNotFoundError."""
    let_readers_leave()
    at = place(cwd or ".")
    paths = find_session(at, session)
    places = {
        "session_id": paths.session_id,
        "transcript": str(paths.transcript),
        "trace": str(paths.trace),
        "outputs": str(paths.outputs),
        "agents": str(paths.agents),
        "lock": str(paths.lock),
        "directory": str(paths.directory),
        "blobs": str(paths.blobs),
        "memory": str(paths.project / "memory"),
        "project": str(paths.project),
        "home": str(at.home),
    }
    if as_json:
        say(to_json(places))
        return 0
    for name, value in places.items():
        missing = "" if name == "session_id" or Path(value).exists() else "  (not there)"
        say(f"{name:<10}  {clean(value)}{missing}")
    return 0
