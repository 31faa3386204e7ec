"""Pinned definitions of MCP tools: those that people have approved, in a file for review.

The file is JSON in ASCII, so that look-alikes and characters that cannot be seen show as escapes;
it is sorted, and has the definition of each tool beside the hash of it. `otelhooks mcp` writes it.

Decision code: fails closed. A tool is approved only if every definition of it in the last list is
the one in the file, under the name that the application gave to its server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from otelhooks.errors import PolicyFileError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import Run
from otelhooks.hooks.verdict import ALLOW, DENY, Ruling
from otelhooks.policy import fingerprints
from otelhooks.policy.files import source
from otelhooks.policy.mcp.definitions import FIELDS, Definition, fields_of

__all__ = ["POLICY_ID", "Approved", "PinRule", "Pins", "entry_of", "read", "text_of"]

POLICY_ID = "mcp_pins"
"""Telemetry's name for the source of these denies."""

_VERSION = 1
_HINT = "restore the file, such as with git, or delete it and run `otelhooks mcp pin`"

Approved = dict[str, dict[str, dict[str, Any]]]
"""Server -> tool -> fields of its definition."""


class PinRule(NamedTuple):
    """Why a tool is not approved; for telemetry it is a rule that denies."""

    id: str
    reason: str
    policy_version: str = ""
    policy_id: str = POLICY_ID
    severity: str = "high"
    handler: None = None
    ask: None = None
    detail: None = None

    @property
    def identity(self) -> str:
        """The same as its id."""
        return self.id

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{POLICY_ID}:{self.id}"


_REASONS = {
    "unnamed": "The MCP server of this tool has no name here, so its tools cannot be approved.",
    "unlisted": "This tool is not in any list that its MCP server has given to this program.",
    "new": "This tool has not been approved.",
    "changed": "The definition of this tool has changed since it was approved.",
}


class Pins:
    """The approved definitions, as a judge of calls at an MCP client.

    Args:
        approved: What a file says.
        monitor: Whether denies are only recorded.

    Attributes:
        can_deny: Whether any call can be denied.
        rules: Reasons to deny, by id.
    """

    needs_context = False

    def __init__(self, approved: Approved, *, monitor: bool) -> None:
        self.approved: Approved = approved
        self.can_deny: bool = not monitor
        self.version: str = fingerprints.digest(text_of(approved), length=12)
        self.rules: dict[str, PinRule] = {
            id: PinRule(id, reason, self.version) for id, reason in _REASONS.items()
        }
        self._digests = {
            server: {name: Definition.of(name, fields).digest for name, fields in tools.items()}
            for server, tools in approved.items()
        }
        self._allowed = Ruling(ALLOW)
        self._rulings = {
            id: Ruling(ALLOW, observed=((DENY, rule),))
            if monitor
            else Ruling(DENY, rule, rule.reason)
            for id, rule in self.rules.items()
        }

    def problem(self, server: str, name: str, found: Sequence[Definition]) -> str:
        """Return the id of the rule against a tool; empty if the tool is approved.

        Args:
            server: Name that the application gave to its server; empty if it gave none.
            name: The tool's name there.
            found: Its definitions in the list that came last; empty if no list had it.
        """
        if not server:
            return "unnamed"
        if not found:
            return "unlisted"
        approved = self._digests.get(server, {}).get(name)
        if approved is None:
            return "new"
        return "" if all(one.digest == approved for one in found) else "changed"

    def is_against(self, call: Call) -> bool:
        """Return whether a call is for a tool that is not approved."""
        return self.constant(call) is not self._allowed

    def constant(self, call: Call) -> Ruling:
        """Return the ruling about a call; one that is not at an MCP client's seat is allowed."""
        listing = call.listing
        if listing is None:
            return self._allowed
        problem = self.problem(listing.server, call.name, listing.definitions)
        return self._rulings[problem] if problem else self._allowed

    def evaluate(self, call: Call, context: Any = None) -> Generator[Run, Any, Ruling]:
        """Decide about a call."""
        return self.constant(call)
        yield


# -- the file -------------------------------------------------------------------------------------


def read(path: Path) -> Approved:
    """Return what people have approved; nothing if there is no file.

    Raises:
        PolicyFileError: The file cannot be read or understood, or others could have written it.
    """
    if not os.path.lexists(path):
        return {}
    found = source.read(str(path))
    try:
        top: Any = json.loads(found.text, object_pairs_hook=_object)
        return _approved(top)
    except json.JSONDecodeError as error:
        problem, place = error.msg, (error.lineno, error.colno)
    except RecursionError:
        problem, place = "it is nested too deep", (1, 1)
    except ValueError as error:  # a number of thousands of digits
        problem, place = str(error), (1, 1)
    except _WrongError as error:
        problem, place = str(error), (1, 1)
    raise PolicyFileError(str(path), *place, f"not a file of pins: {problem}", hint=_HINT)


class _WrongError(Exception):
    """The content of the file is not understood."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _WrongError(f"{twice!a} is there twice")
    return found


def _approved(top: Any) -> Approved:
    _check(top, "the file", {"version", "servers"})
    if type(top.get("version")) is not int or top["version"] != _VERSION:
        raise _WrongError(f"this version of otelhooks reads version {_VERSION}")
    servers = _check(top.get("servers"), "`servers`")
    return {
        server: {name: _fields(name, entry) for name, entry in _check(tools, ascii(server)).items()}
        for server, tools in servers.items()
    }


def _check(value: Any, what: str, known: set[str] | None = None) -> dict[str, Any]:
    """Return a value if it is an object, with no other than the known names."""
    if not isinstance(value, dict):
        raise _WrongError(f"{what} is not an object")
    found = cast("dict[str, Any]", value)
    if known is not None and (unknown := sorted(found.keys() - known)):
        raise _WrongError(f"{what} has {unknown[0]!a}, which is not known")
    return found


def _fields(name: str, entry: Any) -> dict[str, Any]:
    """Return the definition in an entry, which must be the one that its hash is for."""
    what = f"the tool {name!a}"
    fields = dict(_check(entry, what, {"hash", *FIELDS}))
    given = fields.pop("hash", None)
    if "description" in fields:
        lines = fields["description"]
        if not isinstance(lines, list) or not all(
            isinstance(line, str) for line in cast("list[Any]", lines)
        ):
            raise _WrongError(f"the description of {name!a} is not a list of lines")
        fields["description"] = "\n".join(cast("list[str]", lines))
    if not given or given != _hash(name, fields):
        raise _WrongError(f"the hash of {what} is not that of its definition")
    return fields


def _hash(name: str, fields: Mapping[str, Any]) -> str:
    try:
        return Definition.of(name, fields_of(fields)).digest if fields_of(fields) == fields else ""
    except TypeError:  # its annotations are not an object
        return ""


def entry_of(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool as the file has it: the description as lines, and the hash."""
    entry: dict[str, Any] = {**fields, "hash": Definition.of(name, fields).digest}
    if "description" in entry:
        entry["description"] = entry["description"].split("\n")
    return entry


def text_of(approved: Approved) -> str:
    """Return the text that `read` reads."""
    servers = {
        server: {name: entry_of(name, fields) for name, fields in tools.items()}
        for server, tools in approved.items()
    }
    return as_text({"version": _VERSION, "servers": servers}) + "\n"


def as_text(value: Any) -> str:
    """Return JSON in the form of the file."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True)
