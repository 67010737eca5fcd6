"""What changed in files, turn by turn: a prompt and everything that was done until the next one.

The rules kept here: the order of the file counts, whatever became of a branch (going back in a
conversation takes no change back); and a difference that a call shows already is not made twice.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rewake.files.names import same
from rewake.model.events import Change, FileState
from rewake.report.chunks import Store
from rewake.report.contents import Contents

_TURNS_MAX: Final = 1_000
_FILES_MAX: Final = 10_000


class _Path(msgspec.Struct):
    """A path in the turn; `shown` is the difference of its newest change, as the call's row has it."""

    path: str
    before: FileState
    after: FileState
    shown: dict[str, Any]
    row: int
    number: int
    changes: int = 1


class Turns:
    """All turns; `store` holds the differences of those that are over."""

    def __init__(self, contents: Contents) -> None:
        self.store = Store()
        self._contents = contents
        self._turns: list[dict[str, Any]] = []
        self._turn: dict[str, Any] = {"row": -1, "label": "", "time": 0}
        self._paths: dict[str, _Path] = {}
        self._files = 0
        self._left_out = 0

    def begin(self, row: int, label: str, time_ms: int) -> None:
        """A prompt."""
        self._close()
        self._turn = {"row": row, "label": label, "time": time_ms}

    def changed(self, change: Change, shown: dict[str, Any], row: int, number: int) -> None:
        """A change that row `row` shows as its difference `number`."""
        known = self._paths.get(change.path)
        if known is None:
            path = _Path(change.path, change.before, change.after, shown, row, number)
            self._paths[change.path] = path
            return
        known.after = change.after
        known.shown, known.row, known.number = shown, row, number
        known.changes += 1

    def _close(self) -> None:
        files = [self._file(path, is_over=True) for path in self._net()]
        if files:
            self._turns.append({**self._turn, "files": files})
            self._files += len(files)
        while len(self._turns) > _TURNS_MAX or (self._files > _FILES_MAX and len(self._turns) > 1):
            self._files -= len(self._turns.pop(0)["files"])
            self._left_out += 1
        self._paths = {}

    def _net(self) -> list[_Path]:
        """Those that aren't at the end what they were at the beginning."""
        return [path for path in self._paths.values() if not same(path.before, path.after)]

    def _file(self, path: _Path, *, is_over: bool) -> dict[str, Any]:
        shown = path.shown
        place: dict[str, Any] = {"of": [path.row, path.number]}
        if path.changes > 1:
            shown = self._contents.difference(path.path, path.before, path.after)
            if is_over:
                item = self.store.add(0, 0, 0, 0)
                self.store.put(item, shown, len(shown.get("lines", ())))
                place = {"item": item}
            else:
                place = {"diff": shown}
        told = {key: value for key, value in shown.items() if key not in {"lines", "leftOut"}}
        return {**told, **place}

    def listed(self) -> dict[str, Any]:
        """For the page: the turns with changes, oldest first, and how many older ones are left out."""
        current = [self._file(path, is_over=False) for path in self._net()]
        turns = [*self._turns, {**self._turn, "files": current}] if current else self._turns
        return {"turns": turns, "leftOut": self._left_out}

    def finish(self) -> None:
        """Nothing follows: the last turn is over, too."""
        self._close()
        self.store.finish()
