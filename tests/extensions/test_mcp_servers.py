"""Servers as they are: real ones over stdio and HTTP, slow ones, dead ones, hostile ones."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest
from tests.cli.shell import wait_until

from rewake.agent.mcp import supervisor
from rewake.agent.mcp.config import ServerConfig
from rewake.agent.mcp.connection import AnswerError, Limits, LostCallError, ServerDownError
from rewake.agent.mcp.hub import McpHub, start_hub
from rewake.log.disk import Disk

if TYPE_CHECKING:
    from mcp_types import CallToolResult

SERVER = Path(__file__).with_name("mcp_server.py")
QUICK = Limits(start_s=20, call_s=20, pauses_s=(0.0,), relist_pause_s=0.0)


def stdio(name: str = "real", *arguments: str, **more: object) -> ServerConfig:
    """The real server as a process."""
    command = (str(SERVER), *(arguments or ("stdio",)))
    return ServerConfig(name, name, sys.executable, command, **more)  # type: ignore[arg-type]


def python(name: str, code: str) -> ServerConfig:
    """A server that is this Python code."""
    return ServerConfig(name, name, sys.executable, ("-c", code))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@dataclass
class Bench:
    """Starts hubs in a directory, and ends them."""

    root: Path
    hubs: list[McpHub] = field(default_factory=list)

    def start(self, *configs: ServerConfig, limits: Limits = QUICK) -> McpHub:
        hub = start_hub(
            configs,
            root=self.root,
            cwd=self.root,
            environment={"PATH": os.environ["PATH"]},
            log_directory=self.root / "logs",
            disk=Disk(),
            limits=limits,
        )
        self.hubs.append(hub)
        return hub

    def ready(self, *configs: ServerConfig, limits: Limits = QUICK) -> McpHub:
        hub = self.start(*configs, limits=limits)
        assert hub.wait(30)
        assert [one.reason for one in hub.status()] == [""] * len(configs)
        return hub


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path.resolve())
    yield made
    for hub in made.hubs:
        hub.close()


def ask(hub: McpHub, tool: str, server: str = "real", **arguments: object) -> CallToolResult:
    async def called() -> CallToolResult:
        with anyio.fail_after(60):
            return await hub.call(server, tool, arguments, {"rewake/idempotency-key": "k1"})

    return anyio.run(called)


def said(hub: McpHub, tool: str, server: str = "real", **arguments: object) -> str:
    (block,) = ask(hub, tool, server, **arguments).content
    assert block.type == "text"
    return block.text


# --- what a server is for --------------------------------------------------------------------


def test_a_server_s_tools_are_listed_and_called(bench: Bench) -> None:
    hub = bench.ready(stdio())
    names = [tool.spec.name for _, tool in hub.tools()]
    assert "mcp__real__add" in names
    assert said(hub, "add", a=2, b=3) == "5"


def test_a_call_carries_its_idempotency_key(bench: Bench) -> None:
    assert said(bench.ready(stdio()), "key") == "k1"


def test_what_a_server_prints_on_stderr_is_in_its_log(bench: Bench) -> None:
    bench.ready(stdio())
    log = bench.root / "logs/real.log"
    wait_until(lambda: log.exists() and "hello from stderr" in log.read_text())


def test_a_server_gets_its_own_variables(bench: Bench) -> None:
    hub = bench.ready(stdio("real", env=(("COLOUR", "green"),)))
    assert said(hub, "environment", name="COLOUR") == "green"


def test_tools_that_come_later_are_listed_at_the_end(bench: Bench) -> None:
    hub = bench.ready(stdio())
    before = [tool.name for _, tool in hub.tools()]
    assert said(hub, "grow") == "grown"
    wait_until(lambda: [tool.name for _, tool in hub.tools()] == [*before, "late"])
    assert said(hub, "late") == "here"


def test_servers_start_side_by_side_and_a_slow_one_comes_later(bench: Bench) -> None:
    gate = bench.root / "gate"
    hub = bench.start(stdio("slow", "slow", str(gate)), stdio())
    wait_until(lambda: [server for server, _ in hub.tools()] != [])
    assert {server for server, _ in hub.tools()} == {"real"}
    assert hub.wait(0) is False
    gate.touch()
    assert hub.wait(30)
    assert {server for server, _ in hub.tools()} == {"real", "slow"}


# --- HTTP ------------------------------------------------------------------------------------


@pytest.fixture(params=["http", "sse"])
def by_http(request: pytest.FixtureRequest) -> Iterator[tuple[ServerConfig, Callable[[], None]]]:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, SERVER, request.param, str(port)], stderr=subprocess.DEVNULL
    )

    def is_up() -> bool:
        with closing(socket.socket()) as attempt:
            return attempt.connect_ex(("127.0.0.1", port)) == 0

    def kill() -> None:
        process.kill()
        process.wait()

    wait_until(is_up)
    is_sse = request.param == "sse"
    path = "sse" if is_sse else "mcp"
    url = f"http://127.0.0.1:{port}/{path}"
    yield ServerConfig("real", "real", url=url, is_sse=is_sse), kill
    kill()


def test_a_server_is_reached_by_http(
    bench: Bench, by_http: tuple[ServerConfig, Callable[[], None]]
) -> None:
    config, _ = by_http
    hub = bench.ready(config)
    assert said(hub, "add", a=2, b=3) == "5"
    assert said(hub, "key") == "k1"


def test_a_server_by_http_that_dies_in_a_call_leaves_the_call_unknown(
    bench: Bench, by_http: tuple[ServerConfig, Callable[[], None]], tmp_path: Path
) -> None:
    config, kill = by_http
    hub = bench.ready(config)
    file = tmp_path / "pid"

    async def killed() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(expect_loss)
            await anyio.to_thread.run_sync(wait_until, file.exists)
            await anyio.to_thread.run_sync(kill)

    async def expect_loss() -> None:
        with pytest.raises(LostCallError):
            await hub.call("real", "hang", {"file": str(file)}, {})

    anyio.run(killed)
    with pytest.raises((ServerDownError, LostCallError)):
        ask(hub, "add", a=1, b=1)


def test_nobody_listening_is_a_failure_that_is_told(bench: Bench) -> None:
    hub = bench.start(ServerConfig("none", "none", url="http://127.0.0.1:9/mcp"))
    assert hub.wait(30)
    (status,) = hub.status()
    assert status.state == "failed"
    assert len(hub.notices()) == 1


# --- dead and slow ones ----------------------------------------------------------------------


def test_a_server_killed_in_a_call_loses_the_call_and_is_started_again_by_the_next(
    bench: Bench, tmp_path: Path
) -> None:
    hub = bench.ready(stdio())
    file = tmp_path / "pid"

    async def killed() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(expect_loss)
            await anyio.to_thread.run_sync(wait_until, lambda: file.exists() and file.read_text())
            os.kill(int(file.read_text()), signal.SIGKILL)

    async def expect_loss() -> None:
        with pytest.raises(LostCallError, match="broke"):
            await hub.call("real", "hang", {"file": str(file)}, {})

    anyio.run(killed)
    assert said(hub, "add", a=1, b=1) == "2"
    assert len(hub.notices()) == 1


def test_a_call_that_takes_too_long_is_lost_and_the_server_is_told(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "said"
    hub = bench.ready(stdio(), limits=Limits(start_s=20, call_s=1.0))
    with pytest.raises(LostCallError, match="no answer came within 1 s"):
        ask(hub, "hang", file=str(file))
    wait_until(lambda: file.read_text() == "cancelled\n")


def test_a_cancelled_call_is_cancelled_at_the_server(bench: Bench, tmp_path: Path) -> None:
    hub = bench.ready(stdio())
    file = tmp_path / "said"

    async def cancelled() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hub.call, "real", "hang", {"file": str(file)}, {})
            await anyio.to_thread.run_sync(wait_until, file.exists)
            tasks.cancel_scope.cancel()

    anyio.run(cancelled)
    wait_until(lambda: file.read_text() == "cancelled\n")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import time; time.sleep(1000)", "no answer within"),
        ("print('garbage'); import sys; sys.exit(3)", "exit status 3"),
        ("import sys\nwhile True: sys.stdout.write('garbage\\n')", "no answer within"),
        ("import os\nwhile True: os.write(1, b'x' * 65536)", "more than"),
        ("import os\nwhile True: os.write(1, b'\\xff\\xfe\\n')", "no answer within"),
    ],
    ids=["silent", "ends", "garbage", "endless line", "no utf-8"],
)
def test_a_server_that_never_answers_fails_in_time_and_is_ended(
    bench: Bench, code: str, reason: str
) -> None:
    hub = bench.start(python("bad", code), limits=Limits(start_s=3))
    assert hub.wait(30)
    (status,) = hub.status()
    assert (status.state, reason in status.reason) == ("failed", True), status.reason


def test_a_program_that_is_missing_is_told_with_its_name(bench: Bench) -> None:
    hub = bench.start(ServerConfig("gone", "gone", "no-such-program"))
    assert hub.wait(30)
    (status,) = hub.status()
    assert "127" in status.reason
    assert "no-such-program could not be started" in (bench.root / "logs/gone.log").read_text()


def test_a_server_that_failed_is_not_tried_again_before_its_pause(bench: Bench) -> None:
    limits = Limits(start_s=20, pauses_s=(1000.0,))
    hub = bench.start(python("bad", "raise SystemExit(1)"), limits=limits)
    assert hub.wait(30)
    with pytest.raises(ServerDownError, match="tried again in"):
        ask(hub, "x", "bad")


def test_an_error_of_a_tool_is_an_answer(bench: Bench) -> None:
    answer = ask(bench.ready(stdio()), "fails")
    assert answer.is_error


def test_a_tool_that_is_not_there_is_an_answer(bench: Bench) -> None:
    hub = bench.ready(stdio())
    try:
        assert ask(hub, "nothing").is_error
    except AnswerError as error:
        assert "nothing" in str(error)  # noqa: PT017  # either is what a server may say


# --- their end -------------------------------------------------------------------------------

STUBBORN = f"""
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
open("pids", "w").write(f"{{os.getpid()}} {{child.pid}}\\n")
sys.argv = ["mcp_server.py", "stdio"]
try:
    exec(compile(open({str(SERVER)!r}).read(), "mcp_server.py", "exec"))
