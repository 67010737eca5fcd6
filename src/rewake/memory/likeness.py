"""Which notes could be joined or looked at again. Only proposed: nobody's notes are changed unasked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations
from typing import Final, Literal

from rewake.memory.directory import Stored
from rewake.memory.note import Note
from rewake.memory.words import indexed, query_words

STALE_AFTER: Final = timedelta(days=365)
"""A fact about a living project that nobody has touched for a year is worth a look."""
# Two notes of which this share of words is common say the same thing in other words; by hand on the
# notes of benchmarks/data/recall.json, where no two are alike and the nearest have 0.2.
_ALIKE_MIN: Final = 0.6
_PROPOSALS_MAX: Final = 20
# Words in more notes than this tell nothing about likeness and would make all pairs candidates.
_WORD_NOTES_MAX: Final = 25


@dataclass(frozen=True, slots=True)
class Proposal:
    """What could be done about some notes, and why. `names` are of one directory."""

    kind: Literal["duplicate", "stale"]
    scope: str
    names: tuple[str, ...]
    reason: str


def proposals(notes: Sequence[Stored], now: datetime) -> list[Proposal]:
    """Duplicates first, then what is old, the oldest first; at most 20."""
    found = [*_duplicates(notes), *_stale(notes, now)]
    return found[:_PROPOSALS_MAX]


def alike(note: Note, notes: Sequence[Stored]) -> list[str]:
    """The names of notes that say about the same as `note`."""
    words = _words(note)
    return [
        stored.name
        for stored in notes
        if stored.name != note.name and _likeness(words, _words(stored.note)) >= _ALIKE_MIN
    ]


def _duplicates(notes: Sequence[Stored]) -> Iterator[Proposal]:
    words = [_words(stored.note) for stored in notes]
    by_word: dict[str, list[int]] = defaultdict(list)
    for number, found in enumerate(words):
        for word in found:
            by_word[word].append(number)
    pairs = {
        pair
        for numbers in by_word.values()
        if len(numbers) <= _WORD_NOTES_MAX
        for pair in combinations(numbers, 2)
    }
    for one, other in sorted(pairs):
        first, second = notes[one], notes[other]
        if first.scope == second.scope and _likeness(words[one], words[other]) >= _ALIKE_MIN:
            names = (first.name, second.name)
            yield Proposal("duplicate", first.scope, names, "they say about the same: join them")


def _stale(notes: Sequence[Stored], now: datetime) -> Iterator[Proposal]:
    for stored in sorted(notes, key=lambda one: one.written()):
        days = (now - stored.written()).days
        if days > STALE_AFTER.days:
            reason = f"not changed for {days} days: is it still true?"
            yield Proposal("stale", stored.scope, (stored.name,), reason)


def _words(note: Note) -> frozenset[str]:
    text = indexed(f"{note.name.replace('-', ' ')} {note.description} {note.body}")
    return frozenset(query_words(text))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(len(one | other), 1)
