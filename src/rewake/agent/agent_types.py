"""The kinds of sub-agents: what each is for, which tools it has, and what it is told.

The rule kept here: a type can only take away. It names tools among those that its parent has; what a
call may do is decided by the permissions of the session, whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewake.agent.ports import Tool
from rewake.script import who_it_is

DEFAULT_TYPE: Final = "worker"
TASK_TOOLS: Final = ("Task", "TaskOutput", "TaskStop")
"""By these an agent has others; how deep they nest decides who has them, besides its type."""


@dataclass(frozen=True, slots=True)
class AgentType:
    """A kind of sub-agent. `tools` of None are all that its parent has; `model` of None is its parent's.

    `max_steps` of None is what the settings say. With `gives_verdict` its last word must be one.
    `path` is the file that defines it, None for one that is built in; with `is_foreign` that comes
    with the project.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None
    model: str | None = None
    max_steps: int | None = None
    gives_verdict: bool = False
    path: Path | None = None
    is_foreign: bool = False

    def among(self, tools: Iterable[Tool]) -> tuple[Tool, ...]:
        """Those of the parent's tools that an agent of this type has."""
        return tuple(tool for tool in tools if self.tools is None or tool.spec.name in self.tools)


_READS: Final = ("Read", "Grep", "Glob")
_EXPLORER: Final = """\
You look around and report. You can't change anything. Search broadly first, then read what matters.
Your last answer is all that whoever asked you gets: say what you found, with paths and line numbers,
and what you looked for in vain."""
_WORKER: Final = """\
You do one piece of work from beginning to end, on your own. Nobody answers questions: where the task
leaves something open, choose what its wording makes most likely, and say so.
Your last answer is all that whoever asked you gets: say what you did, in which files, how you checked
it, and what is left."""
_VERIFIER: Final = """\
You check whether something is as it is said to be. You have no tools to edit; run tests and commands,
read code, and try to break it. Believe nothing that you have not seen. Do not mend what you find.
Your last answer is all that whoever asked you gets: say what you checked, how, and what you saw. Its
last line must be one of

Verdict: passed
Verdict: failed
Verdict: inconclusive"""

BUILT_IN: Final[Mapping[str, AgentType]] = {
    found.name: found
    for found in (
        AgentType(
            "explorer",
            "Looks around in the project and reports; it can't change anything. For questions whose "
            "answer takes many searches, so that they don't fill your own context.",
            _EXPLORER,
            _READS,
        ),
        AgentType(
            "worker",
            "Does a piece of work with all tools. For work that can be told whole in one prompt.",
            _WORKER,
        ),
        AgentType(
            "verifier",
            "Checks work that is done, with commands and by reading, and ends with a verdict.",
            _VERIFIER,
            (*_READS, "Bash", "BashOutput", "KillShell"),
            gives_verdict=True,
        ),
    )
}


def system_prompt(session_prompt: str, kind: AgentType) -> str:
    """What an agent is told before anything else: what its session is, then what it is."""
    return (
        f"{session_prompt}\n\n{who_it_is(kind.name)}: another agent has given you a task."
        f"\n\n{kind.prompt.strip()}"
    )
