"""Options that several commands have."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

__all__ = ["named", "person", "roles", "store", "user_name"]

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(dir_okay=False, path_type=Path)


def store(
    name: str = "store_path",
    what: str = "The store",
    kind: Any = _FILE,
) -> Callable[[F], F]:
    """Return the option that names the local store.

    Args:
        name: Parameter of the command.
        what: First words of its help.
        kind: What the command gets.
    """
    return click.option(
        "--store",
        name,
        envvar="OTELHOOKS_STORE",
        type=kind,
        metavar="PATH",
        help=f"{what}; default: $OTELHOOKS_STORE, then `store.db` in the user's data folder.",
    )


def person(name: str, does: str) -> Callable[[F], F]:
    """Return the option that names who gives a command.

    Args:
        name: Parameter of the command.
        does: First words of its help.
    """
    return click.option(
        "--as",
        name,
        metavar="NAME",
        help=f"{does}, as traces and the audit trail name it; default: the user's name.",
    )


def user_name() -> str:
    """Return the user's name; ``uid 1000`` where none is known, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # before and since Python 3.13
        return f"uid {os.getuid()}"


def roles(command: F) -> F:
    """Add the option that says which roles an approver has."""
    return click.option(
        "--role",
        "roles",
        multiple=True,
        metavar="ROLE",
        help="A role of the approver, for questions that ask for roles; may be repeated.",
    )(command)


def named(parameter: str) -> str:
    """Return the option or variable that gives the running command a parameter, for errors."""
    context = click.get_current_context()
    option = next(each for each in context.command.params if each.name == parameter)
    if context.get_parameter_source(parameter) is ParameterSource.ENVIRONMENT:
        return str(option.envvar)
    return option.opts[0]