finally:
    import time
    time.sleep(1000)
"""


def test_closing_ends_a_server_that_will_not_go_with_what_it_started(bench: Bench) -> None:
    hub = bench.ready(python("stubborn", STUBBORN))
    pids = [int(pid) for pid in (bench.root / "pids").read_text().split()]
    assert all(map(is_alive, pids))
    hub.close()
    wait_until(lambda: not any(map(is_alive, pids)))
    assert hub.status()[0].state == "closed"


def test_closing_while_a_server_starts_ends_it(bench: Bench) -> None:
    hub = bench.start(python("slow", "open('pid', 'w').write('x'); import time; time.sleep(1000)"))
    wait_until((bench.root / "pid").exists)
    hub.close()
    assert hub.status()[0].state == "closed"


def test_a_hub_closes_twice_and_without_servers(bench: Bench) -> None:
    hub = bench.start()
    assert hub.wait(1)
    hub.close()
    hub.close()


AGENT = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from tests.extensions.test_mcp_servers import Bench, python, STUBBORN
bench = Bench(Path("."). resolve())
bench.ready(python("stubborn", STUBBORN))
Path("ready").touch()
{then}
"""


def test_servers_end_with_an_agent_that_is_killed(tmp_path: Path) -> None:
    code = AGENT.format(tests=str(Path(__file__).parents[2]), then="time.sleep(1000)")
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    try:
        wait_until((tmp_path / "ready").exists)
    finally:
        process.kill()
        process.wait()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    wait_until(lambda: not any(map(is_alive, pids)))


