"""Signals end a run in good order: calls settled, the end on record, nothing left running."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from tests.cli.shell import Shell, call, turn, wait_until

ENDS = [
    (signal.SIGINT, 130, "interrupted"),
    (signal.SIGTERM, 143, "terminated"),
    (signal.SIGHUP, 129, "hangup"),
]


def _commands(marker: str) -> list[str]:
    """The processes that run a command with this text."""
    listed = subprocess.run(["pgrep", "-f", marker], capture_output=True, text=True, check=False)
    return listed.stdout.split()


@pytest.mark.parametrize(("number", "code", "reason"), ENDS)
def test_a_signal_during_a_command_ends_within_two_seconds_and_is_recorded(
    shell: Shell, number: signal.Signals, code: int, reason: str
) -> None:
    marker = f"sleep 61.{time.time_ns()}"
    model = shell.script(turn("", call("Bash", command=f"touch started; {marker}; echo done")))
    process = shell.start(
        *("-p", "x", "--model", model, "--permission-mode", "bypass"),
        *("--session-id", "s", "--json"),
    )
    wait_until((shell.project / "started").exists)
    sent = time.monotonic()
    process.send_signal(number)
    out, _ = process.communicate(timeout=10)
    assert time.monotonic() - sent < 2
    assert process.returncode == code
    assert f'"terminal_reason": "{reason}"' in out
    assert '"verdict": "applied"' in out
    events = shell.events("s")
    assert (events[-1]["event_type"], events[-1]["payload"]["reason"]) == ("terminal", reason)
    phases = [event["payload"]["status"] for event in events if "status" in event["payload"]]
    assert phases == ["requested", "started", "resolved"]
    assert _commands(marker) == []


def test_a_signal_while_the_model_answers_leaves_a_session_that_goes_on(shell: Shell) -> None:
    model = shell.script(turn("Late.", delay_ms=60_000), turn("Now."))
    process = shell.start("-p", "x", "--model", model, "--session-id", "s")
    shell.wait_for_event("s", "state_transition", to="requesting")
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130
    shell.script(turn("Now."))
    done = shell.run("-p", "again", "--resume", "s", "--model", model, "--json")
    assert (done.code, done.json["response"]) == (0, "Now.")


def test_sighup_is_ignored_under_nohup(shell: Shell) -> None:
    model = shell.script(turn("Done.", delay_ms=500))
    process = subprocess.Popen(
        ["nohup", sys.executable, "-m", "rewake", "-p", "x", "--model", model, "--session-id", "s"],
        cwd=shell.project,
        env=shell.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    shell.running.append(process)
    shell.wait_for_event("s", "state_transition", to="requesting")
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, "Done.\n")
