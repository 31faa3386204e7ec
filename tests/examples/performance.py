"""Play every example in one host, and compare all that it must show.

A framework's test is its host, and this class::

    class TestExamples(Examples):
        host = OpenAIAgents()
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otelhooks
from otelhooks.demo import story, styles
from otelhooks.records import semconv
from tests import conformance
from tests.examples.documents import EXAMPLES
from tests.examples.example import Example, Line
from tests.examples.stage import LAYERS, Actor, Ask, Difference, Host, World
from tests.logs import InMemoryLogRecordExporter

__all__ = ["Examples", "shape_of"]


def shape_of(spans: Iterable[ReadableSpan]) -> str:
    """Return spans as text: one a line in the order in which they began, indented by nesting.

    After the name stands the verdict, where it is no plain allow: decision, rule (of a function of
    an example its own name), and the reason in quotes where it says more than that; then what
    became of it, and the type of an error that no verdict explains.
    """
    ordered = sorted(spans, key=lambda span: (span.start_time, span.context.span_id))
    inside: dict[int, list[ReadableSpan]] = {}
    ids = {span.context.span_id for span in ordered}
    for span in ordered:
        parent = span.parent.span_id if span.parent and span.parent.span_id in ids else 0
        inside.setdefault(parent, []).append(span)
    lines: list[str] = []

    def draw(parent: int, indent: str) -> None:
        for span in inside.get(parent, ()):
            lines.append(f"{indent}{span.name}{_verdict(span)}")
            draw(span.context.span_id, f"{indent}  ")

    draw(0, "")
    return "\n".join(lines)


def _verdict(span: ReadableSpan) -> str:
    attributes = span.attributes or {}
    decision = attributes.get(semconv.POLICY_DECISION)
    rule, reason = attributes.get(semconv.POLICY_RULE_ID), attributes.get(semconv.POLICY_REASON)
    words: list[str] = []
    if decision is not None and (decision != "allow" or rule):
        words.append(str(decision))
        words += [str(rule).rpartition("<locals>.")[2]] if rule else []
        words += [f'"{reason}"'] if reason and reason != f"Changed by {rule}." else []
    flags = ("recovered", "answered", "withheld")
    names = (semconv.RECOVERED, semconv.ANSWERED, semconv.WITHHELD)
    words += [word for word, name in zip(flags, names, strict=True) if attributes.get(name)]
    error = str(attributes.get(semconv.ERROR_TYPE, ""))
    if error and error != semconv.ERROR_POLICY_DENIED:
        words.append(f"[{error.rsplit('.', 1)[-1]}]")
    return f": {' '.join(words)}" if words else ""


def seen_with(layers: Sequence[str], trace: str) -> str:
    """Return a trace without the spans of layers that a host has no seats for."""
    kept: list[str] = []
    dropped: list[int] = []
    for line in trace.splitlines():
        indent = len(line) - len(line.lstrip())
        dropped = [one for one in dropped if one < indent]
        if _layer_of(line.split()[0]) in layers:
            kept.append(line[2 * len(dropped) :])
        else:
            dropped.append(indent)
    return "\n".join(kept)


def _layer_of(operation: str) -> str:
    return {semconv.OP_INVOKE_AGENT: "turn", semconv.OP_CHAT: "model"}.get(operation, "tool")


class Examples:
    """One test an example; inherit and give the host."""

    host: ClassVar[Host]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run every example; those that the host cannot play are skipped with its reason."""
        if "example" not in metafunc.fixturenames:
            return
        params: list[Any] = []
        for name, example in EXAMPLES.items():
            missing = [self.host.lacks[need] for need in example.needs if need in self.host.lacks]
            marks = [pytest.mark.skip(reason="; ".join(missing))] if missing else []
            params.append(pytest.param(example, id=name, marks=marks))
        metafunc.parametrize("example", params)

    def test_example(
        self,
        example: type[Example],
        tmp_path: Path,
        exporter: InMemorySpanExporter,
        metrics_reader: InMemoryMetricReader,
        tracer_provider: TracerProvider,
        meter_provider: MeterProvider,
        request: pytest.FixtureRequest,
    ) -> None:
        """Bodies, messages to the model, answers, notes and trace are as in the example."""
        played = example(self.host, tmp_path)
        handle = otelhooks.instrument(
            frameworks=self.host.adapters,
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            **played.settings(),
        )
        played.begin(handle)
        answers = anyio.run(_play, self.host, played)
        otelhooks.uninstrument()
        spans = _ours(exporter)
        layers = self.host.layers
        for layer in set(LAYERS) - set(layers):
            request.node.user_properties.append(("without", layer))
        for difference in self._differences(example):
            request.node.user_properties.append(("otherwise", difference.why))
        assert shape_of(spans) == self._here(seen_with(layers, example.trace))
        assert played.calls == list(example.ran)
        if "turn" in layers:
            assert answers == list(example.answers)
        told = "\n".join(played.script.shown)
        assert [text for text in example.told if text not in told] == []
        assert [text for text in example.never_told if text in told] == []
        assert _lines(played.notes, layers) == self._here(_lines(example.noted, layers))
        played.finish()
        conformance.check_all(spans, metrics_reader.get_metrics_data())

    def test_a_logging_hook_tells_the_same_story_in_every_style(
        self,
        tmp_path: Path,
        exporter: InMemorySpanExporter,
        log_exporter: InMemoryLogRecordExporter,
        tracer_provider: TracerProvider,
        logger_provider: LoggerProvider,
    ) -> None:
        """Five ways to write one hook: five times the same lines, and the same spans."""
        shapes: dict[str, str] = {}
        for number, (name, style) in enumerate(styles.STYLES.items()):
            lines: list[str] = []
            folder = tmp_path / str(number)
            folder.mkdir()
            made = style(lines.append, folder)
            otelhooks.instrument(
                frameworks=self.host.adapters,
                policies=[*styles.rules(), *made.get("policies", ())],
                hooks=made.get("hooks", ()),
                tracer_provider=tracer_provider,
                logger_provider=logger_provider,
            )
            anyio.run(_play_styles, self.host)
            otelhooks.uninstrument()
            lines += _logged(log_exporter)
            assert (name, lines) == (name, list(styles.STORY))
            shapes[name] = shape_of(_ours(exporter))
            exporter.clear()
            log_exporter.clear()
        assert len(set(shapes.values())) == 1, shapes
        assert ": deny no-shell" in shapes["decorators"]

    def _differences(self, example: type[Example]) -> list[Difference]:
        """Return the differences of the host that the example meets."""
        layers = self.host.layers
        shown = f"{seen_with(layers, example.trace)}\n{_lines(example.noted, layers)}"
        return [
            difference
            for difference in self.host.differences
            if re.search(difference.expected, shown, flags=re.MULTILINE)
        ]

    def _here(self, shown: str) -> str:
        """Return what an example shows as it is in this host."""
        for difference in self.host.differences:
            shown = re.sub(difference.expected, difference.here, shown, flags=re.MULTILINE)
        return shown


