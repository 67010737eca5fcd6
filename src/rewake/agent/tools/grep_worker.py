"""Searches files for an expression in a process of its own, which can be killed.

Run as `python -I -S grep_worker.py` by the Grep tool, because an expression that backtracks without
end can't be stopped in a thread and would hold up the whole agent. Imports only the standard
library. The job is one JSON object on stdin; each file with a match is one JSON line on stdout, at
once, so that what was found before a time limit counts.
"""

# Pathlib would double the start-up time of every search.
# ruff: noqa: PTH123

from __future__ import annotations

import json
import re
import sys

FILE_BYTES_MAX = 16 << 20
LINE_CHARS_SHOWN = 500
# Longer lines are minified code or data; a search goes only so far into them.
LINE_CHARS_SEARCHED = 20_000
SNIFF_BYTES = 8_000
# What can match in a line taken by itself and not in the whole text: anchors of the text, and what
# looks around or doesn't give back.
LINE_BOUND = re.compile(r"\(\?(?!:)|\\[AZ]|[+*?}]\+")


def main() -> int:
    """Work through the job's files until its limit of lines is reached."""
    job = json.load(sys.stdin)
    flags = (re.IGNORECASE if job["ignore_case"] else 0) | (
        re.MULTILINE | re.DOTALL if job["multiline"] else 0
    )
    expression = re.compile(job["pattern"], flags)
    # Most files have no match at all, and one search of the whole text tells so much faster.
    quick = (
        None
        if LINE_BOUND.search(job["pattern"])
        else re.compile(job["pattern"], flags | re.MULTILINE)
    )
    left = job["lines_max"]
    for number, path in enumerate(job["files"]):
        text = read(path)
        if text is None or (quick is not None and quick.search(text) is None):
            continue
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        hits = matches_across(text, expression) if job["multiline"] else matches(lines, expression)
        if not hits:
            continue
        shown = (
            with_context(lines, hits, job["before"], job["after"], left) if job["content"] else []
        )
        left -= max(len(shown), 1)
        found = {"file": number, "count": len(hits), "lines": shown}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        if left <= 0:
            break
    return 0


def read(path: str) -> str | None:
    """The file's text, or None for one that is binary, too large, or can't be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError:
        return None
    if len(data) > FILE_BYTES_MAX:
        return None
    for bom, encoding in (
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
    ):
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, "replace").replace("\r\n", "\n")
    if b"\0" in data[:SNIFF_BYTES]:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    return text.replace("\r\n", "\n")


def matches(lines: list[str], expression: re.Pattern[str]) -> list[int]:
    """Indexes of the lines that match."""
    search = expression.search
    return [at for at, line in enumerate(lines) if search(line[:LINE_CHARS_SEARCHED])]


def matches_across(text: str, expression: re.Pattern[str]) -> list[int]:
    """Indexes of all lines that are part of a match."""
    hits: set[int] = set()
    line, position = 0, 0
    for match in expression.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        end = max(match.end() - 1, match.start())
        hits.update(range(line, line + text.count("\n", position, end) + 1))
    return sorted(hits)


def with_context(
    lines: list[str], hits: list[int], before: int, after: int, left: int
) -> list[list[object]]:
    """At most `left` lines: number, whether it matches, text."""
    matching = set(hits)
    wanted = sorted(
        {at for hit in hits[: left + 1] for at in range(max(hit - before, 0), hit + after + 1)}
    )
    return [
        [at + 1, at in matching, lines[at][:LINE_CHARS_SHOWN]]
        for at in wanted[:left]
        if at < len(lines)
    ]


if __name__ == "__main__":
    sys.exit(main())
