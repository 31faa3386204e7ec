"""Running cases: the outcome, and where it differs from the expected one."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import same_json
from otelhooks.hooks.verdict import DENY
from otelhooks.policy.rules import Rule
from otelhooks.policy_tools.cases import Case, Suite, cases_of, read_suites
from otelhooks.policy_tools.dry_run import DryRun
from otelhooks.policy_tools.subject import Subject

__all__ = ["Difference", "Result", "described", "junit", "run", "run_suite", "shown"]


@dataclass(frozen=True)
class Difference:
    """A difference from the expected outcome.

    Attributes:
        what: ``verdict``, ``rule``, ``message``, ...
        expected: Value in the case.
        seen: Actual value.
    """

    what: str
    expected: Any
    seen: Any


@dataclass(frozen=True)
class Result:
    """One case after it ran.

    Attributes:
        suite: Name of its suite.
        case: The case.
        differences: Differences from the case; empty if it passed.
        seen: The whole outcome, by the keys of cases.
        doubts: Hints about labels of the case that no rule looks at.
    """

    suite: str
    case: Case
    differences: tuple[Difference, ...]
    seen: dict[str, Any]
    doubts: tuple[str, ...] = ()

    @property
    def is_red(self) -> bool:
        """Whether something differs."""
        return bool(self.differences)


def run(names: Sequence[str | os.PathLike[str]], files: Sequence[Path] = ()) -> Iterator[Result]:
    """Run the cases of policies, which are loaded together as a program would load them.

    Args:
        names: As `Subject.open` takes them.
        files: Files of cases; if empty, those that belong to the policies.

    Raises:
        ConfigError: A policy or a file of cases cannot be used, or there are no cases.
    """
    subject = Subject.open(names)
    found = list(files) or [file for path in subject.paths for file in cases_of(path)]
    suites = [suite for file in dict.fromkeys(found) for suite in read_suites(file)]
    if not any(suite.cases for suite in suites):
        raise ConfigError(
            "there are no cases",
            hint="write them in a folder `cases` beside the policy, or name a file with --cases",
        )
    for suite in suites:
        yield from run_suite(suite, subject)


def run_suite(suite: Suite, tested: Subject) -> Iterator[Result]:
    """Run the cases of a suite, each in a session of its own.

    Args:
        suite: If it has rules of its own, they are judged instead of `tested`.
        tested: The policy that the cases are about.

    Raises:
        ConfigError: The suite's own rules cannot be used.
    """
    subject = tested if suite.rules is None else Subject.of_suite(suite)
    policy = subject.dry_run(suite.servers, mode=suite.mode)
    for case in suite.cases:
        seen = _event(case, subject) if case.event else _call(case, policy)
        expected = {"verdict": case.verdict, **case.expected}
        differences = tuple(
            Difference(what, value, seen[what])
            for what, value in expected.items()
            if what in seen and not same_json(value, seen[what])
        )
        doubts = tuple(policy.doubts(case.known.all_labels))
        yield Result(suite.name, case, differences, seen, doubts)


def _call(case: Case, policy: DryRun) -> dict[str, Any]:
    assert case.call is not None
    approves = case.expected.get("asked") is True
    labels, prompts, user, results = case.known
    judged = policy.judge(
        case.call, labels, prompts=prompts, user=user, results=results, approves=approves
    )
    names = {rule.id: described(rule) for rule in policy.rules.rules}
    verdict = judged.verdict
    failed = [described(tested.rule) for tested in judged.tested if tested.error is not None]
    return {
        "verdict": judged.decision,
        "rule": names.get(verdict.rule_id, verdict.rule_id) or None,
        "message": verdict.message or None,
        "observed": [
            f"{seen.decision} {names.get(seen.rule_id, seen.rule_id)}" for seen in verdict.observed
        ],
        "failed": failed,
        "args": judged.call.args,
    }


def _event(case: Case, subject: Subject) -> dict[str, Any]:
    action, payload, reason = subject.dispatch(case.event, case.payload)
    return {
        "verdict": DENY if action == "block" else action,
        "rule": _blocking_hook(reason),
        "message": reason or None,
        "after": {key: payload.get(key) for key in case.expected.get("after", ())},
    }


def _blocking_hook(reason: str) -> str | None:
    """Return the name in the words that every block starts with."""
    prefix = 'blocked by hook "'
    if not reason.startswith(prefix):
        return None
    return reason[len(prefix) :].partition('"')[0]


def described(rule: Rule) -> str:
    """Return a rule's name in cases: its id, or its content, such as ``deny run_command``."""
    policy = rule.policy
    if policy.id is not None:
        return policy.id
    verb = "veto" if policy.veto else "hide" if policy.hide else rule.decision
    return f"{verb} {policy.tool}"


def shown(value: Any) -> str:
    """Return a value as one line of text for people."""
    if value is None:
        return "(none)"
    if isinstance(value, str):
        return value if value.isprintable() and value else ascii(value)
    return json.dumps(value, default=str)


def junit(results: Sequence[Result]) -> str:
    """Write results as XML for continuous integration.

    Args:
        results: Results of all suites.
    """
    red = sum(result.is_red for result in results)
    root = ElementTree.Element("testsuites", tests=str(len(results)), failures=str(red))
    suites: dict[tuple[str, str], ElementTree.Element] = {}
    for result in results:
        key = (result.case.path, result.suite)
        suite = suites.get(key)
        if suite is None:
            of_suite = [r for r in results if (r.case.path, r.suite) == key]
            suite = suites[key] = ElementTree.SubElement(
                root,
                "testsuite",
                name=_xml(result.suite),
                tests=str(len(of_suite)),
                failures=str(sum(r.is_red for r in of_suite)),
            )
        case = ElementTree.SubElement(
            suite,
            "testcase",
            name=_xml(result.case.name),
            classname=_xml(result.suite),
            file=_xml(result.case.path),
            line=str(result.case.line),
        )
        if result.is_red:
            lines = [
                f"{d.what}: expected {shown(d.expected)}, seen {shown(d.seen)}"
                for d in result.differences
            ]
            failure = ElementTree.SubElement(case, "failure", message=_xml(lines[0]))
            failure.text = _xml("\n".join(lines))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


_NO_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml(text: str) -> str:
    """Escape what XML cannot hold: control characters and lone surrogates."""
    return _NO_XML.sub(lambda found: ascii(found[0])[1:-1], text)
