"""What keeps sessions in order knows of sub-agents: check, repair, export, import, delete, gc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.agents.crew import SESSION, Crew, TypedModel, calls, rewake_blobs, says, task, write

import rewake
from rewake.archive.gc import Collector
from rewake.doctor.check import check
from rewake.doctor.findings import Report
from rewake.doctor.repair import RepairReport, repair
from rewake.doctor.subject import Subject
from rewake.log.disk import Disk
from rewake.log.lock import this_process

LARGE = "x" * 100_000


@pytest.fixture
def session(crew: Crew) -> Crew:
    """With two agents; one of them wrote a file that is now another, so only a blob has it."""
    crew.run(
        TypedModel(
            main=[calls(task("one"), task("two", "explorer")), says("ok")],
            worker=[calls(write("a.txt", LARGE)), says("Wrote it.")],
            explorer=[says("Seen.")],
        )
    )
    (crew.project / "a.txt").unlink()
    return crew


def examined(crew: Crew) -> Report:
    return check(Subject.of(crew.paths, Disk()), Disk(), deep=True)


def repaired(crew: Crew, *, dry_run: bool = False) -> RepairReport:
    holder = this_process("now", "test")
    subject = Subject.of(crew.paths, Disk())
    return repair(subject, Disk(), holder, moment="20260101T000000Z", dry_run=dry_run)


def test_a_session_with_agents_is_healthy(session: Crew) -> None:
    report = examined(session)
    assert report.ok
    assert [agent.agent_id for agent in report.agents] == session.agent_ids()
    assert all(agent.events > 0 and agent.ok for agent in report.agents)


def test_damage_in_a_sidechain_is_found_and_repaired(session: Crew) -> None:
    path = session.paths.agent_transcript(session.agent_ids()[0])
    lines = path.read_bytes().split(b"\n")
    lines[3] = b"garbage"
    path.write_bytes(b"\n".join(lines))
    report = examined(session)
    assert not report.ok
    assert [agent.ok for agent in report.agents] == [False, True]
    assert {finding.kind for finding in report.agents[0].findings} >= {"corrupt_line"}
    assert repaired(session, dry_run=True).agents[0].counts == {"dropped_unreadable": 1}
    assert path.read_bytes() == b"\n".join(lines)
    (done,) = repaired(session).agents
    assert done.agent_id == session.agent_ids()[0]
    assert done.kept_original is not None
    assert Path(done.kept_original).read_bytes() == b"\n".join(lines)
    kinds = {f.kind for agent in examined(session).agents for f in agent.findings}
    assert "corrupt_line" not in kinds
    assert repaired(session).agents == ()


def test_what_a_repair_kept_is_no_agent(session: Crew) -> None:
    before = session.agent_ids()
    path = session.paths.agent_transcript(before[0])
    with path.open("ab") as file:
        file.write(b"garbage\n")
    repaired(session)
    rows = rewake.agents(SESSION, project=session.project, home=session.home)
    assert [row.agent_id for row in rows] == before
    assert len(examined(session).agents) == 2


def test_a_sidechain_can_be_checked_and_repaired_by_its_path(session: Crew) -> None:
    path = session.paths.agent_transcript(session.agent_ids()[0])
    with path.open("ab") as file:
        file.write(b"garbage\n")
    subject = Subject.at(path, Disk())
    assert subject.agent_id == session.agent_ids()[0]
    assert subject.lock == session.paths.lock
    assert not check(subject, Disk()).ok
    holder = this_process("now", "test")
    assert repair(subject, Disk(), holder, moment="20260101T000000Z").changed


def test_a_damaged_record_is_found(session: Crew) -> None:
    (session.paths.agents / f"{session.agent_ids()[0]}.meta.json").write_bytes(b"{")
    report = examined(session)
    assert report.counts == {"damaged_record": 1}
    assert not report.ok


def test_a_blob_that_only_a_sidechain_names_is_kept(session: Crew) -> None:
    stored = {path.name for path in session.paths.blobs.rglob("*") if path.is_file()}
    named = session.paths.transcript.read_text()
    assert any(name not in named for name in stored)
    collector = Collector(session.paths.project, session.home, Disk())
    assert collector.plan().useless == ()


def test_what_an_interrupted_write_of_a_record_left_is_removed(session: Crew) -> None:
    leftover = session.paths.agents / ".x.meta.json.0011223344556677.tmp"
    leftover.write_bytes(b"{")
    os.utime(leftover, (0, 0))
    collector = Collector(session.paths.project, session.home, Disk())
    plan = collector.plan()
    assert [item.path for item in plan.useless] == [str(leftover)]
    collector.collect(plan)
    assert not leftover.exists()


def test_agents_go_with_their_session_to_another_machine(session: Crew, tmp_path: Path) -> None:
    archive = tmp_path / "session.zip"
    rewake.export(SESSION, archive, project=session.project, home=session.home)
    there = tmp_path / "there"
    rewake.import_(archive, project=session.project, home=there)
    before = rewake.agents(SESSION, project=session.project, home=session.home)
    after = rewake.agents(SESSION, project=session.project, home=there)
    assert [(r.agent_id, r.status, r.task) for r in after] == [
        (r.agent_id, r.status, r.task) for r in before
    ]
    other = Crew(there, session.project)
    model = TypedModel(
        main=[says("x")] * 2 + [calls(task("", resume=before[0].agent_id)), says("ok")],
        worker=[says("x")] * 2 + [says("Here, too.")],
    )
    other.run(model, "Ask it.")
    assert "Here, too." in model.heard()


def test_a_deleted_session_comes_back_with_its_agents(session: Crew) -> None:
    before = session.agent_ids()
    rewake.delete(SESSION, project=session.project, home=session.home)
    rewake.restore(SESSION, home=session.home)
    assert session.agent_ids() == before
    blobs = rewake_blobs(session.paths)
    stored = [path.name for path in session.paths.blobs.rglob("*") if path.is_file()]
    assert stored
    assert all(blobs.get(name) for name in stored)
