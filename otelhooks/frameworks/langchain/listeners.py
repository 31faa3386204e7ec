# pyright: basic, reportMissingImports=false
"""Who listens to a run through callbacks while it runs, such as ``astream_events``.

What a hook may still change, or what no run gave, does not reach them from the graph: they are left
out of its run, and told of it as a whole once it is decided.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Any

from otelhooks.frameworks.langchain.models import is_streaming
from otelhooks.hooks.context import current_branch
from otelhooks.pipeline.frames import current_scope
from otelhooks.pipeline.runtime import Runtime

__all__ = ["Listeners", "must_wait"]


def must_wait(rt: Runtime, agent: str) -> bool:
    """Return whether a run's answer has to wait for a hook that may change it.

    Args:
        rt: The active runtime.
        agent: The run's agent. The run has not been entered: inside it, the agent is already part
            of the branch.
    """
    here = current_branch()
    hooks, _ = rt.in_force(current_scope(), f"{here}/{agent}" if here else agent)
    return rt.stream == "buffer" and bool(hooks.at("post_agent").transformers)


class Listeners:
    """The callback handlers of one run that stream it.

    Args:
        config: What the run was given.
    """

    def __init__(self, config: Any) -> None:
        from langchain_core.runnables.config import var_child_runnable_config

        self._variable = var_child_runnable_config
        self._config: Mapping[str, Any] = config or {}
        self._ambient: Mapping[str, Any] = var_child_runnable_config.get() or {}
        given = self._config.get("callbacks") or self._ambient.get("callbacks")
        self._manager = _manager(given, keep=True)

    @property
    def any(self) -> bool:
        """Whether there are any, or an outer graph streams what this one does."""
        forwards = any(
            _STREAM in (c.get("configurable") or {}) for c in (self._config, self._ambient)
        )
        return forwards or bool(self._manager and self._manager.handlers)

    def left_out(self) -> dict[str, Any]:
        """Return the run's configuration without them."""
        return _without(self._config)

    def steps(self, items: Generator[Any, None, None]) -> Generator[Any, None, None]:
        """Yield a run's items; it starts where they are not in the surroundings either."""
        token = self._variable.set(_without(self._ambient) or None)  # type: ignore[arg-type]
        try:
            first = next(items, _END)
        finally:
            self._variable.reset(token)
        try:
            if first is not _END:
                yield first
                yield from items
        finally:
            items.close()

    async def asteps(self, items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Do what `steps` does, for an asynchronous stream."""
        token = self._variable.set(_without(self._ambient) or None)  # type: ignore[arg-type]
        try:
            first = await anext(items, _END)
        finally:
            self._variable.reset(token)
        try:
            if first is not _END:
                yield first
                async for item in items:
                    yield item
        finally:
            await items.aclose()

    def start(self, name: str, given: Any) -> Any:
        """Tell them that the run starts; return what its end is to be told to."""
        manager = self._manager or _manager([], keep=True)
        return manager.on_chain_start(None, given, name=name, run_id=self._config.get("run_id"))

    async def astart(self, name: str, given: Any) -> Any:
        """Do what `start` does, from a coroutine."""
        from langchain_core.callbacks import AsyncCallbackManager

        found = self._manager or _manager([], keep=True)
        manager = AsyncCallbackManager(found.handlers, parent_run_id=found.parent_run_id)
        run_id: Any = self._config.get("run_id")
        return await manager.on_chain_start({}, given, name=name, run_id=run_id)


_END = object()
_STREAM = "__pregel_stream"
"""Key under which a graph finds the stream of the one that it runs in."""


def _manager(callbacks: Any, *, keep: bool) -> Any:
    """Return a manager of those handlers that stream, or of all others."""
    from langchain_core.callbacks import CallbackManager

    if callbacks is None:
        return None
    if isinstance(callbacks, list):
        return CallbackManager([h for h in callbacks if is_streaming(h) is keep])
    found = [h for h in callbacks.handlers if is_streaming(h) is keep]
    return CallbackManager(found, parent_run_id=callbacks.parent_run_id)


def _without(config: Mapping[str, Any]) -> dict[str, Any]:
    callbacks = config.get("callbacks")
    configurable = config.get("configurable") or {}
    if _STREAM in configurable:
        kept = {key: value for key, value in configurable.items() if key != _STREAM}
        config = {**config, "configurable": kept}
    if isinstance(callbacks, list):
        return {**config, "callbacks": [h for h in callbacks if not is_streaming(h)]}
    if callbacks is None:
        return dict(config)
    manager = copy.copy(callbacks)
    manager.handlers = [h for h in callbacks.handlers if not is_streaming(h)]
    manager.inheritable_handlers = [
        h for h in callbacks.inheritable_handlers if not is_streaming(h)
    ]
    return {**config, "callbacks": manager}
