"""The loaded rules, one call under them, and a candidate against recorded calls."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from otelhooks.hooks.verdict import ALLOW
from otelhooks.plain_text import sanitize
from otelhooks.policy.builders import allow
from otelhooks.policy_tools import check, hook_lint, words
from otelhooks.policy_tools.as_written import as_written, selectors
from otelhooks.policy_tools.cases import Known
from otelhooks.policy_tools.explain import Explanation, explain
from otelhooks.policy_tools.learn import quoted
from otelhooks.policy_tools.recorded import RecordedCall, read_span
from otelhooks.policy_tools.replay import find_gap, replay
from otelhooks.policy_tools.subject import Subject
from otelhooks.store.reader import Store, Wanted
from otelhooks.store.schema import StoreError
from otelhooks.store.verdicts import read_verdict
from otelhooks.ui.site import Site

__all__ = ["explained", "policy", "replayed"]

_PARTS = 1
_MOST_CALLS = 10_000


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    id: str
    decision: str
    tool: str
    when: str
    place: str
    decided: int


def policy(site: Site, request: Request) -> Response:
    """Show the rules, where each is written, how often it decided, and what is wrong."""
    if not site.settings.policies:
        return site.page("policy.html", "policy")
    subject = Subject.open(site.settings.policies)
    table = subject.table()
    decided = _decided(site.store)
    rules = [
        _Rule(
            name=f"{rule.policy_id}/{rule.id}",
            id=rule.id,
            decision="veto" if rule.policy.veto else rule.decision,
            tool=rule.policy.tool,
            when="; ".join(filter(None, (selectors(rule), as_written(rule)))),
            place=_short(rule.policy.place or rule.policy_id),
            decided=decided[rule.policy_id, rule.id] + decided["", rule.id],
        )
        for rule in table.rules
    ]
    findings = [
        *check.lint_rules(table, check.KnownTools()),
        *hook_lint.lint_hooks(subject),
    ]
    return site.page(
        "policy.html",
        "policy",
        size=subject.size,
        rules=rules,
        mode=table.mode,
        default=table.default,
        findings=[_short(str(finding)) for finding in findings],
        candidate=site.settings.candidate,
    )


def _decided(store: Store) -> Counter[tuple[str, str]]:
    """Return how often each rule decided, by policy and rule; nothing if there is no store yet."""
    decided = Counter[tuple[str, str]]()
    try:
        for one in store.decided(_PARTS).counts:
            decided[one.policy, one.rule] += one.count
    except StoreError as error:
        if error.cause != "missing":
            raise
    return decided


def _short(text: str) -> str:
    """Return a text with files below this folder as relative paths."""
    return text.replace(f"{Path.cwd()}{os.sep}", "")


# -- one call -----------------------------------------------------------------------------------


def explained(site: Site, request: Request) -> Response:
    """Show how the policies decide about a recorded call, and why."""
    trace, span = request.path_params["trace"], request.path_params["span"]
    if not site.settings.policies:
        return site.page("policy.html", "policy")
    found = site.store.trace(trace)
    wanted = [one for one in found.spans if one.span_id == span] if found is not None else []
    recorded = next(filter(None, map(read_span, wanted)), None)
    if recorded is None:
        return site.missing(request)
    views = [("These policies", site.settings.policies)]
    if site.settings.candidate:
        views.append(("The candidate", site.settings.candidate))
    found = [(title, _explained(names, recorded)) for title, names in views]
    return site.page(
        "call.html",
        "policy",
        call=sanitize(recorded.name),
        trace=recorded.trace_id,
        decided=read_verdict(wanted[0].attributes),
        is_whole=recorded.is_whole,
        capture=words.CAPTURE if recorded.args is None else "",
        verdicts=[(title, _shown("\n".join(words.of_explanation(one)))) for title, one in found],
        draft=_draft(site.settings.policies, recorded, found[0][1]),
    )


def _explained(names: tuple[str, ...], recorded: RecordedCall) -> Explanation:
    """Explain a decision, without verdict and outcomes if the call's span lacks something."""
    policy = Subject.open(names).dry_run(guarded=True)
    found = explain(policy, recorded.call(), Known(recorded.labels))
    gap = find_gap(recorded, found.judgement)
    if gap is None:
        return found
    blank = {"outcome": ""} if recorded.is_whole else {"outcome": "", "value": ""}
    tried = tuple(dataclasses.replace(one, **blank) for one in found.tried)
    return dataclasses.replace(found, unknown=gap, tried=tried)


def _shown(text: str) -> str:
    return sanitize(_short(text))


@dataclass(frozen=True, slots=True)
class _Draft:
    text: str
    decision: str
    rule: str


def _draft(names: tuple[str, ...], recorded: RecordedCall, explained: Explanation) -> _Draft | None:
    """Return the change that lets this call through from now on, and its case.

    None if the call is allowed or cannot be judged, its arguments are not known, or the condition
    is not an expression.
    """
    judged = explained.judgement
    if judged.decision == ALLOW or explained.unknown or not recorded.is_whole:
        return None
    subject = Subject.open(names)
    key = (judged.verdict.policy_id, judged.verdict.rule_id)
    rule = next((r for r in subject.table().rules if (r.policy_id, r.id) == key), None)
    if rule is None:
        return None
    when: Any = rule.policy.when
    text = "" if when is None else getattr(when, "text", None)
    if not isinstance(text, str):
        return None
    only = f"args != {recorded.args!r}"
    # In this order: a condition that fails for this call is not evaluated.
    changed = f"{only} and ({text.strip()})" if text else only
    call = recorded.call()
    about = {
        "tool": call.name,
        "server": call.server,
        "claimed": call.claimed_server,
        "canonical": call.canonical,
        "kind": call.kind,
        "agent": call.agent,
        "branch": "" if call.branch == call.agent else call.branch,
        "labels": recorded.labels,
        "args": recorded.args,
    }
    case = {"call": {name: it for name, it in about.items() if it}, "verdict": ALLOW}
    lines = [
        f"# {rule.policy.place or rule.policy_id}: rule {rule.policy_id}/{rule.id}",
        *([f"-   when: {quoted(text.strip())}"] if text else []),
        f"+   when: {quoted(changed)}",
        "# and its case, in the folder `cases` beside it",
        f"+ - {quoted(case)}",
    ]
    new = dataclasses.replace(rule.policy, when=allow(rule.policy.tool, when=changed).when)
    after = subject.with_rule(rule.policy, new).dry_run(guarded=True)
    left = after.judge(recorded.call(), recorded.labels)
    rule_left = f"{left.verdict.policy_id}/{left.verdict.rule_id}"
    return _Draft(_shown("\n".join(lines)), left.decision, sanitize(rule_left))


# -- recorded calls -----------------------------------------------------------------------------


def replayed(site: Site, request: Request) -> Response:
    """Show which of the newest calls would be decided differently under the candidate."""
    names = site.settings.candidate or site.settings.policies
    if not names:
        return site.page("policy.html", "policy")
    result = replay(_newest(site.store), Subject.open(names).dry_run())
    return site.page("replay.html", "policy", names=names, result=result)


def _newest(store: Store) -> Iterator[RecordedCall]:
    """Yield the newest calls, oldest first."""
    spans = store.newest(_MOST_CALLS, Wanted(), lambda span: read_span(span) is not None)
    return filter(None, map(read_span, reversed(spans)))
