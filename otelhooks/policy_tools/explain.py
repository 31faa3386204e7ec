"""Why a policy decides as it does about one call: every rule that was tried, in order."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.said import Message, Speaker
from otelhooks.hooks.verdict import text_of
from otelhooks.policy.files.document import parse
from otelhooks.policy.index import Match
from otelhooks.policy.mcp.definitions import may_be
from otelhooks.policy.rules import Rule
from otelhooks.policy.spelling import Spelling
from otelhooks.policy.values.origins import came_from
from otelhooks.policy.values.spoken import all_said
from otelhooks.policy_tools.as_written import as_written, selectors
from otelhooks.policy_tools.cases import Known, read_call
from otelhooks.policy_tools.dry_run import DryRun, Judgement
from otelhooks.telemetry.masking import Redactor

NOTHING = Known()

__all__ = ["Explanation", "Tried", "explain", "masked", "read_call_text"]

_LEVELS = tuple(
    f"{where} {word}"
    for where in ("exact tool", "pattern", "every call")
    for word in ("deny", "ask", "allow")
)


@dataclass(frozen=True)
class Tried:
    """A rule that can match the tool, and its outcome.

    Attributes:
        rule: The rule.
        level: Level at which it is tried for this tool, in words.
        outcome: ``decides``, ``observed only``, ``does not apply: ...`` or ``not reached``.
        when: Its condition as text; empty for none.
        value: The condition's value as text; empty if it was not tested.
        selectors: What else must hold, such as ``when_labels: untrusted``; empty for nothing.
    """

    rule: Rule
    level: str
    outcome: str
    when: str
    value: str
    selectors: str


@dataclass(frozen=True)
class Explanation:
    """A policy's decision about a call, and its reasons.

    Attributes:
        judgement: The verdict, and what ran.
        tried: Rules that can match the tool, in the order in which they are tried.
        known: What is known besides the call when it is made.
        misspelt: Rules for a tool whose name is almost that of this one, which no rule names.
        doubts: Hints about labels that no rule looks at.
        unknown: What a recorded call lacks for a verdict; empty for nothing.
    """

    judgement: Judgement
    tried: tuple[Tried, ...]
    known: Known
    misspelt: tuple[Rule, ...] = ()
    doubts: tuple[str, ...] = ()
    unknown: str = ""


def explain(policy: DryRun, call: Call, known: Known = NOTHING) -> Explanation:
    """Judge a call, and explain the verdict.

    Args:
        policy: The policy.
        call: Ends with the arguments that would run.
        known: What is known besides the call when it is made.
    """
    judged = policy.judge(
        call, known.labels, prompts=known.prompts, user=known.user, results=known.results
    )
    tried = [_tried(match, judged, known) for match in policy.rules.candidates(judged.call)]
    near = () if tried else Spelling(policy.rules).meet([judged.call])
    doubts = policy.doubts(known.all_labels)
    return Explanation(
        judged, tuple(tried), known, tuple(each.rule for each in near), tuple(doubts)
    )


def _tried(match: Match, judged: Judgement, known: Known) -> Tried:
    rule, verdict = match.rule, judged.verdict
    tests = [tested for tested in judged.tested if tested.rule is rule]
    when, value, outcome = as_written(rule), "", "not reached"
    if tests:
        last = tests[-1]
        value = str(last.value) if last.error is None else f"raises {masked(last.error)}"
        outcome = "does not apply: its condition does not hold"
    if (rule.policy_id, rule.id) == (verdict.policy_id, verdict.rule_id):
        outcome = "decides"
    elif any((s.policy_id, s.rule_id) == (rule.policy_id, rule.id) for s in verdict.observed):
        outcome = "recorded only: monitor mode"
    elif rule.fits_branch is not None and not rule.fits_branch(judged.call.branch):
        outcome = f"does not apply: it is for agents `{rule.policy.agent}`"
    elif rule.labels is not None and rule.labels.isdisjoint(_labels(judged)):
        outcome = f"does not apply: it is for calls under {', '.join(sorted(rule.labels))}"
    elif rule.annotations is not None and not may_be(judged.call, rule.annotations):
        outcome = "does not apply: it is for tools of MCP servers"
    elif rule.user is not None and not rule.fits_user(known.user):
        outcome = f"does not apply: it is for users with {_user_words(rule)}"
    elif rule.said is not None and all_said(judged.call.args, rule.said, _messages(known)):
        outcome = f"does not apply: the user said every value of {', '.join(rule.said)}"
    elif rule.origins is not None and not came_from(judged.call.args, rule.origins, judged.context):
        outcome = f"does not apply: {_no_origin(rule, judged.call)}"
    return Tried(rule, _level_name(match), outcome, when, value, selectors(rule))


def _labels(judged: Judgement) -> frozenset[str]:
    assert judged.context is not None  # it is not, once something was decided
    return judged.context.labels


def _user_words(rule: Rule) -> str:
    return ", ".join(f"{key} {' or '.join(values)}" for key, values in rule.user or ())


def _no_origin(rule: Rule, call: Call) -> str:
    missing = [f"`{name}`" for name, _ in rule.origins or () if name not in call.args]
    if len(missing) == len(rule.origins or ()):
        return f"the call has no {' or '.join(missing)}"
    return "; ".join(
        f"no value of `{name}` came from results labelled {' or '.join(labels)}"
        for name, labels in rule.origins or ()
    )


def _messages(known: Known) -> list[Message]:
    return [Message(text, Speaker()) for text in known.prompts]


def masked(error: BaseException) -> str:
    """Return an exception as text with secrets masked: a predicate may quote its arguments."""
    return Redactor().mask_text(text_of(error))


def _level_name(match: Match) -> str:
    """Return a rule's level in words: ``1, exact tool deny``; a veto comes before all."""
    name = "veto" if match.level < 0 else f"{match.level + 1}, {_LEVELS[match.level]}"
    return f"{name} (by a name that may be the tool's)" if match.is_greedy else name


