"""Hook classes, one for each point and kind, and the options that every hook has.

A hook *inspects* (reads), *decides* (allows or denies, may rewrite the input) or *transforms*
(returns the data, rewritten or not). Options of every hook, as class attributes or arguments of the
decorator (`otelhooks.hooks.functions`):

- ``priority``: low runs first, default 100; equal ones run in the order of registration.
- ``timeout``: seconds; expiry counts as raising. A synchronous hook also needs ``blocking``.
- ``blocking``: the hook waits (a prompt, a network call) and runs in a worker thread.
- ``background``: an inspector that the operation does not wait for.
- ``rule_id``: what verdicts of this hook are recorded under, instead of its qualified name.

Hooks of files also have their source (``policy_id``, ``policy_version``), a ``name`` that replaces
the qualified one, and a ``mode`` of their own. An object that is several hooks at once is a
`HookGroup`.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, Literal, TypeVar

from otelhooks import types
from otelhooks.hooks.context import HookContext

DataT = TypeVar("DataT")
ResultT = TypeVar("ResultT")
Kind = Literal["inspect", "decide", "transform", "gate"]


class Hook(abc.ABC):
    """What every hook has: where it runs, in which order, and how."""

    POINT: ClassVar[str]
    KIND: ClassVar[Kind]
    priority: int = 100
    timeout: float | None = None
    blocking: bool = False
    background: bool = False
    rule_id: str | None = None
    policy_id: str = "hook"
    policy_version: str = ""
    name: str = ""
    mode: str | None = None


class HookGroup(Hook):
    """One object that is several hooks: each part is registered at a point of its own."""

    @abc.abstractmethod
    def parts(self) -> Iterable[Hook]:
        """Return the hooks that it contains; called once, at registration.

        Raises:
            TypeError: The object is not valid.
        """

    def has_own(self, method: str, origin: type[HookGroup]) -> bool:
        """Return whether it, or its class, overrides a method of a base class."""
        return method in vars(self) or getattr(type(self), method) is not getattr(origin, method)


class InspectHook(Hook, Generic[DataT]):
    """A hook that reads."""

    KIND: ClassVar[Kind] = "inspect"

    @abc.abstractmethod
    async def run(self, context: HookContext, data: DataT) -> None:
        """Read the data.

        Args:
            context: State of the layer.
            data: Must not be changed.
        """


class DecideHook(Hook, Generic[DataT]):
    """A hook that allows or denies, and may rewrite the input."""

    KIND: ClassVar[Kind] = "decide"

    @abc.abstractmethod
    async def run(self, context: HookContext, data: DataT) -> types.HookResult:
        """Decide about the data.

        Args:
            context: State of the layer.
            data: Must not be changed in place.

        Returns:
            The decision. Anything else denies, and so does an exception.
        """
        return None  # type: ignore[return-value]  # super().run() decides nothing


class TransformHook(Hook, Generic[DataT, ResultT]):
    """A hook that returns the data, rewritten or not."""

    KIND: ClassVar[Kind] = "transform"

    @abc.abstractmethod
    async def run(self, context: HookContext, data: DataT) -> ResultT:
        """Transform the data.

        Args:
            context: State of the layer.
            data: What the hook before returned.

        Returns:
            The new data; None leaves it as it is.
        """
        return None  # type: ignore[return-value]  # super().run() changes nothing


class OnSessionStartHook(InspectHook[None]):
    """Runs when a conversation starts."""

    POINT: ClassVar[str] = "session_start"


class OnSessionEndHook(InspectHook[None]):
    """Runs when a conversation ends."""

    POINT: ClassVar[str] = "session_end"


class OnRunStartHook(InspectHook["types.RunInfo"]):
    """Runs when a framework's entry function is called."""

    POINT: ClassVar[str] = "run_start"


class OnRunEndHook(InspectHook["types.RunInfo"]):
    """Runs when it returns or fails; always, if the start ran."""

    POINT: ClassVar[str] = "run_end"


class PreTurnHook(DecideHook["types.Content"]):
    """Decides about a user's message; may return ``modified_prompt``."""

    POINT: ClassVar[str] = "pre_turn"


class PostTurnHook(InspectHook[str]):
    """Reads the answer's text."""

    POINT: ClassVar[str] = "post_turn"


class PreAgentHook(DecideHook["types.AgentCall"]):
    """Decides whether an agent starts; may return ``response``, a ready answer."""

    POINT: ClassVar[str] = "pre_agent"


