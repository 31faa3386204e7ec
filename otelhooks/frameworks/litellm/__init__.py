# pyright: basic
"""LiteLLM, 1.109.1 and newer: loops that are written by hand.

``litellm.completion`` and ``acompletion`` see each chat completion, no matter what asks for it:
user code, a `Router`, the tool loop, retries. What they send through the client of a provider is
not judged again there, and what a guarded framework asks them for is judged by that framework's own
seats.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.clients.calls import ON_DENIED, UnreadCall
from otelhooks.frameworks.kit.clients.chat_form import ChatForm
from otelhooks.frameworks.kit.clients.json_calls import (
    Answer,
    Event,
    Opened,
    as_json,
    plain,
    streamed,
)
from otelhooks.frameworks.kit.mcp.servers import server_of
from otelhooks.frameworks.kit.objects.functions import (
    ASYNC_GENERATOR,
    COROUTINE,
    GENERATOR,
    PLAIN,
)
from otelhooks.frameworks.kit.streams.iterated import Iterated

__all__ = ["ADAPTER"]


class Completion(ChatForm):
    """A chat completion."""

    framework = "litellm"

    def read(self, _: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.is_inner():
            return kit.SKIP
        if self.is_unsupported:
            return None
        is_async = self.is_async
        given = kwargs if self.is_streamed else _named(args, kwargs, is_async=is_async)
        self.given = self.settings = given
        is_whole = given.get("complete_response")  # LiteLLM reads the stream itself
        if given.get("stream") and not is_whole and not self.is_streamed:
            opened = _aopened if is_async else _opened
            self.function = functools.partial(opened, self.function)
            return kit.SKIP
        self.model = str(given.get("model") or "")
        if address := given.get("api_base") or given.get("base_url"):
            self.attributes = server_of(address)
        prefix, slash, _rest = self.model.partition("/")
        self.provider = given.get("custom_llm_provider") or (prefix if slash else "openai")
        self.stream, self.is_typed = self.is_streamed, bool(given.get("response_format"))
        self.messages = [plain(one) for one in given.get("messages") or ()]
        self.tools = list(given.get("tools") or ())
        self._first = list(self.messages), list(self.tools)
        return None

    def call(self, wrapped: Any) -> Any:
        given, (messages, tools) = dict(self.given), self._first
        if self.messages != messages:
            given["messages"] = self.messages
        if self.tools != tools:
            given["tools"] = self.tools
            if not self.tools:
                given = {k: v for k, v in given.items() if k not in ("tools", "tool_choice")}
        found = wrapped(**given)
        if self.is_streamed:
            return found
        return _awaited(found) if inspect.isawaitable(found) else Answer(as_json(found), found)

    def deliver(self, answer: Any) -> Any:
        if answer.native is None:
            answer.native = kit.native("litellm.types.utils:ModelResponse")(**answer.data)
        yield from ()
        return [answer.native]


async def _awaited(found: Any) -> Answer:
    native = await found
    return Answer(as_json(native), native)


def _named(args: Any, kwargs: Any, *, is_async: bool) -> dict[str, Any]:
    """Return all arguments by name: the two functions order them differently.

    The signature is LiteLLM's own; that of another tracer's wrapper may tell no names.
    """
    function = kit.native(f"litellm.main:{'acompletion' if is_async else 'completion'}")
    given = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    further = given.pop("kwargs", {})
    return {**given, **further}


class _Stream(Iterated):
    """LiteLLM's stream, which keeps what it got: here, what the loop got, is all that it shows."""

    def __init__(self, stream: Any, items: Any) -> None:
        super().__init__(stream, items)
        self._self_chunks: list[Any] = []

    def __next__(self) -> Any:
        self._self_chunks.append(_chunk(next(self._self_items)))
        return self._self_chunks[-1]

    async def __anext__(self) -> Any:
        self._self_chunks.append(_chunk(await anext(self._self_items)))
        return self._self_chunks[-1]

    @property
    def chunks(self) -> list[Any]:
        return self._self_chunks

    @property
    def response_uptil_now(self) -> str:
        told = (choice.delta for chunk in self.chunks for choice in chunk.choices)
        return "".join(delta.content or "" for delta in told)

    @property
    def completion_stream(self) -> Any:  # a `Router` opens a stream that has none yet
        return None if self.__wrapped__.completion_stream is None else self

    def partial_response(self) -> Any:
        return type(self.__wrapped__).partial_response(self)


def _chunk(item: Any) -> Any:
    if type(item) is not Event:
        return item
    return kit.native("litellm.types.utils:ModelResponseStream")(**item)


def _opened(wrapped: Any, *args: Any, **kwargs: Any) -> Any:
    def items(**given: Any) -> Iterator[Any]:
        native = wrapped(**given)
        yield Opened(native=native)
        yield from native

    given = _named(args, kwargs, is_async=False)
    rest = streamed(Completion).through(GENERATOR, items, None, **given)
    first = next(rest, None)
    if type(first) is Opened:
        return _Stream(first.native, rest)
    return map(_chunk, [first, *rest])


async def _aopened(wrapped: Any, *args: Any, **kwargs: Any) -> Any:
    async def items(**given: Any) -> AsyncIterator[Any]:
        native = await wrapped(**given)
        yield Opened(native=native)
        async for item in native:
            yield item

    given = _named(args, kwargs, is_async=True)
    rest = streamed(Completion).through(ASYNC_GENERATOR, items, None, **given)
    first = await anext(rest, None)
    if type(first) is Opened:
        return _Stream(first.native, rest)

    async def chunks() -> AsyncIterator[Any]:
        yield _chunk(first)
        async for item in rest:
            yield _chunk(item)

    return chunks()


class Unread(UnreadCall):
    """Requests for texts, responses and messages."""

    framework = "litellm"

    def read(self, _: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.passes(f"`litellm.{self.function.__name__}` asks a model")


def _seats(passage: Any, *modules: str, name: str) -> tuple[Any, ...]:
    """Return the seats of a function in some modules, each with its asynchronous form.

    Another tracer may have put its own wrapper into ``litellm``, where programs find the function.
    """
    return tuple(
        kit.seat(
            f"{module}:{function}", passage, kind=kind, copies=True, required=module != "litellm"
        )
        for module in modules
        for function, kind in ((name, PLAIN), (f"a{name}", COROUTINE))
    )


ADAPTER = kit.Adapter(
    "litellm",
    kit.Package("litellm", ">=1.109.1,<2", module="litellm"),
    seats=(
        *_seats(
            *(Completion, "litellm.chat_completions.dispatch", "litellm.main", "litellm"),
            name="completion",
        ),
        *_seats(Unread, "litellm.responses.dispatch", "litellm.responses.main", name="responses"),
        *_seats(Unread, "litellm.main", name="text_completion"),
        kit.seat("litellm.messages.dispatch:anthropic_messages", Unread, copies=True),
        kit.seat("litellm.messages.dispatch:anthropic_messages_handler", Unread, copies=True),
    ),
    not_covered={
        "`text_completion`, `responses`, `anthropic_messages`": (
            "no rule is asked about them; they are reported, and denied under `strict=True`"
        ),
        "`generate_content`, `interactions`, realtime, the proxy": "no seat is there",
        "tools of the provider": "they run at the provider",
        "success callbacks": "they get the provider's answer, before it is judged",
    },
    options={"on_denied": ON_DENIED},
    offline={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    in_part={
        "tool.post": (
            "unless `otelhooks.call_tool` runs the tool, its result is seen when the loop sends it"
        ),
    },
)
