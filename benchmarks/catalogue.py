"""What finding a session costs: the list of 10,000, search, and making the catalogue anew.

Texts are the standard library's sources, so words are as many and as common as in real work. Sizes
of the metadata figure are 10 KB to 100 MB, as many of each half order of magnitude: the mix of a
heavy user's 50 GB, at about a hundredth of it. Beside each stands what simpler tools do: parse every
line of every file.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import sysconfig
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.build import build_working_session
from benchmarks.harness import (
    TINY,
    Figure,
    Setting,
    Target,
    command,
    interleaved,
    median_of,
    python,
    run_process,
    say,
    seconds,
)

import rewake
from rewake.catalogue.files import find_files
from rewake.catalogue.listing import list_sessions, read_one
from rewake.catalogue.notes import note_session
from rewake.catalogue.rebuild import reindex
from rewake.catalogue.search import search_sessions
from rewake.log.disk import Disk
from rewake.log.layout import Layout
from rewake.model.content import Text, ToolCall
from rewake.model.events import Message, Result, ToolLifecycle

_PAGE_MS: Final = Target("≤", 150)
_SEARCH_MS: Final = Target("≤", 200)
_NOTE_MS: Final = Target("≤", 2)
_METADATA_MB_S: Final = Target("≥", 400)
_TEXT_MB_S: Final = Target("≥", 20)
_MS: Final = 1_000
_MB: Final = 1e6
_PARSING: Final = "json.loads of every line"
_SIZES: Final = (10_000, 32_000, 100_000, 316_000, 1_000_000, 3_160_000, 10_000_000)
_LARGE_SIZES: Final = (31_600_000, 100_000_000)
_TEXT_BYTES: Final = {"full": 200_000_000, "quick": 50_000_000, "tiny": 300_000}
_QUERIES: Final = ("rarely seen needle", "return self", '"the file" decod*', "socket timeout")


def measure(setting: Setting) -> list[Figure]:
    """The list and search over many small sessions, then what rebuilding them costs a byte."""
    count = setting.sizes.sessions
    figures = []
    for sessions in (count, count * 10):
        figures += _many(setting, sessions)
    return [*figures, *_metadata(setting), *_full_text(setting)]


class _Prose:
    """Pieces of the standard library, the same in every run."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        library = Path(sysconfig.get_paths()["stdlib"])
        files = sorted(library.glob("*.py"))
        self._text = "".join(path.read_text("utf-8", "replace") for path in files)

    def text(self, chars: int) -> str:
        start = self._random.randrange(len(self._text) - chars)
        return self._text[start : start + chars]


def _many(setting: Setting, count: int) -> list[Figure]:
    say(f"building {count:,} small sessions")
    home, prose = setting.directory / f"catalogue-{count}", _Prose()
    projects = [setting.directory / f"project-{count}-{number}" for number in range(50)]
    for number in range(count):
        project = projects[number % len(projects)]
        project.mkdir(exist_ok=True)
        _small(project, home, number, prose)
    disk = Disk()
    files = find_files(Layout(home), None, _fail)
    size = sum(item.size for item in files)
    index_s = seconds(lambda: reindex(home, disk))
    environ = {**os.environ, "REWAKE_HOME": str(home)}
    listing = command("sessions", "--all", "--cwd", str(projects[0]))
    listed, asked, bare = interleaved(
        (
            partial(run_process, listing, environ),
            partial(run_process, command("search", "return self", "--all"), environ),
            partial(run_process, python("pass")),
        ),
        setting.sizes.processes,
    )
    base = statistics.median(bare) * _MS
    of = f"of {count:,} ({size / _MB:,.0f} MB)"
    page = partial(list_sessions, home, disk, limit=50, on_problem=_fail)
    searches = [partial(search_sessions, home, disk, query) for query in _QUERIES]
    in_process = [taken * _MS for taken in median_of((page, *searches), setting.sizes.rounds)]
    parsed = seconds(partial(_parse_all, [item.paths.transcript for item in files])) * _MS
    figures = [
        Figure(
            f"rewake sessions --all, {of}: whole process",
            statistics.median(listed) * _MS,
            "ms",
            _PAGE_MS,
            base,
            "python -c pass",
        ),
        Figure(
            f"its first page, {of}: in the process", in_process[0], "ms", None, parsed, _PARSING
        ),
        Figure(
            f"rewake search, {of}: whole process",
            statistics.median(asked) * _MS,
            "ms",
            None,
            base,
            "python -c pass",
        ),
        Figure(
            f"search, {of}: slowest of {len(_QUERIES)} in the process",
            max(in_process[1:]),
            "ms",
            _SEARCH_MS,
            parsed,
            _PARSING,
        ),
        Figure(
            f"catalogue made anew, {of}",
            index_s * _MS,
            "ms",
            None,
            parsed,
            _PARSING,
            "with all words",
        ),
    ]
    return [*figures, _without_catalogue(home, disk, setting, of), _note(home, disk, of)]


