"""What happened outside the conversation: runs, tool calls, agents, titles, totals.

The rule kept here: the world follows the order of the *file*. Rewinding a conversation undoes no
effect, so a call left uncertain on an abandoned branch is still uncertain.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from rewake.model.content import JsonObject, ToolCall, Usage, plain_text
from rewake.model.events import (
    AgentEvent,
    Change,
    Checkpoint,
    Event,
    FileState,
    ForkOrigin,
    Intent,
    Message,
    MessageAmendment,
    Metadata,
    Outcome,
    Rewind,
    RunStart,
    SessionStart,
    ShellIntent,
    Terminal,
    ToolLifecycle,
)
from rewake.state.text import clip, head

_PROMPT_BYTES_MAX: Final = 200  # a title's worth
_ENDED: Final = frozenset({"completed", "failed", "resolved"})
_LEFT_OPEN: Final = frozenset({"still_running", "unknown"})
# Background commands that are known: more than run at the same time, so what goes has ended.
COMMANDS_MAX: Final = 50
_COMMAND_BYTES_MAX: Final = 300
# Different check commands whose newest result is known.
_CHECKS_MAX: Final = 10
AGENT_ENDS: Final = frozenset({"completed", "failed", "cancelled"})
"""What ends an agent; any other status says that it is at work or may go on."""
AGENT_REPORTED: Final = "reported"
"""The model was told how a background agent ended, in the answer to a call."""
AGENT_SOURCE: Final = "agent"
"""The source of a message that tells the model how the agent which its `details` name has ended."""
AGENT_INTERRUPTED: Final = "interrupted"


class OpenCall(msgspec.Struct, frozen=True):
    """A call that was asked for and hasn't ended for certain.

    `requested` is pending and `started` uncertain. Two verdicts leave a call open: `running` (the
    command went on without the agent) and `unknown` (only a person can tell).
    """

    call_id: str
    tool_name: str
    status: str
    message_id: str | None = None
    index: int = 0
    provider_call_id: str = ""
    arguments: JsonObject | None = None
    intent: Intent | None = None
    started_at: str = ""
    run_id: str = ""


class OpenAgent(msgspec.Struct, frozen=True):
    """An agent that is at work, was interrupted, or whose end the model hasn't been told yet.

    `since` is the id of its newest event: what its own transcript has after that isn't accounted for
    here. `recovered`: a resume found it interrupted, nobody stopped it on purpose. `message_id` is the
    message that asked for it, and `left_by` the rewind that went back to before that: the conversation
    at hand knows nothing of it.
    """

    agent_id: str
    status: str
    task: str = ""
    agent_type: str = ""
    call_id: str = ""
    since: str = ""
    background: bool = False
    recovered: bool = False
    message_id: str = ""
    left_by: str = ""

    @property
    def is_at_work(self) -> bool:
        """Whether, as far as this transcript says, it is running."""
        return self.status != AGENT_INTERRUPTED and self.status not in AGENT_ENDS


class Written(msgspec.Struct, frozen=True):
    """What a call last left at a path, and in which boot of the machine."""

    call: OpenCall
    before: FileState
    after: FileState
    boot_id: str
    timestamp: str


class BackgroundCommand(msgspec.Struct, frozen=True):
    """A command that went on after its call had ended, as far as the transcript knows of it.

    `running` means that no end is on record yet; whether it has ended is said by its output directory.
    `told`: the model has read of its end already.
    """

    call_id: str
    command: str
    cwd: str
    output_directory: str
    started_at: str = ""
    state: Literal["running", "ended", "vanished"] = "running"
    exit_code: int | None = None
    ended_at: str = ""
    told: bool = False
    message_id: str | None = None
    index: int = 0
    provider_call_id: str = ""

    @property
    def short_id(self) -> str:
        """What the model calls it by: the end of the call's id, which is its random part."""
        return short_id(self.call_id)


def short_id(call_id: str) -> str:
    """The short name of the background command that a call started."""
    return call_id[-8:]


class Check(msgspec.Struct, frozen=True):
    """The newest result of a check command. Stale: something was changed since."""

    passed: bool
    event_id: str
    stale: bool = False


