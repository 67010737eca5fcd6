"""Settles interrupted tool calls by evidence: what was intended against what is there now.

The rules kept here:

- A verdict is proved (a hash, an exit record, a marker) or it is `unknown`. Damage, an unreadable
  file or a failing hook make it `unknown` with the error as evidence; nothing is raised for them.
- Per path the calls are a chain in start order: content that equals the k-th call's `after` means
  that the first k calls were applied and the others were not.
- Nothing of the user's is touched, except a leftover temporary file whose name is exactly the one
  that the call would have used.

The same functions serve a resume and an exception inside a running action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, assert_never

import msgspec

from rewake.errors import UsageError
from rewake.model.content import JsonObject, Text
from rewake.model.events import (
    AgentIntent,
    FileChangeIntent,
    OtherIntent,
    Outcome,
    ReadOnlyIntent,
    Resolution,
    Result,
    ShellIntent,
)
from rewake.resume import shell
from rewake.resume.chain import FileVerdict, settle_files
from rewake.resume.sidechains import (
    Blobs,
    Sidechain,
    in_its_words,
    look,
    sidechain_path,
    told,
)
from rewake.state.world import OpenCall, short_id

By = Literal["recovery", "action", "user"]
_ADVICE_UNKNOWN: Final = "Look at what is there before you repeat it."


class Settlement(msgspec.Struct, frozen=True):
    """One call settled: the verdict with its proof, what it did, and what the model is told."""

    call_id: str
    resolution: Resolution
    outcome: Outcome
    result: Result


Verify = Callable[[OpenCall], Resolution]
"""A tool's own answer to whether its call happened; its `note` is told to the model."""


def settle(
    calls: Sequence[OpenCall],
    *,
    session_directory: Path,
    boot_id: str,
    verify: Mapping[str, Verify] | None = None,
    read_blob: Callable[[str], bytes] | None = None,
    by: By = "recovery",
    claim: bool = True,
) -> list[Settlement]:
    """Settle all `calls` of one session, which must be in the order in which they started.

    The started ones come first. All open calls belong in one `calls`, because those on one file are
    settled together, and no clock says which came first: it may have been set back. The caller
    must hold the session, so that no agent is at work on them. `boot_id` is the machine's now.
    `verify` maps tool names to hooks for effects that only the tool can check. `read_blob` gives a
    recorded content by hash, which lets a write that was cut short be told from a foreign change.
    Without `claim` nothing is written at all, for whoever only looks: a command that hasn't begun
    is then not kept from beginning.
    """
    started = [call for call in calls if call.status == "started"]
    pending = [call for call in calls if call.status != "started"]
    files = settle_files(
        [(c.call_id, c.intent) for c in started if isinstance(c.intent, FileChangeIntent)],
        read_blob,
        clean=claim,
    )
    hooks = verify or {}
    where = _Here(session_directory, boot_id, by, claim, read_blob)
    settled = [_settle_started(call, files.get(call.call_id, ()), where, hooks) for call in started]
    return settled + [_not_executed(call, by) for call in pending]


class _Here(msgspec.Struct, frozen=True):
    """What is the same for all calls that are settled together."""

    session_directory: Path
    boot_id: str
    by: By
    claim: bool
    read_blob: Callable[[str], bytes] | None


def _settle_started(
    call: OpenCall, files: Sequence[FileVerdict], here: _Here, verify: Mapping[str, Verify]
) -> Settlement:
    intent = call.intent
    match intent:
        case None:
            return _unknown(call, here.by, {"error": "no readable intent was recorded"})
        case ReadOnlyIntent():
            return _replayable(call, here.by)
        case FileChangeIntent():
            return _settle_file_change(call, files, here.by)
        case ShellIntent():
            return _settle_shell(call, intent, here)
        case AgentIntent() if call.tool_name not in verify:
            return _settle_agent(call, intent, here)
        case AgentIntent() | OtherIntent():
            return _ask_the_tool(call, verify, here.by)
        case _:
            assert_never(intent)


