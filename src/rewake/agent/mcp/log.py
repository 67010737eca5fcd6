"""What a server prints on stderr, in a file that doesn't grow beyond its bound.

The rule kept here: it is best effort. A log that can't be written costs nothing but the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rewake.log.disk import Disk

BYTES_MAX: Final = 1 << 20
_END: Final = b"\n[rewake: the log is full; what follows is left out]\n"


@dataclass(slots=True)
class BoundedLog:
    """Appends to `path`, which is made with the first byte."""

    path: Path
    disk: Disk
    bytes_max: int = BYTES_MAX
    _descriptor: int = -1
    _written: int = 0
    _is_closed: bool = field(default=False)

    def write(self, data: bytes) -> None:
        """Append what still fits."""
        if self._is_closed or not data:
            return
        room = self.bytes_max - self._written
        try:
            if self._descriptor < 0:
                self.disk.make_directory(self.path.parent, sync=False)
                self._descriptor = self.disk.open_append(self.path)
            self._written += self.disk.write(self._descriptor, data[:room])
            if len(data) > room:
                self.disk.write(self._descriptor, _END)
        except OSError:  # best effort: the disk is full, or the directory is gone
            self.close()
            return
        if len(data) > room:
            self.close()

    def close(self) -> None:
        """Nothing is written any more. Harmless when called twice."""
        self._is_closed = True
        if self._descriptor >= 0:
            self.disk.close(self._descriptor)
            self._descriptor = -1
