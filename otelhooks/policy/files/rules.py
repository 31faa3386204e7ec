"""YAML policy files as rules.

Decision code: anything in a file that is not understood is an error at its place, and nothing of
the file is loaded.
"""

from __future__ import annotations

import dataclasses
import os
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from otelhooks.errors import ConfigError, PolicyFileError
from otelhooks.hooks.gates import Gate
from otelhooks.policy.evaluate import Default
from otelhooks.policy.files import source as sources
from otelhooks.policy.files.document import Node, parse
from otelhooks.policy.files.kinds import LINE, Key, Kind, choice, list_of, nearest, record
from otelhooks.policy.files.problems import Problems
from otelhooks.policy.files.source import Source
from otelhooks.policy.files.statements import PRESETS, STATEMENTS
from otelhooks.policy.paths import Folder
from otelhooks.policy.rules import Mode, Policy

__all__ = [
    "FORMAT_VERSION",
    "KEYS",
    "RuleFile",
    "keep_counts",
    "read_entry",
    "read_rules",
    "strictest",
    "written",
]

FORMAT_VERSION = 1
"""Version of the file format; a file may state the version that it uses."""

MAX_INCLUDES = 16
"""Deepest chain of files that include one another."""


def _version(node: Node, what: str) -> int:
    number = node.whole_number(what)
    if number != FORMAT_VERSION:
        raise node.error(
            f"{what} `{number}` is not known",
            hint=f"this version of otelhooks reads version {FORMAT_VERSION}",
        )
    return number


def _entries(node: Node, what: str) -> list[Policy | Gate]:
    problems, found = Problems(), list[Policy | Gate]()
    for entry in node.items(what):
        with problems:
            found += read_entry(entry)
    problems.check()
    return found


def read_entry(node: Node) -> list[Policy | Gate]:
    """Return the rules or the gate of one entry of ``policies``.

    Raises:
        PolicyFileError: It cannot be understood.
    """
    try:
        found = _preset(node) if isinstance(node.value, str) else _statement(node)
    except PolicyFileError:
        raise
    except ConfigError as error:  # problems that only show for the rule as a whole
        raise node.error(error.problem, hint=error.hint) from error
    place = f"{node.path}:{node.line}:{node.column}"
    for gate in found:
        if isinstance(gate, Gate):
            _written[gate] = node.plain()
            gate.place = place
    return [
        dataclasses.replace(each, place=place) if isinstance(each, Policy) else each
        for each in found
    ]


_written: weakref.WeakKeyDictionary[Gate, Any] = weakref.WeakKeyDictionary()


def written(gate: Gate) -> Any:
    """Return the entry that a limit, budget or label was read from; None for one made in code."""
    return _written.get(gate)


def keep_counts(new: Iterable[Any], old: Iterable[Any]) -> list[Any]:
    """Return reloaded hooks; unchanged limits are the old objects, with their counts.

    Args:
        new: Hooks of the files as they are now.
        old: Hooks of the files as they were.
    """
    known = {_key(hook): hook for hook in old if isinstance(hook, Gate)}
    kept: list[Any] = []
    for hook in new:
        same = known.get(_key(hook)) if isinstance(hook, Gate) and written(hook) else None
        if same is not None:
            same.policy_version, same.place = hook.policy_version, hook.place
        kept.append(same or hook)
    return kept


def _key(gate: Gate) -> str:
    return f"{gate.policy_id}\0{gate.id}\0{written(gate)!r}"


def _preset(node: Node) -> list[Policy]:
    word = node.text("an entry")
    if word not in PRESETS:
        raise node.error(f"unknown preset `{word}`", hint=nearest(word, list(PRESETS)))
    rules = PRESETS[word][1]()
    return rules if isinstance(rules, list) else [rules]


def _statement(node: Node) -> Sequence[Policy | Gate]:
    values = node.mapping("an entry of `policies`")
    words = [key for key in values if key in STATEMENTS]
    if not words:
        known = list(STATEMENTS)
        options = {key.name for each in STATEMENTS.values() for key in each.options}
        for key in values:
            if key not in options:
                raise node.key_error(key, f"unknown key `{key}`", hint=nearest(key, known))
        raise node.error("the entry does not say what it does", hint=nearest("", known))
    if len(words) > 1:
        raise node.key_error(
            words[1], f"an entry says `{words[0]}` and `{words[1]}`", hint="write two entries"
        )
    return STATEMENTS[words[0]].read(node)


def _includes(node: Node, what: str) -> tuple[Node, ...]:
    places = node.items(what) if isinstance(node.value, list) else [node]
    return tuple(place for place in places if LINE.read(place, what))


