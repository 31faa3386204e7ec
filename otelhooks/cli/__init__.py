"""The ``otelhooks`` command: a frame that loads each command only when it is called.

Data goes to stdout, everything else to stderr. Exit codes are `ExitCode`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from enum import IntEnum
from typing import Any

import click

from otelhooks import __version__
from otelhooks.errors import OtelHooksError
from otelhooks.plain_text import one_line, sanitize

__all__ = ["ExitCode", "cli", "main"]


class ExitCode(IntEnum):
    """The meaning of a command's exit code."""

    OK = 0
    NO = 1
    """The answer is no: something is not covered, not proved, or was changed."""
    USAGE = 2
    """The command line, a setting or a file cannot be used."""
    UNEXPECTED = 3
    """A bug in otelhooks itself."""
    READER_LEFT = 141
    """The reader of the output left, as `head` does: what a shell says of other programs then."""


# name -> module, attribute, one line for `otelhooks --help`, so that it imports no command
COMMANDS: dict[str, tuple[str, str, str]] = {
    "run": ("otelhooks.cli.run", "run", "Run a program with otelhooks switched on."),
    "init": ("otelhooks.cli.init", "init", "Write a first policy for the agents in a folder."),
    "demo": ("otelhooks.cli.demo", "demo", "Watch scripted agents being governed."),
    "doctor": ("otelhooks.cli.doctor", "doctor", "Show which frameworks are guarded."),
    "policy": ("otelhooks.cli.policy", "policy", "Write, check, test and change policies."),
    "trace": ("otelhooks.cli.trace", "trace", "Show recorded calls and their verdicts."),
    "ui": ("otelhooks.cli.ui", "ui", "Watch calls and answer questions in a browser."),
    "approvals": ("otelhooks.cli.approvals", "approvals", "Answer calls that wait for a person."),
    "stop": ("otelhooks.cli.stop", "stop", "Stop tool calls of running programs."),
    "go": ("otelhooks.cli.stop", "go", "Let stopped programs continue."),
    "mcp": ("otelhooks.cli.mcp", "mcp", "Pin definitions of MCP tools, and approve changes."),
    "audit": ("otelhooks.cli.audit", "audit", "Check and read the audit trail."),
    "version": ("otelhooks.cli", "version", "Print the version."),
}


class _Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and turn its errors into messages and an exit code."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            _let_go()
            ctx.exit(ExitCode.READER_LEFT)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except OtelHooksError as error:
            for each in (error, *getattr(error, "further", ())):
                click.echo(f"error: {sanitize(each)}", err=True)
            ctx.exit(ExitCode.USAGE)
        except Exception as error:
            traceback.print_exc()
            click.echo(f"error: unexpected: {one_line(repr(error))}", err=True)
            click.echo("hint: this is a bug in otelhooks; please report it", err=True)
            ctx.exit(ExitCode.UNEXPECTED)


def _let_go() -> None:
    """Keep Python from writing at its end what was not written yet: the pipe has no reader."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="otelhooks")
def cli() -> None:
    """Hooks, policy and traces for AI agents.

    To begin, run `otelhooks demo`, or `otelhooks init` in your project's folder. `otelhooks COMMAND
    --help` explains a command.

    Exit codes: 0 success; 1 the command found something, such as a deny or a failed case; 2 an
    error in the command line, a setting or a file; 3 a bug in otelhooks; 141 the output's reader
    closed it early.
    """


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(__version__)


def main() -> None:
    """Run the ``otelhooks`` command and exit."""
    cli(prog_name="otelhooks")
