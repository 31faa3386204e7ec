"""Arguments with objects of pydantic's in them: how rules see them, and what the tool gets."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from otelhooks.frameworks.kit.values import Value, copied


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
