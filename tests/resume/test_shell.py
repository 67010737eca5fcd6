from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rewake
from rewake.resume import shell

WRAPPER = Path(rewake.__file__).parent / "agent/tools/shell_wrapper.py"


def wrapper(directory: Path, command: str, report: int = -1) -> subprocess.Popen[bytes]:
    """A wrapper started as the agent starts it, with the lock in its hands alone.

    It writes to `report`, the end of a pipe, when something that the command started outlives it.
    """
    directory.mkdir(exist_ok=True)
    alive = os.open(directory / "alive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(alive, fcntl.LOCK_EX)
    arguments = [str(directory), str(directory), "60000", "1000000", str(alive), str(report), "0"]
    arguments += ["/bin/sh", command]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(WRAPPER), *arguments],
        pass_fds=(alive, report) if report >= 0 else (alive,),
        start_new_session=True,
    )
    os.close(alive)
    return process


def test_without_a_directory_the_command_never_started(tmp_path: Path) -> None:
    assert shell.inspect(tmp_path / "none").state == "never_started"


def test_a_claim_makes_sure_that_the_command_never_starts(tmp_path: Path) -> None:
    directory = tmp_path / "call"
    assert shell.inspect(directory, claim=True).state == "never_started"
    assert wrapper(directory, "touch ran").wait() == 0
    assert not (directory / "ran").exists()
    assert shell.inspect(directory, claim=True).state == "never_started"


def test_of_a_wrapper_and_a_claim_exactly_one_wins(tmp_path: Path) -> None:
    for attempt in range(12):
        directory = tmp_path / str(attempt)
        process = wrapper(directory, "touch ran")
        for _ in range(attempt * 40):
            tmp_path.stat()  # another moment each time
        claimed = shell.inspect(directory, claim=True).state == "never_started"
        process.wait()
        assert claimed == (not (directory / "ran").exists())


def test_a_finished_command_tells_its_exit_code_and_output(tmp_path: Path) -> None:
    wrapper(tmp_path, "echo out; echo err >&2; exit 5").wait()
    status = shell.inspect(tmp_path)
    assert status.state == "finished"
    assert status.exit is not None
    assert status.exit.exit_code == 5
    assert (status.stdout.text, status.stderr.text) == ("out\n", "err\n")
    assert status.start.boot_id == status.exit.boot_id


def test_a_background_process_counts_until_it_ends(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    reading, writing = os.pipe()
    process = wrapper(tmp_path, "cat go > /dev/null &", writing)
    assert os.read(reading, 1)
    assert shell.inspect(tmp_path).background
    (tmp_path / "go").write_text("")
    assert not shell.wait(tmp_path).background
    process.wait()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("record", [b"", b"{", b"null", b'{"exit_code": "x"}'])
def test_a_damaged_exit_record_is_an_end_of_unknown_kind(tmp_path: Path, record: bytes) -> None:
    wrapper(tmp_path, "true").wait()
    (tmp_path / "exit").write_bytes(record)
    status = shell.inspect(tmp_path)
    assert status.state == "finished"
    assert "damaged" in shell.describe_exit(status)


def test_a_start_without_exit_and_without_a_living_process_has_vanished(tmp_path: Path) -> None:
    (tmp_path / "start").write_bytes(b"")
    assert shell.inspect(tmp_path).state == "vanished"


@given(st.binary(max_size=60), st.booleans(), st.booleans())
def test_plain_text_has_no_control_characters(data: bytes, start: bool, end: bool) -> None:  # noqa: FBT001  # given by name
    text = shell.plain(data, cut_start=start, cut_end=end)
    assert all(char in "\n\t" or char.isprintable() or ord(char) > 0x9F for char in text)


@given(st.text(st.characters(min_codepoint=0xA0, codec="utf-8"), max_size=30), st.data())
def test_a_cut_character_is_left_out(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    cut = data.draw(st.integers(0, len(raw)))
    joined = shell.plain(raw[:cut], cut_end=True) + shell.plain(raw[cut:], cut_start=True)
    assert "\ufffd" not in joined.replace("\ufffd", "", text.count("\ufffd"))


@given(st.text(st.characters(min_codepoint=0xA0, codec="utf-8"), max_size=40), st.data())
def test_output_read_piece_by_piece_is_the_output(
    tmp_path_factory: pytest.TempPathFactory, text: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "growing"
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=4)))
    read, offset = "", 0
    for cut in [*cuts, len(raw)]:
        path.write_bytes(raw[:cut])
        piece = shell.read_from(path, offset)
        read, offset = read + piece.text, piece.end
    assert read == text


@given(st.lists(st.sampled_from(["one", "two", "a two", ""]), max_size=12), st.data())
def test_lines_with_a_text_are_each_found_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    raw = "\n".join(lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=4)))
    found, offset = "", 0
    for cut in cuts:
        path.write_bytes(raw[:cut])
        piece = shell.read_from(path, offset, only="two")
        found, offset = found + piece.text, piece.end
    path.write_bytes(raw)
    found += shell.read_from(path, offset, only="two", ended=True).text
    assert found.split() == [word for line in lines if "two" in line for word in line.split()]


def test_output_that_was_cut_at_its_limit_is_read_on_from_its_tail(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * 100 + b"the end")
    piece = shell.read_from(path, 10_000_000)
    assert piece.text.endswith("the end")
    assert piece.end == 107


def test_much_new_output_is_shown_with_head_and_tail(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_text("old\n" + "".join(f"{n}\n" for n in range(50_000)))
    piece = shell.read_from(path, 4)
    assert piece.text.startswith("0\n1\n")
    assert piece.text.endswith("\n49999\n")
    assert "bytes left out" in piece.text
    assert len(piece.text) < 30_000
    assert piece.end == path.stat().st_size
