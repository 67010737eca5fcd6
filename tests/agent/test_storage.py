"""A disk that fails in the middle of a run: the loop stops before its next effect and claims nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.agent.conftest import Open
from tests.agent.doubles import Agent, DoubleTool, ScriptedModel, agent, calls, text

import rewake
from rewake.errors import ExitCode
from rewake.log.disk import Disk
from rewake.log.scan import Transcript
from rewake.model.events import Event, FileChangeIntent, Terminal, ToolLifecycle


class FailingTranscript:
    """Makes one operation on a transcript fail from the moment when a file's bytes fit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, operation: str, when: bytes) -> None:
        self.fired = 0
        self._when = when
        original = getattr(Disk, operation)

        def fail(disk: Disk, descriptor: int, *data: bytes) -> object:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            if path.name == "transcript.jsonl" and self._is_due(path, *data):
                self.fired += 1
                if operation == "write" and self.fired == 1:
                    os.write(descriptor, data[0][: len(data[0]) // 2])  # a full disk takes a part
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return original(disk, descriptor, *data)

        monkeypatch.setattr(Disk, operation, fail)

    def _is_due(self, path: Path, *data: bytes) -> bool:
        return self.fired > 0 or self._when in b"".join(data) or self._when in path.read_bytes()


def writer(session: rewake.Session, target: Path) -> DoubleTool:
    async def body(call_id: str) -> str:
        target.write_text("new")  # noqa: ASYNC240  # the effect, as the real tools make it
        return "written"

    def intent(_context: object) -> FileChangeIntent:
        made = session.frozen_intent(rewake.FileChange(target, None, "new"))
        assert isinstance(made, FileChangeIntent)
        return made

    return DoubleTool("write", body, intent=intent)


def working(session: rewake.Session, project: Path) -> tuple[Agent, DoubleTool, DoubleTool]:
    tools = writer(session, project / "a"), DoubleTool("next")
    used = agent(session, ScriptedModel(calls("write", "next"), text("end")), tools)
    return used, *tools


pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("status", ["started", "completed"])
def test_the_run_ends_before_the_next_effect_and_the_resume_knows_what_happened(
    open_session: Open, project: Path, operation: str, status: str
) -> None:
    written = status == "completed"
    verdict = "applied" if written else "not_applied"
    session = open_session(durability="disk")
    with pytest.MonkeyPatch.context() as patch:
        used, write, following = working(session, project)
        failing = FailingTranscript(patch, operation, b'"status":"%b"' % status.encode())
        result = used.run()
        session.close()
        assert failing.fired == 1  # nothing was tried again
    assert result.reason == "storage_error"
    assert isinstance(result.error, rewake.StorageError)
    assert result.error.exit_code is ExitCode.STORAGE
    assert "full" in result.error.remedy
    assert bool(write.ran) is written
    assert (project / "a").exists() is written
    assert following.ran == []
    assert len(used.model.requests) == 1
    with open_session(resume=session.session_id) as again:
        assert again.resumed is not None
        assert again.resumed.terminal is None
        verdicts = {
            again.resumed.calls[item.call_id].tool_name: item.resolution.verdict
            for item in (*again.resumed.uncertain, *again.resumed.pending)
        }
        assert verdicts.get("next", "not_applied") == "not_applied"
        # What reached the file although its sync failed may be found, and is true then.
        assert verdicts.get("write", verdict) == verdict
        after = agent(again, ScriptedModel(text("end")), [DoubleTool("write")])
        assert after.run("go on").response == "end"


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_prompt_that_cannot_be_kept_is_never_asked(
    open_session: Open, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(durability="disk")
    used = agent(session, ScriptedModel(text("end")))
    FailingTranscript(monkeypatch, operation, b"the prompt")
    with pytest.raises(rewake.StorageError):
        used.run("the prompt")
    assert used.model.requests == []
    with pytest.raises(rewake.PoisonedError):
        session.user("another")
    session.close()


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_what_a_provider_would_be_sent_is_kept_before_it_is_sent(
    open_session: Open, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(durability="disk")
    tool = DoubleTool("look", read_only=True)
    used = agent(session, ScriptedModel(calls("look"), text("end")), [tool])
    FailingTranscript(monkeypatch, operation, b'"status":"completed"')
    assert used.run().reason == "storage_error"
    assert len(used.model.requests) == 1
    session.close()


def test_a_compaction_that_cannot_be_kept_ends_the_run_with_the_conversation_whole(
    open_session: Open,
) -> None:
    session = open_session(durability="disk")
    for number in range(5):
        session.user(f"{number} " + "word " * 600)
        session.assistant("ok")
    with pytest.MonkeyPatch.context() as patch:
        used = agent(session, ScriptedModel(text("sum"), text("end")), compact_at_tokens=3000)
        FailingTranscript(patch, "sync", b'"kind":"compaction"')
        assert used.run("newest").reason == "storage_error"
        session.close()
    with open_session(resume=session.session_id) as again:
        assert again.resumed is not None
        newest = again.state.conversation.newest_prompt
        assert newest in {message.message_id for message in again.view()}


def test_nothing_false_is_on_record_after_a_failure(open_session: Open, project: Path) -> None:
    session = open_session(durability="disk")
    with pytest.MonkeyPatch.context() as patch:
        used, *_ = working(session, project)
        FailingTranscript(patch, "write", b'"status":"completed"')
        used.run()
        session.close()
    assert session.transcript is not None
    with Transcript(session.transcript) as reader:
        payloads = [item.payload for item in reader.forward() if isinstance(item, Event)]
    statuses = [p.status for p in payloads if isinstance(p, ToolLifecycle)]
    assert statuses == ["requested", "requested", "started"]
    assert not any(isinstance(payload, Terminal) for payload in payloads)


def test_a_blob_that_cannot_be_kept_stops_the_call_before_its_effect(
    open_session: Open, project: Path
) -> None:
    def full(_disk: Disk, path: Path, *_rest: object, **_options: object) -> None:
        raise rewake.StorageError("full", path=str(path), remedy="Free some space.")

    session = open_session()
    used, write, following = working(session, project)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Disk, "write_atomic", full)
        result = used.run()
    assert (result.reason, write.ran, following.ran) == ("storage_error", [], [])
    session.close()
