"""What other sessions of the same project did to files: two agents may work in one tree.

The rule kept here: other transcripts are only read, and only when a path isn't as its agent left it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rewake.errors import RewakeError
from rewake.files.history import recorded
from rewake.log.layout import SessionPaths
from rewake.model.events import FileState
from rewake.resume.lineage import Lineage
from rewake.resume.load import BlobReader


def changed_by_others(
    wanted: Mapping[bytes, str],
    sessions: Iterable[SessionPaths],
    own_events: frozenset[str],
    *,
    open_reader: Callable[[SessionPaths], Lineage],
    blobs: BlobReader,
    root: Path,
) -> dict[bytes, tuple[str, FileState]]:
    """Per path the newest change by another session after the event given: who, and what it left."""
    oldest = min(wanted.values(), default="")
    newest: dict[bytes, tuple[str, str, FileState]] = {}
    for paths in sessions:
        if not _written_after(paths.transcript, oldest):
            continue
        try:
            with open_reader(paths) as reader:
                events = list(recorded(reader, blobs, root=root, after=oldest))
        except RewakeError:
            continue  # a broken session can't be asked; `rewake check` says what is wrong with it
        for event in events:
            if event.event_id in own_events:
                continue
            for path, change in event.changes:
                after = wanted.get(path)
                if after is None or event.event_id < after:
                    continue
                known = newest.get(path)
                if known is None or known[0] < event.event_id:
                    newest[path] = (event.event_id, event.session_id, change.after)
    return {path: (session_id, left) for path, (_, session_id, left) in newest.items()}


def _written_after(transcript: Path, event_id: str) -> bool:
    """Whether the file was written since an event; its id begins with the time in milliseconds."""
    try:
        began_s = int(event_id.replace("-", "")[:12], 16) / 1000
        return transcript.stat().st_mtime >= began_s - 1
    except ValueError:
        return True
    except OSError:
        return False
