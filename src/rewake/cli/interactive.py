"""`rewake` in a terminal: a conversation, prompt by prompt.

The rules kept here: Ctrl-C ends the answer that is being given, never the conversation; nothing is
recorded before the first prompt; and the session is closed in good order however the user leaves.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, assert_never

from rewake.cli.asking import asker_for
from rewake.cli.branching import Branching, leave
from rewake.cli.expanding import Word, help_lines, words_at
from rewake.cli.failing import for_command_line
from rewake.cli.opening import Agent, open_agent, taken_up, working_directory
from rewake.cli.options import AgentChoices
from rewake.cli.reporting import TextReporter
from rewake.cli.run import tell_resumed
from rewake.cli.running import exit_code, exit_code_of, run_prompt
from rewake.cli.settled import ask_for_trust
from rewake.cli.signals import Stopper
from rewake.cli.slash import HELP, Command, Name, parse
from rewake.cli.terminal import clean, one_line, say, style_for
from rewake.compose.labels import changed_tags
from rewake.compose.place import place
from rewake.errors import ExitCode, RewakeError, StorageError, UsageError
from rewake.resume.listing import tags_of

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_NO_SESSION: Final = "No session yet: it begins with your first prompt."
_WELCOME: Final = "Enter sends, Esc Enter begins a line, Ctrl-C interrupts, Ctrl-D quits, /help"


def require_terminal() -> None:
    """Raises UsageError without a terminal."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "A conversation needs a terminal, and there is none here.",
            remedy='Give a prompt instead: rewake -p "…" (or rewake -p - to read it from stdin).',
        )


def converse(choices: AgentChoices) -> int:
    """Talk until the user leaves; returns the exit status."""
    choices = replace(choices, interactive=True)
    exact, where = taken_up(choices)
    ask_for_trust(exact)
    return asyncio.run(_converse(choices, exact, where))


async def _converse(given: AgentChoices, choices: AgentChoices, where: str) -> int:
    stopper = Stopper()
    stopper.install()
    reporter = TextReporter(answers=sys.stdout, notes=sys.stdout, streams=True)
    if where:
        reporter.note(where)
    conversation = Conversation(given, choices, reporter, stopper)
    try:
        if choices.resume is not None:
            conversation.agent_now()
        reporter.note(_WELCOME)
        return await conversation.talk()
    finally:
        await conversation.close()


