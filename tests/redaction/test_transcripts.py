"""A session that keeps secrets out of its transcript: nothing of them there, and all else as ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent.doubles import ScriptedModel, agent, calls, text

import rewake
from rewake.agent.ports import Tool
from rewake.agent.tools import builtin_tools
from rewake.compose.files import rewind_files, track_files
from rewake.compose.labels import set_title
from rewake.compose.place import find_session, place
from rewake.compose.settings import redacts
from rewake.compose.taking_back import take_back
from rewake.log.blobs import BlobStore
from rewake.log.scan import Transcript
from rewake.model.content import ToolCall
from rewake.model.events import Event, FileChangeIntent, ShellIntent, ToolLifecycle
from rewake.model.ids import IdGenerator
from rewake.redaction.transcripts import TranscriptRedactor

KEY = "sk-" + "ant-api03-" + "aB3dE5gH7jK9mN1pQ3sT5vX7" * 3
VALUE = "correct.horse.battery.staple.42"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEPLOY_TOKEN", VALUE)
    path = tmp_path / "project"
    path.mkdir()
    return path


def tools() -> tuple[Tool, ...]:
    return builtin_tools()


def everything_said(session: rewake.Session) -> bytes:
    """The transcript's bytes and the contents of the payloads that stand in blobs."""
    assert session.transcript is not None
    assert isinstance(session.blobs, BlobStore)
    said = [session.transcript.read_bytes()]
    for line in said[0].split(b"\n"):
        if b'"blob":{"sha256":"' in line:
            name = line.partition(b'"blob":{"sha256":"')[2][:64].decode()
            said.append(session.blobs.get(name))
    return b"\n".join(said)


def test_no_secret_reaches_the_transcript_by_any_way(home: Path, project: Path) -> None:
    turns = [
        text(f"I see {KEY}."),
        calls(ToolCall("c", "Bash", {"command": f"echo {KEY}; echo $((1+1)) {VALUE}"})),
        calls(ToolCall("c", "Write", {"file_path": "a.env", "content": f"API_KEY={KEY}\n"})),
        calls(ToolCall("c", "Bash", {"command": "yes 'secret " + KEY + "' | head -3000"})),
        text("Done."),
    ]
    with rewake.open_session(project, home=home, redact=True) as session:
        used = agent(session, ScriptedModel(*turns), tools())
        used.run(f"Use {KEY} and {VALUE}")
        used.run("Go on")
        session.metadata(title=f"About {KEY}")
        session.terminal("done", {"error": f"failed with {VALUE}"})
        session.commit()
        said = everything_said(session)
        assert KEY.encode() not in said
        assert VALUE.encode() not in said
        assert said.count(b"[redacted: ") > 5
    assert (project / "a.env").read_text() == f"API_KEY={KEY}\n"


def test_the_model_is_told_what_the_transcript_says_and_tools_get_what_was_meant(
    home: Path, project: Path
) -> None:
    command = f"printf %s {KEY} > out"
    with rewake.open_session(project, home=home, redact=True) as session:
        model = ScriptedModel(calls(ToolCall("c", "Bash", {"command": command})), text("Done."))
        agent(session, model, tools()).run(f"Store {KEY}")
        assert model.heard(0) == ["Store [redacted: Anthropic Key]"]
    assert (project / "out").read_text() == KEY


def test_a_redacted_session_is_resumed_as_it_was_and_its_requests_go_on(
    home: Path, project: Path
) -> None:
    with rewake.open_session(project, home=home, redact=True, session_id="s") as session:
        agent(session, ScriptedModel(text(f"It is {KEY}.")), tools()).run(f"What is {KEY}?")
        before = session.view()
    with rewake.open_session(project, home=home, redact=True, resume="s") as session:
        assert session.resumed is not None
        assert session.resumed.damage == ()
        model = ScriptedModel(text("Yes."))
        agent(session, model, tools()).run("Go on")
        assert model.requests[0].messages[: len(before) - 1] == before[: len(before) - 1]


