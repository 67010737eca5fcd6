from __future__ import annotations

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


def test_a_time_out_lets_a_program_clean_up_first(bench: Bench) -> None:
    output_of(
        bench, "trap 'echo cleaned > f; exit' TERM; while :; do sleep 0.05; done", timeout_ms=300
    )
    assert (bench.project / "f").read_text() == "cleaned\n"


def test_a_program_that_ignores_the_polite_signal_is_killed(bench: Bench) -> None:
    output = output_of(bench, "trap '' TERM; while :; do sleep 0.05; done", timeout_ms=300)
    assert "Timed out" in plain_text(output.content)
    assert not output.outcome.details["background"]


def test_output_without_end_is_stopped_and_cut(bench: Bench) -> None:
    output = bench.call(BashTool(output_bytes_max=100_000), command="yes")
    assert output.outcome.details["output_limit"] is True
    assert (directory_of(bench, output) / "stdout").stat().st_size == 100_000


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
    prepared = bench.prepare(BASH, command="echo $$ > pid; mkfifo p; cat p")

    async def run() -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(BASH.run, prepared, bench.context)
                while not (bench.project / "p").exists():
                    await anyio.sleep(0.01)
                scope.cancel()

    anyio.run(run)
    assert not is_alive(int((bench.project / "pid").read_text()))
    assert isinstance(prepared.intent, ShellIntent)
    status = shell.inspect(bench.session / prepared.intent.output_directory)
    assert status.state == "finished"
    assert status.exit is not None
    assert status.exit.cancelled


# --- the protocol ----------------------------------------------------------------------------


def test_directories_are_0700_and_files_0600(bench: Bench) -> None:
    directory = directory_of(bench, output_of(bench, "echo x"))
    assert directory.stat().st_mode & 0o777 == 0o700
    assert sorted(os.listdir(directory)) == ["alive", "exit", "start", "stderr", "stdout"]
    assert {(directory / name).stat().st_mode & 0o777 for name in os.listdir(directory)} == {0o600}


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


def start_agent(root: Path, command: str, timeout_ms: int = 60_000) -> subprocess.Popen[bytes]:
    checkout = str(Path(__file__).parents[2])
    arguments = [checkout, str(root), command, str(timeout_ms)]
    return subprocess.Popen([sys.executable, "-c", AGENT, *arguments])


def wait_for(path: Path, agent: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert agent.poll() is None, "the agent ended early"
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_the_wrapper_finishes_alone_when_the_agent_is_killed(tmp_path: Path) -> None:
    # The command waits in `cat` for the test, so the agent is dead for certain before it ends.
    agent = start_agent(tmp_path / "bench", "mkfifo go; cat go; exit 7")
    wait_for(tmp_path / "bench/project/go", agent)
    directory = tmp_path / "bench/session/outputs/call-1"
    agent.kill()
    agent.wait()
    assert shell.inspect(directory).state == "running"
    (tmp_path / "bench/project/go").write_text("said later\n")
    status = shell.wait(directory)
    assert status.state == "finished"
    assert status.exit is not None
    assert status.exit.exit_code == 7
    assert status.stdout.text == "said later\n"


def test_the_time_limit_holds_after_the_agents_death(tmp_path: Path) -> None:
    agent = start_agent(tmp_path / "bench", "touch begun; sleep 600 & sleep 600", timeout_ms=700)
    wait_for(tmp_path / "bench/project/begun", agent)
    agent.kill()
    agent.wait()
    status = shell.wait(tmp_path / "bench/session/outputs/call-1")
    assert status.exit is not None
    assert status.exit.timed_out


def test_a_killed_wrapper_is_told_from_a_finished_command(tmp_path: Path) -> None:
    agent = start_agent(tmp_path / "bench", "echo $PPID > pid; mkfifo go; cat go")
    wait_for(tmp_path / "bench/project/go", agent)
    os.kill(int((tmp_path / "bench/project/pid").read_text()), signal.SIGKILL)
    agent.wait()
    directory = tmp_path / "bench/session/outputs/call-1"
    assert shell.inspect(directory).state == "running"
    (tmp_path / "bench/project/go").write_text("")
    assert shell.wait(directory).state == "vanished"


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
