"""Hooks and policies that are bound to tools and run before and after each step of a call.

Names and signatures are those of the Hedera Agent Kit (Source: hedera-agent-kit 3.4.2,
``shared.hook`` and ``shared.policy``). A tool that validates, prepares and commits in steps of its
own has them at these four places; with any other tool the first two are part of pre_tool_call and
the last two of post_tool_call. Policies judge after all rewrites.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import inspect
from collections.abc import Collection, Iterator
from typing import Any, ClassVar, NamedTuple, cast

from otelhooks import types
from otelhooks.hooks import base
from otelhooks.hooks.calls import Call, copy_json, same_json
from otelhooks.hooks.context import OperationContext
from otelhooks.hooks.drive import then
from otelhooks.hooks.stages import StageParams

__all__ = [
    "AbstractHook",
    "AbstractPolicy",
    "PostCoreActionParams",
    "PostParamsNormalizationParams",
    "PostSecondaryActionParams",
    "PreToolExecutionParams",
]

PreToolExecutionParams = StageParams
PostParamsNormalizationParams = StageParams
PostCoreActionParams = StageParams
PostSecondaryActionParams = StageParams

_LAST = 2**31
"""Priority of policies."""

_FIELDS = ("raw_params", "normalized_params", "core_action_result", "tool_result")
_STEPS = ("normalized_params", "core_action_result")
"""Fields that an adapter fills for a tool with steps of its own."""


class _Stage(NamedTuple):
    """A place beside a tool's steps.

    Attributes:
        name: The name after ``should_block_``.
        point: The class of hooks at that place.
        field: Field of `StageParams` that hooks may rewrite there.
    """

    name: str
    point: type[base.Hook]
    field: str

    @property
    def hook_method(self) -> str:
        return f"{self.name}_hook"

    @property
    def policy_method(self) -> str:
        return f"should_block_{self.name}"


_STAGES = (
    _Stage("pre_tool_execution", base.PreToolCallDecideHook, "raw_params"),
    _Stage("post_params_normalization", base.PostParamsNormalizationHook, "normalized_params"),
    _Stage("post_core_action", base.PostCoreActionHook, "core_action_result"),
    _Stage("post_secondary_action", base.PostToolCallTransformHook, "tool_result"),
)


class AbstractHook(base.HookGroup):
    """A hook of some tools; a subclass overrides the methods of the places it needs.

    A method may be sync or async; what it returns is ignored, what it raises blocks. It rewrites by
    changing or assigning the field of its place: ``params.raw_params``, ``normalized_params``,
    ``core_action_result``, ``tool_result``. A tool that has failed does not reach the last two
    places. ``context`` is the framework's own context of the tool, else the `HookContext`.

    Attributes:
        name: For people; the class's own name if empty.
        description: For people.
        relevant_tools: Exact names; ``"*"`` means all, an empty collection none.
    """

    KIND: ClassVar[base.Kind] = "inspect"

    name: str = ""
    description: str = ""
    relevant_tools: Collection[str]

    def parts(self) -> Iterator[base.Hook]:
        """Return a hook for each method that is overridden.

        Raises:
            TypeError: `relevant_tools` is missing or not a collection of names.
        """
        _tools(self)
        for stage in _STAGES:
            if self.has_own(stage.hook_method, AbstractHook):
                yield _part(self, stage)

    async def pre_tool_execution_hook(self, context: Any, params: StageParams, method: str) -> Any:
        """Runs before anything of the call has happened."""

    async def post_params_normalization_hook(
        self, context: Any, params: StageParams, method: str
    ) -> Any:
        """Runs between the validation of the arguments and the tool's work."""

    async def post_core_action_hook(self, context: Any, params: StageParams, method: str) -> Any:
        """Runs after the tool's work; a transaction that it prepares is not sent yet."""

    async def post_secondary_action_hook(
        self, context: Any, params: StageParams, method: str
    ) -> Any:
        """Runs after the whole call, too late to prevent anything."""