# -- calls as text ------------------------------------------------------------------------------


def read_call_text(words: Sequence[str], **further: Any) -> tuple[Call, Known]:
    """Read a call from a command line: ``TOOL KEY=VALUE...``, or one JSON object.

    Args:
        words: The first may hold the others, quoted as in a shell. A value that is JSON is read as
            JSON, any other is text. An object has the keys that calls have in cases; ``name`` and
            ``arguments`` are accepted for ``tool`` and ``args``.
        **further: Keys from other options; None for those that were not given.

    Returns:
        The call, and what is known besides when it is made.

    Raises:
        ConfigError: It is neither.
    """
    first, *rest = words
    if first.lstrip().startswith("{"):
        if rest:
            raise ConfigError("a call in JSON is one word", hint=_HINT)
        found = _parsed(first)
        for name, other in (("tool", "name"), ("args", "arguments")):
            if other in found:
                found.setdefault(name, found.pop(other))
    else:
        # All of the call may be one word, as the shell's quotes round it made it.
        tool, *others = _split(first)
        found = {"tool": tool, "args": dict(map(_argument, [*others, *rest]))}
    found |= {key: value for key, value in further.items() if value is not None}
    return read_call(parse(json.dumps(found, ensure_ascii=False), "CALL"))


_HINT = (
    """write `run_command CommandLine="rm -rf x"`, or"""
    """ '{"tool": "run_command", "args": {"CommandLine": "rm -rf x"}}'"""
)


def _split(text: str) -> list[str]:
    try:
        words = shlex.split(text) or [""]
    except ValueError as error:
        raise ConfigError(f"the call cannot be read: {error}", hint=_HINT) from None
    if not words[0] or not _NO_NAME.isdisjoint(words[0]):
        raise ConfigError(f"`{words[0]}` is not the name of a tool", hint=_HINT)
    return words


_NO_NAME = frozenset("=()")
"""Signs of a call that is written otherwise, or of an argument that goes first."""


def _parsed(text: str) -> dict[str, Any]:
    try:
        return dict(cast("dict[str, Any]", json.loads(text)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the call is not JSON: {error}", hint=_HINT) from error


def _argument(word: str) -> tuple[str, Any]:
    key, sign, text = word.partition("=")
    if not sign or not key:
        raise ConfigError(f"`{word}` is not KEY=VALUE", hint=_HINT)
    try:
        return key, json.loads(text)
    except (ValueError, RecursionError):
        return key, text
