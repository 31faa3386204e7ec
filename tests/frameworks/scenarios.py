"""Scenarios of the contract that need an agent made for them; each is played once a framework.

A framework's host (`tests/examples/stage.py`) makes the agent; its examples and these scenarios
are in one file::

    class TestScenarios(Scenarios):
        host = OpenAIAgents()

`Host.open` is enough for calls that the framework answers itself and for objects as arguments;
`Actor.ending` is the function that makes a run's answer; `Host.converse` runs an agent on a
history; `Host.own_spans` turns on the framework's own spans. A scenario that a framework has no
path for is in ``Host.lacks``, by its name in `WORDS`, with the reason. The table in
docs/writing-an-adapter.md says the same, and is compared with it. The name of a scenario begins
with its word.
"""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path as FilePath
from typing import Any, ClassVar

import anyio
import pydantic
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.records import semconv
from tests.examples.stage import Actor, Host
from tests.frameworks.contract import ANSWER, DANGER, REASON, SAFE, Ask, Path, Seen, World

__all__ = ["PAGE", "WORDS", "Order", "Scenarios"]

PAGE = FilePath(__file__).parents[2] / "docs" / "writing-an-adapter.md"

WORDS = {
    "own spans": "the framework's own spans are on",
    "output function": "a function makes the run's answer",
    "history only": "a run has a history and no message",
    "history of others": "a history that otelhooks has not seen",
    "history joins runs": "a run continues from another's history",
    "invalid arguments": "the framework answers a call with invalid arguments",
    "unknown tool": "the framework answers a call of a tool that does not exist",
    "objects": "arguments are objects, and rules look into them",
}
"""Word in ``Host.lacks`` to the line of the table."""

BEGIN = "please begin"
UNTRUSTED = {"untrusted"}


class Order(pydantic.BaseModel):
    """An argument of `book`."""

    day: datetime.date
    price: decimal.Decimal = decimal.Decimal(0)


