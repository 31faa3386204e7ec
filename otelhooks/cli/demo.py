"""``otelhooks demo``: real agents under a policy, and the outcome of their calls as a tree."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import shlex
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otelhooks.cli import ExitCode
from otelhooks.cli.called import command
from otelhooks.plain_text import sanitize

if TYPE_CHECKING:
    from otelhooks.setup.instrument import Handle

STORIES: dict[str, tuple[tuple[str, ...], str]] = {
    "openai_agents": (("agents",), "openai-agents"),
    "langchain": (("langchain", "mcp"), "langchain mcp"),
    "mcp": (("mcp",), "mcp"),
}
"""Adapter to the modules that its story needs, and the distributions to install for it."""


@click.command()
@click.option(
    "--framework", "only", type=click.Choice(list(STORIES)), help="Run only this framework."
)
@click.option(
    "--styles", is_flag=True, help="Instead, run one hook written in each of the five ways."
)
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="The store; default: one of its own, beside that of your programs.",
)
def demo(only: str | None, styles: bool, store: Path | None) -> None:
    """Watch scripted agents being governed.

    Each installed framework runs a real agent with a scripted model: tool calls are allowed,
    denied, approved, rewritten, redacted and recovered. Nothing leaves this machine, and the tools
    have no effect. Exit code 1: a denied call ran, or (with --styles) the ways to write a hook gave
    different results.
    """
    chosen = [name for name in STORIES if only in (None, name)]
    installed = [name for name in chosen if all(map(importlib.util.find_spec, STORIES[name][0]))]
    for name in chosen:
        if name not in installed:
            click.echo(f"{name}: not installed (pip install {STORIES[name][1]})", err=True)
    if not installed:
        click.echo("error: none of the frameworks is installed", err=True)
        raise click.exceptions.Exit(ExitCode.NO)
    if styles:
        findings = _show_styles(installed)
    else:
        with tempfile.TemporaryDirectory(prefix="otelhooks-demo-") as folder:
            findings = _run_all(installed, store or _own_store(), Path(folder))
    if findings:
        for finding in findings:
            click.echo(f"error: {sanitize(finding)}", err=True)
        raise click.exceptions.Exit(ExitCode.NO)


def _show_styles(names: list[str]) -> list[str]:
    from otelhooks.cli.demo_styles import show

    logging.disable(logging.CRITICAL)
    try:
        return [finding for name in names for finding in show(name)]
    finally:
        logging.disable(logging.NOTSET)


def _own_store() -> Path:
    """Return a store from which no command reads the calls of the demonstration by itself."""
    from otelhooks.store.schema import default_store_path

    usual = default_store_path()
    return usual.with_name(f"{usual.stem}-demo.db")


def _run_all(names: list[str], store: Path, audit: Path) -> list[str]:
    import otelhooks
    from otelhooks.demo import story
    from otelhooks.hooks import on_run_start

    traces: list[str] = []

    @on_run_start
    def note(context: otelhooks.hooks.HookContext) -> None:
        traces.append(context.trace_id)

    # A framework's log lines about a failing tool are expected here and would only distract.
    logging.disable(logging.CRITICAL)
    handle = otelhooks.instrument(
        policies=story.policies(),
        hooks=[*story.HOOKS, note],
        approvals=story.approver,
        mcp_servers=[story.SERVER],
        audit=audit / "audit.jsonl",
        store=store,
    )
    try:
        are_stored = [_run(name, handle, traces, store) for name in names]
    finally:
        otelhooks.uninstrument()
        logging.disable(logging.NOTSET)
    if any(are_stored):
        _say_more(store)
    return story.findings


def _run(name: str, handle: Handle, traces: list[str], store: Path) -> bool:
    """Run the story in a framework; return whether its traces are in the store."""
    from otelhooks.demo import story

    module = importlib.import_module(f"otelhooks.demo.with_{name}")
    versions = [e.version for e in handle.coverage if e.framework == name and e.version]
    click.secho(f"\n{name} {versions[0] if versions else ''}", bold=True)
    started, before = time.monotonic(), len(traces)
    try:
        module.run()
    except Exception as error:
        story.findings.append(f"{name}: the run failed: {error!r}")
    seconds = time.monotonic() - started
    handle.force_flush()
    are_stored = _show(traces[before:], store)
    click.echo(f"ran in {seconds:.1f} s", err=True)
    return are_stored


def _show(traces: list[str], store: Path) -> bool:
    """Print the tree of each trace; return whether the store has one."""
    from otelhooks.store.reader import Store
    from otelhooks.store.tree import render

    width = min(shutil.get_terminal_size((110, 40)).columns, 140)
    reader = Store(store)
    found = [trace for trace in (_read(reader, trace_id) for trace_id in traces) if trace]
    for trace in found:
        click.echo(render(trace.spans, trace.events, width=width).plain, nl=False)
    if len(found) < len(traces):
        click.echo("the traces went elsewhere: see OTEL_EXPORTER_* in the environment", err=True)
    return bool(found)


def _read(reader: Any, trace_id: str) -> Any:
    from otelhooks.store.schema import StoreError

    try:
        return reader.trace(trace_id)
    except StoreError:
        return None


def _say_more(store: Path) -> None:
    """Suggest three commands to look further."""
    otelhooks = command()
    where = f" --store {shlex.quote(str(store))}"
    click.echo("\nLook further:")
    click.echo(f"  {otelhooks} trace list --denied{where}")
    click.echo(f"  {otelhooks} trace show last{where}")
    click.echo(f"  {otelhooks} doctor --prove")
