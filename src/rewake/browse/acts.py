"""What the browser does to sessions: titles, tags, rewinds, forks, exports and the trash.

The rules kept here: a label says something about a session and does nothing to it; a session is open
only for the moment of a change, and afterwards at rest again; files go back only after a preview; and one that somebody else writes is
left alone (SessionBusyError names the holder).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rewake.browse.source import paths_of
from rewake.compose.opening import open_for_notes
from rewake.compose.place import Place
from rewake.compose.rewinding import newest_rewind_took_files
from rewake.compose.sessions import open_session
from rewake.errors import UsageError
from rewake.files.plan import RewindPlan
from rewake.files.preview import preview_lines
from rewake.resume.listing import SessionInfo

_DONE: Final = "done"
_INTERRUPTED: Final = "interrupted"


def rename(at: Place, info: SessionInfo, title: str) -> None:
    """Give a title; an empty one lets the first prompt be it again. Durable on return."""
    with open_for_notes(at, paths_of(info)) as session:
        session.metadata(title=title.strip() or None)


def set_tags(at: Place, info: SessionInfo, tags: tuple[str, ...]) -> None:
    """Replace the tags. Durable on return."""
    with open_for_notes(at, paths_of(info)) as session:
        session.metadata(tags=list(dict.fromkeys(tags)) or None)


def rewind(at: Place, info: SessionInfo, message_id: str) -> None:
    """Take the conversation back to just after a message; what followed stays as a branch.

    Files stay as they are. Durable on return.
    """
    with open_for_notes(at, paths_of(info)) as session:
        session.rewind(message_id)


def preview_of_files(at: Place, info: SessionInfo, message_id: str | None) -> list[str]:
    """What taking files back to just after a message would do; None is for undoing the newest rewind.

    Changes nothing.
    """
    from rewake.compose.taking_back import preview

    found = preview(at, paths_of(info), message_id)
    return [*found.notices, *preview_lines(found.plan, found.diffs, found.root)]


def rewind_with_files(at: Place, info: SessionInfo, message_id: str) -> str:
    """Take the conversation and the files back to just after a message; says what was done.

    What somebody else has changed since stays as it is. Durable on return.
    """
    from rewake.compose.taking_back import take_back

    done = take_back(at, paths_of(info), message_id, conversation=True)
    return " ".join([*done.notices, _counted(done.plan)])


def undo_takes_files(at: Place, info: SessionInfo) -> list[str]:
    """What an undo of the newest rewind would do to files, if that took any; else nothing."""
    with open_for_notes(at, paths_of(info)) as session:
        takes_files = newest_rewind_took_files(session)
    return preview_of_files(at, info, None) if takes_files else []


def undo_rewind(at: Place, info: SessionInfo) -> str:
    """Go back to where the newest rewind left, with the files that it took; says what was done.

    Durable on return.
    """
    from rewake.compose.taking_back import take_again

    done = take_again(at, paths_of(info))
    if done is not None:
        return " ".join([*done.notices, "Rewind undone.", _counted(done.plan)])
    with open_for_notes(at, paths_of(info)) as session:
        session.undo_rewind()
    return "Rewind undone."


def _counted(plan: RewindPlan) -> str:
    count, kept = len(plan.changes), len(plan.conflicts)
    said = f"{count} path{'' if count == 1 else 's'} taken back."
    return f"{said} {kept} kept, as somebody else has changed them." if kept else said


def fork(at: Place, info: SessionInfo, message_id: str | None) -> str:
    """A new session that goes on from a message (None: from the end); returns its id.

    The original is only read, also while somebody writes it. Durable on return.
    """
    with open_session(
        _project(at, info),
        resume=info.session_id,
        fork=True,
        at_message=message_id,
        home=at.home,
        trace=False,
    ) as session:
        session.terminal(_DONE if info.state == _DONE else _INTERRUPTED)
        return session.session_id


def export(at: Place, info: SessionInfo, output: str) -> str:
    """Write the session to a file, without the secrets that were found; says what was written.

    A name that ends in `.md` gets Markdown, one in `.json` ATIF, any other an archive. Durable on
    return. Raises UsageError where there is such a file already.
    """
    from rewake.compose import archives

    target = Path(output).expanduser()
    if target.exists():
        raise UsageError(f"{target} is there already.", remedy="Give another name.")
    forms: dict[str, archives.Form] = {".md": "markdown", ".json": "atif"}
    form = forms.get(target.suffix, "archive")
    done = archives.export(info.session_id, target, form=form, project=at.root, home=at.home)
    secrets = sum(done.redacted.values())
    return f"Exported to {done.path}; secrets taken out: {secrets}. Look before you share it."


def delete(at: Place, info: SessionInfo) -> None:
    """Move the session to the trash; forks of it keep their history. Durable on return."""
    from rewake.compose.archives import delete_session

    delete_session(at, paths_of(info))


def _project(at: Place, info: SessionInfo) -> Path:
    """Where the session belongs, as long as that is still there."""
    project = Path(info.project)
    return project if info.project and project.is_dir() else at.root
