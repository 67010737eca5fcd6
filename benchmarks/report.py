"""What a report costs: made from a session of 100 MB, and opened in a real browser.

The session's texts are the standard library's sources, its edits have real contents and differences, so
that Markdown, highlighting, redaction and compression have what they have in real work. Beside making
it stands decoding every line of the same transcript.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from benchmarks.harness import Figure, Setting, Target, python, run_process, say, seconds

import rewake
from rewake.log.scan import Transcript
from rewake.model.content import Text, ToolCall
from rewake.model.events import Change, FileState, Message, Outcome, Result, ToolLifecycle
from rewake.session.core import Session

if TYPE_CHECKING:
    from playwright.sync_api import Page

_BYTES: Final = {"full": 100_000_000, "quick": 20_000_000, "tiny": 300_000}
_OPEN_S: Final = Target("≤", 2)
_MEMORY_MB: Final = Target("≤", 250)
_MB: Final = 1e6
_OPENINGS: Final = 5
_FILES: Final = 97
_STEPS_PER_PROMPT: Final = 12
_PROMPTS_PER_COMPACTION: Final = 20  # what a window of 200,000 tokens holds
_KEPT_MESSAGES: Final = 20
_NO_BROWSER: Final = "not measured: no Chromium or no playwright here"
_MAKE: Final = """
import resource, sys, time
import rewake
before = resource.getrusage(resource.RUSAGE_SELF)
began = time.perf_counter()
rewake.report(sys.argv[1], sys.argv[2], project=sys.argv[3], home=sys.argv[4], environ={})
after = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - began, after.ru_utime - before.ru_utime, after.ru_maxrss)
"""


def measure(setting: Setting) -> list[Figure]:
    """Making it: time, memory, size. Opening it: until there is something, until it can be used."""
    size = _BYTES[setting.sizes.name]
    session, transcript = _build(setting.directory / "report", size)
    page = setting.directory / "report" / "report.html"
    say("making the report")
    made = run_process(
        python(_MAKE, session, str(page), *map(str, _places(setting.directory / "report")))
    )
    wall, processor, rss = map(float, made.split())
    # Linux counts in KiB, macOS in bytes.
    rss_mb = rss / _MB if sys.platform == "darwin" else rss / 1024
    decoding = seconds(lambda: [None for _ in Transcript(transcript).forward()])
    actual = transcript.stat().st_size / _MB
    figures = [
        Figure(
            f"a report of {actual:,.0f} MB is made",
            wall,
            "s",
            None,
            decoding,
            "decoding every line",
            f"{processor:.1f} s of processor time",
        ),
        Figure("its making takes memory", rss_mb, "MB", _MEMORY_MB),
        Figure("its size", page.stat().st_size / _MB, "MB", None, actual, "the transcript"),
    ]
    return [*figures, *_opened(page)]


def _places(directory: Path) -> tuple[Path, Path]:
    return directory / "project", directory / "home"


# --- the session -----------------------------------------------------------------------------


def _build(directory: Path, size: int) -> tuple[str, Path]:
    project, home = _places(directory)
    project.mkdir(parents=True)
    say(f"building a session of {size / _MB:,.0f} MB")
    with rewake.open_session(project, home=home, durability="process", trace=False) as session:
        work = _Work(session)
        path = session.transcript
        if path is None:
            raise TypeError("a built session has a transcript")
        while path.stat().st_size < size:
            work.turn()
        session.terminal("done")
        session.flush()
        return session.session_id, path


class _Work:
    """Prompts, answers with code, edits of real files, outputs of commands."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._random = Random(1)
        library = Path(sysconfig.get_paths()["stdlib"])
        sources = sorted(library.glob("*.py"))
        self._source = "".join(path.read_text("utf-8", "replace") for path in sources)
        self._files = {number: self._lines(120) for number in range(_FILES)}
        self._steps = 0
        self._prompts = 0

    def _text(self, chars: int) -> str:
        start = self._random.randrange(len(self._source) - chars)
        return self._source[start : start + chars]

    def _lines(self, count: int) -> list[str]:
        return self._text(60 * count).split("\n")[1:count]

    def turn(self) -> None:
        """A prompt and the steps that it takes."""
        self._prompts += 1
        if self._prompts % _PROMPTS_PER_COMPACTION == 0:
            kept = [entry.message_id for entry in self._session.messages[-_KEPT_MESSAGES:]]
            self._session.checkpoint(self._text(4_000), keep=kept, trigger="tokens")
        self._session.user(self._text(400))
        for _ in range(_STEPS_PER_PROMPT):
            self._steps += 1
            if self._steps % 4 == 0:
                self._edit()
            else:
                self._command()
        answer = f"## Done\n\nIt **works** now:\n\n```python\n{self._text(600)}\n```\n"
        self._session.assistant(answer, model="some-model", usage=self._usage())

    def _usage(self) -> rewake.Usage:
        return rewake.Usage(20_000 + self._steps % 900 * 180, 400, 18_000, 0, 0.02)

    def _asked(self, call: ToolCall) -> str:
        said = (Text(self._text(300)), call)
        message = Message("assistant", said, "some-model", self._usage())
        return self._session.record(message).event_id

    def _edit(self) -> None:
        number = self._random.randrange(_FILES)
        lines = self._files[number]
        before = "\n".join(lines).encode()
        at = self._random.randrange(len(lines))
        lines[at : at + 3] = self._lines(5)
        after = "\n".join(lines).encode()
        path = f"/project/src/module_{number}.py"
        message_id = self._asked(ToolCall("c", "Edit", {"file_path": path}))
        put = self._session.blobs.put
        change = Change(
            path,
            FileState("file", put(before), len(before), 0o644),
            FileState("file", put(after), len(after), 0o644),
        )
        self._ended("Edit", message_id, "edited", Outcome((change,)))

    def _command(self) -> None:
        message_id = self._asked(ToolCall("c", "Bash", {"command": f"grep -n {self._text(20)!r}"}))
        self._ended("Bash", message_id, self._text(5_000), Outcome(exit_code=0))

    def _ended(self, name: str, message_id: str, text: str, outcome: Outcome) -> None:
        result = Result((Text(text),))
        self._session.record(
            ToolLifecycle(name, "completed", "", message_id, outcome=outcome, result=result)
        )


