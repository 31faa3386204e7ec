"""Entry functions of agents: `@agent`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, overload

from otelhooks.loops.decorated import F, Opened, joined, name_of, wrap
from otelhooks.pipeline.agent_run import RunRequest, RunSeat, agent_run
from otelhooks.pipeline.runtime import Runtime

__all__ = ["agent"]


class _FunctionAgent(RunSeat):
    framework = "otelhooks"

    def answered(self, request: RunRequest, response: Any) -> Any:
        return response

    def response(self, request: RunRequest, raw: Any) -> Any:
        return joined(raw)

    def continued(self, request: RunRequest, raw: Any, reason: str) -> RunRequest | None:
        if isinstance(raw, list):
            return None  # the items of a generator have already been passed on
        request.prompt, request.is_rewritten = reason, True
        return request


_SEAT = _FunctionAgent()


@overload
def agent(name: F) -> F: ...


@overload
def agent(name: str) -> Callable[[F], F]: ...


def agent(name: F | str) -> F | Callable[[F], F]:
    """Put an agent's entry function under the pipeline.

    Args:
        name: The agent's name; or the function itself, whose name it then has. The function's first
            argument is the user's message.

    Raises:
        Denied: From the decorated function, when policy refuses the message or the agent.
        TypeError: It is neither.

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

        def open_operation(rt: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Opened:
            bound = signature.bind(*args, **kwargs)
            prompt = bound.arguments.get(first, "") if first is not None else ""
            request = RunRequest(called, prompt)

            def body(approved: RunRequest) -> Any:
                if approved.is_rewritten and first is not None:
                    bound.arguments[first] = approved.prompt
                return function(*bound.args, **bound.kwargs)

            return agent_run(rt, _SEAT, request), body, request

        return wrap(function, open_operation)

    called = name if isinstance(name, str) else name_of(name, "agent")
    return decorate if isinstance(name, str) else decorate(name)
