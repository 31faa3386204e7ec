"""The examples on loops that are written by hand on openai, anthropic and google-genai."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

pytest.importorskip("openai")

from google.genai import types
from openai import _base_client

from otelhooks.frameworks.anthropic import scripted as anthropic
from otelhooks.frameworks.google_genai import scripted as google_genai
from otelhooks.frameworks.openai import scripted as openai
from tests.examples.performance import Examples
from tests.examples.stage import Actor
from tests.frameworks.client_host import (
    OWN_ERROR,
    ChatHost,
    ClientHost,
    Said,
    Wanted,
    defined,
    script_of,
)


class OpenAI(ChatHost):
    """Chat completions."""

    framework = "openai"
    passes_errors = hasattr(_base_client, "httpx2")  # from 3.0
    differences = (*ChatHost.differences, *(() if passes_errors else (OWN_ERROR,)))

    @contextlib.asynccontextmanager
    async def connected(self, actor: Actor) -> AsyncIterator[Any]:
        async with openai.scripted_client(script_of(actor)) as client:
            yield client.with_options(max_retries=0)

    async def create(self, client: Any, **given: Any) -> Any:
        return await client.chat.completions.create(model="scripted", **given)


class Anthropic(ClientHost):
    """Messages."""

    framework = "anthropic"
    differences = (*ClientHost.differences, OWN_ERROR)

    @contextlib.asynccontextmanager
    async def connected(self, actor: Actor) -> AsyncIterator[Any]:
        async with anthropic.scripted_client(script_of(actor)) as client:
            yield client.with_options(max_retries=0)

    async def ask(self, client: Any, messages: list[Any], tools: Sequence[str]) -> Said:
        answer = await client.messages.create(
            model="scripted",
            max_tokens=100,
            messages=messages,
            tools=[defined(name, "input_schema") for name in tools],
        )
        text = "".join(block.text for block in answer.content if block.type == "text")
        calls = [
            Wanted(block.id, block.name, block.input)
            for block in answer.content
            if block.type == "tool_use"
        ]
        return Said({"role": "assistant", "content": answer.content}, text, calls)

    def user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def results(self, given: Sequence[tuple[Wanted, str]]) -> Sequence[Any]:
        blocks = [
            {"type": "tool_result", "tool_use_id": one.id, "content": text} for one, text in given
        ]
        return [{"role": "user", "content": blocks}]


class GoogleGenai(ClientHost):
    """Content."""

    framework = "google_genai"

    @contextlib.asynccontextmanager
    async def connected(self, actor: Actor) -> AsyncIterator[Any]:
        with google_genai.scripted_client(script_of(actor)) as client:
            yield client

    async def ask(self, client: Any, messages: list[Any], tools: Sequence[str]) -> Said:
        declared = [types.FunctionDeclaration(name=name) for name in tools]
        config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=declared)])
        answer = client.models.generate_content(model="scripted", contents=messages, config=config)
        calls = [Wanted("", call.name, call.args) for call in answer.function_calls or ()]
        return Said(answer.candidates[0].content, "" if calls else answer.text, calls)

    def user(self, text: str) -> Any:
        return types.Content(role="user", parts=[types.Part(text=text)])

    def results(self, given: Sequence[tuple[Wanted, str]]) -> Sequence[Any]:
        parts = [
            types.Part.from_function_response(name=one.name, response={"result": text})
            for one, text in given
        ]
        return [types.Content(role="user", parts=parts)]


class TestOpenAIExamples(Examples):
    host = OpenAI()


class TestAnthropicExamples(Examples):
    host = Anthropic()


class TestGoogleGenaiExamples(Examples):
    host = GoogleGenai()
