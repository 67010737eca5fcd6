"""Does Rewake keep its promises when the power fails? Hundreds of crashed disks say so.

    python -m rewake.testing.power_loss --images 300

A session runs on an ext4 file system whose disk logs every write and every flush. From that log,
disks are rebuilt as a crash at a random moment may leave them; each is mounted, the session is
recovered from it, and everything that had been promised is compared.

    --unsynced log      leave out all syncs of Rewake's own files: losses must be found
    --unsynced blobs    leave out those of the blobs: events must be found that name what isn't there
    --unsynced files    leave out the syncs of the user's files: verdicts must say `lost`

Needs root on Linux, /dev/fuse and loop devices. All mounts are made in a mount namespace of its own,
so nothing is left behind, whatever ends it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rewake.testing.power_loss_check import Found, check
from rewake.testing.power_loss_device import IMAGE, MARKS, Record, read_log
from rewake.testing.power_loss_images import crash_states
from rewake.testing.power_loss_session import HOME, SESSION_ID, Mark

_DISK_BYTES: Final = 24 << 20  # what the journal and the workload need
_BLOCK_BYTES: Final = 4096
_BACKUP_BLOCK: Final = 1024  # where the second group begins
_TOOLS: Final = ("mkfs.ext4", "e2fsck", "mount", "umount", "unshare")
_EXAMPLES_MAX: Final = 10
_MEMORY: Final = "/dev/shm"  # noqa: S108  # a private directory is made in it
_INSIDE: Final = "--inside"


class Report(msgspec.Struct):
    """What a run of the suite found. `broken` counts by promise, with a few `examples`."""

    images: int = 0
    images_with_losses: int = 0
    writes_logged: int = 0
    flushes_logged: int = 0
    sectors_kept: int = 0
    sectors_dropped: int = 0
    broken: dict[str, int] = {}
    examples: list[str] = []
    seen: dict[str, int] = {}

    def add(self, found: Found) -> None:
        """Count one crash state."""
        self.images += 1
        self.images_with_losses += bool(found.broken)
        self.broken = dict(Counter(self.broken) + Counter(promise for promise, _ in found.broken))
        self.examples = [*self.examples, *(how for _, how in found.broken)][:_EXAMPLES_MAX]
        self.seen = dict(Counter(self.seen) + found.seen)


class Options(msgspec.Struct, frozen=True):
    """What to try. `steps` are the prompts of the session, `unsynced` what is left out."""

    images: int = 300
    steps: int = 24
    seed: int = 0
    unsynced: str = "nothing"


def unsupported() -> str | None:
    """Why the suite can't run here; None where it can."""
    if sys.platform != "linux":
        return "needs Linux"
    if os.geteuid() != 0:
        return "needs root, for mounting"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    missing += [path for path in ("/dev/fuse", "/dev/loop-control") if not Path(path).exists()]
    if missing:
        return f"needs {', '.join(missing)}"
    probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if probe.returncode == 0 else "may not make a mount namespace here"


def run(options: Options) -> Report:
    """Record a session, then try `options.images` crashes. Call it in a mount namespace of its own."""
    # The disk that is recorded needs no real one below it.
    chosen = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="rewake-power-", dir=chosen) as work:
        where = Path(work)
        (where / "disk").mkdir()
        base, log, whole = _record(where, options)
        return _try_crashes(where, base, log, whole, options)


def _record(where: Path, options: Options) -> tuple[bytes, list[Record], bytes]:
    """The disk before, everything that was written to it, and the whole transcript."""
    image, device_log, device = where / "image", where / "log", where / "device"
    with image.open("wb") as file:
        file.truncate(_DISK_BYTES)
    groups = [
        "-g",
        str(_BACKUP_BLOCK),
    ]  # small ones, so that even this disk has a second superblock
    command = ["mkfs.ext4", "-q", "-b", str(_BLOCK_BYTES), *groups, "-J", "size=4", str(image)]
    subprocess.run(command, check=True)
    base = image.read_bytes()
    device.mkdir()
    with (
        _served(device, image, device_log),
        # Without auto_da_alloc ext4 doesn't sync for programs that forget to.
        _mounted(device / IMAGE, where / "disk", "noauto_da_alloc"),
    ):
        command = [sys.executable, "-m", "rewake.testing.power_loss_session"]
        arguments = [str(where / "disk"), str(device / MARKS), str(options.steps)]
        subprocess.run([*command, *arguments, options.unsynced], check=True)
        found = (where / "disk" / HOME).glob(f"projects/*/sessions/{SESSION_ID}/*.jsonl")
        whole = next(path for path in found if path.name == "transcript.jsonl").read_bytes()
    return base, list(read_log(device_log)), whole


