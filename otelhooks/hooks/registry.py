"""The one registry under every way to write a hook, and the snapshot that a dispatch uses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, cast

from otelhooks.hooks.base import HOOK_CLASSES, FunctionHook, Hook, Kind
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.verdict import Judge

__all__ = ["EMPTY", "HookSet", "PointHooks", "Registration", "registrations"]


class Registration:
    """One hook at one point.

    Attributes:
        point: Point name of design section 4.
        kind: ``inspect``, ``decide`` or ``transform``.
        priority: Low runs first.
        call: Function of context and data; may return an awaitable.
        hook: What the user registered.
        source: Qualified name, for spans, logs and audit.
        rule_id: What its verdicts are recorded under.
        judge: The rules behind it, where the hook is one of `otelhooks.policy.enforce`.
        plain: True when `call` can be called in place: it is synchronous and has no time limit.
    """

    __slots__ = (
        "background",
        "blocking",
        "call",
        "hook",
        "judge",
        "kind",
        "plain",
        "point",
        "priority",
        "rule_id",
        "source",
        "timeout",
    )

    def __init__(self, point: str, kind: Kind, hook: Hook) -> None:
        function: Any
        self.call: Callable[[HookContext, Any], Any]
        if isinstance(hook, FunctionHook):
            function, self.call = hook.f, hook.invoke
        else:
            function = self.call = cast("Any", hook).run  # every hook class has it
        self.source: str = type(hook).__qualname__
        if isinstance(hook, FunctionHook):
            self.source = getattr(function, "__qualname__", self.source)
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
        self.judge: Judge | None = getattr(hook, "judge", None)
        self.plain: bool = not is_async and not hook.blocking


def registrations(hook: Any) -> list[Registration]:
    """Return what an object is registered as: one entry for each point that it serves.

    Raises:
        ValueError: It is no hook.
        TypeError: Its options contradict its kind.
    """
    found = [Registration(c.POINT, c.KIND, hook) for c in HOOK_CLASSES if isinstance(hook, c)]
    if not found:
        msg = f"Unknown hook type: {type(hook)}"
        raise ValueError(msg)
    return found


class PointHooks:
    """The hooks of one point, in the order in which they run."""

    __slots__ = ("background", "deciders", "inspectors", "transformers")

    def __init__(self, hooks: Iterable[Registration]) -> None:
        ordered = sorted(hooks, key=lambda registration: registration.priority)
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
        return bool(self.deciders or self.transformers or self.inspectors or self.background)


_NONE = PointHooks(())


class HookSet:
    """An immutable set of hooks; a dispatch uses the one it started with.

    Args:
        hooks: In the order of registration.
    """

    __slots__ = ("_points", "all", "can_deny", "has_background", "has_events")

    def __init__(self, hooks: Iterable[Registration] = ()) -> None:
        self.all: tuple[Registration, ...] = tuple(hooks)
        by_point: dict[str, list[Registration]] = {}
        for registration in self.all:
            by_point.setdefault(registration.point, []).append(registration)
        self._points = {point: PointHooks(found) for point, found in by_point.items()}
        self.has_events: bool = "event" in self._points
        self.has_background: bool = any(r.background for r in self.all)
        self.can_deny: bool = any(r.kind in {"decide", "transform"} for r in self.all)

    def at(self, point: str) -> PointHooks:
        """Return the hooks of a point; an empty set where there are none."""
        return self._points.get(point, _NONE)

    def __bool__(self) -> bool:
        return bool(self.all)

    def __add__(self, other: HookSet) -> HookSet:
        if not other.all:
            return self
        return HookSet(self.all + other.all) if self.all else other


EMPTY = HookSet()
