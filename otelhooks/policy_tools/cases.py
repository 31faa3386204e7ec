"""Cases of a policy, as data: a call or an event, the verdict it must get, and the rule behind it.

A file of cases is YAML: one suite, or a list of suites::

    suite: the shell
    cases:
      - {call: {tool: run_command, args: {CommandLine: rm -rf /}}, verdict: deny, rule: no-rm}
      - {event: tool.post, payload: {name: view_file, content: secret}, verdict: block}

The cases of ``policies/prod.yaml`` are in ``policies/cases/prod.yaml``, those of the folder
``policies`` in all files of ``policies/cases``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from otelhooks import types
from otelhooks.hooks.calls import Call
from otelhooks.policy.files.document import Node, parse
from otelhooks.policy.files.source import read

__all__ = ["Case", "Known", "Suite", "cases_of", "read_call", "read_suites"]

FOLDER = "cases"
_SUITE_KEYS = ("suite", "rules", "servers", "default", "mode", "cases")
_CALL_KEYS = (
    "tool",
    "args",
    "server",
    "says",
    "claimed",
    "canonical",
    "kind",
    "path",
    "agent",
    "branch",
    "labels",
    "results",
    "prompt",
    "user",
)
_SERVER_KEYS = ("name", "enabled_tools", "disabled_tools")
_USER_KEYS = ("id", "roles", "tenant")
_CASE_KEYS = ("name", "call", "event", "payload", "verdict")
_EXPECTED_OF_CALL = ("rule", "message", "observed", "failed", "asked", "args")
_EXPECTED_OF_EVENT = ("rule", "message", "after")
_VERDICTS = ("allow", "deny", "ask", "modify")


class Known(NamedTuple):
    """What is known besides a call when it is made.

    Attributes:
        labels: Labels in force.
        prompts: What the user said in the conversation, the last one in this turn.
        user: The user; None if unknown.
        results: Pairs of a label and all that results with it contained; without it, any value may
            have come from results with a label in force.
    """

    labels: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    user: types.User | None = None
    results: tuple[tuple[str, Any], ...] = ()

    @property
    def all_labels(self) -> list[str]:
        """Labels in force, with those that results have."""
        return list(dict.fromkeys((*self.labels, *(label for label, _ in self.results))))


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: Its subject.
        path: File that contains it.
        line: Line, from 1.
        call: The call, for a case about a call.
        known: What is known besides the call when it is made.
        event: Event of hook files, for a case about one; empty for a call.
        payload: Payload of the event.
        verdict: ``allow``, ``deny``, ``ask`` or ``modify``.
        expected: What else must hold, by its key in the file.
    """

    name: str
    path: str
    line: int
    call: Call | None
    known: Known
    event: str
    payload: dict[str, Any]
    verdict: str
    expected: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Suite:
    """Cases that one set of policies must pass.

    Attributes:
        name: Its subject.
        path: File that contains it.
        rules: The suite's own rules, as ``policies`` of a policy file; None for the policy that is
            tested.
        servers: Servers that the application would have configured.
        default: Decision if no rule matches, for the suite's own rules.
        mode: Mode in which the suite is judged, whatever the policy's is; empty: the policy's.
        cases: In order.
    """

    name: str
    path: str
    rules: Node | None
    servers: tuple[types.McpStdioServer, ...]
    default: str
    mode: str
    cases: tuple[Case, ...]


def cases_of(path: Path) -> list[Path]:
    """Return the files of cases for a policy file or a folder of them; may be empty."""
    if path.is_dir():
        folder = path / FOLDER
        return sorted(file for file in folder.glob("*.yaml")) if folder.is_dir() else []
    beside = path.parent / FOLDER / f"{path.stem}.yaml"
    return [beside] if beside.is_file() else []


def read_suites(path: str | os.PathLike[str]) -> list[Suite]:
    """Read a file of cases.

    Args:
        path: YAML.

    Raises:
        PolicyFileError: It cannot be read, or contains something that is not understood.
    """
    source = read(os.fspath(path), trusted=True)  # it decides nothing
    top = parse(source.text, source.path)
    nodes = top.items("the file") if isinstance(top.value, list) else [top]
    return [_suite(node, source.policy_id) for node in nodes]


def _suite(node: Node, stem: str) -> Suite:
    found = node.mapping("a suite")
    _only(node, found, _SUITE_KEYS, "a suite")
    if "cases" not in found:
        raise node.error("a suite has no `cases`", hint="add a list of cases")
    name = found["suite"].text("suite") if "suite" in found else stem
    cases = [
        _case(each, f"{name}: {number}")
        for number, each in enumerate(found["cases"].items("cases"), 1)
    ]
    return Suite(
        name=name,
        path=node.path,
        rules=found.get("rules"),
        servers=tuple(_servers(found.get("servers"))),
        default=_word(found.get("default"), "default", ("allow", "deny")),
        mode=_word(found["mode"], "mode", ("enforce", "monitor")) if "mode" in found else "",
        cases=tuple(cases),
    )


