"""What hook files change gets back into the values that they were shown."""

from __future__ import annotations

import dataclasses
from typing import Any

import pydantic
import pytest

from otelhooks import hooks
from otelhooks.policy.files.payloads import is_delegated, is_own_turn, put_back
from otelhooks.policy.scripting.plain_values import plain


class Model(pydantic.BaseModel):
    name: str
    raw: bytes = b"\xff"


@dataclasses.dataclass
class Record:
    name: str
    items: Any = None


MODEL = Model(name="a")
ODD = {1, 2}


@pytest.mark.parametrize(
    ("original", "change", "expected"),
    [
        ({"a": b"\xff", "b": 1}, {"b": 2}, {"a": b"\xff", "b": 2}),
        ({"a": {"x": ODD, "y": 1}}, {"a": {"x": [1, 2], "y": 2}}, {"a": {"x": ODD, "y": 2}}),
        ({"a": MODEL}, {"a": {"name": "b", "raw": "\\xff"}}, {"a": Model(name="b")}),
        ({"a": MODEL}, {"a": {"name": "b"}}, {"a": {"name": "b"}}),
        ({"a": MODEL}, {"a": {**plain(MODEL), "c": 1}}, {"a": {**plain(MODEL), "c": 1}}),
        ({"a": Record("x", ODD)}, {"a": {"name": "y", "items": [1, 2]}}, {"a": Record("y", ODD)}),
        ({"a": [b"\xff", 1]}, {"a": ["\\xff", 2]}, {"a": [b"\xff", 2]}),
        ({"a": [b"\xff", 1]}, {"a": ["\\xff"]}, {"a": [b"\xff"]}),
        ({"a": (1, ODD)}, {"a": [[1, 2], 3, 1]}, {"a": [ODD, 3, 1]}),
        ({"a": ODD}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({1: "x"}, {"1": "y"}, {"1": "y"}),
    ],
    ids=str,
)
def test_what_a_script_leaves_stays_as_it_is(original: Any, change: Any, expected: Any) -> None:
    shown = plain(original)
    after = {**shown, **change}
    assert put_back(original, shown, after) == expected


def test_an_unchanged_value_is_the_very_object() -> None:
    given = {"a": [ODD]}
    assert put_back(given, plain(given), plain(given)) is given


def test_whose_turn_it_is() -> None:
    session = hooks.SessionContext()
    turn = hooks.TurnContext(session)
    operation = hooks.OperationContext(turn)
    inner = hooks.TurnContext(operation)
    assert is_own_turn(turn)
    assert is_own_turn(operation)
    assert is_own_turn(session)
    assert not is_own_turn(inner)
    assert is_delegated(inner)
    assert not is_delegated(turn)
    assert not is_delegated(session)
