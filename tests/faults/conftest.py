"""A home and a project of their own, and what is asked of a session in every test here."""

from __future__ import annotations

from pathlib import Path

from tests.agent.doubles import refused
from tests.session.conftest import home, open_session, project
from tests.session.helpers import loaded, loaded_from_root, same

import rewake
from rewake.agent.ports import ModelRequest
from rewake.model.codec import seal_line

__all__ = ["home", "open_session", "project"]


def lines_of(transcript: Path) -> list[bytes]:
    """The lines without their ends."""
    return transcript.read_bytes().split(b"\n")[:-1]


def put(transcript: Path, lines: list[bytes]) -> None:
    """Replace the transcript by these lines."""
    transcript.write_bytes(b"".join(line + b"\n" for line in lines))


def unsealed(line: bytes) -> bytes:
    """A line without its checksum, still open for `sealed`."""
    return line[: line.rindex(b',"crc32"')]


def sealed(body: bytes) -> bytes:
    """The line that `unsealed` came from, with a checksum that fits."""
    return seal_line(body)[:-1]


def assert_providers_take(session: rewake.Session) -> None:
    """Neither protocol's provider would refuse the next request."""
    request = ModelRequest(system="", messages=session.view(), tools=(), turn=0)
    assert refused(request) == []


def assert_same_from_root(transcript: Path) -> None:
    """A resume comes to the state that folding every line gives. Not for forks."""
    assert same(loaded(transcript).state.as_json()) == same(
        loaded_from_root(transcript).state.as_json()
    )
