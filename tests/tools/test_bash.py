from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from tests.tools.bench import Bench

from rewake.agent.ports import ToolOutput
from rewake.agent.tools import environment
from rewake.agent.tools.bash import BashTool
from rewake.model.content import plain_text
from rewake.model.events import ShellIntent
from rewake.resume import shell

BASH = BashTool()


def output_of(bench: Bench, command: str, **more: object) -> ToolOutput:
    return bench.call(BASH, command=command, **more)


def directory_of(bench: Bench, output: ToolOutput) -> Path:
    return bench.session / str(output.outcome.details["output_directory"])


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has reaped yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


# --- results ---------------------------------------------------------------------------------


def test_the_result_holds_both_streams_and_the_exit_code(bench: Bench) -> None:
    output = output_of(bench, "echo out; echo err >&2; exit 3")
    text = plain_text(output.content)
    assert "out\n[stderr]\nerr\nExit code 3" in text
    assert output.is_error
    assert output.outcome.exit_code == 3


def test_a_command_that_succeeds_is_no_error(bench: Bench) -> None:
    assert not output_of(bench, "true").is_error


def test_the_command_runs_in_the_projects_directory_without_input(bench: Bench) -> None:
    text = plain_text(output_of(bench, "pwd; cat; echo $PWD").content)
    assert text.startswith(f"{bench.project}\n{bench.project}\n")


def test_a_signal_that_ended_the_command_is_named(bench: Bench) -> None:
    assert "signal 9" in plain_text(output_of(bench, "kill -9 $$").content)


def test_the_pipe_signal_has_its_usual_meaning(bench: Bench) -> None:
    output = output_of(bench, "set -o pipefail; yes | head -1")
    assert output.outcome.exit_code == 128 + signal.SIGPIPE


def test_a_missing_working_directory_is_told_and_not_run_elsewhere(bench: Bench) -> None:
    prepared = bench.prepare(BASH, command="pwd")
    bench.project.rmdir()
    output = bench.run(BASH, prepared)
    assert output.outcome.exit_code == 127
    assert "not started" in plain_text(output.content)


def test_long_output_is_shown_with_head_and_tail_and_kept_whole(bench: Bench) -> None:
    output = output_of(bench, "seq 1 100000")
    text = plain_text(output.content)
    assert len(text) < 40_000
    assert text.startswith("1\n2\n")
    assert "\n100000\n" in text
    path = directory_of(bench, output) / "stdout"
    assert str(path) in text
    assert path.read_text().count("\n") == 100_000


def test_binary_output_becomes_text_without_control_characters(bench: Bench) -> None:
    text = plain_text(
        output_of(bench, r"printf '\x00\xff\x1b[31mred\x1b[0m\x07 caf\xc3\xa9\r\n'").content
    )
    assert text.startswith("\ufffdred caf\u00e9\n")


def test_a_test_commands_result_is_noted(bench: Bench) -> None:
    verification = output_of(bench, "make test").outcome.verification
    assert verification is not None
    assert not verification.passed
    assert output_of(bench, "echo pytest").outcome.verification is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": ""}, "empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "echo \ud800"}, "Unicode"),
        ({"command": "true", "timeout_ms": 0}, "between"),
        ({"command": "true", "timeout_ms": 600_001}, "between"),
        ({"command": "x" * 200_000}, "script"),
        ({}, "missing required field"),
    ],
)
def test_commands_that_cannot_run_are_refused(
    bench: Bench, arguments: dict[str, object], told: str
) -> None:
    assert told in bench.refusal(BASH, **arguments)


# --- limits ----------------------------------------------------------------------------------


def test_a_time_out_kills_grandchildren_too(bench: Bench) -> None:
    output = output_of(
        bench, "sleep 600 & echo $!; (setsid sleep 600 & echo $!); sleep 600", timeout_ms=400
    )
    assert output.outcome.details["timed_out"] is True
    pids = [int(line) for line in plain_text(output.content).splitlines() if line.isdigit()]
    assert len(pids) == 2
    assert not any(is_alive(pid) for pid in pids)
    assert not output.outcome.details["background"]


DAEMON = """
import os, sys, time
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(0, 256)
open("daemon", "w").write(str(os.getpid()))
time.sleep(600)
"""
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets the wrapper adopt")


@on_linux
def test_a_time_out_ends_a_daemon_that_forked_twice_and_closed_everything(bench: Bench) -> None:
    bench.write("daemon.py", DAEMON)
    output_of(bench, f"{sys.executable} daemon.py; sleep 600", timeout_ms=2000)
    assert not is_alive(int((bench.project / "daemon").read_text()))


