from __future__ import annotations

import dataclasses
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools.bench import Bench

from rewake.agent.tools.change import apply
from rewake.agent.tools.read import ReadTool
from rewake.agent.tools.write import WriteTool
from rewake.log.disk import set_crash_hook
from rewake.model.content import plain_text
from rewake.resume.chain import temporary_name

READ, WRITE = ReadTool(), WriteTool()


def test_a_new_file_is_created_with_its_directories(bench: Bench) -> None:
    output = bench.call(WRITE, file_path="src/deep/a.py", content="x = 1\n")
    assert (bench.project / "src/deep/a.py").read_bytes() == b"x = 1\n"
    (change,) = output.outcome.changes
    assert change.before.kind == "absent"


def test_the_intended_mode_of_a_new_file_is_the_one_it_gets(bench: Bench) -> None:
    old = os.umask(0o027)
    try:
        output = bench.call(WRITE, file_path="a.py", content="x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((bench.project / "a.py").stat().st_mode) == 0o640
    assert output.outcome.changes[0].after.mode == 0o640


def test_an_existing_file_must_have_been_read(bench: Bench) -> None:
    bench.write("a.txt", "one\n")
    assert "Read it first" in bench.refusal(WRITE, file_path="a.txt", content="two")


def test_an_existing_file_is_replaced_and_keeps_its_mode(bench: Bench) -> None:
    path = bench.write("a.txt", "one\n")
    path.chmod(0o600)
    bench.call(READ, file_path="a.txt")
    bench.call(WRITE, file_path="a.txt", content="two\n")
    assert path.read_bytes() == b"two\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_asked_for_is_an_order_and_what_was_done_is_told_as_past(bench: Bench) -> None:
    prepared = bench.prepare(WRITE, file_path="a.txt", content="one\n")
    assert prepared.summary == "Create a.txt (+1 -0 lines)"
    output = bench.run(WRITE, prepared)
    bench.fold(output)
    assert plain_text(output.content) == "Created a.txt (+1 -0 lines)."
    again = bench.prepare(WRITE, file_path="a.txt", content="two\n")
    assert again.summary == "Replace a.txt (+1 -1 lines)"
    assert plain_text(bench.run(WRITE, again).content) == "Replaced a.txt (+1 -1 lines)."


def test_a_file_written_once_can_be_written_again(bench: Bench) -> None:
    bench.call(WRITE, file_path="a.txt", content="one")
    bench.call(WRITE, file_path="a.txt", content="two")
    assert (bench.project / "a.txt").read_text() == "two"


def test_a_file_that_appears_meanwhile_is_not_overwritten(bench: Bench) -> None:
    prepared = bench.prepare(WRITE, file_path="a.txt", content="mine")
    bench.write("a.txt", "theirs")
    assert bench.run(WRITE, prepared).is_error
    assert (bench.project / "a.txt").read_text() == "theirs"


@pytest.mark.parametrize("content", ["\ud800", "ok \udfff"])
def test_a_lone_surrogate_is_refused(bench: Bench, content: str) -> None:
    assert "Unicode" in bench.refusal(WRITE, file_path="a.txt", content=content)


def test_a_directory_is_refused(bench: Bench) -> None:
    bench.write("d/a.txt", "")
    assert "directory" in bench.refusal(WRITE, file_path="d", content="x")


def test_a_dangling_symlink_creates_what_it_names(bench: Bench) -> None:
    (bench.project / "link").symlink_to("real.txt")
    bench.call(WRITE, file_path="link", content="x")
    assert (bench.project / "link").is_symlink()
    assert (bench.project / "real.txt").read_text() == "x"


def test_an_extra_directory_is_allowed(bench: Bench) -> None:
    extra = bench.project.parent / "extra"
    extra.mkdir()
    bench.context = dataclasses.replace(bench.context, extra_directories=(extra,))
    bench.call(WRITE, file_path=str(extra / "a.txt"), content="x")
    assert (extra / "a.txt").read_text() == "x"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to a read-only directory")
def test_a_failure_changes_nothing_and_says_so_in_a_read_only_directory(bench: Bench) -> None:
    directory = bench.project / "d"
    directory.mkdir(mode=0o500)
    output = bench.call(WRITE, file_path="d/a.txt", content="x")
    assert output.is_error
    assert "Nothing was changed" in plain_text(output.content)


def test_a_full_disk_leaves_neither_a_file_nor_new_directories(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    prepared = bench.prepare(WRITE, file_path="new/deep/a.txt", content="x")
    monkeypatch.setattr("os.write", full)
    output = apply(prepared)
    monkeypatch.undo()
    assert output.is_error
    assert "No space left" in plain_text(output.content)
    assert list(bench.project.iterdir()) == []


def test_a_short_write_is_continued(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr("os.write", lambda descriptor, data: write(descriptor, data[:3]))
    bench.call(WRITE, file_path="a.txt", content="more than three bytes")
    monkeypatch.undo()
    assert (bench.project / "a.txt").read_text() == "more than three bytes"


def test_the_crash_points_stand_around_the_replacement(bench: Bench) -> None:
    path = bench.write("a.txt", "old")
    bench.call(READ, file_path="a.txt")
    prepared = bench.prepare(WRITE, file_path="a.txt", content="new")
    seen: list[tuple[str, str, bool]] = []
    temporary = path.with_name(temporary_name("call-2"))
    set_crash_hook(lambda name: seen.append((name, path.read_text(), temporary.exists())))
    try:
        bench.run(WRITE, prepared)
    finally:
        set_crash_hook(None)
    assert seen == [
        ("before_replace_target", "old", True),
        ("after_replace_target", "new", False),
    ]


def test_the_file_and_its_directory_are_synced_before_the_call_returns(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None or os.geteuid() != 0:
        pytest.skip("needs strace and the right to trace")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from tests.tools.bench import Bench\n"
        "from rewake.agent.tools.write import WriteTool\n"
        "bench = Bench(Path(sys.argv[2]))\n"
        "bench.call(WriteTool(), file_path='d/a.txt', content='x')\n"
    )
    root = str(Path(__file__).parents[2])
    log = tmp_path / "log"
    command = [strace, "-f", "-y", "-e", "trace=fsync,rename,mkdir", "-o", str(log)]
    subprocess.run(
        [*command, sys.executable, "-c", script, root, str(tmp_path / "bench")], check=True
    )
    calls = [line.split(" ", 1)[1].strip() for line in log.read_text().splitlines()]
    project = tmp_path / "bench/project"
    seen = [call for call in calls if str(project) in call]
    assert [call.split("(")[0] for call in seen[-5:]] == [
        "mkdir",
        "fsync",
        "fsync",
        "rename",
        "fsync",
    ]
    assert f"<{project}>" in seen[-4]
    assert ".rewake-call-1.tmp>" in seen[-3]
    assert f"<{project}/d>" in seen[-1]
