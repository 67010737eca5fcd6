"""Runs the real agent over a real client library in processes that a test may kill.

It reads one JSON line per life from its input (see `Life`), forks a child that lives it (the
imports, which take seconds, are paid once), writes `pid N`, waits for it and writes `ended STATUS`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import msgspec

from rewake.agent.loop import RunResult
from rewake.agent.ports import Prepared, Reply
from rewake.agent.providers.pydantic_ai_model import PydanticAiModel
from rewake.compose.agents import AgentOptions, build_agent
from rewake.compose.sessions import open_session, sessions
from rewake.model.events import Outcome
from rewake.settings.schema import Settings

MODELS = {"anthropic": "anthropic:claude-sonnet-5-5", "openai": "openai:gpt-6.1-sol"}
COMPACT_AT_TOKENS = 50_000
SESSION_ID = "s"


class Life(msgspec.Struct):
    """What one child is to do: answer `prompt` (None: go on), with the model at `environ`."""

    protocol: str
    home: str
    project: str
    prompt: str | None
    environ: dict[str, str]


class Silent:
    """Nobody watches."""

    def on_request(self) -> None:
        """Nothing."""

    def on_text(self, text: str) -> None:
        """Nothing."""

    def on_answer(self, reply: Reply) -> None:
        """Nothing."""

    def on_notice(self, text: str) -> None:
        """Nothing."""

    def on_call(self, tool_name: str, prepared: Prepared) -> None:
        """Nothing."""

    def on_result(
        self,
        tool_name: str,
        text: str,
        *,
        is_error: bool,
        prepared: Prepared | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        """Nothing."""


async def live(life: Life) -> RunResult:
    """One run: a new session the first time, then always the same one."""
    project = Path(life.project)
    known = sessions(project, home=life.home)
    session = open_session(
        project,
        home=life.home,
        session_id=None if known else SESSION_ID,
        resume=SESSION_ID if known else None,
    )
    model = PydanticAiModel.named(MODELS[life.protocol], life.environ, session.blobs)
    settings = Settings(compact_at_tokens=COMPACT_AT_TOKENS)
    loop = build_agent(
        session,
        model,
        Silent(),
        settings,
        AgentOptions(permission_mode="bypass"),
        cwd=project,
    )
    try:
        return await loop.run(life.prompt)
    finally:
        await model.close()
        session.close()


def be_child(life: Life) -> NoReturn:
    """Live, and never return into the parent's loop."""
    status = 2
    try:
        status = 0 if asyncio.run(live(life)).reason == "done" else 1
    except Exception:  # noqa: BLE001  # a defect: shown, and the status says so
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> None:
    """Fork one child a line."""
    for line in sys.stdin:
        life = msgspec.json.decode(line, type=Life)
        pid = os.fork()
        if pid == 0:
            be_child(life)
        print(f"pid {pid}", flush=True)  # noqa: T201  # the test reads it
        _, status = os.waitpid(pid, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)  # noqa: T201  # the same


if __name__ == "__main__":
    main()
