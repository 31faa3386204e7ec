"""``otelhooks trace``: list, show, follow and send on what the local store holds."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click

from otelhooks.cli import ExitCode, options
from otelhooks.errors import ConfigError
from otelhooks.plain_text import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console
    from rich.text import Text

    from otelhooks.store.otlp import Sent, Target
    from otelhooks.store.reader import Store

F = TypeVar("F", bound="Callable[..., Any]")

_UNLIMITED_WIDTH = 100_000

_store = options.store()
_denied = click.option("--denied", is_flag=True, help="Only denied and unapproved calls.")


def _filters(command: F) -> F:
    """Add the options that choose traces or records by what they are about."""
    for name, what in reversed(
        (
            ("service", "program (`service.name`)"),
            ("agent", "agent"),
            ("tool", "tool"),
            ("rule", "rule, by its id"),
        )
    ):
        option = click.option(f"--{name}", metavar="NAME", help=f"Only this {what}; a glob.")
        command = option(command)
    return command


class _Commands(click.Group):
    """A group that turns problems with a store or an id into messages and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        from otelhooks.store.schema import StoreError

        try:
            return super().invoke(ctx)
        except ConfigError as error:
            if isinstance(error, StoreError) and error.cause == "missing":
                click.echo(f"error: {error.problem}", err=True)
                _say_where(error.path, f"{error.hint}; ")
                ctx.exit(ExitCode.NO)
            click.echo(f"error: {error}", err=True)
            ctx.exit(ExitCode.USAGE)


@click.group(cls=_Commands)
def trace() -> None:
    """Show recorded calls and their verdicts.

    They are read from the local store, a file on this machine. Programs write to it unless OTEL_
    variables name a collector.
    """


