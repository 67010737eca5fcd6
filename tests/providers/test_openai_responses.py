"""OpenAI itself is spoken to over its Responses API; here a transport stands in for the service."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import httpx2
import msgspec
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from rewake.agent.ports import ModelRequest, Reply
from rewake.agent.providers.pydantic_ai_model import PydanticAiModel
from rewake.agent.providers.wire import HIDDEN_REASONING
from rewake.model.content import Text, Thinking, ToolCall, ToolResult
from rewake.state.view import ViewMessage


def events(number: int) -> bytes:
    """An answer with encrypted reasoning, a text and a call, as the service streams it."""
    reasoning = {
        "type": "reasoning",
        "id": f"rs_{number}",
        "summary": [],
        "encrypted_content": f"secret {number}",
        "status": "completed",
    }
    text = {"type": "output_text", "text": f"hello {number}", "annotations": []}
    message = {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    call = {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": "call_1",
        "name": "Read",
        "arguments": '{"p":1}',
        "status": "completed",
    }
    response: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": "gpt-6.1-sol",
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 3},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 14,
    }
    place = {"item_id": message["id"], "output_index": 1, "content_index": 0}
    stream: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": reasoning},
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**message, "content": []},
        },
        {"type": "response.content_part.added", **place, "part": {**text, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": text["text"], "logprobs": []},
        {"type": "response.output_item.done", "output_index": 1, "item": message},
        {
            "type": "response.output_item.added",
            "output_index": 2,
            "item": {**call, "arguments": ""},
        },
        {"type": "response.output_item.done", "output_index": 2, "item": call},
        {
            "type": "response.completed",
            "response": {
                **response,
                "status": "completed",
                "output": [reasoning, message, call],
                "usage": usage,
            },
        },
    ]
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': place})}\n\n".encode()
        for place, event in enumerate(stream)
    )


class NoBlobs:
    def put(self, data: bytes) -> str:
        raise AssertionError

    def get(self, sha256: str) -> bytes:
        raise AssertionError


async def converse(steps: int) -> tuple[list[dict[str, Any]], list[Reply]]:
    sent: list[dict[str, Any]] = []

    def serve(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, content=events(len(sent)))

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(serve)) as client:
        provider = OpenAIProvider(api_key="k", http_client=client)
        inner = OpenAIResponsesModel("gpt-6.1-sol", provider=provider)
        model = PydanticAiModel("openai:gpt-6.1-sol", inner, NoBlobs())
        messages = [ViewMessage("m", "user", (Text("hi"),))]
        replies = []
        for step in range(steps):
            request = ModelRequest("be good", tuple(messages))
            replies.append(await model.request(request, lambda _text: None))
            reply = msgspec.convert(msgspec.to_builtins(replies[-1]), Reply)
            content = tuple(
                ToolCall(f"c{step}", block.name, block.arguments)
                if isinstance(block, ToolCall)
                else block
                for block in reply.content
            )
            result = ToolResult(f"c{step}", (Text("bad"),), is_error=step % 2 == 0)
            messages += [
                ViewMessage(f"a{step}", "assistant", content, reply.model, reply.provider),
                ViewMessage(f"r{step}", "tool", (result,)),
            ]
            if step % 3 == 0:
                messages.append(ViewMessage(f"u{step}", "user", (Text("go on"),)))
        await model.close()
    return sent, replies


def test_encrypted_reasoning_is_kept_without_text_and_goes_back_as_it_came() -> None:
    sent, replies = asyncio.run(converse(2))
    thinking = replies[0].content[0]
    assert isinstance(thinking, Thinking)
    assert (thinking.text, thinking.signature) == (HIDDEN_REASONING, "secret 1")
    back = [item for item in sent[1]["input"] if item.get("type") == "reasoning"]
    assert back == [
        {"id": "rs_1", "summary": [], "encrypted_content": "secret 1", "type": "reasoning"}
    ]
    assert [item.get("call_id") for item in sent[1]["input"] if "call_id" in item] == ["c0", "c0"]


def test_each_requests_input_is_a_prefix_of_the_next_ones() -> None:
    sent, _ = asyncio.run(converse(8))
    inputs = [json.dumps(body["input"]) for body in sent]
    for earlier, later in itertools.pairwise(inputs):
        assert later.startswith(earlier.removesuffix("]") + ",")