class Scenarios:
    """The scenarios; inherit and give the host."""

    host: ClassVar[Host]

    @pytest.fixture(autouse=True)
    def skipped_with_a_reason(self, request: pytest.FixtureRequest) -> None:
        name = request.function.__name__.removeprefix("test_").replace("_", " ")
        for word, reason in self.host.lacks.items():
            if word in WORDS and name.startswith(word):
                pytest.skip(reason)

    @pytest.fixture
    def seen(
        self,
        exporter: InMemorySpanExporter,
        metrics_reader: InMemoryMetricReader,
        tracer_provider: TracerProvider,
        meter_provider: MeterProvider,
    ) -> Seen:
        """Telemetry of what `instrument` sets up."""
        self._providers = {"tracer_provider": tracer_provider, "meter_provider": meter_provider}
        return Seen(exporter, metrics_reader)

    def instrument(self, *rules: Any, **settings: Any) -> None:
        """Instrument the framework with rules."""
        adapters = self.host.adapters
        otelhooks.instrument(policies=rules, frameworks=adapters, **self._providers, **settings)

    def play(self, actor: Actor) -> Any:
        """Run an actor on a message; return its answer."""

        async def run() -> Any:
            async with self.host.open(actor) as run:
                return await run(BEGIN)

        return anyio.run(run)

    def go_on(self, actor: Actor, *prompts: str | None, history: Any = None) -> list[Any]:
        """Run an actor on messages, each run from the history of the one before."""

        async def run() -> list[Any]:
            answers, past = [], history
            async with self.host.converse(actor) as converse:
                for prompt in prompts:
                    answer, past = await converse(prompt, past)
                    answers.append(answer)
            return answers

        return anyio.run(run)

    def check(self, seen: Seen, trees: int = 1) -> None:
        """Check that spans are whole, and that no call was missed."""
        seen.check(Path("host", lambda world: str, has_run="turn" in self.host.layers), trees)

    def rule(self, tool: str) -> str:
        """Return how a rule names a tool."""
        return self.host.selector(tool)

    def test_the_page_says_what_is_not_there(self) -> None:
        """The table of scenarios has the framework's column."""
        rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines()]
        (header,) = [row for row in rows if row[0] == "scenario"]
        column = header.index(f"`{self.host.framework}`")
        said = {row[0]: row[column] for row in rows if len(row) == len(header)}
        cells = {word: said[line] for word, line in WORDS.items()}
        assert {word for word, cell in cells.items() if cell == "*no*"} <= self.host.lacks.keys()
        assert {
            word for word, cell in cells.items() if cell == "yes"
        } & self.host.lacks.keys() == set()

    # -- the framework's own spans ------------------------------------------------------------

    def test_own_spans(
        self, seen: Seen, exporter: InMemorySpanExporter, tracer_provider: TracerProvider
    ) -> None:
        """Its spans and ours are one tree a run; each call has its verdict once."""
        world = World((DANGER,), (SAFE,), ANSWER)
        with self.host.own_spans(tracer_provider):
            self.instrument(policy.deny(self.rule("danger"), reason=REASON))
            assert self.play(Actor("ops", world, (world.danger, world.safe))) == ANSWER
        assert world.bodies == ["safe"]
        spans = exporter.get_finished_spans()
        assert {span.instrumentation_scope.name for span in spans} - {semconv.SCOPE_NAME}
        ids = {span.context.span_id for span in spans}
        assert [s.name for s in spans if s.parent and s.parent.span_id not in ids] == []
        judged = [
            span
            for span in spans
            if semconv.POLICY_DECISION in span.attributes
            and span.attributes.get(semconv.GEN_AI_TOOL_NAME) in ("danger", "safe")
        ]
        verdicts = [
            (span.attributes[semconv.GEN_AI_TOOL_NAME], span.attributes[semconv.POLICY_DECISION])
            for span in judged
        ]
        assert sorted(verdicts) == [("danger", "deny"), ("safe", "allow")]
        for tool in ("danger", "safe"):
            assert len({s.context.trace_id for s in spans if s.name.endswith(tool)}) <= 1
        if "turn" in self.host.layers:
            assert len([span for span in spans if span.parent is None]) == 1

    # -- functions that make the answer -------------------------------------------------------

    def test_output_function_is_denied(self, seen: Seen) -> None:
        """A denied one does not run; model or caller reads the reason."""
        sent: list[str] = []

        def send(text: str) -> str:
            """Send a text."""
            sent.append(text)
            return f"sent {text}"

        world = World((Ask("send", {"text": "hello"}),), ANSWER)
        self.instrument(policy.deny(self.rule("send"), reason=REASON))
        answer = self.play(Actor("ops", world, (world.safe,), ending=send))
        assert sent == []
        assert REASON in f"{world.told}\n{answer}"
        assert seen.span("send").attributes[semconv.POLICY_DECISION] == "deny"
        self.check(seen)

    def test_output_function_is_a_call(self, seen: Seen) -> None:
        """Hooks see its arguments and its result, and can change both; it runs once."""
        sent: list[str] = []

        def send(text: str) -> str:
            """Send a text."""
            sent.append(text)
            return f"sent {text}"

        @hooks.pre_tool_call_decide
        def shout(call: types.ToolCall) -> types.HookResult:
            return types.HookResult(modified_args={"text": call.args["text"].upper()})

        @hooks.post_tool_call_transform
        def frame(result: types.ToolResult) -> str:
            return f"<{result.result}>"

        world = World((Ask("send", {"text": "hello"}),))
        self.instrument(hooks=[shout, frame])
        answer = self.play(Actor("ops", world, (world.safe,), ending=send))
        assert sent == ["HELLO"]
        assert "sent HELLO" in str(answer)
        assert str(answer).strip().startswith("<")
        assert seen.span("send").attributes[semconv.POLICY_DECISION] == "modify"
        self.check(seen)

    # -- histories ----------------------------------------------------------------------------

    def test_history_only(self, seen: Seen) -> None:
        """A run from a history alone has the last message in it as its own, and no past."""
        heard: list[Any] = []

        @hooks.pre_turn
        def rewrite(prompt: Any) -> types.HookResult:
            heard.append(prompt)
            return types.HookResult(modified_prompt="rewritten message")

        world = World((DANGER,), (SAFE,), ANSWER)
        self.instrument(
            policy.deny(self.rule("danger"), reason=REASON),
            policy.deny(self.rule("safe"), when_labels=UNTRUSTED),
            hooks=[rewrite],
        )
        actor = Actor("ops", world, (world.danger, world.safe))
        assert self.go_on(actor, None, history=[BEGIN]) == [ANSWER]
        assert heard == [BEGIN]
        assert "rewritten message" in world.told
        assert BEGIN not in world.told
        assert world.bodies == ["safe"]
        assert REASON in world.told
        self.check(seen)

    def test_history_of_others(self, seen: Seen) -> None:
        """A history that otelhooks has not seen may hold anything: rules with labels match."""
        world = World((DANGER,), ANSWER)
        self.instrument(policy.deny(self.rule("danger"), when_labels=UNTRUSTED, reason=REASON))
        actor = Actor("ops", world, (world.danger,))
        assert self.go_on(actor, None, history=["hello", "Good day.", BEGIN]) == [ANSWER]
        assert world.ran == []
        assert seen.span("danger").attributes[semconv.LABELS] == ("unknown",)
        self.check(seen)

    @pytest.mark.parametrize("is_named", [False, True])
    def test_history_joins_runs(self, seen: Seen, is_named: bool) -> None:
        """What the first run has read closes tools of the second, which goes on from it."""
        world = World((SAFE,), "I have read it.", (DANGER,), ANSWER)
        self.instrument(
            policy.label(self.rule("safe"), adds="untrusted"),
            policy.deny(self.rule("danger"), when_labels=UNTRUSTED, reason=REASON),
        )
        actor = Actor("ops", world, (world.danger, world.safe))
        if is_named:
            with otelhooks.session("c-1"):
                answers = self.go_on(actor, BEGIN, "go on")
        else:
            answers = self.go_on(actor, BEGIN, "go on")
        assert answers == ["I have read it.", ANSWER]
        assert world.bodies == ["safe"]
        assert REASON in world.shown[-1]
        labels = seen.span("danger").attributes[semconv.LABELS]
        nameless = ("unknown",) if "nameless history" in self.host.lacks else ("untrusted",)
        assert labels == (("untrusted",) if is_named else nameless)
        self.check(seen, trees=2)

    # -- calls that the framework answers itself -----------------------------------------------

    @pytest.mark.parametrize("args", [{"x": "many"}, {}, {"x": 1, "y": []}])
    def test_invalid_arguments(self, seen: Seen, args: dict[str, Any]) -> None:
        """A call without a body that could run is not a gap in what is guarded."""
        ran: list[Any] = []

        def count(x: int, y: int) -> str:
            """Count."""
            ran.append((x, y))
            return "counted"

        world = World((Ask("count", args),), (Ask("count", {"x": 1, "y": 2}),), ANSWER)
        self.instrument(policy.deny("something_else"))
        assert self.play(Actor("ops", world, (count,))) == ANSWER
        assert ran == [(1, 2)]
        self.check(seen)

    def test_unknown_tool(self, seen: Seen) -> None:
        """Nor is one of a tool that does not exist."""
        world = World((Ask("unheard_of", {}),), (SAFE,), ANSWER)
        self.instrument(policy.deny("something_else"))
        actor = Actor("ops", world, (world.safe,))
        if "told of unknown tools" in self.host.lacks:
            with pytest.raises(Exception, match="unheard_of"):
                self.play(actor)
            assert seen.gaps() == 0
        else:
            assert self.play(actor) == ANSWER
            assert world.bodies == ["safe"]
            self.check(seen)

    # -- objects ------------------------------------------------------------------------------

    def test_objects_are_judged_as_plain_data(self, seen: Seen) -> None:
        """A `when` sees plain data; the body gets the object."""
        got: list[Any] = []

        def book(order: Order) -> str:
            """Book seats."""
            got.append(order)
            return "booked"

        def is_early_or_dear(args: dict[str, Any]) -> bool:
            return args["order"]["day"] < "2020" or args["order"]["price"] > 100

        asked = [("2019-01-01", 1.5), ("2026-01-01", 500), ("2026-01-01", 1.5)]
        calls = [(Ask("book", {"order": {"day": day, "price": price}}),) for day, price in asked]
        world = World(*calls, ANSWER)
        self.instrument(policy.deny(self.rule("book"), when=is_early_or_dear, reason=REASON))
        assert self.play(Actor("ops", world, (book,))) == ANSWER
        assert got == [Order(day=datetime.date(2026, 1, 1), price=decimal.Decimal("1.5"))]
        assert REASON in world.shown[1]
        self.check(seen)

    def test_objects_that_a_hook_rewrites(self, seen: Seen) -> None:
        """A body gets an object again, made of what a hook wrote."""
        got: list[Any] = []

        def book(order: Order) -> str:
            """Book seats."""
            got.append(order)
            return "booked"

        @hooks.pre_tool_call_decide
        def later(call: types.ToolCall) -> types.HookResult:
            return types.HookResult(modified_args={"order": {"day": "2030-01-01", "price": 2}})

        world = World((Ask("book", {"order": {"day": "2026-01-01"}}),), ANSWER)
        self.instrument(hooks=[later])
        assert self.play(Actor("ops", world, (book,))) == ANSWER
        assert got == [Order(day=datetime.date(2030, 1, 1), price=decimal.Decimal(2))]
        self.check(seen)
