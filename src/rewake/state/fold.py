"""The one fold: a session's state is what its events say, live and on resume alike.

The rules kept here:

- `SessionState.apply` is the only way state changes; it never raises and touches nothing outside.
- Two clocks: `conversation` folds the branch, `world` folds the file.
- `checkpoint()` and `restore()` are inverse: restoring a checkpoint and applying its event gives the
  state that folding every event gives. `FOLD_VERSION` changes whenever the folded state of any
  transcript would; older checkpoints are then ignored and the transcript is folded anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from rewake.model.content import JsonObject, Usage
from rewake.model.events import Checkpoint, Event, History, Rewind, SessionStart
from rewake.state.conversation import Conversation, Entry, Snapshot
from rewake.state.world import World

FOLD_VERSION: Final = 1


class FoldedState(msgspec.Struct):
    """The shape of `Checkpoint.state`."""

    conversation: Snapshot = msgspec.field(default_factory=Snapshot)
    world: World = msgspec.field(default_factory=World)


class SessionState:
    """The state of one session, folded event by event. Not thread-safe: its owner serialises."""

    def __init__(
        self,
        conversation: Conversation | None = None,
        world: World | None = None,
        *,
        fold_version: int = FOLD_VERSION,
    ) -> None:
        self.conversation = conversation or Conversation()
        self.world = world or World()
        self.fold_version = fold_version

    def apply(self, event: Event, *, target: Conversation | None = None) -> None:
        """Fold the next event of the file in.

        For a rewind of the conversation, `target` is the conversation at the event it goes back
        to, and for the first line of a fork the conversation at the event where it was forked;
        without it, `event` must be on the path that is being folded from the root.
        """
        if target is not None:
            self.conversation = target
        self.conversation.apply(event, fold_version=self.fold_version)
        self.world.apply(event)

    def checkpoint(
        self,
        kind: Literal["compaction", "state"] = "state",
        *,
        kept: Iterable[Entry] | None = None,
        conversation: Conversation | None = None,
        summary: str | None = None,
        session_memory: str | None = None,
        tokens_before: int = 0,
        tokens_after: int = 0,
        trigger: str = "",
        usage: Usage | None = None,
    ) -> Checkpoint:
        """A checkpoint of this state, to be appended next.

        A compaction keeps only the entries `kept`; `conversation` is the one at the target of a
        rewind. No message is embedded.
        """
        at = conversation or self.conversation
        folded = FoldedState(at.snapshot(), self.world)
        return Checkpoint(
            kind=kind,
            fold_version=self.fold_version,
            history=at.history() if kept is None else at.history_of(kept),
            state=msgspec.to_builtins(folded),
            summary=summary,
            session_memory=session_memory,
            tokens_before=tokens_before,
            tokens_after=tokens_after,
            trigger=trigger,
            usage=usage,
        )

    @classmethod
    def restore(
        cls,
        event: Event,
        recalled: Iterable[Event],
        *,
        fold_version: int = FOLD_VERSION,
    ) -> SessionState:
        """The state right after `event`, which carries a checkpoint.

        `recalled` are the events that the checkpoint's history names, its base's first. Raises
        ValueError where the checkpoint can't be used: another fold version or a damaged state.
        """
        checkpoint = checkpoint_of(event)
        if checkpoint is None or checkpoint.fold_version != fold_version:
            raise ValueError("no checkpoint of this fold version")
        try:
            folded = msgspec.convert(checkpoint.state, FoldedState)
        except msgspec.ValidationError as error:
            raise ValueError(f"the checkpoint's state can't be read: {error}") from error
        conversation = Conversation.restore(folded.conversation, recalled, checkpoint.history)
        state = cls(conversation, folded.world, fold_version=fold_version)
        state.apply(event)
        return state

    def as_json(self) -> JsonObject:
        """All of the state as plain JSON values, to be compared or shown."""
        conversation = self.conversation
        entries = [msgspec.to_builtins(entry, enc_hook=repr) for entry in conversation.entries]
        return {
            "entries": entries,
            "snapshot": msgspec.to_builtins(conversation.snapshot()),
            "history": msgspec.to_builtins(conversation.history()),
            "world": msgspec.to_builtins(self.world),
        }


def checkpoint_of(event: Event) -> Checkpoint | None:
    """The checkpoint that an event is or carries (compactions, rewinds, forks), if any."""
    payload = event.payload
    if isinstance(payload, Checkpoint):
        return payload
    if isinstance(payload, Rewind):
        return payload.checkpoint
    if isinstance(payload, SessionStart):
        return payload.checkpoint
    return None


def history_of(event: Event) -> History | None:
    """What the checkpoint of an event names, if it has one."""
    checkpoint = checkpoint_of(event)
    return checkpoint.history if checkpoint is not None else None
