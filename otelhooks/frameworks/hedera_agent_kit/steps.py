# pyright: basic, reportMissingImports=false
"""The steps of the kit's second generation of tools, and the hooks that lie between them.

``BaseToolV2.execute`` normalizes the parameters, takes the core action, and then, for transactions,
the secondary action, which sends them or returns their bytes. The kit's own hooks at the same
places, those of ``Context.hooks``, run after ours, and see what ours have written.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from otelhooks.frameworks.hedera_agent_kit.seats import find, is_guarded, running, uses_super
from otelhooks.hooks.drive import adrive
from otelhooks.hooks.stages import StageParams
from otelhooks.pipeline.tool_stages import ACTED, NORMALIZED, Stages

__all__ = [
    "act",
    "at_api",
    "at_tool",
    "behind_langchain",
    "behind_mcp",
    "commit",
    "normalize",
]


def at_api(api: Any, method: Any) -> Callable[[], StageParams] | None:
    """Return what makes `StageParams` of a call of the API; None where it has no such tool."""
    tool = find(api, method)
    return None if tool is None else lambda: _params(tool, method, api.client, api.context)


def behind_langchain(tool: Any, name: str) -> StageParams | None:
    """Return what hooks are shown of a call of the kit's tool for langchain."""
    make = at_api(tool.hedera_api, name) if tool.method == name else None
    return None if make is None else make()


def behind_mcp(handler: Any, name: str) -> StageParams | None:
    """Return what hooks are shown of a call of a function that the kit's MCP server serves."""
    closed = inspect.getclosurevars(handler).nonlocals
    make = at_api(closed["self"]._hedera_agent_kit, closed["tool"].method)
    return None if make is None else make()


def at_tool(tool: Any, method: str, args: Any, kwargs: Any) -> Callable[[], StageParams]:
    """Return what makes `StageParams` of a call of a tool's ``execute``."""
    given = dict(zip(("client", "context"), args, strict=False)) | kwargs
    return lambda: _params(tool, method, given.get("client"), given.get("context"))


def _params(tool: Any, method: str, client: Any, context: Any) -> StageParams:
    is_staged = is_guarded(tool) and _takes_steps(tool)
    return StageParams(method, context, client=client, is_staged=is_staged)


def _takes_steps(tool: Any) -> bool:
    """Say whether a tool runs the kit's ``execute``, by itself or through its own with `super`."""
    for cls in type(tool).__mro__:
        if (cls.__module__, cls.__name__) == ("hedera_agent_kit.shared.tool_v2", "BaseToolV2"):
            return True
        if "execute" in vars(cls) and not uses_super(vars(cls)["execute"]):
            return False
    return False


async def normalize(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``normalize_params``: what it returns is put to the hooks."""
    with _step(instance, "normalize") as stages:
        if stages is None:
            return await wrapped(*args, **kwargs)
        await adrive(stages.begin())
        return await adrive(stages.normalized(await wrapped(*args, **kwargs)))


async def act(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``core_action``: what it returns is put to the hooks, before it is committed."""
    with _step(instance, "act") as stages:
        if stages is None:
            return await wrapped(*args, **kwargs)
        await adrive(stages.begin(NORMALIZED))
        value = await wrapped(*args, **kwargs)
        context = stages.params.context
        commits = functools.partial(instance.should_secondary_action, value, context)
        return await adrive(stages.acted(value, commits))


async def commit(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``secondary_action``: nothing is committed that a hook has stopped."""
    with _step(instance, "commit") as stages:
        if stages is not None:
            await adrive(stages.begin(NORMALIZED, ACTED))
        return await wrapped(*args, **kwargs)


@contextlib.contextmanager
def _step(tool: Any, step: str) -> Iterator[Stages | None]:
    """Give the stages of the call that takes a step; None within it, where `super` leads on."""
    run = running.get()
    if run is None or run.tool is not tool or run.step == step:
        yield None
        return
    run.step, outer = step, run.step
    try:
        yield run.taken
    finally:
        run.step = outer
