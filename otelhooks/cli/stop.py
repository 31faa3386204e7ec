"""`otelhooks stop` and `otelhooks go`: stop tools of running agents, and lift that."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from otelhooks.cli import ExitCode, options
from otelhooks.cli.terminal import confirm
from otelhooks.errors import ConfigError
from otelhooks.plain_text import one_line

if TYPE_CHECKING:
    from otelhooks.policy.stops import Place, Stop


@click.command()
@click.option("--tool", metavar="TOOL", help="Stop these tools: a name, a glob or server/tool.")
@click.option("--agent", metavar="GLOB", help="Stop this agent, with the agents that it calls.")
@click.option("--all", "is_all", is_flag=True, help="Stop every tool call.")
@click.option("--why", metavar="TEXT", help="The reason that the model reads.")
@options.person("by", "Who stops them")
def stop(
    tool: str | None, agent: str | None, is_all: bool, why: str | None, by: str | None
) -> None:
    """Deny tool calls in all running programs of this user.

    Works within a second, before every rule, and in monitor mode too. Calls that are already
    running are not interrupted. Programs that start later are stopped as well, until you lift the
    stop with `otelhooks go`. $OTELHOOKS_STOPS names another folder, or redis://HOST:PORT/NUMBER for
    programs on several hosts.

    Without options, list the stops. Exit code 0: stopped, or listed; 1: nothing is stopped.
    """
    from otelhooks.policy.stops import stop_now

    place = _place()
    for name, text in (("--tool", tool), ("--agent", agent)):
        if text is not None and not text.strip():
            raise ConfigError(f"{name} is empty", hint="leave it out; --all stops every tool")
    if not (tool or agent or is_all):
        if why is not None or by is not None:
            raise ConfigError("it is not said what to stop", hint="add --tool, --agent or --all")
        _list(place)
        return
    if is_all and (tool or agent):
        raise ConfigError("--all stops every tool", hint="leave it out beside --tool and --agent")
    made = stop_now(
        tool=tool or "*", agent=agent or "", why=why or "", by=by or options.user_name()
    )
    place.put(made)
    click.echo(f"stopped: {_row(made)}", err=True)
    click.echo(one_line(f"for programs that look in {place.where}"), err=True)
    click.echo(f"hint: `otelhooks go {made.id}` lifts it", err=True)


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "is_all", is_flag=True, help="Lift every stop.")
def go(ids: tuple[str, ...], is_all: bool) -> None:
    """Let stopped programs continue: lift stops that `otelhooks stop` made.

    `otelhooks stop` lists the ids. Asks you to type a code that only a terminal shows: an agent
    that can run commands must not lift its own stop.

    Exit code 0: lifted; 1: you typed something else; 2: the id is unknown, or you are not at a
    terminal.
    """
    place = _place()
    if not (ids or is_all):
        raise ConfigError("no stop is named", hint="list them: `otelhooks stop`; --all lifts all")
    known = {one.id: one for one in place.kept()}
    if missing := [id for id in ids if id not in known]:
        raise ConfigError(f"there is no stop `{missing[0]}`", hint="list them: `otelhooks stop`")
    chosen = list(known) if is_all else list(ids)
    for id in chosen:
        click.echo(_row(known[id]))
    if not chosen:
        click.echo("no stop is kept here; programs that hold an earlier one continue")
    confirm("lift this", "lifting a stop", "not lifted")
    place.prepare()  # while it is missing, programs hold the last stops
    for id in chosen:
        place.lift(id)
    click.echo("lifted; programs continue within a second", err=True)


def _place() -> Place:
    from otelhooks.process import environment
    from otelhooks.setup.stop_places import place_of

    place = place_of(environment.stops())
    if place is None:
        raise ConfigError("OTELHOOKS_STOPS is `off`", hint="unset it, here and in your programs")
    return place


def _list(place: Place) -> None:
    found = place.kept()
    for one in found:
        click.echo(_row(one))
    if not found:
        click.echo(one_line(f"no stop is kept in {place.where}"), err=True)
        sys.exit(ExitCode.NO)


def _row(stop: Stop) -> str:
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(stop.at)) if stop.at else ""
    who = ", ".join(filter(None, (f"by {stop.by}" if stop.by else "", at)))
    return one_line("  ".join(filter(None, (stop.id, stop.what, who, stop.why))))
