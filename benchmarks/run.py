"""The one entry point of the benchmarks: `uv run python benchmarks/run.py [NAME…] [--quick]`.

It prints a table and, with `--json`, writes the same as JSON. A missed target is printed and fails
nothing: figures depend on the machine, tests must not.
"""

from __future__ import annotations

import argparse
import signal
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness  # found through the path set above

NAMES: Final = (
    "append",
    "resume",
    "memory",
    "startup",
    "codec",
    "catalogue",
    "files",
    "report",
    "settings",
    "recall",
    "agents",
    "prompt",
)


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 0 unless something could not be measured at all."""
    options = _parse(arguments)
    signal.signal(signal.SIGTERM, _leave)  # so that the big files go, too
    sizes = harness.TINY if options.tiny else harness.QUICK if options.quick else harness.FULL
    facts = harness.machine()
    print("  ".join(f"{name}: {value}" for name, value in facts.items()))
    results: dict[str, list[harness.Figure]] = {}
    with harness.setting(sizes, options.directory) as setting:
        for name in options.names or NAMES:
            harness.say(f"measuring {name}")
            figures = import_module(f"benchmarks.{name}").measure(setting)
            results[name] = figures
            print(f"\n{name}")
            for row in harness.rows(figures):
                print(f"  {row}")
            sys.stdout.flush()
    if options.json is not None:
        options.json.write_text(harness.as_json(facts, sizes, results), "utf-8")
    return 0


def _leave(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Rewake on this machine.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default all"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the sizes; targets are for full ones"
    )
    parser.add_argument(
        "--tiny", action="store_true", help="only see that it all runs; the figures mean nothing"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--directory", type=Path, help="where the big files go; default the temporary directory"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
