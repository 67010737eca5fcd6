"""What tracking a tool's edit costs in syncs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rewake import FileChange, open_session, track_files

COMMITS = 2  # before the edit and after it


def test_an_edit_costs_three_syncs_beyond_its_commits_at_most_also_the_first_in_a_new_store(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    def counted(_descriptor: int) -> None:
        nonlocal count
        count += 1

    target = project / "a.txt"
    data = b"0\n"
    target.write_bytes(data)
    with open_session(project, home=home) as session:
        track_files(session)
        session.user("Edit it")
        monkeypatch.setattr(os, "fsync", counted)
        monkeypatch.setattr(os, "fdatasync", counted)
        counts = []
        for number in range(1, 6):
            count = 0
            after = b"%d\n" % number
            with session.action("Edit", intent=FileChange(target, data, after)):
                target.write_bytes(after)
            data = after
            counts.append(count - COMMITS)
    assert all(0 < one <= 3 for one in counts)
