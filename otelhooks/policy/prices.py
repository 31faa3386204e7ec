"""What a model's tokens cost: a table of prices, or a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.policy.selectors import glob_matcher

__all__ = ["Prices"]

_KINDS = ("input", "output", "cache_read", "cache_write")
_PER = 1_000_000


class Prices:
    """Prices of models, read.

    Args:
        given: A table or a function, as `otelhooks.policy.Budget` takes it. The first matching
            entry of a table is used.

    Raises:
        ConfigError: It is neither, or an entry is not a price.
    """

    def __init__(
        self, given: Mapping[str, Any] | Callable[[str, types.Usage], float | None]
    ) -> None:
        self._function: Callable[[str, types.Usage], Any] | None = None
        self._table: list[tuple[Callable[[str], object], dict[str, float]]] = []
        if isinstance(given, Mapping):
            for model, price in cast("Mapping[str, Any]", given).items():
                self._table.append((glob_matcher(model), _read(model, price)))
        elif callable(given):
            self._function = given
        else:
            raise ConfigError(
                f"prices: `{given!r}` is no table of prices", hint="give a mapping or a function"
            )

    def knows(self, model: str) -> bool:
        """Return whether a model has a price."""
        return self.cost((model,), types.Usage()) is not None

    def cost(self, models: tuple[str, ...], usage: types.Usage) -> float | None:
        """Return what tokens cost, in US dollars, under the first name that has a price.

        Decision code: a function that raises, or does not return an amount, knows no price.
        """
        for model in models:
            found = self._function_cost(model, usage) if self._function else None
            if found is not None:
                return found
            for fits, price in self._table:
                if fits(model):
                    return _cost(price, usage)
        return None

    def _function_cost(self, model: str, usage: types.Usage) -> float | None:
        assert self._function is not None
        try:
            found = float(self._function(model, usage))
        except Exception:  # None as well: there is no price
            return None
        return found if math.isfinite(found) and found >= 0 else None


def _cost(price: Mapping[str, float], usage: types.Usage) -> float:
    read, written = usage.cache_read_input_tokens or 0, usage.cache_write_input_tokens or 0
    parts = (
        ("input", max(usage.input_tokens - read - written, 0)),
        ("cache_read", read),
        ("cache_write", written),
        ("output", usage.output_tokens),
    )
    return sum(price.get(kind, price["input"]) * tokens for kind, tokens in parts) / _PER


def _read(model: str, given: Any) -> dict[str, float]:
    price: dict[str, Any] = {}
    if isinstance(given, Mapping):
        price = dict(cast("Mapping[str, Any]", given))
    elif isinstance(given, (tuple, list)) and len(cast("list[Any]", given)) == 2:
        price = dict(zip(_KINDS, cast("list[Any]", given), strict=False))
    is_complete = {"input", "output"} <= set(price) <= set(_KINDS)
    if not is_complete or not all(_is_amount(amount) for amount in price.values()):
        raise ConfigError(
            f"prices of `{model}`: `{given!r}` is no price",
            hint=f'give {{"input": 1.25, "output": 10}}; known are {", ".join(_KINDS)}',
        )
    return {kind: float(amount) for kind, amount in price.items()}


def _is_amount(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return math.isfinite(value) and value >= 0
