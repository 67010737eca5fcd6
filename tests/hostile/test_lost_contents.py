"""An image or a file whose blob is gone or can't be named: the request says so, and is made."""

from __future__ import annotations

from pathlib import Path

import pytest

import rewake
from rewake.model.content import ContentBlock
from rewake.testing.provider_rules import violations_anthropic, violations_openai

LOST = "0" * 64


def blocks(sha256: str) -> list[ContentBlock]:
    image = rewake.Image("image/png", sha256, 9)
    return [rewake.Text("look"), image, rewake.File("a.pdf", "application/pdf", sha256, 9)]


@pytest.mark.parametrize("sha256", [LOST, "../../etc/passwd"])
def test_lost_contents_cost_themselves_in_both_protocols(
    sha256: str, home: Path, project: Path
) -> None:
    with rewake.open_session(project, home=home, trace=False) as session:
        session.user(blocks(sha256))
        read = session.blobs.get
        openai = {"model": "m", "messages": rewake.openai_messages(session.view(), read)}
        anthropic = {
            "model": "m",
            "max_tokens": 1,
            "messages": rewake.anthropic_messages(session.view(), read),
        }
    assert violations_openai(openai) + violations_anthropic(anthropic) == []
    assert "look" in str(openai)
    assert "image/png, 9 bytes" in str(openai)
    assert "image/png, 9 bytes" in str(anthropic)


@pytest.mark.parametrize("sha256", [LOST, "../../etc/passwd"])
def test_lost_contents_cost_themselves_in_the_agents_requests(
    sha256: str, home: Path, project: Path
) -> None:
    from pydantic_ai.models.test import TestModel

    from rewake.agent.providers.wire import wire_messages

    with rewake.open_session(project, home=home, trace=False) as session:
        session.user(blocks(sha256))
        made = str(wire_messages(session.view(), TestModel(), session.blobs))
    assert "look" in made
    assert "The content of this image is lost" in made
    assert "The content of this file a.pdf is lost" in made
