"""The page as one file: everything it needs is in it, and nothing in it leads outside.

The rules kept here:

- What is seen first stands first; contents come last, compressed, and are unpacked when looked at.
- Data stand in elements that no browser runs, as JSON without `<` or as base64.
- What didn't fit is told on the page, with the command that shows it.
"""

from __future__ import annotations

import base64
import html
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from rewake.log.disk import Disk
from rewake.model import jsontext
from rewake.report.assets import assets
from rewake.report.chunks import Store
from rewake.report.reading import Reading
from rewake.report.telling import Telling, files, told
from rewake.version import VERSION

GENERATOR: Final = b'<meta name="generator" content="rewake report'
"""What stands near the beginning of every report."""

_AGENTS_BYTES_MAX: Final = 16 << 20

Clock = Callable[[], str]


def page(telling: Telling, disk: Disk, now: str) -> Iterator[bytes]:
    """The file, piece by piece. The telling must be complete; it is finished here.

    `now` is when it was made, RFC 3339.
    """
    main = telling.main
    main.story.finish()
    agents, left_out = _agents(telling)
    head = telling.head(disk)
    head["made"] = now
    head["version"] = VERSION
    head["agentsLeftOut"] = left_out
    yield _top(str(head["title"]), live=False).encode("utf-8")
    yield _json("head", head)
    yield _packed("story-m", told(main))
    for agent_id, reading in agents:
        yield _packed(f"story-a-{agent_id}", told(reading))
    yield assets().tail().encode("utf-8")
    yield _packed("files", files(main))
    yield _packed("check", telling.findings(disk))
    # The newest are looked at first.
    yield from _chunks("m", main.story.store)
    yield from _chunks("f", main.story.turns.store)
    for agent_id, reading in agents:
        yield from _chunks(f"a-{agent_id}", reading.story.store)
    yield b"</body>\n</html>\n"


def _agents(telling: Telling) -> tuple[list[tuple[str, Reading]], int]:
    """The sub-agents' stories that fit, and how many don't."""
    found: list[tuple[str, Reading]] = []
    left_out = size = 0
    for agent_id, reading in telling.readable_agents():
        reading.story.finish()
        size += sum(len(chunk) for chunk in reading.story.store.chunks)
        if size > _AGENTS_BYTES_MAX:
            left_out += 1
            telling.forget(agent_id)
        else:
            found.append((agent_id, reading))
    return found, left_out


def shell() -> bytes:
    """The live page: the same without data, which it fetches."""
    document = _top("Rewake", live=True) + assets().tail() + "</body>\n</html>\n"
    return document.encode("utf-8")


def _top(title: str, *, live: bool) -> str:
    parts = assets()
    policy = "" if live else _meta_policy(parts.policy("'none'"))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="generator" content="rewake report {VERSION}">\n{policy}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html.escape(title[:200])} · Rewake</title>\n{parts.head()}</head>\n"
        f'<body data-live="{int(live)}">\n{parts.body}'
    )


def _meta_policy(policy: str) -> str:
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'


def _json(name: str, value: Any) -> bytes:
    text = jsontext.dumps(value).replace(b"<", b"\\u003c").replace(b">", b"\\u003e")
    return b'<script type="application/json" id="d-%b">%b</script>\n' % (name.encode(), text)


def _packed(name: str, value: Any) -> bytes:
    return _data(name, zlib.compress(jsontext.dumps(value), 6))


def _data(name: str, packed: bytes) -> bytes:
    text = base64.b64encode(packed)
    return b'<script type="application/octet-stream" id="d-%b">%b</script>\n' % (
        html.escape(name).encode(),
        text,
    )


def _chunks(name: str, store: Store) -> Iterator[bytes]:
    for number in reversed(range(len(store.chunks))):
        if store.chunks[number]:
            yield _data(f"c-{name}-{number}", store.chunks[number])
