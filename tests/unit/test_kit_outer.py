"""Ids of tool calls that only an outer function knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest

from otelhooks.frameworks.kit.objects import outer

TOOL = object()


def look() -> list[str]:
    """Return the ids that a tool's call, another tool's, and a call by its body have."""
    return [outer.id_for(object()), outer.id_for(TOOL), outer.id_for(TOOL)]


async def look_later() -> list[str]:
    await asyncio.sleep(0)
    return look()


def returns_a_function() -> Callable[[], Any]:
    context = copy_context()
    return lambda: context.run(look)


def returns_a_coroutine_function() -> Any:
    return look_later


async def in_a_task() -> list[str]:
    return await asyncio.create_task(outer.noted(TOOL, "c1", look_later))


async def side_by_side() -> list[str]:
    runs = [outer.noted(TOOL, id, returns_a_coroutine_function) for id in ("c1", "c2")]
    found = await asyncio.gather(*(run() for run in runs))
    assert [ids[1] for ids in found] == ["c1", "c2"]
    return found[0]


@pytest.mark.parametrize(
    "run",
    [
        lambda: outer.noted(TOOL, "c1", look),
        lambda: outer.noted(TOOL, "c1", returns_a_function)(),
        lambda: asyncio.run(in_a_task()),
        lambda: asyncio.run(side_by_side()),
    ],
    ids=["plain", "a function", "a coroutine function", "side by side"],
)
def test_the_call_that_an_outer_function_leads_to_takes_its_id_once(run: Any) -> None:
    assert run() == ["", "c1", ""]
    assert outer.id_for(TOOL) == ""


def test_a_call_without_an_id_has_none() -> None:
    assert outer.noted(TOOL, None, look) == ["", "", ""]


def test_arguments_and_failures_pass() -> None:
    def fail(x: int, *, tool: int) -> None:
        raise ValueError(x + tool)

    with pytest.raises(ValueError, match="3"):
        outer.noted(TOOL, "c1", fail, 1, tool=2)
