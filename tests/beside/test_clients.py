"""Loops on a client that another tracer wraps, before or after `otelhooks.instrument()`."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
from typing import Any

import pytest

pytest.importorskip("openinference.instrumentation.openai", reason="needs the lock of clients")
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its import fetches a file otherwise
import anthropic
import litellm
import openai
from google import genai
from google.genai import types

import otelhooks
from tests.frameworks.loops import DANGER, DENY, SAFE
from tests.frameworks.model_double import Double, served

pytestmark = [
    pytest.mark.timeout(120),
    *(
        pytest.mark.filterwarnings(f"ignore::{kind}")  # of the tracers, and of LiteLLM
        for kind in (
            *("DeprecationWarning", "UserWarning", "ResourceWarning"),
            "pytest.PytestUnraisableExceptionWarning",
        )
    ),
]
SAID: Any = [{"role": "user", "content": "begin"}]
NAMED = [{"name": name, "parameters": {"type": "object"}} for name in ("danger", "safe")]
TOOLS: Any = [{"type": "function", "function": one} for one in NAMED]


def openai_chat(model: Double) -> str:
    with openai.OpenAI(base_url=f"{model.url}/v1", api_key="k", max_retries=0) as client:
        found = client.chat.completions.create(model="small", messages=SAID, tools=TOOLS)
        return found.to_json()


def openai_async_stream(model: Double) -> str:
    async def ask() -> str:
        place: Any = {"base_url": f"{model.url}/v1", "api_key": "k", "max_retries": 0}
        async with openai.AsyncOpenAI(**place) as client:
            create = client.chat.completions.create
            stream = await create(model="small", messages=SAID, tools=TOOLS, stream=True)
            return "".join([chunk.to_json() async for chunk in stream])

    return asyncio.run(ask())


def openai_responses(model: Double) -> str:
    with openai.OpenAI(base_url=f"{model.url}/v1", api_key="k", max_retries=0) as client:
        tools: Any = [{"type": "function", **one} for one in NAMED]
        return client.responses.create(model="small", input="begin", tools=tools).to_json()


MESSAGE: Any = {"model": "small", "max_tokens": 9, "messages": SAID}
MESSAGE["tools"] = [{"name": one["name"], "input_schema": one["parameters"]} for one in NAMED]


def anthropic_messages(model: Double) -> str:
    with anthropic.Anthropic(base_url=model.url, api_key="k", max_retries=0) as client:
        return client.messages.create(**MESSAGE).to_json()


def anthropic_stream(model: Double) -> str:
    client = anthropic.Anthropic(base_url=model.url, api_key="k", max_retries=0)
    with client, client.messages.stream(**MESSAGE) as stream:
        return "".join(event.to_json() for event in stream)


def google_content(model: Double) -> str:
    options: Any = types.HttpOptions(base_url=model.url)
    with genai.Client(api_key="k", http_options=options) as client:
        return client.models.generate_content(model="small", contents="begin").model_dump_json()


def litellm_completion(model: Double) -> str:
    place = {"api_base": f"{model.url}/v1", "api_key": "k"}
    found: Any = litellm.completion("openai/small", SAID, tools=TOOLS, **place)
    return found.to_json()


def litellm_async(model: Double) -> str:
    place = {"api_base": model.url, "api_key": "k"}
    asked: Any = litellm.acompletion(model="anthropic/claude", messages=SAID, tools=TOOLS, **place)
    return asyncio.run(asked).to_json()


OPENAI = (openai_chat, openai_async_stream, openai_responses)
ANTHROPIC, LITELLM = (anthropic_messages, anthropic_stream), (litellm_completion, litellm_async)
PEERS = {
    "openinference.instrumentation.openai:OpenAIInstrumentor": OPENAI,
    "opentelemetry.instrumentation.openai:OpenAIInstrumentor": OPENAI,
    "opentelemetry.instrumentation.genai.openai:OpenAIInstrumentor": OPENAI,
    "openinference.instrumentation.anthropic:AnthropicInstrumentor": ANTHROPIC,
    "opentelemetry.instrumentation.anthropic:AnthropicInstrumentor": ANTHROPIC,
    "opentelemetry.instrumentation.genai.anthropic:AnthropicInstrumentor": ANTHROPIC,
    "openinference.instrumentation.google_genai:GoogleGenAIInstrumentor": (google_content,),
    "opentelemetry.instrumentation.google_genai:GoogleGenAiSdkInstrumentor": (google_content,),
    "opentelemetry.instrumentation.google_generativeai:GoogleGenerativeAiInstrumentor": (
        google_content,
    ),
    "openinference.instrumentation.litellm:LiteLLMInstrumentor": LITELLM,
}
LOOPS = [(peer, ask) for peer, loops in PEERS.items() for ask in loops]


@pytest.fixture(scope="module", autouse=True)
def _collected():
    """Have what LiteLLM leaves open collected while the warnings about it are ignored."""
    yield
    asyncio.set_event_loop(None)
    gc.collect()


@pytest.fixture
def model():
    with served() as double:
        yield double


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize(("peer", "ask"), LOOPS, ids=lambda one: getattr(one, "__name__", None))
def test_what_another_tracer_wraps_is_judged_once(peer, ask, order, model, providers, exporter):
    module, _, name = peer.partition(":")
    instrumentor = getattr(importlib.import_module(module), name)()
    model.steps = [[DANGER, SAFE]]
    if order == "after":
        otelhooks.instrument(policies=DENY, **providers)
    instrumentor.instrument()
    try:
        if order == "before":
            otelhooks.instrument(policies=DENY, **providers)
        shown = ask(model)
    finally:
        otelhooks.uninstrument()
        instrumentor.uninstrument()
    assert "danger" not in shown
    assert "safe" in shown
    judged = [s.name for s in exporter.get_finished_spans() if s.name.startswith("execute_tool")]
    assert judged == ["execute_tool danger"]
