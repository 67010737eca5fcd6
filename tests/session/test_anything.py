"""Any use of a session, kills and resumes included: one state whichever way it is read.

The rules: live = loaded = folded from the root; what was recorded is never lost; and between two
compactions each view begins with the one before.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.session.helpers import (
    break_off,
    loaded,
    loaded_from_root,
    nothing,
    same,
    transcript_of,
)

import rewake
from rewake.session.wire import anthropic_messages, openai_messages
from rewake.testing.provider_rules import violations_anthropic, violations_openai

TOOLS = [{"type": "function", "function": {"name": "edit", "parameters": {"type": "object"}}}]


class User:
    """A program that does random things with one session, and checks after each."""

    def __init__(self, directory: Path, data: st.DataObject) -> None:
        self.data = data
        self.homes = 0
        self.directory = directory
        self.project = directory / "project"
        self.project.mkdir()
        self.session = self.open(None)
        self.left: list[rewake.Session] = []
        self.shown: tuple[rewake.ViewMessage, ...] = ()
        self.ids: list[str] = []

    @property
    def home(self) -> Path:
        return self.directory / f"home{self.homes}"

    def open(self, resume: str | None) -> rewake.Session:
        return rewake.open_session(
            self.project,
            home=self.home,
            resume=resume,
            session_id=None if resume else "s",
            durability="process",
            trace=False,
        )

    def any_of(self, *values: str) -> str:
        return self.data.draw(st.sampled_from(values))

    # --- what it does ------------------------------------------------------------------------

    def prompt(self) -> None:
        self.ids.append(self.session.user(self.any_of("hello", "", " ", "😀\ud800")))

    def answer(self) -> None:
        count = self.data.draw(st.integers(0, 3))
        calls = [rewake.ToolCall(self.any_of("call_1", "../x"), "edit") for _ in range(count)]
        said = rewake.Text(self.any_of("well", ""))
        usage = rewake.Usage(1, 1) if self.data.draw(st.booleans()) else None
        self.ids.append(self.session.assistant([said, *calls], usage=usage))
        if usage is None and self.data.draw(st.booleans()):
            self.session.amend(self.ids[-1], usage=rewake.Usage(2, 2))

    def call(self) -> None:
        entry = self.session.state.conversation.last_assistant()
        calls = (
            [b for b in entry.message.content if isinstance(b, rewake.ToolCall)] if entry else []
        )
        call = calls[0] if calls else rewake.ToolCall("x", "edit")
        path = self.project / self.any_of("a", "b")
        before = path.read_text() if path.exists() else None
        after = self.any_of("one", "two")
        action = self.session.action(call, intent=rewake.FileChange(path, before, after))
        match self.any_of("request", "start", "effect", "raise", "interrupt", "fail", "complete"):
            case "request":
                action.request()
            case "start":
                action.start()
            case "effect":
                action.start()
                path.write_text(after)
            case "raise":
                self.broken(action, RuntimeError("no"))
            case "interrupt":
                self.broken(action, KeyboardInterrupt())
            case "fail":
                action.fail("failed")
            case _:
                with action:
                    path.write_text(after)

    def broken(self, action: rewake.Action, error: BaseException) -> None:
        try:
            break_off(action, error, nothing)
        except (RuntimeError, KeyboardInterrupt) as raised:
            assert raised is error  # noqa: PT017  # two kinds of error, one of them no Exception

    def compact(self) -> None:
        entries = self.session.messages
        keep = [entry.message_id for entry in entries if self.data.draw(st.booleans())]
        self.session.checkpoint("the summary", keep=keep)
        self.shown = ()

    def rewind(self) -> None:
        if self.ids:
            self.session.rewind(self.data.draw(st.sampled_from(self.ids)))
            self.shown = ()

    def note(self) -> None:
        self.session.metadata(title=self.any_of("one", "two"))

    def state_checkpoint(self) -> None:
        self.session.record(self.session.state.checkpoint())

    def look(self) -> None:
        messages = self.session.view()
        assert messages[: len(self.shown)] == self.shown
        self.shown = messages
        if not messages:
            return
        body = {"model": "m", "messages": openai_messages(messages), "tools": TOOLS}
        assert violations_openai(body) == []
        tools = [{"name": "edit", "input_schema": {"type": "object"}}]
        other = {"model": "m", "max_tokens": 9, "messages": anthropic_messages(messages)}
        assert violations_anthropic({**other, "tools": tools}) == []

    def close_and_resume(self) -> None:
        self.session.terminal("done")
        self.session.close()
        self.session = self.open("s")

    def be_killed(self) -> None:
        """What another process finds if this one were dead now."""
        self.left.append(self.session)
        found = self.home
        self.homes += 1
        shutil.copytree(found, self.home)
        self.session = self.open("s")
        assert self.session.resumed is not None
        assert self.session.resumed.damage == ()

    def check(self) -> None:
        self.session.flush()
        live = self.session.state.as_json()
        transcript = transcript_of(self.session)
        found = loaded(transcript)
        assert found.damage == []
        assert found.state.as_json() == live
        assert same(loaded_from_root(transcript).state.as_json()) == same(live)

    def close(self) -> None:
        for session in (*self.left, self.session):
            session.close()


COMMON = ("prompt", "answer", "answer", "call", "call", "call", "look", "look")
RARE = ("compact", "rewind", "note", "state_checkpoint", "close_and_resume", "be_killed")


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_whatever_a_program_does_with_a_session(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        user = User(Path(directory), data)
        try:
            for _ in range(data.draw(st.integers(1, 20))):
                getattr(user, user.any_of(*COMMON, *RARE))()
                user.check()
        finally:
            user.close()
