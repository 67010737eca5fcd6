"""`rewake demo`: an agent is killed with SIGKILL in the middle of an edit and wakes up.

The rules kept here: everything is real (a child process, a kill by its process id, a second process
that resumes); every claim that is printed has been checked; and the first step that isn't as it
should be ends the demo with a failure that names it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewake.cli.demo_child import (
    DemoError,
    Request,
    start_to_be_killed,
    start_to_resume,
    wait_until_inside_edit,
)
from rewake.cli.demo_project import CONTENT, FILE_NAME, OLD, PROMPT, make_project
from rewake.cli.terminal import Style, clean, one_line, say, style_for
from rewake.compose.place import Place, find_session, place
from rewake.errors import ModelError
from rewake.log.layout import SessionPaths
from rewake.model.events import Event, FileChangeIntent, ToolLifecycle
from rewake.resume.load import load_from_root

_EMBEDDED: Final = "local:"
# Both together leave a minute; the embedded model needs five to ten seconds of each.
_EDIT_WAIT_S: Final = 30.0
_FINISH_WAIT_S: Final = 25.0
_HASH_CHARS: Final = 16


def run_demo(model: str | None, *, keep: bool) -> int:
    """Run it; returns 0 when everything was as it should be. Raises DemoError otherwise."""
    began = time.monotonic()
    if model is None:
        _require_embedded_model()
    else:
        _require_model(_absolute(model))
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="rewake-demo-")).resolve()
        if not keep:
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        markers = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rewake-demo-")))
        demo = Demo(
            style_for(sys.stdout),
            Request(scratch, _absolute(model or _EMBEDDED), narrowed=model in {None, _EMBEDDED}),
            make_project(scratch),
            f"demo-{secrets.token_hex(4)}",
            markers / "inside-the-edit",
        )
        demo.introduce()
        demo.kill_in_the_middle_of_an_edit()
        demo.wake_up()
        demo.check_everything()
        demo.say_what_next(time.monotonic() - began, keep=keep)
    return 0


def _require_embedded_model() -> None:
    from rewake.agent.providers.local import LocalModel

    try:
        LocalModel(None)
    except ModelError as error:
        raise ModelError(
            error.message, remedy=f"{error.remedy} Or name another model: rewake demo --model …"
        ) from error


def _require_model(name: str) -> None:
    """Before anything is made. Raises UsageError and ModelError for one that can't be opened."""
    from rewake.agent.providers.choose import open_model
    from rewake.cli.opening import LateBlobs

    model, _ = open_model(
        name, environ=os.environ, settings_model=None, blobs=LateBlobs(), cwd=Path.cwd()
    )
    asyncio.run(model.close())


def _absolute(model: str) -> str:
    """The child works elsewhere, so a path in a model's name must not depend on where this is."""
    kind, colon, rest = model.partition(":")
    if kind in {"script", "local"} and rest:
        return f"{kind}{colon}{Path(rest).absolute()}"
    return model


