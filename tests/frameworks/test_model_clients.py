"""The real model clients, against a server on loopback: who asks decides, not who imported them.

A guarded framework's own requests are never told of or refused, sync, async, streamed and parallel;
those of a program's own loop are.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import otelhooks
from otelhooks import errors, policy
from otelhooks.setup.known import KNOWN
from otelhooks.setup.ungoverned import ungoverned

DENY = [policy.deny("run_command")]
CHAT = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
CHUNK = {
    **CHAT,
    "object": "chat.completion.chunk",
    "choices": [
        {"index": 0, "finish_reason": "stop", "delta": {"role": "assistant", "content": "Done."}}
    ],
}
MESSAGE = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Done."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
GENERATED = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Done."}]}}]}


class Server(ThreadingHTTPServer):
    """Answers every request for a model's answer, in the form that its path asks for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.paths.append(self.path)
        kind, body = "application/json", json.dumps(CHAT)
        if "messages" in self.path:
            body = json.dumps(MESSAGE)
        elif "generateContent" in self.path:
            body = json.dumps(GENERATED)
        elif asked.get("stream"):
            kind, body = "text/event-stream", f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")  # no client is left with an open transport
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def said(caplog, monkeypatch) -> Callable[[], list[str]]:
    monkeypatch.setattr(ungoverned, "_told", set())
    return lambda: [r.getMessage() for r in caplog.records if "calls a model" in r.getMessage()]


def strictly() -> None:
    """Refuse what is not governed, but for the frameworks that other tests have imported."""
    known = (each for each in KNOWN if each.requests is None)
    imported = (each.name for each in known if not sys.modules.keys().isdisjoint(each.modules))
    otelhooks.instrument(policies=DENY, strict=True, frameworks=dict.fromkeys(imported, "off"))


def groq_chat(url: str) -> Any:
    import groq

    with groq.Groq(base_url=url, api_key="k", max_retries=0) as client:
        return client.chat.completions.create(model="m", messages=[])


def is_installed(module: str) -> bool:
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.util.find_spec(module) is not None
    return False


def loops() -> list[Any]:
    every = (("groq", groq_chat),)
    return [
        pytest.param(
            module,
            ask,
            id=ask.__name__,
            marks=pytest.mark.skipif(not is_installed(module), reason=f"no {module}"),
        )
        for module, ask in every
    ]


@pytest.mark.parametrize(("module", "ask"), loops())
def test_a_loop_of_the_programs_own_is_told(server, said, module, ask):
    otelhooks.instrument(policies=DENY)
    ask(server.url)
    ask(server.url)
    [warning] = said()
    assert f"`{module}` calls a model outside any guarded agent" in warning
    assert len(server.paths) == 2


@pytest.mark.parametrize(("module", "ask"), loops())
def test_under_strict_its_request_is_not_sent(server, said, module, ask):
    strictly()
    with pytest.raises(errors.SeatError, match="is not guarded"):
        ask(server.url)
    assert server.paths == []


@pytest.mark.parametrize(("module", "ask"), loops())
def test_a_loop_that_is_decorated_is_guarded(server, said, module, ask):
    strictly()
    asks = otelhooks.model_call(model="m", provider="p")(lambda messages, url: ask(url))
    asks([], server.url)
    assert len(server.paths) == 1
    assert said() == []


@pytest.mark.skipif(not is_installed("agents"), reason="no openai-agents")
class TestOpenAIAgents:
    @pytest.fixture
    def agent(self, server) -> Any:
        strictly()
        import agents
        import openai

        agents.set_tracing_disabled(True)
        client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
        model = agents.OpenAIChatCompletionsModel("m", client)
        return agents.Agent("ops", model=model)

    def test_a_run_is_not_meant(self, agent, server, said):
        import agents

        async def run() -> Any:
            return await agents.Runner.run(agent, "Hello.")

        assert asyncio.run(run()).final_output == "Done."
        assert len(server.paths) == 1
        assert said() == []

    def test_a_streamed_run_is_not_meant(self, agent, server, said):
        import agents

        async def run() -> Any:
            streamed = agents.Runner.run_streamed(agent, "Hello.")
            async for _ in streamed.stream_events():
                pass
            return streamed

        assert asyncio.run(run()).final_output == "Done."
        assert len(server.paths) == 1
        assert said() == []


@pytest.mark.skipif(not is_installed("langchain_openai"), reason="no langchain-openai")
class TestLangchain:
    @pytest.fixture
    def chat(self, server) -> Any:
        strictly()
        import langchain_openai

        return langchain_openai.ChatOpenAI(
            model="m", base_url=f"{server.url}/v1", api_key="k", max_retries=0
        )

    @pytest.mark.parametrize("way", ["invoke", "stream", "batch", "ainvoke", "astream", "abatch"])
    def test_what_a_chat_model_sends_is_not_meant(self, chat, server, said, way):
        async def collect() -> Any:
            if way == "astream":
                return [chunk async for chunk in chat.astream("Hello.")]
            return await getattr(chat, way)(["Hello."] if way == "abatch" else "Hello.")

        if way.startswith("a"):
            asyncio.run(collect())
        elif way == "stream":
            list(chat.stream("Hello."))
        else:
            getattr(chat, way)(["Hello.", "Hello."] if way == "batch" else "Hello.")
        assert server.paths
        assert said() == []

    def test_what_an_agent_sends_is_not_meant(self, chat, server, said):
        from langchain.agents import create_agent

        create_agent(chat, []).invoke({"messages": [{"role": "user", "content": "Hello."}]})
        assert len(server.paths) == 1
        assert said() == []

    @pytest.mark.skipif(not is_installed("langchain_anthropic"), reason="no langchain-anthropic")
    def test_nor_is_what_another_client_sends(self, chat, server, said):
        import langchain_anthropic

        model = langchain_anthropic.ChatAnthropic(model="m", base_url=server.url, api_key="k")
        assert model.invoke("Hello.").text == "Done."
        assert said() == []
