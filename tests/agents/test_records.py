"""Records of agents: those of a session, corrected by its transcripts, and those that run elsewhere."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from tests.agents.crew import SESSION, Crew, TypedModel, bash, calls, says, task

import rewake
from rewake.errors import DamagedError, SessionNotFoundError, StorageError, UsageError


def listed(crew: Crew) -> list[rewake.AgentInfo]:
    return rewake.agents(SESSION, project=crew.project, home=crew.home)


def nested(crew: Crew) -> None:
    crew.run(
        TypedModel(
            main=[calls(task("outer"), cost=0.25)],
            worker=[calls(task("inner", "explorer"), cost=0.5), says("x")],
            explorer=[says("y", cost=0.125)],
        )
    )


def test_a_list_has_each_agent_after_the_one_it_belongs_to(crew: Crew) -> None:
    nested(crew)
    rows = listed(crew)
    assert [(row.task, row.depth, row.agent_type, row.status) for row in rows] == [
        ("outer", 1, "worker", "completed"),
        ("inner", 2, "explorer", "completed"),
    ]
    assert rows[1].parent_agent_id == rows[0].agent_id
    assert [row.steps for row in rows] == [2, 1]
    assert rows[0].started_at <= rows[1].started_at <= rows[1].ended_at <= rows[0].ended_at


def test_what_agents_used_is_in_the_total_of_those_above_them(crew: Crew) -> None:
    nested(crew)
    rows = listed(crew)
    assert [row.usage.cost_usd for row in rows] == [0.625, 0.125]
    (session,) = rewake.sessions(crew.project, home=crew.home)
    assert session.cost_usd == 0.875


def test_a_record_says_what_a_transcript_says(crew: Crew) -> None:
    nested(crew)
    rows = listed(crew)
    for row in rows:
        record = json.loads(Path(row.path).with_suffix(".meta.json").read_text())
        assert record["status"] == row.status
        assert record["steps"] == row.steps
        assert stat.S_IMODE(Path(row.path).stat().st_mode) == 0o600
    for path in crew.paths.agents.glob("*.meta.json"):
        path.unlink()
    again = listed(crew)
    assert [(r.agent_id, r.status, r.task, r.depth) for r in again] == [
        (r.agent_id, r.status, r.task, r.depth) for r in rows
    ]


def test_a_record_that_says_running_is_not_believed(crew: Crew) -> None:
    pid = os.fork()
    if pid == 0:

        async def die(request: object) -> object:
            os._exit(1)

        crew.run(TypedModel(main=[calls(task("work"))], worker=[calls(bash("true")), die]))  # type: ignore[list-item]  # never answers
        os._exit(0)
    os.waitpid(pid, 0)
    (path,) = crew.paths.agents.glob("*.meta.json")
    assert json.loads(path.read_text())["status"] == "running"
    assert [row.status for row in listed(crew)] == ["interrupted"]


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[1]", b'{"agent_id": 3}', b"\xff\xfe"])
def test_a_damaged_record_is_a_problem_of_its_row(crew: Crew, content: bytes) -> None:
    nested(crew)
    path = min(crew.paths.agents.glob("*.meta.json"))
    path.write_bytes(content)
    rows = listed(crew)
    assert [row.status for row in rows] == ["completed", "completed"]
    assert [row.problem is not None for row in rows].count(True) == 1


def test_a_broken_transcript_hides_no_other(crew: Crew) -> None:
    nested(crew)
    first = crew.agent_ids()[0]
    path = crew.paths.agent_transcript(first)
    path.unlink()
    path.mkdir()
    rows = listed(crew)
    assert len(rows) == 2
    assert {row.problem is not None for row in rows} == {True, False}


def test_records_that_name_each_other_as_parents_are_all_listed(crew: Crew) -> None:
    nested(crew)
    for path in crew.paths.agents.glob("*.jsonl"):
        path.unlink()
    ids = [path.name.removesuffix(".meta.json") for path in crew.paths.agents.glob("*.meta.json")]
    for one, other in (ids, ids[::-1]):
        record = {"agent_id": one, "status": "completed", "parent_agent_id": other}
        (crew.paths.agents / f"{one}.meta.json").write_text(json.dumps(record))
    assert {row.agent_id for row in listed(crew)} == set(ids)


def test_an_open_session_lists_its_agents_too(crew: Crew) -> None:
    nested(crew)
    with crew.open() as session:
        assert len(rewake.agents(session)) == 2


def test_a_sidechain_is_never_offered_as_a_session(crew: Crew) -> None:
    nested(crew)
    (row,) = rewake.sessions(crew.project, home=crew.home)
    assert row.session_id == SESSION
    for agent_id in crew.agent_ids():
        with pytest.raises(SessionNotFoundError):
            rewake.open_session(crew.project, home=crew.home, resume=agent_id)


# --- agents that run elsewhere ---------------------------------------------------------------


@pytest.fixture
def remote(crew: Crew) -> rewake.RemoteAgents:
    crew.run(TypedModel())
    return rewake.remote_agents(SESSION, project=crew.project, home=crew.home)


def test_what_is_written_is_read_until_it_is_deleted(remote: rewake.RemoteAgents) -> None:
    one = rewake.RemoteAgent(
        "a1", "s2", "host-1", "running", "2026-01-01T00:00:00.000000Z", "build", {"pid": 7}
    )
    two = rewake.RemoteAgent("a2", host="host-2")
    remote.write(one)
    remote.write(two)
    assert remote.read("a1") == one
    assert remote.list() == ([one, two], [])
    remote.write(rewake.RemoteAgent("a1", status="done"))
    assert remote.read("a1").status == "done"
    assert remote.delete("a1")
    assert not remote.delete("a1")
    assert remote.list() == ([two], [])
    with pytest.raises(SessionNotFoundError):
        remote.read("a1")


@pytest.mark.parametrize("agent_id", ["", "..", "a/b", "../x", "x\0y", ".hidden", "a" * 200])
def test_an_id_that_is_no_name_is_refused(remote: rewake.RemoteAgents, agent_id: str) -> None:
    with pytest.raises(UsageError):
        remote.write(rewake.RemoteAgent(agent_id))
    assert remote.list() == ([], [])


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"\0\0", b"[" * 100_000])
def test_a_damaged_record_is_listed_as_damaged(
    crew: Crew, remote: rewake.RemoteAgents, content: bytes
) -> None:
    remote.write(rewake.RemoteAgent("good"))
    (crew.paths.agents / "bad.remote.json").write_bytes(content)
    records, damaged = remote.list()
    assert [record.agent_id for record in records] == ["good"]
    assert [record.record_id for record in damaged] == ["bad"]
    with pytest.raises(DamagedError):
        remote.read("bad")
    remote.write(rewake.RemoteAgent("bad"))
    assert remote.list()[1] == []


def test_whoever_reads_sees_a_whole_record(remote: rewake.RemoteAgents) -> None:
    remote.write(rewake.RemoteAgent("a", task="0" * 10_000))
    stopped = threading.Event()

    def rewrite() -> None:
        number = 0
        while not stopped.is_set():
            number = (number + 1) % 10
            remote.write(rewake.RemoteAgent("a", task=str(number) * 10_000))

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(100):
            assert len(set(remote.read("a").task)) == 1
            assert remote.list()[1] == []
    finally:
        stopped.set()
        writer.join()


def test_records_of_elsewhere_are_no_sub_agents(crew: Crew, remote: rewake.RemoteAgents) -> None:
    remote.write(rewake.RemoteAgent("far"))
    assert listed(crew) == []


def test_a_disk_that_refuses_is_said_so(crew: Crew, remote: rewake.RemoteAgents) -> None:
    crew.paths.agents.parent.joinpath("agents").write_text("in the way")
    with pytest.raises(StorageError):
        remote.write(rewake.RemoteAgent("a"))


# --- agents of programs with a loop of their own ---------------------------------------------


def test_the_guides_example_is_what_happens(crew: Crew) -> None:
    guide = (Path(__file__).parents[2] / "docs/guide/agents.md").read_text()
    (example,) = [part.split("```")[0] for part in guide.split("```python\n")[1:]]
    code = example.replace(
        'open_session(project=".")',
        f"open_session(project={str(crew.project)!r}, home={str(crew.home)!r}, session_id='s')",
    )
    exec(compile(code, "agents.md", "exec"), {})  # noqa: S102  # the guide's own words
    (row,) = listed(crew)
    assert (row.status, row.task) == ("completed", "check the docs")
    assert [status for status, _ in crew.ends()] == ["spawned", "completed"]


def test_a_program_goes_on_with_an_agent_of_its_own(crew: Crew) -> None:
    with crew.open(resumes_agents=False) as session:
        session.user("Go.")
        agent = rewake.spawn_agent(session, "work", agent_id="mine")
        agent.user("Work.")
        agent.close()
    with crew.open(resumes_agents=False) as session:
        assert session.resumed is not None
        assert [one.agent_id for one in session.resumed.agents] == ["mine"]
        agent = rewake.resume_agent(session, "mine")
        assert [entry.message.role for entry in agent.messages] == ["user"]
        with pytest.raises(UsageError):
            rewake.resume_agent(session, "mine")
        agent.assistant("Worked.")
        agent.terminal("done")
        rewake.end_agent(session, agent, "completed")
        with pytest.raises(UsageError):
            rewake.spawn_agent(session, "again", agent_id="mine")
    assert [row.status for row in listed(crew)] == ["completed"]


def test_agents_that_record_from_many_threads_share_one_order(crew: Crew) -> None:
    with crew.open() as session:
        children = [rewake.spawn_agent(session, str(number)) for number in range(8)]

        def work(child: rewake.Session) -> None:
            child.user("Go.")
            for number in range(100):
                child.assistant(f"Step {number}.", usage=rewake.Usage())
                session.metadata(**{child.agent_id or "": number})
            child.terminal("done")

        threads = [threading.Thread(target=work, args=(child,)) for child in children]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for child in children:
            rewake.end_agent(session, child, "completed")
    transcripts = [crew.events(), *(crew.events(agent_id) for agent_id in crew.agent_ids())]
    ids = [[event.event_id for event in events] for events in transcripts]
    assert all(one == sorted(one) for one in ids)
    everything = [event_id for one in ids for event_id in one]
    assert len(set(everything)) == len(everything) > 8 * 100 * 2


def test_two_may_not_go_on_with_one_agent(crew: Crew) -> None:
    with crew.open() as session:
        child = rewake.spawn_agent(session, "one", agent_id="one")
        child.user("Go.")
        below = rewake.spawn_agent(child, "below", agent_id="below")
        below.user("Go.")
        for asker, agent_id in ((session, "one"), (session, "below"), (child, "below")):
            with pytest.raises((UsageError, SessionNotFoundError)):
                rewake.resume_agent(asker, agent_id)
        below.terminal("done")
        rewake.end_agent(child, below, "completed")
        with pytest.raises(SessionNotFoundError):  # it is the child's, who accounts for it
            rewake.resume_agent(session, "below")
        again = rewake.resume_agent(child, "below")
        again.terminal("done")
        rewake.end_agent(child, again, "completed")
        child.terminal("done")
        rewake.end_agent(session, child, "completed")
    assert [status for status, _ in crew.ends("one")] == [
        "spawned",
        "completed",
        "resumed",
        "completed",
    ]