class World(msgspec.Struct):
    """The fold of everything that follows the file's order.

    Bounded by what is still open, by what was written since the newest checkpoint (`written`, by path:
    what a resume after a reboot looks at again), and by the constants above for `commands` (by call
    id) and `checks` (by command). `has_changes`: something was changed, ever.
    """

    project: JsonObject = {}
    forked_from: ForkOrigin | None = None
    run: RunStart | None = None
    runs: int = 0
    step: int = 0
    calls: dict[str, OpenCall] = {}
    calls_ended: dict[str, int] = {}
    written: dict[str, Written] = {}
    commands: dict[str, BackgroundCommand] = {}
    checks: dict[str, Check] = {}
    has_changes: bool = False
    open_agents: dict[str, OpenAgent] = {}
    metadata: JsonObject = {}
    usage: Usage = Usage()
    messages: int = 0
    first_prompt_head: str = ""
    last_prompt_head: str = ""
    terminal: Terminal | None = None
    updated_at: str = ""

    @property
    def first_prompt(self) -> str:
        """The beginning of the first prompt that says something."""
        return clip(self.first_prompt_head, _PROMPT_BYTES_MAX)

    @property
    def last_prompt(self) -> str:
        """The beginning of the newest prompt."""
        return clip(self.last_prompt_head, _PROMPT_BYTES_MAX)

    @property
    def title(self) -> str:
        """The title given, else the beginning of the first prompt."""
        given = self.metadata.get("title")
        return given if isinstance(given, str) and given else self.first_prompt

    @property
    def generation(self) -> int:
        """The newest run's generation, 0 before any run."""
        return self.run.generation if self.run is not None else 0

    @property
    def uses_actions(self) -> bool:
        """Whether calls leave intents here, so that one without is known not to have run."""
        return bool(self.calls) or bool(self.calls_ended)

    def apply(self, event: Event) -> None:
        """Fold one event in. Never raises: what it can't use changes nothing."""
        payload = event.payload
        self.updated_at = event.timestamp
        self.step = max(self.step, event.step)
        if isinstance(payload, Message):
            self._message(payload)
        elif isinstance(payload, ToolLifecycle):
            self._tool(event, payload)
        elif isinstance(payload, MessageAmendment):
            self._usage(payload.usage)
        elif isinstance(payload, RunStart):
            self.run = payload
            self.runs += 1
            self.terminal = None
        elif isinstance(payload, Terminal):
            self.terminal = payload
        elif isinstance(payload, Metadata):
            self._metadata(payload)
        elif isinstance(payload, AgentEvent):
            self._agent(event, payload)
        elif isinstance(payload, Checkpoint | Rewind):
            self._checkpoint(event.event_id, payload)
        elif isinstance(payload, SessionStart):
            self.project = payload.project
            self.forked_from = payload.forked_from
            # What the origin had verified is not known here.
            self.has_changes = payload.forked_from is not None

    def _message(self, message: Message) -> None:
        self.messages += 1
        if message.role == "user" and not message.source:
            words = message.typed or plain_text(message.content)
            self.last_prompt_head = head(words, _PROMPT_BYTES_MAX)
            if not self.first_prompt_head or self.first_prompt_head.isspace():
                self.first_prompt_head = self.last_prompt_head
        elif message.role == "assistant":
            self._usage(message.usage)
        elif message.source == AGENT_SOURCE and message.details is not None:
            self._told_of_agent(message.details.get("agent_id"))

    def _told_of_agent(self, agent_id: object) -> None:
        agent = self.open_agents.get(agent_id) if isinstance(agent_id, str) else None
        if agent is not None and not agent.is_at_work:
            del self.open_agents[agent.agent_id]

    def _checkpoint(self, event_id: str, payload: Checkpoint | Rewind) -> None:
        """What summaries cost; a resume looks only at what was written after a checkpoint."""
        if isinstance(payload, Checkpoint):
            self.written = {}
            self._usage(payload.usage)
        else:
            self._usage(payload.checkpoint.usage)
            self._changed(payload.changes)
            for change in payload.changes:
                # Taken back on purpose: that it isn't there any more is no loss.
                self.written.pop(change.path, None)
            if payload.scope != "files":
                self._left_behind(event_id, payload)

    def _left_behind(self, event_id: str, rewind: Rewind) -> None:
        """Which agents the conversation knows of; an undo knows again of those that were left."""
        for agent_id, agent in self.open_agents.items():
            if agent.left_by and agent.left_by == rewind.undoes:
                self.open_agents[agent_id] = msgspec.structs.replace(agent, left_by="")
            elif not agent.left_by and agent.message_id > (rewind.target_id or ""):
                self.open_agents[agent_id] = msgspec.structs.replace(agent, left_by=event_id)

    def _usage(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = self.usage + usage

    def _tool(self, event: Event, payload: ToolLifecycle) -> None:
        call_id = payload.call_id or event.event_id
        if payload.status in _ENDED:
            self._ended(call_id, event, payload)
            return
        known = self.calls.pop(call_id, None)  # in the order in which they began
        self.calls[call_id] = OpenCall(
            call_id=call_id,
            tool_name=payload.tool_name,
            status=payload.status,
            message_id=payload.message_id,
            index=payload.index,
            provider_call_id=payload.provider_call_id,
            arguments=payload.arguments or (known.arguments if known else None),
            intent=payload.intent or (known.intent if known else None),
            started_at=event.timestamp if payload.status == "started" else "",
            run_id=event.run_id,
        )

    def _ended(self, call_id: str, event: Event, payload: ToolLifecycle) -> None:
        known = self.calls.pop(call_id, None)
        self.calls_ended[payload.status] = self.calls_ended.get(payload.status, 0) + 1
        call = OpenCall(
            call_id=call_id,
            tool_name=payload.tool_name,
            status=payload.status,
            message_id=payload.message_id,
            index=payload.index,
            provider_call_id=payload.provider_call_id,
        )
        verdict = payload.resolution.verdict if payload.resolution is not None else None
        if known is not None and _goes_on(known, payload.status, verdict):
            self._goes_on_in_background(known)
        elif known is None and verdict is not None and call_id in self.commands:
            self._command_ended(call_id, event, payload)
        elif known is not None and verdict in _LEFT_OPEN:
            status = "running" if verdict == "still_running" else "unknown"
            self.calls[call_id] = msgspec.structs.replace(known, status=status)
        if verdict == "lost" and payload.resolution is not None:
            # Told once: the next resume after the restart must not find it lost again.
            self.written.pop(str(payload.resolution.evidence.get("path")), None)
        if payload.outcome is not None:
            self._remember_written(call, event, payload.outcome.changes)
            self._outcome(event, payload.outcome)

    def _goes_on_in_background(self, call: OpenCall) -> None:
        if not isinstance(call.intent, ShellIntent):
            return
        if len(self.commands) >= COMMANDS_MAX:
            ended = [key for key, command in self.commands.items() if command.state != "running"]
            del self.commands[next(iter(ended or self.commands))]
        self.commands[call.call_id] = BackgroundCommand(
            call_id=call.call_id,
            command=head(call.intent.command, _COMMAND_BYTES_MAX),
            cwd=call.intent.cwd,
            output_directory=call.intent.output_directory,
            started_at=call.started_at,
            message_id=call.message_id,
            index=call.index,
            provider_call_id=call.provider_call_id,
        )

    def _command_ended(self, call_id: str, event: Event, payload: ToolLifecycle) -> None:
        is_known = payload.resolution is not None and payload.resolution.verdict == "applied"
        self.commands[call_id] = msgspec.structs.replace(
            self.commands[call_id],
            state="ended" if is_known else "vanished",
            exit_code=payload.outcome.exit_code if payload.outcome is not None else None,
            ended_at=event.timestamp,
            told=True,
        )

    def _outcome(self, event: Event, outcome: Outcome) -> None:
        self._changed(outcome.changes)
        if outcome.verification is not None:
            command = outcome.verification.command
            self.checks.pop(command, None)
            self.checks[command] = Check(outcome.verification.passed, event.event_id)
            if len(self.checks) > _CHECKS_MAX:
                del self.checks[next(iter(self.checks))]
        read = outcome.output_read
        if read is not None and read.ended and read.command_id in self.commands:
            known = self.commands[read.command_id]
            self.commands[read.command_id] = msgspec.structs.replace(known, told=True)

    def _changed(self, changes: tuple[Change, ...]) -> None:
        """What was verified is no longer, whoever made the changes and on whatever branch."""
        if not changes:
            return
        self.has_changes = True
        for command, check in self.checks.items():
            if not check.stale:
                self.checks[command] = msgspec.structs.replace(check, stale=True)

    def _remember_written(self, call: OpenCall, event: Event, changes: tuple[Change, ...]) -> None:
        boot_id = self.run.boot_id if self.run is not None else ""
        for change in changes:
            self.written.pop(change.path, None)
            self.written[change.path] = Written(
                call, change.before, change.after, boot_id, event.timestamp
            )

    def _metadata(self, payload: Metadata) -> None:
        for key, value in payload.entries.items():
            if value is None:
                self.metadata.pop(key, None)
            else:
                self.metadata[key] = value

    def _agent(self, event: Event, payload: AgentEvent) -> None:
        known = self.open_agents.pop(payload.agent_id, OpenAgent(payload.agent_id, ""))
        self._changed(payload.changes)
        self._usage(payload.usage)
        call_id = payload.call_id or known.call_id
        call = self.calls.get(call_id) or OpenCall(call_id, "Task", "completed")
        message_id = call.message_id or known.message_id
        if payload.status in AGENT_ENDS:  # before that, its own transcript is looked at again
            self._remember_written(call, event, payload.changes)
        background = payload.background or known.background
        is_over = payload.status in AGENT_ENDS and not background
        if is_over or payload.status == AGENT_REPORTED:
            return
        self.open_agents[payload.agent_id] = OpenAgent(
            agent_id=payload.agent_id,
            status=payload.status,
            task=payload.task or known.task,
            agent_type=payload.agent_type or known.agent_type,
            call_id=call_id,
            since=event.event_id,
            background=background,
            recovered=payload.details.get("by") == "recovery",
            message_id=message_id,
            left_by=known.left_by if message_id == known.message_id else "",
        )


def _goes_on(call: OpenCall, status: str, verdict: str | None) -> bool:
    """Whether a call has ended by leaving its command to run in the background."""
    in_background = isinstance(call.intent, ShellIntent) and call.intent.background
    return in_background and (status == "completed" or verdict == "still_running")


def tool_calls(message: Message) -> tuple[ToolCall, ...]:
    """The calls of a message in the order the model asked for them."""
    return tuple([block for block in message.content if isinstance(block, ToolCall)])