class PostAgentTransformHook(TransformHook[Any, Any]):
    """Rewrites an agent's answer."""

    POINT: ClassVar[str] = "post_agent"


class PreModelCallHook(DecideHook["types.ModelCall"]):
    """Decides about a model call; may rewrite its messages and tools, or answer it."""

    POINT: ClassVar[str] = "pre_model_call"


class PostModelCallTransformHook(TransformHook["types.ModelResponse", Any]):
    """Rewrites a model's answer."""

    POINT: ClassVar[str] = "post_model_call"


class PostModelCallHook(InspectHook["types.ModelResponse"]):
    """Reads a model's answer."""

    POINT: ClassVar[str] = "post_model_call"


class OnModelErrorHook(TransformHook[Exception, Any]):
    """Returns an answer in place of a model's failure, or None."""

    POINT: ClassVar[str] = "on_model_error"


class PreToolCallDecideHook(DecideHook["types.ToolCall"]):
    """Decides about a tool call; may return ``modified_args`` or ``replace_args``."""

    POINT: ClassVar[str] = "pre_tool_call"


class PostToolCallTransformHook(TransformHook["types.ToolResult", Any]):
    """Rewrites or withholds a tool's result."""

    POINT: ClassVar[str] = "post_tool_call"


class PostToolCallHook(InspectHook["types.ToolResult"]):
    """Reads a tool's result, or its failure."""

    POINT: ClassVar[str] = "post_tool_call"


class OnToolErrorHook(TransformHook[Exception, Any]):
    """Returns a value in place of a tool's failure, or None."""

    POINT: ClassVar[str] = "on_tool_error"


class OnInteractionHook(
    TransformHook["types.AskQuestionInteractionSpec", "types.QuestionHookResult"]
):
    """Answers a question that an agent asks its user."""

    POINT: ClassVar[str] = "on_interaction"


class OnCompactionHook(InspectHook["types.Step"]):
    """Reads the summary of a history that was shortened."""

    POINT: ClassVar[str] = "on_compaction"


class StopHook(TransformHook["types.StopArgs", "types.StopHookResult"]):
    """Lets a turn end, or makes the agent continue with a reason."""

    POINT: ClassVar[str] = "stop"


class OnSubagentStartHook(InspectHook["types.SubagentInfo"]):
    """Runs when an agent starts another."""

    POINT: ClassVar[str] = "subagent_start"


class OnSubagentStopHook(InspectHook["types.SubagentInfo"]):
    """Runs when the other agent has ended."""

    POINT: ClassVar[str] = "subagent_stop"


class OnEventHook(InspectHook["types.HookEvent"]):
    """Called for every point after its chain, including denies."""

    POINT: ClassVar[str] = "event"


class CustomEventHook(DecideHook["types.ToolCall"]):
    """Decides about an event that the application fires itself.

    The event is passed as a call: its name is the event's, its arguments are the payload.
    """

    POINT: ClassVar[str] = "custom"


class PostParamsNormalizationHook(DecideHook["types.ToolCall"]):
    """Decides about a tool call whose arguments are validated, before its effect.

    For a tool that validates and acts in one step, this is part of pre_tool_call.
    """

    POINT: ClassVar[str] = "post_params_normalization"


class PostCoreActionHook(TransformHook[Any, Any]):
    """Rewrites or withholds what a tool has prepared, before a second step takes effect.

    For a tool with one step, this is part of post_tool_call.
    """

    POINT: ClassVar[str] = "post_core_action"


HOOK_CLASSES: tuple[type[Hook], ...] = (
    OnSessionStartHook,
    OnSessionEndHook,
    OnRunStartHook,
    OnRunEndHook,
    PreTurnHook,
    PostTurnHook,
    PreAgentHook,
    PostAgentTransformHook,
    PreModelCallHook,
    PostModelCallTransformHook,
    PostModelCallHook,
    OnModelErrorHook,
    PreToolCallDecideHook,
    PostToolCallTransformHook,
    PostToolCallHook,
    OnToolErrorHook,
    OnInteractionHook,
    OnCompactionHook,
    StopHook,
    OnSubagentStartHook,
    OnSubagentStopHook,
    OnEventHook,
)
"""Every hook class; ``KIND`` distinguishes a point's deciders, transformers and inspectors."""


def keyword(hook_class: type[Hook]) -> str:
    """Return a class's name as a decorator: ``PreTurnHook`` is ``pre_turn``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", hook_class.__name__.removesuffix("Hook")).lower()
