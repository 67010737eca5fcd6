from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.tools.bench import Bench

from rewake.agent.ports import ToolInputError
from rewake.agent.tools.diff import line_counts, unified_diff
from rewake.agent.tools.edit import EditTool
from rewake.agent.tools.read import ReadTool
from rewake.agent.tools.replace import Edit, replace
from rewake.agent.tools.text import decode
from rewake.model.content import plain_text
from rewake.model.events import FileChangeIntent

EDIT, READ = EditTool(), ReadTool()


def edit(bench: Bench, name: str, old: str, new: str, **more: object) -> bytes:
    """The file's bytes after it was read and edited."""
    bench.call(READ, file_path=name)
    output = bench.call(EDIT, file_path=name, old_string=old, new_string=new, **more)
    assert not output.is_error, output
    return (bench.project / name).read_bytes()


def refused(bench: Bench, name: str, *edits: tuple[str, str]) -> str:
    before = (bench.project / name).read_bytes()
    bench.call(READ, file_path=name)
    pairs = [{"old_string": old, "new_string": new} for old, new in edits]
    message = bench.refusal(EDIT, file_path=name, edits=pairs)
    assert (bench.project / name).read_bytes() == before
    return message


# --- exact bytes -----------------------------------------------------------------------------


def test_several_edits_are_matched_against_the_original_and_written_at_once(bench: Bench) -> None:
    path = bench.write("a.txt", "one two three\n")
    bench.call(READ, file_path="a.txt")
    pairs = [
        {"old_string": "three", "new_string": "one"},
        {"old_string": "one", "new_string": "three"},
    ]
    bench.call(EDIT, file_path="a.txt", edits=pairs)
    assert path.read_bytes() == b"three two one\n"


def test_what_is_asked_for_is_an_order_and_what_was_done_is_told_as_past(bench: Bench) -> None:
    bench.write("a.txt", "one\n")
    bench.call(READ, file_path="a.txt")
    prepared = bench.prepare(EDIT, file_path="a.txt", old_string="one", new_string="two")
    assert prepared.summary == "Edit a.txt: 1 replacement (+1 -1 lines)"
    told = plain_text(bench.run(EDIT, prepared).content)
    assert told == "Edited a.txt: 1 replacement (+1 -1 lines)."


def test_a_crlf_file_is_matched_with_plain_newlines_and_stays_crlf(bench: Bench) -> None:
    bench.write("a.txt", b"one\r\ntwo\r\nthree\r\n")
    after = edit(bench, "a.txt", "one\ntwo\n", "one\nTWO\nmore\n")
    assert after == b"one\r\nTWO\r\nmore\r\nthree\r\n"


def test_mixed_line_endings_stay_where_they_were(bench: Bench) -> None:
    bench.write("a.txt", b"one\r\ntwo\nthree\r\nfour\r\n")
    assert (
        edit(bench, "a.txt", "one\ntwo\nthree", "one\n2\nthree") == b"one\r\n2\nthree\r\nfour\r\n"
    )


def test_a_byte_order_mark_stays(bench: Bench) -> None:
    bench.write("a.txt", b"\xef\xbb\xbfone\n")
    assert edit(bench, "a.txt", "one", "two") == b"\xef\xbb\xbftwo\n"


def test_a_cp1252_file_is_not_encoded_anew(bench: Bench) -> None:
    bench.write("a.txt", b"caf\xe9 \x93quoted\x94\nprice\n")
    assert edit(bench, "a.txt", "price", "pri\u20ac") == b"caf\xe9 \x93quoted\x94\npri\x80\n"


def test_a_character_that_the_encoding_lacks_is_refused(bench: Bench) -> None:
    bench.write("a.txt", b"caf\xe9\n")
    assert "cp1252" in refused(bench, "a.txt", ("caf", "\u2192"))


def test_utf16_with_a_mark_is_edited_as_text(bench: Bench) -> None:
    bench.write("a.txt", "\ufeffone \U0001f600 two\r\n".encode("utf-16-le"))
    assert edit(bench, "a.txt", "two", "2") == "\ufeffone \U0001f600 2\r\n".encode("utf-16-le")


