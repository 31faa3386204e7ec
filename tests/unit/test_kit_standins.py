"""The kit's stand-ins for objects of a framework, counts of tokens, and first items of streams."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import types as python_types
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import otelhooks
from otelhooks import hooks, types
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.streams.contexts import noted


class Model:
    """The framework's."""

    name = "m-1"

    def ask(self, text: str) -> str:
        return f"answer to {text}"

    async def ask_later(self, text: str) -> str:
        return f"answer to {text}"


class Plain:
    """One without coroutine functions."""

    def ask(self, text: str) -> str:
        return f"answer to {text}"


class Wrapper:
    """The framework's own way to wrap one."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped


class Asked(kit.ModelCall):
    framework = "fake"
    table = kit.PartTable(made={"text": lambda part: part.text})
    tokens: ClassVar = {"input_tokens": "read", "reasoning_output_tokens": "more.thought"}

    def read(self, owner: Any, text: str) -> None:
        self.messages, self.agent = [{"role": "user", "content": text}], owner._self_of

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.messages[0]["content"])

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        return "".join(parts)

    def parts(self, message: Any) -> Any:
        return [kit.Part("text", message, message)]


@pytest.fixture
def module() -> Iterator[Any]:
    made: Any = python_types.ModuleType("fake_models")
    made.Wrapper = Wrapper
    sys.modules["fake_models"] = made
    yield made
    del sys.modules["fake_models"]


METHODS: Any = {"ask": (Asked, "plain"), "ask_later": (Asked, "coroutine")}


@pytest.mark.parametrize(
    ("path", "field"), [("fake_models:Wrapper", "wrapped"), ("wrapt:ObjectProxy", "__wrapped__")]
)
def test_calls_of_a_stand_ins_methods_pass_the_class(module: Any, path: str, field: str) -> None:
    agents: list[Any] = []

    @hooks.pre_model_call
    def refuse(call: types.ModelCall) -> types.HookResult:
        agents.append(call.agent)
        return types.HookResult(allow="x" not in str(call.messages), message="Not that.")

    otelhooks.instrument(hooks=[refuse], frameworks=[])
    model = Model()
    standing = Asked.stand_in(path, field, **METHODS)(model, "worker")
    assert getattr(standing, field) is model
    assert standing.ask("a") == "answer to a"
    assert standing.ask("x") == "Not that."
    assert asyncio.run(standing.ask_later("x")) == "Not that."
    assert agents == ["worker"] * 3


def test_a_stand_in_has_the_methods_that_its_object_has() -> None:
    """Frameworks ask whether a model can be awaited, and call its plain method if it cannot."""
    standing = Asked.stand_in("wrapt:ObjectProxy", "__wrapped__", **METHODS)(Plain(), "worker")
    assert hasattr(standing, "ask")
    assert not hasattr(standing, "ask_later")


def test_a_stand_in_may_hold_another_one(module: Any) -> None:
    model = Asked.stand_in("wrapt:ObjectProxy", "__wrapped__", **METHODS)
    agent = Asked.stand_in("wrapt:ObjectProxy", "__wrapped__", model=model)

    @hooks.pre_model_call
    def refuse(call: types.ModelCall) -> types.HookResult:
        return types.HookResult(allow=False, message=f"Not for {call.agent}.")

    otelhooks.instrument(hooks=[refuse], frameworks=[])
    own = SimpleNamespace(model=Model(), steps=1)
    seen = agent(own, "worker")
    assert seen.model.ask("x") == "Not for worker."
    seen.steps = 2
    assert (own.steps, own.model.ask("x")) == (2, "answer to x")


def test_a_subclass_is_made_of_the_class_of_this_version(module: Any) -> None:
    @kit.subclass("(nowhere|fake_models):(Gone|Wrapper)")
    def make(base: Any) -> Any:
        return type("Sub", (base,), {})

    assert isinstance(make("it"), Wrapper)
    assert make("it").wrapped == "it"
    assert kit.native("(nowhere|fake_models):(Gone|Wrapper)") is kit.native("fake_models:Wrapper")

    @kit.subclass("fake_models:Never")
    def broken(base: Any) -> Any:
        return base

    with pytest.raises(AttributeError, match="Never"):
        broken()


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        (
            SimpleNamespace(read=3, more={"thought": 2}),
            {"input_tokens": 3, "reasoning_output_tokens": 2},
        ),
        ({"read": 3}, {"input_tokens": 3}),
        (SimpleNamespace(read=0, more=SimpleNamespace(thought=0)), {}),
        (None, {}),
    ],
)
def test_tokens_are_found_where_the_framework_counts_them(usage: Any, found: Any) -> None:
    assert Asked().used(usage) == found


def test_the_first_item_of_a_stream_is_noted_once() -> None:
    class Stream:
        async def items(self) -> Any:
            yield "a"
            yield "b"

    notes: list[str] = []

    async def read() -> list[str]:
        stream = Stream()
        noted(stream, "items", lambda: notes.append("first"))
        async with contextlib.aclosing(stream.items()) as items:
            return [item async for item in items]

    assert asyncio.run(read()) == ["a", "b"]
    assert notes == ["first"]
