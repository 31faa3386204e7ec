"""Items of the kit's streams: noted as they come, or made inside a block."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

import pytest

from otelhooks.frameworks.kit.objects.outer import known
from otelhooks.frameworks.kit.streams.contexts import noted
from otelhooks.frameworks.kit.streams.returned import stepped

STEP: ContextVar[str] = ContextVar("step", default="outside")


class Stream:
    async def items(self) -> AsyncIterator[str]:
        for item in "abc":
            yield item


@pytest.mark.parametrize(
    ("notes_others", "seen"), [(True, ["first", "next", "next"]), (False, ["first"])]
)
def test_items_are_noted(notes_others: bool, seen: list[str]) -> None:
    told: list[str] = []

    def note() -> object:
        told.append("first")
        return (lambda: told.append("next")) if notes_others else None

    async def read() -> list[str]:
        stream = Stream()
        noted(stream, "items", note)
        return [item async for item in stream.items()]

    assert asyncio.run(read()) == ["a", "b", "c"]
    assert told == seen


def test_each_item_is_made_inside_a_block_and_read_outside_it() -> None:
    closed: list[str] = []

    def items() -> Iterator[str]:
        try:
            while True:
                yield STEP.get()
        finally:
            closed.append(STEP.get())

    async def aitems() -> AsyncIterator[str]:
        for item in items():
            yield item

    async def read() -> list[str]:
        stream = stepped(aitems(), block)
        seen = [await anext(stream), STEP.get(), await anext(stream)]
        await stream.aclose()
        return seen

    block = functools.partial(known, STEP, "inside")
    stream = stepped(items(), block)
    assert [next(stream), STEP.get(), next(stream)] == ["inside", "outside", "inside"]
    stream.close()
    assert closed == ["outside"]
    assert asyncio.run(read()) == ["inside", "outside", "inside"]
