"""The file history by the names that the package exports."""

from __future__ import annotations

from pathlib import Path

import rewake


def test_files_are_planned_taken_back_and_brought_again_by_the_package_s_own_names(
    project: Path, home: Path, tmp_path: Path
) -> None:
    target = project / "a.txt"
    target.write_bytes(b"old\n")
    with rewake.open_session(project, home=home, durability="process") as session:
        rewake.track_files(session)
        asked = session.user("Change it")
        intent = rewake.ShellIntent("echo new > a.txt", str(project), "outputs/1")
        with session.action("Bash", intent=intent) as action:
            target.write_bytes(b"new\n")
            action.complete("done")
        plan = rewake.plan_rewind(session, asked)
        assert (plan.is_possible, len(plan.changes)) == (True, 1)
        rewake.rewind_files(session, asked)
        assert target.read_bytes() == b"old\n"
        rewake.undo_files_rewind(session)
        assert target.read_bytes() == b"new\n"
        (change,) = rewake.file_changes(session.session_id, project=project, home=home)
        assert (change.shown, change.added, change.removed) == ("a.txt", 1, 1)
        with rewake.open_session(
            project, resume=session.session_id, fork=True, with_files=tmp_path / "other", home=home
        ) as other:
            assert (other.root / "a.txt").read_bytes() == b"new\n"


def test_every_exported_name_is_there() -> None:
    missing = [name for name in rewake.__all__ if not hasattr(rewake, name)]
    assert missing == []
