"""Arguments with objects of pydantic's in them: how rules see them, and what the tool gets."""

from __future__ import annotations

import dataclasses
import datetime
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from otelhooks import policy
from otelhooks.frameworks.kit.values import Value, copied, plain, text_of, with_fields
from otelhooks.hooks.calls import Call
from otelhooks.pipeline.drivers import drive


class Inner(pydantic.BaseModel):
    account: str
    amount: float = 1


class Outer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", populate_by_name=True)
    parts: list[Inner]
    memo: str | None = pydantic.Field(None, alias="theMemo", exclude=True)


MODEL = Outer(parts=[Inner(account="a")], theMemo="m", further=(1,))
SHOWN = {"parts": [{"account": "a", "amount": 1}], "memo": "m", "further": (1,)}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (MODEL, SHOWN),
        ({"all": [MODEL]}, {"all": [SHOWN]}),
        ({"one": (MODEL, 2)}, {"one": (SHOWN, 2)}),
        (None, {}),
        ("text", {"given": "text"}),
        ([MODEL], {"given": [SHOWN]}),
    ],
)
def test_rules_see_plain_data_and_the_tool_gets_its_own_form(given: Any, shown: Any) -> None:
    value = Value(given, "given")
    assert value.shown == shown
    written = value.write(value.shown)
    assert written == given
    assert type(written) is type(given)
    assert written is not given or given is None or given == "text"


def test_what_the_caller_changes_later_is_not_in_the_tools_copy() -> None:
    part = Inner(account="a")
    given = {"parts": [part]}
    value = Value(given, "given")
    part.account = "b"
    given["parts"].append(part)
    assert value.write(value.shown) == {"parts": [Inner(account="a")]}
    assert copied(given) == given


@dataclasses.dataclass(frozen=True)
class Order:
    lines: list[str]


def test_what_is_copied_changes_no_more() -> None:
    for given, change in (
        (Order(["a"]), lambda value: value.lines.append("b")),
        ({"a"}, lambda value: value.add("b")),
        (bytearray(b"a"), lambda value: value.append(1)),
        ([Order(["a"])], lambda value: value[0].lines.append("b")),
    ):
        own = copied(given)
        assert own == given
        change(given)
        assert own != given
    assert copied(Order) is Order


@pytest.mark.parametrize("given", [MODEL, {"parts": [Inner(account="a")]}])
def test_what_a_hook_wrote_becomes_an_object_again(given: Any) -> None:
    value = Value(given, "given")
    written = value.write({**value.shown, "parts": [{"account": "a", "amount": "2.5"}]})
    parts = written["parts"] if isinstance(written, dict) else written.parts
    assert parts == [Inner(account="a", amount=2.5)]
    with pytest.raises(pydantic.ValidationError):
        value.write({**value.shown, "parts": [{"amount": 1}]})


def test_other_lengths_and_new_names_stay_plain() -> None:
    value = Value({"parts": [Inner(account="a")]}, "given")
    assert value.write({"parts": [], "more": 1}) == {"parts": [], "more": 1}
    assert Value(None, "given").write({"x": 1}) == {"x": 1}
    assert Value("text", "given").write({"given": "other"}) == "other"
    assert Value("text", "given").write({"x": 1}) == {"x": 1}


@dataclasses.dataclass
class Plain:
    day: datetime.date


DAY = datetime.date(2026, 1, 2)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (DAY, "2026-01-02"),
        (Decimal(7), 7),
        (Decimal("1.5"), 1.5),
        (Decimal("0.1"), 0.1),
        (Decimal("Infinity"), float("inf")),
        (Decimal("100.000000000000000001"), "100.000000000000000001"),
        (Decimal("9007199254740993.5"), "9007199254740993.5"),
        (Decimal("1E+400"), "1E+400"),
        (Plain(DAY), {"day": "2026-01-02"}),
        (MODEL, {"parts": [{"account": "a", "amount": 1}], "further": [1]}),
        ({7: (DAY, "x")}, {"7": ["2026-01-02", "x"]}),
    ],
)
def test_rules_see_what_a_model_may_have_written(given: Any, shown: Any) -> None:
    assert plain(given) == shown
    assert type(plain(given)) is type(shown)


@pytest.mark.parametrize("when", [lambda args: args["amount"] > 100, 'args["amount"] > 100'])
def test_an_amount_that_no_float_holds_passes_no_limit(when: Any) -> None:
    call = Call("pay", Value({"amount": Decimal("100.000000000000000001")}, "given").shown)
    rules = policy.PolicySet([policy.deny("pay", when=when)])
    assert drive(rules.evaluate(call), pytest.fail).decision == "deny"


@pytest.mark.parametrize("given", [DAY, Decimal(7), Plain(DAY)])
def test_other_objects_are_given_back_as_they_are_or_made_again(given: Any) -> None:
    value = Value({"it": given}, "given")
    assert value.shown == {"it": plain(given)}
    assert value.write({"it": plain(given)})["it"] == given
    other = {"day": "2030-01-01"} if type(given) is Plain else "2030-01-01"
    if type(given) is Decimal:
        assert value.write({"it": 8}) == {"it": Decimal(8)}
    else:
        day = datetime.date(2030, 1, 1)
        assert value.write({"it": other}) == {"it": Plain(day) if type(given) is Plain else day}


def test_an_object_that_is_shown_as_a_dict_is_made_again() -> None:
    value = Value(Plain(DAY), "given")
    assert value.shown == {"day": "2026-01-02"}
    assert value.write({"day": "2030-01-01"}) == Plain(datetime.date(2030, 1, 1))


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), ({"a": "é"}, '{"a": "é"}'), (None, "null"), ({1}, "{1}"), ([MODEL], str([MODEL]))],
)
def test_a_value_is_told_as_it_is_or_as_json(value: Any, text: str) -> None:
    assert text_of(value) == text


@dataclasses.dataclass(frozen=True)
class Pair:
    a: int
    b: int


class PairModel(pydantic.BaseModel):
    a: int
    b: int


@pytest.mark.parametrize("record", [{"a": 1, "b": 2}, Pair(1, 2), PairModel(a=1, b=2)])
def test_a_copy_of_a_record_has_other_values_in_it(record: Any) -> None:
    before = copied(record)
    changed = with_fields(record, b=3)
    assert changed == (type(record)(a=1, b=3))
    assert record == before
