"""`rewake show`: the conversation of a session, for people or as JSON.

The rule kept here: nothing is recorded and nothing of the session changes, also while another
process is at work on it; what was interrupted or damaged is shown with its evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewake.cli.history import History, whole_history
from rewake.cli.terminal import clean, let_readers_leave, say
from rewake.compose.sessions import Place, find_session, open_calls, place
from rewake.log.layout import SessionPaths
from rewake.log.lock import boot_id
from rewake.log.scan import Transcript
from rewake.resume.evidence import Settlement, settle
from rewake.resume.listing import SessionInfo, describe
from rewake.resume.load import Loaded, load, load_from_root
from rewake.state.world import OpenCall

_UNKNOWN: Final = "unknown"  # a call that no evidence settled at an earlier resume
WAITS: Final = "no evidence settled it; look at what it left"
AT_WORK: Final = "the process that writes the session is at work on it"


@dataclass(frozen=True, slots=True)
class Shown:
    """Everything that is shown of a session.

    `settlements` are the verdicts that a resume would give now; while another process writes the
    session (`info.pid`) there are none, because its calls are simply at work.
    """

    info: SessionInfo
    history: History
    loaded: Loaded
    calls: dict[str, OpenCall]
    settlements: tuple[Settlement, ...]


def show_session(session: str, cwd: Path | None, *, as_json: bool, only_memory: bool) -> int:
    """Print it; returns the exit status. Raises SessionNotFoundError, UnreadableVersionError."""
    let_readers_leave()
    at = place(cwd or ".")
    paths = find_session(at, session)
    if only_memory:
        say(clean(_memory(at, paths)))
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


def _memory(at: Place, paths: SessionPaths) -> str:
    with Transcript(paths.transcript) as reader:
        loaded = load(reader, at.blobs(paths))
    return loaded.state.conversation.memory.render()


def gather(at: Place, paths: SessionPaths) -> Shown:
    """Read everything, without opening the session for writing."""
    info = describe(paths, at.blobs(paths), at.disk)
    with Transcript(paths.transcript) as reader:
        loaded = load_from_root(reader, at.blobs(paths))
        history = whole_history(reader, at.blobs(paths))
    calls = {**loaded.state.world.calls, **open_calls(loaded.state)}
    settlements: list[Settlement] = []
    if info.pid is None:
        settlements = settle(
            [call for call in calls.values() if call.status != _UNKNOWN],
            session_directory=paths.directory,
            boot_id=boot_id(),
            read_blob=at.blobs(paths).get,
            claim=False,
        )
    return Shown(info, history, loaded, calls, tuple(settlements))
