"""Limits: how many turns and tool calls may run, how often the same one, and what models may cost.

They are gates (`otelhooks.hooks.gates`): they count what nothing else stops, and a call once.
Decision code: if a count cannot be read, they deny, or allow with ``on_error="allow"``; the span
says so in either case.
"""

from __future__ import annotations

import collections
import hashlib
import logging
import math
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, get_args

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.labels import Lasting
from otelhooks.hooks.verdict import ALLOW, ASK, DENY, Ruling
from otelhooks.policy.prices import Prices, in_force
from otelhooks.policy.rules import Mode, Severity
from otelhooks.records.arguments import arguments_hash

if TYPE_CHECKING:
    from otelhooks.policy.limits.counters import Counter

__all__ = ["Budget", "Of", "OnBreach", "OnError", "Per", "RateLimit", "Repeat", "Unknown"]

T = TypeVar("T")
_Debt: TypeAlias = tuple["Counter", int, tuple[str, str]]
"""Used units that are not counted yet: counter, number, key."""

_log = logging.getLogger("otelhooks.policy")

Per = Literal["session", "turn", "minute", "hour", "day"]
"""What a count is kept for: a conversation, a turn with its sub-agents, or a period of time."""
Of = Literal["arguments", "tool"]
OnBreach = Literal["deny", "ask"]
OnError = Literal["deny", "allow"]
Unknown = Literal["deny", "tokens"]

_DAY_S = 86_400
_WINDOWS_S = {"minute": 60, "hour": 3_600, "day": _DAY_S}
_MAX_CALLS_KEPT = 65_536
"""Most calls that a `Repeat` remembers in memory."""

_NANO = 1_000_000_000


class _Limit(Gate):
    """What all limits share: where they count, and what happens if they cannot.

    Attributes:
        unreadable: What the model reads if a count cannot be read or written.
        periods: What a count may be kept for.
        kept_s: How long the count of a conversation or turn is kept, from its first unit.
    """

    unreadable: str = ""
    periods: tuple[str, ...] = get_args(Per)
    kept_s: Mapping[str, int] = {"session": 366 * _DAY_S, "turn": 7 * _DAY_S}

    def __init__(
        self,
        words: str,
        *,
        per: Per,
        storage: Any,
        on_breach: OnBreach,
        on_error: OnError,
        name: str,
        id: str | None,
        reason: str,
        severity: Severity | None,
        mode: Mode | None,
    ) -> None:
        for field, value, known in (
            ("per", per, self.periods),
            ("on_breach", on_breach, get_args(OnBreach)),
            ("on_error", on_error, get_args(OnError)),
            ("severity", severity, (None, *get_args(Severity))),
            ("mode", mode, (None, *get_args(Mode))),
        ):
            if value not in known:
                listed = ", ".join(str(word) for word in known if word is not None)
                raise ConfigError(
                    f"`{words}`: unknown {field} `{value}`", hint=f"use one of {listed}"
                )
        self.per: Per = per
        self.can_ask: bool = on_breach == "ask"
        self.on_error: OnError = on_error
        self.id: str = id if id is not None else words.replace(" ", "_")
        self.label: str = name or words
        self.reason: str = reason
        self.severity: str | None = severity
        self.mode: str | None = mode
        self.monitored: bool = mode == "monitor"
        self._storage: Any = storage
        self._at_least: str = "at least " if self.can_ask else ""  # people may have let more run
        self._said: set[str] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def _counter(self, max: int, *, is_sum: bool = False) -> Counter:
        from otelhooks.policy.limits.counters import Counter, open_storage

        self._storage = open_storage(self._storage)
        window_s = _WINDOWS_S.get(self.per) or self.kept_s[self.per]
        is_moving = self.per in _WINDOWS_S and not is_sum
        return Counter(max, window_s, self._storage, is_moving=is_moving)

    def _key(self, context: HookContext | None, about: str = "") -> str:
        """Return the key of a count as a hash, so that a server stores nothing about users.

        Args:
            context: Context of what is counted.
            about: What the count is about besides the conversation or turn.
        """
        if self.per in _WINDOWS_S or context is None:
            name = ""
        else:
            name = context.turn_key() if self.per == "turn" else context.session_key()
        return hashlib.sha256(f"{self.id}\0{name}{about}".encode()).hexdigest()[:32]

    def _do(self, counter: Counter, fn: Callable[..., T], *args: Any) -> Generator[Run, Any, T]:
        """Take one step with a counter; in a worker thread if it waits for a network.

        Raises:
            Exception: The count could not be read or written.
        """
        if not counter.waits:
            return fn(*args)
        value: Any = yield Run(fn, *args, blocking=True)
        if type(value) is Raised:
            raise value.error
        return value

    def _pass(
        self, counter: Counter, step: Callable[..., bool], key: tuple[str, ...], message: str = ""
    ) -> Generator[Run, Any, Ruling]:
        """Let pass what a count has room for, as one step with it says."""
        try:
            has_room = yield from self._do(counter, step, *key)
        except BaseException as error:
            if escapes(error):
                raise
            return self._failed(error)
        return Ruling(ALLOW) if has_room else self._refuse(message)

    def _refuse(self, message: str) -> Ruling:
        decision, said = ASK if self.can_ask else DENY, _Said(self, message)
        if self.monitored:
            return Ruling(ALLOW, observed=((decision, said),))
        return Ruling(decision, said, said.reason)

    def _failed(self, error: BaseException) -> Ruling:
        """Return the ruling if a count could not be read or written."""
        cause = type(error).__qualname__  # its text may contain addresses
        if cause not in self._said:
            self._said.add(cause)
            _log.error("limit `%s` could not be checked (%s): %s", self.id, self.on_error, cause)
        if self.monitored or self.on_error == "allow":
            said = _Said(self, f"{self.unreadable} ({cause})")
            return Ruling(ALLOW, observed=((DENY, said),))
        return Ruling(DENY, self, self.unreadable, error)


