# pyright: basic
"""The kit: what consumers get, refusals without a run, other functions, and compaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from otelhooks import errors, hooks, policy, types
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.compaction import Compaction
from otelhooks.frameworks.kit.telemetry import failed
from tests.unit import test_kit
from tests.unit.test_kit import CALLS, METHODS, guarded

framework = test_kit.framework
WITH_DELIVERY = [kind for kind in CALLS if kind != "async context"]


@pytest.fixture(params=WITH_DELIVERY)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


class Run(kit.Run):
    """A run whose consumer gets everything in capitals, and a mark at its end."""

    framework = "fake"

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def read(self, owner: Any, x: Any) -> Any:
        if x == "other":
            self.function = lambda x: ["another function"]
            return kit.SKIP
        self.agent, self.prompt, self.log = "agent", x, owner.ran
        return None

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.prompt)

    def whole(self, seen: Any) -> Any:
        return "".join(seen)

    def told(self, result: Any) -> Any:
        return [result]

    def answer_of(self, raw: Any) -> Any:
        return raw

    def denied(self, reason: str) -> Any:
        return f"no: {reason}"

    def deliver(self, item: Any) -> Any:
        if not item.startswith("got"):
            return [item]
        return self._shouted(item)

    def _shouted(self, item: str) -> Any:
        loud = yield self._upper(item)
        try:
            yield self._fails()
        except ValueError:
            return [loud]

    def _upper(self, item: str) -> Any:
        async def later() -> str:
            await asyncio.sleep(0)
            return item.upper()

        return later() if self.is_async else item.upper()

    def _fails(self) -> Any:
        async def later() -> None:
            raise ValueError

        if self.is_async:
            return later()
        raise ValueError

    def delivered(self) -> Any:
        self.log.append("end")
        yield "nothing"


class Last(Run):
    def whole(self, seen: Any) -> Any:
        self.log.append("ended")
        return super().whole(seen)

    def deliver(self, item: Any) -> Any:
        self.is_over = True
        return [item]


def test_what_an_adapter_delivers_is_what_the_consumer_gets(framework: Any, kind: str) -> None:
    with guarded(framework, METHODS[kind], Run):
        made = framework()
        assert CALLS[kind](made, "it").lower() == "got it"
        assert made.ran == ["it", "end"]


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_a_call_ends_before_the_item_that_nothing_follows(framework: Any, kind: str) -> None:
    with guarded(framework, METHODS[kind], Last):
        made = framework()
        items = getattr(made, METHODS[kind])("it")
        first = next(items) if kind == "generator" else asyncio.run(anext(items))
        assert first == "got "
        assert made.ran == ["it", "ended"]


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_what_comes_after_such_an_item_is_delivered_with_it(framework: Any, kind: str) -> None:
    with guarded(framework, METHODS[kind], Last):
        assert CALLS[kind](framework(), "it") == "got it"


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_an_endless_stream_is_not_held_back(framework: Any, kind: str) -> None:
    class Endless(Run):
        def holds(self) -> bool:
            return False

    @hooks.post_agent_transform
    def stamp(answer: Any) -> Any:
        return "stamped"

    with guarded(framework, METHODS[kind], Endless, hooks=[stamp]):
        assert CALLS[kind](framework(), "it") == "GOT it"  # its own answer


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_a_stream_that_is_left_early_is_not_told_its_end(framework: Any, kind: str) -> None:
    async def leave(items: Any) -> None:
        await anext(items)
        await items.aclose()

    with guarded(framework, METHODS[kind], Run):
        made = framework()
        items = getattr(made, METHODS[kind])("it")
        if kind == "generator":
            next(items)
            items.close()
        else:
            asyncio.run(leave(items))
        assert made.ran == ["it"]


def test_a_run_is_refused_without_running(framework: Any, kind: str) -> None:
    @hooks.pre_turn
    def refuse(prompt: Any) -> types.HookResult:
        return types.HookResult(allow=False, message="Not that.")

    with guarded(framework, METHODS[kind], Run, hooks=[refuse]):
        made = framework()
        assert CALLS[kind](made, "it") == "no: Not that."
        assert made.ran == ["end"]


def test_a_ready_answer_is_told_as_a_refusal_is(framework: Any, kind: str) -> None:
    @hooks.pre_agent
    def answer(call: Any) -> types.HookResult:
        return types.HookResult(response="ready")

    with guarded(framework, METHODS[kind], Run, hooks=[answer]):
        assert CALLS[kind](framework(), "it") == "no: ready"


def test_a_refused_version_raises_where_a_run_starts(framework: Any) -> None:
    with guarded(framework, "plain", Run, mode=2), pytest.raises(errors.SeatError):
        framework().plain("it")


def test_another_function_runs_where_a_call_is_left_to_the_framework(framework: Any) -> None:
    with guarded(framework, "generator", Run):
        assert list(framework().generator("other")) == ["another function"]


class Shortening(Compaction):
    framework = "fake"


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_hooks_see_the_text_that_replaces_a_history(framework: Any, kind: str) -> None:
    seen: list[Any] = []

    class Watch(hooks.OnCompactionHook):
        async def run(self, context: Any, data: Any) -> Any:
            seen.append(data.content)

    with guarded(framework, METHODS[kind], Shortening, hooks=[Watch()]):
        assert CALLS[kind](framework(), "it") == "got it"
        assert seen == ["got it"]


class Asked(kit.ModelCall):
    framework = "fake"
    table = kit.PartTable(made={})

    def read(self, owner: Any, x: Any) -> Any:
        if self.is_inner() or x == "inner":
            owner.ran.append((self.is_inner(), self.must_wait()))
            return kit.SKIP
        self.owner = owner
        return None

    def call(self, wrapped: Any) -> Any:
        return self.owner.plain("inner")

    def answer(self, parts: Any, of: Any = None) -> Any:
        return parts

    def parts(self, message: Any) -> Any:
        return [kit.Part("text", message, message)]


@pytest.mark.parametrize(("settings", "waits"), [({}, True), ({"stream": "pass"}, False)])
def test_a_model_call_knows_that_it_is_inside_itself_and_whether_it_must_wait(
    framework: Any, settings: Any, waits: bool
) -> None:
    class Change(hooks.PostModelCallTransformHook):
        async def run(self, context: Any, data: Any) -> Any:
            return None

    with guarded(framework, "plain", Asked, hooks=[Change()], **settings):
        made = framework()
        assert not Asked.is_inner()
        made.plain("it")
        assert made.ran[0] == (True, waits)
    assert not Asked.must_wait()


@pytest.mark.parametrize(
    ("definition", "name"),
    [({"name": "a"}, "a"), ({"function": {"name": "b"}}, "b"), (object(), None)],
)
def test_a_defined_tool_is_known_by_the_name_that_the_apis_give_it(
    definition: Any, name: Any
) -> None:
    call = Asked().offered(definition)
    assert (call.name if call is not None else None) == name


def test_what_fails_once_a_call_has_ended_is_logged_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed("the answer is not kept", ValueError("secret"))
    assert caplog.messages == ["the answer is not kept: ValueError"]


def test_rules_are_not_asked_about_a_shortening(framework: Any) -> None:
    with guarded(framework, "plain", Shortening, policy.deny("*", reason="no")):
        assert framework().plain("it") == "got it"


def test_a_run_knows_that_it_is_inside_another(framework: Any) -> None:
    class Outer(Run):
        def call(self, wrapped: Any) -> Any:
            return f"{wrapped(self.prompt)} {self.is_outermost()}"

    with guarded(framework, "plain", Outer):
        assert framework().plain("it") == "GOT IT FALSE"
    assert Run.is_outermost()


def test_code_inside_a_run_finds_the_innermost_one(governed: Any) -> None:
    class Named(kit.Run):
        framework = "fake"

        def read(self, owner: Any, name: str) -> None:
            self.agent = name

        def call(self, wrapped: Any) -> Any:
            return wrapped(self.agent)

        def answer_of(self, raw: Any) -> Any:
            return None

    def found(name: str) -> list[str]:
        inner = Named.through("plain", found, None, "inner") if name == "outer" else []
        return [*inner, kit.Run.here().agent]

    governed()
    assert Named.through("plain", found, None, "outer") == ["inner", "outer"]
    assert kit.Run.here() is None