def _servers(node: Node | None) -> Iterator[types.McpStdioServer]:
    for each in node.items("servers") if node is not None else ():
        _only(each, each.mapping("a server"), _SERVER_KEYS, "a server")
        try:
            yield types.McpStdioServer(command="", **each.plain())
        except (TypeError, ValueError) as error:
            raise each.error(
                f"no server: {error}", hint="write name, and enabled_tools or disabled_tools"
            ) from error


def _word(node: Node | None, what: str, known: Sequence[str]) -> str:
    if node is None:
        return known[0]
    word = node.text(what)
    if word not in known:
        raise node.error(f"unknown {what} `{word}`", hint=f"use one of {', '.join(known)}")
    return word


def _case(node: Node, name: str) -> Case:
    found = node.mapping("a case")
    if ("call" in found) == ("event" in found):
        raise node.error("a case has one of `call` and `event`", hint="keep one, and `verdict`")
    about_call = "call" in found
    wanted = _EXPECTED_OF_CALL if about_call else _EXPECTED_OF_EVENT
    _only(node, found, (*_CASE_KEYS, *wanted), "a case")
    if "verdict" not in found:
        raise node.error("a case has no `verdict`", hint=f"use one of {', '.join(_VERDICTS)}")
    verdict = found["verdict"].text("verdict")
    verdict = "deny" if verdict == "block" else verdict
    if verdict not in _VERDICTS:
        raise found["verdict"].error(
            f"unknown verdict `{verdict}`", hint=f"use one of {', '.join(_VERDICTS)}"
        )
    call, known = read_call(found["call"]) if about_call else (None, Known())
    payload = found["payload"].mapping("payload") if "payload" in found else {}
    return Case(
        name=found["name"].text("name") if "name" in found else name,
        path=node.path,
        line=node.line,
        call=call,
        known=known,
        event="" if about_call else found["event"].text("event"),
        payload={key: each.plain() for key, each in payload.items()},
        verdict=verdict,
        expected={key: found[key].plain() for key in wanted if key in found},
    )


def read_call(node: Node) -> tuple[Call, Known]:
    """Read a call in the form of cases, and what is known besides when it is made.

    Raises:
        PolicyFileError: It has no tool, or contains something that is not understood.
    """
    found = node.mapping("a call")
    _only(node, found, _CALL_KEYS, "a call")
    if "tool" not in found:
        raise node.error("a call has no `tool`", hint="name the tool")
    args = found["args"].mapping("args") if "args" in found else {}

    def text(key: str) -> str:
        return found[key].text(key) if key in found else ""

    def texts(key: str) -> tuple[str, ...]:
        return tuple(each.text(key) for each in found[key].items(key)) if key in found else ()

    call = Call(
        text("tool"),
        {key: each.plain() for key, each in args.items()},
        server=text("server") or None,
        claimed_server="claimed" in found and found["claimed"].boolean("claimed"),
        server_says=text("says") or None,
        canonical=texts("canonical"),
        kind=text("kind") or None,
        path=text("path") or None,
        agent=text("agent"),
        branch=text("branch") or text("agent"),
    )
    prompts = _texts(found["prompt"], "prompt") if "prompt" in found else ()
    results = found["results"].mapping("results") if "results" in found else {}
    return call, Known(
        texts("labels"),
        prompts,
        _user(found.get("user")),
        tuple((label, each.plain()) for label, each in results.items()),
    )


def _texts(node: Node, what: str) -> tuple[str, ...]:
    """Return a text, or those of a list."""
    items = node.items(what) if isinstance(node.value, list) else [node]
    return tuple(each.text(what) for each in items)


def _user(node: Node | None) -> types.User | None:
    if node is None:
        return None
    found = node.mapping("a user")
    _only(node, found, _USER_KEYS, "a user")
    given = {key: found[key].text(key) for key in ("id", "tenant") if key in found}
    roles = _texts(found["roles"], "roles") if "roles" in found else ()
    return types.User(roles=roles, **given)


def _only(node: Node, found: dict[str, Node], known: Sequence[str], what: str) -> None:
    for key in found:
        if key not in known:
            raise node.key_error(
                key, f"{what} has no `{key}`", hint=f"use one of {', '.join(known)}"
            )