def test_permissions_stay(bench: Bench) -> None:
    path = bench.write("run.sh", "one\n")
    path.chmod(0o754)
    edit(bench, "run.sh", "one", "two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o754


def test_a_symlink_is_followed_and_stays_one(bench: Bench) -> None:
    path = bench.write("real.txt", "one\n")
    link = bench.project / "link.txt"
    link.symlink_to("real.txt")
    assert edit(bench, "link.txt", "one", "two") == b"two\n"
    assert link.is_symlink()
    assert path.read_bytes() == b"two\n"


def test_all_names_of_a_hard_linked_file_see_the_edit(bench: Bench) -> None:
    path = bench.write("a.txt", "a longer line\n")
    other = bench.project / "b.txt"
    os.link(path, other)
    assert edit(bench, "a.txt", "a longer line", "short") == b"short\n"
    assert other.read_bytes() == b"short\n"
    assert path.stat().st_ino == other.stat().st_ino


def test_no_temporary_file_is_left(bench: Bench) -> None:
    bench.write("a.txt", "one\n")
    edit(bench, "a.txt", "one", "two")
    assert [path.name for path in bench.project.iterdir()] == ["a.txt"]


LINES = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=6),
        st.sampled_from(["\n", "\r\n"]),
    ),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(
    before=LINES,
    after=LINES,
    old=st.text("xyz\n", min_size=1, max_size=5),
    new=st.text("abc\n", max_size=5),
    bom=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_only_the_replaced_bytes_differ(
    before: list[tuple[str, str]], after: list[tuple[str, str]], old: str, new: str, bom: bytes
) -> None:
    assume(old != new)
    head, tail = ("".join(line + end for line, end in part).encode() for part in (before, after))
    marker = f"\u2603{old}\u2603"
    crlf = (head + tail).count(b"\r\n") > (head + tail).count(b"\n") / 2
    data = bom + head + marker.encode() + tail
    decoded = decode(data)
    assert decoded is not None
    assume(decoded.text.count("\u2603") == 2)
    edited, count = replace(decoded, [Edit(marker, f"\u2603{new}\u2603")])
    assert count == 1
    assert edited.startswith(bom + head)
    assert edited.endswith(tail)
    middle = edited[len(bom + head) : len(edited) - len(tail)]
    assert middle.replace(b"\r\n", b"\n") == f"\u2603{new}\u2603".encode()
    if "\n" in new and "\n" not in old:
        assert (b"\r\n" in middle) == crlf


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_decoding_and_encoding_again_is_the_identity(data: bytes) -> None:
    decoded = decode(data)
    if decoded is not None:
        assert decoded.bom + decoded.encode(decoded.text) == data


# --- what is refused -------------------------------------------------------------------------


def test_text_that_is_not_there_is_refused_with_the_most_similar_lines(bench: Bench) -> None:
    bench.write("a.py", "def total(a, b):\n    return a + b\n")
    assert "def total(a, b):" in refused(bench, "a.py", ("def totel(a, b):", "x"))


def test_a_difference_in_white_space_is_named(bench: Bench) -> None:
    bench.write("a.py", "if x:\n\treturn  1\n")
    assert "white space" in refused(bench, "a.py", ("    return 1", "    return 2"))


def test_line_numbers_in_the_old_text_are_named(bench: Bench) -> None:
    bench.write("a.py", "one\n")
    assert "line numbers" in refused(bench, "a.py", ("     1\tone", "two"))


def test_text_that_occurs_twice_is_refused_with_the_count(bench: Bench) -> None:
    bench.write("a.txt", "x\ny\nx\n")
    assert "2 times (lines 1, 3)" in refused(bench, "a.txt", ("x", "z"))


def test_occurrences_that_overlap_each_other_are_not_unique(bench: Bench) -> None:
    bench.write("a.txt", "aaa")
    assert "2 times" in refused(bench, "a.txt", ("aa", "b"))


def test_replace_all_replaces_every_occurrence(bench: Bench) -> None:
    bench.write("a.txt", "x y x\n")
    assert edit(bench, "a.txt", "x", "z", replace_all=True) == b"z y z\n"


def test_overlapping_edits_are_refused(bench: Bench) -> None:
    bench.write("a.txt", "one two three\n")
    assert "overlap" in refused(bench, "a.txt", ("one two", "1"), ("two three", "2"))


def test_one_bad_edit_keeps_all_from_being_applied(bench: Bench) -> None:
    bench.write("a.txt", "one two\n")
    assert "Edit 2" in refused(bench, "a.txt", ("one", "1"), ("nine", "9"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "missing required field"),
        ({"file_path": 7}, "Expected `str`"),
        ({"file_path": "a.txt"}, "at least one edit"),
        ({"file_path": "a.txt", "old_string": "x"}, "both"),
        ({"file_path": "a.txt", "old_string": "", "new_string": "x"}, "empty"),
        ({"file_path": "a.txt", "old_string": "x", "new_string": "x"}, "same"),
        ({"file_path": "a.txt", "text": "x"}, "unknown field `text`"),
        ({"file_path": "b.txt", "old_string": "x", "new_string": "y"}, "Did you mean a.txt?"),
        ({"file_path": "", "old_string": "x", "new_string": "y"}, "empty"),
    ],
)
def test_arguments_that_make_no_edit_are_refused_with_advice(
    bench: Bench, arguments: dict[str, object], told: str
) -> None:
    bench.write("a.txt", "x\n")
    bench.call(READ, file_path="a.txt")
    assert told in bench.refusal(EDIT, **arguments)


