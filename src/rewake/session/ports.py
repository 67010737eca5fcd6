"""What a session is given, what it is found in, and what programs find at it.

The rule kept here: only shapes. Who makes them stands above (`compose/`), who uses them beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from rewake.model.events import Change, Outcome, Terminal
from rewake.resume.evidence import Settlement
from rewake.resume.load import Damage
from rewake.resume.sidechains import Sidechain
from rewake.state.conversation import Entry
from rewake.state.world import OpenAgent, OpenCall

if TYPE_CHECKING:
    from rewake.session.core import Session


class Blobs(Protocol):
    """Where large contents are kept."""

    def put(self, data: bytes) -> str: ...

    def put_all(self, contents: Iterable[bytes]) -> list[str]: ...

    def get(self, sha256: str) -> bytes: ...


class FileTracker(Protocol):
    """Finds what calls do to files (`rewake.files`); calls may run at the same time, in any thread.

    `before` and `after` stand around a call that may change anything: what was there before is
    durable when `before` returns, and `after` returns the outcome with what was changed added to it.
    `expect` is told of a call that says what it will change, `made` of what it did change; and
    `recorded` of either, once its outcome is on record. A call that `goes_on` after its outcome has its
    `after` some time later; until then it `is_open` in the process that began it. One tracker may serve a session and those of
    its sub-agents, whose call ids differ.
    """

    def before(self, call_id: str) -> None: ...

    def goes_on(self, call_id: str) -> None: ...

    def is_open(self, call_id: str) -> bool: ...

    def after(self, call_id: str, outcome: Outcome) -> Outcome: ...

    def expect(self, call_id: str, changes: Sequence[Change]) -> None: ...

    def made(self, call_id: str, outcome: Outcome) -> Outcome: ...

    def recorded(self, call_id: str) -> None: ...


AgentEnd = Literal["completed", "failed", "cancelled", "interrupted"]


class Agents(Protocol):
    """The sub-agents of a session. Each has a session of its own, a child of the one that it is for.

    All methods raise StorageError where a fact can't be kept.
    """

    def spawn(
        self,
        parent: Session,
        *,
        task: str,
        agent_type: str = "",
        agent_id: str | None = None,
        call_id: str = "",
        model: str = "",
        background: bool = False,
    ) -> Session:
        """A new agent's session: give it its prompt, let it work, record its terminal, `end` it.

        `call_id` is the call that it works for; in the `background` it outlives that. That it was
        spawned is durable on return. Raises UsageError for an id that is in use.
        """
        ...

    def reopen(
        self, parent: Session, agent_id: str, *, call_id: str = "", background: bool = False
    ) -> Session:
        """The session of an agent that ended or was interrupted, for it to go on.

        What it was interrupted in is settled first. Raises SessionNotFoundError where `parent` has
        no such agent, UsageError while it is at work.
        """
        ...

    def end(self, parent: Session, child: Session, status: AgentEnd, reason: str = "") -> None:
        """Close an agent's session and record in the parent what it did, with its end.

        Durable with the parent's next barrier.
        """
        ...

    def report(self, parent: Session, agent_id: str) -> None:
        """Record that the model was told how a background agent ended. Durable with a barrier."""
        ...

    def new_id(self) -> str:
        """An id that no agent has yet."""
        ...

    def look(self, agent_id: str, *, since: str = "") -> Sidechain:
        """How far an agent came with the call of the id `since`. Never raises."""
        ...

    def origin(self, parent: Session, agent_id: str) -> tuple[str, str] | None:
        """The type and the task of an agent; None where `parent` has none that can be read."""
        ...


class Growing(Protocol):
    """The file behind the recorder, as far as its size matters."""

    size: int


class ResumeState(msgspec.Struct, frozen=True):
    """What a session was found in when it was opened again.

    `pending` calls had been asked for and never started; `uncertain` ones were interrupted, each
    with its verdict and evidence. `damage` lists what could not be read, `terminal` why the run
    before ended (None: it was cut off). `notices` are sentences about what else was put right.
    `agents` are sub-agents that were at work when the session was interrupted.
    """

    session_id: str
    messages: tuple[Entry, ...]
    pending: tuple[Settlement, ...]
    uncertain: tuple[Settlement, ...]
    calls: dict[str, OpenCall]
    memory: str
    summary: str | None
    terminal: Terminal | None
    damage: tuple[Damage, ...]
    notices: tuple[str, ...] = ()
    agents: tuple[OpenAgent, ...] = ()
