"""Settings: reading all sources, and one durable change, against what the same bytes cost anyway."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.harness import Figure, Setting, Target, median_of

from rewake.log.disk import Disk
from rewake.settings import Places, load
from rewake.settings.edit import Edit
from rewake.settings.source import read_bytes
from rewake.settings.trust import Answer, content_hash, read_answers, with_answer, write_answers
from rewake.settings.write import change

_LOAD_MS: Final = Target("≤", 5)
_MS: Final = 1_000
_ROUNDS: Final = 40  # a round takes milliseconds
_RULES: Final = 40
_TRUSTED_PROJECTS: Final = 200


def measure(setting: Setting) -> list[Figure]:
    """Load three files of a kind that people have, trusted and not; change one key."""
    home, root = _places(setting.directory / "settings")
    places = Places(home, root, managed=home / "etc")
    rounds = _ROUNDS if setting.sizes.rounds > 1 else 2
    files = [home / "settings.json", *sorted((root / ".rewake").glob("*.json"))]
    size = sum(file.stat().st_size for file in files)

    def plain() -> list[object]:
        return [json.loads(read_bytes(file)) for file in files]

    load(places)
    loaded, bare = median_of((lambda: load(places), plain), rounds)
    counter = iter(range(1 << 30))

    def changed() -> None:
        change(places, "user", [Edit("put", ("max_steps",), next(counter) + 1)], Disk())

    data = files[0].read_bytes()

    def replaced() -> None:
        _replace(home / "other.json", data)

    changing, replacing = median_of((changed, replaced), rounds)
    note = f"{size:,} bytes in three files, {_TRUSTED_PROJECTS} trusted projects"
    return [
        Figure(
            "load settings of all sources",
            loaded * _MS,
            "ms",
            _LOAD_MS,
            bare * _MS,
            "json.loads of the same files",
            note,
        ),
        Figure(
            "change one key, durably",
            changing * _MS,
            "ms",
            None,
            replacing * _MS,
            "write, sync, rename, sync",
        ),
    ]


def _places(directory: Path) -> tuple[Path, Path]:
    home, root = directory / "home", directory / "project"
    (root / ".rewake").mkdir(parents=True)
    home.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    said = {
        "model": "anthropic:claude-sonnet-5-5",
        "permissions": {
            "allow": [f"Bash(command{number} run:*)" for number in range(_RULES)],
            "deny": [f"Read(secret{number}/**)" for number in range(10)],
        },
        "mcp_servers": {
            f"server{number}": {"command": "server", "args": ["--stdio"], "env": {"KEY": "value"}}
            for number in range(5)
        },
        "hooks": {"PreToolUse": [{"matcher": "Edit", "hooks": [{"command": "./check"}]}]},
    }
    own = root / ".rewake"
    for file in (home / "settings.json", own / "settings.json", own / "settings.local.json"):
        file.write_text(json.dumps(said, indent=2), "utf-8")
    answers = read_answers(home)
    for number in range(_TRUSTED_PROJECTS):
        answers = with_answer(answers, directory / f"other{number}", Answer(f"{number:064x}", True))
    sha256 = content_hash(load(Places(home, root)).sources)
    write_answers(home, with_answer(answers, root, Answer(sha256, trusted=True)), Disk())
    return home, root


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, data)
    os.fdatasync(descriptor)
    os.close(descriptor)
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
