"""A disk that remembers: one image file, served through FUSE, every write and flush of it logged.

    python -m rewake.testing.power_loss_device MOUNTPOINT IMAGE LOG

Mounts a directory with two files, `image` (what IMAGE holds, to be loop-mounted) and `marks` (what is
written there becomes a mark in the log). It serves until its standard input closes.

The rules kept here:

- One thread, one request at a time, so the order of the log is the order of what happened.
- An acknowledged flush covers exactly the writes that stand before it in the log.

The kernel's protocol is spoken directly (linux/fuse.h, version 7.31): two files need no library.
Needs root and Linux.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec

IMAGE: Final = "image"
MARKS: Final = "marks"

_ROOT_NODE, _IMAGE_NODE, _MARKS_NODE = 1, 2, 3
_NODES: Final = {IMAGE.encode(): _IMAGE_NODE, MARKS.encode(): _MARKS_NODE}
_WRITE_BYTES_MAX: Final = 1 << 20
_VALID_SECONDS: Final = 3600  # nothing but the kernel's own writes changes what it caches

_RECORD: Final = struct.Struct("<cQI")
_RECORD_KINDS: Final[dict[bytes, Literal["write", "flush", "mark"]]] = {
    b"W": "write",
    b"F": "flush",
    b"M": "mark",
}


class Record(msgspec.Struct, frozen=True):
    """What reached the disk, or a mark of the program under test. `offset` is in bytes."""

    kind: Literal["write", "flush", "mark"]
    offset: int = 0
    data: bytes = b""


def read_log(path: Path) -> Iterator[Record]:
    """What the device wrote to LOG, in order."""
    with path.open("rb") as file:
        while head := file.read(_RECORD.size):
            kind, offset, size = _RECORD.unpack(head)
            yield Record(_RECORD_KINDS[kind], offset, file.read(size))


# --- the protocol ----------------------------------------------------------------------------

_IN_HEADER: Final = struct.Struct("<IIQQIIIHH")
_OUT_HEADER: Final = struct.Struct("<IiQ")
_INIT_OUT: Final = struct.Struct("<IIIIHHIIHHI28x")
_ATTRIBUTES: Final = struct.Struct("<6Q10I")
_ENTRY_OUT: Final = struct.Struct("<4QII")
_ATTRIBUTES_OUT: Final = struct.Struct("<QII")
_OPEN_OUT: Final = struct.Struct("<QII")
_READ_IN: Final = struct.Struct("<QQI")
_WRITE_IN: Final = struct.Struct("<QQIIQII")
_WRITE_OUT: Final = struct.Struct("<II")
_STATFS_OUT: Final = struct.Struct("<5Q4I24x")

_LOOKUP, _FORGET, _GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _STATFS = 1, 2, 3, 4, 14, 15, 16, 17
_RELEASE, _FSYNC, _FLUSH, _INIT, _INTERRUPT, _DESTROY, _BATCH_FORGET = 18, 20, 25, 26, 36, 38, 42
_WITHOUT_REPLY: Final = frozenset({_FORGET, _INTERRUPT, _BATCH_FORGET})
_MINOR: Final = 31
_BIG_WRITES, _MAX_PAGES = 1 << 5, 1 << 22
_DIRECT_IO: Final = 1  # a mark is handed over as it was written, not as pages


class _Device:
    """Answers the kernel's requests, one after the other."""

    def __init__(self, image: int, log: BinaryIO) -> None:
        self._image = image
        self._log = log
        self._size = os.fstat(image).st_size
        self._answers: dict[int, Callable[[int, memoryview], bytes]] = {
            _INIT: self._init,
            _LOOKUP: self._lookup,
            _GETATTR: self._getattr,
            _SETATTR: self._getattr,  # times are nobody's business here
            _OPEN: self._open,
            _READ: self._read,
            _WRITE: self._write,
            _STATFS: lambda _node, _body: _STATFS_OUT.pack(0, 0, 0, 2, 0, 4096, 255, 4096, 0),
            _FSYNC: self._fsync,
            _FLUSH: lambda _node, _body: b"",
            _RELEASE: lambda _node, _body: b"",
            _DESTROY: lambda _node, _body: b"",
        }

    def answer(self, request: memoryview) -> bytes | None:
        """The reply to one request; None where the protocol has none."""
        _, opcode, unique, node, *_ = _IN_HEADER.unpack_from(request)
        if opcode in _WITHOUT_REPLY:
            return None
        answer = self._answers.get(opcode)
        error, body = 0, b""
        if answer is None:
            error = errno.ENOSYS
        else:
            try:
                body = answer(node, request[_IN_HEADER.size :])
            except OSError as failure:
                error = failure.errno or errno.EIO
        return _OUT_HEADER.pack(_OUT_HEADER.size + len(body), -error, unique) + body

    def _record(self, kind: bytes, offset: int, data: memoryview) -> None:
        self._log.write(_RECORD.pack(kind, offset, len(data)))
        self._log.write(data)

    def _init(self, _node: int, _body: memoryview) -> bytes:
        pages = _WRITE_BYTES_MAX // 4096
        flags = _BIG_WRITES | _MAX_PAGES
        return _INIT_OUT.pack(
            7, _MINOR, _WRITE_BYTES_MAX, flags, 16, 12, _WRITE_BYTES_MAX, 1, pages, 0, 0
        )

    def _lookup(self, _node: int, body: memoryview) -> bytes:
        node = _NODES.get(bytes(body).rstrip(b"\0"))
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file")
        entry = _ENTRY_OUT.pack(node, 0, _VALID_SECONDS, _VALID_SECONDS, 0, 0)
        return entry + self._attributes(node)

    def _getattr(self, node: int, _body: memoryview) -> bytes:
        return _ATTRIBUTES_OUT.pack(_VALID_SECONDS, 0, 0) + self._attributes(node)

    def _attributes(self, node: int) -> bytes:
        is_root = node == _ROOT_NODE
        size = self._size if node == _IMAGE_NODE else 0
        mode = stat.S_IFDIR | 0o700 if is_root else stat.S_IFREG | 0o600
        links = 2 if is_root else 1
        times = (0, 0, 0, 0, 0, 0)
        return _ATTRIBUTES.pack(node, size, size // 512, *times, mode, links, 0, 0, 0, 4096, 0)

    def _open(self, node: int, _body: memoryview) -> bytes:
        return _OPEN_OUT.pack(node, _DIRECT_IO if node == _MARKS_NODE else 0, 0)

    def _read(self, node: int, body: memoryview) -> bytes:
        _, offset, size = _READ_IN.unpack_from(body)
        return os.pread(self._image, size, offset) if node == _IMAGE_NODE else b""

    def _write(self, node: int, body: memoryview) -> bytes:
        _, offset, size, *_ = _WRITE_IN.unpack_from(body)
        data = body[_WRITE_IN.size : _WRITE_IN.size + size]
        if node == _MARKS_NODE:
            self._record(b"M", 0, data)
            return _WRITE_OUT.pack(size, 0)
        self._record(b"W", offset, data)
        return _WRITE_OUT.pack(os.pwrite(self._image, data, offset), 0)

    def _fsync(self, node: int, _body: memoryview) -> bytes:
        if node == _IMAGE_NODE:
            self._record(b"F", 0, memoryview(b""))
        return b""


# --- serving ---------------------------------------------------------------------------------


def _mount(descriptor: int, where: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={descriptor},rootmode=40000,user_id=0,group_id=0,allow_other"
    result = libc.mount(b"rewake", os.fsencode(where), b"fuse", 0, options.encode())
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(where))


def serve(mountpoint: Path, image: Path, log: Path) -> None:
    """Mount and answer until standard input closes or the file system is unmounted."""
    kernel = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    image_descriptor = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    buffer = bytearray(_WRITE_BYTES_MAX + (1 << 16))
    view = memoryview(buffer)
    with log.open("wb") as log_file:
        device = _Device(image_descriptor, log_file)
        _mount(kernel, mountpoint)
        print("mounted", flush=True)  # noqa: T201  # who started this waits for it
        while True:
            ready, _, _ = select.select([kernel, sys.stdin], [], [])
            if kernel not in ready:
                break
            try:
                count = os.readv(kernel, [buffer])
            except OSError as error:
                if error.errno == errno.ENODEV:  # unmounted
                    break
                if error.errno in {errno.ENOENT, errno.EINTR}:  # the request was taken back
                    continue
                raise
            reply = device.answer(view[:count])
            if reply is not None:
                os.write(kernel, reply)
    os.close(image_descriptor)
    os.close(kernel)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
