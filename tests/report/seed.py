"""Sessions to be looked at: one with everything in it, one with hostile content, long ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tests.browse.seed import ANSWER, Seeded

import rewake
from rewake.compose.reports import Reported, report
from rewake.model.codec import seal_line
from rewake.model.content import Image, Text, Thinking, ToolCall
from rewake.model.events import AgentEvent, AgentIntent, Outcome, ToolLifecycle
from rewake.session.core import Session

AGENT = "01a00000-0000-7000-8000-00000000a9e1"
AGENT_BELOW = "01a00000-0000-7000-8000-00000000a9e2"
_TIMESTAMP = re.compile(r'"timestamp":"[^"]*"')
_BEGUN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
# What an event takes, in seconds: enough to make a timeline worth looking at.
_TAKES = {"message": 4.2, "tool_lifecycle": 1.4, "rewind": 60.0, "run": 300.0}

CODE = '''"""Retries a call."""

import random
import time


def retry(call, attempts=3, delay=0.1):
    """Call until it works; wait longer each time."""
    for attempt in range(attempts):
        try:
            return call()
        except OSError:
            if attempt == attempts - 1:
                raise
            time.sleep(delay * 2**attempt)
'''


def usage(number: int) -> rewake.Usage:
    sent = 12_000 + 2_700 * number
    return rewake.Usage(sent, 350 + 40 * (number % 5), sent * 8 // 10, 2_000, 0.011 * (number + 1))


class ReportSeed(Seeded):
    """Sessions with everything that a page shows."""

    def report(self, session_id: str, name: str = "report.html", **more: object) -> Reported:
        return report(
            session_id,
            self.root / name,
            project=self.project,
            home=self.home,
            **more,  # type: ignore[arg-type]  # the caller's own keywords
        )

    def everything(self) -> str:
        """Steps, edits, an error, a verdict, a compaction, a branch, a picture, a sub-agent."""
        (self.project / "retry.py").write_text("def retry(call):\n    return call()\n")
        with self.open(model="test:model-large", permission_mode="ask") as session:
            session.metadata(title="Fix the retry loop", tags=["bug", "retry"])
            session.user("Why does the retry test fail?\n\nPlease fix it, and keep the API.")
            self._fix(session)
            back = session.assistant("All **three** tests pass now.", usage=usage(4))
            session.user("Write the documentation for it in French")
            session.assistant("Voilà: `retry` appelle la fonction…", usage=usage(5))
            session.rewind(back)
            session.user("Now let a sub-agent look for other loops like this one")
            session_id = session.session_id
            self._agent(session)
        with self.open(resume=session_id, model="test:model-small") as session:
            session.checkpoint(
                "The retry loop is fixed; **two other loops** were found.",
                keep=[session.messages[-1].message_id],
                trigger="tokens",
            )
            session.user("Thanks. Show me the chart.")
            picture = session.blobs.put(PNG)
            session.append(
                rewake.Message(
                    "user", (Image("image/png", picture, len(PNG)),), source="attachment"
                )
            )
            session.assistant("That is a *small* one.", model="test:model-small", usage=usage(2))
            session.terminal("done")
        self.spread_times(session_id)
        return session_id

    def _fix(self, session: Session) -> None:
        path = self.project / "retry.py"
        before = path.read_text()
        session.transition("idle", "requesting")
        session.assistant(
            [
                Thinking("The loop returns at once.\nIt never gets to the second attempt."),
                Text(ANSWER),
                ToolCall("c1", "Read", {"file_path": str(path)}),
            ],
            model="test:model-large",
            usage=usage(0),
        )
        self.act(session, rewake.ReadOnlyIntent(), before)
        session.transition("running_tools", "requesting")
        edit = ToolCall("c2", "Edit", {"file_path": str(path), "old": before, "new": CODE})
        session.assistant([edit], model="test:model-large", usage=usage(1))
        change = rewake.FileChange(path, before, CODE)
        with session.action(edit, intent=change) as action:
            path.write_text(CODE)
            action.complete("edited retry.py")
        session.transition("running_tools", "requesting")
        test = ToolCall("c3", "Bash", {"command": "pytest -q tests/test_retry.py | tail -n 3"})
        session.assistant([Text("Now the tests."), test], usage=usage(2))
        with session.action(test, intent=rewake.OtherIntent()) as action:
            action.fail(
                "\x1b[31m1 failed\x1b[0m, 2 passed in 0.12s\nE   AssertionError: 3 != 2",
                outcome=Outcome(exit_code=1, duration_ms=1400),
            )
        again = ToolCall("c4", "Deploy", {"target": "staging", "attempts": 2})
        session.assistant([Text("Once more, on staging."), again], usage=usage(3))
        call_id = session.record(
            ToolLifecycle("Deploy", "requested", message_id=session.messages[-1].message_id)
        ).event_id
        session.record(
            ToolLifecycle(
                "Deploy",
                "resolved",
                call_id,
                session.messages[-1].message_id,
                resolution=rewake.Resolution(
                    "unknown", {"exit": "missing", "log": "connecting …\nuploading 3 of 7"}
                ),
                result=rewake.Result((Text("It was interrupted; nobody can tell."),)),
            )
        )

    def act(self, session: Session, intent: object, result: str) -> None:
        block = session.messages[-1].message.content[-1]
        assert isinstance(block, ToolCall)
        with session.action(block, intent=intent) as action:  # type: ignore[arg-type]  # one of its kinds
            action.complete(result)

    def _agent(self, session: Session) -> None:
        agent_id = AGENT
        task = ToolCall("c5", "Task", {"description": "Find other retry loops"})
        message = session.assistant([task], usage=usage(6))
        session.record(AgentEvent(agent_id, "running", "Find other retry loops", "explore"))
        with session.action(task, intent=AgentIntent(agent_id)) as action:
            self._sidechain(session, agent_id, below=AGENT_BELOW)
            session.record(AgentEvent(agent_id, "completed"))
            action.complete("Two more: in fetch.py and in upload.py")
        assert message
        session.assistant("There are two more.", usage=usage(7))

    def _sidechain(self, session: Session, agent_id: str, below: str = "") -> None:
        """As a sub-agent's own transcript stands beside its parent's; `below` it is another one."""
        with self.open() as child:
            child.user("Find other retry loops")
            child.assistant("I look at **fetch.py** first.", model="test:model-small")
            if below:
                call = ToolCall("c1", "Task", {"description": "Read upload.py"})
                child.assistant([call])
                with child.action(call, intent=AgentIntent(below)) as action:
                    action.complete("It has one, too.")
            child.assistant("Two more: in fetch.py and in upload.py")
        self._put_beside(session, child, agent_id)
        if below:
            with self.open() as grandchild:
                grandchild.metadata(title="Read upload.py", agent_type="reader")
                grandchild.metadata(parent_agent_id=agent_id)
                grandchild.user("Read upload.py")
                grandchild.assistant("It has *one*, too.")
            self._put_beside(session, grandchild, below)

    def _put_beside(self, session: Session, child: Session, agent_id: str) -> None:
        lines = self.paths(child.session_id).transcript.read_text()
        directory = self.paths(session.session_id).agents
        directory.mkdir(mode=0o700, exist_ok=True)
        text = resealed(lines.replace(child.session_id, session.session_id))
        path = directory / f"{agent_id}.jsonl"
        path.write_text(text)
        path.chmod(0o600)

    def spread_times(self, session_id: str) -> None:
        """Give the events times as if a model and tools had been at work."""
        path = self.paths(session_id).transcript
        path.write_text(resealed("".join(_spread(path.read_text().splitlines(keepends=True)))))


def _spread(lines: list[str]) -> Iterator[str]:
    now = _BEGUN
    for number, line in enumerate(lines):
        kind = re.search(r'"event_type":"(\w+)"', line)
        takes = _TAKES.get(kind[1], 0.02) if kind else 0.0
        now += timedelta(seconds=takes * (1 + number % 7 / 3))
        stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        yield _TIMESTAMP.sub(f'"timestamp":"{stamp}"', line, count=1)


def resealed(lines: str) -> str:
    """Lines that were changed, with the checksums that belong to them."""
    bodies = (line.rpartition(',"crc32"')[0] for line in lines.split("\n") if line)
    return b"".join(seal_line(body.encode()) for body in bodies).decode()


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
