"""The scenarios that every adapter must pass, on every path a tool call can take in its framework.

A framework's test names its paths and inherits the scenarios::

    from tests.frameworks.contract import Contract, Path, World

    def build_run(world: World):                # make all that can exist before instrument()
        agent = Agent(model=ScriptedModel(world), tools=[tool(world.danger), tool(world.safe)])
        async def run(prompt: str) -> str:      # a plain function where the path is synchronous
            return (await Runner.run(agent, prompt)).final_output
        return run

    class TestOpenAIAgents(Contract):
        framework = "openai_agents"
        also = ("mcp",)                              # further adapters that are on
        paths = (Path("run", build_run), Path("stream", build_stream, chunks=stream_chunks), ...)

A scenario writes a script (`Step`s) into a `World`, builds the path, instruments, runs, and looks
at what really happened. The framework's scripted model calls `world.next(shown)` at each model call
with all it was shown as one text, and gets what the model says: a final text, or a tuple of
`Ask`s, the tool calls of one turn (their arguments are new objects; ids are the model's to make).
A framework without a model lets `world.play(call)` or `world.aplay(call)` do both; ``call(name,
args)`` returns the text that a model would be shown, a refusal's included.

The tools, whose bodies are methods of the world and are to be called by the framework's real tool
objects, under these names: `danger(path)`, `safe(x)`, `broken(x)` (raises `world.error`), and on
asynchronous paths `slow(x)` (a coroutine that never returns). Write wrappers where the framework
reads signatures; they have annotations and docstrings already.

A path says what differs from a plain agent run: see `Path`. What a version does not have is
``skip="needs 0.14"``; a scenario that cannot apply is in ``lacks``, with the reason. Each shows up
as a skip, never as silence.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import inspect
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import anyio
import pytest
from opentelemetry import context as otel_context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.patching import patches, seats, versions
from otelhooks.records import semconv
from otelhooks.setup.catalogue import adapter
from tests import conformance
from tests.frameworks.paths import performed

REASON = "Nobody may touch that; read it with safe instead."
SECRET = "is 4711"  # with a blank: ids in messages may hold any digits
ANSWER = "all is done"
CANCELLED = f"{asyncio.CancelledError.__module__}.{asyncio.CancelledError.__qualname__}"


class Ask(NamedTuple):
    """A tool call that the model asks for."""

    tool: str
    args: dict[str, Any]


Step = str | tuple[Ask, ...]
DANGER = Ask("danger", {"path": "/etc/passwd"})
SAFE = Ask("safe", {"x": 1})
BROKEN = Ask("broken", {"x": 2})
SLOW = Ask("slow", {"x": 3})


class Broken(Exception):
    """What a tool raises."""


class Escape(BaseException):
    """What `except Exception` does not catch."""


class World:
    """One scripted agent: what its model says, and what really happened.

    Attributes:
        ran: Tool bodies that ran, with their arguments, in order.
        shown: What the model was shown, one text a model call.
        asked: The calls that the model asked for, as the framework got them.
        error: What `broken` raises.
        started: Set when the body of `slow` runs.
    """

    def __init__(self, *script: Step | Exception) -> None:
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.shown: list[str] = []
        self.asked: list[Ask] = []
        self.error: BaseException = Broken("the disk is gone")
        self.started = False
        self._script = list(script)

    def next(self, shown: Any) -> Step:
        """Return what the model says, or raise what the script has; note what it was shown."""
        self.shown.append(str(shown))
        assert self._script, f"the model was called once too often and shown: {shown}"
        step = self._script.pop(0)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            return step
        asks = tuple(Ask(ask.tool, dict(ask.args)) for ask in step)
        self.asked.extend(asks)
        return asks

    def play(self, call: Callable[[str, dict[str, Any]], Any], prompt: str = "") -> str:
        """Play model and loop for a framework that has neither."""
        shown = prompt
        while not isinstance(step := self.next(shown), str):
            shown = "\n".join(str(call(*ask)) for ask in step)
        return step

    async def aplay(self, call: Callable[[str, dict[str, Any]], Any], prompt: str = "") -> str:
        """Do what `play` does, with a coroutine function."""
        shown = prompt
        while not isinstance(step := self.next(shown), str):
            shown = "\n".join([str(await call(*ask)) for ask in step])
        return step

    @property
    def told(self) -> str:
        """All that the model was shown."""
        return "\n".join(self.shown)

    @property
    def bodies(self) -> list[str]:
        """The names of the bodies that ran."""
        return [name for name, _ in self.ran]

    def danger(self, path: str) -> str:
        """Remove a path."""
        self.ran.append(("danger", {"path": path}))
        return f"removed {path}"

    def safe(self, x: int) -> str:
        """Read number x."""
        self.ran.append(("safe", {"x": x}))
        return f"number {x} {SECRET}"

    def broken(self, x: int) -> str:
        """Fail."""
        self.ran.append(("broken", {"x": x}))
        raise self.error

    async def slow(self, x: int) -> str:
        """Wait forever."""
        self.ran.append(("slow", {"x": x}))
        self.started = True
        await anyio.sleep(3600)
        return "never"


Run = Callable[[str], Any]
Chunks = Callable[[str], Iterator[str] | AsyncIterator[str]]


def _same(name: str) -> str:
    return name


@dataclass(frozen=True)
class Path:
    """One way on which a tool call can reach its body.

    Args:
        name: Part of the test's name.
        build: Function of a world, giving `run(prompt) -> answer`, or a coroutine function.
        around: Names of further tool calls that the path makes once around the script, such as
            the tool that starts the agent which plays it.
        selector: How a rule names a tool here, such as ``files/danger``.
        tool_name: ``gen_ai.tool.name`` of a tool here, such as ``ns_danger``.
        subagent: Name of the tool that starts the agent which plays the script.
        has_run: Whether a run seat is on the path; then all spans are one tree with its root.
        has_model: Whether a model seat is on the path.
        pauses: Whether the run stops for the user's own approval and goes on: a tree each time,
            linked to the one before.
        errors: ``told`` if the framework reports a tool's exception to the model, else ``raised``.
        refusals: ``answer`` if a refused run returns the reason, else ``raised``.
        chunks: As `build`, giving an iterator of the texts that a consumer sees, for streams.
        cancels: Why a run whose consumer leaves ends as one that somebody cancelled; empty where it
            ends as any other.
        backend: Event loop of an asynchronous path.
        skip: Why this version cannot run the path; empty if it can.
        lacks: Scenario (test name without ``test_``) to the reason why it cannot apply.
    """

    name: str
    build: Callable[[World], Run]
    around: tuple[str, ...] = ()
    selector: Callable[[str], str] = _same
    tool_name: Callable[[str], str] = _same
    subagent: str = ""
    has_run: bool = True
    has_model: bool = True
    pauses: bool = False
    errors: str = "told"
    refusals: str = "answer"
    chunks: Callable[[World], Chunks] | None = None
    cancels: str = ""
    backend: str = "asyncio"
    skip: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])

    def missing(self, scenario: str) -> str:
        """Return why a scenario cannot run on the path; empty if it can."""
        if self.skip or scenario in self.lacks:
            return self.skip or self.lacks[scenario]
        if scenario in _NEED_RUN and not self.has_run:
            return "no run seat on this path"
        if scenario in _NEED_MODEL and not self.has_model:
            return "no model seat on this path"
        if scenario.startswith("stream_") and self.chunks is None:
            return "no stream"
        return "not started by a tool" if scenario in _NEED_TOOL and not self.subagent else ""


_NEED_RUN = {
    "deny_at_pre_turn",
    "deny_at_pre_agent",
    "ready_answer_at_pre_agent",
    "rewritten_prompt_and_answer",
    "what_the_user_said",
}
_NEED_MODEL = {"budget", "deny_at_pre_model_call", "ready_answer_at_pre_model_call"}
_NEED_TOOL = {"deny_of_every_subagent"}


def perform(path: Path, run: Run, prompt: str = "please begin") -> Any:
    """Run a path to its end from a plain function."""
    is_async = inspect.iscoroutinefunction(run)
    performed(path.name, "async" if is_async else "sync")
    if not is_async:
        return run(prompt)
    return anyio.run(run, prompt, backend=path.backend)


async def _texts(chunks: Chunks, prompt: str, most: int | None = None) -> list[str]:
    """Consume a stream, or close it after so many texts."""
    stream = chunks(prompt)
    seen: list[str] = []
    if isinstance(stream, AsyncIterator):
        async for text in stream:
            seen.append(text)
            if len(seen) == most:
                break
        await stream.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0.05)
        return seen
    for text in stream:
        seen.append(text)
        if len(seen) == most:
            break
    stream.close()  # type: ignore[attr-defined]
    return seen


class Seen:
    """What a run left behind in telemetry."""

    def __init__(self, exporter: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
        self._exporter = exporter
        self._reader = reader

    @property
    def spans(self) -> list[ReadableSpan]:
        """Ended spans of otelhooks."""
        found = self._exporter.get_finished_spans()
        return [span for span in found if span.instrumentation_scope.name == semconv.SCOPE_NAME]

    def calls(self, path: Path) -> Counter[tuple[str, str]]:
        """Count spans of tool calls by name and decision, those around the script left out.

        Those must be there exactly once.
        """
        found = [
            (
                str(attributes[semconv.GEN_AI_TOOL_NAME]),
                str(attributes.get(semconv.POLICY_DECISION)),
            )
            for span in self.spans
            if (attributes := span.attributes or {}).get(semconv.GEN_AI_OPERATION_NAME)
            == semconv.OP_EXECUTE_TOOL
        ]
        names = Counter(name for name, _ in found)
        assert {name: names[name] for name in path.around} == dict.fromkeys(path.around, 1)
        return Counter(entry for entry in found if entry[0] not in path.around)

    def span(self, tool: str) -> ReadableSpan:
        """Return the one span of a tool's calls."""
        found = [
            span
            for span in self.spans
            if (span.attributes or {}).get(semconv.GEN_AI_TOOL_NAME) == tool
        ]
        assert len(found) == 1, [span.name for span in self.spans]
        return found[0]

    def decisions(self) -> int:
        """Return how often a tool call was judged."""
        return sum(
            point.value
            for point in self._points(semconv.METRIC_POLICY_DECISIONS)
            if point.attributes[semconv.HOOK_POINT] == semconv.POINT_PRE_TOOL_CALL
        )

    def gaps(self) -> int:
        """Return how many calls were asked for and never judged."""
        return sum(point.value for point in self._points(semconv.METRIC_COVERAGE_GAPS))

    def check(self, path: Path, trees: int = 1) -> None:
        """Check that all spans ended, lie in whole trees, and use the names of the conventions."""
        ids = {span.context.span_id for span in self.spans}
        roots = [span for span in self.spans if span.parent is None]
        orphans = [
            span.name for span in self.spans if span.parent and span.parent.span_id not in ids
        ]
        assert not orphans, f"orphans: {orphans} among {[span.name for span in self.spans]}"
        if path.has_run:
            first = [span for span in roots if not (path.pauses and span.links)]
            assert len(first) == trees, [span.name for span in roots]
            assert len({span.context.trace_id for span in self.spans}) == len(roots)
            linked = {link.context.span_id for span in roots for link in span.links}
            assert linked <= {span.context.span_id for span in roots}
        conformance.check_all(self.spans, self._reader.get_metrics_data())
        assert self.gaps() == 0

    def _points(self, name: str) -> Iterator[Any]:
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        yield from metric.data.data_points


