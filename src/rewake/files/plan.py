"""What taking files back would do, path by path, without doing any of it.

The rules kept here: a path is touched only if it is as the agent left it; everything else is a
conflict with its reason, kept unless forced; and a content that isn't kept is never promised.
"""

# Paths are bytes here, because they may be no text.
# ruff: noqa: PTH120

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

import msgspec

from rewake.files.history import Folded
from rewake.files.names import change, is_below, same, same_content, text_of
from rewake.model.events import Change, FileState
from rewake.resume.chain import observe

Act = Literal["restore", "create", "delete", "unchanged", "conflict"]
Why = Literal[
    "",
    "changed",
    "mixed",
    "background",
    "other_session",
    "missing_content",
    "leads_elsewhere",
    "unreadable",
    "not_empty",
]

_WORDS: Final[dict[str, str]] = {
    "changed": "somebody else has changed it since",
    "mixed": "somebody else changed it between the agent's changes",
    "background": "it changed while a command ran in the background: by that, or by somebody else",
    "other_session": "another session has changed it since",
    "missing_content": "its earlier content is not in the store any more",
    "leads_elsewhere": "its directory is now a link or is gone to another place",
    "unreadable": "it can't be read",
    "not_empty": "the directory isn't empty",
}
_FORCEABLE: Final = frozenset({"changed", "mixed", "background", "other_session"})


class Step(msgspec.Struct, frozen=True):
    """One path: what is there now, what would be there, and what the agent had left.

    `why` gives the reason of a conflict, `session_id` who else changed the path, where that is known.
    """

    path: bytes
    act: Act
    actual: FileState
    wanted: FileState
    left: FileState
    why: Why = ""
    session_id: str = ""

    @property
    def shown(self) -> str:
        """The path for people."""
        return text_of(self.path)[0]

    @property
    def reason(self) -> str:
        """A conflict in words."""
        words = _WORDS.get(self.why, "")
        return f"{words} (session {self.session_id})" if self.session_id else words

    @property
    def is_forceable(self) -> bool:
        """Whether a conflict can be overruled: there is something to bring back."""
        return self.why in _FORCEABLE

    def change(self) -> Change:
        """From what is there now to what is wanted."""
        return change(self.path, self.actual, self.wanted)


class RewindPlan(msgspec.Struct, frozen=True):
    """Every path that was changed since the target, in the order of their names.

    `not_covered` says what may have changed besides without being in the history.
    """

    target_id: str
    steps: tuple[Step, ...]
    not_covered: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Step, ...]:
        """What would be changed."""
        return tuple(step for step in self.steps if step.act in {"restore", "create", "delete"})

    @property
    def conflicts(self) -> tuple[Step, ...]:
        """What would be left as it is."""
        return tuple(step for step in self.steps if step.act == "conflict")

    @property
    def is_possible(self) -> bool:
        """Whether everything can be brought back exactly."""
        return not self.conflicts and not self.not_covered


FindOthers = Callable[[Mapping[bytes, str]], Mapping[bytes, tuple[str, FileState]]]
"""Who else changed paths after an event (its id by path): session id and what it left."""


def make_plan(
    target_id: str,
    folded: Mapping[bytes, Folded],
    *,
    has_blob: Callable[[str], bool],
    others: FindOthers,
    only: Iterable[bytes] = (),
    force: bool = False,
    not_covered: tuple[str, ...] = (),
) -> RewindPlan:
    """The plan to bring each path to the state before its first change. Changes nothing.

    `only` limits it to these absolute paths and what is below them; `force` overrules conflicts that
    can be overruled.
    """
    wanted_paths = list(only)
    chosen = [
        one
        for path, one in sorted(folded.items())
        if not wanted_paths or any(is_below(path, limit) for limit in wanted_paths)
    ]
    coming = {one.path for one in chosen if one.before.kind == "directory"}
    real: dict[bytes, bool] = {}
    steps = [_step(one, has_blob, coming, real) for one in chosen]
    doubtful = {
        step.path: folded[step.path].first_id for step in steps if step.why in {"changed", "mixed"}
    }
    known = others(doubtful) if doubtful else {}
    steps = [_named(step, known) for step in steps]
    if force:
        steps = [_forced(step) for step in steps]
    steps = _without_place(steps)
    return RewindPlan(target_id, tuple(_directories(steps)), not_covered)