# --- the lock --------------------------------------------------------------------------------


def test_a_file_that_was_not_read_is_not_edited(bench: Bench) -> None:
    bench.write("a.txt", "one\n")
    message = bench.refusal(EDIT, file_path="a.txt", old_string="one", new_string="two")
    assert "Read it first" in message


def test_a_file_that_changed_since_it_was_read_is_not_edited(bench: Bench) -> None:
    path = bench.write("a.txt", "one\n")
    bench.call(READ, file_path="a.txt")
    path.write_text("one and more\n")
    message = bench.refusal(EDIT, file_path="a.txt", old_string="one", new_string="two")
    assert "Read it again" in message


@pytest.mark.parametrize("mtime", [0, 2_000_000_000])
def test_a_touched_file_with_the_same_content_is_unchanged(bench: Bench, mtime: int) -> None:
    path = bench.write("a.txt", "one\n")
    bench.call(READ, file_path="a.txt")
    os.utime(path, (mtime, mtime))
    bench.call(EDIT, file_path="a.txt", old_string="one", new_string="two")
    assert path.read_text() == "two\n"


@pytest.mark.parametrize("alias", ["./a.txt", "d/../a.txt", "link.txt", "absolute"])
def test_a_file_read_by_another_name_counts_as_read(bench: Bench, alias: str) -> None:
    path = bench.write("a.txt", "one\n")
    bench.write("d/x", "")
    (bench.project / "link.txt").symlink_to(path)
    bench.call(READ, file_path=str(path) if alias == "absolute" else alias)
    bench.call(EDIT, file_path="a.txt", old_string="one", new_string="two")
    assert path.read_text() == "two\n"


def test_an_edit_after_an_edit_needs_no_new_read(bench: Bench) -> None:
    bench.write("a.txt", "one\n")
    edit(bench, "a.txt", "one", "two")
    bench.call(EDIT, file_path="a.txt", old_string="two", new_string="three")
    assert (bench.project / "a.txt").read_text() == "three\n"


def test_a_change_between_asking_and_writing_is_noticed(bench: Bench) -> None:
    path = bench.write("a.txt", "one\n")
    bench.call(READ, file_path="a.txt")
    prepared = bench.prepare(EDIT, file_path="a.txt", old_string="one", new_string="two")
    path.write_text("somebody else's\n")
    output = bench.run(EDIT, prepared)
    assert output.is_error
    assert path.read_text() == "somebody else's\n"
    assert output.outcome.changes == ()


