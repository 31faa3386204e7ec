"""The programs that may run, with their options and operands: `programs.yaml`.

The top of that file describes what an entry can say.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from otelhooks.errors import ConfigError

__all__ = ["Entry", "Table", "Value", "read_entry", "table"]

_FILE = Path(__file__).with_name("programs.yaml")
_OPTION = re.compile(r"(--?[\w-]+|-[^\s=?+])([?+!]?)=(\w+)")
_KIND = re.compile(r"(\w+)([?*+]?)")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Value(NamedTuple):
    """What an option takes.

    Attributes:
        kind: Kind of the value.
        how: Empty: the rest of the word, or else the next word; ``?``: the rest of the word, if
            there is one; ``+``: the next word, or the rest of a word that starts like this;
            ``!``: only the next word.
    """

    kind: str
    how: str


@dataclasses.dataclass(frozen=True)
class Entry:
    """A program, or a subcommand of one.

    Attributes:
        flags: Options without a value.
        values: Options with one.
        words: Forms of further options without a value.
        operands: Kind of each operand in order, each with ``?``, ``*``, ``+`` or nothing.
        style: ``getopt``, or ``word`` where options are whole words such as ``-name``.
        stops: Whether everything after the first operand is an operand.
        unless: Options with which the first operand is left out.
        trees: Options with which a directory is read with all that is in it.
        edits: Options with which files that are read are written too.
        moves: Options with which it may change where paths lead; ``*`` for always.
        required: Whether it needs an argument.
        needs: It needs one of these options.
        here: Kind of the current directory where no operand names another.
        suffixes: What the program adds to names where nothing has them.
        harmless: Whether no option of the program writes, runs, or prints the content of a file.
        asks: Whether it is asked about.
        shows: Options with which it is not, since it changes nothing.
        fetches: Options with which it is asked about.
        runs: Whether it runs what is in the workspace.
        feeds: Whether it hands its input to that, which may be an interpreter.
        free: Whether each word is judged as a path, and that is all.
        subcommands: Its subcommands; the one without a name is for none.
    """

    flags: frozenset[str] = frozenset()
    values: Mapping[str, Value] = dataclasses.field(default_factory=dict[str, Value])
    words: tuple[re.Pattern[str], ...] = ()
    operands: tuple[tuple[str, str], ...] = ()
    style: str = "getopt"
    stops: bool = False
    unless: frozenset[str] = frozenset()
    trees: frozenset[str] = frozenset()
    edits: frozenset[str] = frozenset()
    moves: frozenset[str] = frozenset()
    required: bool = False
    needs: frozenset[str] = frozenset()
    here: str = ""
    suffixes: tuple[str, ...] = ()
    harmless: bool = False
    asks: bool = False
    shows: frozenset[str] = frozenset()
    fetches: frozenset[str] = frozenset()
    runs: bool = False
    feeds: bool = False
    free: bool = False
    subcommands: Mapping[str, Entry] = dataclasses.field(default_factory=lambda: _NONE)


_NONE: Mapping[str, Entry] = {}


class Table(NamedTuple):
    """All of the file.

    Attributes:
        programs: Each program that may run.
        forms: Kinds of values that are patterns.
        variables: Kind of the value of each variable that a command may get.
        network: Programs that are refused because they use the network.
        printed: Variables of the environment that may be printed.
        still: Programs that make, move and remove no file.
        piped: Programs with subcommands that do not either, and may run in ``<(...)``.
        assigned: The names that a text may give values to.
        runners: Subcommands of programs of the workspace that run the code which they are given.
    """

    programs: Mapping[str, Entry]
    forms: Mapping[str, re.Pattern[str]]
    variables: Mapping[str, str]
    network: frozenset[str]
    printed: frozenset[str]
    still: frozenset[str]
    piped: frozenset[str]
    assigned: re.Pattern[str]
    runners: Mapping[str, re.Pattern[str]]


@functools.lru_cache(maxsize=1)
def table() -> Table:
    """Return the table; it is read once."""
    given: dict[str, Any] = yaml.load(_FILE.read_text(encoding="utf-8"), _LOADER)
    return Table(
        _entries(given["programs"]),
        {name: re.compile(form) for name, form in given["forms"].items()},
        {name: kind for kind, names in given["variables"].items() for name in names.split()},
        _set(given["network"]),
        _set(given["printed"]),
        _set(given["still"]),
        frozenset(given["piped"]),
        re.compile(given["assigned"]),
        {name: re.compile(form) for name, form in given["runners"].items()},
    )


def _entries(given: Mapping[str, Any]) -> dict[str, Entry]:
    return {
        part: entry
        for name, each in given.items()
        for entry in [read_entry(each)]
        for part in name.split("|")
    }


def read_entry(given: Mapping[str, Any]) -> Entry:
    """Return an entry of the file.

    Raises:
        ConfigError: It says something that is not known.
    """
    values = {}
    for text in given.get("values", "").split():
        option = _OPTION.fullmatch(text)
        if option is None:
            raise ConfigError(f"`{text}` is not an option with a value", hint="write --name=kind")
        values[option[1]] = Value(option[3], option[2])
    kinds = [_KIND.fullmatch(text) for text in given.get("operands", "").split()]
    fields: dict[str, Any] = {
        "flags": _set(given.get("flags", "")),
        "values": values,
        "words": tuple(re.compile(form) for form in given.get("words", "").split()),
        "operands": tuple((kind[1], kind[2]) for kind in kinds if kind is not None),
        "unless": _set(given.get("unless", "")),
        "trees": _set(given.get("trees", "")),
        "edits": _set(given.get("edits", "")),
        "moves": _set(given.get("moves", "")),
        "needs": _set(given.get("needs", "")),
        "suffixes": tuple(given.get("suffixes", "").split()),
        "shows": _set(given.get("shows", "")),
        "fetches": _set(given.get("fetches", "")),
        "subcommands": _entries(given.get("subcommands", {})),
    }
    return Entry(**{**given, **fields})


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())