def _try_crashes(
    where: Path, base: bytes, log: Sequence[Record], whole: bytes, options: Options
) -> Report:
    chance = random.Random(options.seed)  # noqa: S311  # repeatable, no secret
    marks = [msgspec.json.decode(record.data, type=Mark) for record in log if record.kind == "mark"]
    begin = next(index for index, record in enumerate(log) if record.kind == "mark") + 1
    points = [chance.randint(begin, len(log)) for _ in range(options.images)]
    report = Report(
        writes_logged=sum(record.kind == "write" for record in log),
        flushes_logged=sum(record.kind == "flush" for record in log),
    )
    crashed = where / "crashed"
    for state in crash_states(base, log, points, chance):
        crashed.write_bytes(state.image)
        with _mounted(crashed, where / "disk"):
            acknowledged = marks[state.marks - 1].acknowledged
            synced = options.unsynced != "files"
            report.add(check(where / "disk", whole, acknowledged, files_synced=synced))
        report.sectors_kept += state.kept
        report.sectors_dropped += state.dropped
    return report


# --- mounts ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _served(device: Path, image: Path, log: Path) -> Iterator[None]:
    """The recording device at `device`, while the block runs; its log is complete afterwards."""
    command = [sys.executable, "-m", "rewake.testing.power_loss_device"]
    paths = [str(device), str(image), str(log)]
    with subprocess.Popen(
        [*command, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101  # a pipe was asked for
            if process.stdout.readline() != b"mounted\n":
                raise OSError(f"the recording device could not be mounted at {device}")
            yield
        finally:
            subprocess.run(["umount", "--lazy", device], check=False)
            process.communicate()


@contextlib.contextmanager
def _mounted(image: Path, where: Path, options: str = "") -> Iterator[None]:
    """The image's file system at `where`; its loop device detaches itself with the last user."""
    wanted = f"loop,{options}" if options else "loop"
    command = ["mount", "-t", "ext4", "-o", wanted, str(image), str(where)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        # A superblock torn between its sectors; a boot would mend it from its copy, too.
        backup = ["-b", str(_BACKUP_BLOCK), "-B", str(_BLOCK_BYTES)]
        subprocess.run(["e2fsck", "-y", *backup, str(image)], capture_output=True, check=False)
        subprocess.run(command, check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", where], check=True)


# --- the command -----------------------------------------------------------------------------


def describe(report: Report) -> str:
    """The report for people."""
    lines = [
        f"{report.images} crashes tried",
        f"  {report.writes_logged:6} writes and {report.flushes_logged} flushes logged",
        f"  {report.sectors_kept:6} unflushed sectors kept, {report.sectors_dropped} dropped",
        *(f"  {count:6} {name}" for name, count in sorted(report.seen.items())),
        f"{report.images_with_losses} of {report.images} with a broken promise",
        *(f"  {count:6} not kept: {what}" for what, count in sorted(report.broken.items())),
        *(f"         {how}" for how in report.examples),
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the suite; 1 when a promise was broken, 2 where it can't run."""
    parser = argparse.ArgumentParser(prog="python -m rewake.testing.power_loss")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--unsynced", choices=["nothing", "log", "blobs", "files"], default="nothing"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument(_INSIDE, action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    why = unsupported()
    if why is not None:
        print(f"The power-loss suite can't run here: it {why}.", file=sys.stderr)  # noqa: T201  # a command
        return 2
    if not given.inside:
        own_namespace = ["unshare", "--mount", "--propagation", "private"]
        command = [sys.executable, "-m", "rewake.testing.power_loss", _INSIDE, *arguments]
        return subprocess.run([*own_namespace, *command], check=False).returncode
    report = run(Options(given.images, given.steps, given.seed, given.unsynced))
    shown = json.dumps(msgspec.to_builtins(report), indent=1) if given.json else describe(report)
    print(shown)  # noqa: T201  # a command
    return 1 if report.images_with_losses else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
