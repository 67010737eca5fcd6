"""Spans and metrics as a collector gets them over OTLP: live, and of a recorded session."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import rewake
from rewake.cli.dispatch import run_command
from rewake.cli.table import Values
from rewake.compose.place import place
from rewake.compose.telemetry import send_recorded, telemetry_sink
from rewake.errors import TelemetryError
from rewake.model.codec import with_members
from rewake.model.content import ToolCall
from rewake.model.events import AgentEvent, AgentIntent
from rewake.record.sinks import Sink, SinkProblem
from rewake.settings.schema import Telemetry

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
from tests.agent.doubles import DoubleTool, ScriptedModel, agent, calls, text
from tests.telemetry.collector import Collected, attributes, collector

KEY = "sk-" + "ant-api03-" + "aB3dE5gH7jK9mN1pQ3sT5vX7" * 3
MODEL = "anthropic:claude-sonnet-5-5"
SMALL = "openai:gpt-small"


@pytest.fixture
def collected() -> Iterator[Collected]:
    with collector() as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def sink(home: Path, project: Path, endpoint: str, *, content: bool = False) -> Sink:
    given = Telemetry(enabled=True, endpoint=endpoint, content=content)
    return telemetry_sink(place(project, home), given)


def a_run(home: Path, project: Path, *sinks: Sink) -> str:
    usage = rewake.Usage(100, 7, cache_read_tokens=60)
    with rewake.open_session(project, home=home, model=MODEL, sinks=sinks) as session:
        model = ScriptedModel(
            calls(ToolCall("c1", "look", {"key": KEY}), usage=usage), text("Done.")
        )
        agent(session, model, [DoubleTool("look")]).run(f"Hello {KEY}")
        return session.session_id


def test_a_run_is_a_span_with_its_model_calls_and_tools_below(
    home: Path, project: Path, collected: Collected
) -> None:
    session_id = a_run(home, project, sink(home, project, collected.endpoint))
    assert collected.names() == [
        "chat claude-sonnet-5-5",
        "chat claude-sonnet-5-5",
        "execute_tool look",
        "invoke_agent rewake",
    ]
    run = collected.span("invoke_agent rewake")
    assert not run.parent_span_id
    for span in collected.spans:
        assert span.trace_id == run.trace_id
        if span is not run:
            assert span.parent_span_id == run.span_id
            assert run.start_time_unix_nano <= span.start_time_unix_nano
            assert span.start_time_unix_nano <= span.end_time_unix_nano <= run.end_time_unix_nano
    told = attributes(run)
    assert told["gen_ai.operation.name"] == "invoke_agent"
    assert told["gen_ai.conversation.id"] == session_id
    assert (told["gen_ai.provider.name"], told["gen_ai.request.model"]) == (
        "anthropic",
        "claude-sonnet-5-5",
    )
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (100, 7)
    assert collected.resources[0]["service.name"] == "rewake"


def test_calls_of_the_model_and_of_tools_say_what_they_were(
    home: Path, project: Path, collected: Collected
) -> None:
    a_run(home, project, sink(home, project, collected.endpoint))
    chats = [span for span in collected.spans if span.name.startswith("chat")]
    told = [attributes(span) for span in chats]
    first = next(item for item in told if "gen_ai.usage.input_tokens" in item)
    assert first["gen_ai.response.finish_reasons"] == ["tool_use"]
    assert first["gen_ai.usage.cache_read.input_tokens"] == 60
    tool = attributes(collected.span("execute_tool look"))
    assert (tool["gen_ai.tool.name"], tool["gen_ai.tool.call.id"]) == ("look", "c1")


def test_words_are_left_out_unless_asked_for_and_secrets_always(
    home: Path, project: Path, collected: Collected
) -> None:
    a_run(home, project, sink(home, project, collected.endpoint))
    assert not any("Hello" in str(span) or "arguments" in str(span) for span in collected.spans)
    collected.spans.clear()
    a_run(home, project, sink(home, project, collected.endpoint, content=True))
    run = attributes(collected.span("invoke_agent rewake"))
    assert "Hello [redacted: " in run["gen_ai.input.messages"]
    chats = [span for span in collected.spans if span.name.startswith("chat")]
    assert any("[redacted: " in attributes(span)["gen_ai.output.messages"] for span in chats)
    assert KEY not in "".join(map(str, collected.spans))


def test_tokens_and_durations_are_measured(home: Path, project: Path, collected: Collected) -> None:
    a_run(home, project, sink(home, project, collected.endpoint))
    by_name = {metric.name: metric for metric in collected.metrics}
    tokens = {
        attributes(point)["gen_ai.token.type"]: point.sum
        for point in by_name["gen_ai.client.token.usage"].histogram.data_points
    }
    assert tokens == {"input": 100, "output": 7}
    operations: dict[str, int] = {}
    for point in by_name["gen_ai.client.operation.duration"].histogram.data_points:
        name = attributes(point)["gen_ai.operation.name"]
        operations[name] = operations.get(name, 0) + point.count
    assert operations == {"chat": 2, "execute_tool": 1}


def test_a_failed_request_and_a_failed_tool_are_errors(
    home: Path, project: Path, collected: Collected
) -> None:
    async def fails(_call_id: str) -> str:
        raise RuntimeError("broken")

    refused = rewake.ModelError("refused.", status=400)
    with rewake.open_session(
        project, home=home, model=MODEL, sinks=[sink(home, project, collected.endpoint)]
    ) as session:
        agent(session, ScriptedModel(calls("look"), refused), [DoubleTool("look", fails)]).run()
    assert attributes(collected.span("execute_tool look"))["rewake.verdict"] == "unknown"
    errors = [span.name for span in collected.spans if "error.type" in attributes(span)]
    assert sorted(errors) == ["chat claude-sonnet-5-5", "execute_tool look", "invoke_agent rewake"]
    assert attributes(collected.span("invoke_agent rewake"))["error.type"] == "model_error"


def test_a_recorded_session_gives_the_spans_that_it_would_have_given_live(
    home: Path, project: Path, collected: Collected
) -> None:
    session_id = a_run(home, project, sink(home, project, collected.endpoint))

    def shown() -> list[Any]:
        return sorted(
            (
                s.name,
                s.start_time_unix_nano,
                s.end_time_unix_nano,
                str(sorted(attributes(s).items())),
            )
            for s in collected.spans
        )

    live = shown()
    collected.spans.clear()
    count = send_recorded(session_id, project=project, home=home, endpoint=collected.endpoint)
    assert shown() == live
    assert count > len(live)


def test_a_run_that_was_killed_is_sent_as_far_as_it_came(
    home: Path, project: Path, collected: Collected
) -> None:
    session = rewake.open_session(project, home=home, model=MODEL, session_id="s")
    session.user("Go")
    session.assistant([ToolCall("c", "Deploy", {})], stop_reason="tool_use")
    session.action(ToolCall("c", "Deploy", {})).start()
    session.flush()
    send_recorded("s", project=project, home=home, endpoint=collected.endpoint)
    session.close()
    assert attributes(collected.span("execute_tool Deploy"))["error.type"] == "interrupted"
    told = attributes(collected.span("invoke_agent rewake"))
    assert told["rewake.terminal.reason"] == "interrupted"


def test_a_sub_agent_s_span_is_below_the_call_that_it_answers(
    home: Path, project: Path, collected: Collected
) -> None:
    with rewake.open_session(project, home=home, model=MODEL) as session:
        session.user("Go")
        session.assistant([ToolCall("c", "Task", {})], stop_reason="tool_use")
        with session.action(ToolCall("c", "Task", {}), intent=AgentIntent("child")) as action:
            session.record(AgentEvent("child", "spawned", "find it", "explorer", action.call_id))
            child = rewake.open_session(project, home=home, model=SMALL, session_id="other")
            with child:
                child.user("Find it")
                child.assistant("Here.")
                child.terminal("done")
            session.record(AgentEvent("child", "completed", call_id=action.call_id))
            action.complete("found")
        session.assistant("Found.")
        session.terminal("done")
    assert child.transcript is not None
    sidechain = session.directory / "agents" / "child.jsonl"
    sidechain.parent.mkdir()
    lines = child.transcript.read_bytes().splitlines()
    sidechain.write_bytes(
        b"".join(with_members(line, {"agent_id": b'"child"'}) + b"\n" for line in lines)
    )
    send_recorded(session.session_id, project=project, home=home, endpoint=collected.endpoint)
    call, below = collected.span("execute_tool Task"), collected.span("invoke_agent explorer")
    assert (below.parent_span_id, below.trace_id) == (call.span_id, call.trace_id)
    assert attributes(below)["gen_ai.agent.id"] == "child"
    # Each is told with the model that it asked.
    assert sorted(name for name in collected.names() if name.startswith("chat")) == [
        "chat claude-sonnet-5-5",
        "chat claude-sonnet-5-5",
        "chat gpt-small",
    ]


def nowhere() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


def test_an_endpoint_that_is_away_costs_the_session_nothing_and_is_told_once(
    home: Path, project: Path
) -> None:
    problems: list[str] = []
    with rewake.open_session(
        project,
        home=home,
        sinks=[sink(home, project, nowhere())],
        on_problem=lambda problem: problems.append(problem.message),
    ) as session:
        session.user("Hello")
        session.terminal("done")
    assert rewake.resume(session.session_id, project=project, home=home).damage == ()
    (problem,) = problems
    assert "spans" in problem


def test_an_endpoint_that_never_ends_its_answer_is_given_up(home: Path, project: Path) -> None:
    problems: list[SinkProblem] = []
    with endless() as endpoint:
        given = Telemetry(enabled=True, endpoint=endpoint)
        sending = telemetry_sink(place(project, home), given, sent_s_max=0.2)
        opened = rewake.open_session(
            project, home=home, sinks=[sending], on_problem=problems.append
        )
        with opened as session:
            session.user("Hello")
            session.terminal("done")
        # The answer goes on until `endless` ends, so only giving up comes here.
    (problem,) = problems
    assert "Not all could be sent" in problem.message


@contextmanager
def endless() -> Iterator[str]:
    """A server whose answer's head goes on and on."""
    is_over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not is_over.wait(0.01):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            is_over.set()


def test_what_could_not_be_sent_is_an_error_of_who_asked(home: Path, project: Path) -> None:
    session_id = a_run(home, project)
    with pytest.raises(TelemetryError, match="spans"):
        send_recorded(session_id, project=project, home=home, endpoint=nowhere(), wait_s_max=0.5)


def test_the_command_sends_a_recorded_session(
    home: Path, project: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = a_run(home, project)
    monkeypatch.setenv("REWAKE_HOME", str(home))
    monkeypatch.chdir(project)
    assert run_command("trace", Values({"session": session_id, "send": collected.endpoint})) == 0
    assert "execute_tool look" in collected.names()
    with pytest.raises(rewake.UsageError, match="Nothing is sent"):
        run_command("trace", Values({"session": session_id, "content": True}))
