from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.bench import Bench

from rewake.agent.tools.glob import GlobTool
from rewake.agent.tools.grep import GrepTool
from rewake.agent.tools.grep_worker import LINE_BOUND
from rewake.agent.tools.walk import Walk, name_pattern

GLOB, GREP = GlobTool(), GrepTool()


@pytest.fixture
def tree(bench: Bench) -> Bench:
    """A small repository with files that Git ignores and files that it doesn't."""
    (bench.project / ".git/info").mkdir(parents=True)
    (bench.project / ".git/config").write_text("needle")
    (bench.project / ".git/info/exclude").write_text("excluded.txt\n")
    bench.write(".gitignore", "*.log\nbuild/\n!keep.log\n# comment\n/top.txt\n")
    bench.write("sub/.gitignore", "!special.log\nlocal.txt\n")
    for name in (
        *("a.py", "b.ts", "x.log", "keep.log", "top.txt", "excluded.txt", ".hidden/c.py"),
        *("build/a.py", "sub/build/b.py", "sub/special.log", "sub/local.txt", "sub/top.txt"),
    ):
        bench.write(name, "needle\n")
    return bench


def found(bench: Bench, **arguments: object) -> list[str]:
    return bench.text(GREP, **arguments).splitlines()


# --- which files -----------------------------------------------------------------------------


VISIBLE = [".hidden/c.py", "a.py", "b.ts", "keep.log", "sub/special.log", "sub/top.txt"]


def test_what_git_ignores_is_left_out(tree: Bench) -> None:
    assert found(tree, pattern="needle") == VISIBLE


def test_ignore_files_above_the_searched_directory_count(tree: Bench) -> None:
    assert found(tree, pattern="needle", path="sub") == ["sub/special.log", "sub/top.txt"]


def test_a_file_named_outright_is_searched_although_it_is_ignored(tree: Bench) -> None:
    assert found(tree, pattern="needle", path="x.log") == ["x.log"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_agrees_on_what_is_ignored(tree: Bench) -> None:
    shutil.rmtree(tree.project / ".git")
    subprocess.run(["git", "init", "-q", str(tree.project)], check=True)
    (tree.project / ".git/info/exclude").write_text("excluded.txt\n")
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=tree.project, capture_output=True, text=True, check=True)
    walk = Walk(tree.project, time.monotonic() + 60)
    walked = [os.path.relpath(path, tree.project) for path in walk.files()]
    assert sorted(walked) == sorted(listed.stdout.splitlines())


def test_a_bad_line_in_an_ignore_file_costs_that_line(tree: Bench) -> None:
    tree.write(".gitignore", b"[z-a]\n!\n\xff\n*.ts\n")
    assert "b.ts" not in found(tree, pattern="needle")


def test_links_are_not_followed(tree: Bench) -> None:
    outside = tree.project.parent / "outside"
    outside.mkdir()
    (outside / "o.py").write_text("needle\n")
    (tree.project / "link").symlink_to(outside)
    (tree.project / "file").symlink_to(outside / "o.py")
    (tree.project / "sub/loop").symlink_to(tree.project)
    assert found(tree, pattern="needle") == VISIBLE


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("*.py", [".hidden/c.py", "a.py"]),
        ("**/*.py", [".hidden/c.py", "a.py"]),
        ("./*.py", ["a.py"]),
        ("sub/**", ["sub/.gitignore", "sub/special.log", "sub/top.txt"]),
        ("*.{ts,py}", [".hidden/c.py", "a.py", "b.ts"]),
        ("[ab].??", ["a.py", "b.ts"]),
        ("[!a].*", [".hidden/c.py", "b.ts"]),
        ("*.rs", ["No file matches."]),
    ],
)
def test_glob_patterns(tree: Bench, pattern: str, files: list[str]) -> None:
    assert tree.text(GLOB, pattern=pattern).splitlines() == files


def test_an_absolute_glob_pattern_inside_is_understood(tree: Bench) -> None:
    assert tree.text(GLOB, pattern=f"{tree.project}/*.py") == "a.py"
    assert "not below" in tree.refusal(GLOB, pattern="/etc/*")


@given(st.text("ab*?[]{},!/.\\^-", max_size=12))
def test_any_text_is_a_name_pattern_or_a_plain_error(pattern: str) -> None:
    with contextlib.suppress(ValueError):
        name_pattern(pattern).match("a/b.a")


