"""A conversation on a terminal that can move its cursor: the screen, and what its keys are for.

The rules kept here: the first Ctrl-C or Esc stops what runs in good order, whatever it is, and keeps
what was done; and a message that was sent while the agent worked reaches it before its next request.
"""

from __future__ import annotations

import asyncio
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from prompt_toolkit.history import History

from rewake.agent.permissions import Ask, PermissionMode, Question
from rewake.cli.asking import Asker, Said
from rewake.cli.opening import Agent
from rewake.cli.prompt.keys import Keyboard
from rewake.cli.prompt.live import LiveReporter
from rewake.cli.prompt.screen import Parts, Screen
from rewake.cli.prompt.status import Facts, StatusLine
from rewake.cli.prompt.themes import Theme, theme_named
from rewake.cli.running import Content
from rewake.cli.signals import Stopper
from rewake.cli.slash import is_command
from rewake.cli.terminal import Style, one_line, style_for
from rewake.compose.commands import commands_of
from rewake.errors import RewakeError

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer

_FRAME_S: Final = 0.1
_WATCH_S: Final = 1.0
_MODES: Final[tuple[PermissionMode, ...]] = ("default", "acceptEdits", "plan")
Prepare = Callable[[str], Awaitable[Content]]


class ScreenFront:
    """The usual front. `place` names project and branch for the status line."""

    def __init__(
        self,
        stopper: Stopper,
        history: History | None,
        completer: Completer | None,
        dropped: Callable[[str], str | None],
        *,
        place: Callable[[], str],
        theme: str | None,
    ) -> None:
        self._stopper = stopper
        self._place = place
        self._agent: Agent | None = None
        self._prepare: Prepare | None = None
        self._leaves = self._was_interrupted = False
        self._status = StatusLine(self._facts)
        self.reporter = LiveReporter(answers=sys.stdout, notes=sys.stdout, streams=True)
        self._theme = theme_named(theme)
        keyboard = Keyboard(
            is_working=lambda: self.reporter.is_working,
            interrupt=self._interrupt,
            leave=self._leave,
            cycle_mode=self._cycle_mode,
            edit_earlier=lambda: self.screen.send("/rewind"),
            hint=self._hint,
            dropped=dropped,
        )
        self.screen = Screen(
            Parts(
                live=self.reporter.live,
                status=self._status.text,
                keyboard=keyboard,
                theme=self._theme,
                history=history,
                completer=completer,
            )
        )
        self.reporter.put = self.screen.print
        self.reporter.refresh = self.screen.refresh
        self.reporter.columns = lambda: self.screen.columns
        self.reporter.happened = self._status.update
        self.reporter.wear(self._theme, _style(self._theme))

    # --- the front -----------------------------------------------------------------------

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The screen, until the end; a signal ends it."""
        self._status.update()
        forget = self._stopper.on_stop(self._heard)
        watching = asyncio.ensure_future(self._watch())
        try:
            async with self.screen.open():
                yield
        finally:
            watching.cancel()
            forget()

    async def _watch(self) -> None:
        """What runs in the background ends while nothing else happens, too."""
        while True:
            await asyncio.sleep(_WATCH_S)
            if self._agent is not None and self._status.facts.others not in {
                "",
                _beside(self._agent),
            }:
                self._status.update()
                self.screen.refresh()

    def _heard(self) -> None:
        if self._stopper.reason == "interrupted" and self.reporter.is_working:
            self._was_interrupted = True
        else:
            self.screen.leave()

    async def next_prompt(self, draft: str) -> str | None:
        if self._leaves:
            return None
        if draft:
            self.screen.put_draft(draft)
        return await self.screen.next_prompt()

    def said(self, text: str) -> None:
        self.reporter.prompt(text)

    def expanded(self, text: str) -> str:
        return self.screen.pastes.expand(text)

    def typed(self, text: str) -> str:
        return self.screen.pastes.typed(text)

    @contextmanager
    def working(self) -> Iterator[None]:
        """The spinner turns; at an interruption what was queued comes back to be edited."""
        ticking = asyncio.ensure_future(self._tick())
        self._stopper.on_second = self._note_second
        self.reporter.begin()
        try:
            yield
        finally:
            ticking.cancel()
            self._stopper.on_second = None
            self.reporter.end()
            if self._was_interrupted:
                self._was_interrupted = False
                _let_ctrl_c_signal(wanted=False)
                self.screen.take_queue_back()

    async def _tick(self) -> None:
        while True:
            self.screen.refresh()
            await asyncio.sleep(_FRAME_S)

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        async with self.screen.suspended():
            yield

    def asker(self, keep: Callable[[str], str]) -> Ask | None:
        loop = asyncio.get_running_loop()
        return Asker(self._ask, self._stopper, loop, keep, self.reporter.note)

    async def _ask(self, question: Question) -> Said:
        title = f"{one_line(question.tool_name)}: {one_line(question.summary)}"
        asker = f"{one_line(question.asker)}: " if question.asker else ""
        return await self.screen.ask(
            question, lambda: self.reporter.question(asker + title, question.preview)
        )

    def attend(self, agent: Agent, prepare: Prepare) -> None:
        self._agent, self._prepare = agent, prepare
        self.reporter.session_directory = agent.session.directory
        agent.loop.attendants = (*agent.loop.attendants, self)
        self._status.update()
        self.screen.refresh()

    @property
    def theme(self) -> str:
        return self._theme.name

    def wear(self, name: str) -> None:
        self._theme = theme_named(name)
        self.reporter.wear(self._theme, _style(self._theme))
        self.screen.wear(self._theme)

    # --- beside the loop -----------------------------------------------------------------

    async def on_prompt(self, prompt: str | None) -> None:
        """What is asked is known; see `before_request`."""

    async def before_request(self) -> None:
        """Give the agent what was sent to it meanwhile. A command waits for the end of the run."""
        agent, prepare = self._agent, self._prepare
        while (
            agent is not None
            and prepare is not None
            and self.screen.queue
            and not is_command(self.screen.queue[0])
        ):
            text = self.screen.queue.pop(0)
            self.reporter.prompt(text)
            try:
                content = await prepare(text)
            except RewakeError as error:
                self.reporter.warn(f"Not sent: {error.message} {error.remedy}")
                self.screen.put_draft(text)
                continue
            except asyncio.CancelledError:
                self.screen.queue.insert(0, text)  # an interruption gives it back to be edited
                raise
            agent.session.user(content, typed="" if isinstance(content, str) else text)

    # --- keys ----------------------------------------------------------------------------

    def _interrupt(self) -> None:
        if self._stopper.reason is None and self.reporter.is_working:
            # The loop may be busy while things end, so the next Ctrl-C must not need it.
            _let_ctrl_c_signal(wanted=True)
            self._stopper.stop("interrupted")
        elif self.reporter.is_working:
            self._hint("Stopping …")

    def _note_second(self) -> None:
        self._leaves = True

    def _leave(self) -> None:
        if self.reporter.is_working:
            self._leaves = True
            self._interrupt()
        else:
            self.screen.leave()

    def _cycle_mode(self) -> None:
        if self._agent is None:
            self._hint("The mode can be changed once the session has begun.")
            return
        permissions = self._agent.loop.executor.permissions
        mode = permissions.mode
        after = _MODES.index(mode) + 1 if mode in _MODES else 0
        permissions.mode = _MODES[after % len(_MODES)]
        self._hint(f"Permission mode {permissions.mode}")
        self._status.update()

    def _hint(self, text: str) -> None:
        self._status.hint(text)
        self.screen.refresh()
        with suppress(RuntimeError):  # at the very end there is no loop, and nothing to draw
            asyncio.get_running_loop().call_later(2.1, self.screen.refresh)

    def _facts(self) -> Facts:
        agent = self._agent
        if agent is None:
            return Facts(place=self._place())
        return Facts(
            model=agent.model.name,
            mode=agent.loop.executor.permissions.mode,
            tokens=agent.loop.tokens(),
            context_tokens=agent.model.context_tokens,
            cost_usd=agent.session.state.world.usage.cost_usd,
            place=self._place(),
            others=_beside(agent),
        )


def _beside(agent: Agent) -> str:
    """What is at work beside the conversation."""
    world = agent.session.state.world
    running = 0
    if any(command.state == "running" for command in world.commands.values()):
        # On record is only what the model was told; that one has ended may not be yet.
        known = commands_of(agent.session)
        running = sum(item.in_background and item.state == "running" for item in known)
    agents = sum(agent.background and agent.is_at_work for agent in world.open_agents.values())
    counts = ((running, "command"), (agents, "agent"))
    said = [f"{count} {what}{'s' * (count != 1)}" for count, what in counts if count]
    return f"{' and '.join(said)} running" if said else ""


def _style(theme: Theme) -> Style:
    return Style(theme.has_colour and style_for(sys.stdout).enabled)


def _let_ctrl_c_signal(*, wanted: bool) -> None:
    """Have the terminal turn Ctrl-C into SIGINT, or into a key as all others are."""
    with suppress(termios.error, ValueError, OSError):  # it may be gone by now
        descriptor = sys.stdin.fileno()
        attributes = termios.tcgetattr(descriptor)
        flags = termios.ISIG | termios.NOFLSH
        attributes[3] = attributes[3] | flags if wanted else attributes[3] & ~flags
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
