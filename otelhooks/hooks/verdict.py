"""What rules say about a call, and the verdict at a point."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

from otelhooks import types
from otelhooks.errors import ApprovalTimeout, Denied
from otelhooks.hooks.calls import Call, same_json
from otelhooks.hooks.drive import Run

__all__ = [
    "ALLOW",
    "ASK",
    "DENY",
    "MODIFY",
    "RECORD_REQUIRED",
    "UNRECORDED_POLICY",
    "Approval",
    "Judge",
    "Observed",
    "RuleLike",
    "Ruling",
    "Verdict",
    "refusal",
    "text_of",
    "told",
]

ALLOW = "allow"
DENY = "deny"
ASK = "ask"
MODIFY = "modify"

UNRECORDED_POLICY = "audit"
"""Policy id of a deny because a required audit record could not be stored."""
RECORD_REQUIRED = "record_required"
"""Rule id of a deny because a required audit record could not be stored."""

_STRICTNESS = {ALLOW: 0, MODIFY: 1, ASK: 2, DENY: 3}


class RuleLike(Protocol):
    """What a verdict reports of the rule behind it."""

    @property
    def id(self) -> str:
        """Given, or made of decision and label."""
        ...

    @property
    def identity(self) -> str:
        """The id if it is given, or made of a hash of the rule: approvals are for this."""
        ...

    @property
    def policy_id(self) -> str:
        """Source of the rule: a file's stem, or ``code``."""
        ...

    @property
    def policy_version(self) -> str:
        """Content hash of that source."""
        ...

    @property
    def label(self) -> str:
        """Name or tool, as used in messages."""
        ...

    @property
    def reason(self) -> str:
        """Replaces the standard message, if not empty."""
        ...

    @property
    def severity(self) -> str | None:
        """``low``, ``medium``, ``high`` or ``critical``."""
        ...

    @property
    def handler(self) -> Callable[..., Any] | None:
        """The handler that is asked, as given to the rule."""
        ...

    @property
    def ask(self) -> Callable[[types.ToolCall, str], Any] | None:
        """The same as a function of call and reason, whatever the handler itself takes."""
        ...

    @property
    def detail(self) -> Callable[[types.ToolCall], str] | None:
        """Says what it has found in a call; it may quote arguments, so that nothing records it."""
        ...


def told(rule: RuleLike, reason: str, call: types.ToolCall) -> str:
    """Return the reason of a rule with what it has found in a call."""
    return reason if rule.detail is None else f"{reason}. Here: {rule.detail(call)}"


class Ruling:
    """What a set of rules says about one call.

    Attributes:
        decision: ``allow``, ``deny`` or ``ask``.
        rule: The rule that decided; None if none matched.
        message: What the model reads on a deny.
        reason: What is recorded of it, if the message quotes arguments.
        error: What went wrong, if the deny is of a rule that could not be evaluated.
        observed: Rules in monitor mode that would have denied or asked, in order.
        evaluations: How many predicates ran.
        verdict: The same as a plain allow, created once if an engine keeps its rulings.
    """

    __slots__ = (
        "decision",
        "error",
        "evaluations",
        "message",
        "observed",
        "reason",
        "rule",
        "verdict",
    )

    def __init__(
        self,
        decision: str,
        rule: RuleLike | None = None,
        message: str = "",
        error: BaseException | None = None,
        observed: tuple[tuple[str, RuleLike], ...] = (),
        evaluations: int = 0,
    ) -> None:
        self.decision: str = decision
        self.rule: RuleLike | None = rule
        self.message: str = message
        self.reason: str = ""
        self.error: BaseException | None = error
        self.observed: tuple[tuple[str, RuleLike], ...] = observed
        self.evaluations: int = evaluations
        self.verdict: Verdict | None = None


class Judge(Protocol):
    """A set of rules, as seen by the point that asks it."""

    needs_context: bool
    """Whether rules read the operation's context."""

    def evaluate(self, call: Call, context: Any = None) -> Generator[Run, Any, Ruling]:
        """Decide about a call.

        Args:
            call: The call with its final arguments.
            context: The operation's context.
        """
        ...

    def constant(self, call: Call) -> Ruling | None:
        """Return what `evaluate` would, if only the tool matters for it; else None."""
        ...


