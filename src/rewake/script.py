"""The script of a scripted model: JSON Lines, one assistant turn a line.

The rule kept here: what a script answers depends only on the turn asked for and on how often its
error lines were hit in this process, so that two runs of one script are the same run.

A line is an object with any of

- `text`: what the assistant says;
- `tool_calls`: `[{"name": …, "arguments": {…}, "id": …}]`; without an id the calls of a turn are
  `call_1`, `call_2`…, again in every turn, as some real providers do; `arguments_text` instead of
  `arguments` is text that is no JSON object;
- `thinking`: `{"text": …, "signature": …}`;
- `usage`: `{"input_tokens": …, "output_tokens": …}`; `stop_reason`; `delay_ms` before the answer,
  `piece_delay_ms` between the pieces of a text that is streamed;
- `error`: `{"status": …, "message": …, "times": 1}`: no turn of its own; the next turn fails this
  many times before it is given;
- `agent`: the line is for sub-agents of that type, counted in the transcript of each, and skipped for
  the main agent.

Blank lines and lines that start with `#` are skipped. Past the end the answer is `done`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from rewake.errors import UsageError
from rewake.model.content import JsonObject, Usage
from rewake.model.events import StopReason


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call of a scripted turn."""

    name: str
    arguments: JsonObject = msgspec.field(default_factory=dict)
    id: str | None = None
    arguments_text: str | None = None


class ScriptedThinking(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reasoning of a scripted turn."""

    text: str
    signature: str | None = None


class ScriptedError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failure of the provider: its HTTP status and message, `times` attempts long."""

    status: int
    message: str = "scripted error"
    times: int = 1


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a script."""

    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    thinking: ScriptedThinking | None = None
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    delay_ms: int = 0
    piece_delay_ms: int = 0
    error: ScriptedError | None = None
    agent: str | None = None

    def call_ids(self) -> tuple[str, ...]:
        """The provider's ids of the calls, in order."""
        return tuple(
            call.id or f"call_{number}" for number, call in enumerate(self.tool_calls, start=1)
        )

    def stop(self) -> StopReason:
        """The stop reason, derived from the calls where the line names none."""
        return self.stop_reason or ("tool_use" if self.tool_calls else "end")


PAST_THE_END = Turn(text="done")
_SUB_AGENT: Final = "You are a sub-agent of type `{}`"
_IN_SYSTEM_PROMPT: Final = re.compile(re.escape(_SUB_AGENT).replace(r"\{\}", "([^`\n]+)"))


def who_it_is(agent: str) -> str:
    """The beginning of what a sub-agent of this type is told; doubles of providers look for it."""
    return _SUB_AGENT.format(agent)


def agent_in(system_prompt: str) -> str:
    """The type of sub-agent that a request's system prompt is for; empty for the main agent."""
    found = _IN_SYSTEM_PROMPT.search(system_prompt)
    return found[1] if found is not None else ""


class Script:
    """The turns of one script, and how often its error lines were hit.

    With `agent` those of the sub-agents of that type, else those of the main agent.
    """

    def __init__(self, turns: Iterable[Turn], agent: str = "") -> None:
        self._answers: list[Turn] = []
        self._errors: dict[int, list[ScriptedError]] = {}
        self._hits: dict[int, int] = {}
        for turn in turns:
            if (turn.agent or "") != agent:
                continue
            if turn.error is not None:
                self._errors.setdefault(len(self._answers), []).append(turn.error)
            else:
                self._answers.append(turn)

    def take(self, turn: int) -> Turn | ScriptedError:
        """The answer for the turn that has `turn` assistant messages before it; counts an error hit."""
        hits = self._hits.get(turn, 0)
        for error in self._errors.get(turn, ()):
            if hits < error.times:
                self._hits[turn] = self._hits.get(turn, 0) + 1
                return error
            hits -= error.times
        return self._answers[turn] if turn < len(self._answers) else PAST_THE_END


def parse_turns(text: bytes, source: str) -> tuple[Turn, ...]:
    """The lines of a script. Raises UsageError with `source` and the line's number."""
    turns = []
    # Split at \n only: U+2028 may stand in a string.
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        try:
            turns.append(msgspec.json.decode(line, type=Turn))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{source}, line {number}: not a turn of a script: {error}.",
                remedy='Each line is one JSON object such as {"text": "hello"}.',
            ) from error
    return tuple(turns)


def read_turns(path: Path) -> tuple[Turn, ...]:
    """The turns of the script at `path`. Raises UsageError when it can't be read or parsed."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"The script {path} can't be read: {error.strerror}.",
            remedy="Give the path of a JSON Lines file after `script:`.",
        ) from error
    return parse_turns(text, str(path))
