"""Values as scripts are given them."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import uuid
from typing import Any

import pydantic
import pytest

from otelhooks.policy.scripting.plain_values import MAX_DEPTH, MAX_VALUES, plain


class Colour(str, enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


class Text(str):
    __slots__ = ()


class Number(float):
    __slots__ = ()


class Items(list[int]):
    pass


class Model(pydantic.BaseModel):
    a: int
    b: bytes


@dataclasses.dataclass
class Record:
    a: Any


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (10**30, 10**30),
        (1.5, 1.5),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (decimal.Decimal("1.5"), decimal.Decimal("1.5")),
        ("ü", "ü"),
        ("\ud800x", "\ufffd\ufffd\ufffdx"),
        (Text("x"), "x"),
        (Number(1.5), 1.5),
        (Items([1]), [1]),
        (Colour.RED, "red"),
        (Size.BIG, 3),
        (b"rm \xff", "rm \\xff"),
        (bytearray(b"x"), "x"),
        ((1, (2,)), [1, [2]]),
        ({3, 1}, [1, 3]),
        (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.timedelta(minutes=1), 60.0),
        (pathlib.PurePosixPath("/a"), "/a"),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (Model(a=1, b=b"x"), {"a": 1, "b": "x"}),
        (Record(Record(1)), {"a": {"a": 1}}),
        ({1: 2, None: 3, False: 4.5}, {"1": 2, "null": 3, "false": 4.5}),
        ({Colour.RED: 1}, {"red": 1}),
    ],
    ids=repr,
)
def test_a_value_has_a_plain_form(value: Any, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "value",
    [object(), type, len, {(1, 2): 3}, {b"x": 1}, [object()], 1j, (x for x in [])],
)
def test_what_has_none_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError, match="a script cannot be given a"):
        plain(value)


def test_two_keys_that_become_one_are_an_error() -> None:
    with pytest.raises(ValueError, match="two keys are `1`"):
        plain({1: "a", "1": "b"})


def test_depth_and_number_are_bounded() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    plain(deep)
    with pytest.raises(ValueError, match="nested deeper"):
        plain([deep])
    with pytest.raises(ValueError, match="more than"):
        plain([[0] * 1000] * (MAX_VALUES // 1000 + 1))


def test_containers_are_copies() -> None:
    given = {"a": [1]}
    found = plain(given)
    found["a"].append(2)
    assert given == {"a": [1]}
