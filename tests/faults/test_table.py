"""The table of faults names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_test_in_the_table_exists_and_every_kind_has_one() -> None:
    rows = [
        line.strip("| \n").split(" | ")
        for line in (HERE / "README.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith(("| kind", "| ---", "| **"))
    ]
    assert len(rows) > 50
    for kind, named in rows:
        tests = re.findall(r"`(\S+\.py)::(\w+)`", named)
        assert tests, kind
        for file, name in tests:
            assert f"def {name}(" in (HERE.parent / file).read_text(), (kind, name)
