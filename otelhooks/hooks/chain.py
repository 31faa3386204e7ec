"""The deciders and gates of one point, one after another, up to the first deny.

What all deciding points share: the meaning of a hook's answer, a hook's failure and a ruling.
Decision code: a hook that raises, or returns an invalid answer, denies.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

from otelhooks import types
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.registry import Registration, is_observed
from otelhooks.hooks.verdict import (
    ALLOW,
    ASK,
    DENY,
    MODIFY,
    Observed,
    RuleLike,
    Ruling,
    Verdict,
    text_of,
)
from otelhooks.hooks.watch import Watch
from otelhooks.records.changes import refuse_unread
from otelhooks.records.failures import WrongAnswer, brief

__all__ = ["CHECK_FAILED", "Chain", "observed", "rule_verdict"]

CHECK_FAILED = "The call was refused because a policy check failed."

Steps: TypeAlias = Generator[Run, Any, Ruling]


def rule_verdict(point: str, ruling: Ruling) -> Verdict:
    """Return a ruling as a verdict."""
    rule = ruling.rule
    verdict = Verdict(point, ruling.decision, evaluations=ruling.evaluations)
    if rule is not None:
        verdict.policy_id = rule.policy_id
        verdict.policy_version = rule.policy_version
        verdict.rule_id = rule.id
        verdict.severity = rule.severity
    if ruling.decision == DENY:
        verdict.allowed = False
        verdict.reason, verdict.message = ruling.reason or ruling.message, ruling.message
        verdict.error = ruling.error
        if ruling.error is not None:  # the message may contain the error's text
            verdict.reason = f"rule '{verdict.rule_id}' failed: {brief(ruling.error)}"
        verdict.result = types.HookResult(
            allow=False,
            message=ruling.message,
            rule_id=verdict.rule_id or None,
            severity=_severity(verdict.severity),
        )
    if ruling.observed:
        verdict.observed = tuple(observed(decision, rule) for decision, rule in ruling.observed)
    return verdict


def _severity(value: str | None) -> Any:
    return value


def observed(decision: str, rule: RuleLike) -> Observed:
    """Return what is recorded of a rule that would deny or ask but is not enforced."""
    verb = "Asked" if decision == ASK else "Denied"
    reason = rule.reason or f"{verb} by policy '{rule.label}'."
    return Observed(decision, rule.policy_id, rule.id, reason, rule.severity, rule.policy_version)


class Chain:
    """The deciders of one point, one after another, up to the first deny."""

    def __init__(self, point: str, watch: Watch, context: Any, monitor: bool) -> None:
        self.point: str = point
        self.watch: Watch = watch
        self.context: Any = context
        self.monitor: bool = monitor
        self.verdict: Verdict = Verdict(point)
        self.last: types.HookResult | None = None
        self.observed: dict[int, list[Observed]] = {}  # by registration: a repeat counts once
        self.evaluations: int = 0

    def deny(self, verdict: Verdict) -> Verdict:
        """End with a deny, which includes what monitor mode saw before."""
        return self._finish(verdict)

    def allow(self, result: types.HookResult | None = None) -> Verdict:
        """End with the answers so far."""
        self.verdict.result = result or self.last or types.HookResult.allowed()
        return self._finish(self.verdict)

    def _finish(self, verdict: Verdict) -> Verdict:
        before = (seen for said in self.observed.values() for seen in said)
        verdict.observed = (*before, *verdict.observed)
        verdict.evaluations += self.evaluations
        return verdict

    def judge_hook(self, registration: Registration, value: Any) -> Verdict | None:
        """Return a hook's answer as a deny, or None if the chain continues."""
        self.evaluations += 1
        self.observed.pop(id(registration), None)
        if type(value) is Raised:
            verdict = self.crash(registration, value.error)
        elif not isinstance(value, types.HookResult):
            error = _no_answer(registration, value)
            self.watch.hook_failed(registration, error)
            verdict = self.crash(registration, error)
        elif value.allow:
            try:
                refuse_unread(value, self.point)
            except WrongAnswer as error:
                self.watch.hook_failed(registration, error)
                verdict = self.crash(registration, error)
            else:
                self.last = value
                return None
        else:
            verdict = Verdict(
                self.point,
                DENY,
                allowed=False,
                result=value,
                policy_id=registration.policy_id,
                policy_version=registration.policy_version,
                rule_id=value.rule_id or registration.rule_id,
                reason=value.message,
                message=value.message or f"Denied by hook '{registration.rule_id}'.",
                severity=value.severity,
            )
        if not is_observed(registration, self.monitor):
            return verdict
        self.observed[id(registration)] = [
            Observed(
                DENY,
                verdict.policy_id,
                verdict.rule_id,
                verdict.reason,
                verdict.severity,
                verdict.policy_version,
            )
        ]
        return None

    def crash(self, registration: Registration, error: BaseException) -> Verdict:
        """Return the deny of a hook that failed; the details stay out of message and record."""
        failed = f"hook '{registration.source}' failed: "
        return Verdict(
            self.point,
            DENY,
            allowed=False,
            result=types.HookResult(allow=False, message=f"{failed}{_text_of(error)}"),
            policy_id=registration.policy_id,
            policy_version=registration.policy_version,
            rule_id=registration.rule_id,
            reason=f"{failed}{brief(error)}",
            message=getattr(error, "model_message", CHECK_FAILED),
            error=error,
        )

    def modified(self, registration: Registration, result: types.HookResult) -> None:
        """Remember the last rewriter; deciding rules name it."""
        self.verdict.decision = MODIFY
        self.verdict.policy_id = registration.policy_id
        self.verdict.policy_version = registration.policy_version
        self.verdict.rule_id = result.rule_id or registration.rule_id
        self.verdict.severity = result.severity
        self.verdict.reason = result.message

    def pass_gates(
        self, gates: Sequence[Registration], subject: Any
    ) -> Generator[Run, Any, Verdict | None]:
        """Put an otherwise allowed call to the gates: all are asked first, then all count it."""
        denied = None
        if len(gates) > 1:
            denied = yield from self.ask_gates(gates, subject, take=False)
        if denied is None:
            denied = yield from self.ask_gates(gates, subject, take=True)
        return denied

    def ask_gates(
        self, gates: Sequence[Registration], subject: Any, *, take: bool
    ) -> Generator[Run, Any, Verdict | None]:
        """Return the deny of the first gate that refuses, or None."""
        for registration in gates:
            gate: Any = registration.gate
            is_enforced = not is_observed(registration, self.monitor)
            try:
                asked: Steps = gate.admit(self.point, subject, self.context, take=take)
                ruling = yield from asked
                if ruling.decision == ASK and is_enforced:
                    ruling = yield from self.ask_for(gate, ruling, take=take)
            except BaseException as error:
                if escapes(error):
                    raise
                self.watch.hook_failed(registration, error)
                ruling = Ruling(DENY, gate, CHECK_FAILED, error)
            seen = [observed(decision, rule) for decision, rule in ruling.observed]
            self.observed[id(registration)] = seen
            if ruling.decision == ALLOW:
                continue
            if is_enforced:
                verdict = rule_verdict(self.point, ruling)
                verdict.observed = ()
                return verdict
            seen.append(
                Observed(
                    ruling.decision,
                    gate.policy_id,
                    gate.id,
                    ruling.message,
                    gate.severity,
                    gate.policy_version,
                )
            )
        return None

    def ask_for(self, gate: Gate, ruling: Ruling, *, take: bool) -> Steps:
        """Return what an ask of a gate comes to; only a tool call can be asked about."""
        yield from ()
        return Ruling(DENY, gate, ruling.message)


def _no_answer(registration: Registration, value: Any) -> WrongAnswer:
    it = "None" if value is None else type(value).__name__
    where = f" ({registration.place})" if registration.place else ""
    return WrongAnswer(
        f"it returned {it}{where}: return types.HookResult() to allow, or "
        "types.HookResult(allow=False, message=...) to deny"
    )


def _text_of(error: BaseException) -> str:
    return brief(error) if type(error) is WrongAnswer else text_of(error)