def test_an_agent_that_leaves_without_closing_is_not_kept_and_neither_are_its_servers(
    tmp_path: Path,
) -> None:
    code = AGENT.format(tests=str(Path(__file__).parents[2]), then="raise SystemExit(3)")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 3
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    wait_until(lambda: not any(map(is_alive, pids)))


# --- hostile ones ----------------------------------------------------------------------------

HOSTILE = """
import json, sys, itertools
def send(**message): sys.stdout.write(json.dumps({{"jsonrpc": "2.0", **message}}) + "\\n"); sys.stdout.flush()
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if method == "initialize":
        send(id=asked["id"], result={{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{"listChanged": True}}}}, "serverInfo": {{"name": "x", "version": "1"}}}})
    elif method == "tools/list":
        send(id=asked["id"], result={listing})
    elif method == "tools/call":
        {calling}
    elif "id" in asked:
        send(id=asked["id"], error={{"code": -32601, "message": "no"}})
"""
SCHEMA = {"type": "object"}


def hostile(listing: object, calling: str = "pass") -> ServerConfig:
    return python("bad", HOSTILE.format(listing=listing, calling=calling))


def test_odd_duplicate_and_endless_tools_are_bounded(bench: Bench) -> None:
    tools = [
        {"name": "a b/c", "inputSchema": SCHEMA},
        {"name": "a_b_c", "inputSchema": SCHEMA},
        {"name": "a_b_c", "inputSchema": SCHEMA},
        {"name": "\U0001f600" * 100, "inputSchema": SCHEMA},
        {"name": "", "inputSchema": SCHEMA},
        {"name": "long", "inputSchema": {"type": "object", "description": "x" * 30_000}},
        *({"name": f"t{number}", "inputSchema": SCHEMA} for number in range(300)),
    ]
    hub = bench.ready(hostile({"tools": tools, "nextCursor": "again"}))
    names = [tool.spec.name for _, tool in hub.tools()]
    assert len(names) == len(set(names)) == 128
    assert all(
        len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in names
    )
    (notice,) = hub.notices()
    assert "left out" in notice