async def _play_styles(host: Host) -> None:
    *calls, answer = styles.STEPS
    script = World(*((Ask(*call),) for call in calls), answer)
    tools = (story.view_file, story.run_command, story.search)
    async with host.open(Actor("assistant", script, tools)) as run:
        await run("Please begin.")


def _ours(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    found = exporter.get_finished_spans()
    return [span for span in found if span.instrumentation_scope.name == semconv.SCOPE_NAME]


def _logged(exporter: InMemoryLogRecordExporter) -> list[str]:
    """Return the lines that hook files have logged."""
    records = [each.log_record for each in exporter.get_finished_logs()]
    logs: list[Any] = [one.body for one in records if one.event_name == semconv.EVENT_HOOK_LOG]
    return [str(body["message"]) for body in logs]


def _lines(notes: Iterable[Line], layers: Sequence[str]) -> str:
    """Return notes as text, without those of layers that a host has no seats for."""
    return "\n".join(f"{layer}: {text}" for layer, text in notes if layer in layers)


async def _play(host: Host, played: Example) -> list[Any]:
    answers: list[Any] = []
    async with host.open(played.crew()) as run:
        with otelhooks.session("conversation"):
            for prompt, expected in zip(played.prompts, played.answers, strict=True):
                try:
                    answers.append(await run(prompt))
                except Exception as error:
                    if isinstance(expected, str):
                        raise
                    answers.append(type(error))
    return answers
