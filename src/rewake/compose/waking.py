"""What a session wakes up to: its interrupted calls, settled by evidence and recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from rewake.compose.place import Place
from rewake.errors import UncertainError
from rewake.log.layout import SessionPaths
from rewake.log.lock import boot_id
from rewake.model.events import AgentIntent, ToolLifecycle
from rewake.resume.evidence import Settlement, Verify, settle
from rewake.resume.load import Loaded, load
from rewake.resume.lost import lost_changes
from rewake.session.core import Session
from rewake.session.ports import ResumeState
from rewake.state.conversation import Conversation
from rewake.state.fold import SessionState
from rewake.state.world import OpenCall


def load_session(at: Place, paths: SessionPaths) -> Loaded:
    """The session's state, folded from its transcript and those it was forked from."""
    with at.lineage(paths) as reader:
        return load(reader, at.blobs(paths))


class Waking(msgspec.Struct, frozen=True):
    """The interrupted calls of a loaded session and their verdicts; `lost` ones had completed."""

    loaded: Loaded
    calls: dict[str, OpenCall]
    settlements: list[Settlement]
    lost: list[tuple[OpenCall, Settlement]]

    def resume_state(self, session_id: str) -> ResumeState:
        """The same as a caller is told of it."""
        conversation = self.loaded.state.conversation
        pending = {key for key, call in self.calls.items() if call.status == "requested"}
        return ResumeState(
            session_id=session_id,
            messages=tuple(conversation.entries),
            pending=tuple(item for item in self.settlements if item.call_id in pending),
            uncertain=(
                *(item for item in self.settlements if item.call_id not in pending),
                *(item for _, item in self.lost),
            ),
            calls={**self.calls, **{call.call_id: call for call, _ in self.lost}},
            memory=conversation.memory.render(),
            summary=conversation.summary,
            terminal=self.loaded.state.world.terminal,
            damage=tuple(self.loaded.damage),
            agents=tuple(
                agent
                for agent in self.loaded.state.world.open_agents.values()
                if agent.is_at_work or agent.recovered
            ),
        )

    def stop_if_unknown(self, session_id: str, below: Sequence[Settlement] = ()) -> None:
        """Raise UncertainError if a verdict is `unknown`, here or `below` in its sub-agents."""
        verdicts = (*self.settlements, *below)
        unknown = [item for item in verdicts if item.resolution.verdict == "unknown"]
        if unknown:
            names = ", ".join(item.call_id for item in unknown)
            raise UncertainError(
                f"The session {session_id} has interrupted calls that no evidence settles: {names}.",
                remedy="Look at what they left, then resume with --on-unknown tell.",
                session_id=session_id,
            )

    def without_agents(self, conversation: Conversation) -> Waking:
        """The same without the calls whose sub-agents are about to go on.

        Those are calls of the conversation as it is now that nothing was made up for yet; of all
        others the model is told.
        """

        def goes_on(item: Settlement) -> bool:
            call = self.calls[item.call_id]
            entry = conversation.entry(call.message_id or "")
            return (
                isinstance(call.intent, AgentIntent)
                and item.resolution.verdict == "partial"
                and entry is not None
                and entry.is_open()
            )

        left = [item for item in self.settlements if not goes_on(item)]
        return msgspec.structs.replace(self, settlements=left)

    def record(self, session: Session) -> None:
        """Append the verdicts; what was reported as running before isn't reported again."""
        known = self.loaded.state.world.calls
        told = {key for key, call in known.items() if call.status == "running"}
        for item in self.settlements:
            if item.resolution.verdict != "still_running" or item.call_id not in told:
                record_settlement(session, self.calls[item.call_id], item)
        for call, item in self.lost:
            record_settlement(session, call, item)


def wake(
    at: Place,
    paths: SessionPaths,
    loaded: Loaded,
    verify: dict[str, Verify],
    *,
    claim: bool = True,
    read_blob: Callable[[str], bytes] | None = None,
) -> Waking:
    """Settle what was interrupted. Without `claim` nothing is touched (for a mere look)."""
    calls = open_calls(loaded.state)
    settlements = settle(
        list(calls.values()),
        session_directory=paths.directory,
        boot_id=boot_id(),
        verify=verify,
        read_blob=read_blob or at.blobs(paths).get,
        claim=claim,
    )
    return Waking(
        loaded,
        calls,
        settlements,
        lost_changes(loaded.state.world.written, boot_id(), calls.values()),
    )


def open_calls(state: SessionState) -> dict[str, OpenCall]:
    """The calls that wait for a verdict, by the id that their settlement has.

    One that a person must decide about (`unknown`) waits for no other evidence. A command that was
    found running is looked at again.

    A call that its message asked for and that has no line of its own never began, where intents
    are recorded at all; it is listed under an id made of its message and place.
    """
    calls = {
        call_id: msgspec.structs.replace(call, status="started")
        if call.status == "running"
        else call
        for call_id, call in state.world.calls.items()
        if call.status != "unknown"
    }
    if not state.world.uses_actions:
        return calls
    known = {(call.message_id, call.index) for call in state.world.calls.values()}
    for entry, index, call in state.conversation.unanswered():
        if not entry.sealed and (entry.message_id, index) not in known:
            key = f"{entry.message_id}/{index}"
            calls[key] = OpenCall(
                call_id=key,
                tool_name=call.name,
                status="requested",
                message_id=entry.message_id,
                index=index,
                provider_call_id=call.provider_call_id,
            )
    return calls


def record_settlement(session: Session, call: OpenCall, item: Settlement) -> None:
    """Append one verdict. Durable with the next barrier."""
    session.record(
        ToolLifecycle(
            tool_name=call.tool_name,
            status="resolved",
            call_id=call.call_id,
            message_id=call.message_id,
            index=call.index,
            provider_call_id=call.provider_call_id,
            outcome=item.outcome,
            result=item.result,
            resolution=item.resolution,
        )
    )
