"""All commands and their options, as data.

The rules kept here: this table is the only place where an option is defined. The quick parser reads
it to start without the command-line library, whose import alone takes as long as a whole command
may; help, errors and shell completion are that library's, built from the same table. And only the
part that a command is in is loaded for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from rewake.cli.table.parts import NO_VALUE, Command, Option, Value, Values
from rewake.cli.table.root import ROOT

__all__ = ["COMMANDS", "NO_VALUE", "ROOT", "Command", "Option", "Value", "Values"]

# In the order in which help lists them.
_PARTS: Final = {
    "sessions": "looking",
    "path": "looking",
    "commands": "looking",
    "trace": "looking",
    "show": "looking",
    "agents": "looking",
    "rewind": "changing",
    "diff": "changing",
    "resolve": "changing",
    "title": "changing",
    "tag": "changing",
    "browse": "looking",
    "search": "looking",
    "reindex": "looking",
    "check": "upkeep",
    "repair": "upkeep",
    "export": "upkeep",
    "report": "looking",
    "view": "looking",
    "import": "upkeep",
    "delete": "upkeep",
    "trash": "upkeep",
    "gc": "upkeep",
    "stats": "looking",
    "skills": "working",
    "config": "working",
    "instructions": "working",
    "memory": "working",
    "mcp": "working",
    "demo": "working",
}


class _Commands(Mapping[str, Command]):
    """All commands by name; each is loaded when it is looked up."""

    def __getitem__(self, name: str) -> Command:
        part = import_module(f"{__name__}.{_PARTS[name]}")
        found: dict[str, Command] = {command.name: command for command in part.COMMANDS}
        return found[name]

    def __contains__(self, name: object) -> bool:
        return name in _PARTS

    def __iter__(self) -> Iterator[str]:
        return iter(_PARTS)

    def __len__(self) -> int:
        return len(_PARTS)


COMMANDS: Final[Mapping[str, Command]] = _Commands()
