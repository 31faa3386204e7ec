"""`otelhooks mcp`: definitions of MCP tools that people approve."""

from __future__ import annotations

import difflib
import fnmatch
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from otelhooks.cli import ExitCode
from otelhooks.cli.options import named
from otelhooks.cli.terminal import confirm
from otelhooks.config import values
from otelhooks.errors import ConfigError
from otelhooks.plain_text import LOGGED, counted, one_line, sanitize

if TYPE_CHECKING:
    from otelhooks.policy.mcp.pins import Approved

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def mcp() -> None:
    """Pin the definitions of MCP tools: a tool that is new or has changed waits for approval.

    The file of pins has every approved tool of every server, for review. Programs with `mcp_pins`
    hide other tools from their models and deny them.
    """


def _options(command: F) -> F:
    pins = click.option(
        "--pins",
        envvar="OTELHOOKS_MCP_PINS",
        default=values.PIN_FILE,
        metavar="FILE",
        help="The file of pins; default: $OTELHOOKS_MCP_PINS, then `mcp-pins.json`.",
    )
    servers = click.option(
        "--mcp-servers",
        "servers",
        envvar="OTELHOOKS_MCP_SERVERS",
        metavar="MODULE:ATTRIBUTE",
        help="Server configurations; default: $OTELHOOKS_MCP_SERVERS.",
    )
    return pins(servers(command))


@mcp.command()
@_options
def pin(pins: str, servers: str | None) -> None:
    """Connect to the servers, show their tools, and write the first file of pins.

    It has every tool that they list now, in full. Commit it, and have it reviewed. Asks you to type
    a code that only a terminal shows: an agent that can run commands must not approve tools.

    Exit code 0: written; 1: you typed something else; 2: the file exists, a server cannot be
    reached, or you are not at a terminal.
    """
    from otelhooks.policy_tools.words import columns

    path = _path(pins)
    if os.path.lexists(path):
        raise ConfigError(f"`{path}` exists", hint="change it with `otelhooks mcp approve`")
    now = _now(servers)
    for server, tools in sorted(now.items()):
        click.echo(f"{sanitize(server)}: {counted(len(tools), 'new tool')}")
        rows = [(ascii(name)[1:-1], _first_line(tools[name])) for name in sorted(tools)]
        for line in columns(rows):
            click.echo(line)
    _write(path, now)


@mcp.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_options
def diff(pins: str, servers: str | None, as_json: bool) -> None:
    """Connect to the servers, and show which tools are not as in the file of pins.

    Exit code 0: all are; 1: there are differences; 2: the file or a server cannot be read.
    """
    path = _path(pins)
    changes = list(_changes(_read(path), _now(servers)))
    if as_json:
        click.echo(json.dumps([change.to_dict() for change in changes], indent=2))
    for change in () if as_json else changes:
        change.show()
    if changes:
        sys.exit(ExitCode.NO)
    click.echo("every tool is as it was approved", err=True)


@mcp.command()
@click.argument("tools", nargs=-1, metavar="[SERVER/TOOL]...")
@click.option("--all", "is_all", is_flag=True, help="Approve every change.")
@_options
def approve(tools: tuple[str, ...], is_all: bool, pins: str, servers: str | None) -> None:
    """Connect to the servers, show what has changed, and write it to the file of pins.

    Names tools by SERVER/TOOL; globs name several. A tool that its server no longer lists is taken
    out. Asks you to type a code that only a terminal shows: an agent that can run commands must not
    approve tools. Programs take the file when they start, or at once with `reload=True`.

    Exit code 0: written; 1: you typed something else; 2: a name fits no change, the file or a
    server cannot be read, or you are not at a terminal.
    """
    if bool(tools) == is_all:
        raise ConfigError("name the tools to approve, or --all", hint="see `otelhooks mcp diff`")
    path = _path(pins)
    approved = _read(path)
    changes = list(_changes(approved, _now(servers)))
    for pattern in tools:
        if not any(fnmatch.fnmatchcase(one.name, pattern) for one in changes):
            raise ConfigError(f"no change of `{pattern}`", hint="see `otelhooks mcp diff`")
    if not is_all:
        changes = [
            one for one in changes if any(fnmatch.fnmatchcase(one.name, each) for each in tools)
        ]
    if not changes:
        click.echo("every tool is as it was approved", err=True)
        return
    for change in changes:
        change.show()
        of_server = approved.setdefault(change.server, {})
        if change.now is None:
            del of_server[change.tool]
        else:
            of_server[change.tool] = change.now
    _write(path, {server: tools for server, tools in approved.items() if tools})


class _Change(NamedTuple):
    """A tool that is not as it was approved; each side None where there is none."""

    server: str
    tool: str
    before: dict[str, Any] | None
    now: dict[str, Any] | None

    @property
    def name(self) -> str:
        return f"{self.server}/{self.tool}"

    @property
    def kind(self) -> str:
        return "new" if self.before is None else "gone" if self.now is None else "changed"

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "change": self.kind}

    def show(self) -> None:
        """Print it, as lines of the file that were taken out or added."""
        from otelhooks.policy.mcp.pins import as_text, entry_of

        click.echo(f"{ascii(self.name)[1:-1]}: {self.kind}")
        old, new = (
            [] if side is None else as_text(entry_of(self.tool, side)).splitlines()
            for side in (self.before, self.now)
        )
        lines = list(difflib.unified_diff(old, new, n=3, lineterm=""))
        for line in lines[3:]:
            click.echo(f"  {line}")


def _first_line(fields: dict[str, Any]) -> str:
    """Return the first line of a tool's description, and how many there are besides."""
    first, *rest = str(fields.get("description", "")).strip().split("\n")
    more = f" (and {counted(len(rest), 'more line')})" if rest else ""
    return one_line(first, LOGGED) + more


def _changes(approved: Approved, now: Approved) -> Iterator[_Change]:
    for server in sorted({*approved, *now}):
        old, new = approved.get(server, {}), now.get(server, {})
        for tool in sorted({*old, *new}):
            if old.get(tool) != new.get(tool):
                yield _Change(server, tool, old.get(tool), new.get(tool))


def _path(pins: str) -> Path:
    found = values.pins(pins, "--pins")
    assert found is not None  # only None gives None
    return found.path


def _read(path: Path) -> Approved:
    from otelhooks.policy.mcp.pins import read

    return read(path)


def _now(servers: str | None) -> Approved:
    """Return what the servers list now.

    Raises:
        ConfigError: None is named, two have one name, or one cannot be reached.
    """
    from otelhooks.cli.mcp_servers import definitions

    given = values.servers(servers, named("servers")) if servers else None
    if not given:
        raise ConfigError(
            "no server is named",
            hint="name a list of configurations: --mcp-servers MODULE:ATTRIBUTE",
        )
    return definitions(given)


def _write(path: Path, approved: Approved) -> None:
    """Ask the person at the terminal, and write the file in one step."""
    from otelhooks.policy.mcp.pins import text_of

    confirm(f"write {path}", "approving tools", "not written")
    new = path.with_name(f".{path.name}.new")  # never read half written
    try:
        new.unlink(missing_ok=True)
        with new.open("x", encoding="utf-8") as file:  # never through a link that was put there
            file.write(text_of(approved))
        new.replace(path)
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be written: {error.strerror or error}") from error
    click.echo(f"written: {path}", err=True)