def _settlement(
    call: OpenCall,
    resolution: Resolution,
    text: str,
    *,
    is_error: bool,
    outcome: Outcome | None = None,
) -> Settlement:
    result = Result((Text(text),), is_error)
    return Settlement(call.call_id, resolution, outcome or Outcome(), result)


# --- calls without an effect -----------------------------------------------------------------


def _not_executed(call: OpenCall, by: By) -> Settlement:
    resolution = Resolution("not_applied", {"status": call.status}, by, "not executed")
    text = (
        f"This {call.tool_name} call was NOT executed: the session was interrupted before it "
        "started. Nothing happened. Call it again if it is still wanted."
    )
    return _settlement(call, resolution, text, is_error=True)


def _replayable(call: OpenCall, by: By) -> Settlement:
    resolution = Resolution("not_applied", {"replayable": True}, by, "reads only; may be repeated")
    text = (
        f"This {call.tool_name} call was interrupted before it gave a result. It changes nothing, "
        "so call it again if you still need it."
    )
    return _settlement(call, resolution, text, is_error=True)


# --- file changes ----------------------------------------------------------------------------


def _settle_file_change(call: OpenCall, files: Sequence[FileVerdict], by: By) -> Settlement:
    verdict = _verdict_of_all(files)
    facts = [file.evidence() for file in files]
    evidence: JsonObject = facts[0] if len(facts) == 1 else {"files": facts}
    outcome = Outcome(
        changes=tuple(file.change for file in files if file.verdict == "applied"),
        reads=tuple(read for file in files for read in file.reads()),
    )
    text = " ".join([*(_tell_file(call, file) for file in files), *_advice(verdict)])
    note = {"applied": "the file has the new content", "not_applied": "nothing was written"}
    resolution = Resolution(verdict, evidence, by, note.get(verdict, "see the evidence"))
    return _settlement(call, resolution, text, is_error=verdict != "applied", outcome=outcome)


def _verdict_of_all(
    files: Sequence[FileVerdict],
) -> Literal["applied", "not_applied", "partial", "unknown"]:
    verdicts = {file.verdict for file in files}
    if not verdicts:
        return "not_applied"
    if len(verdicts) == 1:
        return next(iter(verdicts))
    return "partial" if verdicts & {"applied", "partial"} else "unknown"


def _tell_file(call: OpenCall, file: FileVerdict) -> str:
    path = file.change.path
    match file.verdict:
        case "applied":
            return (
                f"The {call.tool_name} WAS applied before the interruption: {path} is as this call "
                "meant it to be."
            )
        case "not_applied":
            return (
                f"The {call.tool_name} was NOT applied: the session was interrupted before {path} "
                "was changed."
            )
        case "partial":
            return f"{path} was only PARTLY written when the session was interrupted."
        case "unknown" if file.error:
            return f"It is not known whether {path} was changed: {file.error}."
        case "unknown":
            return (
                f"It is not known whether {path} was changed by this call: what is there now is "
                "neither the content from before nor the one this call meant to write, so it was "
                "changed by somebody else."
            )
        case _:
            assert_never(file.verdict)


def _advice(verdict: Literal["applied", "not_applied", "partial", "unknown"]) -> list[str]:
    match verdict:
        case "applied":
            return ["Do not repeat it."]
        case "not_applied":
            return ["Do it again if it is still wanted."]
        case "partial":
            return ["Read what is there, then complete or undo it."]
        case "unknown":
            return [_ADVICE_UNKNOWN]
        case _:
            assert_never(verdict)


# --- shell commands --------------------------------------------------------------------------


