"""Hook files as written: front matter between two lines of dashes, then documentation."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

from otelhooks.errors import PolicyFileError
from otelhooks.policy.files.document import Node, parse
from otelhooks.policy.files.events import check_event
from otelhooks.policy.files.kinds import LINE, TEXT, Key, Kind, checked, choice, record
from otelhooks.policy.files.source import Source
from otelhooks.policy.rules import Mode, Severity

__all__ = ["KEYS", "FrontMatter", "read"]

DEFAULT_PRIORITY = 100

_MARK = "---"


@dataclasses.dataclass(frozen=True)
class FrontMatter:
    """The content of a hook file's front matter.

    Attributes:
        source: The file.
        event: Its canonical name.
        script: Starlark, and its place.
        when: An expression, and its place; None for always.
        priority: Low runs first.
        id: Rule id of its verdicts; the file's stem if empty.
        severity: Severity of its blocks, unless they set one.
        mode: ``monitor`` records its blocks but enforces none; None takes the mode of the set.
        description: One line for people.
        given: Keys that it contains; the others have their default.
    """

    source: Source
    event: str
    script: Node
    when: Node | None = None
    priority: int = DEFAULT_PRIORITY
    id: str = ""
    severity: Severity | None = None
    mode: Mode | None = None
    description: str = ""
    given: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The hook's name: the file's stem."""
        return self.source.policy_id


def _as_node(node: Node, what: str) -> Node:
    TEXT.read(node, what)
    return node


def _integer(node: Node, what: str) -> int:
    return node.whole_number(what)


_CODE = Kind(TEXT.schema, _as_node)
KEYS = (
    Key("event", checked(LINE, check_event), "The event that it subscribes to.", required=True),
    Key("script", _CODE, "Starlark that defines `handle(event, payload)`.", required=True),
    Key("when", _CODE, "A Starlark expression over `payload` and `event`; tested before `script`."),
    Key("priority", Kind({"type": "integer"}, _integer), "Low runs first; 100 if it is not given."),
    Key("id", LINE, "Rule id of its verdicts; the file's name if it is not given."),
    Key("severity", choice(*get_args(Severity)), "Severity of its blocks, for alerts."),
    Key("mode", choice(*get_args(Mode)), "`monitor` records its blocks and enforces none."),
    Key("description", TEXT, "What it is for."),
)
"""What front matter may contain."""

_FRONT_MATTER = record(*KEYS)


def read(source: Source) -> FrontMatter:
    """Read a hook file.

    Raises:
        PolicyFileError: It has no front matter, or its front matter cannot be understood.
    """
    top = parse(_between_marks(source), source.path, first_line=2)
    if top.value is None:
        raise _error(source, 1, "the front matter is empty", "write `event:` and `script:` in it")
    said: dict[str, Any] = _FRONT_MATTER.read(top, "front matter")
    said["event"] = check_event(said["event"])  # without its alias
    return FrontMatter(source, **said, given=frozenset(said))


def _between_marks(source: Source) -> str:
    lines = source.text.split("\n")
    if lines[0].rstrip() != _MARK:
        raise _error(
            source, 1, "no front matter", f"the first line of a hook file must be `{_MARK}`"
        )
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == _MARK:
            return "\n".join(lines[1:number]) + "\n"
    raise _error(
        source, 1, "the front matter is not closed", f"write a line `{_MARK}` below its last key"
    )


def _error(source: Source, line: int, problem: str, hint: str) -> PolicyFileError:
    return PolicyFileError(source.path, line, 1, problem, hint=hint)