@trace.command("list")
@_store
@click.option(
    "--limit",
    metavar="NUMBER",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Maximum number of traces.",
)
@_denied
@_filters
@click.option(
    "--since", metavar="TIME", help="Only the last 90m, 24h or 7d, or since a date: 2026-11-25."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_command(
    store_path: Path | None,
    limit: int,
    denied: bool,
    since: str | None,
    as_json: bool,
    **names: str | None,
) -> None:
    """List the newest traces, those in which something was recorded last first.

    Exit code 0: listed; 1: no traces; 2: the store cannot be read.
    """
    from otelhooks.cli.since import since_ns
    from otelhooks.store.reader import Wanted

    start = None if since is None else since_ns(since)
    store = _open(store_path)
    summaries = store.traces(limit, denied=denied, since=start, wanted=Wanted(**names))
    if as_json:
        click.echo(_json([dataclasses.asdict(summary) for summary in summaries]))
    elif summaries:
        from otelhooks.cli.trace_words import listed

        _print(listed(summaries, _width()))
        if any(summary.service.startswith("unknown_service") for summary in summaries):
            hint = "OTEL_SERVICE_NAME names a program that is `unknown_service` here"
            click.echo(f"hint: {hint}", err=True)
    such = " of that kind" if since is not None or any(names.values()) else ""
    if not summaries:
        which = "denied calls" if denied else "traces"
        click.echo(f"the store has no {which}{such}", err=True)
    if not _say_unsent(store.path) and not (summaries or denied or such):
        _say_elsewhere()
    _say_lost(store.path)
    if not summaries:
        sys.exit(ExitCode.NO)


def _say_lost(path: Path) -> None:
    """Warn of records that the store could not take, or files of what waits for the collector."""
    from otelhooks.store import losses, terminal
    from otelhooks.telemetry.spill import folder_of

    unsent = (note.with_suffix(".db") for note in sorted(folder_of(path).glob("*.db-lost")))
    for store in (path, *unsent):
        lost = losses.read(store)
        if lost is None:
            continue
        first = "" if store == path else "start the collector if it is away, "
        what = " and ".join(counted(count, one_line(word)) for word, count in lost.counts.items())
        when = f", the last at {terminal.clock(int(lost.last_at * 1e9))}" if lost.last_at else ""
        click.echo(
            f"otelhooks: warning: {what or 'spans or events'} could not be stored{when}\n"
            f"hint: {first}free some space if the disk is full; delete"
            f" `{one_line(losses.beside(store))}` once you know",
            err=True,
        )


@trace.command("show")
@_store
@click.argument("trace_id", default="last", metavar="[TRACE_ID_PREFIX | last]")
@click.option(
    "--service", metavar="NAME", help="With `last`: the last trace of this program; a glob."
)
@click.option(
    "--content/--no-content",
    default=None,
    help="Show messages, arguments and results in full, or not at all; default: one line each.",
)
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw the tree as an SVG picture in this file instead.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show_command(
    store_path: Path | None,
    trace_id: str,
    service: str | None,
    content: bool | None,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Show one trace as a tree, with verdicts; default: the last one.

    Shows message content if it was captured.

    Exit code 0: shown; 1: no such trace; 2: several traces match, or the store cannot be read.
    """
    from otelhooks.store.reader import Wanted

    if service is not None and trace_id != "last":
        raise ConfigError(
            "--service cannot be used with a trace id", hint="leave out one of the two"
        )
    store = _open(store_path)
    found = store.trace(_checked(trace_id), wanted=Wanted(service=service))
    if found is None:
        _not_found(trace_id, store)
    if as_json:
        click.echo(_json(dataclasses.asdict(found)))
        return
    from otelhooks.cli import picture
    from otelhooks.store.tree import render

    shown: Any = {None: "lines", True: "whole", False: "none"}[content]
    width = (_width() or _UNLIMITED_WIDTH) if svg is None else picture.WIDTH
    tree = render(found.spans, found.events, width=width, content=shown)
    if svg is None:
        _print(tree)
    else:
        _draw(tree, svg, f"otelhooks trace show {found.trace_id[:8]}")


@trace.command("tail")
@_store
@_denied
@_filters
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
@click.option("--all", "from_start", is_flag=True, help="Start with what the store already has.")
def tail_command(
    store_path: Path | None,
    denied: bool,
    as_json: bool,
    from_start: bool,
    **names: str | None,
) -> None:
    """Print spans and events as they are stored, until interrupted.

    An event shows a verdict at once; the call's span follows when the call ends. With --denied,
    each decision is printed once. --json also prints records that repeat others.
    """
    from otelhooks.cli.trace_words import is_repeated, of_record, type_of
    from otelhooks.records import semconv
    from otelhooks.store import verdicts
    from otelhooks.store.reader import Wanted

    store, wanted = _open(store_path), Wanted(**names)
    if not store.path.exists():
        click.echo(f"waiting for `{store.path}`", err=True)
    # Decisions that were printed before, newest last; more than a batch can contain.
    seen: dict[object, None] = {}
    with contextlib.suppress(KeyboardInterrupt):
        for record in store.follow(from_start=from_start):
            if not wanted.fits(record):
                continue
            if denied:
                if verdicts.rank(record.attributes) < verdicts.RANK_OBSERVED:
                    continue
                decision = record.attributes.get(semconv.DECISION_ID)
                if decision is not None and decision in seen:
                    continue
                seen[decision] = None
                if len(seen) > 10_000:
                    seen.pop(next(iter(seen)))
            if as_json:
                click.echo(_json({"type": type_of(record), **dataclasses.asdict(record)}))
            elif not is_repeated(record):
                _print(of_record(record, _width()))


@trace.command("export")
@_store
@click.option("--otlp", "url", metavar="URL", help="Send to this OTLP/HTTP receiver.")
@click.option(
    "--file",
    "file",
    type=click.File("w", encoding="utf-8", lazy=True),
    help="Write OTLP JSON to this file, one request per line; - is stdout.",
)
@click.argument("trace_ids", nargs=-1, metavar="[TRACE_ID_PREFIX | last]...")
def export_command(
    store_path: Path | None, url: str | None, file: Any, trace_ids: tuple[str, ...]
) -> None:
    """Send traces of the store to a collector, or write them to a file.

    URL is the base address, such as http://localhost:4318. What was sent stays in the store.

    Exit code 0: all sent; 1: some not sent, or no such trace; 2: the command line or the store
    cannot be used.
    """
    if (url is None) == (file is None):
        raise ConfigError(
            "one of --otlp and --file is needed",
            hint="try `otelhooks trace export --otlp http://localhost:4318`",
        )
    if url is not None and not re.match(r"https?://[^/]", url):
        raise ConfigError(
            f"`{url}` is not the address of an OTLP/HTTP receiver",
            hint="it looks like http://HOST:4318",
        )
    store = _open(store_path)
    wanted: list[str] = []
    for trace_id in trace_ids:
        found = store.trace(_checked(trace_id))
        if found is None:
            _not_found(trace_id, store)
        wanted.append(found.trace_id)
    from otelhooks.store import otlp

    if url is None:
        _export(store, otlp.JsonLinesTarget(file), wanted, str(file.name))
        return
    target = otlp.OtlpTarget(url)
    try:
        sent = _export(store, target, wanted, url)
    finally:
        target.close()
    if not sent.is_complete:
        click.echo(
            f"error: not everything was sent to `{url}`: {one_line(target.problem or 'refused')}\n"
            "hint: check that a receiver listens there and takes OTLP over HTTP (port 4318, not"
            " 4317); nothing was removed from the store",
            err=True,
        )
        sys.exit(ExitCode.NO)


def _export(store: Store, target: Target, trace_ids: list[str], where: str) -> Sent:
    from otelhooks.store import otlp

    try:
        sent = otlp.send(store, target, trace_ids)
    except BrokenPipeError:
        raise
    except click.FileError as error:
        problem = f"`{where}` cannot be written: {error.message}"
        raise ConfigError(problem, hint="name another file") from error
    except OSError as error:
        problem = f"`{where}` cannot be written: {error.strerror or error}"
        raise ConfigError(problem, hint="name another file") from error
    what = f"{counted(sent.spans, 'span')} and {counted(sent.logs, 'log record')}"
    click.echo(f"sent {what} to {where}", err=True)
    return sent


def _open(path: Path | None) -> Store:
    from otelhooks.store.reader import Store

    return Store(path)


def _checked(trace_id: str) -> str:
    if trace_id != "last" and not re.fullmatch(r"[0-9a-fA-F]{1,32}", trace_id):
        raise ConfigError(
            f"`{trace_id}` is not a trace id",
            hint="give its first hex digits, as `otelhooks trace list` shows them, or `last`",
        )
    return trace_id


def _say_where(path: Path, first: str = "") -> None:
    """Print in one line where the traces may be that a store does not have.

    Args:
        path: The store.
        first: What to do otherwise.
    """
    if not _say_unsent(path):
        _say_elsewhere(first)
    _say_lost(path)


def _say_unsent(path: Path) -> bool:
    """Print where the spans are that no collector has taken yet; return whether there are any."""
    from otelhooks.telemetry.spill import folder_of

    folder = folder_of(path)
    has_any = any(folder.glob("*.db"))
    if has_any:
        click.echo(
            f"hint: the collector was away: what it did not take is in `{folder}`, and is sent by"
            " the next program that reaches it",
            err=True,
        )
    return has_any


def _say_elsewhere(first: str = "") -> None:
    from otelhooks.process.environment import exporter_variable

    if variable := exporter_variable():
        hint = (
            f"{variable} is set, so programs send their traces elsewhere and write nothing to the"
            " store"
        )
    else:
        hint = (
            f"{first}a program with an exporter for a collector, or a tracer provider of its own,"
            " writes nothing to it"
        )
    click.echo(f"hint: {hint}", err=True)


def _not_found(trace_id: str, store: Store) -> NoReturn:
    if trace_id == "last":
        click.echo("error: there is no trace in the store", err=True)
        _say_where(store.path)
    else:
        click.echo(f"error: no trace starts with `{trace_id}`", err=True)
        click.echo("hint: see `otelhooks trace list`", err=True)
    sys.exit(ExitCode.NO)


def _console() -> Console:
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit with 1, which has another meaning here

    return Plain(highlight=False, markup=False, emoji=False)


def _width() -> int | None:
    """Return the columns of the terminal, None where the output goes elsewhere."""
    console = _console()
    return console.width if console.is_terminal else None


def _draw(text: Text, file: Path, title: str) -> None:
    from otelhooks.cli import picture

    try:
        file.write_text(picture.svg(text, title), encoding="utf-8")
    except OSError as error:
        problem = f"`{one_line(file)}` cannot be written: {error.strerror or error}"
        raise ConfigError(problem, hint="name another file") from error
    click.echo(f"wrote {one_line(file)}", err=True)


def _is_unicode() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return encoding.lower().replace("-", "").startswith("utf")


def _print(text: Text) -> None:
    if not _is_unicode():
        from otelhooks.store.terminal import to_ascii

        text = to_ascii(text)
    # Whole lines: a terminal wraps them better, and pipes need them unwrapped.
    _console().print(text, soft_wrap=True, end="" if text.plain.endswith("\n") else "\n")


def _json(value: object) -> str:
    """Return one line of JSON for every reader; bytes as base64, special floats as text."""
    return json.dumps(_plain(value), separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("Iterable[tuple[Any, Any]]", value.items())
        return {str(key): _plain(item) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("Iterable[Any]", value)]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
