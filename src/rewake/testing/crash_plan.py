"""The scripted session that is killed, and what each of its calls does to the world.

The rule kept here: every state of a file and every line of the counter is unique, so what is found
on disk says exactly which calls took effect and how often, whatever the transcript claims.

Effects of one plan are strictly in sequence: files are chains (`file.py` goes from state 3 to state
4 only), and each command appends its own line to a counter that no tool touches.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewake.model.content import JsonObject

COUNTER: Final = "counter.log"
GATE: Final = "gate"
PROMPT: Final = "Work through the plan."
LOOK: Final = "What was interrupted?"
GO_ON: Final = "Go on."
COMPACT_AT_TOKENS: Final = 6_000
_TURN: Final = re.compile(r"(?:step|again) (\d+)(?:\.(\d+))?\.")
# More than a line of the transcript holds, so that messages and intents go to blobs as well.
_LARGE_LINE: Final = "x" * 99 + "\n"
_LARGE_LINES: Final = 700


# Forty turns, a word each, a call a letter. The first makes both worker threads; the second waits at
# the gate; the twelfth has several effects, one after the other, each with its own verdict; three have
# a command in the background.
_FORTY: Final = (
    "gs w u mb r t n c L m m mcubm r n u c m u m m r m b rsn m m u n r t m c u m n u r m u c"
)
_FILES: Final = {"m": "main.py", "u": "src/util.py", "n": "notes.md", "L": "large.txt"}
_COMMANDS: Final = frozenset("cwb")
_READS: Final = {
    "r": ("Read", '{"file_path": "main.py"}'),
    "g": ("Glob", '{"pattern": "**/*.py"}'),
    "s": ("Grep", '{"pattern": "state"}'),
    "t": ("TodoWrite", '{"todos": [{"content": "begin", "status": "completed"}]}'),
}
_COMPACTED_AFTER: Final = 20
_FEW_TOKENS: Final = 100
_OVER_THE_LIMIT: Final = COMPACT_AT_TOKENS + 4_000


@dataclass(frozen=True, slots=True)
class FileStep:
    """Takes a file from position `position - 1` of its chain to `position`."""

    path: str
    position: int
    large: bool = False


@dataclass(frozen=True, slots=True)
class CommandStep:
    """Appends `tag` to the counter, after waiting at the gate if it is the one that does."""

    tag: str
    waits: bool = False
    seconds: float = 0.0
    background: bool = False


@dataclass(frozen=True, slots=True)
class OtherStep:
    """A call without an effect on the world. `arguments` is JSON."""

    name: str
    arguments: str


Step = FileStep | CommandStep | OtherStep


@dataclass(frozen=True, slots=True)
class Turn:
    """One assistant turn: its calls, and the input tokens that its usage claims."""

    number: int
    steps: tuple[Step, ...]
    input_tokens: int = _FEW_TOKENS


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole session. `chains` has the number of states of each file."""

    turns: tuple[Turn, ...]

    def chains(self) -> dict[str, int]:
        """How many times each file is changed."""
        found: dict[str, int] = {}
        for step in self.steps():
            if isinstance(step, FileStep):
                found[step.path] = max(found.get(step.path, 0), step.position)
        return found

    def tags(self) -> list[str]:
        """What the counter holds in the end, in order."""
        return [step.tag for step in self.steps() if isinstance(step, CommandStep)]

    def steps(self) -> Iterable[Step]:
        """Every call, in order."""
        return (step for turn in self.turns for step in turn.steps)


def content(step: FileStep) -> str:
    """What the file holds at this position."""
    filler = _LARGE_LINE * _LARGE_LINES if step.large else ""
    return f"# {step.path}\nstate = {step.position}\n{filler}"


