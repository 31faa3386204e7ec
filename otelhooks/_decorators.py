"""Plain functions under the pipeline: `@tool`, `@agent`, `@model_call`.

A function may be synchronous, asynchronous, a generator or an asynchronous generator. A refusal
raises `otelhooks.errors.Denied`, since a plain function has no other form for it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol, TypeVar, cast, get_type_hints, overload

from otelhooks import types
from otelhooks.hooks.calls import Call
from otelhooks.instrumentation import _runtime
from otelhooks.instrumentation._drive import Operation, adrive, drive
from otelhooks.instrumentation._frames import Session, current_frame
from otelhooks.instrumentation._model import ModelReply, ModelRequest, ModelSeat
from otelhooks.instrumentation._model import model as model_operation
from otelhooks.instrumentation._run import RunRequest, RunSeat, agent_run
from otelhooks.instrumentation._runtime import Runtime
from otelhooks.instrumentation._streams import astream, stream
from otelhooks.instrumentation._tool import ToolSeat
from otelhooks.instrumentation._tool import tool as tool_operation

__all__ = ["TOOLS", "agent", "model_call", "tool"]

F = TypeVar("F", bound=Callable[..., Any])

TOOLS: dict[str, Callable[..., Any]] = {}
"""Functions that were decorated with `tool`, by the name that rules see; the last one counts."""


class _HoldsBack(Protocol):
    """A call or request, as a generator's wrapper looks at it."""

    holds_back: bool


# An operation that is not started, the user's function as one of what was approved, and what says,
# once it is decided, whether a generator's items must wait for hooks.
_Opened = tuple[Operation, Callable[[Any], Any], _HoldsBack]
Open = Callable[[Runtime, tuple[Any, ...], dict[str, Any]], _Opened]


def _on_first(subject: _HoldsBack) -> Callable[[], None]:
    """Return what is called when the first item has come; only of models that time is told."""
    return subject.note_first_chunk if isinstance(subject, ModelRequest) else lambda: None


def _wrap(function: F, open_operation: Open) -> F:
    """Return a function of the same sort whose calls run as operations.

    Args:
        function: What the user wrote.
        open_operation: Function of the runtime and the call's arguments, giving the operation and
            the body, a function of what was approved.
    """
    wrapper: Callable[..., Any]
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def agenerator(*args: Any, **kwargs: Any) -> Any:
            rt = _runtime.active()
            if rt is None:
                async for item in function(*args, **kwargs):
                    yield item
                return
            operation, body, subject = open_operation(rt, args, kwargs)
            items = astream(
                operation,
                body,
                final=list,
                chunks=_as_items,
                holds_back=lambda: subject.holds_back,
                on_first=_on_first(subject),
            )
            try:
                async for item in items:
                    yield item
            finally:
                await items.aclose()

        wrapper = agenerator
    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            rt = _runtime.active()
            if rt is None:
                inner: Generator[Any, Any, Any] = function(*args, **kwargs)
                return (yield from inner)
            operation, body, subject = open_operation(rt, args, kwargs)
            yield from stream(
                operation,
                body,
                final=list,
                chunks=_as_items,
                holds_back=lambda: subject.holds_back,
                on_first=_on_first(subject),
            )
            return None

        wrapper = generator
    elif inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            rt = _runtime.active()
            if rt is None:
                return await function(*args, **kwargs)
            operation, body, _ = open_operation(rt, args, kwargs)
            return await adrive(operation, body)

        wrapper = coroutine
    else:

        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            rt = _runtime.active()
            if rt is None:
                return function(*args, **kwargs)
            operation, body, _ = open_operation(rt, args, kwargs)
            return drive(operation, body)

        wrapper = plain
    return cast("F", wrapper)


def _as_items(result: Any) -> list[Any]:
    if isinstance(result, list):
        return cast("list[Any]", result)
    return [result]


def _joined(raw: Any) -> Any:
    """Return the text of a generator's items, if they are texts."""
    if not isinstance(raw, list):
        return raw
    items = cast("list[Any]", raw)
    is_text = bool(items) and all(isinstance(item, str) for item in items)
    return "".join(items) if is_text else items


# -- tool -------------------------------------------------------------------------------------


class _FunctionTool(ToolSeat):
    framework = "otelhooks"


