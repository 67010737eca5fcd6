"""The tree of a file: leaf, paths, branches that were left, gaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.model.ids import join_id
from rewake.model.tree import Branch, Gap, Tree, branches, build, path

A, B, C, D, E, F = (str(join_id(1000, n)) for n in range(6))
Link = tuple[str, str | None]

IDS = [str(join_id(1000, n)) for n in range(7)]
ANY_LINKS = st.lists(
    st.tuples(st.sampled_from([*IDS, "odd"]), st.sampled_from([None, *IDS, "odd", ""])), max_size=12
)


@st.composite
def written(draw: st.DrawFn, size: int = 14) -> list[Link]:
    """What a writer writes: each line under the line before, or a rewind under any earlier one."""
    links: list[Link] = []
    for n in range(draw(st.integers(1, size))):
        earlier: list[str | None] = [None, *(link[0] for link in links)]
        rewind = draw(st.booleans())
        parent = draw(st.sampled_from(earlier)) if rewind else earlier[-1]
        links.append((str(join_id(1000, n)), parent))
    return links


# --- a file as it was written ----------------------------------------------------------------


def test_an_empty_file_has_no_leaf_and_no_path() -> None:
    tree = build([])
    assert tree == Tree({}, ())
    assert tree.leaf is None
    assert path(tree, tree.leaf) == []
    assert branches(tree) == []


def test_a_file_without_rewinds_is_one_branch() -> None:
    tree = build([(A, None), (B, A), (C, B)])
    assert path(tree, tree.leaf) == [A, B, C]
    assert branches(tree) == []
    assert tree.gaps == ()


def test_after_a_rewind_the_last_line_is_the_leaf_and_the_other_end_a_branch() -> None:
    tree = build([(A, None), (B, A), (C, B), (D, A), (E, D)])
    assert tree.leaf == E
    assert path(tree, E) == [A, D, E]
    assert path(tree, C) == [A, B, C]
    assert branches(tree) == [Branch(first_id=B, leaf_id=C, forked_at=A)]


def test_a_rewind_to_before_everything_is_a_root_of_its_own() -> None:
    tree = build([(A, None), (B, A), (C, None), (D, C)])
    assert path(tree, tree.leaf) == [C, D]
    assert branches(tree) == [Branch(first_id=A, leaf_id=B, forked_at=None)]


def test_a_rewind_to_the_newest_line_leaves_no_branch() -> None:
    tree = build([(A, None), (B, A), (C, B)])
    assert branches(tree) == []


def test_branches_of_branches_each_have_their_own_fork() -> None:
    tree = build([(A, None), (B, A), (C, B), (D, B), (E, A)])
    assert branches(tree) == [Branch(C, C, B), Branch(D, D, B)]
    assert path(tree, tree.leaf) == [A, E]


@given(written())
def test_a_written_file_has_no_gaps_and_keeps_its_parents(links: list[Link]) -> None:
    tree = build(links)
    assert tree.gaps == ()
    assert tree.parents == dict(links)
    assert tree.leaf == links[-1][0]


@given(written())
def test_paths_and_branches_agree_with_the_plain_definition(links: list[Link]) -> None:
    parents = dict(links)
    tree = build(links)
    for event_id in parents:
        expected = [event_id]
        while (above := parents[expected[0]]) is not None:
            expected.insert(0, above)
        assert path(tree, event_id) == expected
    ends = [event_id for event_id in parents if event_id not in parents.values()]
    assert [branch.leaf_id for branch in branches(tree)] == [e for e in ends if e != tree.leaf]
    for branch in branches(tree):
        way = path(tree, branch.leaf_id)
        own = way[way.index(branch.first_id) :]
        assert all(sum(parent == e for parent in parents.values()) == 1 for e in own[:-1])
        assert parents[branch.first_id] == branch.forked_at


# --- a damaged file --------------------------------------------------------------------------


def test_a_damaged_line_is_bridged_to_the_line_before_it() -> None:
    tree = build([(A, None), (B, A), (D, C), (E, D)])
    assert tree.gaps == (Gap(D, C, B),)
    assert path(tree, tree.leaf) == [A, B, D, E]
    assert branches(tree) == []


def test_damage_of_many_lines_is_one_gap() -> None:
    tree = build([(A, None), (E, D), (F, E)])
    assert tree.gaps == (Gap(E, D, A),)


def test_a_rewind_whose_target_is_damaged_hangs_before_the_target_not_on_the_branch_it_left() -> (
    None
):
    # A - B - C - D, then E went back to B, whose line can't be read.
    tree = build([(A, None), (C, B), (D, C), (E, B), (F, E)])
    assert tree.gaps == (Gap(C, B, A), Gap(E, B, A))
    assert path(tree, tree.leaf) == [A, E, F]
    assert branches(tree) == [Branch(C, D, A)]


def test_a_damaged_first_line_leaves_nothing_to_bridge_to() -> None:
    tree = build([(B, A), (C, B)])
    assert tree.gaps == (Gap(B, A, None),)
    assert path(tree, tree.leaf) == [B, C]


def test_a_rewind_to_a_damaged_first_line_is_bridged_to_the_line_before_itself() -> None:
    tree = build([(B, A), (C, B), (D, A)])
    assert tree.gaps == (Gap(B, A, None), Gap(D, A, C))


@pytest.mark.parametrize("missing", ["", "odd", "../x", F])
def test_where_ids_cannot_tell_the_line_before_is_the_bridge(missing: str) -> None:
    tree = build([(A, None), (B, A), (C, missing)])
    assert tree.gaps == (Gap(C, missing, B),)


def test_a_parent_that_comes_later_is_a_gap() -> None:
    tree = build([(A, None), (B, C), (C, B)])
    assert tree.gaps == (Gap(B, C, A),)
    assert path(tree, tree.leaf) == [A, B, C]


def test_an_event_that_is_its_own_parent_is_a_gap() -> None:
    tree = build([(A, None), (B, B)])
    assert path(tree, tree.leaf) == [A, B]


def test_a_line_that_repeats_an_id_is_the_same_event() -> None:
    tree = build([(A, None), (B, A), (C, B), (C, B), (B, C), (A, C)])
    assert tree.leaf == C
    assert path(tree, tree.leaf) == [A, B, C]


def test_a_file_appended_to_itself_has_the_same_tree() -> None:
    links: list[Link] = [(A, None), (B, A), (C, A)]
    assert build(links + links) == build(links)


@given(written(), st.data())
def test_losing_lines_keeps_every_other_event_on_its_branch(
    links: list[Link], draw: st.DataObject
) -> None:
    # Only lines that aren't rewinds: a lost rewind can't be told from any other lost line.
    plain = [n for n, (_, parent) in enumerate(links) if n and parent == links[n - 1][0]]
    lost = set(draw.draw(st.lists(st.sampled_from(plain), unique=True))) if plain else set()
    whole = build(links)
    tree = build([link for n, link in enumerate(links) if n not in lost])
    gone = {links[n][0] for n in lost}
    for event_id in tree.parents:
        expected = [e for e in path(whole, event_id) if e not in gone]
        assert path(tree, event_id) == expected


@given(ANY_LINKS)
def test_any_links_make_a_tree_whose_walks_end(links: list[Link]) -> None:
    tree = build(links)
    position = {event_id: n for n, event_id in enumerate(tree.parents)}
    assert set(position) == {event_id for event_id, _ in links}
    for event_id in tree.parents:
        way = [position[e] for e in path(tree, event_id)]
        assert way == sorted(set(way))
    left = branches(tree)
    ends = {branch.leaf_id for branch in left} | ({tree.leaf} - {None})
    assert ends == set(position) - {p for p in tree.parents.values() if p is not None}
    for gap in tree.gaps:
        assert tree.parents[gap.event_id] == gap.bridged_to


def test_the_path_to_an_unknown_event_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        path(build([(A, None)]), B)


def test_a_long_branch_needs_no_deep_stack() -> None:
    ids = [str(join_id(1000, n)) for n in range(100_000)]
    tree = build(zip(ids, [None, *ids], strict=False))
    assert path(tree, tree.leaf) == ids
    assert branches(build([*zip(ids, [None, *ids], strict=False), ("x", ids[0])])) == [
        Branch(ids[1], ids[-1], ids[0])
    ]