def test_a_list_of_no_use_is_a_failure_with_a_reason(bench: Bench) -> None:
    hub = bench.start(hostile({"tools": [{"name": "x", "inputSchema": "no"}]}))
    assert hub.wait(30)
    assert hub.status()[0].state == "failed"
    assert hub.status()[0].reason


def test_an_answer_of_no_use_is_told(bench: Bench) -> None:
    listing = {"tools": [{"name": "x", "inputSchema": SCHEMA}]}
    hub = bench.ready(hostile(listing, 'send(id=asked["id"], result={"content": 3})'))
    with pytest.raises(AnswerError, match="can't be used"):
        ask(hub, "x", "bad")


def test_an_answer_that_is_too_long_ends_the_connection(bench: Bench) -> None:
    listing = {"tools": [{"name": "x", "inputSchema": SCHEMA}]}
    calling = (
        'send(id=asked["id"], result={"content": [{"type": "text", "text": "y" * (17 << 20)}]})'
    )
    hub = bench.ready(hostile(listing, calling))
    with pytest.raises(LostCallError):
        ask(hub, "x", "bad")
    wait_until(lambda: "more than" in hub.status()[0].reason)


def test_endless_notifications_leave_the_agent_in_peace(bench: Bench) -> None:
    listing = {"tools": [{"name": "x", "inputSchema": SCHEMA}]}
    calling = (
        'send(id=asked["id"], result={"content": []})\n'
        '        while True: send(method="notifications/tools/list_changed")'
    )
    hub = bench.ready(hostile(listing, calling), stdio())
    assert ask(hub, "x", "bad").content == []
    assert said(hub, "add", a=1, b=2) == "3"
    assert [server for server, _ in hub.tools()].count("bad") == 1


def test_a_lone_surrogate_in_an_answer_costs_that_character(bench: Bench) -> None:
    listing = {"tools": [{"name": "x", "inputSchema": SCHEMA}]}
    calling = 'send(id=asked["id"], result={"content": [{"type": "text", "text": "a\\ud800b"}]})'
    hub = bench.ready(hostile(listing, calling))
    assert said(hub, "x", "bad") == "a?b"


def test_a_supervisor_never_ends_the_group_it_was_started_in() -> None:
    read, write = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, supervisor.__file__, str(read), "sh", "-c", "exit 3"],
            pass_fds=(read,),
            timeout=60,
            check=False,
        )
    finally:
        os.close(read)
        os.close(write)
    assert done.returncode == 3  # and this process is here to see it