_POLICIES = Kind(
    {
        "type": "array",
        "items": {
            "anyOf": [
                {"enum": list(PRESETS), "description": "A ready-made set of rules."},
                *(statement.entry.schema for statement in STATEMENTS.values()),
            ]
        },
    },
    _entries,
)
KEYS = (
    Key("version", Kind({"const": FORMAT_VERSION}, _version), "Version of the file format."),
    Key(
        "default",
        choice(*get_args(Default)),
        "What happens if no rule matches; between files `deny` wins.",
    ),
    Key(
        "mode",
        choice(*get_args(Mode)),
        "`monitor` records denies and asks and enforces none, if every file says so.",
    ),
    Key(
        "include",
        Kind(list_of(LINE).schema, _includes),
        "YAML files whose rules come first; relative to this one.",
    ),
    Key("policies", _POLICIES, "The rules, in order."),
)
"""What a file may contain."""


@dataclasses.dataclass(frozen=True)
class RuleFile:
    """The content of a YAML policy file.

    Attributes:
        source: The file.
        rules: In order.
        gates: Limits, budgets and labels, in order; with the file's policy id and version.
        default: ``allow`` or ``deny``; None if the file does not set it.
        mode: ``enforce`` or ``monitor``, its own or that of the including file; None if neither
            sets it.
    """

    source: Source
    rules: tuple[Policy, ...]
    gates: tuple[Gate, ...]
    default: Default | None
    mode: Mode | None


def read_rules(given: Iterable[Source], *, trusted: bool = False) -> tuple[RuleFile, ...]:
    """Read YAML policy files and their includes, each before the file that includes it.

    A file is read once, however often it is named.

    Args:
        given: Files; Markdown files are skipped.
        trusted: As for `otelhooks.policy.files.source.read_all`.

    Raises:
        PolicyFileError: One cannot be read or understood.
    """
    reader, problems = _Reader(trusted), Problems()
    for source in given:
        if not source.is_markdown:
            with problems:
                reader.read(source, None, ())
    problems.check()
    sources.refuse_namesakes(file.source for file in reader.files.values())
    return tuple(reader.files.values())


def strictest(files: Iterable[RuleFile]) -> tuple[Default | None, Mode | None]:
    """Return the default and the mode that apply if several files are loaded.

    A file without a mode enforces: one file alone cannot switch the others off.

    Args:
        files: In any order.

    Returns:
        ``deny`` if one file sets it; ``monitor`` if every file does. None if no file sets anything.
    """
    files = tuple(files)
    defaults = {file.default for file in files}
    modes = {file.mode for file in files}
    default: Default | None = None
    mode: Mode | None = None
    if defaults - {None}:
        default = "deny" if "deny" in defaults else "allow"
    if modes - {None}:
        mode = "monitor" if modes == {"monitor"} else "enforce"
    return default, mode


class _Reader:
    """Follows includes.

    Attributes:
        files: By path without links, in load order.
    """

    def __init__(self, trusted: bool) -> None:
        self.files: dict[str, RuleFile] = {}
        self._trusted = trusted

    def read(self, source: Source, mode: Mode | None, above: tuple[str, ...]) -> None:
        real = os.path.realpath(source.path)
        if real in self.files:
            return
        top = parse(source.text, source.path)
        values = _top(top)
        mode = values.get("mode", mode)
        for place in values.get("include", ()):
            self._include(source, place, mode, (*above, real))
        found: list[Policy | Gate] = values.get("policies", [])
        gates = tuple(each for each in found if isinstance(each, Gate))
        for gate in gates:
            gate.policy_id, gate.policy_version = source.policy_id, source.version
        rules = tuple(each for each in found if isinstance(each, Policy))
        self.files[real] = RuleFile(source, rules, gates, values.get("default"), mode)

    def _include(
        self, source: Source, node: Node, mode: Mode | None, above: tuple[str, ...]
    ) -> None:
        named = LINE.read(node, "`include`")
        expanded = os.path.expanduser(named)
        path = os.path.join(os.path.dirname(source.path), expanded)
        real, folder = os.path.realpath(path), os.path.dirname(above[-1])
        if not os.path.isabs(expanded) and not Folder.of(folder).contains(real):
            raise node.error(
                f"`{named}` leads out of the folder of this file",
                hint="write the absolute path if you mean that file",
            )
        if real in above:
            raise node.error(f"`{named}` includes this file again", hint="take one of them out")
        if len(above) >= MAX_INCLUDES:
            raise node.error(
                f"files include one another deeper than {MAX_INCLUDES} levels",
                hint="include them from one file",
            )
        if not path.lower().endswith(sources.YAML):
            raise node.error(
                f"`{named}` is not a YAML file", hint="name files that end in .yaml or .yml"
            )
        try:
            included = sources.read(path, trusted=self._trusted)
        except PolicyFileError as error:
            if os.path.lexists(path):
                raise
            raise node.error(f"`{named}` does not exist", hint="name an existing file") from error
        self.read(included, mode, above)


_FILE = record(*KEYS)


def _top(node: Node) -> dict[str, Any]:
    """Return the values of a file's keys."""
    hint = "write `policies:` and a list of rules"
    if node.value is None:
        raise node.error("the file is empty", hint=hint)
    values = _FILE.read(node, "a policy file")
    if not values.keys() - {"version"}:  # the file looks cut off
        raise node.error("the file has no rules", hint=hint)
    return values