@on_linux
def test_a_daemon_that_closed_everything_counts_as_long_as_it_lives(bench: Bench) -> None:
    bench.write("daemon.py", DAEMON)
    wait = "until test -s daemon; do sleep 0.01; done"
    output = output_of(bench, f"{sys.executable} daemon.py; {wait}")
    assert output.outcome.details["background"] is True
    os.kill(int((bench.project / "daemon").read_text()), signal.SIGKILL)
    assert not shell.wait(directory_of(bench, output)).background


@on_linux
def test_output_of_what_a_command_left_behind_is_bounded_too(bench: Bench) -> None:
    output = bench.call(BashTool(output_bytes_max=100_000), command="yes & echo $! > pid")
    assert output.outcome.exit_code == 0
    status = shell.wait(directory_of(bench, output))
    assert not status.background
    assert status.stdout.size <= 100_000
    assert not is_alive(int((bench.project / "pid").read_text()))


def test_gigabytes_of_output_leave_no_more_than_the_limit(bench: Bench) -> None:
    tool = BashTool(output_bytes_max=1_000_000)
    output = bench.call(tool, command="head -c 4000000000 /dev/zero; echo after")
    assert output.outcome.details["output_limit"] is True
    assert (directory_of(bench, output) / "stdout").stat().st_size <= 1_000_000


def test_a_process_that_holds_the_output_open_blocks_nobody(bench: Bench) -> None:
    os.mkfifo(bench.project / "go")
    output = output_of(bench, "echo out; (cat go; echo late) &")
    assert plain_text(output.content).startswith("out\nExit code 0")
    (bench.project / "go").write_text("")
    assert shell.wait(directory_of(bench, output)).stdout.text == "out\nlate\n"


def test_a_time_out_lets_a_program_clean_up_first(bench: Bench) -> None:
    output_of(
        bench, "trap 'echo cleaned > f; exit' TERM; while :; do sleep 0.05; done", timeout_ms=300
    )
    assert (bench.project / "f").read_text() == "cleaned\n"


def test_a_program_that_ignores_the_polite_signal_is_killed(bench: Bench) -> None:
    output = output_of(bench, "trap '' TERM; while :; do sleep 0.05; done", timeout_ms=300)
    assert "Timed out" in plain_text(output.content)
    assert not output.outcome.details["background"]


def test_output_without_end_is_stopped_and_cut_to_head_and_tail(bench: Bench) -> None:
    command = "echo first; head -c 150000 /dev/zero | tr '\\0' x; echo; echo last; sleep 600"
    output = bench.call(BashTool(output_bytes_max=100_000), command=command)
    assert output.outcome.details["output_limit"] is True
    kept = (directory_of(bench, output) / "stdout").read_text()
    assert 99_000 < len(kept) <= 100_000
    assert kept.startswith("first\n")
    assert kept.endswith("last\n")
    assert "bytes are left out here" in kept
    text = plain_text(output.content)
    assert "reached the limit" in text
    assert "were over the limit and not kept" in text


def test_a_background_process_is_not_waited_for_and_holds_alive(bench: Bench) -> None:
    begun = time.monotonic()
    output = output_of(bench, "sleep 600 & echo $!")
    assert time.monotonic() - begun < 30
    pid = int(plain_text(output.content).splitlines()[0])
    try:
        assert output.outcome.details["background"] is True
        assert "background" in plain_text(output.content)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert not shell.wait(directory_of(bench, output)).background


def test_cancelling_ends_the_command_before_it_goes_on(bench: Bench) -> None:
    pipe = bench.project / "pipe"
    os.mkfifo(pipe)
    begun = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    prepared = bench.prepare(BASH, command="echo $$ > pid; echo > pipe; sleep 600")

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(BASH.run, prepared, bench.context)
            await anyio.wait_readable(begun)  # until the command is at work
            group.cancel_scope.cancel()

    anyio.run(run)
    os.close(begun)
    assert not is_alive(int((bench.project / "pid").read_text()))
    assert isinstance(prepared.intent, ShellIntent)
    status = shell.inspect(bench.session / prepared.intent.output_directory)
    assert status.state == "finished"
    assert status.exit is not None
    assert status.exit.cancelled


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_command_that_fills_the_disk_still_has_its_end_recorded(bench: Bench) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(bench.session)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting isn't allowed here")
    try:
        output = output_of(bench, "head -c 5000000 /dev/zero; exit 9")
        assert output.outcome.exit_code == 9
        prepared = bench.prepare(BASH, command="touch ran")
        with pytest.raises(Exception, match=r"No space left|never_started"):
            bench.run(BASH, prepared)
        assert not (bench.project / "ran").exists()
    finally:
        subprocess.run(["umount", str(bench.session)], check=True)