class Approval:
    """The answer to a question, for exactly one call with exactly those arguments.

    Attributes:
        status: ``approved``, ``rejected``, ``expired``, ``withdrawn`` or ``error``.
        edit: Arguments that the approver changed, to merge into the call.
        approver_type: ``human``, ``service`` or ``rule``; empty if no approver answered.
        approver_id: Pseudonym; of a service without one, the channel's name.
        wait_s: Seconds from question to answer.
        error: Why the question could not be put or answered.
        rejected_by: The rule whose handler refused, if several were asked.
        decision_id: Joins question, answer and call; set by telemetry.
        rules: The rules that people were asked for; set by the asking code, like `args`.
        args: The arguments that the answer is for, an edit merged into them.
    """

    __slots__ = (
        "approver_id",
        "approver_type",
        "args",
        "decision_id",
        "edit",
        "error",
        "rejected_by",
        "rules",
        "status",
        "wait_s",
    )

    def __init__(
        self,
        status: str,
        *,
        edit: dict[str, Any] | None = None,
        approver_type: str = "service",
        approver_id: str = "",
        wait_s: float = 0.0,
        error: BaseException | None = None,
        rejected_by: RuleLike | None = None,
    ) -> None:
        self.status: str = status
        self.edit: dict[str, Any] | None = edit
        self.approver_type: str = approver_type
        self.approver_id: str = approver_id
        self.wait_s: float = wait_s
        self.error: BaseException | None = error
        self.rejected_by: RuleLike | None = rejected_by
        self.decision_id: str = ""
        self.rules: tuple[RuleLike, ...] = ()
        self.args: dict[str, Any] = {}

    @property
    def approved(self) -> bool:
        """Whether the call may continue."""
        return self.status == "approved"

    @property
    def is_answered(self) -> bool:
        """Whether an approver has answered: not after a timeout, or without an approver."""
        return self.approver_type != "" and self.status in {"approved", "rejected"}

    def join(self, before: Approval | None) -> None:
        """Include an earlier approval, if it is for the same arguments."""
        if before is not None and same_json(before.args, self.args):
            self.rules = (*before.rules, *self.rules)

    def covers(self, rule: RuleLike, args: dict[str, Any]) -> bool:
        """Return whether people approved a call for this rule, with these arguments.

        Rules that differ only in their handler have the same identity.
        """
        return (
            self.approved
            and any(_key(rule) == _key(asked) for asked in self.rules)
            and same_json(args, self.args)
        )


def _key(rule: RuleLike) -> tuple[str, str, int]:
    return rule.policy_id, rule.identity, id(rule.handler)


class Observed:
    """A deny or ask in monitor mode: recorded, not enforced."""

    __slots__ = ("decision", "policy_id", "policy_version", "reason", "rule_id", "severity")

    def __init__(
        self,
        decision: str,
        policy_id: str,
        rule_id: str,
        reason: str,
        severity: str | None = None,
        policy_version: str = "",
    ) -> None:
        self.decision: str = decision
        self.policy_id: str = policy_id
        self.rule_id: str = rule_id
        self.reason: str = reason
        self.severity: str | None = severity
        self.policy_version: str = policy_version


