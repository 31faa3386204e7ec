"""What a model's tokens cost: list prices, or a table or function of the user's own.

`prices.json` beside this module holds the list prices, with their source and date. A model that has
no price costs an unknown amount, never 0.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.policy.selectors import glob_matcher

__all__ = ["LIST", "ListPrices", "Prices", "in_force", "put_in_force"]

_KINDS = ("input", "output", "cache_read", "cache_write")
_PER = 1_000_000
_MAX_FOUND = 1_024
_TABLE = Path(__file__).with_name("prices.json")

# What comes before the name of a model that its own maker serves, and the date of a snapshot.
_MAKER = re.compile(r"^(models|openai|anthropic|gemini|google)[/:]")
_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8})$")


class Prices:
    """Prices of models, read.

    Args:
        given: A table or a function, as `otelhooks.policy.Budget` takes it. The first matching
            entry of a table is used.
        otherwise: Prices of the models that `given` does not know; None if they have none.

    Raises:
        ConfigError: It is neither, or an entry is not a price.
    """

    def __init__(
        self,
        given: Mapping[str, Any] | Callable[[str, types.Usage], float | None],
        otherwise: Prices | None = None,
    ) -> None:
        self._otherwise = otherwise
        self._function: Callable[[str, types.Usage], Any] | None = None
        self._table: list[tuple[Callable[[str], object], dict[str, Any]]] = []
        self._found: dict[tuple[str, ...], Mapping[str, Any] | None] = {}
        if isinstance(given, Mapping):
            for model, price in cast("Mapping[str, Any]", given).items():
                self._table.append((glob_matcher(model), _read(model, price)))
        elif callable(given):
            self._function = given
        else:
            raise ConfigError(
                f"prices: `{given!r}` is not a table of prices", hint="give a mapping or a function"
            )

    def knows(self, model: str) -> bool:
        """Return whether a model has a price."""
        return self.cost((model,), {}) is not None

    def cost(self, models: tuple[str, ...], usage: Mapping[str, int | None]) -> float | None:
        """Return what tokens cost, in US dollars, under the first name that has a price.

        Decision code: a function that raises, or does not return an amount, knows no price.

        Args:
            models: Names that the model goes by.
            usage: Tokens by the names that `types.Usage` has for them.
        """
        if self._function is not None:
            for model in models:
                found = self._function_cost(self._function, model, usage)
                if found is not None:
                    return found
        else:
            try:
                price = self._found[models]
            except KeyError:
                price = self._look_up(models)
            if price is not None:
                return _cost(price, usage)
        return self._otherwise.cost(models, usage) if self._otherwise is not None else None

    def _look_up(self, models: tuple[str, ...]) -> Mapping[str, Any] | None:
        found = next(filter(None, map(self._price, models)), None)
        if len(self._found) < _MAX_FOUND:
            self._found[models] = found
        return found

    def _price(self, model: str) -> Mapping[str, Any] | None:
        return next((price for fits, price in self._table if fits(model)), None)

    @staticmethod
    def _function_cost(
        function: Callable[[str, types.Usage], Any], model: str, usage: Mapping[str, int | None]
    ) -> float | None:
        try:
            found = float(function(model, types.Usage.model_validate(usage)))
        except Exception:  # None as well: there is no price
            return None
        return found if math.isfinite(found) and found >= 0 else None


class ListPrices(Prices):
    """The list prices that come with otelhooks: exact names, and dated snapshots of them."""

    def __init__(self) -> None:
        super().__init__({})

    def _price(self, model: str) -> Mapping[str, Any] | None:
        name = _MAKER.sub("", model)
        models = _models()
        return models.get(name) or models.get(_DATE.sub("", name))


LIST = ListPrices()
"""List prices of common models."""

_in_force: Prices = LIST


def in_force() -> Prices:
    """Return the prices for budgets that have none of their own."""
    return _in_force


def put_in_force(prices: Prices | None) -> None:
    """Set the prices for budgets that have none of their own; None for the list prices."""
    global _in_force
    _in_force = prices or LIST


@functools.cache
def _models() -> dict[str, dict[str, Any]]:
    return json.loads(_TABLE.read_text(encoding="utf-8"))["models"]


def _cost(price: Mapping[str, Any], usage: Mapping[str, int | None]) -> float:
    given = usage.get("input_tokens") or 0
    above = price.get("above")
    if above is not None and given > above["tokens"]:
        price = above
    read = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_write_input_tokens") or 0
    each: float = price["input"]
    return (
        each * max(given - read - written, 0)
        + price.get("cache_read", each) * read
        + price.get("cache_write", each) * written
        + price["output"] * (usage.get("output_tokens") or 0)
    ) / _PER


def _read(model: str, given: Any) -> dict[str, Any]:
    price: dict[str, Any] = {}
    above: Any = None
    if isinstance(given, Mapping):
        price = dict(cast("Mapping[str, Any]", given))
        above = price.pop("above", None)
    elif isinstance(given, (tuple, list)) and len(cast("list[Any]", given)) == 2:
        price = dict(zip(_KINDS, cast("list[Any]", given), strict=False))
    if not _is_price(price) or not (above is None or _is_tier(above)):
        raise ConfigError(
            f"prices of `{model}`: `{given!r}` is not a price",
            hint=f'give {{"input": 1.25, "output": 10}}; known are {", ".join(_KINDS)}, and '
            '"above": {"tokens": 200000, ...} for calls with more input than that',
        )
    if above is not None:
        price["above"] = above
    return price


def _is_tier(given: Any) -> bool:
    if not isinstance(given, Mapping):
        return False
    price = dict(cast("Mapping[str, Any]", given))
    return _is_amount(price.pop("tokens", None)) and _is_price(price)


def _is_price(given: Mapping[str, Any]) -> bool:
    is_complete = {"input", "output"} <= set(given) <= set(_KINDS)
    return is_complete and all(_is_amount(amount) for amount in given.values())


def _is_amount(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return math.isfinite(value) and value >= 0
