"""`rewake` in a terminal: a conversation, prompt by prompt.

The rules kept here: Ctrl-C ends the answer that is being given, never the conversation; nothing is
recorded before the first prompt; and the session is closed in good order however the user leaves.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from typing import Final

from rewake.cli.branching import Branching
from rewake.cli.checking import verify
from rewake.cli.expanding import Word, words_at
from rewake.cli.failing import for_command_line
from rewake.cli.looking import show, tag
from rewake.cli.opening import Agent, open_agent, taken_up, working_directory
from rewake.cli.options import AgentChoices
from rewake.cli.prompt.front import Front
from rewake.cli.prompt.fronts import front_for
from rewake.cli.prompt.keeping import keeper_at
from rewake.cli.reporting import TextReporter
from rewake.cli.resumed import last_exchange
from rewake.cli.run import tell_resumed
from rewake.cli.running import Content, exit_code, exit_code_of, run_prompt
from rewake.cli.settled import ask_for_trust
from rewake.cli.signals import Stopper
from rewake.cli.slash import Command, parse
from rewake.cli.terminal import one_line, say
from rewake.compose.place import place
from rewake.errors import ExitCode, RewakeError, StorageError, UsageError
from rewake.session.core import Session

_NO_SESSION: Final = "No session yet: it begins with your first prompt."
_WELCOME: Final = "Enter sends, Esc Enter begins a line, Ctrl-C interrupts, Ctrl-D quits, /help"
_ASKS_THE_MODEL: Final = frozenset({"compact", "title", "verify"})


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
    front = front_for(choices, stopper)
    conversation = Conversation(given, choices, front, front.reporter, stopper)
    if where:
        front.reporter.note(where)
    try:
        async with front.open():
            if choices.resume is not None:
                conversation.agent_now()
            front.reporter.note(_WELCOME)
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
    front: Front
    reporter: TextReporter
    stopper: Stopper
    agent: Agent | None = None
    # Whether something was recorded after the last end of a run, so that closing must record one.
    _has_open_end: bool = False
    # What stands at the next prompt already, to be changed and sent.
    _draft: str = ""

    async def talk(self) -> int:
        """Read prompts and answer them until the user leaves or something ends it."""
        while True:
            draft, self._draft = self._draft, ""
            text = await self.front.next_prompt(draft)
            if text is None:
                return int(ExitCode.DONE if self.stopper.reason is None else self._stopped())
            try:
                ending = await self._take_up(text)
            except StorageError:
                raise
            except RewakeError as error:
                for_command_line(error)
                self.reporter.warn(f"{error.message} {error.remedy}")
                continue
            if ending is not None:
                return int(ending)

    async def _take_up(self, text: str) -> ExitCode | None:
        """Answer a prompt or obey a command; an exit status where the conversation ends."""
        command = parse(text, self._others(text))
        self.front.said(text)
        if command is None:
            with self.front.working():
                return await self._answer(text)
        if command.name in _ASKS_THE_MODEL:
            with self.front.working():
                return await self._obey(command)
        async with self.front.suspended():
            return await self._obey(command)

    async def _prepared(self, text: str) -> Content:
        """What goes to the model for a prompt. Raises UsageError for what can't be given to it."""
        from rewake.cli.prompt.mentions import with_mentions

        return await with_mentions(
            self.agent_now(), self.front.expanded(text), self.front.typed(text)
        )

    def _stopped(self) -> ExitCode:
        return exit_code_of(self.stopper.reason or "interrupted")

    async def _answer(self, text: str) -> ExitCode | None:
        """Answer one prompt; an exit status where the conversation can't go on."""
        agent = self.agent_now()
        try:
            prompt = await self._prepared(text)
        except UsageError:
            self._draft = text
            raise
        result = await run_prompt(agent, prompt, self.stopper)
        self._has_open_end = False
        if result.reason == "interrupted":
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
        for missing in result.unfinished:
            self.reporter.warn(missing)
        return None

    def agent_now(self) -> Agent:
        """The agent, opened if it isn't yet."""
        if self.agent is None:
            ask = self.front.asker(keeper_at(working_directory(self.choices)))
            self.agent = open_agent(self.choices, self.reporter, ask=ask)
            for sentence in self.agent.warnings:
                self.reporter.warn(sentence)
            for sentence in self.agent.about:
                self.reporter.note(sentence)
            self._has_open_end = True
            self.front.attend(self.agent, self._prepared)
            if self.agent.session.resumed is not None:
                tell_resumed(self.agent.session.resumed, self.reporter)
                self._show_last(self.agent.session)
        return self.agent

    def _show_last(self, session: Session) -> None:
        """Where the conversation stands: the last prompt and the last answer."""
        prompt, answer = last_exchange(session.state.conversation.entries)
        if prompt:
            self.front.said(prompt)
        if answer:
            self.reporter.on_text(answer)
            self.reporter.end_line()

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
            case "compact" | "verify":
                await self._work(command)
            case "rewind" | "undo" | "tree" | "branch":
                await self._go_elsewhere(command)
            case "diff":
                self._diff(command.argument)
            case "fork":
                await self._fork()
            case "title" | "tag" | "theme":
                await self._label(command)
            case _:
                show(command.name, self.agent, self.choices)
        return None

    def _others(self, text: str) -> list[str]:
        return [word.name for word in self._words()] if text.lstrip().startswith("/") else []

    def _words(self) -> tuple[Word, ...]:
        """The words that users have written, looked up anew: they may be written meanwhile."""
        return words_at(working_directory(self.choices))

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
        from rewake.cli.titling import title_now

        agent, session = self.agent, self.agent.session
        title = said or await self.stopper.run(
            lambda: title_now(agent, agent.loop.executor.context.cwd)
        )
        self.reporter.end_line()
        if title is None:
            self.reporter.warn("Interrupted: the title is as it was.")
            if self.stopper.reason == "interrupted":
                self.stopper.forget()
        elif title:
            session.metadata(title=title)
        else:
            self.reporter.warn("The model found no title, so it is as it was.")
        self.reporter.note(one_line(session.state.world.title))

    async def _label(self, command: Command) -> None:
        match command.name:
            case "title":
                await self._title(command.argument)
            case "tag":
                tag(self._agent_or_note(), command.argument)
            case _:
                self._theme(command.argument)

    def _theme(self, wanted: str) -> None:
        from rewake.cli.prompt.keeping import keep_theme, theme_lines

        if wanted:
            said = keep_theme(wanted, place(working_directory(self.choices)))
            self.front.wear(wanted)
            self.reporter.note(said)
        else:
            for line in theme_lines(self.front.theme):
                say(line)

    def _agent_or_note(self) -> Agent | None:
        if self.agent is None:
            self.reporter.note(_NO_SESSION)
        return self.agent

    def _diff(self, wanted: str) -> None:
        if self.agent is None:
            self.reporter.note("Nothing was changed yet.")
            return
        Branching(self.agent, self.reporter, self.stopper).diff(wanted)

    async def _work(self, command: Command) -> None:
        if command.name == "verify":
            self._has_open_end |= await verify(self.agent_now(), self.reporter, self.stopper)
        else:
            await self._compact()

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