@dataclass(slots=True)
class Demo:
    """One run of the demo, step by step."""

    style: Style
    request: Request
    file: Path
    session_id: str
    marker: Path
    acknowledged: tuple[str, ...] = ()
    result: dict[str, object] | None = None

    # --- what happens ------------------------------------------------------------------------

    def introduce(self) -> None:
        """Say what will be seen."""
        say(self.style.bold("An agent is killed in the middle of an edit, and wakes up."))
        say()
        say(f"   Scratch project: {self.file.parent}")
        if self.request.narrowed:
            say(
                "   The embedded model is for trying Rewake, not for coding, so the demo narrows the\n"
                f"   Edit tool to one place: {OLD} in {FILE_NAME}. The words are the model's own."
            )

    def kill_in_the_middle_of_an_edit(self) -> None:
        """A child edits the file and is killed before it can record that it did."""
        self._step(1, f'A child process is asked: "{PROMPT}"')
        child = start_to_be_killed(self.request, PROMPT, self.session_id, self.marker)
        try:
            wait_until_inside_edit(child, self.marker, _EDIT_WAIT_S)
        except BaseException:
            if child.process.poll() is None:
                child.kill()
            raise
        say("   It has changed the file and has not recorded yet that it did.")
        say(self.style.red(f"   kill -9 {child.process.pid}"))
        child.kill()
        code = child.wait(_FINISH_WAIT_S)
        self._require(code == -signal.SIGKILL, "the child died of SIGKILL", f"its status is {code}")
        self.acknowledged = tuple(child.acknowledged)
        say(f"   Dead. It had acknowledged {len(self.acknowledged)} events.")
        line = self.file.read_text("utf-8", "replace").split("\n", 1)[0]
        say(f"   {FILE_NAME} now begins with: {one_line(line)}")

    def wake_up(self) -> None:
        """A second process goes on with the session."""
        self._step(2, "A second process resumes the session.")
        child = start_to_resume(self.request, self.session_id)
        code = child.wait(_FINISH_WAIT_S)
        self.result = child.result
        self._require(code == 0, "the second process ended as it should", f"its status is {code}")
        response = (self.result or {}).get("response")
        say(f"   The agent says: {one_line(clean(str(response)))}")

    def check_everything(self) -> None:
        """Each claim against the transcript and the file, as they are on disk."""
        self._step(3, "Was anything lost?")
        at = place(self.file.parent)
        for claim, holds, otherwise in self._claims(at, find_session(at, self.session_id)):
            self._require(holds, claim, otherwise)
            say(f"   {self.style.green('✓')} {claim}")

    def _claims(self, at: Place, paths: SessionPaths) -> Iterator[tuple[str, bool, str]]:
        with at.lineage(paths) as reader:
            events = [item for item in reader.forward() if isinstance(item, Event)]
            loaded = load_from_root(reader, at.blobs(paths))
        there = {event.event_id for event in events}
        lost = [event_id for event_id in self.acknowledged if event_id not in there]
        count = len(self.acknowledged)
        yield f"all {count} acknowledged events are there", count > 0 and not lost, f"lost: {lost}"
        yield "nothing is damaged", not loaded.damage, "; ".join(map(str, loaded.damage))
        yield from self._claims_about_the_edit(events)
        terminal = loaded.state.world.terminal
        reason = terminal.reason if terminal is not None else "none"
        yield (
            "no call is left open, and the run is done",
            (reason == "done" and not loaded.state.world.calls),
            f"its end: {reason}, open: {list(loaded.state.world.calls)}",
        )

    def _claims_about_the_edit(self, events: list[Event]) -> Iterator[tuple[str, bool, str]]:
        phases = [event.payload for event in events if isinstance(event.payload, ToolLifecycle)]
        resolved = [phase for phase in phases if phase.resolution is not None]
        verdicts = [phase.resolution.verdict for phase in resolved if phase.resolution is not None]
        yield (
            "the interrupted edit has its verdict: applied",
            verdicts == ["applied"],
            str(verdicts),
        )
        call_id = resolved[0].call_id
        intents = [
            phase.intent
            for phase in phases
            if phase.call_id == call_id and isinstance(phase.intent, FileChangeIntent)
        ]
        intended = [change.after.sha256 for intent in intents for change in intent.changes]
        actual = hashlib.sha256(self.file.read_bytes()).hexdigest()
        shown = actual[:_HASH_CHARS]
        yield (
            f"the file is what the edit intended: sha256 {shown}…",
            intended == [actual],
            f"intended {intended}, found {actual}",
        )
        changes = [phase for phase in phases if phase.outcome is not None and phase.outcome.changes]
        rest = CONTENT.removeprefix(OLD)
        once = len(changes) == 1 and self.file.read_text().endswith(rest)
        yield "it was changed exactly once", once, f"{len(changes)} changes are recorded"

    def say_what_next(self, seconds: float, *, keep: bool) -> None:
        """Where everything is, and what to try."""
        at = place(self.file.parent)
        transcript = find_session(at, self.session_id).transcript
        say()
        say(self.style.bold(f"Nothing was lost. That took {seconds:.0f} s."))
        say(f"   Transcript: {transcript}")
        say("   Try:")
        again = shlex.join(["rewake", "-p", "What did you change?", "--resume", self.session_id])
        model = shlex.join(["--model", self.request.model])
        commands = [f"rewake show {self.session_id}", f"rewake path {self.session_id}"]
        for command in [*commands, *([f"{again} {model}"] if keep else [])]:
            say(f"     {self.style.cyan(command)}")

    # --- small things ------------------------------------------------------------------------

    def _step(self, number: int, text: str) -> None:
        say()
        say(self.style.bold(f"{number}. {text}"))

    def _require(self, holds: bool, claim: str, otherwise: str) -> None:  # noqa: FBT001  # a fact, no flag
        if not holds:
            raise DemoError(f"The demo failed: it is not so that {claim} ({clean(otherwise)}).")