def test_a_path_that_became_a_symlink_meanwhile_is_not_followed(bench: Bench) -> None:
    path = bench.write("a.txt", "one\n")
    outside = bench.project.parent / "outside.txt"
    outside.write_text("one\n")
    bench.call(READ, file_path="a.txt")
    prepared = bench.prepare(EDIT, file_path="a.txt", old_string="one", new_string="two")
    path.unlink()
    path.symlink_to(outside)
    assert bench.run(EDIT, prepared).is_error
    assert outside.read_text() == "one\n"


# --- the intent ------------------------------------------------------------------------------


def test_the_intent_names_both_contents_and_both_are_kept(bench: Bench) -> None:
    path = bench.write("a.txt", "one\n")
    bench.call(READ, file_path="a.txt")
    prepared = bench.prepare(EDIT, file_path="a.txt", old_string="one", new_string="two")
    assert isinstance(prepared.intent, FileChangeIntent)
    (change,) = prepared.intent.changes
    assert change.path == str(path)
    assert change.before.sha256 is not None
    assert change.after.sha256 is not None
    assert bench.blobs.get(change.before.sha256) == b"one\n"
    assert bench.blobs.get(change.after.sha256) == b"two\n"
    assert path.read_text() == "one\n"


def test_the_preview_is_a_diff(bench: Bench) -> None:
    bench.write("a.txt", "one\ntwo\nthree\n")
    bench.call(READ, file_path="a.txt")
    prepared = bench.prepare(EDIT, file_path="a.txt", old_string="two", new_string="2")
    assert "-two\n+2" in prepared.preview
    assert prepared.subject == "a.txt"


@pytest.mark.parametrize(
    ("before", "after", "hunk", "counts"),
    [
        (None, b"x\n", "@@ -0,0 +1,1 @@\n+x", (1, 0)),
        (None, b"x", "@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file", (1, 0)),
        (b"x", b"x\n", "@@ -1,1 +1,1 @@\n-x\n\\ No newline at end of file\n+x", (1, 1)),
        (b"x\n", b"", "@@ -1,1 +0,0 @@\n-x", (0, 1)),
    ],
)
def test_a_diff_counts_as_git_does(
    before: bytes | None, after: bytes, hunk: str, counts: tuple[int, int]
) -> None:
    assert unified_diff("a", before, after).split("\n", 2)[2] == hunk
    assert line_counts(before or b"", after) == counts


# --- where a file may be ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "escape", ["../outside.txt", "/etc/passwd", "out.txt", "d/out.txt", "a.txt/../../outside.txt"]
)
def test_what_lies_outside_of_the_project_is_refused(bench: Bench, escape: str) -> None:
    outside = bench.project.parent / "outside.txt"
    outside.write_text("one\n")
    bench.write("a.txt", "one\n")
    (bench.project / "out.txt").symlink_to(outside)
    (bench.project / "d").symlink_to(bench.project.parent)
    (bench.project.parent / "out.txt").write_text("one\n")
    message = bench.refusal(EDIT, file_path=escape, old_string="one", new_string="two")
    assert "outside" in message


def test_a_project_whose_name_is_a_prefix_of_another_does_not_open_that_one(bench: Bench) -> None:
    sibling = Path(f"{bench.project}-other")
    sibling.mkdir()
    (sibling / "a.txt").write_text("one\n")
    assert "outside" in bench.refusal(
        EDIT, file_path=str(sibling / "a.txt"), old_string="one", new_string="two"
    )


def test_a_path_with_a_nul_is_refused(bench: Bench) -> None:
    assert "NUL" in bench.refusal(EDIT, file_path="a\0b", old_string="x", new_string="y")


def test_a_pipe_is_no_file_to_edit() -> None:
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory).resolve())
        os.mkfifo(bench.project / "pipe")
        with pytest.raises(ToolInputError, match="pipe"):
            bench.prepare(EDIT, file_path="pipe", old_string="x", new_string="y")
