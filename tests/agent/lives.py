"""Runs the real agent over a real client library in processes that a test may kill.

`python lives.py PROTOCOL HOME PROJECT` reads one JSON line per life from its input, `{"prompt": …}`,
forks a child that lives it (the imports, which take seconds, are paid once), writes `pid N`, waits
for it and writes `ended STATUS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import rewake
from rewake.agent.loop import RunResult
from rewake.agent.ports import Prepared, Reply
from rewake.agent.providers.pydantic_ai_model import PydanticAiModel
from rewake.compose.agents import AgentOptions, build_agent
from rewake.settings.load import Settings

MODELS = {"anthropic": "anthropic:claude-sonnet-5-5", "openai": "openai:gpt-6.1-sol"}
COMPACT_AT_TOKENS = 50_000
SESSION_ID = "s"


class Silent:
    """Nobody watches."""

    def on_text(self, text: str) -> None:
        """Nothing."""

    def on_answer(self, reply: Reply) -> None:
        """Nothing."""

    def on_notice(self, text: str) -> None:
        """Nothing."""

    def on_call(self, tool_name: str, prepared: Prepared) -> None:
        """Nothing."""

    def on_result(self, tool_name: str, text: str, *, is_error: bool) -> None:
        """Nothing."""


async def live(protocol: str, home: Path, project: Path, prompt: str | None) -> RunResult:
    """One run: a new session the first time, then always the same one."""
    known = rewake.sessions(project, home=home)
    session = rewake.open_session(
        project,
        home=home,
        session_id=None if known else SESSION_ID,
        resume=SESSION_ID if known else None,
    )
    model = PydanticAiModel.named(MODELS[protocol], os.environ, session.blobs)
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
        return await loop.run(prompt)
    finally:
        await model.close()
        session.close()


def main(protocol: str, home: Path, project: Path) -> None:
    """Fork one child a line."""
    for line in sys.stdin:
        prompt = json.loads(line)["prompt"]
        pid = os.fork()
        if pid == 0:
            result = asyncio.run(live(protocol, home, project, prompt))
            sys.stderr.write(str(result.error or ""))
            os._exit(0 if result.reason == "done" else 1)
        print(f"pid {pid}", flush=True)  # noqa: T201  # the test reads it
        _, status = os.waitpid(pid, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)  # noqa: T201  # the same


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
