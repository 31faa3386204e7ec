# pyright: basic
"""Requests of the clients that Stainless generates, which share one function for all of them.

It sees each request once: plain, parsed, streamed, with the raw response, of every variant of the
client. An answer of the seat itself is put into an HTTP response and read by the client, so that
the caller gets what it asked for, in the classes that it knows.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import posixpath
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import NoneType
from typing import Any, ClassVar
from urllib.parse import unquote

from otelhooks.frameworks.kit.clients.json_calls import (
    Answer,
    Event,
    JsonCall,
    Opened,
    as_json,
    plain,
    streamed,
)
from otelhooks.frameworks.kit.mcp.servers import server_of
from otelhooks.frameworks.kit.objects.functions import ASYNC_GENERATOR, GENERATOR
from otelhooks.frameworks.kit.passages import SKIP

__all__ = ["GeneratedCall", "UnreadRequest"]

_RAW = "X-Stainless-Raw-Response"
_EVENTS, _DONE = "text/event-stream", b"data: [DONE]\n\n"
_OF_BODY = ("content-encoding", "content-length", "transfer-encoding")


class GeneratedCall(JsonCall):
    """One request for a model's answer.

    Attributes:
        path: End of the paths of its requests.
        of_messages: Name of the messages in the request's body.
        body: The request's body, as the caller gave it.
    """

    words = "path of_messages body client begins asked_with"
    path: ClassVar[str] = ""
    of_messages: ClassVar[str] = "messages"

    # -- what an adapter writes: everything is JSON -------------------------------------------

    def begins(self) -> None:
        """Read `body`: ``messages``, ``provider`` and ``is_typed``, where they are not as usual."""

    def asked_with(self, messages: list[Any]) -> dict[str, Any]:
        """Return the parts of the body that hold these messages."""
        return {self.of_messages: messages}

    # -- reading and sending ------------------------------------------------------------------

    def read(
        self,
        client: Any,
        cast_to: Any,
        options: Any,
        *,
        stream: Any = False,
        stream_cls: Any = None,
    ) -> Any:
        is_asked = options.method.lower() == "post" and _path(options, client).endswith(self.path)
        if not is_asked or self.is_inner():
            return SKIP
        body = _body(options)
        if body is None:
            return self._unread(options)
        if self.is_unsupported:
            return None
        if stream and not self.is_streamed:
            self.function = functools.partial(
                self._aopened if self.is_async else self._opened, self.function, client
            )
            return SKIP
        self.client, self.cast_to, self.options = client, cast_to, options
        self.stream, self.stream_cls = bool(stream), stream_cls
        self._listed = _lists_in(body)
        body |= self._listed
        self.body = self.settings = body
        self.attributes = server_of(client.base_url)
        self.model = str(body.get("model") or "")
        given = body.get(self.of_messages) or []
        self.messages = [plain(one) for one in (given if isinstance(given, list) else [given])]
        self.tools = list(body.get("tools") or [])
        self.begins()
        self._given = list(self.messages), list(self.tools)
        return None

    def _unread(self, options: Any) -> Any:
        """Log a request about which no rule is asked, or refuse it."""
        return self.passes(f"`{self.framework}` asks a model by `{_path(options)}`")

    def _sent(self) -> Any:
        """Return the options of the request, with what hooks and earlier answers changed."""
        options = copy.copy(self.options)
        messages, tools = self._given
        changed = dict(self._listed)
        if self.messages != messages:
            changed |= self.asked_with(self.messages)
        if self.tools != tools:
            changed["tools"] = self.tools
        if changed:
            body = {**self.body, **changed}
            if not body.get("tools"):
                body = {k: v for k, v in body.items() if k not in ("tools", "tool_choice")}
            options.json_data = body
            options.extra_json = None if options.extra_json is None else {}  # it is in the body
        return options

    def call(self, wrapped: Callable[..., Any]) -> Any:
        found = wrapped(self.cast_to, self._sent(), stream=self.stream, stream_cls=self.stream_cls)
        if self.is_streamed:
            return found
        return self._aread(found) if inspect.isawaitable(found) else self._read(found)

    def _read(self, native: Any) -> Answer:
        response = getattr(native, "http_response", None)
        if response is None:
            return Answer(as_json(native), native)
        response.read()
        return Answer(self._decoded(response), native)

    async def _aread(self, found: Any) -> Answer:
        native = await found
        response = getattr(native, "http_response", None)
        if response is None:
            return Answer(as_json(native), native)
        await response.aread()
        return Answer(self._decoded(response), native)

    def _decoded(self, response: Any) -> Any:
        try:
            return response.json()
        except ValueError as error:
            self.unreadable(error)
            return {}

    def deliver(self, answer: Any) -> Any:
        if answer.native is None:
            content = json.dumps(answer.data).encode()
            answer.native = yield self._client_reads(self._response(content, "application/json"))
        return [answer.native]

    def _response(self, content: Any, kind: str, of: Any = None) -> Any:
        """Return an HTTP response with our body, otherwise like another one."""
        http = _http(type(self.client))
        if of is not None:
            kept = [(k, v) for k, v in of.headers.items() if k.lower() not in _OF_BODY]
            return http.Response(of.status_code, headers=kept, content=content, request=of.request)
        given = self.options.headers
        raw = given.get(_RAW) if isinstance(given, dict) else None
        request = http.Request(
            "POST", "http://otelhooks.invalid", headers={_RAW: raw} if raw else {}
        )
        return http.Response(200, content=content, headers={"content-type": kind}, request=request)

    def _client_reads(self, response: Any) -> Any:
        """Return what the client makes of a response, or a coroutine of that."""
        return self.client._process_response(
            cast_to=self.cast_to,
            options=self.options,
            response=response,
            stream=self.stream,
            stream_cls=self.stream_cls,
        )

    @classmethod
    def _opened(cls, wrapped: Any, client: Any, cast_to: Any, options: Any, **kwargs: Any) -> Any:
        def items(*args: Any, **kwargs: Any) -> Iterator[Any]:
            native = wrapped(*args, **kwargs)
            stream = native.parse() if hasattr(native, "http_response") else native
            inner = _reading(stream)
            yield Opened(native=native, stream=stream)
            yield from inner

        reader = _reader(cls, client, cast_to, options, kwargs)
        rest = streamed(cls).through(GENERATOR, items, client, cast_to, options, **kwargs)
        first = next(rest, None)
        if type(first) is not Opened:
            events = [] if first is None else [first, *rest]
            content = b"".join([*map(_line, events), _DONE])
            return reader._client_reads(reader._response(content, _EVENTS))
        stream = first.stream

        def told() -> Iterator[Any]:
            for item in rest:
                yield _native(client, stream, item) if type(item) is Event else item

        def lines() -> Iterator[bytes]:
            for item in rest:
                yield _line(item)
            yield _DONE

        def closed(close: Callable[[], None]) -> None:
            rest.close()
            close()

        response = reader._response(lines(), _EVENTS, stream.response)
        response.close = functools.partial(closed, stream.response.close)
        if first.native is not stream:
            return reader._client_reads(response)
        stream._iterator, stream.response = told(), response
        return stream

    @classmethod
    async def _aopened(
        cls, wrapped: Any, client: Any, cast_to: Any, options: Any, **kwargs: Any
    ) -> Any:
        async def items(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            native = await wrapped(*args, **kwargs)
            stream = native.parse() if hasattr(native, "http_response") else native
            stream = await stream if inspect.isawaitable(stream) else stream
            inner = _reading(stream)
            yield Opened(native=native, stream=stream)
            async for item in inner:
                yield item

        reader = _reader(cls, client, cast_to, options, kwargs)
        rest = streamed(cls).through(ASYNC_GENERATOR, items, client, cast_to, options, **kwargs)
        first = await anext(rest, None)
        if type(first) is not Opened:
            events = [] if first is None else [first, *[each async for each in rest]]
            content = b"".join([*map(_line, events), _DONE])
            return await reader._client_reads(reader._response(content, _EVENTS))
        stream = first.stream

        async def told() -> AsyncIterator[Any]:
            async for item in rest:
                yield _native(client, stream, item) if type(item) is Event else item

        async def lines() -> AsyncIterator[bytes]:
            async for item in rest:
                yield _line(item)
            yield _DONE

        async def closed(close: Callable[[], Any]) -> None:
            await rest.aclose()
            await close()

        response = reader._response(lines(), _EVENTS, stream.response)
        response.aclose = functools.partial(closed, stream.response.aclose)
        if first.native is not stream:
            return await reader._client_reads(response)
        stream._iterator, stream.response = told(), response
        return stream


class UnreadRequest(GeneratedCall):
    """A request for a model's answer in a form that nothing here reads: no rule is asked about it.

    It is logged, or refused under ``strict=True``, as soon as anything can deny.

    Attributes:
        paths: Ends of the paths of such requests.
        others: Ends of paths, among those, that other classes read.
        kept: Ends of paths under which kept answers are listed, or retrieved by an id.
    """

    words = "paths others kept"
    must = ()
    paths: ClassVar[tuple[str, ...]] = ()
    others: ClassVar[tuple[str, ...]] = ()
    kept: ClassVar[tuple[str, ...]] = ()

    def read(
        self,
        client: Any,
        cast_to: Any,
        options: Any,
        *,
        stream: Any = False,
        stream_cls: Any = None,
    ) -> Any:
        path, method = _path(options, client), options.method.lower()
        is_asked = method == "post" and path.endswith(self.paths)
        is_read = path.endswith(self.others)  # a stream comes here from the class that reads it
        listed, _, _ = path.rpartition("/")
        is_kept = method == "get" and (path.endswith(self.kept) or listed.endswith(self.kept))
        is_meant = is_kept or (is_asked and not is_read)
        return self._unread(options) if is_meant and not self.is_inner() else SKIP


def _body(options: Any) -> dict[str, Any] | None:
    """Return the body that the client will send; None if it is not an object that it encodes."""
    given, extra = options.json_data, options.extra_json or {}
    if getattr(options, "content", None) is not None or not isinstance(given, (Mapping, NoneType)):
        return None
    return {**(given or {}), **extra}


_ONCE = ("messages", "input", "system", "tools")
"""Fields of a body that the clients take as any iterable."""


def _lists_in(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are other iterables than lists, as lists: an iterator is read once."""
    found: dict[str, Any] = {}
    for name in _ONCE:
        given = body.get(name)
        if given is None or type(given) is str:
            continue
        listed = given if type(given) is list else _list(given)
        if type(listed) is list:
            odd = [
                at
                for at, one in enumerate(listed)
                if type(one) is dict and type(one.get("content")) not in _PLAIN
            ]
            listed = list(listed) if odd else listed
            for at in odd:
                listed[at] = {**listed[at], "content": _list(listed[at]["content"])}
        if listed is not given:
            found[name] = listed
    return found