# --- the browser -----------------------------------------------------------------------------


def _opened(path: Path) -> Iterator[Figure]:
    names = ("it shows something", "it can be used")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield from (Figure(name, 0.0, "s", note=_NO_BROWSER) for name in names)
        return
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        yield from (Figure(name, 0.0, "s", note=_NO_BROWSER) for name in names)
        return
    say("opening it")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        opened = [_opening(browser.new_page(), path) for _ in range(_OPENINGS)]
        searched = _search(browser.new_page(), path)
        browser.close()
    for name, times in zip(names, zip(*opened, strict=True), strict=True):
        worst = f"the slowest of {_OPENINGS}: {max(times):.2f} s"
        yield Figure(name, statistics.median(times), "s", _OPEN_S, note=worst)
    yield Figure("a search through all of it", searched, "s")


def _opening(page: Page, path: Path) -> tuple[float, float]:
    page.goto(path.as_uri())
    page.wait_for_selector('body[data-ready="1"]')
    # After a frame, so that what was built has been drawn.
    page.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
    shown = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    usable = page.evaluate("performance.getEntriesByName('rewake-usable')[0].startTime")
    page.close()
    return shown / 1_000, usable / 1_000


def _search(page: Page, path: Path) -> float:
    page.goto(path.as_uri())
    page.wait_for_selector('body[data-ready="1"]')
    done = page.locator(".hit-count").filter(
        has_text=re.compile(r"^\d+ of [\d,]+$|^nothing found$")
    )

    def search() -> None:
        page.locator("#search").fill("words that stand nowhere")
        done.wait_for(timeout=600_000)

    return seconds(search)
