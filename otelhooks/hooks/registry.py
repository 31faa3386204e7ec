"""The one registry for every way to write a hook, and the snapshot that a dispatch uses."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, cast

from otelhooks.hooks.base import (
    HOOK_CLASSES,
    CustomEventHook,
    Hook,
    HookGroup,
    Kind,
    PostCoreActionHook,
    PostParamsNormalizationHook,
)
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.functions import FunctionHook
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.origins import Parts
from otelhooks.hooks.verdict import Judge

__all__ = ["EMPTY", "HookSet", "PointHooks", "Registration", "is_observed", "registrations"]


class Registration:
    """One hook at one point.

    Attributes:
        point: Point name of design section 4.
        kind: ``inspect``, ``decide``, ``transform`` or ``gate``.
        priority: Low runs first.
        call: Function of context and data; may return an awaitable.
        hook: The object that the user registered.
        source: Qualified name, for spans, logs and audit.
        rule_id: Rule id of its verdicts.
        policy_id: Source of its verdicts: ``hook``, or a file's stem.
        policy_version: Content hash of that file.
        mode: ``enforce`` or ``monitor``; None for the process's mode.
        judge: The rules behind it, if the hook comes from `otelhooks.policy.enforce`.
        gate: The hook itself, if it is a gate.
        plain: True if `call` can run in place: it is synchronous and has no time limit.
    """

    __slots__ = (
        "background",
        "blocking",
        "call",
        "gate",
        "hook",
        "judge",
        "kind",
        "mode",
        "plain",
        "point",
        "policy_id",
        "policy_version",
        "priority",
        "rule_id",
        "source",
        "timeout",
    )

    def __init__(self, point: str, kind: Kind, hook: Hook) -> None:
        function: Any
        self.call: Callable[[HookContext, Any], Any]
        self.gate: Gate | None = None
        if isinstance(hook, FunctionHook):
            function, self.call = hook.f, hook.invoke
        elif isinstance(hook, Gate):
            self.gate = hook
            function = self.call = cast("Any", hook.admit)
        else:
            function = self.call = cast("Any", hook).run  # every hook class has it
        self.source: str = hook.name or type(hook).__qualname__
        if isinstance(hook, FunctionHook):
            self.source = getattr(_innermost(function), "__qualname__", self.source)
        is_async = inspect.iscoroutinefunction(function)
        if hook.background and kind != "inspect":
            msg = f"`{self.source}` {kind}s: only a hook that inspects can run in the background"
            raise TypeError(msg)
        if hook.timeout is not None and not is_async and not hook.blocking:
            msg = f"`{self.source}` is synchronous: a timeout needs blocking=True"
            raise TypeError(msg)
        self.point: str = point
        self.kind: Kind = kind
        self.hook: Hook = hook
        self.priority: int = hook.priority
        self.timeout: float | None = hook.timeout
        self.blocking: bool = hook.blocking
        self.background: bool = hook.background
        self.rule_id: str = hook.rule_id or self.source
        self.policy_id: str = hook.policy_id
        self.policy_version: str = hook.policy_version
        self.mode: str | None = hook.mode
        self.judge: Judge | None = getattr(hook, "judge", None)
        self.plain: bool = not is_async and not hook.blocking

    @property
    def place(self) -> str:
        """File and line of the hook's function; empty if they are not known."""
        hook: Any = self.hook
        function: Any = hook.f if isinstance(hook, FunctionHook) else getattr(hook, "run", hook)
        code = getattr(_innermost(function), "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def _innermost(function: Any) -> Any:
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(cast("Any", function).func)
    return function


_CLASSES = (*HOOK_CLASSES, CustomEventHook, PostParamsNormalizationHook, PostCoreActionHook)


def is_observed(registration: Registration, monitor: bool) -> bool:
    """Return whether a hook's block is only recorded; its own mode overrides the process's."""
    return monitor if registration.mode is None else registration.mode == "monitor"


def registrations(hook: Any) -> list[Registration]:
    """Return the registrations of an object: one for each point that it serves.

    Raises:
        ValueError: It is not a hook.
        TypeError: Its options contradict its kind.
    """
    if isinstance(hook, HookGroup):
        return [found for part in hook.parts() for found in registrations(part)]
    found = [Registration(c.POINT, c.KIND, hook) for c in _CLASSES if isinstance(hook, c)]
    if isinstance(hook, Gate):
        found += [Registration(point, hook.KIND, hook) for point in hook.points]
    if not found:
        msg = f"Unknown hook type: {type(hook)}"
        raise ValueError(msg)
    return found


class PointHooks:
    """The hooks of one point, in the order in which they run."""

    __slots__ = ("background", "deciders", "gates", "inspectors", "transformers")

    def __init__(self, hooks: Iterable[Registration]) -> None:
        ordered = sorted(hooks, key=lambda registration: registration.priority)
        self.gates: tuple[Registration, ...] = tuple(r for r in ordered if r.kind == "gate")
        self.deciders: tuple[Registration, ...] = tuple(r for r in ordered if r.kind == "decide")
        self.transformers: tuple[Registration, ...] = tuple(
            r for r in ordered if r.kind == "transform"
        )
        self.inspectors: tuple[Registration, ...] = tuple(
            r for r in ordered if r.kind == "inspect" and not r.background
        )
        self.background: tuple[Registration, ...] = tuple(
            r for r in ordered if r.kind == "inspect" and r.background
        )

    def __bool__(self) -> bool:
        return bool(
            self.deciders or self.transformers or self.inspectors or self.background or self.gates
        )


_NONE = PointHooks(())


_NORMALIZED = PostParamsNormalizationHook.POINT
_CORE = PostCoreActionHook.POINT


class HookSet:
    """An immutable set of hooks; a dispatch uses the one it started with.

    Args:
        hooks: In the order of registration.
        is_staged: Whether it is for a tool in steps, see `in_stages`.
    """

    __slots__ = (
        "_in_stages",
        "_points",
        "_tracing",
        "all",
        "can_deny",
        "has_background",
        "has_events",
        "traces",
        "transforms_results",
    )

    def __init__(self, hooks: Iterable[Registration] = (), *, is_staged: bool = False) -> None:
        self.all: tuple[Registration, ...] = tuple(hooks)
        by_point: dict[str, list[Registration]] = {}
        for registration in self.all:
            by_point.setdefault(registration.point, []).append(registration)
        if not is_staged:
            before, after = by_point.get(_NORMALIZED), by_point.get(_CORE)
            if before:
                by_point["pre_tool_call"] = by_point.get("pre_tool_call", []) + before
            if after:
                by_point["post_tool_call"] = after + by_point.get("post_tool_call", [])
        self._in_stages: HookSet | None = self if is_staged else None
        self._points = {point: PointHooks(found) for point, found in by_point.items()}
        self.has_events: bool = "event" in self._points
        self.has_background: bool = any(r.background for r in self.all)
        self.transforms_results: bool = bool(self.at("post_tool_call").transformers)
        tracing: Any = (r.judge for r in self.all if getattr(r.judge, "traces", False))
        self._tracing: Any = next(tracing, None)
        self.traces: bool = self._tracing is not None
        self.can_deny: bool = any(r.kind in {"decide", "transform", "gate"} for r in self.all)

    def at(self, point: str) -> PointHooks:
        """Return the hooks of a point; an empty set if there are none."""
        return self._points.get(point, _NONE)

    def outcome(self, result: Any, error: BaseException | None) -> Parts | None:
        """Return what rules about origins remember of a tool's result; None if that is unknown."""
        return self._tracing.outcome(result, error) if self.traces else None

    def in_stages(self) -> HookSet:
        """Return the set for a tool that normalizes, acts and commits in separate steps.

        The hooks of these steps then run between them, not at pre_tool_call and post_tool_call.
        """
        if self._in_stages is None:
            self._in_stages = HookSet(self.all, is_staged=True)
        return self._in_stages

    def __bool__(self) -> bool:
        return bool(self.all)

    def __add__(self, other: HookSet) -> HookSet:
        if not other.all:
            return self
        return HookSet(self.all + other.all) if self.all else other


EMPTY = HookSet()
