"""Limits on turns and tool calls: how many may run, and how often the same one."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Run
from otelhooks.hooks.labels import Lasting
from otelhooks.hooks.verdict import ALLOW, Ruling
from otelhooks.policy.limits.limit import DAY_S, Limit, OnBreach, OnError, Per, whole
from otelhooks.policy.rules import Mode, Severity
from otelhooks.records.arguments import arguments_hash

if TYPE_CHECKING:
    from otelhooks.policy.limits.counters import Counter

__all__ = ["Of", "RateLimit", "Repeat"]

Of = Literal["arguments", "tool"]

_MAX_CALLS_KEPT = 65_536
"""Most calls that a `Repeat` remembers in memory."""


class RateLimit(Limit):
    """Deny turns or tool calls after a number of them.

    Call N+1 is denied: ``Rate limit exceeded: N of N tool calls used``. Only calls that would run
    are counted, not those that a hook, a rule or a person refuses. Give each object its own id:
    limits with the same id in the same storage share their counts.

    Args:
        turns: User messages that may be answered, 1 or more; None for any number.
        tool_calls: Tool calls that may run, including those of sub-agents; None for any number.
        per: ``session`` or ``turn`` (tool calls only); ``minute``, ``hour`` and ``day`` are counted
            over all that the limit governs, in any period of that length.
        storage: ``memory``; ``redis://host:6379/0`` for several processes (extra
            ``otelhooks[redis]``); any other address or storage of the library ``limits``.
        on_breach: ``deny``, or ``ask``: the approval channel is asked about each further tool call,
            and a call that is not approved is denied. Not with `turns`.
        on_error: ``deny`` or ``allow`` if the count cannot be read or written.
        name: Name in logs.
        id: Stable name in telemetry and storage; made of numbers and words if None.
        reason: Message for the model, in place of the standard one.
        severity: For alerts.
        mode: ``monitor`` counts and records, but denies nothing; None takes the set's mode.

    Raises:
        ConfigError: A value cannot be used.

    Example:
        >>> RateLimit(tool_calls=100, per="session").id
        'rate_limit_100_tool_calls_per_session'
    """

    unreadable: str = "Rate limit could not be checked."

    def __init__(
        self,
        *,
        turns: int | None = None,
        tool_calls: int | None = None,
        per: Per = "session",
        storage: Any = "memory",
        on_breach: OnBreach = "deny",
        on_error: OnError = "deny",
        name: str = "",
        id: str | None = None,
        reason: str = "",
        severity: Severity | None = None,
        mode: Mode | None = None,
    ) -> None:
        caps = {"turns": turns, "tool calls": tool_calls}
        numbers = [f"{cap} {unit}" for unit, cap in caps.items() if cap is not None]
        super().__init__(
            f"rate limit {' '.join(numbers)} per {per}",
            per=per,
            storage=storage,
            on_breach=on_breach,
            on_error=on_error,
            name=name,
            id=id,
            reason=reason,
            severity=severity,
            mode=mode,
        )
        if not numbers:
            raise ConfigError("a rate limit of nothing", hint="give `turns` or `tool_calls`")
        if turns is not None and per == "turn":
            raise ConfigError("a turn has one turn", hint="use `tool_calls`, or per='session'")
        if turns is not None and self.can_ask:
            raise ConfigError(
                "people cannot be asked about a turn, only about tool calls",
                hint="give `turns` a limit of its own, with on_breach='deny'",
            )
        self._counters: dict[str, tuple[str, Counter]] = {}
        for point, (unit, cap) in zip(("pre_turn", "pre_tool_call"), caps.items(), strict=True):
            if cap is not None:
                self._counters[point] = (unit, self._counter(whole(unit, cap)))
        self.points: tuple[str, ...] = tuple(self._counters)

    def admit(
        self, point: str, subject: Any, context: HookContext | None, *, take: bool
    ) -> Generator[Run, Any, Ruling]:
        """Let pass what the limit has room for."""
        if isinstance(subject, Call) and subject.is_counted:
            return Ruling(ALLOW)
        unit, counter = self._counters[point]
        used = f"{self._at_least}{counter.max} of {counter.max} {unit} used"
        message = f"Rate limit exceeded: {used}"
        step = counter.take if take else counter.has_room
        return (yield from self._pass(counter, step, (unit, self._key(context)), message))

    def count(self, subject: Any, context: HookContext | None) -> Generator[Run, Any, Ruling]:
        """Count a call that people let pass beyond the limit."""
        unit, counter = self._counters["pre_tool_call"]
        return (yield from self._pass(counter, counter.overdraw, (unit, self._key(context))))


class Repeat(Limit):
    """Deny the same tool call once it has run often enough, and tell the model to try another.

    ``calls=3`` denies the third call of a tool with the same arguments, and those after it: ``This
    call has run 2 times in this turn with the same arguments: use its result, or try something
    else.`` Which calls count is as for `RateLimit`; other calls may come between them. Arguments
    are the same if their hash in the audit record is: their order does not matter, and 1 and 1.0
    differ.

    Args:
        calls: Number of the call that is denied, 2 or more.
        of: ``arguments``: calls of one tool with the same arguments; ``tool``: all its calls.
            A tool is known by its name and by that of its MCP server.
        per: ``turn`` or ``session``, sub-agents included.
        storage: As for `RateLimit`; ``memory`` keeps the last 32,768 different calls, or more.
        on_breach: ``deny``, or ``ask``: the approval channel is asked about each further call, and
            one that is not approved is denied.
        on_error: As for `RateLimit`.
        name: As for `RateLimit`.
        id: As for `RateLimit`.
        reason: As for `RateLimit`.
        severity: As for `RateLimit`.
        mode: As for `RateLimit`.

    Raises:
        ConfigError: A value cannot be used.

    Example:
        >>> Repeat(calls=3).id
        'repeat_3_of_arguments_per_turn'
    """

    unreadable: str = "Repeated calls could not be counted."
    periods: tuple[str, ...] = get_args(Lasting)
    kept_s: Mapping[str, int] = {"session": 30 * DAY_S, "turn": 7 * DAY_S}
    points: tuple[str, ...] = ("pre_tool_call",)

    def __init__(
        self,
        *,
        calls: int = 3,
        of: Of = "arguments",
        per: Lasting = "turn",
        storage: Any = "memory",
        on_breach: OnBreach = "deny",
        on_error: OnError = "deny",
        name: str = "",
        id: str | None = None,
        reason: str = "",
        severity: Severity | None = None,
        mode: Mode | None = None,
    ) -> None:
        if whole("calls", calls) < 2:
            raise ConfigError(
                "calls: `1` would deny every call", hint="give 2 or more: 3 lets two of them run"
            )
        if of not in get_args(Of):
            raise ConfigError(f"unknown `of`: `{of}`", hint="use one of arguments, tool")
        if storage == "memory":
            from otelhooks.policy.limits.counters import MemoryStorage

            storage = MemoryStorage(_MAX_CALLS_KEPT)
        super().__init__(
            f"repeat {calls} of {of} per {per}",
            per=per,
            storage=storage,
            on_breach=on_breach,
            on_error=on_error,
            name=name,
            id=id,
            reason=reason,
            severity=severity,
            mode=mode,
        )
        self.of: Of = of
        self._calls = self._counter(calls - 1)

    def admit(
        self, point: str, subject: Any, context: HookContext | None, *, take: bool
    ) -> Generator[Run, Any, Ruling]:
        """Let pass a call that has not run often enough."""
        if subject.is_counted:
            return Ruling(ALLOW)
        key = (self._call_key(subject, context),)
        step = self._calls.take if take else self._calls.has_room
        return (yield from self._pass(self._calls, step, key, self._message(subject)))

    def count(self, subject: Any, context: HookContext | None) -> Generator[Run, Any, Ruling]:
        """Count a call that people let run once more."""
        key = (self._call_key(subject, context),)
        return (yield from self._pass(self._calls, self._calls.overdraw, key))

    def _message(self, call: Call) -> str:
        times = "once" if self._calls.max == 1 else f"{self._calls.max} times"
        place = "turn" if self.per == "turn" else "conversation"
        run = f"has run {self._at_least}{times} in this {place}"
        if self.of == "tool":
            return f"Tool '{call.name}' {run}: use its results, or try something else."
        return f"This call {run} with the same arguments: use its result, or try something else."

    def _call_key(self, call: Call, context: HookContext | None) -> str:
        args = arguments_hash(call.args) if self.of == "arguments" else ""
        return self._key(context, f"\0{(call.server or '', call.name, args)!r}")
