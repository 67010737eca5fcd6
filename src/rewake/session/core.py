"""`Session`: the facade over recorder, fold and view that a program works with.

The rules kept here: every method records one fact; what is durable when it returns is said in its
docstring; the state that it shows is the fold of what was recorded, and nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from rewake.errors import UsageError
from rewake.model.content import (
    ContentBlock,
    JsonObject,
    Text,
    ToolCall,
    Usage,
    plain_text,
)
from rewake.model.events import (
    Change,
    Checkpoint,
    Event,
    FileChangeIntent,
    Intent,
    KnownPayload,
    Message,
    Metadata,
    OtherIntent,
    Rewind,
    StateTransition,
    StopReason,
    Terminal,
)
from rewake.record.recorder import Recorder
from rewake.record.trace import Notes, NoTrace
from rewake.resume.branches import newest_rewind
from rewake.resume.evidence import Settlement, Verify, settle
from rewake.resume.lineage import Lineage
from rewake.resume.load import conversation_at
from rewake.session.action import Action, FileChange, IntentLike, file_changes
from rewake.session.ports import Agents, Blobs, FileTracker, Growing, ResumeState
from rewake.state.conversation import REQUESTING, Conversation, Entry
from rewake.state.fold import SessionState
from rewake.state.view import ViewMessage, view
from rewake.state.world import OpenCall, tool_calls

# A checkpoint this often bounds what a resume reads, at about 1% of the bytes and 1 µs an event.
CHECKPOINT_EVENTS_MAX: Final = 1000
CHECKPOINT_BYTES_MAX: Final = 1 << 20
_BARRIER_PAYLOADS: Final = (Checkpoint, Rewind, Terminal)


class Session:
    """One session, open for writing. Safe for threads; close it, or use it with `with`.

    `agent_id` is set in the session of a sub-agent, a child of the one that it works for.

    Every method that records raises StorageError when the fact can't be kept, and PoisonedError
    ever after: stop then, before the next side effect.
    """

    def __init__(
        self,
        *,
        session_id: str,
        run_id: str,
        root: Path,
        directory: Path,
        state: SessionState,
        make_recorder: Callable[[Callable[[Event], None]], Recorder],
        blobs: Blobs,
        boot_id: str,
        transcript: Path | None = None,
        lineage: Callable[[], Lineage] | None = None,
        file: Growing | None = None,
        verify: dict[str, Verify] | None = None,
        agent_id: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.run_id = run_id
        self.root = root
        self.directory = directory
        self.transcript = transcript
        self._lineage = lineage
        self.state = state
        self.blobs = blobs
        self.resumed: ResumeState | None = None
        self.tracker: FileTracker | None = None
        self.sidechains: Agents | None = None
        self.trace: Notes = NoTrace()
        self._boot_id = boot_id
        self._verify = verify or {}
        self._closing = ExitStack()
        self._file = file
        self._is_open = True
        self._rewound: Conversation | None = None
        self._step = state.world.step
        self._step_has_begun = False
        self._since_checkpoint = 0
        self._checkpoint_size = file.size if file is not None else 0
        self.recorder = make_recorder(self._fold)

    def checkpoint_is_behind(self, events: int, size: int) -> None:
        """Say how many events and bytes stand after the newest checkpoint of the file as opened."""
        self._since_checkpoint = events
        self._checkpoint_size -= size

    def _fold(self, event: Event) -> None:
        """The recorder calls this with each event, in order, under its mutex."""
        target, self._rewound = self._rewound, None
        self.state.apply(event, target=target)
        self._since_checkpoint += 1

    # --- recording ---------------------------------------------------------------------------

    def record(self, payload: KnownPayload, *, barrier: bool = False, defer: bool = False) -> Event:
        """Record any fact. With `barrier` it is committed on return, else with the next barrier."""
        before = self._step, self._step_has_begun
        step, has_begun = self._step_of(payload)
        event = self.recorder.submit(
            payload,
            step=step,
            barrier=barrier or isinstance(payload, _BARRIER_PAYLOADS),
            defer=defer,
        )
        if (step, has_begun) != before:  # other threads record what belongs to the step at hand
            self._step, self._step_has_begun = step, has_begun
        if self._since_checkpoint >= CHECKPOINT_EVENTS_MAX or self._grown():
            self._state_checkpoint()
        return event

    def _step_of(self, payload: KnownPayload) -> tuple[int, bool]:
        """A step begins with the request, or with the answer of a loop that records no requests."""
        if isinstance(payload, StateTransition) and payload.to_state == REQUESTING:
            return self._step + 1, True
        if isinstance(payload, Message) and payload.role == "assistant":
            return self._step + (not self._step_has_begun), False
        return self._step, self._step_has_begun

    def _grown(self) -> bool:
        return self._file is not None and (
            self._file.size - self._checkpoint_size >= CHECKPOINT_BYTES_MAX
        )

    def _state_checkpoint(self) -> None:
        with self.recorder.held():
            self._since_checkpoint = 0
            self._checkpoint_size = self._file.size if self._file is not None else 0
            self.recorder.submit(self.state.checkpoint(), step=self._step)

    def user(
        self,
        content: str | Sequence[ContentBlock],
        *,
        source: str = "",
        typed: str = "",
        details: JsonObject | None = None,
    ) -> str:
        """Record a user's message; returns its id. Durable on return.

        `source` names who wrote it where no person did, and `details` is what that says for programs;
        `typed` is what a person typed where the content is what that stands for.
        """
        message = Message("user", _blocks(content), source=source, typed=typed, details=details)
        return self.record(message, barrier=True).event_id

    def assistant(
        self,
        content: str | Sequence[ContentBlock],
        *,
        usage: Usage | None = None,
        model: str = "",
        stop_reason: StopReason | None = None,
        provider: JsonObject | None = None,
    ) -> str:
        """Record a model's answer; returns its id. Durable with the next barrier.

        Without `usage` it waits up to 100 ms for `amend` before it becomes bytes.
        """
        blocks = _blocks(content)
        message = Message("assistant", blocks, model, usage, stop_reason, provider)
        return self.record(message, defer=usage is None).event_id

    def append(self, message: Message) -> str:
        """Record a message as it is, with its role; returns its id. A user's is durable on return."""
        return self.record(message, barrier=message.role == "user").event_id

    def amend(
        self, message_id: str, *, usage: Usage | None = None, stop_reason: StopReason | None = None
    ) -> None:
        """Add what became known of a message only after it was recorded; what it has already stays."""
        with self.recorder.held():
            entry = self.state.conversation.entry(message_id)
            if entry is not None and entry.message.usage is not None:
                usage = None  # the session's total counts each message once
            self.recorder.amend(message_id, usage=usage, stop_reason=stop_reason, step=self._step)

    def transition(
        self, from_state: str, to_state: str, reason: str = "", details: JsonObject | None = None
    ) -> None:
        """Record that the loop went from one state to another. Durable with the next barrier."""
        self.record(StateTransition(from_state, to_state, reason, details or {}))

    def metadata(self, **entries: object) -> None:
        """Record a title, tags and the like; None removes a key. Durable on return."""
        self.record(Metadata(dict(entries)), barrier=True)

    def terminal(self, reason: str, details: JsonObject | None = None) -> None:
        """Record why the run ended, with what a list of sessions shows. Durable on return."""
        world = self.state.world
        shown = {"title": world.title, "messages": world.messages}
        self.record(Terminal(reason, {**shown, **(details or {})}))

    def checkpoint(
        self,
        summary: str,
        *,
        keep: Sequence[str] = (),
        trigger: str = "manual",
        tokens_before: int = 0,
        tokens_after: int = 0,
        usage: Usage | None = None,
    ) -> str:
        """Compact: from here on the model gets `summary` and the messages named by `keep`.

        The newest user prompt is always kept. Nothing is deleted: what is left out stays in the
        transcript. `usage` is what making the summary cost. Returns the checkpoint's id; durable
        on return.
        """
        with self.recorder.held():
            wanted = set(keep)
            conversation = self.state.conversation
            payload = self.state.checkpoint(
                "compaction",
                kept=[entry for entry in conversation.entries if entry.message_id in wanted],
                summary=summary,
                session_memory=conversation.memory.render(),
                trigger=trigger,
                tokens_before=tokens_before,
                tokens_after=tokens_after,
                usage=usage,
            )
            return self.record(payload).event_id

    def spent(self, usage: Usage) -> None:
        """Record what a request cost that left no message. Durable on return."""
        with self.recorder.held():
            self.record(self.state.checkpoint(trigger="usage", usage=usage))

    def rewind(self, target_id: str, *, usage: Usage | None = None) -> str:
        """Take the conversation back to just after the event `target_id`; files stay as they are.

        A model's message counts together with the answers to its calls. What followed stays in the
        transcript as a branch of its own. `usage` is what a summary of that cost. Returns the id of
        the rewind; durable on return. Raises UsageError when the event isn't in this session or one
        it was forked from.
        """
        return self._rewind(target_id, undoes=None, usage=usage)

    def record_files_rewind(
        self,
        target_id: str,
        changes: Sequence[Change],
        conflicts: Sequence[Change] = (),
        *,
        conversation_id: str | None = None,
        undoes: str | None = None,
        usage: Usage | None = None,
    ) -> str:
        """Record that files went back to how they were at `target_id`: they have, before this.

        With `conversation_id` the conversation goes back to that event, too; `usage` is then as for
        `rewind`. Returns the id of the rewind; durable on return.
        """
        with self.recorder.held():  # the checkpoint is of just before its line, from any thread
            state = self.state.checkpoint()
            went = Rewind(target_id, "files", state, undoes, tuple(changes), tuple(conflicts))
            if conversation_id is None:
                return self.record(went).event_id
            return self._rewind(conversation_id, undoes=undoes, usage=usage, files=went)

    def _rewind(
        self,
        target_id: str,
        *,
        undoes: str | None,
        usage: Usage | None = None,
        files: Rewind | None = None,
    ) -> str:
        with self.recorder.held():
            conversation, target = self._conversation_at(target_id)
            checkpoint = self.state.checkpoint(conversation=conversation, usage=usage)
            self._rewound = conversation
            try:
                rewind = Rewind(target.event_id, "conversation", checkpoint, undoes)
                if files is not None:
                    rewind = msgspec.structs.replace(
                        rewind, scope="both", changes=files.changes, conflicts=files.conflicts
                    )
                return self.record(rewind).event_id
            finally:
                # Where nothing was recorded, the next event must not be taken for the rewind.
                self._rewound = None

    def undo_rewind(self) -> str:
        """Go back to where the newest rewind left; an undo can be undone in the same way.

        Returns the id of the rewind that does it; durable on return. Raises UsageError when
        nothing was rewound.
        """
        with self.recorder.held():
            self.recorder.flush()
            with self.reader() as reader:
                found = newest_rewind(reader)
            if found is None:
                raise UsageError("Nothing was rewound in this session.", remedy="There is no undo.")
            rewind, left_id = found
            return self._rewind(left_id, undoes=rewind.event_id)

    def _conversation_at(self, target_id: str) -> tuple[Conversation, Event]:
        self.recorder.flush()
        with self.reader() as reader:
            return conversation_at(reader, self.blobs, target_id)

    def reader(self) -> Lineage:
        """A reader over the transcript and those it was forked from; close it, flush before."""
        if self._lineage is None:
            raise UsageError(
                "A session that is kept in memory only can't be rewound.",
                remedy="Open it with a transcript.",
            )
        return self._lineage()

    # --- actions -----------------------------------------------------------------------------

    def action(
        self,
        call: ToolCall | str,
        call_id: str = "",
        intent: IntentLike = None,
        *,
        arguments: JsonObject | None = None,
        message_id: str | None = None,
        index: int | None = None,
    ) -> Action:
        """Wrap one tool call; see `Action` for what is durable when.

        `call` is a call of the newest assistant message, or a tool's name with the provider's
        `call_id`. Without an `intent` the call counts as an effect that nothing can verify.
        `message_id` and `index` say which call is meant where provider ids repeat.
        """
        name = call if isinstance(call, str) else call.name
        provider_id = call_id if isinstance(call, str) else call.provider_call_id
        if arguments is None and isinstance(call, ToolCall):
            arguments = call.arguments
        return Action(
            session=self,
            tool_name=name,
            provider_call_id=provider_id,
            message_id=message_id,
            index=index or 0,
            arguments=arguments,
            intent=intent,
        )

    def reopened_action(self, call: OpenCall) -> Action:
        """The action of a call that was started in an earlier run and goes on in this one."""
        return Action(
            session=self,
            tool_name=call.tool_name,
            provider_call_id=call.provider_call_id,
            message_id=call.message_id,
            index=call.index,
            arguments=call.arguments,
            intent=call.intent,
            call_id=call.call_id,
            state="started",
            _intent=call.intent,
        )

    def place_of(self, action: Action) -> tuple[str | None, int]:
        """Which call of the newest assistant message an action is, of those not asked for yet.

        Where ids repeat, the arguments tell the calls apart, then their order.
        """
        entry = self.state.conversation.last_assistant()
        if entry is None:
            return None, 0
        taken = {
            call.index
            for call in self.state.world.calls.values()
            if call.message_id == entry.message_id
        }
        wanted = (action.provider_call_id, action.tool_name)
        free = [
            (call.arguments != action.arguments, index)
            for index, call in enumerate(tool_calls(entry.message))
            if index not in taken
            and entry.answers[index] is None
            and (call.provider_call_id, call.name) == wanted
        ]
        return (entry.message_id, min(free)[1]) if free else (None, 0)

    def frozen_intent(self, intent: IntentLike) -> Intent:
        """The recorded form of an intent; the contents that it names are durable blobs on return."""
        if intent is None:
            return OtherIntent()
        if isinstance(intent, FileChange):
            intent = (intent,)
        if isinstance(intent, msgspec.Struct):
            return intent
        return FileChangeIntent(file_changes(intent, self.root, self.blobs.put_all))

    def settle_action(
        self, action: Action, intent: Intent | None, error: BaseException
    ) -> Settlement:
        """The verdict on an action that `error` cut short, by the evidence a resume would use."""
        call = OpenCall(
            call_id=action.call_id,
            tool_name=action.tool_name,
            status="started",
            message_id=action.message_id,
            index=action.index,
            provider_call_id=action.provider_call_id,
            intent=intent,
        )
        (settlement,) = settle(
            [call],
            session_directory=self.directory,
            boot_id=self._boot_id,
            verify=self._verify,
            read_blob=self.blobs.get,
            by="action",
        )
        settlement = self._with_changes(action, settlement)
        said = f"{type(error).__name__}: {error}"
        evidence = {**settlement.resolution.evidence, "exception": said}
        is_own = type(error).__module__.startswith("rewake.")  # its name tells nobody anything
        short = (
            f"The call was cut short: {error}." if is_own else f"The call was cut short by {said}"
        )
        told = f"{short}\n{plain_text(settlement.result.content)}"
        return msgspec.structs.replace(
            settlement,
            resolution=msgspec.structs.replace(settlement.resolution, evidence=evidence),
            result=msgspec.structs.replace(settlement.result, content=(Text(told),)),
        )

    def _with_changes(self, action: Action, settlement: Settlement) -> Settlement:
        if self.tracker is None:
            return settlement
        if action.is_tracked:
            outcome = self.tracker.after(action.call_id, settlement.outcome)
        else:
            outcome = self.tracker.made(action.call_id, settlement.outcome)
        return msgspec.structs.replace(settlement, outcome=outcome)

    # --- reading -----------------------------------------------------------------------------

    def view(self) -> tuple[ViewMessage, ...]:
        """The messages of the next request: valid for any provider, whatever happened.

        A call that is still unanswered gets its final answer here ("no result recorded"), and a
        conversation that ends with an answer a word to go on; what is learnt later becomes a
        message of its own, so that requests only ever grow. All that the request says is durable on
        return: after a crash the next request begins with it, byte for byte.
        """
        with self.recorder.held():
            conversation = self.state.conversation
            is_unfinished = any(entry.is_open() for entry in conversation.entries)
            if is_unfinished or conversation.ends_with_answer():
                self.transition("", REQUESTING, "what this request made up is final")
            if self._is_open:
                self.recorder.commit()
            return view(conversation)

    @property
    def messages(self) -> tuple[Entry, ...]:
        """The active conversation, oldest first."""
        with self.recorder.held():
            return tuple(self.state.conversation.entries)

    @property
    def memory(self) -> str:
        """What session memory says now."""
        with self.recorder.held():
            return self.state.conversation.memory.render()

    def read_hash(self, path: str) -> str | None:
        """SHA-256 of the content that the model last saw or wrote at this real path."""
        return self.state.conversation.read_state.get(path)

    # --- ending ------------------------------------------------------------------------------

    def flush(self) -> None:
        """On return everything recorded so far survives the death of this process."""
        self.recorder.flush()

    def commit(self) -> None:
        """On return everything recorded so far is as durable as the session's level says."""
        self.recorder.commit()

    def close(self) -> None:
        """Commit, then let others write. Harmless when called twice."""
        self._is_open = False
        with self._closing.pop_all():  # all of it is released, whatever fails
            self.recorder.close()

    def on_close(self, release: Callable[[], None]) -> None:
        """Have `release` called once when the session is closed."""
        self._closing.callback(release)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _blocks(content: str | Sequence[ContentBlock]) -> tuple[ContentBlock, ...]:
    return (Text(content),) if isinstance(content, str) else tuple(content)
