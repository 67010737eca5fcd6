"""What a command sees of the agent's environment: everything but the keys of model providers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# Only model providers: a command may well need the user's GITHUB_TOKEN or AWS credentials.
_PROVIDER_KEY: Final = re.compile(
    r"(?:ANTHROPIC|OPENAI|AZURE_OPENAI|GOOGLE|GEMINI|VERTEX|MISTRAL|GROQ|GROK|XAI|COHERE|CO|DEEPSEEK"
    r"|OPENROUTER|TOGETHER|FIREWORKS|PERPLEXITY|CEREBRAS|HF|HUGGINGFACE|HUGGING_FACE|REPLICATE|NVIDIA"
    r"|VOYAGE|MOONSHOTAI|MOONSHOT|DASHSCOPE|ZHIPU|ZAI|OLLAMA|SAMBANOVA|HYPERBOLIC|CLAUDE|CODEX|OVHCLOUD"
    r"|ALIBABA|HEROKU|LITELLM|PYDANTIC_AI_GATEWAY|NEBIUS|VERCEL|AI_GATEWAY|CHUTES|MINIMAX|BASETEN)"
    r"_(?:\w+_)?(?:API_KEY|API_TOKEN|TOKEN|AUTH_TOKEN|OAUTH_TOKEN|HUB_TOKEN|INFERENCE_KEY|KEY)"
    r"|AWS_BEARER_TOKEN_BEDROCK|BEDROCK_API_KEY",
    re.IGNORECASE,
)


def for_command(
    environment: Mapping[str, str], secrets: frozenset[str], cwd: str
) -> dict[str, str]:
    """The environment without provider keys and `secrets` (names of variables)."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in secrets and _PROVIDER_KEY.fullmatch(name) is None
    }
    kept["PWD"] = cwd
    return kept
