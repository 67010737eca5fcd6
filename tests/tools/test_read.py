from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from tests.tools.bench import Bench

from rewake.agent.tools.read import ReadTool
from rewake.agent.tools.todo import TodoWriteTool
from rewake.model.content import Image, plain_text
from rewake.model.events import Todo

READ = ReadTool()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def test_lines_are_numbered(bench: Bench) -> None:
    bench.write("a.txt", "one\ntwo\n")
    assert bench.text(READ, file_path="a.txt") == "     1\tone\n     2\ttwo"


def test_reading_a_part_notes_the_hash_of_the_whole(bench: Bench) -> None:
    path = bench.write("a.txt", "one\ntwo\nthree\n")
    output = bench.call(READ, file_path="a.txt", offset=2, limit=1)
    text = plain_text(output.content)
    assert "     2\ttwo" in text
    assert "read on with offset 3" in text
    (read,) = output.outcome.reads
    assert read.path == str(path)
    assert read.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_many_lines_and_long_lines_are_bounded(bench: Bench) -> None:
    bench.write("many.txt", "x\n" * 5_000)
    bench.write("long.txt", "x" * 1_000_000)
    bench.write("both.txt", ("y" * 1_500 + "\n") * 2_000)
    assert "lines 1 to 2000 of 5000" in bench.text(READ, file_path="many.txt")
    assert len(bench.text(READ, file_path="long.txt")) < 3_000
    assert len(bench.text(READ, file_path="both.txt")) < 110_000


def test_numbers_in_quotes_are_understood(bench: Bench) -> None:
    bench.write("a.txt", "one\ntwo\n")
    assert "two" in bench.text(READ, file_path="a.txt", offset="2")


def test_an_offset_past_the_end_says_so(bench: Bench) -> None:
    bench.write("a.txt", "one\n")
    assert "only 1 lines" in bench.text(READ, file_path="a.txt", offset=9)


def test_an_empty_file_says_so(bench: Bench) -> None:
    bench.write("a.txt", "")
    assert "is empty" in bench.text(READ, file_path="a.txt")


def test_text_that_is_no_utf8_is_shown_and_said_so(bench: Bench) -> None:
    bench.write("a.txt", b"caf\xe9 \x93x\x94\n")
    text = bench.text(READ, file_path="a.txt")
    assert "caf\u00e9 \u201cx\u201d" in text
    assert "not UTF-8: shown as cp1252" in text


def test_a_separator_inside_a_line_does_not_end_it(bench: Bench) -> None:
    bench.write("a.txt", "one\u2028still one\x0cstill\ntwo\n")
    assert "     2\ttwo" in bench.text(READ, file_path="a.txt")


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(9), "image/jpeg"),
        (b"GIF89a" + bytes(9), "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
def test_images_are_recognised_by_content(bench: Bench, data: bytes, media_type: str) -> None:
    bench.write("picture", data)
    (block,) = bench.call(READ, file_path="picture").content
    assert isinstance(block, Image)
    assert block.media_type == media_type
    assert bench.blobs.get(block.sha256) == data


def test_binary_files_and_huge_images_are_refused_politely(bench: Bench) -> None:
    bench.write("a.bin", b"\x7fELF\0\0")
    bench.write("huge.png", PNG + bytes(6 << 20))
    for name in ("a.bin", "huge.png"):
        assert bench.call(READ, file_path=name).is_error
    assert "binary" in bench.text(READ, file_path="a.bin")


def test_a_missing_file_is_told_with_what_is_near(bench: Bench) -> None:
    bench.write("src/config.py", "")
    assert "src/config.py" in bench.text(READ, file_path="src/confg.py")
    assert "src/config.py" in bench.text(READ, file_path="config.py")


def test_a_directory_is_told_with_what_it_holds(bench: Bench) -> None:
    bench.write("src/a.py", "")
    output = bench.call(READ, file_path="src")
    assert output.is_error
    assert "a.py" in plain_text(output.content)


def test_a_pipe_does_not_block(bench: Bench) -> None:
    os.mkfifo(bench.project / "pipe")
    assert "pipe" in bench.text(READ, file_path="pipe")


def test_a_loop_of_links_is_an_error(bench: Bench) -> None:
    (bench.project / "loop").symlink_to("loop")
    assert bench.call(READ, file_path="loop").is_error


def test_a_file_whose_name_is_no_utf8_can_be_read(bench: Bench) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (bench.project / name).write_text("x\n")
    assert "x" in bench.text(READ, file_path=name)


def test_what_lies_outside_is_refused(bench: Bench) -> None:
    assert "outside" in bench.refusal(READ, file_path="/etc/passwd")
    (bench.project / "link").symlink_to(Path("/etc"))
    assert "outside" in bench.refusal(READ, file_path="link/passwd")


def test_the_todo_list_is_an_outcome(bench: Bench) -> None:
    todos = [
        {"content": "one", "status": "completed"},
        {"content": "two", "status": "pending", "activeForm": "x"},
    ]
    output = bench.call(TodoWriteTool(), todos=todos)
    assert output.outcome.todos == (Todo("one", "completed"), Todo("two"))
    assert "1 of them open" in plain_text(output.content)


def test_a_todo_with_an_unknown_status_is_refused(bench: Bench) -> None:
    message = bench.refusal(TodoWriteTool(), todos=[{"content": "x", "status": "later"}])
    assert "later" in message
