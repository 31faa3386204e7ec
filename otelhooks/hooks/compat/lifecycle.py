"""One class for all points, like a trait with no-op methods."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from otelhooks import types
from otelhooks.hooks import base
from otelhooks.hooks.functions import function_hook

__all__ = ["LifecycleHook"]

_NAMES = {"PreToolCallDecideHook": "pre_tool_call"}
_METHODS: dict[str, type[base.Hook]] = {
    _NAMES.get(cls.__name__, base.keyword(cls)): cls for cls in base.HOOK_CLASSES
}
_LIKE_A_POINT = re.compile("(pre|post|on)_")


def _allowed(answer: Any) -> Any:
    return types.HookResult() if answer is None else answer


class LifecycleHook(base.HookGroup):
    """A hook at every point whose method a subclass overrides.

    A method may be sync or async, and takes the context (named ``context``, or annotated
    `HookContext`), the data of its point, both or neither. A deciding method may return None, which
    allows. Methods are named like the decorators of the `otelhooks.hooks` classes, and inspect,
    decide or transform as those do (``pre_tool_call`` decides; ``post_tool_call`` reads,
    ``post_tool_call_transform`` rewrites).

    Raises:
        TypeError: A subclass defines a method whose name looks like a point's but is not one: it
            would never run.
    """

    KIND: ClassVar[base.Kind] = "inspect"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in vars(cls).items():
            if name not in _METHODS and _LIKE_A_POINT.match(name) and callable(member):
                near = difflib.get_close_matches(name, _METHODS, n=1)
                hint = f", did you mean `{near[0]}`?" if near else "; start helpers with `_`"
                raise TypeError(f"`{cls.__qualname__}.{name}` is the method of no point{hint}")

    def parts(self) -> Iterator[base.Hook]:
        """Return a hook for each method that is overridden.

        Raises:
            TypeError: A method takes what its point does not have.
        """
        for name, hook_class in _METHODS.items():
            if self.has_own(name, LifecycleHook):
                yield function_hook(
                    hook_class,
                    getattr(self, name),
                    priority=self.priority,
                    timeout=self.timeout,
                    blocking=self.blocking,
                    background=self.background and hook_class.KIND == "inspect",
                    rule_id=self.rule_id,
                    mode=self.mode,
                    may_be_bare=True,
                    read=_allowed if hook_class.KIND == "decide" else None,
                )

    def on_session_start(self, *args: Any, **kwargs: Any) -> Any:
        """Called when a conversation starts; without data."""

    def on_session_end(self, *args: Any, **kwargs: Any) -> Any:
        """Called when a conversation ends; without data."""

    def on_run_start(self, *args: Any, **kwargs: Any) -> Any:
        """Called when a framework's entry function is called: `RunInfo`."""

    def on_run_end(self, *args: Any, **kwargs: Any) -> Any:
        """Called when the entry function has returned or failed: `RunInfo`."""

    def pre_turn(self, *args: Any, **kwargs: Any) -> Any:
        """Decide about a user's message; return a `HookResult`."""

    def post_turn(self, *args: Any, **kwargs: Any) -> Any:
        """Read the answer: a `str` with ``.text`` and ``.usage``."""

    def pre_agent(self, *args: Any, **kwargs: Any) -> Any:
        """Decide whether an agent starts: `AgentCall`; return a `HookResult`."""

    def post_agent_transform(self, *args: Any, **kwargs: Any) -> Any:
        """Return an agent's answer, rewritten; None keeps it."""

    def pre_model_call(self, *args: Any, **kwargs: Any) -> Any:
        """Decide about a model call: `ModelCall`; return a `HookResult`."""

    def post_model_call_transform(self, *args: Any, **kwargs: Any) -> Any:
        """Return a model's answer, rewritten: `ModelResponse`; None keeps it."""

    def post_model_call(self, *args: Any, **kwargs: Any) -> Any:
        """Read a model's answer: `ModelResponse`."""

    def on_model_error(self, *args: Any, **kwargs: Any) -> Any:
        """Return an answer in place of a model's failure: the exception; None passes it on."""

    def pre_tool_call(self, *args: Any, **kwargs: Any) -> Any:
        """Decide about a tool call: `ToolCall`; return a `HookResult`."""

    def post_tool_call_transform(self, *args: Any, **kwargs: Any) -> Any:
        """Return a tool's result, rewritten: `ToolResult`; None keeps it."""

    def post_tool_call(self, *args: Any, **kwargs: Any) -> Any:
        """Read a tool's result or failure: `ToolResult`."""

    def on_tool_error(self, *args: Any, **kwargs: Any) -> Any:
        """Return a value in place of a tool's failure: the exception; None passes it on."""

    def on_interaction(self, *args: Any, **kwargs: Any) -> Any:
        """Answer an agent's question: `AskQuestionInteractionSpec`; None leaves it to others."""

    def on_compaction(self, *args: Any, **kwargs: Any) -> Any:
        """Read the summary of a history that was shortened: `Step`."""

    def stop(self, *args: Any, **kwargs: Any) -> Any:
        """Make the agent continue with a `StopHookResult`: `StopArgs`; None lets it stop."""

    def on_subagent_start(self, *args: Any, **kwargs: Any) -> Any:
        """Called when an agent starts another: `SubagentInfo`."""

    def on_subagent_stop(self, *args: Any, **kwargs: Any) -> Any:
        """Called when the other agent has ended: `SubagentInfo`."""

    def on_event(self, *args: Any, **kwargs: Any) -> Any:
        """Called for every point after its chain: `HookEvent`."""
