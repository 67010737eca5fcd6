"""What tests of sessions share: children that are killed, and ways to look at a transcript."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import rewake
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.scan import Transcript
from rewake.model.content import JsonObject, plain_text
from rewake.model.events import Change, Event, Outcome, ToolLifecycle
from rewake.resume.load import Loaded, load, load_from_root

# Says where it is and waits there to be killed.
PRELUDE = """
import sys
from pathlib import Path
import rewake

home, project = map(Path, sys.argv[1:3])

def wait(word):
    print(word, flush=True)
    sys.stdin.read()
"""


@contextmanager
def child(code: str, home: Path, project: Path, *arguments: str) -> Iterator[str]:
    """Run `code` in a process of its own until it says a word; it is SIGKILLed on the way out."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, str(home), str(project), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def die_at(code: str, home: Path, project: Path, *arguments: str) -> str:
    """Run `code` until it says a word, kill it there, and return the word."""
    with child(code, home, project, *arguments) as word:
        return word


def transcript_of(session: rewake.Session) -> Path:
    assert session.transcript is not None
    return session.transcript


def blobs_of(transcript: Path) -> BlobStore:
    return BlobStore(transcript.parents[2] / "blobs", Disk(), durable=False)


def loaded(transcript: Path) -> Loaded:
    with Transcript(transcript) as reader:
        return load(reader, blobs_of(transcript))


def loaded_from_root(transcript: Path) -> Loaded:
    with Transcript(transcript) as reader:
        return load_from_root(reader, blobs_of(transcript))


def same(state: JsonObject) -> JsonObject:
    """A state without the way in which its checkpoints name the same events."""
    return {key: value for key, value in state.items() if key != "history"}


def events_of(transcript: Path) -> list[Event]:
    with Transcript(transcript) as reader:
        return [item for item in reader.forward() if isinstance(item, Event)]


def phases_of(transcript: Path) -> list[ToolLifecycle]:
    payloads = [event.payload for event in events_of(transcript)]
    return [payload for payload in payloads if isinstance(payload, ToolLifecycle)]


def statuses_of(transcript: Path) -> list[str]:
    return [phase.status for phase in phases_of(transcript)]


def said(session: rewake.Session) -> list[str]:
    """The text of each message of the next request, results included."""
    return [text_of(message) for message in session.view()]


def text_of(message: rewake.ViewMessage) -> str:
    results = [block for block in message.content if isinstance(block, rewake.ToolResult)]
    return "\n".join([plain_text(message.content), *(plain_text(r.content) for r in results)])


def break_off(action: rewake.Action, error: BaseException, effect: Callable[[], object]) -> None:
    """An action whose body raises `error` after its effect."""
    with action:
        effect()
        raise error


def nothing() -> None:
    """No effect."""


def snapshot(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, time of change and content of everything below a directory."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(directory))] = (status.st_mode, status.st_mtime_ns, content)
    return found


class NoTracker:
    """Finds nothing."""

    def before(self, call_id: str) -> None:
        """Nothing to look at."""

    def goes_on(self, call_id: str) -> None:
        """Nothing to wait for."""

    def is_open(self, call_id: str) -> bool:  # the port's
        return False

    def after(self, call_id: str, outcome: Outcome) -> Outcome:
        return outcome

    def expect(self, call_id: str, changes: Sequence[Change]) -> None:
        """Nothing to note."""

    def made(self, call_id: str, outcome: Outcome) -> Outcome:
        return outcome

    def recorded(self, call_id: str) -> None:
        """Nothing to forget."""
