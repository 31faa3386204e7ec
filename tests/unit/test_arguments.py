"""The hash of arguments: one for every call, and ordinary arguments keep the one that they had."""

from __future__ import annotations

import datetime
import decimal
import enum
import hashlib
import json
from typing import Any

import pytest

from otelhooks.records.arguments import arguments_hash

HUGE = 10**5000


class Day(enum.Enum):
    MONDAY = 1


class Wordless:
    def __repr__(self) -> str:
        raise ValueError("no text")


def deep(levels: int, value: Any) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def in_itself() -> dict[str, Any]:
    value: dict[str, Any] = {"x": [1]}
    value["x"] += [value, value, (value["x"],)]
    return value


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({}, "{}"),
        ({"b": [1, 2.5, True, None], "a": "é"}, '{"a":"é","b":[1,2.5,true,null]}'),
        ({"a": {1: "x", 2.5: "y"}}, '{"a":{"1":"x","2.5":"y"}}'),
        ({"b": 1, 2: "c"}, '{"b":1,"2":"c"}'),
        ({"a": decimal.Decimal("1.50")}, '{"a":"Decimal(\'1.50\')"}'),
        ({"a": (1, float("inf"))}, '{"a":[1,Infinity]}'),
        ({"a": Wordless()}, '{"a":"<Wordless>"}'),
    ],
)
def test_ordinary_arguments_keep_their_hash(args, text):
    assert arguments_hash(args) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"x": {b"k": 1, "a": [], "b": {}}}, r"""{"x":{"a":[],"b":{},"b'k'":1}}"""),
        ({"x": {(1, 2): {"é": (True, None)}}}, '{"x":{"(1, 2)":{"é":[true,null]}}}'),
        ({"x": {Day.MONDAY: "\ud800"}}, '{"x":{"<Day.MONDAY: 1>":"\ud800"}}'),
        ({"x": {Wordless(): 2.5}}, '{"x":{"<Wordless>":2.5}}'),
        ({"x": [1, HUGE, -HUGE]}, f'{{"x":[1,"{HUGE:#x}","{-HUGE:#x}"]}}'),
        ({"x": {HUGE: {decimal.Decimal(1)}}}, f'{{"x":{{"{HUGE:#x}":"{{Decimal(\'1\')}}"}}}}'),
        (in_itself(), '{"x":[1,"...","...",["..."]]}'),
        ({"x": deep(100_000, 7)}, '{"x":' + "[" * 100_000 + "7" + "]" * 100_000 + "}"),
    ],
)
def test_what_json_does_not_know_is_spelled_out(args, text):
    assert arguments_hash(args) == hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    if len(text) < 1000:
        json.loads(text)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({HUGE: 1}, {HUGE + 1: 1}),
        ({Day.MONDAY: 1}, {Day.MONDAY: 2}),
        ({b"k": 1, "k": 2}, {b"k": 2, "k": 1}),
        ({datetime.date(2026, 1, 1): 1}, {datetime.date(2026, 1, 2): 1}),
        (deep(5_000, 1), deep(5_000, 2)),
        (deep(5_000, 1), deep(5_001, 1)),
        ({b"k": [1, [2]]}, {b"k": [[1], 2]}),
    ],
)
def test_other_arguments_have_another_hash(first, second):
    assert arguments_hash({"x": first}) != arguments_hash({"x": second})


def test_the_order_of_keys_that_json_does_not_know_does_not_count():
    one, two = datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)
    assert arguments_hash({"x": {one: 1, two: 2}}) == arguments_hash({"x": {two: 2, one: 1}})


def test_containers_whose_own_code_raises_have_a_hash():
    class Closed(list[int]):
        def __iter__(self) -> Any:
            raise ValueError("closed")

    class Shut(dict[str, int]):
        def items(self) -> Any:
            raise ValueError("shut")

    assert len(arguments_hash({"x": [Closed([1]), Shut(a=1)], "y": {b"k": 1}})) == 64
