"""Going back in a conversation and in files, to another branch, or on in a fork: typed as a command.

The rules kept here: a rewind counts at once, also when nothing is sent after it; files go back only
after what would happen to them was shown; what is left stays as a branch, and how to get back is
said; and a summary of it that can't be had costs only itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from rewake.cli.opening import Agent
from rewake.cli.reporting import TextReporter
from rewake.cli.signals import Stopper
from rewake.cli.terminal import fit, one_line, say, style_for
from rewake.cli.tree import branch_line, worth_showing
from rewake.compose.place import Place, place
from rewake.errors import UsageError
from rewake.log.layout import SessionPaths
from rewake.model.content import Usage, plain_text
from rewake.resume.branches import BranchInfo, branches
from rewake.resume.history import whole_history
from rewake.session.core import Session
from rewake.state.text import clip

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from rewake.files.plan import RewindPlan

_Answer = TypeVar("_Answer")
Scope = Literal["conversation", "files", "both"]
_SCOPES: Final[dict[str, Scope]] = {
    "c": "conversation",
    "conversation": "conversation",
    "f": "files",
    "files": "files",
    "b": "both",
    "both": "both",
}

_SUMMARIZE: Final = "--summarize"
_COLUMNS: Final = 90
_LISTED: Final = 30  # about a screen; older prompts can be chosen too, by their number
_BEGINNING_BYTES_MAX: Final = 120  # enough for a model to find the message
_LEFT: Final = "[rewake] The user went back to this point. Summary of what was left behind:\n"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of the user's on the active branch."""

    message_id: str
    text: str


def prompts_of(session: Session) -> list[Prompt]:
    """The user's prompts, oldest first, those from before a compaction too."""
    entries = list(session.messages)
    if session.state.conversation.summary is not None:
        at, paths = _place_of(session)
        with at.lineage(paths) as reader:
            entries = whole_history(reader, at.blobs(paths)).entries
    return [
        Prompt(entry.message_id, entry.message.typed or plain_text(entry.message.content))
        for entry in entries
        if entry.message.role == "user" and not entry.message.source
    ]


def _place_of(session: Session) -> tuple[Place, SessionPaths]:
    """Where to read a session that is open here. Raises UsageError if it isn't recorded."""
    if session.transcript is None:
        raise UsageError(
            "A session that is kept in memory only has no branches.",
            remedy="Start without --no-session-persistence.",
        )
    session.flush()
    paths = SessionPaths(session.directory.parents[1], session.session_id)
    home = paths.project.parents[1]
    return place(session.root, home), paths


async def ask_number(stopper: Stopper, count: int) -> int | None:
    """The number that the user types, from 1; None when they want none of them."""

    def number(said: str) -> int | None:
        return int(said) if said.isdecimal() and 1 <= int(said) <= count else None

    return await _ask(stopper, f"Which one? [1-{count}] ", number)


async def _ask(
    stopper: Stopper, question: str, understand: Callable[[str], _Answer | None]
) -> _Answer | None:
    """Ask until the answer is understood; None where there is none."""
    from prompt_toolkit import PromptSession

    prompt: PromptSession[str] = PromptSession()
    forget = stopper.on_stop(lambda: leave(prompt))
    try:
        while True:
            said = await prompt.prompt_async(question, handle_sigint=False)
            if not said.strip():
                return None
            answer = understand(said.strip())
            if answer is not None:
                return answer
    except (EOFError, KeyboardInterrupt):
        return None
    finally:
        forget()


def leave(prompt: PromptSession[str]) -> None:
    """End a prompt that is being typed."""
    if prompt.app.is_running:
        prompt.app.exit(exception=EOFError)