def _settle_shell(call: OpenCall, intent: ShellIntent, here: _Here) -> Settlement:
    by = here.by
    directory = here.session_directory / intent.output_directory
    if not shell.is_below(directory, here.session_directory):
        return _unknown(call, by, {"error": "the recorded output directory is not the session's"})
    try:
        status = shell.inspect(directory, claim=here.claim)
    except OSError as error:
        return _unknown(call, by, {"error": f"its output can't be read: {error}"})
    evidence: JsonObject = {
        "command": intent.command,
        "output_directory": intent.output_directory,
        "state": status.state,
    }
    match status.state:
        case "never_started":
            resolution = Resolution("not_applied", evidence, by, "the command never ran")
            text = (
                "The command was NOT run: the session was interrupted before it started. Run it "
                "again if it is still wanted."
            )
            return _settlement(call, resolution, text, is_error=True)
        case "finished":
            return _shell_finished(call, status, evidence, by)
        case "running":
            return _shell_running(call, status, evidence, by)
        case "vanished":
            return _shell_vanished(call, status, evidence, here)
        case _:
            assert_never(status.state)


def _shell_running(
    call: OpenCall, status: shell.ShellStatus, evidence: JsonObject, by: By
) -> Settlement:
    if isinstance(call.intent, ShellIntent) and call.intent.background:
        resolution = Resolution("still_running", evidence, by, "it runs in the background")
        text = (
            f"The command WAS started and runs in the background as {short_id(call.call_id)}. Do not "
            "start it a second time. Read its output with BashOutput, end it with KillShell."
        )
        return _settlement(call, resolution, text, is_error=False)
    resolution = Resolution("still_running", evidence, by, "the command is still running")
    directory = Path(status.stdout.path).parent
    text = (
        "The command WAS started before the interruption and is STILL RUNNING. Do not start "
        f"it a second time. Its output goes on in {directory}."
    )
    return _settlement(call, resolution, _with_output(text, status), is_error=True)


def _shell_finished(
    call: OpenCall, status: shell.ShellStatus, evidence: JsonObject, by: By
) -> Settlement:
    ended = status.exit or shell.ShellExit()
    evidence = {**evidence, "exit": msgspec.to_builtins(ended), "background": status.background}
    outcome = Outcome(exit_code=ended.exit_code, duration_ms=ended.duration_ms)
    how = (
        "was stopped with the session: what it had done until then is done. Look at it first."
        if ended.cancelled
        else "was killed before it was through: what it had done until then is done. Look at it first."
        if ended.timed_out or ended.output_limit or ended.signal is not None
        else "ended by itself although the session was interrupted. Do not repeat it."
    )
    text = f"The command WAS run and {how}"
    return _settlement(
        call,
        Resolution("applied", evidence, by, shell.describe_exit(status)),
        _with_output(f"{text}\n{shell.describe_exit(status)}", status),
        is_error=ended.exit_code != 0,
        outcome=outcome,
    )


def _shell_vanished(
    call: OpenCall, status: shell.ShellStatus, evidence: JsonObject, here: _Here
) -> Settlement:
    began = status.start.boot_id
    rebooted = bool(here.boot_id and began and here.boot_id != began)
    evidence = {**evidence, "start": msgspec.to_builtins(status.start), "rebooted": rebooted}
    why = "the machine was restarted" if rebooted else "it was killed together with the session"
    text = (
        f"The command WAS started, but how it ended is not known: {why}. It may have done all, some "
        f"or none of its work. {_ADVICE_UNKNOWN}"
    )
    resolution = Resolution("unknown", evidence, here.by, f"no exit was recorded: {why}")
    return _settlement(call, resolution, _with_output(text, status), is_error=True)


def _with_output(text: str, status: shell.ShellStatus) -> str:
    output = shell.describe_output(status)
    return f"{text}\nOutput so far:\n{output}" if output else f"{text}\nIt wrote no output so far."


# --- sub-agents ------------------------------------------------------------------------------