def _small(project: Path, home: Path, number: int, prose: _Prose) -> None:
    with rewake.open_session(project, home=home, durability="process", trace=False) as session:
        session.user(f"Task {number}: {prose.text(200)}")
        for _ in range(3):
            call = ToolCall(
                "call_1", "Edit", {"path": f"src/m{number % 97}.py", "new": prose.text(300)}
            )
            message = Message("assistant", (Text(prose.text(300)), call))
            message_id = session.record(message).event_id
            call_id = session.record(
                ToolLifecycle("Edit", "requested", message_id=message_id)
            ).event_id
            result = Result((Text(prose.text(1_500)),))
            session.record(ToolLifecycle("Edit", "completed", call_id, message_id, result=result))
        if number % 1_000 == 0:
            session.assistant("A rarely seen needle.")
        session.terminal("done")


def _without_catalogue(home: Path, disk: Disk, setting: Setting, of: str) -> Figure:
    """The first page when nothing is remembered, as after an upgrade or a crash of the machine."""

    def first() -> None:
        _discard(home)
        list_sessions(home, disk, limit=50, on_problem=_fail)

    (taken,) = median_of((first,), setting.sizes.rounds)
    return Figure(f"first page without a catalogue, {of}", taken * _MS, "ms")


def _note(home: Path, disk: Disk, of: str) -> Figure:
    """What a session pays at its end."""
    item = find_files(Layout(home), None, _fail)[0]
    summary = read_one(item, disk)
    (taken,) = median_of((partial(note_session, home, item.paths, summary),), 50)
    return Figure(f"note_session, {of}", taken * _MS, "ms", _NOTE_MS)


def _metadata(setting: Setting) -> list[Figure]:
    sizes = _SIZES[:3] if setting.sizes is TINY else (*_SIZES, *_LARGE_SIZES)
    say("building sessions of 10 KB to 100 MB")
    home = setting.directory / "sizes"
    for number, size in enumerate(sizes):
        built = build_working_session(setting.directory / f"size-{size}", size)
        for copy in range(4):
            target = home / "projects" / f"p{copy}" / "sessions" / f"s{number}"
            target.mkdir(parents=True)
            shutil.copyfile(built.path, target / "transcript.jsonl")
    disk = Disk()
    files = find_files(Layout(home), None, _fail)
    size = sum(item.size for item in files)

    def rebuild() -> None:
        _discard(home)
        list_sessions(home, disk, on_problem=_fail)

    (taken,) = median_of((rebuild,), setting.sizes.rounds)
    sample = sorted(item for item in files if item.size <= 10_000_000)
    sample_bytes = sum(item.size for item in sample)
    parsed = seconds(partial(_parse_all, [item.paths.transcript for item in sample]))
    note = f"{len(files)} files, {size / _MB:,.0f} MB, {taken * _MS:.0f} ms"
    return [
        Figure(
            "metadata made anew, 10 KB to 100 MB",
            size / taken / _MB,
            "MB/s",
            _METADATA_MB_S,
            sample_bytes / parsed / _MB,
            _PARSING,
            note,
        )
    ]


def _full_text(setting: Setting) -> list[Figure]:
    size = _TEXT_BYTES[setting.sizes.name]
    say(f"building {size / _MB:,.0f} MB of sessions with real words")
    home, project = setting.directory / "text", setting.directory / "text-project"
    project.mkdir()
    prose = _Prose()
    written = 0
    while written < size:
        written += _working(project, home, prose)
    disk = Disk()
    files = [item.paths.transcript for item in find_files(Layout(home), None, _fail)]
    real = sum(path.stat().st_size for path in files)
    indexed = seconds(lambda: reindex(home, disk))
    parsed = seconds(partial(_parse_all, files))
    with files[0].open("rb") as file:
        last = file.readlines()[-1]
    catalogue = (home / "catalogue.sqlite").stat().st_size
    note = f"{real / _MB:,.0f} MB, {len(files)} files; the catalogue has {catalogue / _MB:,.0f} MB"

    def one_more_line() -> None:
        with files[0].open("ab") as file:
            file.write(last)
        search_sessions(home, disk, "return self")

    (caught_up,) = median_of((one_more_line,), setting.sizes.rounds)
    return [
        Figure(
            "full text made anew",
            real / indexed / _MB,
            "MB/s",
            _TEXT_MB_S,
            real / parsed / _MB,
            _PARSING,
            note,
        ),
        Figure("search after one file grew by a line", caught_up * _MS, "ms", _SEARCH_MS),
    ]


def _working(project: Path, home: Path, prose: _Prose) -> int:
    """A session of about 500 KB: prose of 500 characters, calls of 500, results of 4,000."""
    with rewake.open_session(project, home=home, durability="process", trace=False) as session:
        session.user(prose.text(600))
        for step in range(80):
            call = ToolCall("call_1", "Edit", {"path": f"src/m{step}.py", "new": prose.text(500)})
            message = Message("assistant", (Text(prose.text(500)), call))
            message_id = session.record(message).event_id
            call_id = session.record(
                ToolLifecycle("Edit", "requested", message_id=message_id)
            ).event_id
            result = Result((Text(prose.text(4_000)),))
            session.record(ToolLifecycle("Edit", "completed", call_id, message_id, result=result))
        session.terminal("done")
        path = session.transcript
    return path.stat().st_size if path is not None else 0


def _parse_all(paths: list[Path]) -> None:
    for path in paths:
        for line in _lines(path):
            json.loads(line)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _discard(home: Path) -> None:
    for path in home.glob("catalogue.sqlite*"):
        path.unlink()


def _fail(path: Path, error: OSError) -> None:
    raise AssertionError(f"{path}: {error}")
