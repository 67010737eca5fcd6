"""Files named in a prompt as `@path`: their content goes to the model with it.

The rules kept here:

- Only what a person typed is looked at, never what was pasted or piped in, and only what names a file
  or directory that is there. Everything else stays the text that it is.
- A file is read by the agent's own Read tool, and the session records it as such a call that no
  message asked for. So the model may edit it at once, also after a resume, and a rule that denies
  reading it holds here, too.
- What can't be given to the model is an error before anything is sent.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from rewake.agent.ports import ToolContext, ToolInputError, ToolOutput
from rewake.agent.tools.paths import shown
from rewake.agent.tools.read import ReadTool
from rewake.cli.opening import Agent
from rewake.cli.running import Content
from rewake.errors import UsageError
from rewake.model.content import ContentBlock, Image, Text, plain_text
from rewake.model.events import ReadOnlyIntent

_MENTION: Final = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>(?:\\.|[^\s\\"])+))')
_ATTACHED: Final = "[rewake] Attached: "
_TRAILING: Final = ".,;:!?)]}'\""
_IMAGES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_LISTED_MAX: Final = 200
_DROPPED_CHARS_MAX: Final = 4096


def mention_of(path: str) -> str:
    """How a path is mentioned."""
    return f'@"{path}"' if re.search(r"\s", path) else f"@{path}"


def dropped(pasted: str, root: Path) -> str | None:
    """The mention for a path of an image that was pasted or dropped; None for any other text.

    Terminals paste a dropped file's path quoted, with backslashes or as a URL.
    """
    text = pasted.strip()
    if not text or "\n" in text or len(text) > _DROPPED_CHARS_MAX:
        return None
    if text[0] == text[-1] and text[0] in "'\"" and len(text) > 1:
        text = text[1:-1]
    elif text.startswith("file://"):
        text = unquote(text.removeprefix("file://"))
    else:
        text = re.sub(r"\\(.)", r"\1", text)
    if not text.lower().endswith(_IMAGES) or '"' in text:
        return None
    return f"{mention_of(text)} " if _found(text, root, root) is not None else None


async def with_mentions(agent: Agent, text: str, typed: str) -> Content:
    """The prompt with what is mentioned in its typed part. Raises UsageError.

    Each file that was read is recorded as read; durable with the prompt.
    """
    context = agent.loop.executor.context
    blocks: list[ContentBlock] = []
    taken: set[str] = set()
    for match in _MENTION.finditer(typed):
        path = _named(match, context)
        if path is not None and str(path) not in taken:
            taken.add(str(path))
            blocks += await _attached(agent, path)
    return (Text(text), *blocks) if blocks else text


def _named(match: re.Match[str], context: ToolContext) -> Path | None:
    quoted = match["quoted"]
    if quoted is not None:
        return _found(quoted, context.project, context.cwd)
    plain = re.sub(r"\\(.)", r"\1", match["plain"])
    for name in (plain, plain.rstrip(_TRAILING)):
        path = _found(name, context.project, context.cwd)
        if path is not None:
            return path
    return None


def _found(name: str, project: Path, cwd: Path) -> Path | None:
    for base in (project, cwd):
        try:
            path = Path(os.path.realpath(base / Path(name).expanduser()))
            if path.exists():
                return path
        except (OSError, ValueError, RuntimeError):
            continue  # no such user, a NUL, a name too long: no file
    return None


async def _attached(agent: Agent, path: Path) -> list[ContentBlock]:
    context = agent.loop.executor.context
    # Whoever names a file may show it, wherever it is; the agent itself can't go there.
    wider = replace(context, extra_directories=(*context.extra_directories, path.parent))
    name = shown(str(path), context)
    if agent.loop.executor.permissions.forbids("Read", name):
        raise UsageError(
            f"A rule forbids to read {name}.",
            remedy="Change permissions.deny in the settings, or leave it out.",
        )
    listing = _listing(path)
    if listing is not None:
        return [Text(f"{_ATTACHED}the directory {name}\n{listing}")]
    output = await _read(agent, path, wider)
    if any(isinstance(block, Image) for block in output.content):
        return list(output.content)
    said = plain_text(output.content)
    if output.is_error and path.suffix.lower() in _IMAGES:
        raise UsageError(said, remedy="Name another image, or leave it out.")
    return [Text(f"{_ATTACHED}the file {name}\n{said}")]


async def _read(agent: Agent, path: Path, context: ToolContext) -> ToolOutput:
    tool = ReadTool()
    arguments = {"file_path": str(path)}
    action = agent.session.action("Read", intent=ReadOnlyIntent(), arguments=arguments)
    action.request()
    try:
        prepared = tool.prepare(action.call_id, arguments, context)
    except ToolInputError as error:
        action.fail(str(error))
        raise UsageError(str(error), remedy="Name another file.") from error
    action.start()
    output = await tool.run(prepared, context)
    # What it says goes with the prompt: a fact is written once.
    if output.is_error:
        action.fail(plain_text(output.content))
    else:
        action.complete((), outcome=output.outcome)
    return output


def _listing(path: Path) -> str | None:
    """What is in a directory; None for a file."""
    if not path.is_dir():
        return None
    try:
        with os.scandir(path) as entries:
            names = sorted(f"{one.name}/" if one.is_dir() else one.name for one in entries)
    except OSError as error:
        raise UsageError(
            f"{path} can't be read: {error.strerror or error}.", remedy="Leave it out."
        ) from error
    more = len(names) - _LISTED_MAX
    rest = [f"… and {more} more"] if more > 0 else []
    return "\n".join([*names[:_LISTED_MAX], *rest])