def test_many_files_are_bounded(bench: Bench) -> None:
    for number in range(600):
        bench.write(f"{number:03}.txt", "x")
    lines = bench.text(GLOB, pattern="*.txt").splitlines()
    assert len(lines) == 501
    assert "only the first 500" in lines[-1]


# --- what is found ---------------------------------------------------------------------------


def test_content_has_line_numbers_and_context(bench: Bench) -> None:
    bench.write("a.txt", "1\n2\nhit\n4\n5\n6\n7\nhit\n")
    assert found(bench, pattern="hit", output_mode="content", context=1) == [
        *("a.txt-2-2", "a.txt:3:hit", "a.txt-4-4", "--", "a.txt-7-7", "a.txt:8:hit"),
    ]


def test_the_flags_of_grep_are_understood(bench: Bench) -> None:
    bench.write("a.txt", "1\nHIT\n3\n")
    flags = {"-i": True, "-A": 1, "-n": True}
    assert found(bench, pattern="hit", output_mode="content", **flags) == [
        "a.txt:2:HIT",
        "a.txt-3-3",
    ]


def test_counts(bench: Bench) -> None:
    bench.write("a.txt", "x\nx\n")
    assert found(bench, pattern="x", output_mode="count") == ["a.txt:2"]


def test_a_match_across_lines(bench: Bench) -> None:
    bench.write("a.txt", "start\nmiddle\nend\nother\n")
    lines = found(bench, pattern="start.*end", multiline=True, output_mode="content")
    assert lines == ["a.txt:1:start", "a.txt:2:middle", "a.txt:3:end"]


def test_anchors_fit_lines_of_crlf_files(bench: Bench) -> None:
    bench.write("a.txt", b"one\r\ntwo\r\n")
    assert found(bench, pattern="^one$", output_mode="content") == ["a.txt:1:one"]


def test_other_encodings_are_searched_and_binary_is_not(bench: Bench) -> None:
    bench.write("latin.txt", b"caf\xe9\n")
    bench.write("wide.txt", "caf\u00e9\n".encode("utf-16"))
    bench.write("binary", b"caf\xc3\xa9\0")
    assert found(bench, pattern="caf\u00e9") == ["latin.txt", "wide.txt"]


def test_a_limit_is_kept_and_said(bench: Bench) -> None:
    bench.write("a.txt", "x\n" * 50)
    lines = found(bench, pattern="x", output_mode="content", head_limit=3)
    assert len(lines) == 4
    assert "only the first 3" in lines[-1]


def test_long_output_is_bounded(bench: Bench) -> None:
    bench.write("a.txt", ("x" * 5_000 + "\n") * 1_000)
    text = bench.text(GREP, pattern="x", output_mode="content", head_limit=2_000)
    assert len(text) < 60_000
    assert "narrow" in text


def test_nothing_found_is_said(bench: Bench) -> None:
    bench.write("a.txt", "x")
    assert found(bench, pattern="y") == ["No match was found."]


@pytest.mark.parametrize("pattern", ["(", "[", "*", "a{2,1}", "(?P<x", "", "\\"])
def test_an_invalid_expression_is_refused_with_advice(bench: Bench, pattern: str) -> None:
    message = bench.refusal(GREP, pattern=pattern)
    assert "regular expression" in message or "empty" in message


def test_an_expression_that_backtracks_without_end_is_stopped(bench: Bench) -> None:
    bench.write("a.txt", "hit\n")
    bench.write("b.txt", "a" * 60 + "!\n")
    begun = time.monotonic()
    text = bench.text(GrepTool(seconds_max=0.5), pattern="hit|^(a+)+$")
    assert time.monotonic() - begun < 20
    assert text.startswith("a.txt\n")
    assert "time limit" in text


def test_a_missing_place_is_an_error(bench: Bench) -> None:
    assert bench.call(GREP, pattern="x", path="nowhere").is_error
    assert bench.call(GLOB, pattern="x", path="nowhere").is_error
    assert "outside" in bench.refusal(GREP, pattern="x", path="/etc")


