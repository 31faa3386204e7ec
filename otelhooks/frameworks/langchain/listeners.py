# pyright: basic, reportMissingImports=false
"""Listeners that get a run through callbacks while it runs, such as ``astream_events``.

What a hook may still change, or what did not come from a run, must not reach them from the graph:
they are left out of its run, and get it as a whole once it is decided.
"""

from __future__ import annotations

import copy
import functools
import sys
import types
from collections.abc import Mapping
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.objects.outer import known
from otelhooks.frameworks.kit.streams.returned import stepped

__all__ = ["HeardRun", "apart", "is_streaming", "without_tokens"]

_CONFIG = "langchain_core.runnables.config:var_child_runnable_config"
_MANAGER = "langchain_core.callbacks.manager:{}CallbackManager"
_STREAM = "__pregel_stream"
"""Key under which a graph finds the stream of its outer graph."""


class HeardRun(kit.Run):
    """A run that may have listeners.

    Attributes:
        title: Its name for listeners.
        given: Its input.
        config: Its configuration.
        further: All other arguments, by name.
        surroundings: Configuration in the surroundings, if listeners are left out.
        left_out: Manager of the listeners that are notified once it is decided.
        passed: What they get.
        heard: Receives its end.
    """

    pauses = ("langgraph.errors:GraphBubbleUp",)
    title: str
    given: Any
    config: Any
    further: Mapping[str, Any]
    surroundings: Any = None
    left_out: Any = None
    passed: list[Any]
    heard: Any = None

    def runs(self, wrapped: Any, given: Any) -> Any:
        """Run it with what hooks wrote; listeners are left out while a hook may change it."""
        if not self.holds_back or not self.leaves_out():
            return wrapped(given, self.config, **self.further)
        items = wrapped(given, quiet(self.config or {}), **self.further)
        is_stream = hasattr(items, "__next__") or hasattr(items, "__anext__")
        quietly = functools.partial(known, kit.native(_CONFIG), quiet(self.surroundings) or None)
        return stepped(items, quietly) if is_stream else items

    def leaves_out(self) -> bool:
        """Find who streams it: handlers, or an outer graph; return whether anything does."""
        config, around = self.config or {}, kit.native(_CONFIG).get() or {}
        given = config.get("callbacks") or around.get("callbacks") or []
        handlers = given if isinstance(given, list) else given.handlers
        handlers = [handler for handler in handlers if is_streaming(handler)]
        forwards = any(_STREAM in (c.get("configurable") or {}) for c in (config, around))
        if not handlers and not forwards:
            return False
        self.surroundings = around
        make = kit.native(_MANAGER.format("Async" if self.is_async else ""))
        self.left_out = make(handlers, parent_run_id=getattr(given, "parent_run_id", None))
        return True

    def hear(self, items: list[Any]) -> Any:
        """Notify left-out listeners that it starts; keep items for them."""
        if self.left_out is None:
            return
        if self.heard is None:
            about = {"name": self.title, "run_id": (self.config or {}).get("run_id")}
            self.heard = yield self.left_out.on_chain_start(None, self.given, **about)
            self.passed = []
        self.passed += items

    def delivered(self) -> Any:
        """Pass its result to left-out listeners."""
        if self.heard is not None:
            yield self.heard.on_chain_end(self.output(self.passed))

    def output(self, items: list[Any]) -> Any:
        """Return a run's result, for listeners that get it as a whole."""
        raise NotImplementedError


def apart(callbacks: Any, about: Mapping[str, Any], *, is_async: bool) -> tuple[Any, Any]:
    """Return callbacks without what streams one call, and a manager of what does; None for none.

    What happens inside the call is streamed: it has verdicts of its own.

    Args:
        callbacks: A manager, or handlers.
        about: The call's ``tags`` and ``metadata``, if any.
        is_async: Whether the manager's methods are awaited.
    """
    make = kit.native(_MANAGER.format("Async" if is_async else ""))
    if isinstance(callbacks, list):
        callbacks = make(list(callbacks), inheritable_handlers=list(callbacks))
    streaming = [one for one in getattr(callbacks, "handlers", ()) if is_streaming(one)]
    if not streaming:
        return callbacks, None
    silent = copy.copy(callbacks)
    silent.handlers = _silent(callbacks.handlers)
    further = {name: about.get(name) for name in ("tags", "metadata")}
    return silent, make(streaming, parent_run_id=callbacks.parent_run_id, **further)


def is_streaming(handler: Any) -> bool:
    """Return whether a callback handler passes on what it hears at once."""
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
    """Return a copy of a callback manager that does not report tokens.

    Listeners get the message as a whole, from the manager itself, once it is decided.
    """
    if run_manager is None:
        return None
    manager = _silenced(run_manager)
    manager.on_llm_new_token = manager.on_stream_event = _nothing
    if hasattr(run_manager, "get_sync"):  # where a model streams in a thread
        manager.get_sync = lambda: without_tokens(run_manager.get_sync())
    return manager


def _silenced(manager: Any) -> Any:
    manager = copy.copy(manager)
    manager.handlers = _silent(manager.handlers)
    manager.inheritable_handlers = _silent(manager.inheritable_handlers)
    return manager


def _silent(handlers: list[Any]) -> list[Any]:
    return [handler for handler in handlers if not is_streaming(handler)]


@types.coroutine
def _nothing(*_args: Any, **_kwargs: Any) -> Any:
    """Do nothing, awaited or not."""
    yield from ()
