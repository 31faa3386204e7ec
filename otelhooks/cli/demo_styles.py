"""``otelhooks demo --styles``: one hook in each way to write it, on the same run of an agent."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from otelhooks.store.records import Trace

__all__ = ["show"]


def show(name: str) -> list[str]:
    """Run one framework's agent once per style; print what each hook wrote, and the spans once.

    Args:
        name: Name of the framework, which is installed.

    Returns:
        The differences, as text; empty if there are none.
    """
    from otelhooks.demo.styles import STORY, STYLES

    click.secho(f"\n{name}", bold=True)
    findings: list[str] = []
    shapes: set[tuple[Any, ...]] = set()
    trace = None
    width = max(map(len, STYLES))
    for style in STYLES:
        with tempfile.TemporaryDirectory(prefix="otelhooks-styles-") as folder:
            try:
                lines, trace = _run(name, style, Path(folder))
            except Exception as error:
                findings.append(f"{name}, {style}: the run failed: {error!r}")
                continue
        click.echo(f"  {style.ljust(width)}  {'; '.join(lines)}")
        if tuple(lines) != STORY:
            findings.append(f"{name}, {style}: the hook wrote `{'; '.join(lines)}`")
        shapes.add(_shape(trace))
    if len(shapes) > 1:
        findings.append(f"{name}: the spans differ from style to style")
    elif trace is not None:
        _draw(trace)
    return findings


def _run(name: str, style: str, folder: Path) -> tuple[list[str], Trace]:
    """Run the agent with one hook; return what the hook wrote, and the trace of the run."""
    import otelhooks
    from otelhooks.demo import styles
    from otelhooks.hooks import on_run_start
    from otelhooks.records import semconv
    from otelhooks.store.reader import Store

    lines: list[str] = []
    traces: list[str] = []

    @on_run_start
    def note_trace(context: otelhooks.hooks.HookContext) -> None:
        traces.append(context.trace_id)

    files, store = folder / "hooks", folder / "store.db"
    files.mkdir()
    made = styles.STYLES[style](lines.append, files)
    handle = otelhooks.instrument(
        policies=[*styles.rules(), *made.get("policies", ())],
        hooks=[*made.get("hooks", ()), note_trace],
        store=store,
    )
    try:
        importlib.import_module(f"otelhooks.demo.with_{name}").play(styles.STEPS)
        handle.force_flush()
    finally:
        otelhooks.uninstrument()
    trace = Store(store).trace(traces[0])
    if trace is None:
        msg = "its trace went elsewhere: see OTEL_EXPORTER_* in the environment"
        raise LookupError(msg)
    logs = [event for event in trace.events if event.name == semconv.EVENT_HOOK_LOG]
    bodies: list[Any] = [event.body for event in sorted(logs, key=lambda event: event.at)]
    return [*lines, *(str(body["message"]) for body in bodies)], trace


def _shape(trace: Trace) -> tuple[Any, ...]:
    """Return names, nesting and verdicts of a trace's spans, in order."""
    from otelhooks.records import semconv

    names = {span.span_id: span.name for span in trace.spans}
    about = (semconv.POLICY_DECISION, semconv.POLICY_RULE_ID, semconv.POLICY_REASON)
    return tuple(
        (span.name, names.get(span.parent_id or ""), *map(span.attributes.get, about))
        for span in sorted(trace.spans, key=lambda span: span.started_at)
    )


def _draw(trace: Trace) -> None:
    from otelhooks.records import semconv
    from otelhooks.store.tree import render

    events = [event for event in trace.events if event.name != semconv.EVENT_HOOK_LOG]
    width = min(shutil.get_terminal_size((110, 40)).columns, 140)
    click.echo("\nEach time these spans:\n")
    click.echo(render(trace.spans, events, width=width).plain, nl=False)
