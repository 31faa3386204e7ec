"""Functions that call a model: `@model_call`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast, overload

from otelhooks import types
from otelhooks.loops import sdk_answers
from otelhooks.loops.decorated import F, Opened, joined, wrap
from otelhooks.pipeline import runtime
from otelhooks.pipeline.model_call import ModelReply, ModelRequest, ModelSeat
from otelhooks.pipeline.model_call import model as model_operation
from otelhooks.pipeline.runtime import Runtime

__all__ = ["model_call"]


class _FunctionModel(ModelSeat):
    framework = "otelhooks"

    def reply(self, request: ModelRequest, raw: Any) -> ModelReply:
        raw = joined(raw)
        if isinstance(raw, types.ModelResponse):
            usage = raw.usage.model_dump(exclude_none=True) if raw.usage is not None else None
            calls = [(call.id or "", str(call.name), call.args) for call in raw.tool_calls]
            reasons = [raw.finish_reason] if raw.finish_reason else []
            return ModelReply(raw.text, calls, usage, reasons)
        if isinstance(raw, str):
            return ModelReply(raw)
        if raw is not None and not sdk_answers.is_known(raw):
            _tell_unread(raw)
        return sdk_answers.read(raw)

    def answered(self, request: ModelRequest, response: Any) -> Any:
        return response

    def with_response(self, request: ModelRequest, raw: Any, response: Any) -> Any:
        whole = joined(raw)
        if isinstance(whole, types.ModelResponse) or not isinstance(response, types.ModelResponse):
            return response
        return response.text if isinstance(whole, str) else sdk_answers.rewritten(whole, response)


_SEAT = _FunctionModel()


def _tell_unread(raw: Any) -> None:
    """Say once that hooks see nothing of an answer, if there is one that wants to."""
    rt = runtime.active()
    if rt is not None and rt.loaded.hooks.at("post_model_call"):
        said = f"hooks see no text of a `{type(raw).__qualname__}` that `@model_call` returns"
        rt.warn_once(said, "%s", said)


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
            ``model`` and ``tools`` are read if present. It returns a text, a `types.ModelResponse`,
            or an SDK's own answer.
        model: Model name, if the function has no parameter of that name.
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

        def open_operation(rt: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Opened:
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

            operation = model_operation(rt, _SEAT, request)
            return operation, body, request

        return wrap(function, open_operation)

    return decorate if function is None else decorate(function)