def _settle_agent(call: OpenCall, intent: AgentIntent, here: _Here) -> Settlement:
    try:
        path = sidechain_path(here.session_directory, intent.agent_id)
    except UsageError as error:
        return _unknown(call, here.by, {"error": error.message})
    found = look(path, intent.agent_id, Blobs(here.read_blob), since=call.call_id)
    return settle_agent(call, found, here.by)


def settle_agent(call: OpenCall, found: Sidechain, by: By) -> Settlement:
    """The verdict on a call that a sub-agent worked on, from what its transcript says."""
    evidence: JsonObject = {
        "agent_id": found.agent_id,
        "transcript": found.state,
        "steps": found.steps,
    }
    match found.state:
        case "absent" | "idle":
            resolution = Resolution("not_applied", evidence, by, "the agent never began")
            text = (
                "The sub-agent did NOT begin: the session was interrupted before it was given its "
                "task. Nothing happened. Call it again if it is still wanted."
            )
            return _settlement(call, resolution, text, is_error=True)
        case "done":
            resolution = Resolution("applied", evidence, by, "the agent finished")
            return _settlement(call, resolution, told(found), is_error=False)
        case "failed":
            resolution = Resolution("applied", evidence, by, f"the agent ended: {found.reason}")
            return _settlement(call, resolution, told(found), is_error=True)
        case "open":
            return _agent_cut_short(call, found, evidence, by)
        case "unreadable":
            evidence = {**evidence, "error": found.reason}
            return _unknown(call, by, evidence)
        case _:
            assert_never(found.state)


def _agent_cut_short(call: OpenCall, found: Sidechain, evidence: JsonObject, by: By) -> Settlement:
    steps = f"{found.steps} step{'s' * (found.steps != 1)}"
    resolution = Resolution("partial", evidence, by, f"the agent was cut short after {steps}")
    text = (
        f"The sub-agent {found.agent_id} was interrupted after {steps}. What it had done until then "
        f"is done. To let it go on where it stopped, call Task with resume set to {found.agent_id}; "
        f"do not give its task to a new agent.{in_its_words(found)}"
    )
    return _settlement(call, resolution, text, is_error=True)


# --- everything else -------------------------------------------------------------------------


def _ask_the_tool(call: OpenCall, verify: Mapping[str, Verify], by: By) -> Settlement:
    hook = verify.get(call.tool_name)
    if hook is None:
        return _unknown(call, by, {"verify": "this tool can't tell", **_named(call.intent)})
    try:
        answer = hook(call)
    except Exception as error:  # noqa: BLE001  # a hook is foreign code; its failure is no proof
        return _unknown(call, by, {"error": f"its verify hook failed: {error!r}"})
    told = {
        "applied": "WAS done before the interruption. Do not repeat it.",
        "not_applied": "was NOT done. Call it again if it is still wanted.",
        "partial": "was done only in part. Look at what is there, then complete or undo it.",
        "still_running": "is still running. Do not start it a second time.",
        "lost": "was done, but its effect is lost. Do it again if it is still wanted.",
        "unknown": f"was interrupted, and it is not known whether it was done. {_ADVICE_UNKNOWN}",
    }
    text = f"This {call.tool_name} call {told[answer.verdict]} {answer.note}".rstrip()
    resolution = msgspec.structs.replace(answer, by=by)
    return _settlement(call, resolution, text, is_error=answer.verdict != "applied")


def _named(intent: object) -> JsonObject:
    """What a person, or whoever was called, can find the effect by."""
    if not isinstance(intent, OtherIntent):
        return {}
    named = {"description": intent.description, "idempotency_key": intent.idempotency_key}
    return {name: value for name, value in named.items() if value}


def _unknown(call: OpenCall, by: By, evidence: JsonObject) -> Settlement:
    resolution = Resolution("unknown", evidence, by, "no evidence either way")
    text = (
        f"This {call.tool_name} call was interrupted, and it is NOT KNOWN whether it was done. "
        f"{_ADVICE_UNKNOWN}"
    )
    return _settlement(call, resolution, text, is_error=True)
