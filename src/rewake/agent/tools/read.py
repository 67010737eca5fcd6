"""Read: a file's lines with their numbers, or an image; always bounded."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio.to_thread
import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.tools import text as text_files
from rewake.agent.tools.arguments import parse
from rewake.agent.tools.paths import Target, missing, resolve
from rewake.model.content import Image, JsonObject, Text
from rewake.model.events import FileRead, Outcome, ReadOnlyIntent

LINES_DEFAULT: Final = 2_000
_LINE_CHARS_MAX: Final = 2_000
_TOTAL_CHARS_MAX: Final = 100_000  # about 25,000 tokens of a model's context
_FILE_BYTES_MAX: Final = 64 << 20  # read whole, because edits are locked by the whole content
_IMAGE_BYTES_MAX: Final = 5 << 20  # the limit of the large providers
_DIRECTORY_ENTRIES_SHOWN: Final = 50


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`offset` is the number of the first line, counted from 1."""

    file_path: str
    offset: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    target: Target
    offset: int
    limit: int


class ReadTool:
    """Reads a file, so that the model may edit it afterwards."""

    read_only = True
    spec = ToolSpec(
        name="Read",
        description=(
            "Reads a file of the project and shows its lines with their numbers. Reads the first "
            f"{LINES_DEFAULT} lines unless offset and limit say otherwise. Also shows images (png, "
            "jpeg, gif, webp). A file must be read before it can be edited or overwritten."
        ),
        parameters={
            "type": "object",
            "properties": {
                "file_path": {
                    "type": "string",
                    "description": "Path of the file; relative paths start at the project's root.",
                },
                "offset": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Number of the first line to show, counted from 1.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "How many lines to show.",
                },
            },
            "required": ["file_path"],
            "additionalProperties": False,
        },
    )

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        given = parse("Read", Arguments, arguments)
        target = resolve(given.file_path, context, reading=True)
        plan = _Plan(target, max(given.offset or 1, 1), given.limit or LINES_DEFAULT)
        if plan.limit < 1:
            raise ToolInputError("limit must be 1 or more.")
        return Prepared(
            intent=ReadOnlyIntent(),
            subject=target.shown,
            summary=f"Read {target.shown}",
            serial_keys=(target.real,),
            data=plan,
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        plan = prepared.data
        if not isinstance(plan, _Plan):
            raise TypeError("this call was not prepared by Read")
        return await anyio.to_thread.run_sync(_read, plan, context, abandon_on_cancel=True)


def _read(plan: _Plan, context: ToolContext) -> ToolOutput:
    target = plan.target
    try:
        status = Path(target.real).stat()
        if stat.S_ISDIR(status.st_mode):
            return _failed(_directory(target))
        if not stat.S_ISREG(status.st_mode):
            return _failed(f"{target.shown} is a device, a pipe or a socket, not a file.")
        if status.st_size > _FILE_BYTES_MAX:
            return _failed(
                f"{target.shown} has {status.st_size} bytes, too many to read at once. Search it "
                "with Grep, or look at parts of it with Bash (sed -n, head, tail)."
            )
        data = Path(target.real).read_bytes()
    except FileNotFoundError:
        return _failed(missing(target, context))
    except OSError as error:
        return _failed(f"{target.shown} can't be read: {error.strerror or error}.")
    return _show(data, plan, context)


def _failed(message: str) -> ToolOutput:
    return ToolOutput((Text(message),), is_error=True)


def _directory(target: Target) -> str:
    with os.scandir(target.real) as entries:
        names = sorted(f"{e.name}/" if e.is_dir() else e.name for e in entries)
    listed = "\n".join(names[:_DIRECTORY_ENTRIES_SHOWN])
    more = len(names) - _DIRECTORY_ENTRIES_SHOWN
    rest = f"\n… and {more} more" if more > 0 else ""
    return f"{target.shown} is a directory. Use Glob to find files in it. It holds:\n{listed}{rest}"


def _show(data: bytes, plan: _Plan, context: ToolContext) -> ToolOutput:
    outcome = Outcome(reads=(FileRead(plan.target.text, hashlib.sha256(data).hexdigest()),))
    media_type = _image_type(data)
    if media_type is not None:
        if len(data) > _IMAGE_BYTES_MAX:
            return _failed(
                f"{plan.target.shown} is an image of {len(data)} bytes; at most {_IMAGE_BYTES_MAX} "
                "can be shown. Make it smaller first."
            )
        image = Image(media_type, context.blobs.put(data), len(data))
        return ToolOutput((image,), outcome=outcome)
    decoded = text_files.decode(data)
    if decoded is None:
        return _failed(
            f"{plan.target.shown} is binary ({len(data)} bytes), so its content isn't shown. "
            "Use Bash with a program that understands it."
        )
    return ToolOutput((Text(_numbered(decoded, plan)),), outcome=outcome)


def _image_type(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _numbered(decoded: text_files.Decoded, plan: _Plan) -> str:
    lines = decoded.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return f"[{plan.target.shown} is empty]"
    if plan.offset > len(lines):
        return f"[{plan.target.shown} has only {len(lines)} lines; offset {plan.offset} is past it]"
    shown, used = [], 0
    for number, line in enumerate(lines[plan.offset - 1 :][: plan.limit], plan.offset):
        shown.append(f"{number:>6}\t{_bounded(line.removesuffix(chr(13)))}")
        used += len(shown[-1]) + 1
        if used > _TOTAL_CHARS_MAX:
            break
    last = plan.offset + len(shown) - 1
    told = text_files.notes(decoded)
    if last < len(lines):
        told.append(
            f"lines {plan.offset} to {last} of {len(lines)}; read on with offset {last + 1}"
        )
    return "\n".join([*shown, *(f"[{note}]" for note in told)])


def _bounded(line: str) -> str:
    if len(line) <= _LINE_CHARS_MAX:
        return line
    return (
        f"{line[:_LINE_CHARS_MAX]} [… {len(line) - _LINE_CHARS_MAX} more characters in this line]"
    )
