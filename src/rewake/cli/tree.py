"""`rewake show --tree`: the branches of a session, also those that were left."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rewake.cli.jsonout import to_json
from rewake.cli.show import subject
from rewake.cli.terminal import clean, let_readers_leave, say
from rewake.compose.place import place
from rewake.resume.branches import BranchInfo, branches


def show_tree(session: str, cwd: Path | None, agent: str | None = None, *, as_json: bool) -> int:
    """Print the branches, the active one last; returns the exit status."""
    let_readers_leave()
    at = place(cwd or ".")
    paths = subject(at, session, agent)
    with at.lineage(paths) as reader:
        found = branches(reader)
        origin = reader.origin
    if as_json:
        say(
            to_json(
                {
                    "session_id": paths.session_id,
                    "forked_from": msgspec.to_builtins(origin),
                    "branches": msgspec.to_builtins(found),
                }
            )
        )
        return 0
    if origin is not None:
        say(f"Forked from {clean(origin.session_id)} at {clean(origin.event_id)}")
    for branch in worth_showing(found):
        say(branch_line(branch))
    left = [branch for branch in worth_showing(found) if not branch.is_active]
    if left:
        say(
            f"\nTo take a branch up again: rewake rewind {paths.session_id} --to {left[-1].leaf_id}"
        )
    return 0


def worth_showing(found: list[BranchInfo]) -> list[BranchInfo]:
    """The branches without those on which nothing was said: a rewind that another one followed."""
    return [branch for branch in found if branch.messages or branch.is_active]


def branch_line(branch: BranchInfo) -> str:
    """A branch for people, on two lines."""
    mark = "●" if branch.is_active else "○"
    since = f", left at {branch.forked_at}" if branch.forked_at is not None else ""
    words = clean(branch.last_text) or "(no message)"
    own = "message" if branch.messages == 1 else "messages"
    return f"{mark} {branch.leaf_id}  {branch.messages} {own}{since}\n    {words}"
