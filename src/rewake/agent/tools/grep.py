"""Grep: lines or files by an expression, within bounds of time and size."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, assert_never

import anyio.to_thread
import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.tools import environment, grep_worker
from rewake.agent.tools.arguments import parse
from rewake.agent.tools.paths import allowed_root, shown
from rewake.agent.tools.walk import Walk, name_pattern
from rewake.model.content import JsonObject, Text
from rewake.model.events import ReadOnlyIntent

_SECONDS_MAX: Final = 20
_LIMIT_DEFAULT: Final = 200
_LIMIT_MAX: Final = 2_000
_TEXT_CHARS_MAX: Final = 50_000
_PATTERN_CHARS_MAX: Final = 10_000


class Arguments(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={
        "short_ignore_case": "-i",
        "short_after": "-A",
        "short_before": "-B",
        "short_context": "-C",
        "short_numbers": "-n",
    },
):
    """The flags with a dash are those of grep, which models know."""

    pattern: str
    path: str | None = None
    glob: str | None = None
    output_mode: Literal["content", "files_with_matches", "count"] = "files_with_matches"
    ignore_case: bool = False
    before: int = 0
    after: int = 0
    context: int = 0
    head_limit: int | None = None
    multiline: bool = False
    short_ignore_case: bool = False
    short_after: int = 0
    short_before: int = 0
    short_context: int = 0
    short_numbers: bool = True


class _Found(msgspec.Struct, frozen=True):
    """One file's line of the worker's output."""

    file: int
    count: int
    lines: list[tuple[int, bool, str]] = []


@dataclass(frozen=True, slots=True)
class _Plan:
    root: Path
    given: Arguments
    names: re.Pattern[str] | None
    before: int
    after: int
    limit: int


class GrepTool:
    """Searches the files that Git doesn't ignore with Python's regular expressions."""

    read_only = True

    def __init__(self, seconds_max: float = _SECONDS_MAX) -> None:
        self._seconds_max = seconds_max

    spec = ToolSpec(
        name="Grep",
        description=(
            "Searches file contents with a regular expression (Python syntax). Files that Git "
            "ignores and binary files are left out. output_mode files_with_matches (the default) "
            "gives paths, content gives the lines with their numbers, count the number of matching "
            "lines of each file. Narrow it with path (a file or directory) and glob (such as *.py "
            "or src/**/*.ts)."
        ),
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The regular expression."},
                "path": {
                    "type": "string",
                    "description": "File or directory to search. Default: the project's root.",
                },
                "glob": {"type": "string", "description": "Only files whose path matches this."},
                "output_mode": {
                    "type": "string",
                    "enum": ["content", "files_with_matches", "count"],
                },
                "ignore_case": {"type": "boolean", "description": "Ignore upper and lower case."},
                "before": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Lines to show before each match.",
                },
                "after": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Lines to show after each match.",
                },
                "context": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Lines to show before and after each match.",
                },
                "head_limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"How many lines or files to give. Default: {_LIMIT_DEFAULT}.",
                },
                "multiline": {
                    "type": "boolean",
                    "description": "Let matches span lines; the dot matches newlines too.",
                },
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
    )

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        given = parse("Grep", Arguments, arguments)
        _check_pattern(given.pattern)
        root = allowed_root(given.path, context)
        try:
            names = name_pattern(given.glob) if given.glob else None
        except ValueError as error:
            raise ToolInputError(f"{error}.") from error
        around = max(given.context, given.short_context)
        plan = _Plan(
            root,
            given,
            names,
            max(given.before, given.short_before, around),
            max(given.after, given.short_after, around),
            min(given.head_limit or _LIMIT_DEFAULT, _LIMIT_MAX),
        )
        where = shown(str(root), context)
        return Prepared(
            intent=ReadOnlyIntent(),
            subject=where,
            summary=f"Search {where} for {given.pattern}",
            data=plan,
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        plan = prepared.data
        if not isinstance(plan, _Plan):
            raise TypeError("this call was not prepared by Grep")
        if not plan.root.exists():
            message = f"{shown(str(plan.root), context)} does not exist."
            return ToolOutput((Text(message),), is_error=True)
        worker = _start_worker(context)
        try:
            search = _Search(plan, worker, time.monotonic() + self._seconds_max)
            return await anyio.to_thread.run_sync(search.run, context, abandon_on_cancel=True)
        finally:
            worker.kill()  # the thread, if it was left behind, ends with it


def _check_pattern(pattern: str) -> None:
    if not pattern:
        raise ToolInputError("pattern is empty.")
    if len(pattern) > _PATTERN_CHARS_MAX:
        raise ToolInputError(f"pattern is longer than {_PATTERN_CHARS_MAX} characters.")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolInputError(
            f"{pattern!r} is no regular expression: {error}. Escape characters such as ( [ {{ . "
            "with a backslash to search for themselves."
        ) from error


def _start_worker(context: ToolContext) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", grep_worker.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment.for_command(os.environ, context.secrets, str(context.project)),
    )


class _Search:
    """One search: lists the files, hands them to the worker and puts its answer into words."""

    def __init__(self, plan: _Plan, worker: subprocess.Popen[bytes], deadline: float) -> None:
        self._plan = plan
        self._worker = worker
        self._deadline = deadline
        self._walk = Walk(plan.root, deadline)
        self._timed_out = False

    def run(self, context: ToolContext) -> ToolOutput:
        """Blocks until the worker has ended or the deadline has passed."""
        with self._worker:
            files = [
                path
                for path in self._walk.files()
                if self._is_wanted(path) and not context.forbids("Grep", shown(path, context))
            ]
            answer = self._ask(files)
        found = [_decode(line) for line in answer.split(b"\n") if line.endswith(b"}")]
        lines = self._lines(found, [_printable(shown(path, context)) for path in files])
        return ToolOutput((Text(self._text(lines)),))

    def _is_wanted(self, path: str) -> bool:
        if Path(path).is_symlink():
            return False
        if self._plan.names is None or path == str(self._plan.root):
            return True
        relative = os.path.relpath(path, self._plan.root).replace(os.sep, "/")
        return self._plan.names.match(relative) is not None

    def _ask(self, files: list[str]) -> bytes:
        given = self._plan.given
        job = {
            "pattern": given.pattern,
            "ignore_case": given.ignore_case or given.short_ignore_case,
            "multiline": given.multiline,
            "content": given.output_mode == "content",
            "before": self._plan.before,
            "after": self._plan.after,
            "lines_max": self._plan.limit + 1,
            "files": files,
        }
        try:
            return self._communicate(job)
        except subprocess.TimeoutExpired:
            self._timed_out = True
            self._worker.kill()
            return self._worker.communicate()[0]

    def _communicate(self, job: JsonObject) -> bytes:
        import json  # msgspec refuses the lone surrogates of paths that aren't UTF-8

        left = max(self._deadline - time.monotonic(), 0.1)
        return self._worker.communicate(json.dumps(job).encode(), timeout=left)[0]

    def _lines(self, found: list[_Found], names: list[str]) -> list[str]:
        mode = self._plan.given.output_mode
        match mode:
            case "files_with_matches":
                return [names[one.file] for one in found]
            case "count":
                return [f"{names[one.file]}:{one.count}" for one in found]
            case "content":
                return self._content(found, names)
            case _:
                assert_never(mode)

    def _content(self, found: list[_Found], names: list[str]) -> list[str]:
        separated = self._plan.before > 0 or self._plan.after > 0
        lines: list[str] = []
        for one in found:
            last = None
            for number, matches, text in one.lines:
                if separated and lines and number - 1 != last:
                    lines.append("--")
                last = number
                mark = ":" if matches else "-"
                lines.append(f"{names[one.file]}{mark}{number}{mark}{text}")
        return lines

    def _text(self, lines: list[str]) -> str:
        notes = [self._walk.stopped] if self._walk.stopped else []
        if self._timed_out:
            notes.append("stopped at the time limit; simplify the pattern or narrow the path")
        if len(lines) > self._plan.limit:
            notes.append(f"only the first {self._plan.limit} are shown; narrow the search")
        text = "\n".join(lines[: self._plan.limit])
        if len(text) > _TEXT_CHARS_MAX:
            text = text[:_TEXT_CHARS_MAX].rpartition("\n")[0]
            notes.append("cut because it is long; narrow the search")
        if not text:
            text = "No match was found."
        return "\n".join([text, *(f"[{note}]" for note in notes)])


def _decode(line: bytes) -> _Found:
    return msgspec.json.decode(line, type=_Found)


def _printable(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")
