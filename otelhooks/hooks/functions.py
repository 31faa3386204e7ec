"""Hooks made of functions: the signatures that they may have, and a decorator for each hook class.

A function takes the data, the context, or both; the context is found by its name or annotation.
Decorators take the options of every hook, which `otelhooks.hooks.base` lists.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol, overload

from otelhooks.hooks import base
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import then


def _is_context(parameter: inspect.Parameter) -> bool:
    annotation: object = parameter.annotation
    if isinstance(annotation, str):
        annotation = annotation.rsplit(".", 1)[-1].strip("\"' ")
        return parameter.name == "context" or annotation == "HookContext"
    return parameter.name == "context" or annotation is HookContext


def _adapt(function: Callable[..., Any], takes_data: bool) -> Callable[[HookContext, Any], Any]:
    """Return `function` as a function of (context, data), whichever of them it takes.

    Raises:
        TypeError: The signature fits neither.
    """
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    context = next((p for p in parameters if _is_context(p)), None)
    takes_data = takes_data and (context is None or len(parameters) > 1)
    comes_first = (
        context is not None
        and context is parameters[0]
        and context.kind is not context.KEYWORD_ONLY
    )
    by_name = context.name if context is not None and not comes_first else None
    try:
        signature.bind(
            *[None] * (comes_first + takes_data), **({} if by_name is None else {by_name: None})
        )
    except TypeError as error:
        name = getattr(function, "__name__", repr(function))
        hint = "" if context is not None else "; only `context` gets the context"
        msg = f"Invalid signature for hook '{name}': {error}{hint}"
        raise TypeError(msg) from error
    if comes_first:
        return function if takes_data else lambda ctx, _: function(ctx)
    if by_name is None:
        return (lambda _, data: function(data)) if takes_data else (lambda _, __: function())
    if takes_data:
        return lambda ctx, data: function(data, **{by_name: ctx})
    return lambda ctx, _: function(**{by_name: ctx})


class FunctionHook:
    """A hook made of a function; calling it calls the function, and is always awaitable.

    Attributes:
        f: The decorated function.
        invoke: The same, as a function of context and data.
    """

    f: Callable[..., Any]
    invoke: Callable[[HookContext, Any], Any]

    async def run(self, context: HookContext, data: Any) -> Any:
        """Call the function with the arguments that it takes."""
        result = self.invoke(context, data)
        return await result if inspect.isawaitable(result) else result

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the decorated function."""
        result = self.f(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result


class HookDecorator(Protocol):
    """A decorator of functions, with or without the options of every hook."""

    @overload
    def __call__(self, function: Callable[..., Any], /) -> FunctionHook: ...

    @overload
    def __call__(
        self,
        function: None = None,
        /,
        *,
        priority: int = 100,
        timeout: float | None = None,
        blocking: bool = False,
        background: bool = False,
        rule_id: str | None = None,
    ) -> Callable[[Callable[..., Any]], FunctionHook]: ...


@functools.cache
def _function_class(hook_class: type[base.Hook]) -> type[Any]:
    return type(f"_Function{hook_class.__name__}", (FunctionHook, hook_class), {})


def function_hook(
    hook_class: type[base.Hook],
    function: Callable[..., Any],
    *,
    read: Callable[[Any], Any] | None = None,
    may_be_bare: bool = False,
    **options: Any,
) -> Any:
    """Return a function as a hook of a class.

    Args:
        hook_class: One of `otelhooks.hooks.base`.
        function: Takes the data, the context, or both; at session points no data.
        read: Converts the function's return value to a hook's answer, if it differs.
        may_be_bare: Whether it may also take no arguments.
        **options: Options of every hook; see `otelhooks.hooks.base`.

    Raises:
        TypeError: It has another signature.
    """
    hook: Any = _function_class(hook_class)()
    functools.update_wrapper(hook, function)
    hook.f = function
    takes_data = hook_class.POINT not in {"session_start", "session_end"}
    is_bare = may_be_bare and not inspect.signature(function).parameters
    hook.invoke = _adapt(function, takes_data and not is_bare)
    if read is not None:
        hook.invoke = functools.partial(_read, hook.invoke, read)
    for name, value in options.items():
        setattr(hook, name, value)
    return hook


def _read(
    invoke: Callable[..., Any], read: Callable[[Any], Any], context: HookContext, data: Any
) -> Any:
    return then(invoke(context, data), read)


def _decorator(hook_class: type[base.Hook]) -> HookDecorator:
    def decorate(
        function: Callable[..., Any] | None = None,
        *,
        priority: int = 100,
        timeout: float | None = None,
        blocking: bool = False,
        background: bool = False,
        rule_id: str | None = None,
    ) -> Any:
        made = functools.partial(
            function_hook,
            hook_class,
            priority=priority,
            timeout=timeout,
            blocking=blocking,
            background=background,
            rule_id=rule_id,
        )
        return made if function is None else made(function)

    decorate.__name__ = decorate.__qualname__ = base.keyword(hook_class)
    decorate.__doc__ = (
        f"Make a `{hook_class.__name__}` of a function; see `otelhooks.hooks.base` for options."
    )
    return decorate


on_session_start: HookDecorator = _decorator(base.OnSessionStartHook)
on_session_end: HookDecorator = _decorator(base.OnSessionEndHook)
on_run_start: HookDecorator = _decorator(base.OnRunStartHook)
on_run_end: HookDecorator = _decorator(base.OnRunEndHook)
pre_turn: HookDecorator = _decorator(base.PreTurnHook)
post_turn: HookDecorator = _decorator(base.PostTurnHook)
pre_agent: HookDecorator = _decorator(base.PreAgentHook)
post_agent_transform: HookDecorator = _decorator(base.PostAgentTransformHook)
pre_model_call: HookDecorator = _decorator(base.PreModelCallHook)
post_model_call_transform: HookDecorator = _decorator(base.PostModelCallTransformHook)
post_model_call: HookDecorator = _decorator(base.PostModelCallHook)
on_model_error: HookDecorator = _decorator(base.OnModelErrorHook)
pre_tool_call_decide: HookDecorator = _decorator(base.PreToolCallDecideHook)
post_tool_call_transform: HookDecorator = _decorator(base.PostToolCallTransformHook)
post_tool_call: HookDecorator = _decorator(base.PostToolCallHook)
on_tool_error: HookDecorator = _decorator(base.OnToolErrorHook)
on_interaction: HookDecorator = _decorator(base.OnInteractionHook)
on_compaction: HookDecorator = _decorator(base.OnCompactionHook)
stop: HookDecorator = _decorator(base.StopHook)
on_subagent_start: HookDecorator = _decorator(base.OnSubagentStartHook)
on_subagent_stop: HookDecorator = _decorator(base.OnSubagentStopHook)
on_event: HookDecorator = _decorator(base.OnEventHook)
