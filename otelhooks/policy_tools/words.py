"""The output of ``otelhooks policy``, line by line; nothing here decides or prints."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from otelhooks.hooks.verdict import ASK
from otelhooks.policy.shells.rules import SHELL_ONLY_POLICY_NAME
from otelhooks.policy_tools.explain import Explanation, Tried, masked
from otelhooks.policy_tools.trials import Result, shown
from otelhooks.telemetry.masking import Redactor

if TYPE_CHECKING:
    from otelhooks.hooks.registry import Registration
    from otelhooks.policy_tools.diff import Note
    from otelhooks.policy_tools.recorded import Source
    from otelhooks.policy_tools.replay import Change, Replay

_LISTED = 10
"""Most calls that are listed for each tool."""

CAPTURE = (
    "capture arguments with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY, or"
    ' instrument(capture_content="SPAN_ONLY")'
)
_IN_CASES = frozenset({"results not recorded", "user and prompt not recorded"})
_CASES = "write cases with `results`, `prompt` or `user`, and run `otelhooks policy test`"


def columns(table: Sequence[Sequence[str]], indent: str = "  ") -> Iterator[str]:
    """Yield rows with aligned cells."""
    if table:
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            yield (indent + "  ".join(cells)).rstrip()


# -- test ---------------------------------------------------------------------------------------


def of_result(result: Result) -> Iterator[str]:
    """Yield a case as one line, and its differences below it."""
    case = result.case
    yield f"{'RED  ' if result.is_red else 'green'}  {case.path}:{case.line}  {case.name}"
    if not result.is_red:
        return
    rows = [
        (
            difference.what,
            f"expected {shown(difference.expected)}",
            f"seen {shown(difference.seen)}",
        )
        for difference in result.differences
    ]
    yield from columns(rows, "       ")
    if result.seen.get("failed"):
        yield f"       message  {shown(Redactor().mask_text(result.seen['message']))}"
    for hint in result.doubts:
        yield f"       {hint}"
    if case.call is not None:
        yield f"       call  {case.call.name} {json.dumps(case.call.args, default=str)}"
    else:
        yield f"       event  {case.event} {json.dumps(case.payload, default=str)}"


# -- explain --------------------------------------------------------------------------------------


def of_explanation(explanation: Explanation) -> Iterator[str]:
    """Yield the verdict, the rule that decided, and every rule that was tried."""
    judged = explanation.judgement
    call = judged.call
    name = f"{call.server}/{call.name}" if call.server else call.name
    if explanation.unknown:
        yield f"cannot be judged  {name}: {explanation.unknown}"
    else:
        yield f"{judged.decision}  {name}"
    rows = [] if explanation.unknown else _verdict(explanation)
    rows.append(("args", json.dumps(judged.given, default=str)))
    if call.args != judged.given and not explanation.unknown:
        rows.append(("become", json.dumps(call.args, default=str)))
    if call.branch:
        rows.append(("agent", call.branch))
    labels, prompts, user, results = explanation.known
    if labels:
        rows.append(("labels", ", ".join(labels)))
    rows += [(f"from {label}", json.dumps(each, default=str)) for label, each in results]
    rows += [("said", text) for text in prompts]
    if user is not None:
        rows.append(("user", ", ".join(f"{name} {one}" for name, one in user if one)))
    yield from columns(rows)
    for rule in explanation.misspelt:
        name, known = rule.selector.text, f"{rule.policy_id}/{rule.id}"
        yield f"hint: rule `{known}` is about a tool `{name}`: did you mean it?"
    yield from explanation.doubts
    if judged.hooks:
        yield ""
        yield "hooks that ran, in order"
        yield from columns([(str(h.priority), h.rule_id, _when(h)) for h in judged.hooks])
    if explanation.tried:
        yield ""
        yield "rules for this tool, in the order in which they are tried"
        groups = itertools.groupby(explanation.tried, _alike)
        yield from columns([_tried(list(group)) for _, group in groups])


def _verdict(explanation: Explanation) -> list[tuple[str, str]]:
    judged = explanation.judgement
    verdict = judged.verdict
    deciding = next((t for t in explanation.tried if t.outcome == "decides"), None)
    rows: list[tuple[str, str]] = []
    if verdict.rule_id:
        rows.append(("rule", f"{verdict.policy_id}/{verdict.rule_id}"))
    else:
        rows.append(("rule", "none: nothing objects"))
    if deciding is not None:
        rows.append(("level", deciding.level))
        if deciding.rule.policy.place:
            rows.append(("place", deciding.rule.policy.place))
    if verdict.message:
        name = "if refused" if judged.decision == ASK else "message"
        rows.append((name, Redactor().mask_text(verdict.message)))
    elif verdict.reason:
        rows.append(("why", verdict.reason))
    if verdict.error is not None:
        rows.append(("error", masked(verdict.error)))
    rows += [("observed", f"{s.decision} by {s.policy_id}/{s.rule_id}") for s in verdict.observed]
    return rows


def _alike(tried: Tried) -> tuple[Any, ...]:
    """Return what the rules of one `shell_only` share that make one row; others share nothing."""
    rule = tried.rule
    one = rule.order if rule.label != SHELL_ONLY_POLICY_NAME else rule.selector.text
    return rule.policy_id, one, rule.policy.place, tried.outcome


def _tried(alike: Sequence[Tried]) -> tuple[str, str, str, str]:
    first, last = alike[0], alike[-1]
    if first is last:
        name, conditions = first.rule.id, "; ".join(_conditions(first))
    else:
        name, conditions = f"{first.rule.label} ({len(alike)} rules)", ""
    level = first.level
    if level != last.level:
        level = f"{level.partition(',')[0]} to {last.level}"
    return level, f"{first.rule.policy_id}/{name}", first.outcome, conditions


def _conditions(tried: Tried) -> Iterator[str]:
    if tried.selectors:
        yield tried.selectors
    if tried.when:
        yield f"when {tried.when} -> {tried.value or 'not tested'}"


def _when(hook: Registration) -> str:
    script = getattr(hook.hook, "script", None)
    when = None if script is None else script.said.when
    return "" if when is None else f"if {when.value.strip()}"


def explanation_as_data(explanation: Explanation) -> dict[str, Any]:
    """Return the same for JSON."""
    judged = explanation.judgement
    verdict, call = judged.verdict, judged.call
    return {
        "decision": judged.decision,
        "policy": verdict.policy_id or None,
        "rule": verdict.rule_id or None,
        "message": Redactor().mask_text(verdict.message) or None,
        "error": masked(verdict.error) if verdict.error is not None else None,
        "tool": call.name,
        "server": call.server,
        "branch": call.branch,
        "labels": list(explanation.known.labels),
        "prompt": list(explanation.known.prompts),
        "results": dict(explanation.known.results),
        "user": None if explanation.known.user is None else explanation.known.user.model_dump(),
        "args": judged.given,
        "args_after": call.args,
        "hooks": [hook.rule_id for hook in judged.hooks],
        "observed": [
            {"decision": s.decision, "policy": s.policy_id, "rule": s.rule_id}
            for s in verdict.observed
        ],
        "misspelt": [
            {"policy": rule.policy_id, "rule": rule.id, "tool": rule.selector.text}
            for rule in explanation.misspelt
        ],
        "tried": [
            {
                "policy": tried.rule.policy_id,
                "rule": tried.rule.id,
                "level": tried.level,
                "outcome": tried.outcome,
                "selectors": tried.selectors or None,
                "when": tried.when or None,
                "value": tried.value or None,
            }
            for tried in explanation.tried
        ],
    }


# -- replay ---------------------------------------------------------------------------------------


def of_replay(result: Replay, source: Source, *, show_all: bool) -> Iterator[str]:
    """Yield what would change by rule, by tool and by call, and what cannot be judged."""
    many = len(result.changes)
    yield f"{many} of {result.judged} judged calls would be decided differently"
    if many:
        yield ""
        yield "by rule"
        yield from columns(_counted(result.by_rule()))
        yield ""
        yield "by tool"
        yield from columns(_counted(result.by_tool()))
        yield ""
        yield "calls"
        yield from _calls(result.changes, source, show_all)
    if result.gaps:
        yield ""
        yield f"{sum(result.gaps.values())} of {result.calls} calls cannot be judged"
        yield from columns([(str(count), gap) for gap, count in result.gaps.most_common()])
        tools = [f"{tool} ({count})" for tool, count in result.gap_tools.most_common(_LISTED)]
        yield f"  tools: {', '.join(tools)}"
        if "arguments not captured" in result.gaps:
            yield f"hint: {CAPTURE}"
        if not _IN_CASES.isdisjoint(result.gaps):
            yield f"hint: {_CASES}"
    if result.left_out:
        yield ""
        yield (
            f"{result.left_out.total()} of {result.calls} calls are left out: limits, stops, pins"
            ", the guard of policy files or the audit trail decided about them"
        )
        yield from columns([(str(count), name) for name, count in result.left_out.most_common()])
    if result.unnamed:
        yield ""
        yield (
            f"{result.unnamed} calls are of MCP servers whose name is not on the span: denies and"
            " asks of every server apply to them, allows of none"
        )


def _counted(counts: Counter[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [(str(count), name, words) for (name, words), count in counts.most_common()]


def _calls(changes: Sequence[Change], source: Source, show_all: bool) -> Iterator[str]:
    listed: Counter[str] = Counter()
    for change in changes:
        recorded = change.recorded
        listed[recorded.name] += 1
        if not show_all and listed[recorded.name] > _LISTED:
            continue
        args = "" if recorded.args is None else f" {json.dumps(recorded.args, default=str)}"
        yield f"  {change.words}  {recorded.name}{args[:200]}"
        yield f"    {change.rule}; span {recorded.span_id}; {source.link(recorded.trace_id)}"
    for name, count in listed.items():
        if not show_all and count > _LISTED:
            yield f"  ... and {count - _LISTED} more calls of {name}: see --all"


def replay_as_data(result: Replay, source: Source) -> dict[str, Any]:
    """Return the same for JSON, with every call."""
    return {
        "calls": result.calls,
        "judged": result.judged,
        "changes": [
            {
                "tool": change.recorded.name,
                "args": change.recorded.args,
                "before": change.before,
                "after": change.after,
                "rule": change.rule,
                "trace_id": change.recorded.trace_id,
                "span_id": change.recorded.span_id,
                "link": source.link(change.recorded.trace_id),
            }
            for change in result.changes
        ],
        "not_judged": dict(result.gaps),
        "left_out": dict(result.left_out),
        "unnamed_servers": result.unnamed,
    }


# -- diff -----------------------------------------------------------------------------------------


_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def of_diff(notes: Sequence[Note]) -> Iterator[str]:
    """Yield each rule and hook that differs, and how."""
    for note in notes:
        entry = note.entry
        yield f"{_SIGNS[note.change]} {entry.kind} {entry.name}"
        fields = note.fields or {key: ("", value) for key, value in entry.fields.items()}
        for key, (before, after) in fields.items():
            if note.change == "changed":
                yield from _block(f"    {key}: ", "- ", before)
                yield from _block(f"    {key}: ", "+ ", after)
            elif after:
                yield from _block(f"    {key}: ", "", after)


def _block(head: str, sign: str, text: str) -> Iterator[str]:
    """Yield a text, aligning further lines with the first."""
    lines = text.splitlines() or ["(none)"]
    yield f"{head}{sign}{lines[0]}"
    yield from (f"{' ' * len(head)}{sign}{line}" for line in lines[1:])


def diff_as_data(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """Return the same for JSON."""
    return [
        {
            "change": note.change,
            "kind": note.entry.kind,
            "name": note.entry.name,
            "fields": {key: list(pair) for key, pair in note.fields.items()}
            if note.fields
            else note.entry.fields,
        }
        for note in notes
    ]