_TOOL_SEAT = _FunctionTool()


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Parameters:
    """How a function's arguments become a rule's dict, and the approved dict arguments again."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        try:
            hints = get_type_hints(function)
        except Exception:  # an annotation that cannot be resolved is no ToolContext
            hints = {}
        self.context = next(
            (name for name, hint in hints.items() if hint is types.ToolContext), None
        )
        parameters = self.signature.parameters
        self.are_by_name: bool = self.context is None and all(
            p.kind in _BY_NAME for p in parameters.values()
        )
        self._names = frozenset(parameters) - {self.context}
        self._positional = tuple(n for n, p in parameters.items() if p.kind is _BY_NAME[0])
        self._defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
        self._defaults.pop(self.context or "", None)

    def read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, defaults included, without the tool context.

        Raises:
            TypeError: They do not fit the signature.
        """
        if self.are_by_name and len(args) <= len(self._positional):
            # What `bind` does, for the common case, at a tenth of its cost.
            found = dict(zip(self._positional, args, strict=False))
            if len(found) == len(self._names) and not kwargs:
                return found
            found = {**self._defaults, **found}
            if not kwargs:
                if len(found) == len(self._names):
                    return found
            elif kwargs.keys().isdisjoint(self._positional[: len(args)]):
                found.update(kwargs)
                if found.keys() == self._names:
                    return found
        given = dict(kwargs)
        if self.context is not None:
            given.setdefault(self.context, None)
        bound = self.signature.bind(*args, **given)
        bound.apply_defaults()
        found = dict(bound.arguments)
        if self.context is not None:
            found.pop(self.context, None)
        return found

    def write(self, args: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as the function takes them: positional ones, and by keyword.

        Raises:
            TypeError: A hook made arguments that the function has no parameter for.
        """
        unknown = args.keys() - self.signature.parameters.keys()
        if unknown:
            msg = f"unexpected argument `{min(unknown)}`"
            raise TypeError(msg)
        given = dict(args)
        if self.context is not None:
            given[self.context] = _tool_context()
        bound = inspect.BoundArguments(
            self.signature,
            {n: given[n] for n in self.signature.parameters if n in given},  # pyright: ignore[reportArgumentType]
        )
        return bound.args, bound.kwargs


def _tool_context() -> types.ToolContext:
    """Return the tools' state of the conversation that the code runs in."""
    frame = current_frame()
    rt = _runtime.active()
    session = frame.session if frame is not None else rt.outside if rt is not None else Session()
    with session.lock:
        if session.tool_state is None:
            session.tool_state = types.ToolContext(session.id)
        return session.tool_state


@overload
def tool(function: F) -> F: ...


@overload
def tool(
    function: None = None, *, name: str | None = None, server: str | None = None
) -> Callable[[F], F]: ...


def tool(
    function: F | None = None, *, name: str | None = None, server: str | None = None
) -> F | Callable[[F], F]:
    """Put a function under the pipeline as a tool.

    Args:
        function: Its arguments, by name, are what rules see. A parameter annotated
            `types.ToolContext` is filled with the conversation's tool state and not shown.
        name: Name that rules see; the function's own by default.
        server: Name of a server that the tool belongs to.

    Raises:
        Denied: From the decorated function, when policy refuses the call.

    Example:
        >>> import otelhooks
        >>> @otelhooks.tool
        ... def add(a: int, b: int) -> int:
        ...     return a + b
        >>> add(1, b=2)
        3
    """

    def decorate(function: F) -> F:
        parameters = _Parameters(function)
        called = name or function.__name__
        description = inspect.getdoc(function)

        def body(approved: dict[str, Any]) -> Any:
            if parameters.are_by_name:
                return function(**approved)
            positional, by_name = parameters.write(approved)
            return function(*positional, **by_name)

        def open_operation(rt: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Opened:
            arguments = parameters.read(args, kwargs)
            call = Call(called, arguments, server=server, description=description)
            return tool_operation(rt, _TOOL_SEAT, call), body, call

        wrapped = TOOLS[called] = _wrap(function, open_operation)
        return wrapped

    return decorate if function is None else decorate(function)


# -- agent ------------------------------------------------------------------------------------


class _FunctionAgent(RunSeat):
    framework = "otelhooks"

    def answered(self, request: RunRequest, response: Any) -> Any:
        return response

    def response(self, request: RunRequest, raw: Any) -> Any:
        return _joined(raw)

    def continued(self, request: RunRequest, raw: Any, reason: str) -> RunRequest | None:
        if isinstance(raw, list):
            return None  # the items of a generator have gone out
        request.prompt, request.is_rewritten = reason, True
        return request


_AGENT_SEAT = _FunctionAgent()


def agent(name: str) -> Callable[[F], F]:
    """Put an agent's entry function under the pipeline.

    Args:
        name: The agent's name. The function's first argument is the user's message.

    Raises:
        Denied: From the decorated function, when policy refuses the message or the agent.

    Example:
        >>> import otelhooks
        >>> @otelhooks.agent("ops")
        ... def ops(message: str) -> str:
        ...     return message.upper()
        >>> ops("hello")
        'HELLO'
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        first = next(iter(signature.parameters), None)

        def open_operation(rt: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Opened:
            bound = signature.bind(*args, **kwargs)
            prompt = bound.arguments.get(first, "") if first is not None else ""
            request = RunRequest(name, prompt)

            def body(approved: RunRequest) -> Any:
                if approved.is_rewritten and first is not None:
                    bound.arguments[first] = approved.prompt
                return function(*bound.args, **bound.kwargs)

            return agent_run(rt, _AGENT_SEAT, request), body, request

        return _wrap(function, open_operation)

    return decorate


# -- model ------------------------------------------------------------------------------------


class _FunctionModel(ModelSeat):
    framework = "otelhooks"

    def reply(self, request: ModelRequest, raw: Any) -> ModelReply:
        raw = _joined(raw)
        if isinstance(raw, types.ModelResponse):
            usage = raw.usage.model_dump(exclude_none=True) if raw.usage is not None else None
            calls = [(call.id or "", str(call.name), call.args) for call in raw.tool_calls]
            reasons = [raw.finish_reason] if raw.finish_reason else []
            return ModelReply(raw.text, calls, usage, reasons)
        return ModelReply(raw if isinstance(raw, str) else "", usage=_usage(raw))

    def answered(self, request: ModelRequest, response: Any) -> Any:
        return response

    def with_response(self, request: ModelRequest, raw: Any, response: Any) -> Any:
        as_text = isinstance(_joined(raw), str) and isinstance(response, types.ModelResponse)
        return response.text if as_text else response


_MODEL_SEAT = _FunctionModel()


def _field(record: Any, name: str) -> Any:
    if isinstance(record, Mapping):
        return cast("Mapping[str, Any]", record).get(name)
    return getattr(record, name, None)


def _usage(raw: Any) -> dict[str, int] | None:
    """Read tokens from an answer's ``usage``, under the names of any of the common SDKs."""
    usage = _field(raw, "usage")
    if usage is None:
        return None
    found: dict[str, int] = {}
    for ours, names in (
        ("input_tokens", ("input_tokens", "prompt_tokens")),
        ("output_tokens", ("output_tokens", "completion_tokens")),
    ):
        for name in names:
            value = _field(usage, name)
            if isinstance(value, int):
                found[ours] = value
                break
    return found


@overload
def model_call(function: F) -> F: ...


@overload
def model_call(
    function: None = None, *, model: str = "", provider: str = ""
) -> Callable[[F], F]: ...


def model_call(
    function: F | None = None, *, model: str = "", provider: str = ""
) -> F | Callable[[F], F]:
    """Put a function that calls a model under the pipeline.

    Args:
        function: Its parameter ``messages`` (else the first) is what hooks see and may replace;
            ``model`` and ``tools`` are read where they are there. It returns a text, a
            `types.ModelResponse`, or an SDK's own answer.
        model: Model name, where the function has no parameter of that name.
        provider: ``gen_ai.provider.name``, such as ``openai``.

    Raises:
        Denied: From the decorated function, when policy refuses the call.

    Example:
        >>> import otelhooks
        >>> @otelhooks.model_call(model="scripted")
        ... def ask(messages: list) -> str:
        ...     return "done"
        >>> ask([{"role": "user", "content": "hello"}])
        'done'
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        names = list(signature.parameters)
        is_stream = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        place = "messages" if "messages" in names else (names[0] if names else None)

        def open_operation(rt: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Opened:
            bound = signature.bind(*args, **kwargs)
            given = bound.arguments.get(place) if place is not None else None
            request = ModelRequest(
                str(bound.arguments.get("model") or model),
                cast("list[Any]", given) if isinstance(given, list) else [given],
                provider=provider,
                stream=is_stream,
                tools=bound.arguments.get("tools") or (),
            )

            def body(approved: ModelRequest) -> Any:
                if approved.is_rewritten and place is not None:
                    as_one = not isinstance(given, list) and len(approved.messages) == 1
                    bound.arguments[place] = approved.messages[0] if as_one else approved.messages
                    if "tools" in bound.arguments:
                        bound.arguments["tools"] = approved.tools
                return function(*bound.args, **bound.kwargs)

            operation = model_operation(rt, _MODEL_SEAT, request)
            return operation, body, request

        return _wrap(function, open_operation)

    return decorate if function is None else decorate(function)
