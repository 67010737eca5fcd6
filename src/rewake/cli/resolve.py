"""`rewake resolve`: a person says what became of an interrupted call that no evidence settles."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rewake.cli.jsonout import to_json
from rewake.cli.terminal import clean, let_readers_leave, say
from rewake.compose.place import find_session, place
from rewake.compose.sessions import resolve
from rewake.compose.waking import load_session
from rewake.errors import ExitCode, UsageError
from rewake.state.world import OpenCall


def resolve_call(
    session: str,
    call: str | None,
    verdict: str | None,
    cwd: Path | None,
    *,
    note: str | None,
    as_json: bool,
) -> int:
    """Record the verdict, or list the calls that wait for one; returns the exit status.

    Raises UsageError when the call doesn't wait for a verdict.
    """
    if call is None:
        return _list(session, cwd, as_json=as_json)
    if verdict is None:
        raise UsageError("The verdict is missing.", remedy="Give --as applied or --as not-applied.")
    chosen: Literal["applied", "not_applied"] = "applied" if verdict == "applied" else "not_applied"
    call_id = resolve(session, call, chosen, note=note or "", project=cwd or ".")
    if as_json:
        say(to_json({"call_id": call_id, "verdict": chosen, "note": note or ""}))
    else:
        say(
            f"Recorded: {call_id} {chosen.replace('_', ' ')}. The model is told with its next turn."
        )
    return 0


def _list(session: str, cwd: Path | None, *, as_json: bool) -> int:
    let_readers_leave()
    at = place(cwd or ".")
    paths = find_session(at, session)
    waiting = list(load_session(at, paths).state.world.calls.values())
    if as_json:
        say(to_json({"session_id": paths.session_id, "calls": [_row(call) for call in waiting]}))
    elif not waiting:
        say(f"No call of {paths.session_id} waits for a verdict.")
    for call in () if as_json else waiting:
        say(clean(f"{call.call_id}  {call.status:<9}  {call.tool_name}"))
    return ExitCode.UNCERTAIN if waiting else ExitCode.DONE


def _row(call: OpenCall) -> dict[str, object]:
    return {"call_id": call.call_id, "tool_name": call.tool_name, "status": call.status}
