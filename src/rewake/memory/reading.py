"""Reads a text file that somebody else may have prepared.

The rules kept here: a link is not followed, a pipe or a device is not waited for, no more is read than
was asked for, and what is no text is refused with a reason instead of being guessed at.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_BOM: Final = b"\xef\xbb\xbf"


class UnreadableError(Exception):
    """The file can't be used; the text says why, without its path."""


@dataclass(frozen=True, slots=True)
class Read:
    """A file's text. `size` is the file's own; with `is_cut` only its beginning was read.

    `sha256` is of the bytes that were read. `is_damaged` tells of bytes that aren't UTF-8, which
    stand in the text as U+FFFD. `device` and `inode` tell whether two paths are one file.
    """

    text: str
    sha256: str
    size: int
    is_cut: bool
    is_damaged: bool
    device: int
    inode: int
    mtime_ns: int
    mode: int
    data: bytes


def read_text(path: Path, bytes_max: int) -> Read:
    """The text of a regular file, at most `bytes_max` bytes of it; line ends become newlines.

    Raises FileNotFoundError, UnreadableError.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(path)) from error
    except (OSError, ValueError) as error:
        raise UnreadableError(_reason(path, error)) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError("it is no regular file")
        # One more than wanted tells whether there is more; a file that grows is no matter.
        data = _read_up_to(descriptor, bytes_max + 1)
    except OSError as error:
        raise UnreadableError(f"it can't be read ({error.strerror or error})") from error
    finally:
        os.close(descriptor)
    is_cut = len(data) > bytes_max
    return _text_of(data[:bytes_max], status, is_cut=is_cut)


def _reason(path: Path, error: OSError | ValueError) -> str:
    if path.is_symlink():
        return "it is a symbolic link"
    return f"it can't be opened ({getattr(error, 'strerror', None) or error})"


def _read_up_to(descriptor: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0 and (part := os.read(descriptor, min(count, 1 << 16))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _text_of(data: bytes, status: os.stat_result, *, is_cut: bool) -> Read:
    if b"\0" in data:
        raise UnreadableError("it is no text (it has NUL bytes)")
    body = data.removeprefix(_BOM)
    text = body.decode("utf-8", "ignore" if is_cut else "replace")
    is_damaged = False
    if "\ufffd" in text or is_cut:
        whole = body.decode("utf-8", "replace")
        # The last character of what was cut may be a half one, which is no damage.
        is_damaged = "\ufffd" in (whole[:-1] if is_cut else whole)
        text = whole.rstrip("\ufffd") if is_cut else whole
    return Read(
        text=text.replace("\r\n", "\n").replace("\r", "\n"),
        sha256=hashlib.sha256(data).hexdigest(),
        size=status.st_size,
        is_cut=is_cut,
        is_damaged=is_damaged,
        device=status.st_dev,
        inode=status.st_ino,
        mtime_ns=status.st_mtime_ns,
        mode=stat.S_IMODE(status.st_mode),
        data=data,
    )
