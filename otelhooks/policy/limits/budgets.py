"""A limit on what models may use: tokens or money."""

from __future__ import annotations

import collections
import logging
import math
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Run, escapes
from otelhooks.hooks.verdict import ALLOW, Ruling
from otelhooks.policy.limits.limit import Limit, OnBreach, OnError, Per, whole
from otelhooks.policy.prices import Prices, in_force
from otelhooks.policy.rules import Mode, Severity

if TYPE_CHECKING:
    from otelhooks.policy.limits.counters import Counter

__all__ = ["Budget", "Unknown"]

_log = logging.getLogger("otelhooks.policy")

_Debt: TypeAlias = tuple["Counter", int, tuple[str, str]]
"""Used units that are not counted yet: counter, number, key."""

Unknown = Literal["deny", "tokens"]

_NANO = 1_000_000_000


class Budget(Limit):
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
            None if tokens is None else self._counter(whole("tokens", tokens), is_sum=True)
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
                hint = "\nhint: `unknown: tokens` continues, and counts what is known"
                _log.warning(
                    "budget `%s` has met %s (unknown: %s)%s",
                    *(self.id, what, self.unknown, hint if self.unknown == "deny" else ""),
                )
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


def _nano(cost_usd: Any) -> int:
    is_number = isinstance(cost_usd, (int, float)) and not isinstance(cost_usd, bool)
    if not is_number or not math.isfinite(cost_usd) or cost_usd < 1 / _NANO:
        raise ConfigError(f"cost_usd: `{cost_usd!r}` is not an amount", hint="give more than 0")
    return round(cast("float", cost_usd) * _NANO)


def _amount(used: int, unit: str) -> str:
    return str(used) if unit == "tokens" else f"{used / _NANO:.4f}"