PIECES = [
    "a",
    "b",
    " ",
    r"\s",
    r"\b",
    "^",
    "$",
    ".",
    "[^a]",
    "a*",
    r"\s+",
    "|",
    r"\A",
    r"\Z",
    "(?!b)",
    "a++",
]


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join),
    st.lists(st.text("ab ", max_size=4), max_size=5),
)
def test_the_quick_look_at_a_file_never_misses_a_line(pattern: str, lines: list[str]) -> None:
    try:
        by_line, whole = re.compile(pattern), re.compile(pattern, re.MULTILINE)
    except re.error:
        return
    if LINE_BOUND.search(pattern) is None and whole.search("\n".join(lines)) is None:
        assert not any(by_line.search(line) for line in lines)


def test_a_file_whose_name_is_no_utf8_is_found(bench: Bench) -> None:
    (bench.project / os.fsdecode(b"caf\xe9.txt")).write_text("needle\n")
    assert found(bench, pattern="needle") == ["caf\ufffd.txt"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(["needle", "hay", "", "Needle needle"]), max_size=12))
def test_grep_finds_what_a_plain_loop_finds(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory).resolve())
        bench.write("a.txt", "".join(f"{line}\n" for line in lines))
        expected = [f"a.txt:{n}:{line}" for n, line in enumerate(lines, 1) if "needle" in line]
        seen = found(bench, pattern="needle", output_mode="content")
    assert seen == (expected or ["No match was found."])


@pytest.mark.parametrize(
    "pattern", ["*a" * 30 + "b", "**/a" * 15 + "/b", "**a*a" * 15 + "b", "[a-z]*" * 20 + "/b"]
)
def test_a_pattern_of_many_stars_comes_to_an_end(pattern: str) -> None:
    """A rule that forbids counts from a clone, unasked; this one kept the agent busy for years."""
    assert name_pattern(pattern).match("a/" * 500 + "a" * 500) is None


def test_a_thousand_directories_in_one_another_are_searched(tmp_path: Path) -> None:
    deep = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("a", dir_fd=deep)  # no path could name it from the root
        below = os.open("a", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(os.open("end.txt", os.O_CREAT | os.O_WRONLY, dir_fd=deep))
    os.close(deep)
    try:
        (found,) = Walk(tmp_path, math.inf).files()
        assert found.endswith("/a/a/end.txt")
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "a")], check=True)


def test_an_ignore_file_of_many_stars_keeps_no_search_busy(bench: Bench) -> None:
    bench.write(".git/HEAD", "")
    bench.write(".gitignore", "*a" * 20 + "b\n*.o\n")
    bench.write("a" * 200, "x")
    bench.write("b.o", "x")
    assert bench.text(GLOB, pattern="*").splitlines() == [".gitignore", "a" * 200]


STARRED = st.sampled_from(["a", "b", "*", "**", "**/", "/", "?", "[ab]"])
WALKED = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


def fits(pattern: str, path: str, at: int = 0) -> bool:
    """What a pattern means, said as plainly as it can be."""
    if at == len(pattern):
        return not path
    if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
        if fits(pattern, path, at + 3) and (at + 3 < len(pattern) or not path):
            return True
        here, slash, below = path.partition("/")
        return bool(here and slash) and fits(pattern, below, at)
    if pattern.startswith("**", at):
        return any(fits(pattern, path[count:], at + 2) for count in range(len(path) + 1))
    if pattern[at] == "*":
        own = len(path.partition("/")[0])
        return any(fits(pattern, path[count:], at + 1) for count in range(own + 1))
    end = pattern.index("]", at) + 1 if pattern[at] == "[" else at + 1
    wanted = {"?": "ab", "[": "ab"}.get(pattern[at], pattern[at])
    return path[:1] != "" and path[:1] in wanted and fits(pattern, path[1:], end)


@given(st.lists(STARRED, min_size=1, max_size=7).map("".join), WALKED)
def test_a_pattern_means_what_it_means_said_plainly(pattern: str, path: str) -> None:
    whole = pattern if "/" in pattern else f"**/{pattern}"
    assert (name_pattern(pattern).match(path) is not None) == fits(whole.lstrip("/"), path)


def test_braces_stand_for_each_of_their_alternatives() -> None:
    pattern = name_pattern("src/{a,b{1,2}}.{py,md}")
    fitting = [path for path in ("src/a.py", "src/b2.md", "src/b.py") if pattern.match(path)]
    assert fitting == ["src/a.py", "src/b2.md"]
    with pytest.raises(ValueError, match="more than 64 alternatives"):
        name_pattern("{a,b}" * 7)
