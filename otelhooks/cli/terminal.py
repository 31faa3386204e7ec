"""A person at the terminal, whom an agent that can run commands cannot replace."""

from __future__ import annotations

import secrets
import sys

import click

from otelhooks.cli import ExitCode
from otelhooks.errors import ConfigError

__all__ = ["confirm"]


def confirm(what: str, act: str, if_not: str) -> None:
    """Have a person type a code that only the terminal shows; end the command if they do not.

    Args:
        what: What they confirm, after "to".
        act: The same as the subject of an error.
        if_not: Said if they type anything else.

    Raises:
        ConfigError: There is no terminal.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(f"{act} needs a terminal", hint="run the command in one")
    code = f"{secrets.randbelow(10_000):04}"
    if click.prompt(f"Type {code} to {what}", default="", show_default=False) != code:
        click.echo(if_not, err=True)
        sys.exit(ExitCode.NO)
