"""What the commands at the prompt show that change nothing, and tags.

The rule kept here: what is shown is the fold of the session, or what the catalogue says; and it is
clean.
"""

from __future__ import annotations

import sys
from typing import Final

from rewake.cli.checking import commands
from rewake.cli.expanding import help_lines, words_at
from rewake.cli.opening import Agent, working_directory
from rewake.cli.options import AgentChoices
from rewake.cli.slash import HELP, Name
from rewake.cli.terminal import clean, one_line, say, style_for
from rewake.compose.labels import changed_tags
from rewake.compose.place import place
from rewake.resume.listing import tags_of

_MARKS: Final = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]", "cancelled": "[-]"}


def show(name: Name, agent: Agent | None, choices: AgentChoices) -> None:
    """Obey one of the commands that only look."""
    match name:
        case "help":
            say(HELP)
            for line in help_lines(words_at(working_directory(choices))):
                say(line)
        case "status":
            _status(agent, choices)
        case "todos":
            _todos(agent)
        case "commands":
            commands(agent)
        case "memory":
            from rewake.cli.recalled import print_memory

            session = agent.session if agent is not None else None
            print_memory(session.memory if session else "", session.messages if session else ())
        case "instructions":
            _instructions(agent, choices)
        case "mcp":
            from rewake.cli.mcp import print_servers

            print_servers(agent, working_directory(choices))
        case "skills":
            from rewake.cli.skills import print_skills

            print_skills(working_directory(choices))
        case _:
            from rewake.cli.sessions import print_sessions

            print_sessions(choices.cwd, everywhere=False, limit=None)


def _instructions(agent: Agent | None, choices: AgentChoices) -> None:
    """What applies to the conversation, also where it has come to work since."""
    from rewake.cli.instructions import print_instructions
    from rewake.compose.memory import instructions, instructions_of

    if agent is not None:
        print_instructions(instructions_of(agent.loop))
    else:
        print_instructions(instructions(None, working_directory(choices)))


def _status(agent: Agent | None, choices: AgentChoices) -> None:
    style = style_for(sys.stdout)
    if agent is None:
        root = clean(str(place(working_directory(choices)).root))
        say(f"No session yet: it begins with your first prompt, in {root}.")
        return
    session, world = agent.session, agent.session.state.world
    cost = f", ${world.usage.cost_usd:.4f}" if world.usage.cost_usd else ""
    rows = {
        "session": session.session_id,
        "title": world.title,
        "project": str(session.root),
        "model": agent.model.name,
        "permissions": agent.loop.executor.permissions.mode,
        "messages": f"{len(session.messages)}",
        "tokens": f"{world.usage.input_tokens:,} in, {world.usage.output_tokens:,} out{cost}",
        "transcript": str(session.transcript or "(not recorded)"),
    }
    for name, value in rows.items():
        say(f"{style.dim(f'{name:<11}')} {one_line(value)}")


def _todos(agent: Agent | None) -> None:
    todos = agent.session.state.conversation.todos if agent is not None else ()
    for todo in todos:
        say(f"{_MARKS[todo.status]} {one_line(todo.content)}")
    if not todos:
        say("The todo list is empty.")


def tag(agent: Agent | None, said: str) -> None:
    """Add tags, take some away, and say which there are."""
    if agent is None:
        return
    session = agent.session
    words = said.split()
    taken = {word[1:] for word in words if word.startswith("-")}
    added = [word for word in words if not word.startswith("-")]
    if words:
        session.metadata(tags=changed_tags(session, added, taken) or None)
    tags = tags_of(session.state.world.metadata.get("tags"))
    say(one_line(" ".join(tags)) or "No tags.")