_PLAIN = (str, list, NoneType)


def _list(value: Any) -> Any:
    is_other = isinstance(value, (str, bytes, Mapping)) or hasattr(value, "model_dump")
    return value if is_other or not isinstance(value, Iterable) else list(value)


_PARAMETERS = re.compile("[;?#][^/]*")


def _path(options: Any, client: Any = None) -> str:
    """Return the path of a request; with its client, from the root as any server may read it."""
    path = str(options.url).partition("#")[0].partition("?")[0].rstrip("/")
    if client is None:
        return path
    path = unquote(f"{client.base_url.path.rstrip('/')}/{path.lstrip('/')}")
    return posixpath.normpath(_PARAMETERS.sub("", path)).lower()


def _reader(cls: Any, client: Any, cast_to: Any, options: Any, kwargs: Any) -> Any:
    reader = cls()
    reader.client, reader.cast_to, reader.options = client, cast_to, options
    reader.stream, reader.stream_cls = True, kwargs.get("stream_cls")
    return reader


def _reading(stream: Any) -> Any:
    """Return a copy of a stream that reads the client's response: the stream gets another one.

    Its client learns from the copy what the provider said.
    """
    copied = copy.copy(inspect.unwrap(stream))  # another tracer's proxy cannot be copied
    copied._iterator = copy.copy(copied).__stream__()
    return copied


def _native(client: Any, stream: Any, event: Event) -> Any:
    """Return an item that was made here in the stream's class."""
    return client._process_response_data(
        data=dict(event), cast_to=stream._cast_to, response=stream.response
    )


def _line(item: Any) -> bytes:
    """Return an item of a stream as a server-sent event."""
    event = as_json(item)
    named = f"event: {event['type']}\n" if "type" in event else ""
    return f"{named}data: {json.dumps(event)}\n\n".encode()


def _http(cls: type) -> Any:
    """Return the HTTP library of a client: that of the module that defines its base."""
    for each in cls.__mro__:
        module = sys.modules.get(each.__module__)
        for name in ("httpx2", "httpx"):
            if each.__module__.endswith("._base_client") and hasattr(module, name):
                return getattr(module, name)
    raise TypeError(f"`{cls.__qualname__}` has no HTTP library that is known")
