"""Which model to use: the one that was named, or the best that is at hand.

The rule kept here: a choice is never silent. Each comes with the sentence that says what was chosen
and why, and a name that can't be used ends in an error that says what can.

Order without a name: settings, a key in the environment, a local OpenAI-compatible endpoint, the
embedded model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rewake.agent.ports import BlobPort, Model
from rewake.errors import UsageError

# The model used when only a key is known: the provider's current general model for coding.
DEFAULT_MODELS: Final[Mapping[str, str]] = {
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-5-5",
    "OPENAI_API_KEY": "openai:gpt-6.1-sol",
}
_OLLAMA_ADDRESS: Final = "127.0.0.1:11434"
_OLLAMA_PORT: Final = 11434
# A local server answers in a few milliseconds; more would be felt at every start without one.
_PROBE_TIMEOUT_S: Final = 0.15
_OK: Final = 200
NAMES_HELP: Final = (
    "Give --model as provider:name (anthropic:…, openai:…), local: for the embedded model, "
    "local:/path/to/model.gguf, or script:FILE."
)


def open_model(
    name: str | None,
    *,
    environ: Mapping[str, str],
    settings_model: str | None,
    blobs: BlobPort,
    cwd: Path,
) -> tuple[Model, str]:
    """The model to use, and one sentence that says which it is and why.

    Nothing is sent to a paid service here; without a name a local endpoint may be asked for its
    models (at most 150 ms). Relative paths in a name are relative to `cwd`. Raises UsageError for a
    name that means nothing and ModelError for one that can't be used here, each with a remedy.
    """
    if name:
        return _named(name, "as asked for", environ=environ, blobs=blobs, cwd=cwd)
    if settings_model:
        return _named(settings_model, "from the settings", environ=environ, blobs=blobs, cwd=cwd)
    for key, default in DEFAULT_MODELS.items():
        if environ.get(key) and not (key == "OPENAI_API_KEY" and environ.get("OPENAI_BASE_URL")):
            return _named(default, f"{key} is set", environ=environ, blobs=blobs, cwd=cwd)
    return _at_hand(environ, blobs, cwd)


def may_come_with_a_project(name: str, usual: str) -> bool:
    """Whether a file that comes with a project may put this model in the place of the `usual` one.

    Only another one of the same provider: what is said goes to nobody whom the user didn't choose, and
    no script or model file that came along with the project answers in a model's place.
    """
    provider = name.partition(":")[0]
    return provider == usual.partition(":")[0] and provider not in {"script", "local"}


def _named(
    name: str, why: str, *, environ: Mapping[str, str], blobs: BlobPort, cwd: Path
) -> tuple[Model, str]:
    kind, colon, rest = name.partition(":")
    if not colon:
        raise UsageError(f"{name!r} is no model.", remedy=NAMES_HELP)
    match kind:
        case "script":
            from rewake.agent.providers.script import ScriptModel

            return ScriptModel(cwd / rest), f"Model: {name} ({why})."
        case "local":
            from rewake.agent.providers.local import LocalModel

            local = LocalModel(cwd / rest if rest else None)
            return local, f"Model: {name} ({why}). {local.about}"
        case _:
            from rewake.agent.providers.pydantic_ai_model import PydanticAiModel

            return PydanticAiModel.named(name, environ, blobs), f"Model: {name} ({why})."


def _at_hand(environ: Mapping[str, str], blobs: BlobPort, cwd: Path) -> tuple[Model, str]:
    """A local endpoint that answers, else the embedded model."""
    silent = ""
    for url, variable in _endpoints(environ):
        model = _first_model(url, environ.get("OPENAI_API_KEY"))
        if model is not None:
            from rewake.agent.providers.pydantic_ai_model import PydanticAiModel

            opened = PydanticAiModel.at_endpoint(model, url, environ, blobs)
            return opened, f"Model: {opened.name} (an OpenAI-compatible server answers at {url})."
        if variable:
            silent = f"; {variable} is set, but nothing answers at {url}"
    why = f"no key in the environment and no local server{silent}"
    return _named("local:", why, environ=environ, blobs=blobs, cwd=cwd)


def _endpoints(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Base URLs worth asking, each with the variable that names it (empty for the well-known one)."""
    found = []
    if base := environ.get("OPENAI_BASE_URL"):
        found.append((base.rstrip("/"), "OPENAI_BASE_URL"))
    if host := environ.get("OLLAMA_HOST"):
        found.append((f"{_ollama_url(host)}/v1", "OLLAMA_HOST"))
    else:
        found.append((f"http://{_OLLAMA_ADDRESS}/v1", ""))
    return found


def _ollama_url(host: str) -> str:
    """`OLLAMA_HOST` may be a host, host:port or URL; 0.0.0.0 is where it listens, not where it is."""
    parts = urlsplit(host if "://" in host else f"http://{host}")
    name = parts.hostname or "127.0.0.1"
    name = "127.0.0.1" if name == "0.0.0.0" else name  # noqa: S104 - compared, not listened on
    name = f"[{name}]" if ":" in name else name
    default = 443 if parts.scheme == "https" else _OLLAMA_PORT
    return f"{parts.scheme}://{name}:{parts.port or default}"


def _first_model(base_url: str, key: str | None) -> str | None:
    """The first model that can chat at an OpenAI-compatible endpoint; None when nothing answers."""
    import http.client
    import json

    parts = urlsplit(base_url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    if not parts.hostname:
        return None
    connection = connect(parts.hostname, parts.port, timeout=_PROBE_TIMEOUT_S)
    try:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        connection.request("GET", f"{parts.path}/models", headers=headers)
        response = connection.getresponse()
        if response.status != _OK:
            return None
        listing = json.loads(response.read())
        names = [str(item["id"]) for item in listing["data"]]
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        # Whatever answers there is no such server; the sentence to the user says so.
        return None
    finally:
        connection.close()
    return next((name for name in names if "embed" not in name), None)
