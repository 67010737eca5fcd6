"""`rewake title ID --generate`: the model says what a session should be called.

The rule kept here: a session is only labelled. No run begins and no interrupted call is settled; what
asking cost is recorded, and where the model has no title the old one stays.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from rewake.agent.providers.choose import open_model
from rewake.cli.jsonout import to_json
from rewake.cli.opening import Agent
from rewake.cli.reporting import TextReporter
from rewake.cli.terminal import one_line, say
from rewake.compose.agents import AgentOptions, build_agent
from rewake.compose.opening import open_for_notes
from rewake.compose.place import Place, find_session, place
from rewake.compose.settings import load_for
from rewake.errors import ModelError
from rewake.session.core import Session


def generate_title(session: str, model: str | None, cwd: Path | None, *, as_json: bool) -> int:
    """Ask, record and print the title; returns the exit status.

    `model` defaults to the settings' small model, else that of the session's newest run. Raises SessionNotFoundError,
    SessionBusyError, UsageError and ModelError where no title can be had.
    """
    at = place(cwd or ".")
    with open_for_notes(at, find_session(at, session)) as opened:
        title = asyncio.run(_asked(opened, model, (cwd or Path()).resolve(), at))
        if not title:
            raise ModelError(
                "The model gave no title, so the session has the one that it had.",
                remedy="Try another one with --model, or give a title yourself.",
            )
        opened.metadata(title=title)
        session_id = opened.session_id
    say(to_json({"session_id": session_id, "title": title}) if as_json else one_line(title))
    return 0


async def title_now(agent: Agent, cwd: Path) -> str:
    """A title for the conversation at hand, by the small model where the settings name one.

    Raises UsageError and ModelError where that can't be opened.
    """
    if agent.small_model is None:
        return await agent.loop.title()
    session = agent.session
    model, _ = open_model(
        agent.small_model, environ=os.environ, settings_model=None, blobs=session.blobs, cwd=cwd
    )
    try:
        return await replace(agent.loop, model=model).title()
    finally:
        await model.close()


async def _asked(session: Session, name: str | None, cwd: Path, at: Place) -> str:
    settings = load_for(replace(at, root=session.root)).settings
    run = session.state.world.run
    model, about = open_model(
        name or settings.small_model or (run.model if run is not None else None),
        environ=os.environ,
        settings_model=settings.model,
        blobs=session.blobs,
        cwd=cwd,
    )
    reporter = TextReporter()
    if name is None:
        reporter.note(about)
    try:
        loop = build_agent(session, model, reporter, settings, AgentOptions("plan"), cwd=cwd)
        title = await loop.title()
    finally:
        reporter.end_line()
        await model.close()
    return title
