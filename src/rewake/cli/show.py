"""`rewake show`: the conversation of a session, for people or as JSON.

The rule kept here: nothing is recorded and nothing of the session changes, also while another
process is at work on it; what was interrupted or damaged is shown with its evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewake.cli.terminal import let_readers_leave, say
from rewake.compose.agent_records import find_agent
from rewake.compose.place import Place, find_session, place
from rewake.compose.waking import load_session, wake
from rewake.log.layout import AgentPaths, SessionPaths
from rewake.resume.evidence import Settlement
from rewake.resume.history import History, whole_history
from rewake.resume.listing import SessionInfo, describe
from rewake.resume.load import Loaded, load_from_root
from rewake.state.world import OpenCall

WAITS: Final = "no evidence settled it; look at what it left"
AT_WORK: Final = "the process that writes the session is at work on it"


@dataclass(frozen=True, slots=True)
class Shown:
    """Everything that is shown of a session.

    `settlements` are the verdicts that a resume would give now; while another process writes the
    session (`info.pid`) there are none, because its calls are simply at work.
    """

    info: SessionInfo
    agent_id: str | None
    history: History
    loaded: Loaded
    calls: dict[str, OpenCall]
    settlements: tuple[Settlement, ...]


def subject(at: Place, session: str, agent: str | None) -> SessionPaths:
    """The session, or its sub-agent `agent`. Raises SessionNotFoundError."""
    paths = find_session(at, session)
    return paths if agent is None else find_agent(at, paths, agent)


def show_session(
    session: str,
    cwd: Path | None,
    *,
    as_json: bool,
    only_memory: bool,
    agent: str | None = None,
) -> int:
    """Print it; returns the exit status. Raises SessionNotFoundError, UnreadableVersionError."""
    let_readers_leave()
    at = place(cwd or ".")
    paths = subject(at, session, agent)
    if only_memory:
        _show_memory(at, paths, as_json=as_json)
        return 0
    shown = gather(at, paths)
    if as_json:
        from rewake.cli.jsonout import to_json
        from rewake.cli.show_json import session_object

        say(to_json(session_object(shown)))
    else:
        from rewake.cli.show_text import print_session

        print_session(shown)
    return 0


def _show_memory(at: Place, paths: SessionPaths, *, as_json: bool) -> None:
    from rewake.cli.recalled import print_memory, recalled_notes

    memory = load_session(at, paths).state.conversation.memory.render()
    with at.lineage(paths) as reader:
        entries = whole_history(reader, at.blobs(paths)).entries
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json({"memory": memory, "recalled": recalled_notes(entries)})
    else:
        print_memory(memory, entries)


def gather(at: Place, paths: SessionPaths) -> Shown:
    """Read everything, without opening the session for writing."""
    info = describe(paths, at.blobs(paths), at.disk)
    with at.lineage(paths) as reader:
        loaded = load_from_root(reader, at.blobs(paths))
        history = whole_history(reader, at.blobs(paths))
    waking = wake(at, paths, loaded, {}, claim=False)
    calls = {**loaded.state.world.calls, **waking.calls}
    settlements = () if info.pid is not None else tuple(waking.settlements)
    agent_id = paths.agent_id if isinstance(paths, AgentPaths) else None
    return Shown(info, agent_id, history, loaded, calls, settlements)