def test_an_interrupted_write_of_a_secret_gets_its_verdict_and_can_be_taken_back(
    home: Path, project: Path
) -> None:
    file = project / "a.env"
    file.write_text(f"TOKEN={VALUE}\n")
    after = f"TOKEN={KEY}\n"
    with rewake.open_session(project, home=home, redact=True, session_id="s") as session:
        track_files(session)
        prompt = session.user("Change it")
        session.assistant([ToolCall("c", "Write", {"content": after})], stop_reason="tool_use")
        change = rewake.FileChange("a.env", f"TOKEN={VALUE}\n", after)
        session.action(ToolCall("c", "Write", {"content": after}), intent=change).start()
        file.write_text(after)
        session.commit()
    with rewake.open_session(project, home=home, redact=True, resume="s") as session:
        assert session.resumed is not None
        (settled,) = session.resumed.uncertain
        assert settled.resolution.verdict == "applied"
        track_files(session)
        rewind_files(session, prompt)
    assert file.read_text() == f"TOKEN={VALUE}\n"


def test_structure_is_left_alone_whatever_it_looks_like(home: Path, project: Path) -> None:
    odd = project / f"password={VALUE}"
    with rewake.open_session(project, home=home, redact=True, session_id="s") as session:
        session.user("Go")
        session.assistant([ToolCall(KEY, "Write", {})], stop_reason="tool_use")
        change = rewake.FileChange(odd, None, "x")
        with session.action("Write", KEY, intent=change) as action:
            odd.write_text("x")
            action.complete("ok")
        assert session.transcript is not None
        session.commit()
        with Transcript(session.transcript) as reader:
            payloads = [item.payload for item in reader.forward() if isinstance(item, Event)]
    started = [p for p in payloads if isinstance(p, ToolLifecycle) and p.status == "started"]
    assert isinstance(started[0].intent, FileChangeIntent)
    assert started[0].intent.changes[0].path == str(odd)
    assert started[0].provider_call_id == KEY


def test_without_being_asked_a_transcript_says_what_was_said(home: Path, project: Path) -> None:
    with rewake.open_session(project, home=home) as session:
        session.user(f"Use {KEY}")
        assert KEY.encode() in everything_said(session)


def test_the_trace_of_any_session_is_free_of_secrets(home: Path, project: Path) -> None:
    with rewake.open_session(project, home=home) as session:
        session.trace.note("request", {"new_messages": [f"Use {KEY}", {"password": "hunter2x9"}]})
        trace = session.directory / "trace.jsonl"
    assert KEY.encode() not in trace.read_bytes()
    assert b"hunter2x9" not in trace.read_bytes()
    assert b"[redacted: " in trace.read_bytes()


def test_redacting_costs_no_id() -> None:
    redactor = TranscriptRedactor({})
    ids = IdGenerator(lambda: 1_700_000_000_000, lambda bits: (1 << bits) - 1)
    payload = {"call_id": ids(), "message_id": ids(), "event_ids": [ids()], "sha256": "a" * 64}
    assert redactor.value(payload) is payload


def test_what_is_done_from_outside_is_redacted_as_the_settings_say(
    home: Path, project: Path
) -> None:
    home.mkdir()
    (home / "settings.json").write_text('{"redact_transcript": true}')
    with rewake.open_session(project, home=home, redact=True, session_id="s") as session:
        track_files(session)
        prompt = session.user("Deploy")
        call = ToolCall("c", "Bash", {"command": "env"})
        session.assistant([call], stop_reason="tool_use")
        intent = ShellIntent("env", str(project), "outputs/c")
        session.action(call, intent=intent).start()
        outputs = session.directory / "outputs" / "c"
        outputs.mkdir(parents=True)
        (outputs / "start").write_bytes(b"")
        (outputs / "stdout").write_text(f"DEPLOY_TOKEN={VALUE}\n")
        (outputs / "exit").write_text('{"exit_code": 0}')
        session.commit()
    at = place(project, home)
    set_title("s", f"with {KEY}", project=project, home=home)
    take_back(at, find_session(at, "s"), prompt)
    said = everything_said(session)
    assert b'"verdict":"applied"' in said
    assert b"with [redacted: Anthropic Key]" in said
    assert KEY.encode() not in said
    assert VALUE.encode() not in said


def test_settings_that_can_not_be_read_may_ask_for_it(home: Path, project: Path) -> None:
    home.mkdir()
    assert not redacts(place(project, home))
    (home / "settings.json").write_text("{")
    assert redacts(place(project, home))
