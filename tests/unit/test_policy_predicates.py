"""What predicates take, read at load from their signatures."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
import math
import typing
from typing import TYPE_CHECKING, Annotated, Any
from unittest import mock

import pydantic
import pydantic.dataclasses
import pytest

from otelhooks import policy, types
from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import adrive, drive
from otelhooks.policy.predicates import AllOf, read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from somewhere import JSON, Unknown  # type: ignore[import-not-found]


class Args(pydantic.BaseModel):
    n: int


def decide(when: Any, args: dict[str, Any]) -> str:
    rules = policy.PolicySet([policy.deny("a", when=when)])
    return drive(rules.evaluate(Call("a", args))).decision


def of_dict(args: dict[str, Any]) -> bool:
    return args["n"] == 1


def of_mapping(args: Mapping[str, Any]) -> bool:
    return args["n"] == 1


def of_json(args: JSON) -> bool:
    return args["n"] == 1


def of_model(args: Args) -> bool:
    return args.n == 1


def of_model_or_none(args: Args | None) -> bool:
    return args is not None and args.n == 1


def of_annotated(args: Annotated[Args, "x"]) -> bool:
    return args.n == 1


def of_call(call: types.ToolCall) -> bool:
    return call.args["n"] == 1


def of_quoted_call(call: "types.ToolCall") -> bool:  # noqa: UP037
    return call.args["n"] == 1


def of_default(args: Any = None, *, top: int = 1) -> bool:
    return args["n"] == top


def of_rest(*args: Any) -> bool:
    return args[0]["n"] == 1


def of_object(args: object) -> bool:
    return isinstance(args, dict) and args["n"] == 1


def other(word: int, call: types.ToolCall) -> bool:
    return call.args["n"] == word


def of_call_or_none(call: typing.Optional["types.ToolCall"]) -> bool:  # noqa: UP037, UP045
    return call is not None and call.args["n"] == 1


class OfCall:
    def __call__(self, call: types.ToolCall) -> bool:
        return call.args["n"] == 1

    def method(self, args: Args) -> bool:
        return args.n == 1


@functools.wraps(of_model)
def wrapped(*args: Any) -> bool:
    return of_model(*args)


@pytest.mark.parametrize(
    "when",
    [
        of_dict,
        of_mapping,
        of_json,
        of_model,
        of_model_or_none,
        of_annotated,
        of_call,
        of_quoted_call,
        of_call_or_none,
        of_default,
        of_rest,
        of_object,
        OfCall(),
        OfCall().method,
        wrapped,
        functools.partial(other, 1),
        lambda args: args["n"] == 1,
    ],
)
def test_a_predicate_gets_what_its_first_parameter_asks_for(when: Any) -> None:
    assert decide(when, {"n": 1}) == "deny"
    assert decide(when, {"n": 2}) == "allow"


def test_a_union_with_none_written_the_old_way() -> None:
    def when(args: typing.Optional[Args]) -> bool:  # noqa: UP045
        return args is not None and args.n == 1

    assert decide(when, {"n": 1}) == "deny"


def test_a_predicate_without_parameters_is_called_with_nothing() -> None:
    answer = True
    assert decide(lambda: answer, {}) == "deny"
    answer = False
    assert decide(lambda: answer, {}) == "allow"


def test_a_model_of_the_enclosing_function_is_found_if_it_was_captured() -> None:
    class Local(pydantic.BaseModel):
        n: int

    def when(args: Local) -> bool:
        assert isinstance(args, Local)
        return args.n == 1

    assert decide(when, {"n": 1}) == "deny"


def test_arguments_that_do_not_fit_the_model_deny() -> None:
    assert decide(of_model, {"n": "x"}) == "deny"


def test_a_function_without_a_signature_gets_the_arguments() -> None:
    with mock.patch("inspect.signature", side_effect=ValueError("none")):
        test = read(of_call, "a")
    assert test == (of_call, False)


def test_an_annotation_that_is_known_by_its_name_alone() -> None:
    def when(call: somewhere.ToolCall) -> bool:  # type: ignore[name-defined]  # noqa: F821
        return call.name == "a"

    assert decide(when, {}) == "deny"
    assert read(when, "a") == (when, True)


def test_a_captured_name_that_is_not_assigned_yet() -> None:
    def when(args: dict[str, Any]) -> bool:
        return args["n"] == top

    rules = policy.PolicySet([policy.deny("a", when=when)])
    top = 1
    assert drive(rules.evaluate(Call("a", {"n": top}))).decision == "deny"


def forgets(args: Any) -> None:
    if args["n"]:
        args["n"] == 1  # noqa: B015


async def forgets_later(args: Any) -> None:
    args.get("n")


class Forgets:
    def __call__(self, args: Any) -> None:
        bool(args)


def generates(args: Any) -> Any:
    yield True


def sometimes(args: Any) -> Any:
    if args:
        return True


async def later(args: Any) -> Any:
    return True


async def never(args: Any) -> Any:
    return False


async def forgets_to_await(args: Any) -> Any:
    return never(args)


def raises(args: Any) -> Any:
    raise ValueError


class TestErrors:
    @pytest.mark.parametrize(
        "when",
        [lambda a, b: True, lambda *, k: True, lambda *, k=1: True, lambda **kw: True],
    )
    def test_a_signature_that_does_not_fit(self, when: Any) -> None:
        with pytest.raises(ConfigError, match="cannot be called with the arguments"):
            policy.enforce([policy.deny("a", when=when)])

    def test_an_annotation_that_cannot_be_resolved(self) -> None:
        def when(args: Unknown) -> bool:
            return True

        with pytest.raises(ConfigError, match="`Unknown` of `when` cannot be resolved"):
            policy.enforce([policy.deny("a", when=when)])

    def test_several_models(self) -> None:
        def when(args: Args | types.ToolCall) -> bool:
            return True

        with pytest.raises(ConfigError, match="takes one of several"):
            policy.enforce([policy.deny("a", when=when)])

    def test_several_types_without_a_model_are_a_dict(self) -> None:
        def when(args: dict[str, Any] | list[Any]) -> bool:
            return bool(args)

        assert decide(when, {"n": 1}) == "deny"

    @pytest.mark.parametrize(
        "when", [forgets, forgets_later, Forgets(), functools.partial(forgets), generates]
    )
    def test_a_predicate_that_never_returns_a_value(self, when: Any) -> None:
        with pytest.raises(ConfigError, match="never returns a value"):
            policy.enforce([policy.deny("a", when=when)])

    @pytest.mark.parametrize(
        ("when", "expected"),
        [
            (lambda args: args.get("n"), "allow"),
            (lambda args: args.get("n") or None, "allow"),
            (lambda args: None if args else True, "allow"),
            (sometimes, "deny"),
            (later, "deny"),
            (forgets_to_await, "allow"),
            (AllOf(forgets_to_await, later), "allow"),
            (AllOf(later, forgets_to_await), "allow"),
            (raises, "deny"),
            (all, "allow"),
        ],
    )
    def test_one_that_returns_none_at_times_does_not_hold_then(
        self, when: Any, expected: str
    ) -> None:
        assert decide(when, {"": 0}) == expected

    def test_something_that_is_not_callable(self) -> None:
        with pytest.raises(ConfigError, match="`when` is not callable"):
            read("x", "a")  # type: ignore[arg-type]


@pydantic.dataclasses.dataclass(slots=True)
class Slots:
    amount: float


@dataclasses.dataclass
class Plain:
    amount: float


class Transfer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]
    slots: Slots | None = None
    plain: Plain | None = None
    queue: collections.deque[float] = collections.deque()
    keys: dict[float, str] = {}
    sequence: typing.Sequence[float] = ()


class TestNumbersOfModels:
    @pytest.mark.parametrize(("amount", "expected"), [("1", "allow"), ("NaN", "deny")])
    @pytest.mark.parametrize("held", ["slots", "plain", "queue", "keys", "sequence", "more"])
    def test_whatever_holds_one_is_read(self, held: str, amount: str, expected: str) -> None:
        def when(args: Transfer) -> bool:
            return False

        shapes: dict[str, Any] = {
            "slots": {"amount": amount},
            "plain": {"amount": amount},
            "queue": [amount],
            "sequence": [amount],
            "keys": {amount: "x"},
            "more": amount,
        }
        assert decide(when, {held: shapes[held]}) == expected

    @pytest.mark.parametrize("given", [Plain(math.nan), [Plain(math.nan)], {math.nan: 1}])
    def test_so_is_an_argument_of_a_call_in_python(self, given: Any) -> None:
        assert decide(lambda args: False, {"x": given}) == "deny"
        assert decide(lambda args: False, {"x": [object(), "nan", 1.0, Plain(2.0)]}) == "allow"


class TestAllOf:
    @staticmethod
    async def slow(args: dict[str, Any]) -> bool:
        await asyncio.sleep(0)
        return args["slow"]

    @pytest.mark.parametrize(
        ("args", "expected"),
        [
            ({"n": 1, "slow": True}, "deny"),
            ({"n": 1, "slow": False}, "allow"),
            ({"n": 2, "slow": True}, "allow"),
        ],
    )
    def test_sync_async_model_and_call_mix(self, args: dict[str, Any], expected: str) -> None:
        for order in (
            (of_model, self.slow, of_call, of_dict),
            (self.slow, self.slow, of_call),
            (of_call, of_dict, self.slow),
            (self.slow, of_model),
        ):
            rule = policy.deny("a", when=order[0])
            for each in order[1:]:
                rule = rule.only_when(each)
            rules = policy.PolicySet([rule])
            assert asyncio.run(adrive(rules.evaluate(Call("a", args)))).decision == expected

    def test_the_second_is_not_called_if_the_first_does_not_hold(self) -> None:
        second = mock.Mock(return_value=True)
        rule = policy.deny("a", when=of_dict).only_when(second)
        drive(policy.PolicySet([rule]).evaluate(Call("a", {"n": 2})))
        second.assert_not_called()
