"""Wrappers that other code takes away: they are put back, or the package refuses."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Collection
from typing import Any

import pytest
import wrapt

pytest.importorskip("opentelemetry.instrumentation", reason="comes with other instrumentations")

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.instrumentation.utils import unwrap

import otelhooks
from otelhooks import policy
from otelhooks.errors import SeatError
from otelhooks.frameworks import kit
from otelhooks.patching import patches
from otelhooks.patching.fields import in_field
from tests.unit.test_patch import (  # noqa: F401  # fixtures
    _adapter,
    _import,
    _raw,
    _row,
    _seat,
    _states,
    publish,
    seen,
)


class Call(kit.ToolCall):
    """A call of a tool of the fake framework."""

    framework = "fake"

    def read(self, tool: Any, x: Any) -> None:
        self.name, self.args = self.function.__name__, {"x": x}

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(**args)

    def denied(self, reason: str) -> Any:
        return f"denied: {reason}"

    def refused(self, error: Exception) -> Any:
        raise error


METHODS = ("Tool.run", "Tool.make", "Tool.plain", "helper")


class Other(BaseInstrumentor):
    """Another instrumentation of one function."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)  # not one for all

    def __init__(self, owner: Any, name: str, put: Any, take: Any) -> None:
        super().__init__()
        self.place, self.put, self.take = (owner, name), put, take

    def instrumentation_dependencies(self) -> Collection[str]:
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        self.before = _raw(*self.place)
        self.put(*self.place)

    def _uninstrument(self, **kwargs: Any) -> None:
        self.take(self)


def proxied(owner: Any, name: str) -> None:
    wrapt.wrap_function_wrapper(owner, name, lambda wrapped, _, args, kw: wrapped(*args, **kw))


def closed(owner: Any, name: str) -> None:
    """Put a plain function over what is read from the class."""
    before = getattr(owner, name)
    setattr(owner, name, lambda *args: before(*args))


def named(owner: Any, name: str) -> None:
    """The same, with the function as a global."""
    names = {"before": getattr(owner, name)}
    exec("def around(*args): return before(*args)", names)
    setattr(owner, name, names["around"])


def puts_back(other: Other) -> None:
    setattr(*other.place, other.before)


def unwraps(other: Other) -> None:
    unwrap(*other.place)


def place_of(tools: Any, target: str) -> tuple[Any, str]:
    head, _, name = target.rpartition(".")
    return (getattr(tools, head) if head else tools), name


def call(tools: Any, target: str) -> Any:
    owner, name = place_of(tools, target)
    return getattr(owner() if inspect.isclass(owner) else owner, name)(1)


def errors_in(caplog: Any) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize("take", [puts_back, unwraps])
@pytest.mark.parametrize("target", METHODS)
def test_what_another_instrumentation_takes_along_is_put_back(target, take, seen, caplog):
    """It was there before us; it puts back what it knew, or takes what is outermost."""
    tools = _import("fakefw.tools")
    owner, name = place_of(tools, target)
    original = _raw(owner, name)
    other = Other(owner, name, proxied, take)
    other.instrument()
    patches.install(_adapter(_seat(seen, target)), strict=True)
    other.uninstrument()

    assert _states() == {f"tools.{target}": "patched"}
    call(tools, target)
    assert seen == [target]
    (message,) = errors_in(caplog)
    assert f"fakefw.tools.{target}" in message
    patches.uninstall()
    if take is puts_back:
        assert _raw(owner, name) is original
    call(tools, target)
    assert seen == [target]


@pytest.mark.parametrize("put", [proxied, closed, named])
@pytest.mark.parametrize("target", ["Tool.run", "helper"])
def test_what_is_only_wrapped_once_more_is_judged_once(target, put, seen, caplog):
    patches.install(_adapter(_seat(seen, target)), strict=True)
    tools = _import("fakefw.tools")
    other = Other(*place_of(tools, target), put, puts_back)
    other.instrument()
    patches.mend()
    assert _states() == {f"tools.{target}": "patched"}
    call(tools, target)
    other.uninstrument()
    call(tools, target)
    assert seen == [target, target]
    assert errors_in(caplog) == []