class _Said:
    """A limit as the rule behind one decision, with the reason for it.

    Attributes:
        waits: Whether its question must be answered while the call waits. The run does not pause
            for it: when it continues, in another turn or process, the limit may have room again.
    """

    handler = None
    ask = None
    waits: bool = True

    def __init__(self, limit: _Limit, reason: str) -> None:
        self.id: str = limit.id
        self.identity: str = limit.id
        self.policy_id: str = limit.policy_id
        self.policy_version: str = limit.policy_version
        self.label: str = limit.label
        self.reason: str = limit.reason or reason
        self.severity: str | None = limit.severity


class RateLimit(_Limit):
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
                self._counters[point] = (unit, self._counter(_whole(unit, cap)))
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


class Repeat(_Limit):
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
    kept_s: Mapping[str, int] = {"session": 30 * _DAY_S, "turn": 7 * _DAY_S}
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
        if _whole("calls", calls) < 2:
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


class Budget(_Limit):
    """Deny model calls once others have used enough tokens or money.

    A call's usage is known when it has answered: the call that crosses the limit is let through,
    and of several concurrent calls each may cross it. Afterwards every model call is denied:
    ``Budget exceeded: 1200 of 1000 tokens used``.

    Args:
        tokens: Tokens, input and output, 1 or more; None for any number.
        cost_usd: US dollars, above 0. None for any amount.
        prices: Name or glob of a model to US dollars per million tokens: ``{"input": 1.25,
            "output": 10}``, also ``cache_read`` and ``cache_write``, or a pair of input and output;
            or a function of the model's name and its `Usage` that returns US dollars, or None for
            an unknown model. None for those of `otelhooks.instrument`, and the list prices.
        per: ``session`` or ``turn``; ``minute``, ``hour`` and ``day`` start with their first call,
            over all that the budget governs.
        unknown: If a model has no price, or an answer does not report its usage: ``deny`` denies
            model calls; ``tokens`` allows them, and counts only the known tokens.
        storage: As for `RateLimit`.
        on_breach: ``deny``; ``ask`` is an error, because people are asked about tool calls only.
        on_error: As for `RateLimit`.
        name: As for `RateLimit`.
        id: As for `RateLimit`.
        reason: As for `RateLimit`.
        severity: As for `RateLimit`.
        mode: As for `RateLimit`.

    Raises:
        ConfigError: A value cannot be used.

    Example:
        >>> Budget(cost_usd=0.5, per="day").id
        'budget_0.5_USD_per_day'
    """

    unreadable: str = "Budget could not be checked."
    points: tuple[str, ...] = ("pre_model_call",)

    def __init__(
        self,
        *,
        tokens: int | None = None,
        cost_usd: float | None = None,
        prices: Mapping[str, Any] | Callable[[str, types.Usage], float | None] | None = None,
        per: Per = "session",
        unknown: Unknown = "deny",
        storage: Any = "memory",
        on_breach: OnBreach = "deny",
        on_error: OnError = "deny",
        name: str = "",
        id: str | None = None,
        reason: str = "",
        severity: Severity | None = None,
        mode: Mode | None = None,
    ) -> None:
        caps = ((tokens, "tokens"), (cost_usd, "USD"))
        numbers = [f"{cap} {unit}" for cap, unit in caps if cap is not None]
        super().__init__(
            f"budget {' '.join(numbers)} per {per}",
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
            raise ConfigError("a budget of nothing", hint="give `tokens` or `cost_usd`")
        if self.can_ask:
            raise ConfigError(
                "a budget cannot ask: it stops model calls, and people are asked about tool calls",
                hint="use on_breach='deny', and a RateLimit of tool calls that asks",
            )
        if unknown not in get_args(Unknown):
            raise ConfigError(f"unknown `unknown`: `{unknown}`", hint="use one of deny, tokens")
        if cost_usd is None and prices is not None:
            raise ConfigError("`prices` without `cost_usd`", hint="give `cost_usd` as well")
        self.unknown: Unknown = unknown
        self._own_prices = Prices(prices) if prices is not None else None
        self._tokens = (
            None if tokens is None else self._counter(_whole("tokens", tokens), is_sum=True)
        )
        self._cost = None if cost_usd is None else self._counter(_nano(cost_usd), is_sum=True)
        self._unmeasured = self._counter(1, is_sum=True)
        self._owed: collections.deque[_Debt] = collections.deque()

    @property
    def _prices(self) -> Prices:
        return self._own_prices or in_force()

    def admit(
        self, point: str, subject: Any, context: HookContext | None, *, take: bool
    ) -> Generator[Run, Any, Ruling]:
        """Let pass while something is left; a call's usage is counted afterwards."""
        try:
            message = yield from self._spent(subject, self._key(context))
        except BaseException as error:
            if escapes(error):
                raise
            return self._failed(error)
        return self._refuse(message) if message else Ruling(ALLOW)

    def _spent(self, call: Any, key: str) -> Generator[Run, Any, str]:
        """Return why nothing is left, an empty text if something is."""
        yield from self._pay()
        if self.unknown == "deny":
            model = getattr(call, "model", "")
            if self._cost is not None and not self._prices.knows(model):
                return "Budget cannot be kept: the model has no price"
            if (yield from self._do(self._unmeasured, self._unmeasured.read, "unmeasured", key)):
                return "Budget cannot be kept: what a model call has used is not known"
        for counter, unit in ((self._tokens, "tokens"), (self._cost, "USD")):
            if counter is None:
                continue
            used = yield from self._do(counter, counter.read, unit, key)
            if used >= counter.max:
                spent = _amount(used, unit)
                return f"Budget exceeded: {spent} of {_amount(counter.max, unit)} {unit} used"
        return ""

    def used(
        self, context: HookContext, models: tuple[str, ...], usage: types.Usage | None
    ) -> Generator[Run, Any, None]:
        """Count a model call's usage. What cannot be counted now is owed until it can be."""
        key = self._key(context)
        cost: float | None = None
        if usage is not None and self._cost is not None:
            cost = self._prices.cost(models, usage.model_dump())
        owed: list[_Debt] = []
        if usage is not None and self._tokens is not None:
            number = usage.input_tokens + usage.output_tokens
            owed.append((self._tokens, number, ("tokens", key)))
        if cost is not None and self._cost is not None:
            owed.append((self._cost, math.ceil(cost * _NANO), ("USD", key)))
        if usage is None or (self._cost is not None and cost is None):
            if self.unknown == "deny":
                owed.append((self._unmeasured, 1, ("unmeasured", key)))
            if "unmeasured" not in self._said:
                self._said.add("unmeasured")
                what = "an answer without usage" if usage is None else "a model without a price"
                _log.warning("budget `%s` has met %s (unknown: %s)", self.id, what, self.unknown)
        self._owed.extend(debt for debt in owed if debt[1] > 0)
        try:
            yield from self._pay()
        except BaseException as error:
            if escapes(error):
                raise
            self._failed(error)  # the next call fails to reach the count as well, or pays

    def _pay(self) -> Generator[Run, Any, None]:
        """Count what is owed.

        Raises:
            Exception: The count could not be read or written; the rest stays owed.
        """
        while True:
            try:
                debt = self._owed.popleft()
            except IndexError:  # there is none, or another thread is paying it
                return
            counter, amount, key = debt
            try:
                yield from self._do(counter, counter.add, amount, *key)
            except BaseException:
                self._owed.append(debt)
                raise


def _whole(unit: str, cap: Any) -> int:
    if not isinstance(cap, int) or isinstance(cap, bool) or cap < 1:
        raise ConfigError(f"{unit}: `{cap!r}` is not a number of them", hint="give 1 or more")
    return cap


def _nano(cost_usd: Any) -> int:
    is_number = isinstance(cost_usd, (int, float)) and not isinstance(cost_usd, bool)
    if not is_number or not math.isfinite(cost_usd) or cost_usd < 1 / _NANO:
        raise ConfigError(f"cost_usd: `{cost_usd!r}` is not an amount", hint="give more than 0")
    return round(cast("float", cost_usd) * _NANO)


def _amount(used: int, unit: str) -> str:
    return str(used) if unit == "tokens" else f"{used / _NANO:.4f}"
