"""Items of the kit's streams that are asynchronous context managers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from otelhooks.frameworks.kit.streams.contexts import noted


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
