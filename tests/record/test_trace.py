"""The trace: cheap, bounded, free of secrets, and never in the way of the session."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from rewake.errors import StorageError
from rewake.log.disk import Disk
from rewake.model.content import Text, Usage
from rewake.model.events import Checkpoint, History, Message, StateTransition
from rewake.record.trace import TraceOptions, TraceSink
from rewake.record.trace_file import TraceFile, older, trace_files
from rewake.record.trace_reader import read_trace, summarise_trace

HELLO = Message("user", (Text("hello"),))
ASKING = StateTransition("idle", "requesting")


def trace(world: Any, **options: Any) -> TraceSink:
    return TraceSink(
        world.directory / "trace.jsonl",
        world.disk,
        lambda: world.now_ns,
        lambda: world.monotonic_ns,
        TraceOptions(**options),
    )


def lines(world: Any) -> list[dict[str, Any]]:
    """All lines of all files, the oldest first; each file holds whole lines."""
    found = []
    for path in trace_files(world.directory / "trace.jsonl"):
        content = path.read_bytes()
        assert content == b"" or content.endswith(b"\n")
        found += [json.loads(line) for line in content.split(b"\n")[:-1]]
    return found


def notes(world: Any, kind: str) -> list[Any]:
    return [line["data"] for line in lines(world) if line.get("note") == kind]


def test_an_event_is_a_line_with_its_id_size_and_the_time_since_the_one_before(world: Any) -> None:
    recorder = world.recorder(sinks=(trace(world),))
    world.monotonic_ns = 5_000
    event = recorder.submit(HELLO, step=2)
    recorder.close()
    assert lines(world)[0] == {
        "time": event.timestamp,
        "event_id": event.event_id,
        "event_type": "message",
        "step": 2,
        "bytes": world.path.stat().st_size,
        "since_previous_us": 5,
    }


def test_a_note_may_say_anything(world: Any) -> None:
    sink = trace(world)
    sink.note("request", {"text": "\ud800 é", "bytes": b"x", "odd": object(), "block": Text("t")})
    sink.close()
    (note,) = notes(world, "request")
    assert note["text"] == "\ud800 é"
    assert note["block"] == {"type": "text", "text": "t"}
    assert "object" in note["odd"]


def test_a_compaction_tells_its_sizes(world: Any) -> None:
    recorder = world.recorder(sinks=(trace(world),))
    recorder.submit(
        Checkpoint(
            "compaction", 1, History(), {}, trigger="budget", tokens_before=900, tokens_after=40
        )
    )
    recorder.close()
    line = lines(world)[0]
    assert (line["trigger"], line["tokens_before"], line["tokens_after"]) == ("budget", 900, 40)


def test_steps_and_the_run_are_summed_up(world: Any) -> None:
    sink = trace(world)
    recorder = world.recorder("disk", sinks=(sink,), on_synced=sink.committed)
    recorder.submit(ASKING, step=1, barrier=True)
    sink.note("response", {"duration_ms": 20.0})
    recorder.submit(Message("assistant", (Text("a"),), usage=Usage(10, 3)), step=1)
    sink.note("permission", {"waited_ms": 5})
    sink.note("tool", {"duration_ms": 7.5})
    recorder.submit(StateTransition("requesting", "waiting"), step=1)
    recorder.submit(ASKING, step=2, barrier=True)
    sink.note("response", {"duration_ms": 1.0})
    recorder.close()
    first, second = (
        {name: value for name, value in data.items() if not name.startswith("commit")}
        for data in notes(world, "step")
        if data["step"]
    )
    assert first == {
        "step": 1,
        "model_ms": 20.0,
        "tools_ms": 7.5,
        "permission_ms": 5.0,
        "requests": 1,
        "retries": 1,
        "calls": 1,
    }
    assert second == {"step": 2, "model_ms": 1.0, "requests": 1}
    (summary,) = notes(world, "summary")
    assert (summary["requests"], summary["input_tokens"], summary["output_tokens"]) == (2, 10, 3)
    assert summary["commits"] == 3
    assert summary["bytes"] == world.path.stat().st_size


def test_what_a_sub_agent_does_is_summed_up_apart(world: Any) -> None:
    sink = trace(world)
    sink.note("response", {"duration_ms": 1.0})
    sink.note("response", {"duration_ms": 2.0, "agent_id": "child"})
    sink.close()
    assert notes(world, "step") == [
        {"step": 0, "model_ms": 1.0, "requests": 1},
        {"agent_id": "child", "step": 0, "model_ms": 2.0, "requests": 1},
    ]


def test_secrets_are_taken_out_before_anything_is_cut(world: Any) -> None:
    secret = "hunter2hunter2"

    def redact(value: object) -> object:
        return json.loads(json.dumps(value).replace(secret, "[redacted]"))

    sink = trace(world, make_redact=lambda: redact)
    sink.note("response", {"content": [{"text": f"{'x' * ((1 << 14) - 5)}{secret}"}]})
    sink.note("request", {"password": secret})
    sink.close()
    for path in trace_files(world.directory / "trace.jsonl"):
        assert b"hunter2" not in path.read_bytes()


def test_a_detector_that_can_not_be_loaded_lets_nothing_through(world: Any) -> None:
    def fails() -> Any:
        raise ImportError("no detector")

    sink = trace(world, make_redact=fails)
    sink.note("request", {"password": "hunter2hunter2"})
    with pytest.raises(ImportError):
        sink.close()
    assert lines(world) == []


def test_a_failure_of_a_note_costs_no_sum(world: Any) -> None:
    def fails() -> Any:
        raise ImportError("no detector")

    sink = trace(world, make_redact=fails)
    recorder = world.recorder(sinks=(sink,))
    sink.note("response", {"duration_ms": 20.0})
    for _ in range(3):
        recorder.submit(Message("assistant", (Text("a"),), usage=Usage(10, 3)))
        sink.note("response", {"duration_ms": 1.0})
        recorder.flush()
    recorder.close()
    (problem,) = recorder.problems
    assert (problem.sink, "no detector" in problem.message) == ("TraceSink", True)
    (summary,) = notes(world, "summary")
    assert (summary["requests"], summary["events"], summary["input_tokens"]) == (4, 3, 30)


def test_usage_that_comes_late_counts(world: Any) -> None:
    recorder = world.recorder("process", sinks=(trace(world),))
    message = recorder.submit(Message("assistant", (Text("a"),)))
    recorder.amend(message.event_id, usage=Usage(10, 3))
    recorder.close()
    (summary,) = notes(world, "summary")
    assert (summary["events"], summary["input_tokens"], summary["output_tokens"]) == (2, 10, 3)


def test_a_line_that_a_crash_cut_costs_that_line_only(world: Any) -> None:
    path = world.directory / "trace.jsonl"
    path.write_bytes(b'{"time":"x"}\n{"time":')
    sink = trace(world)
    sink.note("request", {"messages": 1})
    sink.close()
    assert summarise_trace(path).unreadable == 1
    assert len(path.read_bytes().split(b"\n")) == 4


class FillsUp(Disk):
    """Takes five bytes of its next write when told to."""

    is_full = False

    def write(self, descriptor: int, data: bytes) -> int:
        taken, self.is_full = (5 if self.is_full else len(data)), False
        return super().write(descriptor, data[:taken])


def test_a_write_that_a_full_disk_cut_costs_that_line_only(world: Any) -> None:
    path, disk = world.directory / "trace.jsonl", FillsUp()
    file = TraceFile(path, disk, files_max=1)
    file.write(b"{}\n")
    disk.is_full = True
    with pytest.raises(StorageError):
        file.write(b'{"lost":1}\n')
    file.write(b'{"kept":1}\n')
    file.close()
    assert [line is not None for line in read_trace(path)] == [True, False, True]


def test_long_texts_and_long_notes_are_cut(world: Any) -> None:
    sink = trace(world)
    sink.note("response", {"text": "é" * 1_000_000})
    sink.note("request", {"many": ["word " * 100] * 10_000})
    sink.close()
    longest = max((world.directory / "trace.jsonl").read_bytes().split(b"\n"), key=len)
    assert len(longest) < 300_000
    (response,) = notes(world, "response")
    assert response["text"].endswith("more characters]")
    (request,) = notes(world, "request")
    assert set(request) == {"cut", "beginning"}


def test_a_full_file_is_put_aside_and_the_oldest_goes(world: Any) -> None:
    sink = trace(world, file_bytes_max=2_000, files_max=3)
    recorder = world.recorder(sinks=(sink,))
    sizes = set()
    for _ in range(200):
        recorder.submit(HELLO)
        recorder.flush()
        sizes.add(len(trace_files(world.directory / "trace.jsonl")))
    recorder.close()
    assert sizes == {1, 2, 3}
    for path in trace_files(world.directory / "trace.jsonl"):
        assert path.stat().st_size <= 2_000
    assert not older(world.directory / "trace.jsonl", 3).exists()
    ids = [line["event_id"] for line in lines(world) if "event_id" in line]
    assert ids == sorted(ids)


def test_notes_that_come_faster_than_they_are_written_are_dropped_and_counted(world: Any) -> None:
    may_go = threading.Event()

    def slow() -> Any:
        may_go.wait()
        return lambda value: value

    sink = trace(world, make_redact=slow)
    for _ in range(1_000):
        sink.note("request", {})
    may_go.set()
    sink.close()
    (dropped,) = notes(world, "dropped")
    assert len(notes(world, "request")) + dropped["notes"] == 1_000


def test_threads_may_note_and_record_at_once(world: Any) -> None:
    sink = trace(world)
    recorder = world.recorder(sinks=(sink,))

    def work() -> None:
        for _ in range(50):
            sink.note("request", {"a": 1})
            recorder.submit(HELLO)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    assert len(notes(world, "request")) + sum(d["notes"] for d in notes(world, "dropped")) == 200
    assert len([line for line in lines(world) if "event_id" in line]) == 200


def test_the_trace_is_private_buffered_and_never_synced(world: Any) -> None:
    sink = trace(world)
    recorder = world.recorder("disk", sinks=(sink,))
    for _ in range(50):
        recorder.submit(HELLO)
    recorder.commit()
    assert world.disk.calls == ["write", "sync"]
    assert (world.directory / "trace.jsonl").stat().st_size == 0
    assert stat.S_IMODE((world.directory / "trace.jsonl").stat().st_mode) == 0o600
    recorder.flush()
    assert world.disk.calls == ["write", "sync", "write"]


def test_a_forked_child_does_not_write_the_parent_s_trace(world: Any) -> None:
    sink = trace(world)
    sink.note("timing", {})
    with warnings.catch_warnings():
        # Newer Pythons warn of forks beside threads; that such a fork harms nothing is the point.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover  # in the child
        sink.note("timing", {})
        sink.close()
        os._exit(0)
    os.waitpid(child, 0)
    sink.close()
    assert len(notes(world, "timing")) == 1


def test_the_trace_is_at_most_half_a_second_behind(world: Any) -> None:
    recorder = world.recorder(sinks=(trace(world),))
    recorder.submit(HELLO)
    world.monotonic_ns = 500_000_000
    recorder.submit(HELLO)
    assert len(lines(world)) == 2


@pytest.mark.parametrize("operation", ["write", "rename"])
def test_a_trace_that_can_not_be_written_stops_nothing(world: Any, operation: str) -> None:
    recorder = world.recorder("process", sinks=(trace(world, file_bytes_max=300),))
    for _ in range(3):
        recorder.submit(HELLO)
        recorder.flush()
    recorder.submit(HELLO)
    world.disk.fail(operation, errno.ENOSPC)
    recorder.flush()
    (problem,) = recorder.problems
    assert "Could not" in problem.message
    recorder.submit(HELLO)
    assert len(world.check_chain()) == 5


def test_a_trace_that_can_not_be_opened_is_a_storage_error(world: Any) -> None:
    with pytest.raises(StorageError, match="Could not open"):
        TraceSink(Path(world.directory / "none" / "trace.jsonl"), world.disk)


def test_nothing_is_noted_after_the_end(world: Any) -> None:
    sink = trace(world)
    sink.close()
    sink.note("request", {})
    sink.close()
    assert lines(world) == []


def test_a_trace_is_read_back_and_what_can_not_be_read_is_counted(world: Any) -> None:
    sink = trace(world, file_bytes_max=500, files_max=50)
    recorder = world.recorder("disk", sinks=(sink,), on_synced=sink.committed)
    for step in range(1, 6):
        recorder.submit(ASKING, step=step, barrier=True)
        sink.note("response", {"duration_ms": 1.0, "content": ["long"]})
        recorder.submit(HELLO, step=step, barrier=True)
        recorder.flush()
    recorder.close()
    path = world.directory / "trace.jsonl"
    with path.open("ab") as file:
        file.write(b'\xff\n[1]\n{"note":"torn')
    found = summarise_trace(path)
    assert found.unreadable == 3
    assert [step["step"] for step in found.steps if step["step"]] == [1, 2, 3, 4, 5]
    assert [run["requests"] for run in found.runs] == [5]
    assert all("content" not in response for response in found.responses)
    assert len(found.files) > 1


def test_where_there_is_no_trace_that_is_said(world: Any) -> None:
    with pytest.raises(StorageError, match="There is no trace"):
        summarise_trace(world.directory / "trace.jsonl")
