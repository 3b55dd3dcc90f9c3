"""The providers' own SDKs, pointed at a gateway, and one question for each."""

from typing import Any

import anthropic
import openai
from gateway_stack import Agent, Stack

MODEL = "gpt-4o-mini"
CLAUDE = "claude-test"
MESSAGES: Any = [{"role": "user", "content": "Tell me a story about an ibex, please."}]


def openai_at(
    stack: Stack, agent: Agent, upstream: str = "openai", **options: Any
) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{stack.url}/{upstream}/v1", api_key=agent.key, **options)


def anthropic_at(stack: Stack, agent: Agent, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=f"{stack.url}/anthropic", api_key=agent.key, **options)


def chat(client: openai.OpenAI) -> int:
    """Ask once; returns the tokens that the provider has reported to the client itself."""
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert answer.choices[0].message.content
    assert answer.usage
    return answer.usage.total_tokens


def messages(client: anthropic.Anthropic) -> int:
    """The same of Anthropic."""
    answer = client.messages.create(model=CLAUDE, max_tokens=200, messages=MESSAGES)
    assert answer.content[0].type == "text"
    return answer.usage.input_tokens + answer.usage.output_tokens