def position_of(path: Path) -> int | None:
    """Where in its chain a file is: 0 when it isn't there, None for a content of no position."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return 0
    found = re.fullmatch(r"# \S+\nstate = (\d+)\n(?:x{99}\n)*", text)
    return int(found[1]) if found else None


def counted(project: Path) -> list[str]:
    """The lines of the counter: every command that ran, in order, with its attempt."""
    try:
        return (project / COUNTER).read_text(encoding="ascii").split()
    except FileNotFoundError:
        return []


# --- plans -----------------------------------------------------------------------------------


def forty_steps() -> Plan:
    """Edits and writes chained on three files, commands, reads, todos, a compaction in the middle."""
    positions: Counter[str] = Counter()
    turns = []
    for number, letters in enumerate(_FORTY.split(), start=1):
        steps = [
            _step(letter, f"{number}-{index}", positions) for index, letter in enumerate(letters)
        ]
        tokens = _OVER_THE_LIMIT if number == _COMPACTED_AFTER else _FEW_TOKENS
        turns.append(Turn(number, tuple(steps), tokens))
    return Plan(tuple(turns))


def _step(letter: str, tag: str, positions: Counter[str]) -> Step:
    if letter in _READS:
        return OtherStep(*_READS[letter])
    if letter in _COMMANDS:
        return CommandStep(tag, waits=letter == "w", background=letter == "b")
    path = _FILES[letter]
    positions[path] += 1
    return FileStep(path, positions[path], large=letter == "L")


def separate_files() -> Plan:
    """Each file is made, then changed once: a call that fails leaves all other files as planned."""
    turns = []
    for number in range(1, 21):
        path = f"file{(number + 1) // 2}.txt"
        turns.append(Turn(number, (FileStep(path, 2 - number % 2),)))
    return Plan(tuple(turns))


def one_command(seconds: float = 0.0) -> Plan:
    """A single command: the smallest session in which the race around its spawn can be seen."""
    return Plan((Turn(1, (CommandStep("1", seconds=seconds),)),))


# --- scripts ---------------------------------------------------------------------------------


def script(plan: Plan) -> str:
    """The plan as the script of a scripted model."""
    return _lines([_scripted(turn, f"step {turn.number}.", 0) for turn in plan.turns])


def script_to_look(answered: int) -> str:
    """For a resumed session with `answered` assistant messages: the model says a word and no more."""
    return _lines([*_taken(answered), {"text": "I see.", "usage": _usage(_FEW_TOKENS)}])


@dataclass(frozen=True, slots=True)
class Again:
    """The calls of one turn that did not happen, to be asked for again."""

    turn: Turn
    attempt: int


def script_to_go_on(plan: Plan, answered: int, reached: int, again: Again | None) -> str:
    """What a model would do that has read the verdicts: repeat what wasn't applied, then the rest."""
    turns = _taken(answered)
    if again is not None and again.turn.steps:
        number = again.turn.number
        turns.append(_scripted(again.turn, f"again {number}.{again.attempt}.", again.attempt))
    turns += [_scripted(turn, f"step {turn.number}.", 0) for turn in plan.turns[reached:]]
    return _lines(turns)


def turn_and_attempt(text: str) -> tuple[int, int] | None:
    """Which turn of the plan an assistant message is, and the how-manieth attempt at it."""
    found = _TURN.match(text)
    return (int(found[1]), int(found[2] or 0)) if found else None


def line_of(step: CommandStep, attempt: int) -> str:
    """What a command writes to the counter."""
    return f"{step.tag}.{attempt}"


def _taken(count: int) -> list[JsonObject]:
    return [{"text": "(taken)"}] * count


def _scripted(turn: Turn, text: str, attempt: int) -> JsonObject:
    # The provider's ids are `call_1`, … again in every turn, as some real ones have it.
    calls = [call_of(step, attempt) for step in turn.steps]
    return {"text": text, "tool_calls": calls, "usage": _usage(turn.input_tokens)}


def call_of(step: Step, attempt: int) -> JsonObject:
    """The tool call of a step, as a script has it."""
    if isinstance(step, OtherStep):
        return {"name": step.name, "arguments": json.loads(step.arguments)}
    if isinstance(step, CommandStep):
        wait = f"read -r _ < {GATE}; " if step.waits else ""
        pause = f"sleep {step.seconds}; " if step.seconds else ""
        command = f"{wait}{pause}echo {line_of(step, attempt)} >> {COUNTER}"
        how = {"run_in_background": True} if step.background else {}
        return {"name": "Bash", "arguments": {"command": command, **how}}
    # Every third change is a whole new content, the others replace what is there.
    if step.position % 3 == 1 or step.large:
        return {"name": "Write", "arguments": {"file_path": step.path, "content": content(step)}}
    edit = {
        "old_string": f"state = {step.position - 1}\n",
        "new_string": f"state = {step.position}\n",
    }
    return {"name": "Edit", "arguments": {"file_path": step.path, "edits": [edit]}}


def _usage(input_tokens: int) -> JsonObject:
    return {"input_tokens": input_tokens, "output_tokens": 10}


def _lines(turns: Sequence[JsonObject]) -> str:
    return "".join(json.dumps(turn) + "\n" for turn in turns)
