"""The branches of a session as the page switches between them: stretches of rows, each under another.

The rules kept here: a stretch hangs under an earlier one, from a certain row on, so every path ends;
memory is one number an event and a pair a row, not the tree of all ids; and what `model/tree.py`
makes of a lost parent is what this makes of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import msgspec

from rewake.model.ids import is_event_id

NO_SEGMENT = -1


class Segment(msgspec.Struct):
    """Rows that follow one another. `parent` is the stretch it left, before whose row `cut` (exclusive)
    it goes on; `rows` counts its own messages, `end` is after its last row, `label` the beginning of its
    first words.

    `inherited`: it is of a session that this one was forked from.
    """

    parent: int
    cut: int
    inherited: bool
    rows: int = 0
    end: int = 0
    label: str = ""
    time_ms: int = 0
    first_id: str = ""
    last_id: str = ""


class Segments:
    """All of them in file order; `current` is the one of the newest event."""

    def __init__(self) -> None:
        self.all: list[Segment] = []
        self.current = NO_SEGMENT
        self._seen: set[int] = set()
        self._first_ids: list[str] = []
        self._first_numbers: list[int] = []
        self._row_ids: list[str] = []
        self._row_numbers: list[int] = []
        self._last_id = ""

    def place(self, event_id: str, parent_id: str | None, *, rows: int, inherited: bool) -> bool:
        """Take an event up; `rows` are those there are so far. False if it was there before."""
        key = hash(event_id)
        if key in self._seen:
            return False
        self._seen.add(key)
        if parent_id != self._last_id or not self.all:
            self._maybe_branch(event_id, parent_id, rows, inherited=inherited)
        elif inherited != self.all[self.current].inherited:
            self._begin(event_id, self.current, rows, inherited=inherited)
        self._last_id = event_id
        self.all[self.current].last_id = event_id
        return True

    def _maybe_branch(
        self, event_id: str, parent_id: str | None, rows: int, *, inherited: bool
    ) -> None:
        if not self.all or (parent_id is None and self._last_id):
            self._begin(event_id, NO_SEGMENT, 0, inherited=inherited)
            return
        goes_on = parent_id is None or not is_event_id(parent_id) or parent_id >= event_id
        if goes_on or parent_id is None or parent_id > self._last_id:
            if inherited != self.all[self.current].inherited:
                self._begin(event_id, self.current, rows, inherited=inherited)
            return
        at = bisect_right(self._first_ids, parent_id) - 1
        if at < 0:
            return
        cut_at = bisect_right(self._row_ids, parent_id)
        cut = self._row_numbers[cut_at] if cut_at < len(self._row_numbers) else rows
        self._begin(event_id, self._first_numbers[at], cut, inherited=inherited)

    def _begin(self, event_id: str, parent: int, cut: int, *, inherited: bool) -> None:
        self.current = len(self.all)
        self.all.append(Segment(parent, cut, inherited, first_id=event_id))
        if not self._first_ids or event_id > self._first_ids[-1]:
            self._first_ids.append(event_id)
            self._first_numbers.append(self.current)

    def has_row(self, event_id: str, row: int) -> None:
        """An event made a row."""
        self.all[self.current].end = row + 1
        if not self._row_ids or event_id > self._row_ids[-1]:
            self._row_ids.append(event_id)
            self._row_numbers.append(row)

    def row_of(self, event_id: str) -> int | None:
        """The first row of an event; None where it has none."""
        at = bisect_left(self._row_ids, event_id)
        found = at < len(self._row_ids) and self._row_ids[at] == event_id
        return self._row_numbers[at] if found else None

    def said(self, label: str, time_ms: int) -> None:
        """A message of the current one."""
        segment = self.all[self.current]
        segment.rows += 1
        segment.time_ms = time_ms
        segment.label = segment.label or label

    def listed(self) -> list[list[object]]:
        """Each as the page takes it."""
        return [
            [item.parent, item.cut, item.rows, item.label, item.time_ms, item.inherited, item.end]
            for item in self.all
        ]
