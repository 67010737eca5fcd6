"""The tools of the coding agent, one module each."""

from __future__ import annotations

from rewake.agent.ports import Tool
from rewake.agent.tools.background import BashOutputTool, KillShellTool
from rewake.agent.tools.bash import BashTool
from rewake.agent.tools.edit import EditTool
from rewake.agent.tools.glob import GlobTool
from rewake.agent.tools.grep import GrepTool
from rewake.agent.tools.read import ReadTool
from rewake.agent.tools.todo import TodoWriteTool
from rewake.agent.tools.write import WriteTool


def builtin_tools() -> tuple[Tool, ...]:
    """All of them, in the order in which a model is told of them."""
    return (
        ReadTool(),
        EditTool(),
        WriteTool(),
        GrepTool(),
        GlobTool(),
        BashTool(),
        BashOutputTool(),
        KillShellTool(),
        TodoWriteTool(),
    )
