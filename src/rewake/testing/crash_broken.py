"""Builds that are broken on purpose, to show that the suite would see it.

The rule kept here: each breaks exactly one promise, and names what the suite must then report. The
source text runs in the program's process before its `main`; nothing of it is in the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rewake.testing.crash_kill import Kill
from rewake.testing.crash_report import Kind


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken build: what it does, what must be seen, and a kill after which it can be seen."""

    name: str
    prelude: str
    seen_as: Kind
    kill: Kill


BUILDS: Final = (
    Broken(
        "a commit returns before its lines are written",
        """
from rewake.log.appender import Appender
append = Appender.append
held = []
def late(self, data):
    held.append(data)
    if len(held) == 16:
        append(self, b"".join(held))
        held.clear()
    return self.size
Appender.append = late
""",
        "lost",
        Kill("point", "before_replace_target", 8),
    ),
    Broken(
        "an outcome is recorded before the effect",
        """
from rewake.agent.execute import Executor
perform = Executor._perform
async def hasty(self, action, tool, prepared):
    if tool.read_only:
        return await perform(self, action, tool, prepared)
    action.intent = prepared.intent
    action.start()
    action.complete("done")
    await tool.run(prepared, self.context)
Executor._perform = hasty
""",
        "verdict",
        Kill("point", "before_replace_target", 8),
    ),
    Broken(
        "an effect comes before its intent",
        """
from rewake.agent.execute import Executor
perform = Executor._perform
async def eager(self, action, tool, prepared):
    if tool.read_only:
        return await perform(self, action, tool, prepared)
    output = await tool.run(prepared, self.context)
    action.intent = prepared.intent
    action.start()
    self._record(action, prepared, output)
Executor._perform = eager
""",
        "intent",
        Kill("point", "after_replace_target", 8),
    ),
    Broken(
        "a file is written in place, piece by piece",
        """
import os
from rewake.agent.tools import change
from rewake.log.disk import crash_point
def replace(planned, created):
    created.make(os.path.dirname(planned.target.real))
    with open(planned.target.real, "wb", buffering=0) as file:
        file.write(planned.data[: len(planned.data) // 2])
        crash_point("before_replace_target")
        file.write(planned.data[len(planned.data) // 2 :])
change._replace = replace
""",
        "files",
        Kill("point", "before_replace_target", 8),
    ),
)