def test_a_wrapper_that_comes_back_is_the_only_one(seen):
    """As where a test replaces a function for a while."""
    patches.install(_adapter(_seat(seen, "Tool.run")), strict=True)
    tools = _import("fakefw.tools")
    ours = _raw(tools.Tool, "run")
    tools.Tool.run = lambda self, x: ("replaced", x)
    patches.mend()
    assert tools.Tool().run(1) == ("replaced", 1)
    tools.Tool.run = ours
    patches.mend()
    assert tools.Tool().run(1) == ("ran", 1)
    assert seen == ["Tool.run", "Tool.run"]
    patches.uninstall()
    assert isinstance(_raw(tools.Tool, "run"), type(lambda: None))


def test_an_override_and_a_field_are_put_back(seen):
    held = _seat(seen, "FunctionTool.invoke", install=in_field())
    seats = (_seat(seen, "Tool.run", overrides=True), held)
    tools = _import("fakefw.tools")
    original = _raw(tools.Loud, "run")
    patches.install(_adapter(*seats), strict=True)
    made = tools.FunctionTool("x", lambda: "raw")
    tools.Loud.run = original
    del tools.FunctionTool.invoke
    patches.mend()

    tools.Loud().run(1)
    assert seen == ["Tool.run", "Tool.run"]  # the override calls the method below it
    assert made.invoke() == "raw"
    assert seen[2:] == ["FunctionTool.invoke"]
    patches.uninstall()
    assert _raw(tools.Loud, "run") is original
    assert "invoke" not in vars(tools.FunctionTool)


@pytest.mark.parametrize("strict", [True, False])
def test_what_cannot_be_guarded_any_more_is_refused(strict, seen, caplog):
    """A function of another kind took the place of one that the adapter knows."""
    seat = kit.seat("fakefw.tools:Tool.run", Call, kind="plain")
    patches.install(_adapter(seat, _seat(seen, "helper")), strict=strict)
    tools = _import("fakefw.tools")

    async def replaced(self: Any, x: Any) -> Any:
        return x

    tools.Tool.run = replaced
    patches.mend()
    assert _row().state == ("refused" if strict else "unpatched")
    assert "written for a function of kind plain" in _row().error
    if strict:
        with pytest.raises(SeatError, match="kind plain"):
            tools.helper(1)
        with pytest.raises(SeatError, match="kind plain"):
            tools.Tool().run(1)


def test_any_call_of_a_package_looks_after_its_other_seats(publish, caplog):
    """Code that is no instrumentation put a function back."""
    publish()
    tools = _import("fakefw.tools")
    original = _raw(tools.Tool, "run")
    seats = [kit.seat(f"fakefw.tools:{name}", Call) for name in ("Tool.run", "helper")]
    otelhooks.instrument(policies=[policy.deny("run", reason="no")], frameworks=[])
    try:
        patches.install(_adapter(*seats), strict=True)
        tools.Tool.run = original
        assert tools.helper(1) == ("helper", 1)
        assert tools.Tool().run(1) == "denied: no"
        assert len(errors_in(caplog)) == 1
        assert tools.helper(1) == ("helper", 1)
        assert len(errors_in(caplog)) == 1
    finally:
        otelhooks.uninstrument()


@pytest.mark.parametrize("put", [proxied, closed, named])
def test_a_subclass_that_another_instrumentation_wraps_is_no_way_round(put, seen):
    """It holds the function that it found before us, and puts that back in the subclass."""
    tools = _import("fakefw.tools")

    class Client(tools.Tool):
        """Inherits the method."""

    original = _raw(tools.Tool, "run")
    other = Other(Client, "run", put, puts_back)
    other.instrument()
    patches.install(_adapter(_seat(seen, "Tool.run")), strict=True)
    assert Client().run(1) == ("ran", 1)
    assert seen == ["Tool.run"]
    other.uninstrument()
    assert Client().run(1) == ("ran", 1)
    assert seen == ["Tool.run"] * 2
    patches.uninstall()
    assert _raw(Client, "run") is original
    assert Client().run(1) == ("ran", 1)
    assert seen == ["Tool.run"] * 2


def test_an_override_that_leads_to_the_method_below_is_judged_there_alone(seen):
    tools = _import("fakefw.tools")

    class Like(tools.Tool):
        """Looks like the method below, and calls it."""

        @functools.wraps(tools.Tool.run)
        def run(self, x: Any) -> Any:
            return super().run(x)

    patches.install(_adapter(_seat(seen, "Tool.run")), strict=True)
    assert Like().run(1) == ("ran", 1)
    assert tools.Loud().run(1) == ("loud", "ran", 1)
    assert seen == ["Tool.run"] * 2