class AbstractPolicy(AbstractHook):
    """Says when to block some tools; a subclass overrides one ``should_block_...`` or more.

    They may be sync or async and return True or False; anything else, and an exception, blocks. The
    reason is ``Action blocked by policy: NAME (DESCRIPTION)``.

    Raises:
        TypeError: A subclass overrides none of them, or overrides a method of `AbstractHook`, which
            calls them.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for stage in _STAGES:
            if _overrides(cls, AbstractPolicy, stage.hook_method):
                raise TypeError(_misplaced(cls, stage))
        if not any(_overrides(cls, AbstractPolicy, stage.policy_method) for stage in _STAGES):
            listed = ", ".join(stage.policy_method for stage in _STAGES)
            raise TypeError(f"`{cls.__qualname__}` overrides none of {listed}")

    def parts(self) -> Iterator[base.Hook]:
        """Return a hook for each method that is overridden.

        Raises:
            TypeError: `relevant_tools` is missing or not a collection of names, or the object
                overrides a method of `AbstractHook`.
        """
        _tools(self)
        for stage in _STAGES:
            if self.has_own(stage.hook_method, AbstractPolicy):
                raise TypeError(_misplaced(type(self), stage))
            if self.has_own(stage.policy_method, AbstractPolicy):
                yield _part(self, stage)

    async def pre_tool_execution_hook(self, context: Any, params: StageParams, method: str) -> Any:
        """Raise ValueError if it blocks, for callers that run hooks by hand."""
        await self._stop(_STAGES[0], context, params, method)

    async def post_params_normalization_hook(
        self, context: Any, params: StageParams, method: str
    ) -> Any:
        """Do the same once the parameters are normalised."""
        await self._stop(_STAGES[1], context, params, method)

    async def post_core_action_hook(self, context: Any, params: StageParams, method: str) -> Any:
        """Do the same after the core action."""
        await self._stop(_STAGES[2], context, params, method)

    async def post_secondary_action_hook(
        self, context: Any, params: StageParams, method: str
    ) -> Any:
        """Do the same after the secondary action."""
        await self._stop(_STAGES[3], context, params, method)

    async def _stop(self, stage: _Stage, context: Any, params: StageParams, method: str) -> None:
        if {"*", method}.isdisjoint(_tools(self)):
            return
        answer = getattr(self, stage.policy_method)(context, params, method)
        if _is_yes(await answer if inspect.isawaitable(answer) else answer, stage.policy_method):
            raise ValueError(_blocked(self))

    async def should_block_pre_tool_execution(
        self, context: Any, params: StageParams, method: str
    ) -> bool:
        """Return whether to block before anything of the call has happened."""
        return False

    async def should_block_post_params_normalization(
        self, context: Any, params: StageParams, method: str
    ) -> bool:
        """Return whether to block now that the arguments are validated."""
        return False

    async def should_block_post_core_action(
        self, context: Any, params: StageParams, method: str
    ) -> bool:
        """Return whether to block what the tool has prepared."""
        return False

    async def should_block_post_secondary_action(
        self, context: Any, params: StageParams, method: str
    ) -> bool:
        """Return whether to keep the result back; nothing can be prevented any more."""
        return False


def _overrides(cls: type, origin: type, method: str) -> bool:
    return getattr(cls, method) is not getattr(origin, method)


def _misplaced(cls: type, stage: _Stage) -> str:
    msg = f"`{cls.__qualname__}` overrides `{stage.hook_method}`"
    return f"{msg}: a policy blocks in `{stage.policy_method}`"


def _tools(hook: AbstractHook) -> Collection[str]:
    """Return the names that a hook is bound to.

    Raises:
        TypeError: The names are missing or not a collection of names.
    """
    name = type(hook).__qualname__
    try:
        tools: Any = hook.relevant_tools
    except (AttributeError, NotImplementedError):
        msg = f'`{name}` has no `relevant_tools`: list names, ["*"] for all, [] for none'
        raise TypeError(msg) from None
    is_listed = isinstance(tools, (list, tuple, set, frozenset))
    if not is_listed or not all(isinstance(tool, str) for tool in cast("list[Any]", tools)):
        msg = f"`relevant_tools` of `{name}` is {tools!r}: it must be a list of names"
        raise TypeError(msg)
    return cast("Collection[str]", tools)


def _is_yes(answer: Any, name: str) -> bool:
    """Return a policy's answer.

    Raises:
        TypeError: It is not a bool.
    """
    if not isinstance(answer, bool):
        raise TypeError(f"`{name}` returned {type(answer).__name__}, not a bool")
    return answer


def _label(hook: AbstractHook) -> str:
    return hook.name or type(hook).__qualname__


def _blocked(policy: AbstractHook) -> str:
    about = f" ({policy.description})" if policy.description else ""
    return f"Action blocked by policy: {_label(policy)}{about}"


def _part(hook: AbstractHook, stage: _Stage) -> base.Hook:
    """Return one place of a hook or policy as a hook of its point."""
    kind = _Decides if stage.point.KIND == "decide" else _Transforms
    made: Any = type(kind.__name__, (kind, stage.point), {})
    return made(hook, stage)


class _Part(abc.ABC):
    """One place of a hook or policy."""

    def __init__(self, hook: AbstractHook, stage: _Stage) -> None:
        self.hook = hook
        self.field = stage.field
        self.is_policy = isinstance(hook, AbstractPolicy)
        method = stage.policy_method if self.is_policy else stage.hook_method
        self.method: Any = getattr(hook, method)
        self.name = f"{type(hook).__qualname__}.{method}"
        self.rule_id = hook.rule_id or _label(hook)
        self.priority = _LAST if self.is_policy else hook.priority
        self.policy_id = "code" if self.is_policy else hook.policy_id
        self.mode = hook.mode
        self.timeout = hook.timeout
        self.blocking = hook.blocking

    def call(self, params: StageParams, data: Any, value: Any) -> Any:
        """Call the method; return its answer, or an awaitable of it, as hooks of the point do.

        Args:
            params: The parameters of the operation.
            data: What hooks of the point get.
            value: Present value of the field, if the tool has no such step of its own.
        """
        if not (params.is_staged and self.field in _STEPS):
            setattr(params, self.field, _own(value))
        before = {field: _contents(getattr(params, field)) for field in _FIELDS}

        def read(answer: Any) -> Any:
            changed = [
                field
                for field in _FIELDS
                if not same_json(_contents(getattr(params, field)), before[field])
            ]
            may_change = [] if self.is_policy else [self.field]
            if changed not in ([], may_change):
                allowed = f"only `{self.field}` can be" if may_change else "a policy cannot do that"
                raise ValueError(f"`{self.name}` changed `{changed[0]}`: {allowed}")
            if self.is_policy and _is_yes(answer, self.name):
                return types.HookResult(allow=False, message=_blocked(self.hook))
            if not changed:
                return self.unchanged
            params.rewritten_by.append(self.rule_id)
            return self.rewritten(params, data)

        return then(self.method(params.context, params, params.method), read)

    def is_bound(self, tool: str, server: str | None, context: Any) -> bool:
        """Return whether a tool is one of those that the hook is bound to."""
        tools = _tools(self.hook)
        canonical = context.canonical if isinstance(context, OperationContext) else ()
        names = {"*", tool, f"{server}/{tool}", *canonical}
        return not names.isdisjoint(tools)

    @property
    @abc.abstractmethod
    def unchanged(self) -> Any:
        """The answer of a hook of this point that changes nothing."""

    @abc.abstractmethod
    def rewritten(self, params: StageParams, data: Any) -> Any:
        """Return the answer of a hook of this point that rewrites."""


class _Decides(_Part):
    def run(self, context: Any, data: Any) -> Any:
        if not self.is_bound(str(data.name), data.server_name, context):
            return self.unchanged
        params = _params(context, str(data.name))
        if params.raw_params is None:
            params.raw_params = copy_json(data.args)
        return self.call(params, data, data.args)

    @property
    def unchanged(self) -> types.HookResult:
        return types.HookResult()

    def rewritten(self, params: StageParams, data: Any) -> types.HookResult:
        if params.is_staged and self.field in _STEPS:
            return self.unchanged  # the code that runs the steps takes the value from `params`
        value: Any = getattr(params, self.field)
        if not isinstance(value, dict):
            raise TypeError(f"`{self.field}` became {type(value).__name__}, not a dict")
        return types.HookResult(replace_args=cast("dict[str, Any]", value))


class _Transforms(_Part):
    def run(self, context: Any, data: Any) -> Any:
        call: Call | None = getattr(context, "call", None)
        name, server, value = context.known("tool_name"), None, data
        if isinstance(data, types.ToolResult):
            if data.error is not None:
                return self.unchanged
            name, server, value = str(data.name), data.server_name, data.result
        if not self.is_bound(name, server, context):
            return self.unchanged
        params = _params(context, name)
        if call is not None and not params.is_staged:
            params.normalized_params = copy_json(call.args)
            params.raw_params = params.raw_params or copy_json(call.args)
            params.core_action_result = params.core_action_result or value
        return self.call(params, data, value)

    @property
    def unchanged(self) -> None:
        return None

    def rewritten(self, params: StageParams, data: Any) -> Any:
        value = getattr(params, self.field)
        if isinstance(data, types.ToolResult):
            return data.model_copy(update={"result": value})
        return value


def _params(context: Any, tool: str) -> StageParams:
    """Return what the hooks of one operation share."""
    if not isinstance(context, OperationContext):
        return StageParams(tool, context)
    if context.stages is None:
        context.stages = StageParams(tool, context)
    return context.stages


def _own(value: Any) -> Any:
    """Return a copy that a hook may change in place, for kinds of values that can be copied."""
    if dataclasses.is_dataclass(value) or hasattr(value, "model_copy"):
        return copy.copy(value)
    return copy_json(value)


def _contents(value: Any) -> Any:
    """Return the part of a value that can be compared later: a copy, with an object's fields."""
    if hasattr(value, "__dict__"):
        return [type(value), copy_json(vars(value))]
    return copy_json(value)
