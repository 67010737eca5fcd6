"""Commands that are typed at the prompt."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, get_args

from rewake.errors import UsageError

Name = Literal[
    "status",
    "sessions",
    "resume",
    "rewind",
    "undo",
    "diff",
    "tree",
    "branch",
    "fork",
    "title",
    "tag",
    "compact",
    "todos",
    "commands",
    "verify",
    "memory",
    "instructions",
    "skills",
    "theme",
    "mcp",
    "help",
    "quit",
]
_NAMES: Final[dict[str, Name]] = {name: name for name in get_args(Name)}

HELP: Final = """\
/status             this session: model, tokens, where it is recorded
/sessions           the sessions of this project
/resume [ID]        go on with another one; without an id you choose
/rewind [MESSAGE]   go back to just after a message; without one you choose a prompt to ask anew
                    --summarize has the model sum up what is left behind
                    where files were changed since, you say what goes back
/undo               take the newest rewind back
/diff [MESSAGE]     what was changed in files, since that message (or prompt, by number)
/tree               the branches of this session
/branch [N]         go to one of them; without a number you choose
/fork               go on in a copy; this session stays as it is
/title [TEXT]       give this session a title; without a text the model finds one
/tag [TAG…]         tag this session, or say its tags; -TAG takes one away
/compact            replace older messages by a summary of them
/todos              the agent's todo list
/commands           what runs in the background
/verify             run the check command of the settings
/memory             what session memory says, and which notes were recalled and why
/instructions       which AGENTS.md and CLAUDE.md apply here
/skills             the skills, and the commands written in Markdown
/theme [NAME]       the colours: ansi, dark, light or none
/mcp                the MCP servers, and how they are
/help               this
/quit               leave (or Ctrl-D)

Enter sends; Alt-Enter, Esc Enter or a backslash before Enter begins a new line; Ctrl-G opens your
editor. @path gives the model a file, a directory or an image. While the agent works, what you send
waits for its next step; Up takes it back. Esc or Ctrl-C interrupts and keeps what was done; Esc Esc
at an empty prompt lets you edit an earlier one. Shift-Tab changes the permission mode."""


def descriptions() -> dict[str, str]:
    """Each command and what it does, for completion."""
    found: dict[str, str] = {}
    for line in HELP.partition("\n\n")[0].split("\n"):
        name, _, about = line[1:20].partition(" ")
        if line.startswith("/"):
            found[name] = line[20:].strip() or about.strip()
    return found


@dataclass(frozen=True, slots=True)
class Command:
    """One command with what stands after it."""

    name: Name
    argument: str = ""


def is_command(text: str) -> bool:
    """Whether a prompt is meant as a command, known or not."""
    word = text.strip().partition(" ")[0]
    return word.startswith("/") and "/" not in word[1:] and "\n" not in text.strip()


def parse(text: str, others: Collection[str] = ()) -> Command | None:
    """The command in `text`; None when it is a prompt, such as one that begins with one of `others`.

    A path at the beginning of a prompt is no command. Raises UsageError for an unknown command.
    """
    if not is_command(text):
        return None
    word, _, argument = text.strip().partition(" ")
    name = _NAMES.get(word[1:])
    if name is None:
        if word[1:] in others:
            return None
        known = " ".join(f"/{known}" for known in (*_NAMES, *others))
        raise UsageError(f"There is no command {word}.", remedy=f"There are: {known}.")
    return Command(name, argument.strip())