def _step(
    one: Folded, has_blob: Callable[[str], bool], coming: set[bytes], real: dict[bytes, bool]
) -> Step:
    try:
        actual = _actual(one.path, coming, real)
    except OSError:
        return Step(one.path, "conflict", FileState(), one.before, one.after, "unreadable")
    if actual is None:
        return Step(one.path, "conflict", FileState(), one.before, one.after, "leads_elsewhere")
    if same(actual, one.before):
        return Step(one.path, "unchanged", actual, one.before, one.after)
    why = _why(one, actual, has_blob)
    act = "conflict" if why else _act(actual, one.before)
    return Step(one.path, act, actual, one.before, one.after, why)


def _actual(path: bytes, coming: set[bytes], real: dict[bytes, bool]) -> FileState | None:
    """What is at a path; None where a link on the way leads elsewhere. Raises OSError.

    `real` remembers which directories are reached without a link. Nothing is there, for now, where the way leads through a link in whose place a directory comes
    back.
    """
    parent = os.path.dirname(path)
    if parent not in real:
        real[parent] = os.path.realpath(parent) == parent
    if real[parent]:
        return observe(path)
    link = parent
    while os.path.realpath(os.path.dirname(link)) != os.path.dirname(link):
        link = os.path.dirname(link)
    return FileState() if link in coming else None


def _why(one: Folded, actual: FileState, has_blob: Callable[[str], bool]) -> Why:
    """Why a path can't simply go back; empty where it can."""
    before = one.before
    if before.kind == "file" and (before.sha256 is None or not has_blob(before.sha256)):
        return "missing_content"
    if one.mixed:
        return "mixed"
    if one.background and same(actual, one.after):
        return "background"
    return "" if same(actual, one.after) else "changed"


def _without_place(steps: list[Step]) -> list[Step]:
    """Where a directory doesn't come back, what was in it can't either."""
    kept = [
        step.path
        for step in steps
        if step.act == "conflict"
        and step.wanted.kind == "directory"
        and step.actual.kind != "directory"
    ]
    if not kept:
        return steps
    return [
        msgspec.structs.replace(step, act="conflict", why="leads_elsewhere")
        if step.act == "create" and any(is_below(step.path, path) for path in kept)
        else step
        for step in steps
    ]


def _act(actual: FileState, wanted: FileState) -> Act:
    if wanted.kind == "absent":
        return "delete"
    return "create" if actual.kind == "absent" else "restore"


def _named(step: Step, known: Mapping[bytes, tuple[str, FileState]]) -> Step:
    found = known.get(step.path)
    if found is None or step.act != "conflict":
        return step
    session_id, left = found
    if step.why == "changed" and not same_content(left, step.actual):
        return step  # somebody changed it after that session, too
    return msgspec.structs.replace(step, why="other_session", session_id=session_id)


def _forced(step: Step) -> Step:
    if step.act != "conflict" or not step.is_forceable:
        return step
    return msgspec.structs.replace(step, act=_act(step.actual, step.wanted))


def _directories(steps: list[Step]) -> list[Step]:
    """Directories go only if nothing will be left in them; else they stay, which is no conflict.

    Where a file is to come back in the place of a directory, what is in it is a conflict.
    """
    going = {
        step.path
        for step in steps
        if step.act in {"delete", "restore"} and step.actual.kind != "directory"
        if step.wanted.kind == "absent"
    }
    planned: dict[bytes, Step] = {}
    for step in sorted(steps, key=lambda one: one.path, reverse=True):
        decided = step
        if step.actual.kind == "directory" and step.act in {"delete", "restore"}:
            if step.wanted.kind == "directory":
                pass  # only its permissions
            elif _will_be_empty(step.path, going):
                going.add(step.path)
            elif step.wanted.kind == "absent":
                decided = msgspec.structs.replace(step, act="unchanged", why="not_empty")
            else:
                decided = msgspec.structs.replace(step, act="conflict", why="not_empty")
        planned[step.path] = decided
    return [planned[path] for path in sorted(planned)]


def _will_be_empty(directory: bytes, going: set[bytes]) -> bool:
    try:
        names = os.listdir(directory)  # noqa: PTH208  # bytes
    except OSError:
        return False
    return all(directory + b"/" + name in going for name in names)