class Verdict:
    """The outcome at one point: what was decided, by which rule, and what the model reads.

    Attributes:
        point: Point name.
        decision: ``allow``, ``deny``, ``ask`` or ``modify``: the strictest of the hooks' decisions.
        allowed: Whether the operation continues.
        result: The `HookResult` that a dispatch returns.
        policy_id: ``hook`` for a plain hook, else the source of the rule. Empty if nothing decided.
        rule_id: Rule, or the hook's rule id.
        reason: For span, event and audit; names hook and cause of a crash.
        message: What the model reads.
        error: The crash behind a deny.
        observed: Verdicts of monitor mode.
        approval: How a question ended.
        answer: A ready answer; `answered` says whether there is one.
        withheld: Whether a result was withheld after the operation had run.
        evaluations: How many rules with a predicate, and hooks, ran.
        decision_id: Joins span, event and audit record; set on first use by telemetry.
        rewriters: Hooks that rewrote the arguments of a tool call.
    """

    __slots__ = (
        "allowed",
        "answer",
        "answered",
        "approval",
        "decision",
        "decision_id",
        "error",
        "evaluations",
        "message",
        "observed",
        "point",
        "policy_id",
        "policy_version",
        "reason",
        "result",
        "rewriters",
        "rule_id",
        "severity",
        "withheld",
    )

    def __init__(
        self,
        point: str,
        decision: str = ALLOW,
        *,
        allowed: bool = True,
        result: types.HookResult | None = None,
        policy_id: str = "",
        policy_version: str = "",
        rule_id: str = "",
        reason: str = "",
        message: str = "",
        severity: str | None = None,
        error: BaseException | None = None,
        evaluations: int = 0,
    ) -> None:
        self.point: str = point
        self.decision: str = decision
        self.allowed: bool = allowed
        self.result: types.HookResult | None = result
        self.policy_id: str = policy_id
        self.policy_version: str = policy_version
        self.rule_id: str = rule_id
        self.reason: str = reason
        self.message: str = message or reason
        self.severity: str | None = severity
        self.error: BaseException | None = error
        self.evaluations: int = evaluations
        self.observed: Sequence[Observed] = ()
        self.approval: Approval | None = None
        self.answer: Any = None
        self.answered: bool = False
        self.withheld: bool = False
        self.decision_id: str = ""
        self.rewriters: frozenset[Any] = frozenset()

    def is_stricter_than(self, other: Verdict) -> bool:
        """Return whether this verdict outranks another: deny > ask > modify > allow.

        A verdict that monitor mode only observed ranks below the same one enforced.
        """
        return self._rank() > other._rank()

    def _rank(self) -> tuple[int, bool]:
        ranks = [(_STRICTNESS[seen.decision], False) for seen in self.observed]
        return max([*ranks, (_STRICTNESS[self.decision], True)])

    def observes_more_than(self, before: Verdict | None) -> bool:
        """Return whether monitor mode saw something that an earlier verdict did not have."""
        known = set[tuple[str, str, str]]() if before is None else before._observed_by()
        return not self._observed_by() <= known

    def _observed_by(self) -> set[tuple[str, str, str]]:
        return {(seen.decision, seen.policy_id, seen.rule_id) for seen in self.observed}

    def goes_on(self, before: Verdict) -> bool:
        """Return whether it allows what a verdict before a pause allowed, for the same reason."""
        return (
            (before.allowed and self.allowed)
            and (before.decision, before.policy_id, before.policy_version, before.rule_id)
            == (self.decision, self.policy_id, self.policy_version, self.rule_id)
            and before.approval is self.approval
            and not self.observes_more_than(before)
        )

    def begin_with(self, before: Verdict) -> None:
        """Take over what hooks have changed in the same call before: it has their changes."""
        self.rewriters = before.rewriters
        if before.decision == MODIFY:
            self.decision, self.severity, self.reason = MODIFY, before.severity, before.reason
            self.policy_id, self.policy_version = before.policy_id, before.policy_version
            self.rule_id = before.rule_id

    def is_plain(self) -> bool:
        """Return whether it is only an allow, with nothing more to report."""
        return self.decision == ALLOW and not self.observed and not self.answered


def text_of(error: BaseException, form: Callable[[Any], str] = repr) -> str:
    """Return an exception as text, or its class if its own code cannot produce a text.

    Args:
        error: Its ``__repr__`` or ``__str__`` may raise anything.
        form: `repr` or `str`.
    """
    try:
        return form(error)
    except Exception:  # reporting a failure must not replace it by another
        return type(error).__qualname__


def refusal(message: str, verdict: Verdict | None) -> Denied:
    """Return the exception for a refusal, for callers that want one.

    Args:
        message: What the caller reads.
        verdict: What decided; None if nothing did, and the call could not be recorded.
    """
    if verdict is None:
        return Denied(message)
    approval = verdict.approval
    expired = approval is not None and approval.status == "expired"
    return (ApprovalTimeout if expired else Denied)(
        message,
        rule_id=verdict.rule_id,
        policy_id=verdict.policy_id,
        decision_id=verdict.decision_id,
    )
