"""Any model that pydantic-ai speaks to, one streamed request at a time through its `direct` API.

The rule kept here: each message of the view becomes the same bytes in every request, alone and in
place (see `wire_messages`), so request n's messages are a byte prefix of request n+1's and the
provider's prompt cache holds. Retries are the loop's: the client library makes one attempt.

Import this module only to open such a model: pydantic-ai takes seconds to import.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from pydantic_ai import direct
from pydantic_ai import messages as pa
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.models import Model as PaModel
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers import Provider, infer_provider
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from rewake.agent.ports import BlobPort, ModelRequest, Reply, ToolSpec
from rewake.agent.providers.choose import NAMES_HELP
from rewake.agent.providers.wire import reply_of, wire_messages
from rewake.errors import ModelError, PromptTooLongError, UsageError

_REQUEST_TOO_LARGE: Final = 413
_RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429})
_SERVER_ERRORS: Final = 500
# How servers that send no code for it word an overflow of the context.
_TOO_LONG_WORDS: Final = (
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "too many tokens",
    "exceed_context_size",
)
# In what the library says of a missing key, which otherwise advertises its own ways out.
_KEY_VARIABLE: Final = re.compile(r"`([A-Z0-9_]+)` environment variable")
_OPENAI_URL: Final = "https://api.openai.com"


class PydanticAiModel:
    """One model. Not for several event loops at once; `close` before its loop ends."""

    def __init__(
        self, name: str, model: PaModel, blobs: BlobPort, *, marks_cache: bool = True
    ) -> None:
        self.name = name
        self.context_tokens: int | None = model.profile.get("context_window")
        self._model = model
        self._blobs = blobs
        self._marks_cache = marks_cache
        self._entered = False

    @classmethod
    def named(cls, name: str, environ: Mapping[str, str], blobs: BlobPort) -> Self:
        """A `provider:name` model with keys and base URLs from `environ`.

        `openai:` speaks chat completions when `OPENAI_BASE_URL` points elsewhere than to OpenAI,
        since that is what other servers speak. Raises UsageError for an unknown name, ModelError
        when the key or the provider's library is missing.
        """
        kind, _, model_name = name.partition(":")
        base_url = environ.get("OPENAI_BASE_URL", "")
        if kind == "openai" and base_url and not base_url.startswith(_OPENAI_URL):
            return cls.at_endpoint(model_name, base_url, environ, blobs)
        try:
            model = infer_model(name, lambda provider: _provider(provider, environ))
        except ImportError as error:
            raise ModelError(
                f"The library for {name} is not installed.",
                remedy=f'Run: pip install "pydantic-ai-slim[{kind}]".',
            ) from error
        except UserError as error:
            wanted = _KEY_VARIABLE.search(str(error))
            if wanted is not None:
                raise ModelError(
                    f"There is no key for {name}.",
                    remedy=f"Set {wanted[1]} in the environment, or use another --model.",
                ) from error
            raise UsageError(f"{name} is no known model: {error}.", remedy=NAMES_HELP) from error
        except ValueError as error:
            raise UsageError(f"{name} is no known model: {error}.", remedy=NAMES_HELP) from error
        return cls(name, model, blobs)

    @classmethod
    def at_endpoint(
        cls, model_name: str, base_url: str, environ: Mapping[str, str], blobs: BlobPort
    ) -> Self:
        """A model of an OpenAI-compatible server, over chat completions. A key is optional."""
        provider = OpenAIProvider(
            base_url=base_url, api_key=environ.get("OPENAI_API_KEY") or "not-needed"
        )
        model = OpenAIChatModel(model_name, provider=provider)
        # Other servers of the protocol may refuse OpenAI's own fields.
        return cls(f"openai:{model_name}", model, blobs, marks_cache=False)

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        if not self._entered:
            await self._model.__aenter__()
            self._entered = True
        messages = wire_messages(request.messages, self._model, self._blobs)
        try:
            response = await self._stream(messages, request, on_text)
        except (ModelAPIError, UnexpectedModelBehavior, UserError) as error:
            raise model_error(self.name, error) from error
        return reply_of(response)

    async def _stream(
        self,
        messages: list[pa.ModelMessage],
        request: ModelRequest,
        on_text: Callable[[str], None],
    ) -> pa.ModelResponse:
        parameters = ModelRequestParameters(
            function_tools=[_definition(spec) for spec in request.tools],
            instruction_parts=[pa.InstructionPart(content=request.system)]
            if request.system
            else None,
        )
        # `cache` marks tools and system prompt where a provider wants marks; messages stay unmarked.
        settings = ModelSettings(max_retries=0, cache=self._marks_cache)
        if request.max_output_tokens is not None:
            settings["max_tokens"] = request.max_output_tokens
        async with direct.model_request_stream(
            self._model,
            messages,
            model_settings=settings,
            model_request_parameters=parameters,
            instrument=False,
        ) as stream:
            async for event in stream:
                text = _text_of(event)
                if text:
                    on_text(text)
            return stream.get()

    async def close(self) -> None:
        """Close the HTTP client; harmless when called twice."""
        if self._entered:
            self._entered = False
            await self._model.__aexit__(None, None, None)


def model_error(name: str, error: Exception) -> ModelError:
    """What a failure of a request means for the loop: compact, retry, or give up with a remedy."""
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    detail = _detail(error)
    message = f"{name} failed" + (f" with status {status}" if status else "") + f": {detail}"
    if _is_too_long(error, status, detail):
        return PromptTooLongError(message, status=status)
    if isinstance(error, ModelQuotaExceededError):
        return ModelError(message, status=status, remedy="Check the account's quota and billing.")
    if isinstance(error, ModelAuthenticationError):
        return ModelError(message, status=status, remedy="Check the key in the environment.")
    if isinstance(error, ModelNotFoundError):
        return ModelError(message, status=status, remedy="Check the name after --model.")
    return ModelError(
        message,
        status=status,
        retryable=_is_retryable(error, status),
        retry_after_s=error.retry_after if isinstance(error, ModelHTTPError) else None,
    )


def _is_retryable(error: Exception, status: int | None) -> bool:
    if isinstance(error, ModelHTTPError):
        if error.provider_retry_hint is not None:
            return error.provider_retry_hint
        return status in _RETRYABLE_STATUSES or error.status_code >= _SERVER_ERRORS
    transient = (
        ModelConnectionError,
        ModelRateLimitError,
        ModelServerError,
        ModelUnavailableError,
        UnexpectedModelBehavior,  # an answer that couldn't be decoded; asking again may do
    )
    return isinstance(error, transient)


def _is_too_long(error: Exception, status: int | None, detail: str) -> bool:
    if isinstance(error, ModelContextWindowExceededError) or status == _REQUEST_TOO_LARGE:
        return True
    refused = status is not None and status < _SERVER_ERRORS and status not in _RETRYABLE_STATUSES
    return refused and any(words in detail.lower() for words in _TOO_LONG_WORDS)


def _detail(error: Exception) -> str:
    """The provider's own words, without the rest of the response."""
    body = error.body if isinstance(error, ModelAPIError) else None
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            return str(inner["message"])
    return str(error)


def _text_of(event: object) -> str:
    if isinstance(event, pa.PartStartEvent) and isinstance(event.part, pa.TextPart):
        return event.part.content
    if isinstance(event, pa.PartDeltaEvent) and isinstance(event.delta, pa.TextPartDelta):
        return event.delta.content_delta
    return ""


def _definition(spec: ToolSpec) -> ToolDefinition:
    return ToolDefinition(
        name=spec.name, description=spec.description, parameters_json_schema=spec.parameters
    )


def _provider(name: str, environ: Mapping[str, str]) -> Provider[Any]:
    """Providers whose key and URL Rewake reads itself; the others read the process's environment."""
    if name in ("openai", "openai-chat", "openai-responses"):
        return OpenAIProvider(
            base_url=environ.get("OPENAI_BASE_URL"), api_key=environ.get("OPENAI_API_KEY")
        )
    if name == "anthropic":
        return AnthropicProvider(
            base_url=environ.get("ANTHROPIC_BASE_URL"), api_key=environ.get("ANTHROPIC_API_KEY")
        )
    return infer_provider(name)