@dataclass(frozen=True, slots=True)
class Branching:
    """The commands, for an open session."""

    agent: Agent
    reporter: TextReporter
    stopper: Stopper

    async def rewind(self, argument: str) -> str | None:
        """Go back; returns a prompt to be changed and sent anew, None when nothing was changed.

        To just after a message that is named; or to before one of the user's prompts, chosen by
        its number. Where files were changed since, the user is shown what would happen to them and
        says what goes back. Raises UsageError, and StorageError when files can't be changed.
        """
        words = argument.split()
        wanted = [word for word in words if word != _SUMMARIZE]
        if len(wanted) > 1:
            raise UsageError("More than one message is named.", remedy="Go back to one of them.")
        _place_of(self.agent.session)
        target, draft = await self._target(wanted[0] if wanted else None)
        if target is None:
            self.reporter.note("The conversation is as it was.")
            return None
        scope = await self._scope(target)
        if scope is None:
            self.reporter.note("The conversation is as it was, and so are the files.")
            return None
        if scope == "files":
            self._rewind_files(target)
            return ""
        summary, usage = "", None
        if _SUMMARIZE in words:
            found = await self._summary(target)
            if found is None:
                return None
            summary, usage = found
        if scope == "both":
            from rewake.compose.files import rewind_files

            plan = rewind_files(self.agent.session, target, conversation=True, usage=usage).plan
            self._tell_kept(plan)
            self._tell_where(_taken_back(plan))
        else:
            self.agent.session.rewind(target, usage=usage)
            self._tell_where()
        if summary:
            self.agent.session.user(_LEFT + summary, source="rewake")
            self.reporter.note("The model is given the summary of what was left.")
        return draft

    async def _scope(self, target: str) -> Scope | None:
        """What goes back: the conversation where no file was changed since, else as the user says."""
        from rewake.compose.files import diff_of_plan, plan_rewind
        from rewake.files.preview import preview_lines

        session = self.agent.session
        plan = plan_rewind(session, target)
        if not plan.changes and not plan.conflicts:
            return "conversation"
        for line in preview_lines(plan, diff_of_plan(session, plan), session.root):
            say(line)
        question = "Take back [c]onversation, [f]iles or [b]oth? Enter for nothing: "
        return await _ask(self.stopper, question, lambda said: _SCOPES.get(said.lower()))

    def _rewind_files(self, target: str) -> None:
        from rewake.compose.files import rewind_files

        plan = rewind_files(self.agent.session, target).plan
        self._tell_kept(plan)
        self.reporter.note(
            f"{_taken_back(plan)} The conversation is as it was. /undo takes it back."
        )

    def _tell_kept(self, plan: RewindPlan) -> None:
        if plan.conflicts:
            names = ", ".join(one_line(step.shown) for step in plan.conflicts)
            self.reporter.warn(f"Left as they are: {names}")

    def diff(self, wanted: str) -> None:
        """Print what was changed in files since a message, or before a prompt, by its number."""
        from rewake.cli.diff import print_diffs
        from rewake.compose.files import file_changes

        session = self.agent.session
        _, paths = _place_of(session)
        since: str | None = wanted or None
        if wanted.isdecimal():
            since = self._located(self._prompt(int(wanted)).message_id)
        elif wanted:
            self._located(wanted)
        diffs = file_changes(
            session.session_id, since=since, project=session.root, home=paths.project.parents[1]
        )
        print_diffs(diffs)
        print_diffs(diffs, stat=True)

    def _prompt(self, number: int) -> Prompt:
        """The user's prompt of that number. Raises UsageError."""
        prompts = prompts_of(self.agent.session)
        if not 1 <= number <= len(prompts):
            raise UsageError(
                f"There is no prompt {number}.", remedy=f"There are 1 to {len(prompts)}: /rewind."
            )
        return prompts[number - 1]

    async def _target(self, wanted: str | None) -> tuple[str | None, str]:
        """The event to go back to, and the prompt that is taken back for it, if one is."""
        if wanted is not None and not wanted.isdecimal():
            self._located(wanted)
            return wanted, ""
        prompts = prompts_of(self.agent.session)
        if not prompts:
            raise UsageError("There is no prompt to go back to.", remedy="Ask something first.")
        if wanted is None:
            older = max(len(prompts) - _LISTED, 0)
            if older:
                say(f"    … {older} older ones")
            for number, prompt in enumerate(prompts[older:], start=older + 1):
                say(f"{number:>2}. {fit(prompt.text, _COLUMNS)}")
            chosen = await ask_number(self.stopper, len(prompts))
            if chosen is None:
                return None, ""
        else:
            chosen = int(wanted)
        prompt = self._prompt(chosen)
        before = self._located(prompt.message_id)
        if before is None:
            raise UsageError("Nothing stands before this prompt.", remedy="Start a new session.")
        return before, prompt.text

    def _located(self, event_id: str) -> str | None:
        """The event before this one on its branch. Raises UsageError if there is no such event."""
        at, paths = _place_of(self.agent.session)
        with at.lineage(paths) as reader:
            located = reader.locate(event_id)
        if located is None:
            raise UsageError(
                f"This session has no message {event_id}.",
                remedy="/rewind alone lists the prompts, `rewake show` all messages.",
            )
        return located[1].parent_id

    async def _summary(self, target: str) -> tuple[str, Usage | None] | None:
        """The model's summary of what would be left; None when the user interrupts it."""
        left = [entry for entry in self.agent.session.messages if entry.message_id > target]
        if not left:
            self.reporter.note("Nothing is left behind, so there is nothing to sum up.")
            return "", None
        beginning = clip(plain_text(left[0].message.content), _BEGINNING_BYTES_MAX)
        found = await self.stopper.run(lambda: self.agent.loop.summary_of_what_is_left(beginning))
        if found is None:
            self.reporter.warn("Interrupted: the conversation is as it was.")
            if self.stopper.reason == "interrupted":
                self.stopper.forget()
            return None
        if not found[0]:
            self.reporter.warn("The model gave no summary, so the branch has none.")
        return found

    def undo(self) -> None:
        """Go back to where the newest rewind left. Raises UsageError."""
        from rewake.compose.files import undo_files_rewind

        undone = undo_files_rewind(self.agent.session)
        if undone is None:
            self.agent.session.undo_rewind()
            self._tell_where()
        else:
            self._tell_kept(undone.plan)
            self._tell_where(_taken_back(undone.plan))

    def tree(self) -> int:
        """Print the branches, numbered; returns how many there are."""
        style = style_for(sys.stdout)
        found = self._branches()
        for number, branch in enumerate(found, start=1):
            say(f"{style.dim(f'{number:>2}.')} {branch_line(branch)}")
        return len(found)

    async def branch(self, wanted: str) -> bool:
        """Go to a branch, by its number or its newest event; whether that changed anything."""
        chosen = wanted
        if not chosen:
            number = await ask_number(self.stopper, self.tree())
            if number is None:
                self.reporter.note("The conversation is as it was.")
                return False
            chosen = str(number)
        found = self._branches()
        matches = [
            branch
            for number, branch in enumerate(found, start=1)
            if chosen in {str(number), branch.leaf_id}
        ]
        if not matches:
            raise UsageError(f"There is no branch {one_line(chosen)}.", remedy="/tree lists them.")
        if matches[0].is_active:
            self.reporter.note("That is where you are.")
            return False
        self.agent.session.rewind(matches[0].leaf_id)
        self._tell_where()
        return True

    def _branches(self) -> list[BranchInfo]:
        at, paths = _place_of(self.agent.session)
        with at.lineage(paths) as reader:
            return worth_showing(branches(reader))

    def _tell_where(self, files: str = "Files are as they were.") -> None:
        messages = self.agent.session.messages
        words = next(
            (
                words
                for entry in reversed(messages)
                if not entry.message.source
                and (words := entry.message.typed or plain_text(entry.message.content))
            ),
            "(nothing)",
        )
        self.reporter.note(
            f"The conversation is back at {len(messages)} message{'s' * (len(messages) != 1)}: "
            f"{fit(words, _COLUMNS)}\n{files} /undo takes it back."
        )


def _taken_back(plan: RewindPlan) -> str:
    count = len(plan.changes)
    return f"{count} path{'' if count == 1 else 's'} taken back."
