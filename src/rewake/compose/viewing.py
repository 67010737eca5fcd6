"""The live view: the sessions of a home, told as far as they are written, for `report.server`.

The rules kept here: no lock is taken and nothing of a session is written; a session is told once and
then goes on from where it was; and of many that were looked at the newest few stay in memory.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote

import msgspec

from rewake.catalogue.listing import list_sessions
from rewake.catalogue.search import Filters, search_sessions
from rewake.compose.place import Place, place
from rewake.compose.reports import telling_of
from rewake.errors import RewakeError, SessionNotFoundError, UsageError
from rewake.model import jsontext
from rewake.report.chunks import Store
from rewake.report.clean import Cleaner
from rewake.report.server import Answer, Server, text
from rewake.report.telling import Telling, files, told
from rewake.version import VERSION

_TOLD_MAX: Final = 4
_READ_BYTES_MAX: Final = 6 << 20  # before an answer is given: about a second
_ROWS_MAX: Final = 200
_HITS_MAX: Final = 50
_DIGITS_MAX: Final = 10
_JSON: Final = "application/json"

Query = dict[str, str]


class LiveView:
    """A server that is at work from `with` to its end. `address` is the page's, with the token in it."""

    def __init__(
        self,
        project: str | Path = ".",
        *,
        home: str | Path | None = None,
        port: int = 0,
        redact: bool = True,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        at = place(project, home)
        data = _Sessions(at, environ if redact else None)
        self._server = Server(data, secrets.token_urlsafe(32), port)

    @property
    def address(self) -> str:
        """Opens the list of sessions; with `&s=ID` behind it that session."""
        return self._server.address

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.stop()


class _Told:
    """One session being told, by one thread at a time."""

    def __init__(self, telling: Telling) -> None:
        self.telling = telling
        self.lock = threading.Lock()


class _Sessions:
    """Answers the page's questions; the `Data` of the server."""

    def __init__(self, at: Place, environ: Mapping[str, str] | None) -> None:
        self._at = at
        self._environ = environ
        self._cleaner = Cleaner(environ)
        self._told: OrderedDict[str, _Told] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, path: tuple[str, ...], query: Query) -> Answer:
        try:
            return self._answer(path, query)
        except SessionNotFoundError as error:
            return text(HTTPStatus.NOT_FOUND, error.message)
        except UsageError as error:
            return text(HTTPStatus.BAD_REQUEST, self._cleaner.text(str(error)))
        except (RewakeError, OSError) as error:
            return text(HTTPStatus.INTERNAL_SERVER_ERROR, self._cleaner.text(str(error)))

    def _answer(self, path: tuple[str, ...], query: Query) -> Answer:
        match path:
            case ("sessions",):
                return _json(self._rows(is_everywhere=query.get("all") == "1"))
            case ("search",):
                return _json(self._hits(query.get("q", ""), is_everywhere=query.get("all") == "1"))
            case ("session", session_id, what, *rest):
                return self._of_session(unquote(session_id), what, list(map(unquote, rest)), query)
            case _:
                return text(HTTPStatus.NOT_FOUND, "nothing is here")

    # --- the list ----------------------------------------------------------------------------

    def _rows(self, *, is_everywhere: bool) -> dict[str, Any]:
        at = self._at
        root = None if is_everywhere else at.root
        listed = list_sessions(
            at.home, at.disk, root, limit=_ROWS_MAX, on_problem=lambda _path, _error: None
        )
        rows = [self._shown(msgspec.to_builtins(row)) for row in listed.rows]
        return {"sessions": rows, "total": listed.total}

    def _hits(self, words: str, *, is_everywhere: bool) -> dict[str, Any]:
        at = self._at
        root = None if is_everywhere else at.root
        found = search_sessions(at.home, at.disk, words, root, filters=Filters(), limit=_HITS_MAX)
        hits = []
        for hit in found.hits:
            shown = self._shown(msgspec.to_builtins(hit))
            same = os.path.commonprefix([shown["snippet"], hit.snippet])  # noqa: RUF071  # of texts
            # They count characters, so they hold as far as none was taken out.
            shown["marks"] = [mark for mark in hit.marks if mark[1] <= len(same)]
            hits.append(shown)
        return {"hits": hits, "problems": [self._cleaner.text(one) for one in found.problems]}

    def _shown(self, value: dict[str, Any]) -> dict[str, Any]:
        return {
            key: self._cleaner.clipped(item) if isinstance(item, str) else item
            for key, item in value.items()
        }

    # --- one session -------------------------------------------------------------------------

    def _of_session(self, session_id: str, what: str, rest: list[str], query: Query) -> Answer:
        known = self._known(session_id)
        if what == "check":
            return _json(known.telling.findings(self._at.disk))
        with known.lock:
            if what == "chunk" and len(rest) == 2:  # noqa: PLR2004  # of which store, which one
                return _chunk(_store(known.telling, rest[0]), rest[1])
            value = self._value(known, what, rest, query)
        return _json(value) if value is not None else text(HTTPStatus.NOT_FOUND, "nothing is here")

    def _value(self, known: _Told, what: str, rest: list[str], query: Query) -> object | None:
        telling = known.telling
        match (what, rest):
            case ("head", []):
                head = telling.head(self._at.disk)
                return {**head, "version": VERSION, "read": telling.main.offset}
            case ("files", []):
                return files(telling.main)
            case ("story", [key]):
                return self._story(known, key, query)
            case ("row", [event_id]):
                return {"row": telling.main.story.segments.row_of(event_id)}
            case _:
                return None

    def _known(self, session_id: str) -> _Told:
        with self._lock:
            known = self._told.get(session_id)
            if known is None:
                paths = self._at.layout.find(session_id)
                if paths.session_id != session_id:
                    raise SessionNotFoundError(
                        f"There is no session {session_id!r}.", remedy="Give its whole id."
                    )
                known = _Told(telling_of(self._at, paths, Cleaner(self._environ)))
                self._told[session_id] = known
            self._told.move_to_end(session_id)
            while len(self._told) > _TOLD_MAX:
                self._told.popitem(last=False)
        return known

    def _story(self, known: _Told, key: str, query: Query) -> dict[str, Any]:
        telling = known.telling
        if key == "m":
            reading = telling.main
            reading.catch_up(_READ_BYTES_MAX)
        else:
            reading = telling.agent(key.removeprefix("a-"))
        reading.story.show_open()
        # Of the same telling: the page keeps the rows that it has. Another one begins anew.
        same = f"{reading.generation}.{reading.story.store.epoch}"
        stamp = f"{same}.{reading.offset}.{int(telling.is_written(self._at.disk))}"
        given = query.get("stamp", "")
        if given == stamp:
            return {"unchanged": True}
        goes_on = given.rpartition(".")[0].rpartition(".")[0] == same
        rows = _number(query.get("rows", "")) if goes_on else 0
        steps = _number(query.get("steps", "")) if goes_on else 0
        contents = [
            [row, jsontext.loads(content)] for row, content in reading.story.store.open_contents()
        ]
        size = telling.paths.transcript.stat().st_size if key == "m" else reading.offset
        return {
            **told(reading, rows, steps),
            "reset": not goes_on,
            "stamp": stamp,
            "open": contents,
            "isWhole": reading.offset >= size,
        }


def _number(text_: str) -> int:
    """A number of the page's, 0 for what is none."""
    return int(text_) if text_.isdecimal() and len(text_) < _DIGITS_MAX else 0


def _store(telling: Telling, key: str) -> Store:
    if key == "m":
        return telling.main.story.store
    if key == "f":
        return telling.main.story.turns.store
    return telling.agent(key.removeprefix("a-")).story.store


def _chunk(store: Store, wanted: str) -> Answer:
    number = _number(wanted)
    chunk = store.chunks[number] if number < len(store.chunks) else b""
    if not chunk:
        return text(HTTPStatus.NOT_FOUND, "This part was left out.")
    return Answer(HTTPStatus.OK, "application/octet-stream", chunk)


def _json(value: object) -> Answer:
    return Answer(HTTPStatus.OK, _JSON, _encode(value))


def _encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return jsontext.dumps(value)
