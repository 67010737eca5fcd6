"""The tree that parent ids draw over the lines of one file: its leaf, paths, branches and gaps.

The rule kept here: *an event hangs under an earlier line of its file*. Every link points backwards,
so no damage can make a cycle, and every walk ends. Where a line names a parent that isn't among
the earlier lines, the link is a `Gap`:

- It is bridged to the line that stood directly before the missing one, because that is the missing
  line's own parent (unless it was a rewind, which its bytes alone could tell). Ids rise in file
  order, so that line is the last one with a smaller id than the missing one. For an event whose
  predecessor was damaged this is the line before the damage; for a rewind whose target was damaged
  it is the line before the target, not the branch that was left.
- It is the line directly before the event where ids can't tell: when the missing id is no event id,
  is smaller than all earlier ids (it was never in this file), or isn't smaller than the event's own.
- The first line of a file has nothing to be bridged to.

A line that repeats an earlier id is that same event, read twice: it counts once, where it first
stood. A line without a parent id is a root: the first line, and a rewind to before everything.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from rewake.model.ids import is_event_id


class Gap(msgspec.Struct, frozen=True):
    """`event_id` names a parent that isn't among the earlier lines; `bridged_to` stands in for it."""

    event_id: str
    missing_parent_id: str
    bridged_to: str | None


class Branch(msgspec.Struct, frozen=True):
    """A branch that was left: its own events run from `first_id` to `leaf_id`, its newest.

    `forked_at` is the parent of `first_id`, from where another way was taken; None for a root.
    """

    first_id: str
    leaf_id: str
    forked_at: str | None


class Tree(msgspec.Struct, frozen=True):
    """The events of a file in their order, each with its parent as bridged; and the gaps."""

    parents: dict[str, str | None]
    gaps: tuple[Gap, ...]

    @property
    def leaf(self) -> str | None:
        """The last committed event of the file: the end of the active branch. None when empty."""
        return next(reversed(self.parents), None)


def build(links: Iterable[tuple[str, str | None]]) -> Tree:
    """The tree of `(event_id, parent_id)` pairs in file order."""
    parents: dict[str, str | None] = {}
    gaps: list[Gap] = []
    rising: list[str] = []  # the earlier ids that are larger than all before them
    previous: str | None = None
    for event_id, parent_id in links:
        if event_id in parents:
            continue
        if parent_id is not None and parent_id not in parents:
            bridge = _bridge(event_id, parent_id, rising, previous)
            gaps.append(Gap(event_id, parent_id, bridge))
            parent_id = bridge  # noqa: PLW2901  # from here on the bridge is the parent
        parents[event_id] = parent_id
        if not rising or event_id > rising[-1]:
            rising.append(event_id)
        previous = event_id
    return Tree(parents, tuple(gaps))


def _bridge(event_id: str, missing: str, rising: list[str], previous: str | None) -> str | None:
    if not is_event_id(missing) or missing >= event_id:
        return previous
    at = bisect_left(rising, missing)
    return rising[at - 1] if at else previous


def path(tree: Tree, event_id: str | None) -> list[str]:
    """The branch that ends in `event_id`, root first; empty for None.

    Raises KeyError when the event isn't in the tree.
    """
    found: list[str] = []
    while event_id is not None:
        parent = tree.parents[event_id]
        found.append(event_id)
        event_id = parent
    found.reverse()
    return found


def branches(tree: Tree) -> list[Branch]:
    """The branches that were left, in the order of their newest events."""
    children: dict[str | None, int] = {}
    for parent in tree.parents.values():
        children[parent] = children.get(parent, 0) + 1
    leaf = tree.leaf
    return [
        _branch(tree, event_id, children)
        for event_id in tree.parents
        if event_id not in children and event_id != leaf
    ]


def _branch(tree: Tree, leaf_id: str, children: dict[str | None, int]) -> Branch:
    first = leaf_id
    parent = tree.parents[first]
    # An event with one child belongs to one branch only, so all these walks together are O(n).
    while parent is not None and children[parent] == 1:
        first = parent
        parent = tree.parents[first]
    return Branch(first, leaf_id, parent)
