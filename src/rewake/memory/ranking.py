"""Which notes speak of what a prompt is about: a score, and a threshold for it.

The rules kept here: the score is BM25F, computed here and not by FTS5, because a threshold needs one that
means the same in a directory of three notes as in one of a thousand; and a prompt that no note speaks of
finds none.
"""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewake.log.disk import Disk
from rewake.memory.directory import MemoryDirectory, Stored
from rewake.memory.note_index import (
    TERMS_MAX,
    Indexed,
    NoteIndex,
    discard_index,
    open_index,
    stemmed,
)
from rewake.memory.reading import UnreadableError
from rewake.memory.words import is_pair, query_words

# --- scoring ---------------------------------------------------------------------------------
# BM25F (Robertson, Zaragoza: "The Probabilistic Relevance Framework", 2009). A word in the name or the
# description says more of what a note is about than one in its text, and those two are short by nature.
_WEIGHT: Final = {"name": 3.0, "description": 2.5, "body": 1.0}
_LENGTH: Final = {"name": 0.2, "description": 0.3, "body": 0.6}
_SATURATION: Final = 1.2
# In a directory of few notes each word is rare or common by accident, so all are weighed as in one of
# this many.
_NOTES_MIN: Final = 60
# A hit counts if it reaches this score, this product of score and share (so that one word in common
# counts in a prompt of three, not in one of thirty), and this part of the best hit's score. Chosen on the
# half of benchmarks/data/recall.json that is marked for it; docs/benchmarks.md has the figures.
_SCORE_MIN: Final = 1.8
_SCORE_BY_SHARE_MIN: Final = 0.7
_PART_OF_BEST_MIN: Final = 0.65
# Most pairs of characters that stand in no note are no words but the end of one and the beginning of the
# next, so they say less against a note.
_NO_WORD_PART: Final = 0.25


@dataclass(frozen=True, slots=True)
class Hit:
    """A note that was found. `words` are those of the prompt that stand in it, the telling ones first.

    `share` is how much of the prompt's weight in words they are, 0 to 1. `passes` says whether it is
    likely to matter, and not only to have a word in common.
    """

    stored: Stored
    score: float
    share: float
    words: tuple[str, ...]
    passes: bool


def rank(
    directories: Sequence[MemoryDirectory],
    text: str,
    *,
    cache: Path | None,
    disk: Disk,
    limit: int = 12,
    every_word: bool = False,
) -> list[Hit]:
    """The notes with words of `text`, best first. Each is as its file is now.

    The index is kept in the directory `cache`, which must be there; None: in memory, for this once.
    With `every_word`, for who searches on purpose, a query of common words alone finds notes, too.

    Raises SearchUnavailableError where this Python's SQLite has no FTS5.
    """
    words = query_words(text, every_word=every_word)
    if not words or not any(directory.is_there() for directory in directories):
        return []
    by_path = {str(directory.path): directory for directory in directories}
    found = _found(directories, words, 2 * limit, cache=cache, disk=disk)
    hits: list[Hit] = []
    best = found[0].score if found else 0.0
    for one in found:
        with suppress(FileNotFoundError, UnreadableError):
            stored = by_path[one.directory].current(one.name)
            passes = one.score >= max(_SCORE_MIN, _PART_OF_BEST_MIN * best)
            passes = passes and one.score * one.share >= _SCORE_BY_SHARE_MIN
            hits.append(Hit(stored, one.score, one.share, one.words, passes))
        if len(hits) == limit:
            break
    return hits


def _found(
    directories: Sequence[MemoryDirectory],
    words: Sequence[str],
    limit: int,
    *,
    cache: Path | None,
    disk: Disk,
) -> list[_Scored]:
    places = [str(directory.path) for directory in directories]
    try:
        with open_index(cache, disk) as index:
            index.catch_up(directories)
            return _scores(index, places, words, limit)
    except sqlite3.Error:
        if cache is None:
            raise
        # Damaged where opening it doesn't look, or there is no room for it: it is made anew another time.
        discard_index(cache, disk)
    return _found(directories, words, limit, cache=None, disk=disk)


@dataclass(frozen=True, slots=True)
class _Scored:
    directory: str
    name: str
    score: float
    share: float
    words: tuple[str, ...]


def _scores(
    index: NoteIndex, places: Sequence[str], words: Sequence[str], limit: int
) -> list[_Scored]:
    """The notes in `places` with one of the words, best first, at most `limit`."""
    count, average = index.size(places)
    if not count:
        return []
    terms = stemmed(words)
    found = index.counts(list(terms))
    notes = index.notes(places, {number for one in found.values() for number in one.notes})
    weights = {
        term: _rarity(found[term].frequency if term in found else 0, count) for term in terms
    }
    total = _total(
        weight * (_NO_WORD_PART if term not in found and is_pair(terms[term]) else 1.0)
        for term, weight in weights.items()
    )
    parts: dict[int, list[tuple[float, str, float]]] = defaultdict(list)
    for term, one in found.items():
        for number, fields in one.notes.items():
            if number in notes:
                weighted = _weighted(fields, notes[number].lengths, average)
                gain = weights[term] * weighted / (_SATURATION + weighted)
                parts[number].append((gain, terms[term], weights[term]))
    best = sorted(parts, key=lambda number: (-_gain(parts[number]), notes[number].name, number))
    return [_scored(notes[number], parts[number], total) for number in best[:limit]]


def _total(weights: Iterable[float]) -> float:
    """What a prompt weighs. A long one is no less about something for being long, so the weightiest
    words are its measure.
    """
    return sum(sorted(weights, reverse=True)[:TERMS_MAX])


def _gain(parts: Sequence[tuple[float, str, float]]) -> float:
    return sum(gain for gain, _, _ in parts)


def _scored(note: Indexed, parts: Sequence[tuple[float, str, float]], total: float) -> _Scored:
    return _Scored(
        directory=note.directory,
        name=note.name,
        score=_gain(parts),
        share=min(sum(weight for _, _, weight in parts) / total, 1.0),
        words=tuple(dict.fromkeys(word for _, word, _ in sorted(parts, reverse=True))),
    )


def _rarity(notes_with: int, notes: int) -> float:
    count = max(notes, _NOTES_MIN)
    return math.log(1 + (count - notes_with + 0.5) / (notes_with + 0.5))


def _weighted(
    counts: Mapping[str, int], lengths: Mapping[str, int], average: Mapping[str, float]
) -> float:
    total = 0.0
    for part, count in counts.items():
        share = _LENGTH[part]
        total += _WEIGHT[part] * count / (1 - share + share * lengths[part] / average[part])
    return total
