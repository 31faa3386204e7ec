"""The kit's model calls and runs whose chunks go to a callback of the application's."""

from __future__ import annotations

import asyncio
import sys
import types as python_types
from collections.abc import Callable
from typing import Any

import pytest

import otelhooks
from otelhooks import errors, hooks, types
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import callbacks
from otelhooks.patching import patches, versions
from otelhooks.records import semconv

MODEL = "fake:ask"


class Asked(callbacks.ModelCall):
    framework = "fake"
    table = kit.PartTable(made={"text": lambda part: part.text})

    def read(self, owner: Any, text: str, callback: Any = None) -> None:
        self.messages, self.callback = [{"role": "user", "content": text}], callback

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.messages[0]["content"], self.heard())

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        return "".join(parts)

    def parts(self, message: Any) -> Any:
        return [kit.Part("text", message, message)]

    def told(self, result: Any) -> Any:
        return [result]


class Ran(callbacks.Run):
    framework = "fake"

    def read(self, owner: Any, text: str, callback: Any = None) -> None:
        self.agent, self.prompt, self.callback = "worker", text, callback

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.prompt, self.callback)

    def denied(self, reason: str) -> Any:
        return reason

    def answer_of(self, raw: Any) -> Any:
        return raw

    def told(self, result: Any) -> Any:
        return [result]


def ask(text: str, callback: Any = None) -> str:
    for chunk in ("one ", "two") if callback else ():
        callback(chunk)
    return "one two"


async def ask_later(text: str, callback: Any = None) -> str:
    for chunk in ("one ", "two") if callback else ():
        await callback(chunk)
    return "one two"


@hooks.pre_model_call
def refuse(call: types.ModelCall) -> types.HookResult:
    return types.HookResult(allow=False, message="Not that.")


@hooks.pre_turn
def refuse_turn(turn: types.Turn) -> types.HookResult:
    return types.HookResult(allow=False, message="Not that.")


@hooks.post_model_call_transform
def rewrite(response: types.ModelResponse) -> str:
    return response.text.upper()


class Chunks(list[str]):
    """What a callback got, as a function or a coroutine function."""

    async def later(self, chunk: str) -> None:
        self.append(chunk)

    def of(self, function: Any) -> Callable[[Any], Any]:
        return self.later if function is ask_later else self.append


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, governed: Any) -> Any:
    """Install an adapter of one function; returns what calls it."""
    module: Any = python_types.ModuleType("fake")
    monkeypatch.setitem(sys.modules, "fake", module)
    monkeypatch.setattr(versions, "installed", lambda names, module: (names[0], "1.0"))

    def install(passage: Any, function: Any, **settings: Any) -> Any:
        module.ask = function
        governed(**settings)
        package = kit.Package("fake", ">=1", module="fake")
        adapter = kit.Adapter("fake", package, seats=(kit.seat(MODEL, passage),))
        patches.install(adapter, strict=True)

        def call(*args: Any) -> Any:
            given = module.ask("hello", *args)
            return asyncio.run(given) if asyncio.iscoroutine(given) else given

        return call

    yield install
    patches.uninstall("fake")
    otelhooks.uninstrument()


@pytest.mark.parametrize("function", [ask, ask_later])
@pytest.mark.parametrize(
    ("settings", "answer", "seen"),
    [
        ({}, "one two", ["one ", "two"]),
        ({"hooks": [refuse]}, "Not that.", ["Not that."]),
        ({"hooks": [rewrite]}, "ONE TWO", ["ONE TWO"]),
        ({"hooks": [rewrite], "stream": "pass"}, "ONE TWO", ["one ", "two"]),
    ],
    ids=["allowed", "refused", "rewritten", "passed on"],
)
def test_a_callback_gets_what_the_caller_gets(fake, function, settings, answer, seen) -> None:
    call, chunks = fake(Asked, function, **settings), Chunks()
    assert call(chunks.of(function)) == answer
    assert chunks == seen


@pytest.mark.parametrize("function", [ask, ask_later])
def test_chunks_wait_for_a_hook_that_may_change_the_answer(fake, function) -> None:
    chunks = Chunks()

    @hooks.post_model_call_transform
    def look(response: types.ModelResponse) -> None:
        assert chunks == []

    call = fake(Asked, function, hooks=[look])
    assert call(chunks.of(function)) == "one two"
    assert chunks == ["one ", "two"]


@pytest.mark.parametrize("function", [ask, ask_later])
def test_the_time_between_chunks_is_told_on_request(fake, governed, monkeypatch, function) -> None:
    monkeypatch.setenv("OTELHOOKS_CHUNK_HISTOGRAM", "1")
    fake(Asked, function)(Chunks().of(function))
    [between] = governed.points(semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK)
    [first] = governed.points(semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK)
    assert (first.count, between.count) == (1, 1)


@pytest.mark.parametrize("passage", [Asked, Ran])
def test_without_a_callback_only_the_caller_gets_an_answer(fake, passage) -> None:
    assert fake(passage, ask, hooks=[refuse, refuse_turn])() == "Not that."


@pytest.mark.parametrize("function", [ask, ask_later])
def test_a_refused_run_tells_its_callback_and_one_that_ran_has_told_it(fake, function) -> None:
    call, chunks = fake(Ran, function), Chunks()
    assert call(chunks.of(function)) == "one two"
    assert chunks == ["one ", "two"]
    patches.uninstall("fake")
    otelhooks.uninstrument()
    call, chunks = fake(Ran, function, hooks=[refuse_turn]), Chunks()
    assert call(chunks.of(function)) == "Not that."
    assert chunks == ["Not that."]


def test_a_class_without_the_form_of_a_chunk_is_refused() -> None:
    class Formless(Asked):
        told = callbacks.ModelCall.told

    with pytest.raises(errors.ConfigError, match="does not define `told`"):
        kit.seat(MODEL, Formless)
