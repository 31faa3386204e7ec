# pyright: basic, reportMissingImports=false
"""Who listens to a run through callbacks while it runs, such as ``astream_events``.

What a hook may still change, or what no run gave, does not reach them from the graph: they are left
out of its run, and told of it as a whole once it is decided.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from otelhooks.frameworks import kit

__all__ = ["HeardRun", "Listeners", "is_streaming", "without_tokens"]

_CONFIG = "langchain_core.runnables.config:var_child_runnable_config"
_MANAGER = "langchain_core.callbacks.manager:{}CallbackManager"
_STREAM = "__pregel_stream"
"""Key under which a graph finds the stream of the one that it runs in."""


class HeardRun(kit.Run):
    """A run that may be listened to.

    Attributes:
        title: What listeners call it.
        given: What it was called with.
        config: Likewise.
        further: All else, by name.
        left_out: Those who are told of it once it is decided.
        heard: What its end is to be told to.
    """

    pauses = ("langgraph.errors:GraphBubbleUp",)
    title: str
    given: Any
    config: Any
    further: Mapping[str, Any]
    left_out: Listeners | None = None
    heard: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[Any] = []

    def runs(self, wrapped: Any, given: Any) -> Any:
        """Run it with what hooks wrote; listeners are left out while a hook may change it."""
        listeners = Listeners(self.config) if self.holds_back else None
        if listeners is None or not listeners.any:
            return wrapped(given, self.config, **self.further)
        self.left_out = listeners
        return listeners.without(wrapped(given, quiet(listeners.config), **self.further))

    def hear(self, items: list[Any]) -> Any:
        """Tell those who were left out that it starts; keep items for them."""
        self.passed += items
        if self.heard is None and self.left_out is not None:
            self.heard = yield self.left_out.start(self.title, self.given, is_async=self.is_async)

    def delivered(self) -> Any:
        """Tell those who were left out what it came to."""
        if self.heard is not None:
            yield self.heard.on_chain_end(self.output(self.passed))

    def output(self, items: list[Any]) -> Any:
        """Return what a run came to, for who listens to it as a whole."""
        raise NotImplementedError


class Listeners:
    """The callback handlers of one run that stream it.

    Args:
        config: What the run was given.
    """

    def __init__(self, config: Any) -> None:
        self.config: Mapping[str, Any] = config or {}
        self._ambient: Mapping[str, Any] = kit.native(_CONFIG).get() or {}
        given = self.config.get("callbacks") or self._ambient.get("callbacks") or []
        handlers = given if isinstance(given, list) else given.handlers
        self._handlers = [handler for handler in handlers if is_streaming(handler)]
        self._parent = getattr(given, "parent_run_id", None)

    @property
    def any(self) -> bool:
        """Whether there are any, or an outer graph streams what this one does."""
        configs = (self.config, self._ambient)
        forwards = any(_STREAM in (one.get("configurable") or {}) for one in configs)
        return forwards or bool(self._handlers)

    def without(self, items: Any) -> Any:
        """Return a run's items, which come where they are not in the surroundings either."""
        is_stream = hasattr(items, "__next__") or hasattr(items, "__anext__")
        return _Steps(items, quiet(self._ambient) or None) if is_stream else items

    def start(self, name: str, given: Any, *, is_async: bool) -> Any:
        """Tell them that the run starts; return, or have awaited, what its end is told to."""
        make = kit.native(_MANAGER.format("Async" if is_async else ""))
        manager = make(self._handlers, parent_run_id=self._parent)
        return manager.on_chain_start(None, given, name=name, run_id=self.config.get("run_id"))


class _Steps:
    """A run's items, each made with another configuration around it."""

    def __init__(self, items: Any, around: Any) -> None:
        self._items, self._around = items, around

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        variable = kit.native(_CONFIG)
        token = variable.set(self._around)
        try:
            yield
        finally:
            variable.reset(token)

    def __iter__(self) -> Any:
        return self

    __aiter__ = __iter__

    def __next__(self) -> Any:
        with self._inside():
            return next(self._items)

    async def __anext__(self) -> Any:
        with self._inside():
            return await anext(self._items)

    def close(self) -> Any:
        """Close them."""
        self._items.close()

    async def aclose(self) -> Any:
        """Close them."""
        await self._items.aclose()


def is_streaming(handler: Any) -> bool:
    """Return whether a callback handler passes on what it hears while it is said."""
    kinds = sys.modules.get("langchain_core.tracers._streaming")
    names = ("_StreamingCallbackHandler", "_V2StreamingCallbackHandler")
    # protocols: a handler need not derive from them
    return any(isinstance(handler, getattr(kinds, name, ())) for name in names)


def quiet(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without handlers that stream, and without an outer graph's stream."""
    config = dict(config)
    configurable, callbacks = config.get("configurable") or {}, config.get("callbacks")
    if _STREAM in configurable:
        config["configurable"] = {k: one for k, one in configurable.items() if k != _STREAM}
    if isinstance(callbacks, list):
        config["callbacks"] = _silent(callbacks)
    elif callbacks is not None:
        config["callbacks"] = _silenced(callbacks)
    return config


def without_tokens(run_manager: Any) -> Any:
    """Return a copy of a callback manager that tells nobody of tokens.

    Listeners get the message as a whole, from the manager itself, once it is decided about.
    """
    if run_manager is None:
        return None
    manager = _silenced(run_manager)
    manager.on_llm_new_token = manager.on_stream_event = _nothing
    return manager


def _silenced(manager: Any) -> Any:
    manager = copy.copy(manager)
    manager.handlers = _silent(manager.handlers)
    manager.inheritable_handlers = _silent(manager.inheritable_handlers)
    return manager


def _silent(handlers: list[Any]) -> list[Any]:
    return [handler for handler in handlers if not is_streaming(handler)]


class _Done:
    """What may be awaited, or not, and does nothing."""

    def __await__(self) -> Any:
        return iter(())


def _nothing(*_args: Any, **_kwargs: Any) -> Any:
    return _Done()