@dataclass(slots=True)
class Conversation:
    """The terminal's side of a session. The agent is opened with the first prompt.

    `given` is what the user asked for, `choices` what follows from it for the session at hand.
    """

    given: AgentChoices
    choices: AgentChoices
    reporter: TextReporter
    stopper: Stopper
    agent: Agent | None = None
    # Whether something was recorded after the last end of a run, so that closing must record one.
    _has_open_end: bool = False
    # What stands at the next prompt already, to be changed and sent.
    _draft: str = ""

    async def talk(self) -> int:
        """Read prompts and answer them until the user leaves or something ends it."""
        prompt = _prompt_session(self.choices)
        while True:
            text = await self._read(prompt)
            if text is None:
                return int(ExitCode.DONE if self.stopper.reason is None else self._stopped())
            try:
                command = parse(text, self._others(text))
                if command is None:
                    ending = await self._answer(text)
                else:
                    ending = await self._obey(command)
            except StorageError:
                raise
            except RewakeError as error:
                for_command_line(error)
                self.reporter.warn(f"{error.message} {error.remedy}")
                continue
            if ending is not None:
                return int(ending)

    def _stopped(self) -> ExitCode:
        return exit_code_of(self.stopper.reason or "interrupted")

    async def _read(self, prompt: PromptSession[str]) -> str | None:
        """The next prompt that says something; None when the user leaves or a signal ends it."""
        forget = self.stopper.on_stop(lambda: leave(prompt))
        try:
            while self.stopper.reason is None:
                draft, self._draft = self._draft, ""
                try:
                    text = await prompt.prompt_async(default=draft, handle_sigint=False)
                except KeyboardInterrupt:
                    continue
                except EOFError:
                    return None
                if text.strip():
                    return text
            return None
        finally:
            forget()

    async def _answer(self, text: str) -> ExitCode | None:
        """Answer one prompt; an exit status where the conversation can't go on."""
        agent = self.agent_now()
        result = await run_prompt(agent, text, self.stopper)
        self._has_open_end = False
        if result.reason == "interrupted":
            say()  # the terminal has just echoed ^C
            self.reporter.warn("Interrupted. What was done so far is kept; go on as you like.")
            self.stopper.forget()
            return None
        if result.reason in {"terminated", "hangup", "storage_error"}:
            if result.error is not None:
                self.reporter.warn(f"Error: {result.error}")
            return exit_code(result)
        if result.error is not None:
            self.reporter.warn(f"Error: {result.error}")
        elif result.reason != "done":
            self.reporter.warn(f"Stopped: {result.reason.replace('_', ' ')}.")
        return None

    def agent_now(self) -> Agent:
        """The agent, opened if it isn't yet."""
        if self.agent is None:
            ask = asker_for(self.reporter, self.stopper)
            self.agent = open_agent(self.choices, self.reporter, ask=ask)
            for sentence in self.agent.warnings:
                self.reporter.warn(sentence)
            for sentence in self.agent.about:
                self.reporter.note(sentence)
            self._has_open_end = True
            if self.agent.session.resumed is not None:
                tell_resumed(self.agent.session.resumed, self.reporter)
        return self.agent

    async def close(self) -> None:
        """Record the end if that isn't done, commit and release."""
        agent, self.agent = self.agent, None
        if agent is None:
            return
        try:
            if self._has_open_end:
                agent.session.terminal(_end_of(agent, self.stopper))
        finally:
            await agent.close()
        if agent.session.transcript is not None:
            session_id = one_line(agent.session.session_id)
            self.reporter.note(f"Session {session_id}; go on with: rewake --resume {session_id}")

    # --- commands ------------------------------------------------------------------------

    async def _obey(self, command: Command) -> ExitCode | None:
        match command.name:
            case "quit":
                return ExitCode.DONE
            case "resume":
                await self._resume(command.argument)
            case "compact":
                await self._compact()
            case "rewind" | "undo" | "tree" | "branch":
                await self._go_elsewhere(command)
            case "diff":
                self._diff(command.argument)
            case "fork":
                await self._fork()
            case "title":
                await self._title(command.argument)
            case "tag":
                self._tag(command.argument)
            case "help" | "status" | "todos" | "sessions" | "memory" | "skills" | "instructions":
                self._show(command.name)
            case _:
                assert_never(command.name)
        return None

    def _show(self, name: Name) -> None:
        match name:
            case "help":
                say(HELP)
                for line in help_lines(self._words()):
                    say(line)
            case "status":
                self._status()
            case "todos":
                self._todos()
            case "memory":
                self._memory()
            case "instructions":
                from rewake.cli.instructions import print_instructions
                from rewake.compose.memory import instructions

                print_instructions(instructions(None, working_directory(self.choices)))
            case "skills":
                from rewake.cli.skills import print_skills

                print_skills(working_directory(self.choices))
            case _:
                from rewake.cli.sessions import print_sessions

                print_sessions(self.choices.cwd, everywhere=False, limit=None)

    def _status(self) -> None:
        style = style_for(sys.stdout)
        if self.agent is None:
            say(f"No session yet: it begins with your first prompt, in {self._project()}.")
            return
        session, world = self.agent.session, self.agent.session.state.world
        cost = f", ${world.usage.cost_usd:.4f}" if world.usage.cost_usd else ""
        rows = {
            "session": session.session_id,
            "title": world.title,
            "project": str(session.root),
            "model": self.agent.model.name,
            "permissions": self.agent.loop.executor.permissions.mode,
            "messages": f"{len(session.messages)}",
            "tokens": f"{world.usage.input_tokens:,} in, {world.usage.output_tokens:,} out{cost}",
            "transcript": str(session.transcript or "(not recorded)"),
        }
        for name, value in rows.items():
            say(f"{style.dim(f'{name:<11}')} {one_line(value)}")

    def _others(self, text: str) -> list[str]:
        return [word.name for word in self._words()] if text.lstrip().startswith("/") else []

    def _words(self) -> tuple[Word, ...]:
        """The words that users have written, looked up anew: they may be written meanwhile."""
        return words_at(working_directory(self.choices))

    def _project(self) -> str:
        return clean(str(place(working_directory(self.choices)).root))

    def _todos(self) -> None:
        todos = self.agent.session.state.conversation.todos if self.agent is not None else ()
        marks = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]", "cancelled": "[-]"}
        for todo in todos:
            say(f"{marks[todo.status]} {one_line(todo.content)}")
        if not todos:
            say("The todo list is empty.")

    async def _resume(self, wanted: str) -> None:
        from rewake.cli.picking import pick_session_async

        chosen = wanted or await pick_session_async(self.choices.cwd)
        exact, where = taken_up(self._resuming(chosen))
        if self.agent is not None and self.agent.session.session_id == exact.resume:
            self.reporter.note("That is this session.")
            return
        await self._switch(exact, where)

    async def _fork(self) -> None:
        if self.agent is None:
            self.reporter.note("There is nothing to fork yet.")
            return
        origin = self.agent.session.session_id
        exact, where = taken_up(replace(self._resuming(origin), fork=True))
        await self._switch(exact, where)
        fork = self.agent_now().session.session_id
        self.choices = replace(self.choices, fork=False, resume=fork)
        self.reporter.note(f"Forked {origin}, which stays as it is. Going on in {fork}.")

    def _resuming(self, session: str) -> AgentChoices:
        """What the user asked for, for another session. Raises UsageError if this one would be lost."""
        if not self.given.persist:
            raise UsageError(
                "This conversation is not recorded, so it would be lost.",
                remedy="Leave it with /quit and start anew.",
            )
        return replace(
            self.given,
            resume=session,
            session_id=None,
            fork=False,
            resume_at=None,
            with_files=None,
        )

    async def _switch(self, choices: AgentChoices, where: str) -> None:
        """Leave this session for another; where that can't be opened, stay with this one."""
        before = self.agent.session.session_id if self.agent is not None else None
        await self.close()
        if where:
            self.reporter.note(where)
        left, self.choices = self.choices, choices
        try:
            self.agent_now()
        except RewakeError:
            if before is None:
                self.choices = left
            else:
                self.choices, _ = taken_up(self._resuming(before))
            raise

    async def _go_elsewhere(self, command: Command) -> None:
        if self.agent is None:
            self.reporter.note("There is nothing to go back to yet.")
            return
        branching = Branching(self.agent, self.reporter, self.stopper)
        match command.name:
            case "rewind":
                draft = await branching.rewind(command.argument)
                self._draft = draft or ""
                self._has_open_end |= draft is not None
            case "undo":
                branching.undo()
                self._has_open_end = True
            case "branch":
                self._has_open_end |= await branching.branch(command.argument)
            case _:
                branching.tree()

    async def _title(self, said: str) -> None:
        """Record the title given, or the one that the model finds."""
        if self.agent is None:
            self.reporter.note(_NO_SESSION)
            return
        session, loop = self.agent.session, self.agent.loop
        title = said or await self.stopper.run(loop.title)
        self.reporter.end_line()
        if title is None:
            self.reporter.warn("Interrupted: the title is as it was.")
            if self.stopper.reason == "interrupted":
                self.stopper.forget()
        elif title:
            session.metadata(title=title)
        else:
            self.reporter.warn("The model found no title, so it is as it was.")
        say(one_line(session.state.world.title))

    def _tag(self, said: str) -> None:
        if self.agent is None:
            self.reporter.note(_NO_SESSION)
            return
        session = self.agent.session
        words = said.split()
        taken = {word[1:] for word in words if word.startswith("-")}
        added = [word for word in words if not word.startswith("-")]
        if words:
            session.metadata(tags=changed_tags(session, added, taken) or None)
        tags = tags_of(session.state.world.metadata.get("tags"))
        say(one_line(" ".join(tags)) or "No tags.")

    def _diff(self, wanted: str) -> None:
        if self.agent is None:
            self.reporter.note("Nothing was changed yet.")
            return
        Branching(self.agent, self.reporter, self.stopper).diff(wanted)

    def _memory(self) -> None:
        from rewake.cli.recalled import print_memory

        session = self.agent.session if self.agent is not None else None
        print_memory(session.memory if session else "", session.messages if session else ())

    async def _compact(self) -> None:
        agent = self.agent
        if agent is None or not agent.session.view():
            self.reporter.note("There is nothing to compact yet.")
            return
        self._has_open_end = True
        await self.stopper.run(lambda: agent.loop.compact("manual"))
        if self.stopper.reason == "interrupted":
            self.reporter.warn("Interrupted: the conversation is as it was.")
            self.stopper.forget()


def _end_of(agent: Agent, stopper: Stopper) -> str:
    """Why a conversation ended in which nothing was asked since: a signal, or what was found."""
    if stopper.reason is not None:
        return stopper.reason
    found = agent.session.resumed.terminal if agent.session.resumed is not None else None
    ended = agent.session.state.world.terminal or found
    return ended.reason if ended is not None else "interrupted"


def _prompt_session(choices: AgentChoices) -> PromptSession[str]:
    """Where prompts are typed, with the history of earlier ones."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from rewake.cli.prompt_history import history_file

    bindings = KeyBindings()

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    path = history_file(place(working_directory(choices)).home) if choices.persist else None
    return PromptSession(
        "> ",
        history=FileHistory(str(path)) if path is not None else None,
        multiline=True,
        key_bindings=bindings,
        prompt_continuation="  ",
    )
