"""What a user asked for on the command line, once it has been parsed.

Values only: nothing is opened, read or printed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

OutputFormat = Literal["text", "json", "stream-json"]
Mode = Literal["default", "acceptEdits", "plan", "bypass"]
OnUnknown = Literal["tell", "stop"]
OnRunning = Literal["leave", "wait", "stop"]


@dataclass(frozen=True, slots=True)
class AgentChoices:
    """Which session, which model, which limits. None leaves a choice to settings and defaults.

    `resume` is an id, the beginning of one, a title or `newest`. `max_cost` is US dollars.
    `demo_project` narrows the tools to the one place of the demo's project (see `demo`). What the
    run before of a resumed session had is in `model_before` and `mode_before`. `setting_sources` and
    `settings` are as their options say; `interactive` says that somebody sits at a prompt, so that a
    settings file that can't be used is left out instead of ending it.
    """

    cwd: Path | None = None
    model: str | None = None
    permission_mode: Mode | None = None
    session_id: str | None = None
    resume: str | None = None
    persist: bool = True
    max_steps: int | None = None
    max_cost: float | None = None
    on_unknown: OnUnknown = "tell"
    on_running: OnRunning = "leave"
    fork: bool = False
    resume_at: str | None = None
    with_files: Path | None = None
    demo_project: Path | None = None
    model_before: str | None = None
    mode_before: str | None = None
    setting_sources: str | None = None
    settings: str | None = None
    interactive: bool = False
