"""Gives the model the instruction files that apply, where they come to apply, and again when they change.

The rules kept here:

- What was given is known from the conversation alone (the messages with source `instructions` in it), so
  it is the same after a resume, a rewind or a fork; and what a compaction left out comes back.
- What was given is never changed or repeated: news is a message of its own, so that each request begins
  with the one before, byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import anyio.to_thread

from rewake.memory.frame import framed, one_line
from rewake.memory.instructions import (
    Applying,
    InstructionFile,
    Instructions,
    directories_down_to,
    said_of,
)
from rewake.model.content import JsonObject
from rewake.session.core import Session
from rewake.state.conversation import Conversation, Entry
from rewake.state.world import tool_calls

SOURCE: Final = "instructions"
_WORKING_TOOLS: Final = frozenset({"Read", "Edit", "Write"})

_FIRST: Final = (
    "[rewake] Instructions for your work here, from files that the user and the project keep. The later "
    "ones are nearer to the work: where they differ, the nearer one counts. What the user says in this "
    "conversation comes before all of them."
)
_MORE: Final = "[rewake] These instructions apply as well, to where you have begun to work:"
_NEWS: Final = (
    "[rewake] Instruction files have changed. This is what they say now, in place of before:"
)
_GONE: Final = "[rewake] Instructions that no longer apply, because their files are gone: {names}."


class Briefing:
    """An attendant. `before_prompt` belongs before a prompt is recorded."""

    def __init__(
        self,
        session: Session,
        instructions: Instructions,
        cwd: Path,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        self._session = session
        self._instructions = instructions
        self._cwd = cwd
        self._on_notice = on_notice
        self._noticed: set[str] = set()
        self._worked_in: dict[str, tuple[Path, ...]] = {}

    def before_prompt(self) -> None:
        """Record what applies and isn't in the conversation yet. Durable on return."""
        self._tell(self._applying())

    async def on_prompt(self, prompt: str | None) -> None:
        """Nothing: a run that goes on without a prompt is looked after before its request."""

    async def before_request(self) -> None:
        """The same, for what has come to apply or has changed since."""
        self._tell(await anyio.to_thread.run_sync(self._applying))

    def applying(self) -> Applying:
        """What applies now, as the conversation stands."""
        return self._applying()

    def _applying(self) -> Applying:
        return self._instructions.applying(self._directories())

    def _directories(self) -> Iterator[Path]:
        """Where the conversation works, far to near: its own directory, then others by their path."""
        root = self._instructions.bounds.root
        yield from directories_down_to(root, self._cwd)
        touched: set[Path] = set()
        for entry in tuple(self._session.state.conversation.entries):
            if entry.answers:
                touched.update(self._touched(entry))
        for directory in sorted(touched):
            yield from directories_down_to(root, directory)

    def _touched(self, entry: Entry) -> tuple[Path, ...]:
        known = self._worked_in.get(entry.message_id)
        if known is None:
            known = tuple(self._touched_by(entry))
            if not entry.is_open():
                self._worked_in[entry.message_id] = known
        return known

    def _touched_by(self, entry: Entry) -> Iterator[Path]:
        root = self._instructions.bounds.root
        for call, answer in zip(tool_calls(entry.message), entry.answers, strict=False):
            path = call.arguments.get("file_path")
            if call.name not in _WORKING_TOOLS or not isinstance(path, str) or "\0" in path:
                continue
            if answer is None or answer.result.is_error:
                continue
            directory = Path(os.path.realpath(root / path)).parent
            if directory == root or root in directory.parents:
                yield directory

    # --- telling -----------------------------------------------------------------------------

    def _tell(self, applying: Applying) -> None:
        self._tell_user(applying)
        given = given_in(self._session.state.conversation)
        news = [file for file in applying.files if given.get(file.shown) != file.sha256]
        gone = [shown for shown in given if shown not in applying.present]
        if not news and not gone:
            return
        refused = [one for one in applying.refused if one.notable and news]
        text = _text(news, gone, given, [f"{one.shown}: {one.reason}" for one in refused])
        self._session.user(text, source=SOURCE, details=_details(news, gone))

    def _tell_user(self, applying: Applying) -> None:
        """What is refused or cut is the user's to put right: told once a run of the program."""
        if self._on_notice is None:
            return
        told = [f"{one.shown}: {one.reason}" for one in applying.refused if one.notable]
        told += [
            f"{file.shown}: only the first {len(file.text.encode())} of {file.size} bytes are given"
            for file in applying.files
            if file.is_cut
        ]
        for sentence in told:
            if sentence not in self._noticed:
                self._noticed.add(sentence)
                self._on_notice(f"Instructions: {sentence}.")


def given_in(conversation: Conversation) -> dict[str, str]:
    """The files whose text is in the conversation, each with the hash of the newest one."""
    given: dict[str, str] = {}
    for entry in conversation.entries:
        if entry.message.source != SOURCE or entry.message.details is None:
            continue
        for shown in _strings(entry.message.details.get("gone")):
            given.pop(shown, None)
        files = entry.message.details.get("files")
        for file in files if isinstance(files, list) else ():
            if isinstance(file, dict):
                given[str(file.get("path"))] = str(file.get("sha256"))
    return given


def _strings(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _details(news: Sequence[InstructionFile], gone: Sequence[str]) -> JsonObject:
    return {
        "files": [
            {
                "path": file.shown,
                "sha256": file.sha256,
                "bytes": len(file.text.encode()),
                "why": file.why,
                "imported_by": file.imported_by,
            }
            for file in news
        ],
        "gone": list(gone),
    }


def _text(
    news: Sequence[InstructionFile],
    gone: Sequence[str],
    given: dict[str, str],
    refused: Sequence[str],
) -> str:
    parts: list[str] = []
    changed = [file for file in news if file.shown in given]
    new = [file for file in news if file.shown not in given]
    if new:
        parts += [_MORE if given else _FIRST, *_framed(new)]
    if changed:
        parts += [_NEWS, *_framed(changed)]
    if gone:
        parts.append(_GONE.format(names=", ".join(map(one_line, gone))))
    if refused:
        # Names and links come with a project, and this is said in our own voice.
        parts.append(f"[rewake] Not given: {'; '.join(map(one_line, refused))}.")
    return "\n\n".join(parts)


def _framed(files: Iterable[InstructionFile]) -> Iterator[str]:
    return (framed("instructions", said_of(file), file.text) for file in files)
