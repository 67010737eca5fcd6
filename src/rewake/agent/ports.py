"""What the loop needs from a model and from a tool; everything concrete is handed in.

Data flow of one step: the view becomes a `ModelRequest`; the model's `Reply` becomes an assistant
message; each of its calls is `prepare`d (no effect yet: validation, intent, what to ask the user),
permitted, recorded as started, and only then `run`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from rewake.model.content import JsonObject, ResultBlock, Text, Thinking, ToolCall, Usage
from rewake.model.events import Intent, Outcome, OutputRead, Result, StopReason, Todo
from rewake.state.view import ViewMessage
from rewake.state.world import BackgroundCommand


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `turn` counts the assistant messages on the branch, compacted ones included.

    `max_output_tokens` of None leaves the limit to the provider. `agent` is the type of the sub-agent
    that asks, empty for the main one.
    """

    system: str
    messages: tuple[ViewMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    turn: int = 0
    max_output_tokens: int | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One assistant turn. `provider` is what the provider needs back verbatim, if anything."""

    content: tuple[Text | Thinking | ToolCall, ...]
    stop_reason: StopReason
    usage: Usage | None = None
    model: str = ""
    provider: JsonObject | None = None


class Model(Protocol):
    """A model."""

    @property
    def name(self) -> str:
        """What `--model` was given."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """Its window; None if that isn't known."""
        ...

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Answer; `on_text` gets each piece of text as it streams in.

        Raises ModelError (`retryable` for transient ones) and PromptTooLongError. Cancellable.
        """
        ...

    async def close(self) -> None:
        """Release connections; harmless when called twice."""
        ...


class BlobPort(Protocol):
    """The part of the blob store that tools and providers use."""

    def put(self, data: bytes) -> str:
        """Keep `data`; durable under its SHA-256 when this returns."""
        ...

    def get(self, sha256: str) -> bytes:
        """The bytes. Raises StorageError when they are missing or damaged."""
        ...


class ToolBlobs(BlobPort, Protocol):
    """The same for tools, which keep a file's content before and after together."""

    def put_all(self, contents: Iterable[bytes]) -> list[str]:
        """Keep several; all durable on return, and faster than one after the other."""
        ...


class Files(Protocol):
    """What the session knows of a file the model has read (from the fold, so it survives resume)."""

    def read_hash(self, path: str) -> str | None:
        """SHA-256 of the content the model last saw or wrote at this real path; None if never."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a tool works. All paths are absolute and resolved.

    `session_directory` holds `outputs/<call_id>/`; `secrets` are names of environment variables
    that no command may see, besides the providers' keys. Tools may touch what is in `project` or in
    one of the `extra_directories`, and read what is in a `readable_directories`; a tool that searches
    leaves out each file, as it is shown, that `forbids(tool name, file)` names. `commands` are those
    that were started in the background, by call id, and `output_read` says how far the model has read
    the output of one; `boot_id` is this boot's.
    """

    project: Path
    cwd: Path
    session_directory: Path
    blobs: ToolBlobs
    files: Files
    extra_directories: tuple[Path, ...] = ()
    readable_directories: tuple[Path, ...] = ()
    secrets: frozenset[str] = frozenset()
    todos: Callable[[], Sequence[Todo]] = tuple
    commands: Callable[[], Mapping[str, BackgroundCommand]] = dict
    output_read: Callable[[str], OutputRead | None] = lambda _command_id: None
    boot_id: str = ""
    forbids: Callable[[str, str], bool] = lambda _tool, _file: False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A validated call that hasn't happened: what it will do and what to ask the user about it.

    `subject` is matched by permission rules (`Bash(git status:*)` → the command; file tools → the
    path relative to the project). `preview` is a diff or the command, to be shown with the question.
    `serial_keys` names what it must not share with a call running at the same time (real paths).
    `is_for_all_projects`: what it changes has a say in other projects, too, so leave to edit this one
    is none for it. `call_id` and `arguments` are those of the call; whoever runs the calls fills them in.
    """

    intent: Intent
    subject: str
    summary: str
    preview: str = ""
    serial_keys: tuple[str, ...] = ()
    is_for_all_projects: bool = False
    data: object = None
    call_id: str = ""
    arguments: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a guard that refuses nothing asks of the permissions: not to ask the user, or to ask.

    Deny rules, plan mode and protected paths go before it.
    """

    decision: Literal["allow", "ask"]
    reason: str


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What the model is told, and what the call did."""

    content: tuple[ResultBlock, ...]
    is_error: bool = False
    outcome: Outcome = field(default_factory=Outcome)

    def result(self) -> Result:
        """The part that the model sees."""
        return Result(self.content, self.is_error)


class ToolInputError(Exception):
    """The arguments can't be used; the text tells the model how to call the tool properly."""


class Tool(Protocol):
    """A tool of the agent. `read_only` tools have no effect and may run in parallel.

    Starting a sub-agent has no effect of its own: what that does is permitted call by call.
    """

    spec: ToolSpec
    read_only: bool

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:
        """Check the arguments and say what would be done, without doing it.

        Blobs that the intent names are durable when this returns. Raises ToolInputError.
        `call_id` is the event id of the `requested` line: unique, safe as a file name.
        """
        ...

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        """Do it. Called only after the intent is durable; a failure that changed nothing returns
        an error output; an exception leaves the call to be settled by evidence.
        """
        ...


class Attendant(Protocol):
    """Works beside the loop, between its requests: recalls notes, brings news of what ran meanwhile.

    It records what it has to say as messages of the session, before the request that shall have it.
    What it raises ends the run as if the loop had raised it.
    """

    async def on_prompt(self, prompt: str | None) -> None:
        """A run begins; the prompt is recorded. None: it goes on with what is there."""
        ...

    async def before_request(self) -> None:
        """A request is about to be made from the session's view; again if it is compacted first."""
        ...


Ending = Callable[[str], Awaitable[None]]
"""Called with the reason when a session is about to be closed, while facts can still be recorded."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What is missing, where sending the model back would not help: the run ends and says so."""

    reason: str


@dataclass(frozen=True, slots=True)
class News:
    """What has come in while the model worked: it hears of it and goes on, however often that was so."""

    text: str


class Gate(Protocol):
    """Stands between the last answer and the end of a run."""

    async def holds_back(self) -> str | News | Unfinished | None:
        """What is still to be done, told to the model, which then goes on; None lets it end.

        Asked once more after the model was sent back for the last time: what it says then is what
        the run ends with.
        """
        ...


class Guard(Protocol):
    """Stands around each call: may refuse it before, and add to what the model is told after."""

    async def before(self, tool: Tool, prepared: Prepared) -> str | Ruling | None:
        """Why the call must not run, told to the model; else it goes on to the permissions.

        Of several rulings one that asks counts.
        """
        ...

    async def after(self, tool: Tool, prepared: Prepared, output: ToolOutput) -> ToolOutput:
        """What is recorded of the call and told to the model."""
        ...