class Contract:
    """The scenarios; inherit, name ``framework`` and ``paths``."""

    framework: str = ""
    also: tuple[str, ...] = ()
    paths: tuple[Path, ...] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each scenario that takes a path on every path."""
        if "path" not in metafunc.fixturenames:
            return
        scenario = metafunc.function.__name__.removeprefix("test_")
        params: list[Any] = []
        for path in self.paths:
            missing = path.missing(scenario)
            marks = [pytest.mark.skip(reason=missing)] if missing else []
            params.append(pytest.param(path, id=path.name, marks=marks))
        metafunc.parametrize("path", params)

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

    def instrument(self, *rules: Any, **settings: Any) -> otelhooks.Handle:
        """Instrument the framework with rules."""
        return otelhooks.instrument(
            policies=rules,
            frameworks=[self.framework, *self.also],
            **self._providers,
            **settings,
        )

    # -- the tool point -----------------------------------------------------------------------

    def test_deny(self, path: Path, seen: Seen) -> None:
        """A denied body does not run, the model gets the reason, the run goes on; judged once."""
        world = World((DANGER,), (SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(policy.deny(path.selector("danger"), reason=REASON))
        assert perform(path, run) == ANSWER
        assert world.ran == [("safe", SAFE.args)]
        assert REASON in world.told
        assert SECRET in world.told
        assert seen.calls(path) == {
            (path.tool_name("danger"), "deny"): 1,
            (path.tool_name("safe"), "allow"): 1,
        }
        assert seen.decisions() == 2 + len(path.around)
        seen.check(path)
        span = seen.span(path.tool_name("danger"))
        assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED
        assert span.status.status_code is StatusCode.ERROR

    def test_allow(self, path: Path, seen: Seen) -> None:
        """Allowed bodies run once each, with their arguments; the model is shown their results."""
        world = World((DANGER,), (SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(policy.deny("something_else"))
        assert perform(path, run) == ANSWER
        assert world.ran == [("danger", DANGER.args), ("safe", SAFE.args)]
        assert SECRET in world.told
        assert seen.decisions() == 2 + len(path.around)
        assert all(span.status.status_code is not StatusCode.ERROR for span in seen.spans)
        seen.check(path)

    def test_tools_made_before_instrumenting_nothing(self, path: Path, seen: Seen) -> None:
        """Everything works as before once otelhooks is gone again, with the same objects."""
        world = World((DANGER,), (SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(policy.deny("*"))
        otelhooks.uninstrument()
        assert perform(path, run) == ANSWER
        assert world.bodies == ["danger", "safe"]
        assert [span.name for span in seen.spans] == []

    def test_objects_made_after_instrumenting(self, path: Path, seen: Seen) -> None:
        """Agents and tools that are made when otelhooks is on are guarded as well."""
        self.instrument(policy.deny(path.selector("danger"), reason=REASON))
        world = World((DANGER,), (SAFE,), ANSWER)
        assert perform(path, path.build(world)) == ANSWER
        assert world.bodies == ["safe"]
        assert seen.decisions() == 2 + len(path.around)

    def test_rewrite(self, path: Path, seen: Seen) -> None:
        """A body runs with the arguments that a hook put in place of the model's."""

        @hooks.pre_tool_call_decide
        def raise_x(call: types.ToolCall) -> types.HookResult:
            changes = {"x": 41} if "x" in call.args else None
            return types.HookResult(modified_args=changes)

        world = World((SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(hooks=[raise_x])
        assert perform(path, run) == ANSWER
        assert world.ran == [("safe", {"x": 41})]
        assert "number 41" in world.told
        assert seen.calls(path) == {(path.tool_name("safe"), "modify"): 1}
        seen.check(path)

    @pytest.mark.parametrize("answer", [True, False])
    def test_ask(self, path: Path, seen: Seen, answer: bool) -> None:
        """A person is asked once; what they approve runs, what they reject does not."""
        asked: list[dict[str, Any]] = []

        def approver(call: types.ToolCall) -> bool:
            asked.append(dict(call.args))
            return answer

        world = World((DANGER,), ANSWER)
        run = path.build(world)
        self.instrument(policy.ask_user(path.selector("danger"), handler=approver))
        assert perform(path, run) == ANSWER
        assert asked == [DANGER.args]
        assert world.bodies == (["danger"] if answer else [])
        assert ("User denied tool" in world.told) is not answer
        assert seen.calls(path).keys() == {(path.tool_name("danger"), "ask")}
        seen.check(path)

    def test_redacted_result(self, path: Path, seen: Seen) -> None:
        """The model is shown what a transform made of a result, never the result."""

        @hooks.post_tool_call_transform
        def redact(result: types.ToolResult) -> Any:
            return "[redacted]" if SECRET in str(result.result) else None

        world = World((SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(hooks=[redact])
        assert perform(path, run) == ANSWER
        assert world.bodies == ["safe"]
        assert "[redacted]" in world.told
        assert SECRET not in world.told
        seen.check(path)

    def test_withheld_result(self, path: Path, seen: Seen) -> None:
        """A transform that fails withholds the result: the effect happened, the model sees none."""

        @hooks.post_tool_call_transform
        def check(result: types.ToolResult) -> Any:
            if result.name not in path.around:
                raise ValueError("the checker is down")

        world = World((SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(hooks=[check])
        assert perform(path, run) == ANSWER
        assert world.bodies == ["safe"]
        assert "withheld" in world.told
        assert SECRET not in world.told
        assert "checker" not in world.told
        assert seen.span(path.tool_name("safe")).attributes[semconv.WITHHELD] is True
        seen.check(path)

    def test_recovered_error(self, path: Path, seen: Seen) -> None:
        """A failed tool's place is taken by what a hook recovers."""

        @hooks.on_tool_error
        def recover(error: Exception) -> Any:
            return "yesterday's number"

        world = World((BROKEN,), ANSWER)
        run = path.build(world)
        self.instrument(hooks=[recover])
        assert perform(path, run) == ANSWER
        assert world.bodies == ["broken"]
        assert "yesterday's number" in world.told
        span = seen.span(path.tool_name("broken"))
        assert span.attributes[semconv.RECOVERED] is True
        seen.check(path)

    def test_error_without_recovery(self, path: Path, seen: Seen) -> None:
        """A tool's failure takes the framework's own way, and is on the span."""
        world = World((BROKEN,), ANSWER)
        run = path.build(world)
        self.instrument(policy.deny("something_else"))
        if path.errors == "told":
            assert perform(path, run) == ANSWER
        else:
            with pytest.raises(BaseException) as raised:  # noqa: PT011  # the framework's own class
                perform(path, run)
            assert "disk" in repr(_innermost(raised.value))
        assert world.bodies == ["broken"]
        span = seen.span(path.tool_name("broken"))
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes[semconv.ERROR_TYPE]
        seen.check(path)

    def test_exception_that_escapes(self, path: Path, seen: Seen) -> None:
        """An exception that `except Exception` does not catch goes out and leaves no open span."""
        world = World((BROKEN,), ANSWER)
        world.error = Escape("out")
        run = path.build(world)
        self.instrument(policy.deny("something_else"))
        with pytest.raises(BaseException) as raised:  # noqa: PT011  # may arrive in a group
            perform(path, run)
        assert "Escape" in repr(_innermost(raised.value))
        span = seen.span(path.tool_name("broken"))
        assert span.attributes[semconv.ERROR_TYPE].endswith("Escape")
        seen.check(path)

    def test_parallel(self, path: Path, seen: Seen) -> None:
        """Of calls that a model asks for in one turn only the denied one does not run."""
        safe = [Ask("safe", {"x": x}) for x in range(3)]
        world = World((safe[0], DANGER, *safe[1:]), ANSWER)
        run = path.build(world)
        self.instrument(policy.deny(path.selector("danger"), reason=REASON))
        assert perform(path, run) == ANSWER
        assert sorted(args["x"] for name, args in world.ran if name == "safe") == [0, 1, 2]
        assert "danger" not in world.bodies
        assert REASON in world.told
        assert seen.calls(path) == {
            (path.tool_name("danger"), "deny"): 1,
            (path.tool_name("safe"), "allow"): 3,
        }
        assert seen.decisions() == 4 + len(path.around)
        seen.check(path)

    def test_label(self, path: Path, seen: Seen) -> None:
        """What one tool has read closes another, whichever agent calls which."""
        world = World((SAFE,), (DANGER,), ANSWER)
        run = path.build(world)
        self.instrument(
            policy.label(path.selector("safe"), adds="untrusted"),
            policy.deny(path.selector("danger"), when_labels={"untrusted"}, reason=REASON),
        )
        assert perform(path, run) == ANSWER
        assert world.bodies == ["safe"]
        assert REASON in world.told
        labels = seen.span(path.tool_name("danger")).attributes[semconv.LABELS]
        assert labels == ("untrusted",)  # and not `unknown`: the history grew here

    def test_label_is_not_there_yet(self, path: Path, seen: Seen) -> None:
        """Before the tool that adds it has run, a label closes nothing."""
        world = World((DANGER,), (SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(
            policy.label(path.selector("safe"), adds="untrusted"),
            policy.deny(path.selector("danger"), when_labels={"untrusted"}),
        )
        assert perform(path, run) == ANSWER
        assert world.bodies == ["danger", "safe"]

    def test_what_the_user_said(self, path: Path, seen: Seen) -> None:
        """What the user said may run, and what only a tool has said may not."""
        of_tool, of_user = Ask("danger", {"path": "4711"}), Ask("danger", {"path": "/tmp/mine"})
        world = World((SAFE,), (of_tool,), (of_user,), ANSWER)
        run = path.build(world)
        rule = policy.deny(path.selector("danger"), unless_user_said=["path"], reason=REASON)
        self.instrument(rule)
        assert perform(path, run, "please remove /tmp/mine") == ANSWER
        assert SECRET.endswith("4711")
        assert world.ran == [("safe", SAFE.args), ("danger", of_user.args)]
        assert REASON in world.told

    def test_values_of_results(self, path: Path, seen: Seen) -> None:
        """What a labelled result has said may not run, and another value may."""
        of_tool, other = Ask("danger", {"path": "4711"}), Ask("danger", {"path": "/tmp/mine"})
        world = World((SAFE,), (of_tool,), (other,), ANSWER)
        run = path.build(world)
        self.instrument(
            policy.label(path.selector("safe"), adds="untrusted"),
            policy.deny(
                path.selector("danger"), when_argument_from={"path": "untrusted"}, reason=REASON
            ),
        )
        assert perform(path, run) == ANSWER
        assert world.ran == [("safe", SAFE.args), ("danger", other.args)]
        assert REASON in world.told

    def test_limit(self, path: Path, seen: Seen) -> None:
        """As many calls run as a limit allows, each counted once, however many seats it passes."""
        world = World((SAFE,), (DANGER, SAFE, Ask("safe", {"x": 2})), ANSWER)
        run = path.build(world)
        most = 2 + len(path.around)
        self.instrument(
            policy.RateLimit(tool_calls=most),
            policy.deny(path.selector("danger"), reason=REASON),  # is not counted
        )
        assert perform(path, run) == ANSWER
        assert world.bodies == ["safe", "safe"]
        assert f"Rate limit exceeded: {most} of {most} tool calls used" in world.told
        assert REASON in world.told

    def test_arguments_changed_after_the_decision(self, path: Path, seen: Seen) -> None:
        """Code that keeps the judged arguments cannot change what runs."""
        kept: list[dict[str, Any]] = []

        @hooks.pre_tool_call_decide
        def keep(call: types.ToolCall) -> types.HookResult:
            kept.append(call.args)
            return types.HookResult()

        @hooks.on_event
        def change(event: types.HookEvent) -> None:
            if event.type == "pre_tool_use":
                for args in (*kept, *(ask.args for ask in world.asked)):
                    args["x"] = 666

        world = World((SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(hooks=[keep, change])
        assert perform(path, run) == ANSWER
        assert world.ran == [("safe", SAFE.args)]
        assert any(args.get("x") == 666 for args in kept)

    def test_suppressed_telemetry(self, path: Path, seen: Seen) -> None:
        """Where telemetry is suppressed, rules hold all the same."""
        world = World((DANGER,), (SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(policy.deny(path.selector("danger"), reason=REASON))
        token = otel_context.attach(otel_context.set_value("suppress_instrumentation", True))
        try:
            assert perform(path, run) == ANSWER
        finally:
            otel_context.detach(token)
        assert world.bodies == ["safe"]
        assert [span.name for span in seen.spans] == []

    # -- runs and models ----------------------------------------------------------------------

    def test_deny_at_pre_turn(self, path: Path, seen: Seen) -> None:
        """A refused message reaches no model; the reason is the answer."""

        @hooks.pre_turn
        def refuse(prompt: Any) -> types.HookResult:
            return types.HookResult(allow=False, message=REASON)

        self._refused(path, seen, refuse)

    def test_deny_at_pre_agent(self, path: Path, seen: Seen) -> None:
        """A refused agent reaches no model; the reason is the answer."""

        @hooks.pre_agent
        def refuse(call: types.AgentCall) -> types.HookResult:
            return types.HookResult(allow=False, message=REASON)

        self._refused(path, seen, refuse)

    def test_deny_at_pre_model_call(self, path: Path, seen: Seen) -> None:
        """A refused model call is not made; the reason is the answer."""

        @hooks.pre_model_call
        def refuse(call: types.ModelCall) -> types.HookResult:
            return types.HookResult(allow=False, message=REASON)

        self._refused(path, seen, refuse)

    def test_budget(self, path: Path, seen: Seen) -> None:
        """What adapters read of a call's usage is counted; nothing more is spent after that."""
        world = World((SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(policy.Budget(tokens=1, id="budget"))
        with contextlib.suppress(Denied):
            perform(path, run)
        assert len(world.shown) <= 1
        denied = [
            span
            for span in seen.spans
            if (span.attributes or {}).get(semconv.POLICY_RULE_ID) == "budget"
        ]
        assert denied
        for span in denied:
            assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED
            assert span.attributes[semconv.POLICY_REASON].startswith("Budget ")

    def _refused(self, path: Path, seen: Seen, hook: Any) -> None:
        world = World((DANGER,), ANSWER)
        run = path.build(world)
        self.instrument(hooks=[hook])
        if path.refusals == "answer":
            assert REASON in str(perform(path, run))
        else:
            with pytest.raises(Denied) as raised:
                perform(path, run)
            assert REASON in str(raised.value)
        assert world.ran == []
        assert world.shown == []
        _without_around(path, seen)

    def test_ready_answer_at_pre_agent(self, path: Path, seen: Seen) -> None:
        """A ready answer takes the place of the run."""

        @hooks.pre_agent
        def answer(call: types.AgentCall) -> types.HookResult:
            return types.HookResult(response="ready made")

        self._answered(path, seen, answer)

    def test_ready_answer_at_pre_model_call(self, path: Path, seen: Seen) -> None:
        """A ready answer takes the place of the model call."""

        @hooks.pre_model_call
        def answer(call: types.ModelCall) -> types.HookResult:
            return types.HookResult(response="ready made")

        self._answered(path, seen, answer)

    def _answered(self, path: Path, seen: Seen, hook: Any) -> None:
        world = World((DANGER,), ANSWER)
        run = path.build(world)
        self.instrument(hooks=[hook])
        assert perform(path, run) == "ready made"
        assert world.ran == []
        assert world.shown == []
        _without_around(path, seen)

    def test_rewritten_prompt_and_answer(self, path: Path, seen: Seen) -> None:
        """The model is shown the message that a hook wrote; the caller gets a hook's answer."""

        @hooks.pre_turn
        def prompt(prompt: Any) -> types.HookResult:
            return types.HookResult(modified_prompt="rewritten message")

        @hooks.post_agent_transform
        def stamp(response: Any) -> Any:
            return f"{response}, checked"

        world = World(ANSWER)
        run = path.build(world)
        self.instrument(hooks=[prompt, stamp])
        answer = str(perform(path, run))
        assert answer.startswith(ANSWER)
        assert answer.endswith(", checked")
        if not path.subagent:
            assert "rewritten message" in world.told
            assert "please begin" not in world.told
        seen.check(path)

    def test_deny_of_every_subagent(self, path: Path, seen: Seen) -> None:
        """A rule for `invoke_subagent` holds for the tool that starts an agent: one span."""
        world = World((DANGER,), ANSWER)
        run = path.build(world)
        self.instrument(policy.deny("invoke_subagent", reason=REASON))
        perform(path, run)
        assert world.ran == []
        assert world.shown == []
        span = seen.span(path.subagent)
        assert span.attributes[semconv.POLICY_DECISION] == "deny"
        seen.check(path)

    # -- streams ------------------------------------------------------------------------------

    def test_stream_passes(self, path: Path, seen: Seen) -> None:
        """With no transform the texts come through, and the spans are whole."""
        world = World((DANGER,), (SAFE,), ANSWER)
        assert path.chunks is not None
        chunks = path.chunks(world)
        self.instrument(policy.deny(path.selector("danger"), reason=REASON))
        assert ANSWER in "".join(anyio.run(_texts, chunks, "begin"))
        assert world.bodies == ["safe"]
        seen.check(path)

    def test_stream_is_held_back(self, path: Path, seen: Seen) -> None:
        """Where a hook may rewrite an answer, nothing of the model's own text gets out."""

        @hooks.post_model_call_transform
        def rewrite(response: types.ModelResponse) -> Any:
            return "another text" if ANSWER in response.text else None

        world = World((SAFE,), ANSWER)
        assert path.chunks is not None
        chunks = path.chunks(world)
        self.instrument(hooks=[rewrite])
        text = "".join(anyio.run(_texts, chunks, "begin"))
        assert "another text" in text
        assert ANSWER not in text
        assert world.bodies == ["safe"]
        seen.check(path)

    def test_stream_is_let_through(self, path: Path, seen: Seen) -> None:
        """With `stream="pass"` the texts come as the model says them, and hooks look on."""
        heard: list[str] = []

        @hooks.post_model_call_transform
        def rewrite(response: types.ModelResponse) -> Any:
            heard.append(response.text)
            return "another text" if ANSWER in response.text else None

        world = World((SAFE,), ANSWER)
        assert path.chunks is not None
        chunks = path.chunks(world)
        self.instrument(hooks=[rewrite], stream="pass")
        text = "".join(anyio.run(_texts, chunks, "begin"))
        assert ANSWER in text
        assert ANSWER in heard
        assert world.bodies == ["safe"]
        streamed = [s for s in seen.spans if semconv.GEN_AI_REQUEST_STREAM in s.attributes]
        assert {s.attributes.get(semconv.STREAM) for s in streamed} == {semconv.STREAM_PASS}
        seen.check(path)

    def test_stream_closed_early(self, path: Path, seen: Seen) -> None:
        """A consumer that stops has not failed: no open span, no orphan, no error."""
        world = World((SAFE,), ANSWER)
        assert path.chunks is not None
        chunks = path.chunks(world)
        self.instrument(policy.deny("something_else"))
        assert len(anyio.run(_texts, chunks, "begin", 1)) == 1
        failed = [s for s in seen.spans if s.status.status_code is StatusCode.ERROR]
        if path.cancels:
            assert {s.attributes[semconv.ERROR_TYPE] for s in failed} == {CANCELLED}
        else:
            assert [s.name for s in failed] == []
            assert [s.name for s in seen.spans if semconv.ERROR_TYPE in s.attributes] == []
        seen.check(path)

    # -- tasks and threads --------------------------------------------------------------------

    def test_cancelled(self, path: Path, seen: Seen) -> None:
        """A run that is cancelled inside a tool ends its spans."""
        world = World((SLOW,), ANSWER)
        run = path.build(world)
        if not inspect.iscoroutinefunction(run):
            pytest.skip("a synchronous path cannot be cancelled")
        self.instrument(policy.deny("something_else"))

        async def cancel() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(run, "begin")
                with anyio.fail_after(20):
                    while not world.started:  # noqa: ASYNC110  # may be set on another thread
                        await anyio.sleep(0.01)
                group.cancel_scope.cancel()

        anyio.run(cancel, backend=path.backend)
        span = seen.span(path.tool_name("slow"))
        assert "Cancelled" in span.attributes[semconv.ERROR_TYPE]
        seen.check(path)

    def test_two_conversations_at_once(self, path: Path, seen: Seen) -> None:
        """What is denied in one conversation runs in the other; each is a tree of its own."""
        worlds = [World((DANGER,), (SAFE,), ANSWER) for _ in range(2)]
        runs = [path.build(world) for world in worlds]
        self.instrument(policy.deny("something_else"))
        rules = [[policy.deny(path.selector("danger"), reason=REASON)], []]

        async def converse(run: Run, rules: list[Any]) -> None:
            with otelhooks.scope(policies=rules):
                assert await run("begin") == ANSWER

        def converse_here(run: Run, rules: list[Any]) -> None:
            with otelhooks.scope(policies=rules):
                assert run("begin") == ANSWER

        async def both() -> None:
            async with anyio.create_task_group() as group:
                for run, own in zip(runs, rules, strict=True):
                    group.start_soon(converse, run, own)

        if inspect.iscoroutinefunction(runs[0]):
            anyio.run(both, backend=path.backend)
        else:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                list(pool.map(converse_here, runs, rules))
        assert worlds[0].bodies == ["safe"]
        assert worlds[1].bodies == ["danger", "safe"]
        assert "removed" not in worlds[0].told
        assert REASON not in worlds[1].told
        _check_both(path, seen)

    def test_worker_thread(self, path: Path, seen: Seen) -> None:
        """A run in a thread of a pool, started with nothing of our context, is guarded."""
        world = World((DANGER,), (SAFE,), ANSWER)
        run = path.build(world)
        self.instrument(policy.deny(path.selector("danger"), reason=REASON))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            nothing = contextvars.Context()
            assert pool.submit(nothing.run, perform, path, run).result() == ANSWER
        assert world.bodies == ["safe"]
        assert REASON in world.told
        seen.check(path)

    # -- the table of seats -------------------------------------------------------------------

    def test_uninstrument_restores_identically(self, seen: Seen) -> None:
        """Every patched name holds the very object it held before."""
        for path in self.paths:
            if not path.skip:
                path.build(World())  # imports what the paths need
        before = self._places()
        assert before
        self.instrument(policy.deny("something_else"))
        entries = [e for e in patches.coverage() if e.framework == self.framework and e.version]
        assert {e.state for e in entries} <= {"patched", "partial", "refused", "not imported"}
        assert "patched" in {e.state for e in entries} or "partial" in {e.state for e in entries}
        changed = [key for key, value in self._places().items() if before[key] is not value]
        assert changed
        otelhooks.uninstrument()
        after = self._places()
        assert [key for key, value in after.items() if before[key] is not value] == []

    def _places(self) -> dict[tuple[str, str], Any]:
        found: dict[tuple[str, str], Any] = {}
        for package in adapter(self.framework).packages:
            version = versions.installed(package.distributions, package.module)[1]
            table = package.seats(version) if callable(package.seats) else package.seats
            for seat in table:
                module = sys.modules.get(seat.module)
                place = seats.find(seat, module) if module is not None else None
                if place is not None:
                    key = (f"{place.owner!r}", place.attribute)
                    found[key] = inspect.getattr_static(place.owner, place.attribute, None)
        return found


def _check_both(path: Path, seen: Seen) -> None:
    names = Counter(
        str((span.attributes or {}).get(semconv.GEN_AI_TOOL_NAME)) for span in seen.spans
    )
    assert names[path.tool_name("danger")] == names[path.tool_name("safe")] == 2
    seen.check(path, trees=2)


def _without_around(path: Path, seen: Seen) -> None:
    """Check the spans of a run that no tool of the script was part of."""
    names = {(span.attributes or {}).get(semconv.GEN_AI_TOOL_NAME) for span in seen.spans}
    assert names <= {None, *path.around}
    seen.check(path)


def _innermost(error: BaseException) -> BaseException:
    """Return what is in groups, and what an exception was raised from."""
    while True:
        inner = getattr(error, "exceptions", None)
        if inner:
            error = inner[0]
        elif error.__cause__ is not None:
            error = error.__cause__
        else:
            return error
