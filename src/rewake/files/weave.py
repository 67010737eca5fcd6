"""The changes of one path by calls that ran at the same time: what they came to, in whatever order.

Calls are on record in the order in which they ended; a sub-agent is, with all that it changed, when it
returns. So where calls overlapped, a later line may tell of an earlier change, and after a crash two of
them may tell of the same one.

The rule kept here: the changes of calls that overlap are taken as one chain if they are one in some
order, every change used once. A change may be left out only if the others account for it. Else somebody
else has been there, and the chain is broken (`mixed`); calls that did not overlap keep their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from rewake.model.events import FileState

# What may be left out is searched for, which is exponential: a crash leaves few changes twice.
_SEARCHED_MAX: Final = 12
_LEFT_OUT_MAX: Final = 3

_Content = tuple[str, str | None, str | None, str | None]


class Strand(NamedTuple):
    """One change of the path: when its call began and ended (event ids), and the two states."""

    began_id: str
    event_id: str
    before: FileState
    after: FileState
    doubtful: bool = False


class Woven(NamedTuple):
    """What the changes came to. `mixed`: they are no chain, somebody else was between them."""

    before: FileState
    after: FileState
    mixed: bool


def weave(strands: Sequence[Strand]) -> Woven:
    """Fold the changes of one path, given in the order of the file; there must be one at least."""
    inline = _in_order(strands)
    if not inline.mixed:
        return inline
    groups = _groups(strands)
    if len(groups) == len(strands):
        return inline
    first: FileState | None = None
    last: FileState | None = None
    for group in groups:
        ends = _ends(group, last)
        if ends is None or (last is not None and _content(ends[0]) != _content(last)):
            return inline
        first = ends[0] if first is None else first
        last = ends[1]
    if first is None or last is None:
        return inline
    return Woven(_with_mode(first, strands), last, mixed=False)


def _in_order(strands: Sequence[Strand]) -> Woven:
    first = strands[0]
    before, after, doubtful, mixed = first.before, first.after, first.doubtful, False
    for strand in strands[1:]:
        follows = _content(after) == _content(strand.before) or (
            doubtful and _content(before) == _content(strand.before)
        )
        mixed = mixed or not follows
        after, doubtful = strand.after, strand.doubtful
    return Woven(_with_mode(before, strands), after, mixed)


def _with_mode(before: FileState, strands: Iterable[Strand]) -> FileState:
    """The state with a mode learnt later: whoever doesn't record modes doesn't change them."""
    if before.kind != "file" or before.mode is not None:
        return before
    for strand in strands:
        if strand.before.kind == "file" and strand.before.mode is not None:
            return FileState("file", before.sha256, before.size, strand.before.mode)
    return before


def _groups(strands: Sequence[Strand]) -> list[list[Strand]]:
    """The changes in runs whose calls overlapped, directly or by way of others."""
    groups: list[list[Strand]] = []
    for strand in strands:
        group = [strand]
        while groups and strand.began_id < groups[-1][-1].event_id:
            group = groups.pop() + group
        groups.append(group)
    return groups


def _ends(group: list[Strand], entry: FileState | None) -> tuple[FileState, FileState] | None:
    """Where a chain of these changes begins and ends; None where they are none."""
    whole = _in_order(group)
    if not whole.mixed and (entry is None or _content(entry) == _content(whole.before)):
        return whole.before, whole.after
    most = min(_LEFT_OUT_MAX, len(group) - 1) if len(group) <= _SEARCHED_MAX else 0
    for count in range(most + 1):
        for left_out in combinations(range(len(group)), count):
            kept = [strand for at, strand in enumerate(group) if at not in left_out]
            if not all(_is_accounted_for(group[at], kept) for at in left_out):
                continue
            ends = _trail(kept, entry)
            if ends is not None:
                return ends
    return None


def _is_accounted_for(strand: Strand, kept: Sequence[Strand]) -> bool:
    """Whether other changes tell of this one, too."""
    if strand.doubtful:
        return True  # it may not have happened
    spans = [
        other
        for other in kept
        if other.began_id < strand.event_id < other.event_id
        if _content(other.before) == _content(strand.before)
        or _content(other.after) == _content(strand.after)
    ]
    return bool(spans) or _leads(kept, _content(strand.before), _content(strand.after))


def _leads(strands: Sequence[Strand], start: _Content, end: _Content) -> bool:
    reached = {start}
    for _ in strands:
        reached |= {_content(one.after) for one in strands if _content(one.before) in reached}
    return end in reached and start != end


def _trail(
    strands: Sequence[Strand], entry: FileState | None
) -> tuple[FileState, FileState] | None:
    """The ends of a chain that uses each change once: Euler's condition for a directed trail."""
    balance: Counter[_Content] = Counter()
    for strand in strands:
        balance[_content(strand.before)] += 1
        balance[_content(strand.after)] -= 1
    starts = [content for content, count in balance.items() if count > 0]
    ends = [content for content, count in balance.items() if count < 0]
    if sum(balance[content] for content in starts) > 1 or not _is_connected(strands):
        return None
    if starts:
        start, end = starts[0], ends[0]
    else:  # it comes back to where it began, which may be any of its states
        is_entered = entry is not None and _content(entry) in balance
        start = end = _content(entry if is_entered and entry else strands[0].before)
    before = next(one.before for one in strands if _content(one.before) == start)
    after = next(one.after for one in reversed(strands) if _content(one.after) == end)
    return before, after


def _is_connected(strands: Sequence[Strand]) -> bool:
    beside: dict[_Content, set[_Content]] = {}
    for strand in strands:
        before, after = _content(strand.before), _content(strand.after)
        beside.setdefault(before, set()).add(after)
        beside.setdefault(after, set()).add(before)
    reached: set[_Content] = set()
    waiting = [next(iter(beside))]
    while waiting:
        content = waiting.pop()
        if content not in reached:
            reached.add(content)
            waiting.extend(beside[content])
    return len(reached) == len(beside)


def _content(state: FileState) -> _Content:
    """What tells states apart: permissions don't."""
    return state.kind, state.sha256, state.target, state.target_base64