# --- the protocol ----------------------------------------------------------------------------


def test_directories_are_0700_and_files_0600(bench: Bench) -> None:
    directory = directory_of(bench, output_of(bench, "echo x"))
    assert directory.stat().st_mode & 0o777 == 0o700
    files = sorted(directory.iterdir())
    assert [file.name for file in files] == ["alive", "exit", "start", "stderr", "stdout"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_command_whose_start_was_taken_never_runs(bench: Bench) -> None:
    prepared = bench.prepare(BASH, command="touch ran")
    assert isinstance(prepared.intent, ShellIntent)
    shell.inspect(bench.session / prepared.intent.output_directory, claim=True)
    with pytest.raises(Exception, match="never_started"):
        bench.run(BASH, prepared)
    assert not (bench.project / "ran").exists()


AGENT = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.tools.bench import Bench
from rewake.agent.tools.bash import BashTool
bench = Bench(Path(sys.argv[2]))
bench.call(BashTool(), command=sys.argv[3], timeout_ms=int(sys.argv[4]))
"""


class Agent:
    """An agent in a process of its own whose command has begun; it then waits at the pipe `go`."""

    def __init__(self, root: Path, command: str, timeout_ms: int = 60_000) -> None:
        self.project = root / "project"
        self.directory = root / "session/outputs/call-1"
        self.project.mkdir(parents=True)
        os.mkfifo(self.project / "begun")
        os.mkfifo(self.project / "go")
        checkout = str(Path(__file__).parents[2])
        arguments = [checkout, str(root), f"echo > begun; {command}", str(timeout_ms)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", AGENT, *arguments], stderr=subprocess.DEVNULL
        )
        (self.project / "begun").read_bytes()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def go(self, text: str) -> None:
        (self.project / "go").write_text(text)


def test_the_wrapper_finishes_alone_when_the_agent_is_killed(tmp_path: Path) -> None:
    agent = Agent(tmp_path, "cat go; exit 7")
    agent.kill()
    assert shell.inspect(agent.directory).state == "running"
    agent.go("said later\n")
    status = shell.wait(agent.directory)
    assert status.state == "finished"
    assert status.exit is not None
    assert status.exit.exit_code == 7
    assert status.stdout.text == "said later\n"


def test_the_time_limit_holds_after_the_agents_death(tmp_path: Path) -> None:
    agent = Agent(tmp_path, "sleep 600 & sleep 600", timeout_ms=700)
    agent.kill()
    status = shell.wait(agent.directory)
    assert status.exit is not None
    assert status.exit.timed_out


def test_a_killed_wrapper_is_told_from_a_finished_command(tmp_path: Path) -> None:
    agent = Agent(tmp_path, "cat go")
    wrapper = json.loads((agent.directory / "start").read_bytes())["pid"]
    os.kill(wrapper, signal.SIGKILL)
    agent.process.wait()
    assert shell.inspect(agent.directory).state == "running"
    agent.go("")
    assert shell.wait(agent.directory).state == "vanished"


def test_of_a_killed_agent_and_wrapper_the_command_goes_on_and_its_end_is_unknown(
    tmp_path: Path,
) -> None:
    agent = Agent(tmp_path, "cat go")
    wrapper = json.loads((agent.directory / "start").read_bytes())["pid"]
    os.kill(wrapper, signal.SIGKILL)
    agent.kill()
    assert shell.inspect(agent.directory).state == "running"
    agent.go("")
    assert shell.wait(agent.directory).state == "vanished"


# --- the environment -------------------------------------------------------------------------


def test_provider_keys_are_not_in_a_commands_environment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "OPENAI_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "HF_TOKEN",
        "GITHUB_TOKEN",
        "GOOGLE_API_KEY",
    ):
        monkeypatch.setenv(name, "secret-value")
    text = plain_text(output_of(bench, "env").content)
    assert text.count("secret-value") == 1
    assert "GITHUB_TOKEN=secret-value" in text


def test_variables_that_the_session_calls_secret_are_left_out() -> None:
    kept = environment.for_command({"A": "1", "B": "2"}, frozenset({"B"}), "/x")
    assert kept == {"A": "1", "PWD": "/x"}
