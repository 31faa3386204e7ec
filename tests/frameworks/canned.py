"""Raw model clients whose requests are answered in this process: what one request costs.

Each client of `CLIENTS` is asked with `create` and `stream`, with real classes over a transport of
ours, so that nothing else is counted or measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.frameworks.model_double import Step, spoken

__all__ = ["CALLS", "CLIENTS", "TEXT", "Client", "Wire"]

TEXT = "word" * 20
"""What a model says in some twenty events of a stream."""
CALLS = [(f"call_{n}", "search", {"query": "word" * 8}) for n in range(2)]
"""Two calls that take as many, but of Gemini, which sends each in one."""

_SAID: Any = [{"role": "user", "content": "begin"}]
_NAMED = {"name": "search", "parameters": {"type": "object"}}
_TOOLS: Any = [{"type": "function", "function": _NAMED}]


class Wire:
    """What is behind a client's HTTP library.

    Args:
        step: What the model says, always.
        pause_s: Time before each event of a stream.

    Attributes:
        sent: How much the client has taken of the last answer: events of a stream.
    """

    def __init__(self, step: Step, pause_s: float = 0.0) -> None:
        self.sent = 0
        self._step, self._pause_s = step, pause_s
        self._spoken: dict[tuple[str, bytes], tuple[str, list[str]]] = {}

    def transport(self, of: type) -> Any:
        """Return a transport for the HTTP library that a class is from: httpx or httpx2."""
        modules = (each.__module__.partition(".")[0] for each in of.__mro__)
        http = sys.modules[next(name for name in modules if name in ("httpx", "httpx2"))]

        def answer(request: Any) -> Any:
            asked = request.url.path, request.content
            if asked not in self._spoken:
                self._spoken[asked] = spoken(asked[0], json.loads(asked[1]), self._step, 1)
            kind, pieces = self._spoken[asked]
            headers = {"content-type": kind}
            return http.Response(200, headers=headers, content=self._taken(pieces))

        return http.MockTransport(answer)

    def _taken(self, pieces: list[str]) -> Iterator[bytes]:
        for self.sent, piece in enumerate(pieces, start=1):
            time.sleep(self._pause_s)
            yield piece.encode()


class Client(NamedTuple):
    """A client's two ways to ask.

    Attributes:
        create: Asks once, with further messages before the last; returns the answer.
        stream: Asks once; yields for each chunk what it shows: ``text``, ``call`` or nothing.
    """

    create: Callable[..., Any]
    stream: Callable[[], Iterator[str]]


def _openai_client(wire: Wire) -> Any:
    import openai
    from openai import DefaultHttpxClient

    http = DefaultHttpxClient(transport=wire.transport(DefaultHttpxClient))
    return openai.OpenAI(base_url="http://model/v1", api_key="k", max_retries=0, http_client=http)


def _shown(choices: Any) -> str:
    delta = choices[0].delta if choices else None
    return "call" if getattr(delta, "tool_calls", None) else "text" * bool(delta and delta.content)


def _openai(wire: Wire) -> Client:
    create = _openai_client(wire).chat.completions.create

    def ask(*before: Any, **given: Any) -> Any:
        return create(model="small", messages=[*before, *_SAID], tools=_TOOLS, **given)

    return Client(ask, lambda: (_shown(chunk.choices) for chunk in ask(stream=True)))


def _litellm(wire: Wire) -> Client:
    import litellm

    given: Any = {"client": _openai_client(wire), "api_key": "k", "num_retries": 0}

    def ask(*before: Any, **further: Any) -> Any:
        messages = [*before, *_SAID]
        return litellm.completion("openai/small", messages, tools=_TOOLS, **given, **further)

    return Client(ask, lambda: (_shown(chunk.choices) for chunk in ask(stream=True)))


def _anthropic(wire: Wire) -> Client:
    import anthropic
    from anthropic import DefaultHttpxClient

    http = DefaultHttpxClient(transport=wire.transport(DefaultHttpxClient))
    client = anthropic.Anthropic(
        base_url="http://model", api_key="k", max_retries=0, http_client=http
    )
    tools: Any = [{"name": "search", "input_schema": {"type": "object"}}]

    def ask(*before: Any, **given: Any) -> Any:
        said = {"messages": [*before, *_SAID], "tools": tools}
        return client.messages.create(model="small", max_tokens=99, **said, **given)

    def shown(event: Any) -> str:
        kind = getattr(getattr(event, "delta", None), "type", "")
        return {"text_delta": "text", "input_json_delta": "call"}.get(kind, "")

    return Client(ask, lambda: map(shown, ask(stream=True)))


def _google_genai(wire: Wire) -> Client:
    from google.genai import Client as Native
    from google.genai import types

    plain = Native(api_key="k")
    transport = wire.transport(type(plain._api_client._httpx_client))
    options = types.HttpOptions(client_args={"transport": transport})
    client = Native(api_key="k", http_options=options)
    declared = [types.FunctionDeclaration(name="search")]
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=declared)])

    def contents(*before: Any) -> Any:
        texts = [*(one["content"] for one in before), "begin"]
        return [types.Content(role="user", parts=[types.Part(text=text)]) for text in texts]

    def ask(*before: Any) -> Any:
        return client.models.generate_content(
            model="small", contents=contents(*before), config=config
        )

    def stream() -> Iterator[str]:
        for chunk in client.models.generate_content_stream(
            model="small", contents=contents(), config=config
        ):
            parts = (chunk.candidates or [])[0].content.parts or []
            yield "call" if any(part.function_call for part in parts) else "text"

    return Client(ask, stream)


CLIENTS: dict[str, Callable[[Wire], Client]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google_genai": _google_genai,
    "litellm": _litellm,
}
