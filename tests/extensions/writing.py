"""Writes skills, commands and settings where users have them."""

from __future__ import annotations

import json
from pathlib import Path


def write(path: Path, text: str) -> Path:
    """A file, with the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def skill(root: Path, name: str, description: str = "Does it.", body: str = "Do it.") -> Path:
    """A skill below a root such as `.rewake`."""
    text = f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"
    return write(root / "skills" / name / "SKILL.md", text)


def user_hooks(home: Path, event: str, *commands: str, matcher: str = "", **more: object) -> None:
    """User settings with these hooks for one event."""
    hooks = [{"type": "command", "command": command, **more} for command in commands]
    settings = {"hooks": {event: [{"matcher": matcher, "hooks": hooks}]}}
    write(home / "settings.json", json.dumps(settings))
