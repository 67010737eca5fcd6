"""What the prompt's /verify and /commands do."""

from __future__ import annotations

from rewake.agent.gate import VerifyGate
from rewake.cli.commands import print_commands
from rewake.cli.opening import Agent
from rewake.cli.reporting import TextReporter
from rewake.cli.signals import Stopper
from rewake.compose.commands import commands_of


async def verify(agent: Agent, reporter: TextReporter, stopper: Stopper) -> bool:
    """Run the check command of the settings by hand; returns whether anything was recorded."""
    gate = next((gate for gate in agent.loop.gates if isinstance(gate, VerifyGate)), None)
    if gate is None:
        reporter.note("There is no check: set `verify` in the settings to a command.")
        return False
    output = await stopper.run(gate.check)
    reporter.end_line()
    if output is None:
        reporter.warn("Interrupted: the check is as if it had not run.")
        if stopper.reason == "interrupted":
            stopper.forget()
    elif output.is_error:
        reporter.warn("The check failed.")
    else:
        reporter.note("The check passed.")
    return True


def commands(agent: Agent | None) -> None:
    """List what runs in the background of this session."""
    print_commands(commands_of(agent.session) if agent is not None else [])
