"""What recall costs before the first request, and how well it chooses.

Time: a prompt's notes among a thousand, from the prompt to the recorded message, beside plain substring
search over the same files. Quality: precision and recall at five on a labelled set
(benchmarks/data/recall.json), of ranked search alone, with a judge and of substring search. The judge is
scripted from the labels: it shows what a judge that is always right makes of the candidates, no model.

The thresholds were chosen on the half of the set marked `tune`; figures are of the other half.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.lowlevel
from benchmarks.harness import Figure, Setting, Target, median_of, seconds

import rewake
from rewake.agent.recall import Recall
from rewake.log.disk import Disk
from rewake.memory.directory import MemoryDirectory
from rewake.memory.note import Note, render_note
from rewake.memory.ranking import rank
from rewake.memory.words import STOP_WORDS

_SET: Final = Path(__file__).parent / "data" / "recall.json"
_NOTES: Final = {"full": 1_000, "quick": 1_000, "tiny": 100}
_AT: Final = 5
_CANDIDATES: Final = 12
_ADDED_MS: Final = Target("≤", 30.0)
_MS: Final = 1_000
_PROMPTS: Final = 12
_WORD_CHARS_MIN: Final = 4


@dataclass(frozen=True, slots=True)
class Query:
    """A prompt and the names of the notes that are relevant to it."""

    text: str
    relevant: frozenset[str]


def measure(setting: Setting) -> list[Figure]:
    """The figures of this benchmark."""
    return [*_times(setting), *_quality(setting)]


# --- time ------------------------------------------------------------------------------------


def _times(setting: Setting) -> Iterator[Figure]:
    count = _NOTES[setting.sizes.name]
    home, project = setting.directory / "recall-home", setting.directory / "recall-project"
    project.mkdir()
    prompts = [query.text for query in _queries("test")[:_PROMPTS]]
    with rewake.open_session(project, home=home) as session:
        kept = session.directory.parents[1]
        directory = _written(kept / "memory", _many(count))
        disk = Disk()
        search = partial(rank, [directory], cache=kept, disk=disk)
        cold = seconds(lambda: search(prompts[0]))
        with _loop() as run:
            recalls = iter(range(10**9))

            def one() -> None:
                prompt = prompts[next(recalls) % len(prompts)]
                run(_recalled(session, directory, kept, prompt))

            def ranked() -> None:
                search(prompts[next(recalls) % len(prompts)])

            def scanned() -> None:
                _by_substring(_texts(directory), prompts[next(recalls) % len(prompts)])

            for _ in range(3):
                one()
            whole, ranking, plain = median_of((one, ranked, scanned), 5 * setting.sizes.rounds)
            (busy,) = median_of((one,), 5 * setting.sizes.rounds, time.process_time)
    yield Figure(
        f"recall among {count:,} notes, from the prompt to the request",
        whole * _MS,
        "ms",
        _ADDED_MS,
        plain * _MS,
        "reading and searching the files as text",
        note=f"without a judge, with the commit of the message; processor {busy * _MS:.3g} ms",
    )
    yield Figure("of that, ranked search", ranking * _MS, "ms")
    yield Figure(
        f"making the index of {count:,} notes",
        cold * _MS,
        "ms",
        note="once, or after it was deleted",
    )


@contextmanager
def _loop() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Runs coroutines in one event loop, as an agent does, so that its start doesn't count."""
    import asyncio

    with asyncio.Runner() as runner:
        yield lambda make: runner.run(make())  # type: ignore[arg-type]  # made by `_recalled`


def _recalled(
    session: rewake.Session, directory: MemoryDirectory, cache: Path, prompt: str
) -> Callable[[], object]:
    recall = Recall(
        session,
        [directory],
        cache=cache,
        disk=Disk(),
        now=lambda: datetime.now(UTC),
        on_notice=lambda _text: None,
    )

    async def work() -> None:
        await recall.on_prompt(prompt)
        await anyio.lowlevel.checkpoint()
        await recall.before_request()

    return work


def _many(count: int) -> list[Note]:
    """The labelled notes, and others made of their words until there are so many."""
    notes = _notes()
    chance = random.Random(7)
    words = [word for note in notes for word in note.body.split()]
    while len(notes) < count:
        number = len(notes)
        body = " ".join(chance.choices(words, k=120))
        notes.append(Note(f"made-up-{number}", " ".join(chance.choices(words, k=8)), body))
    return notes[:count]


def _written(path: Path, notes: Sequence[Note]) -> MemoryDirectory:
    path.mkdir(parents=True)
    for note in notes:
        (path / f"{note.name}.md").write_text(render_note(note), "utf-8")
    return MemoryDirectory(path, "project", Disk())


# --- quality ---------------------------------------------------------------------------------


def _quality(setting: Setting) -> Iterator[Figure]:
    path = setting.directory / "recall-notes"
    directory = _written(path / "memory", _notes())
    texts = _texts(directory)
    search = partial(rank, [directory], cache=path, disk=Disk(), limit=_CANDIDATES)

    def ranked(query: Query) -> list[str]:
        return [hit.stored.name for hit in search(query.text) if hit.passes][:_AT]

    def judged(query: Query) -> list[str]:
        found = [hit.stored.name for hit in search(query.text)]
        return [name for name in found if name in query.relevant][:_AT]

    def plain(query: Query) -> list[str]:
        return _by_substring(texts, query.text)[:_AT]

    queries = _queries("test")
    base = _scores(plain, queries)
    for name, way in (("ranked search", ranked), ("ranked search and a perfect judge", judged)):
        scores = _scores(way, queries)
        for what, value, against in zip(
            ("precision at 5", "recall at 5", "unrelated prompts that recall something"),
            scores,
            base,
            strict=True,
        ):
            yield Figure(f"{name}: {what}", value, "%", None, against, "substring search")


def _scores(
    way: Callable[[Query], list[str]], queries: Sequence[Query]
) -> tuple[float, float, float]:
    """Means over prompts in percent: precision of those that found something, recall, noise."""
    precision: list[float] = []
    recall: list[float] = []
    noise: list[float] = []
    for query in queries:
        found = way(query)
        right = len(query.relevant.intersection(found))
        if found:
            precision.append(right / len(found))
        if query.relevant:
            recall.append(right / len(query.relevant))
        else:
            noise.append(float(bool(found)))
    return _mean(precision), _mean(recall), _mean(noise)


def _mean(values: Sequence[float]) -> float:
    return 100 * sum(values) / len(values) if values else 0.0


def _texts(directory: MemoryDirectory) -> dict[str, str]:
    return {
        path.stem: path.read_text("utf-8").lower() for path in sorted(directory.path.glob("*.md"))
    }


def _by_substring(texts: dict[str, str], query: str) -> list[str]:
    """The notes that hold words of the prompt, those with most of them first."""
    words = {
        word
        for word in re.findall(r"\w+", query.lower())
        if len(word) >= _WORD_CHARS_MIN and word not in STOP_WORDS
    }
    counts = {name: sum(word in text for word in words) for name, text in texts.items()}
    found = [name for name, count in counts.items() if count]
    return sorted(found, key=lambda name: (-counts[name], name))


# --- the labelled set ------------------------------------------------------------------------


def _notes() -> list[Note]:
    return [
        Note(one["name"], one["description"], one["body"], one["type"])
        for one in json.loads(_SET.read_text("utf-8"))["notes"]
    ]


def _queries(half: str) -> list[Query]:
    return [
        Query(one["text"], frozenset(one["relevant"]))
        for one in json.loads(_SET.read_text("utf-8"))["queries"]
        if one["half"] == half
    ]
