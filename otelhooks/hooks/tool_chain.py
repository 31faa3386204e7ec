"""The chain of a tool call: arguments change hands, rules judge the final ones, people are asked.

Decision code: arguments that a hook changes in place, or that keep changing, deny. The order of
these steps is in `otelhooks.hooks.points`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from otelhooks import types
from otelhooks.errors import ConfigError, OtelHooksError
from otelhooks.hooks.calls import Call, copy_json, same_json
from otelhooks.hooks.chain import Chain, observed, rule_verdict
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Raised, Run
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.registry import Registration
from otelhooks.hooks.results import run_hook
from otelhooks.hooks.verdict import (
    ALLOW,
    ASK,
    DENY,
    Approval,
    Judge,
    RuleLike,
    Ruling,
    Verdict,
    text_of,
)
from otelhooks.hooks.watch import Watch
from otelhooks.records.failures import error_type

__all__ = ["MAX_ROUNDS", "NEVER_SETTLED", "ToolChain"]

UNSTABLE = "arguments not stable"
NEVER_SETTLED: str = f"{UNSTABLE}: approvers changed them again and again"
MAX_ROUNDS: int = 10
"""Most times that people are asked about one call; each edit may make another rule ask."""

_EARLIER = -1
"""Version of a call before it came to a seat where hooks or rules run again."""


class ToolChain(Chain):
    """The chain at pre_tool_call, where arguments change hands."""

    evaluations: int  # repeated for type checkers: `take` adds to it

    def __init__(
        self,
        call: Call,
        watch: Watch,
        context: Any,
        monitor: bool,
        approval: Approval | None = None,
        earlier: Verdict | None = None,
    ) -> None:
        super().__init__("pre_tool_call", watch, context, monitor)
        if earlier is not None and earlier.rewriters:
            self.verdict.begin_with(earlier)
        self.call: Call = call
        self.approval: Approval | None = approval  # the last one; it includes those before it
        self.allowed: list[tuple[Registration, int]] = []  # with the version that each one saw
        self.asks: dict[int, RuleLike] = {}  # by the set of rules, or the gate, that asks
        self.rewrites: bool = False

    def first_pass(self, deciders: Sequence[Registration]) -> Generator[Run, Any, Verdict | None]:
        """Ask every decider once."""
        for registration in deciders:
            denied = yield from self._decide(registration)
            if denied is not None:
                return denied
        return None

    def second_pass(
        self, deciders: Sequence[Registration], news: bool
    ) -> Generator[Run, Any, Verdict | None]:
        """Run deciders again that have allowed the call: rules in any case, hooks on news."""
        version = _EARLIER if news else self.call.version
        self.allowed = [(r, version if r.judge is None else _EARLIER) for r in deciders]
        return (yield from self.recheck())

    def recheck(self) -> Generator[Run, Any, Verdict | None]:
        """Run deciders again that allowed arguments that were rewritten later.

        One that has itself rewritten them may deny now; a rewrite of it no longer counts.
        """
        version, last = self.call.version, self.last
        stale = [registration for registration, seen in self.allowed if seen != version]
        self.allowed = [entry for entry in self.allowed if entry[1] == version]
        for registration in stale:
            if isinstance(self.context, HookContext):
                self.context.is_recheck = True  # type: ignore[attr-defined]
            try:
                denied = yield from self._decide(registration)
            finally:
                if isinstance(self.context, HookContext):
                    self.context.is_recheck = False  # type: ignore[attr-defined]
            if denied is not None:
                return denied
            if self.call.version != version:
                return self._unstable(registration, registration.rule_id, UNSTABLE)
        self.last = last
        return None

    def _decide(self, registration: Registration) -> Generator[Run, Any, Verdict | None]:
        call = self.call
        if registration.judge is not None:
            version = call.version
            denied = yield from self.rules(registration.judge)
            self.last = types.HookResult.allowed()
            self.allowed.append((registration, version))
            return denied
        before, version = copy_json(call.args), call.version
        value = yield from run_hook(registration, self.context, call.record(), self.watch)
        if not same_json(call.args, before):
            error = ValueError("changed the arguments in place; return modified_args instead")
            self.watch.hook_failed(registration, error)
            call.args = before
            value = Raised(error)
        denied = self.judge_hook(registration, value)
        rewrites = registration not in self.verdict.rewriters  # otherwise it is in, or replaced
        if denied is None and rewrites and isinstance(value, types.HookResult) and value.allow:
            try:
                self._rewrite(registration, value)
            except Exception as error:  # arguments that are not a dict, or nested too deep
                self.watch.hook_failed(registration, error)
                denied = self.judge_hook(registration, Raised(error))
        if call.version != version:
            self.verdict.rewriters |= {registration}
        self.allowed.append((registration, call.version))  # it is not asked about its own output
        return denied

    def _rewrite(self, registration: Registration, result: types.HookResult) -> None:
        if result.modified_args is None and result.replace_args is None:
            return
        args = self.call.args if result.replace_args is None else copy_json(result.replace_args)
        self.rewrites = True
        if self.call.rewrite({**args, **copy_json(result.modified_args or {})}):
            self.modified(registration, result)

    def _unstable(self, by: Registration | Verdict, rule_id: str, reason: str) -> Verdict:
        return Verdict(
            self.point,
            DENY,
            allowed=False,
            result=types.HookResult(allow=False, message=reason),
            policy_id=by.policy_id,
            policy_version=by.policy_version,
            rule_id=rule_id,
            reason=reason,
        )

    def rules(self, judge: Judge) -> Generator[Run, Any, Verdict | None]:
        """Put the call to a set of rules."""
        ruling = yield from judge.evaluate(self.call, self.context)
        return self.take(judge, ruling)

    def take(self, judge: Judge, ruling: Ruling) -> Verdict | None:
        """Return a ruling as a deny, or None if the chain continues."""
        self.evaluations += ruling.evaluations
        seen = [observed(decision, rule) for decision, rule in ruling.observed]
        self.observed[id(judge)] = seen
        self.asks.pop(id(judge), None)
        rule = ruling.rule
        if ruling.decision != ALLOW and self.monitor and not getattr(rule, "enforced", False):
            if rule is not None:
                seen.append(observed(ruling.decision, rule))
            return None
        if ruling.decision == DENY:
            verdict = rule_verdict(self.point, ruling)
            verdict.observed, verdict.evaluations = (), 0
            return verdict
        if rule is not None and ruling.decision == ASK:
            approval = self.approval
            if approval is None or not approval.covers(rule, self.call.args):
                self.asks[id(judge)] = rule
        if rule is not None and self.verdict.decision == ALLOW:
            self.verdict.policy_id = rule.policy_id
            self.verdict.policy_version = rule.policy_version
            self.verdict.rule_id = rule.id
            self.verdict.severity = rule.severity
        return None

    def ask(self, policies: Sequence[Judge]) -> Generator[Run, Any, Verdict | None]:
        """Ask people, for all rules together; then check whether anything denies or asks now.

        An answer counts for the rules that were shown to people, and for the arguments that it is
        about: after an edit the call is judged like a new one.
        """
        for _ in range(MAX_ROUNDS):
            denied = yield from self._ask_once()
            if denied is not None:
                return denied
            self.asks.clear()
            judges = [r.judge for r, _ in self.allowed if r.judge is not None]
            for judge in (*judges, *policies):
                denied = yield from self.rules(judge)
                if denied is not None:
                    denied.approval = self.approval
                    return denied
            if not self.asks:
                return None
        return self._endless()

    def _endless(self) -> Verdict:
        asked = self.verdict  # about the last question
        denied = self._unstable(asked, asked.rule_id, NEVER_SETTLED)
        denied.approval = self.approval
        return denied

    def pass_or_ask(
        self, gates: Sequence[Registration], policies: Sequence[Judge]
    ) -> Generator[Run, Any, Verdict | None]:
        """Put an otherwise allowed call to the gates, and ask people for those that ask."""
        for _ in range(MAX_ROUNDS):
            denied = None
            if len(gates) > 1:
                denied = yield from self.ask_gates(gates, self.call, take=False)
            if denied is None and not self.asks:
                denied = yield from self.ask_gates(gates, self.call, take=True)
                gates = [r for r in gates if id(r.gate) in self.asks]  # the others have counted it
            if denied is not None or not self.asks:
                return denied
            denied = yield from self.ask(policies)
            if denied is not None:
                return denied
        return self._endless()

    def ask_for(self, gate: Gate, ruling: Ruling, *, take: bool) -> Generator[Run, Any, Ruling]:
        """Have people asked, unless they have approved this call for the gate: then it counts."""
        rule = ruling.rule
        assert rule is not None
        if self.approval is None or not self.approval.covers(rule, self.call.args):
            self.asks = {id(gate): rule, **self.asks}  # first, so that people see its reason
        elif take:
            return (yield from gate.count(self.call, self.context))
        return Ruling(ALLOW)

    def _ask_once(self) -> Generator[Run, Any, Verdict | None]:
        """Put the question to people, and their edit to the deciders; return a deny, if any."""
        rules, call, verdict = list(self.asks.values()), self.call, self.verdict
        deciding = rules[0]
        if verdict.approval is not None:
            self.watch.answered(verdict, call)
        verdict.decision = ASK
        verdict.policy_id, verdict.rule_id = deciding.policy_id, deciding.id
        verdict.policy_version, verdict.severity = deciding.policy_version, deciding.severity
        verdict.reason = deciding.reason or f"Asked by policy '{deciding.label}'."
        shown = copy_json(call.args)
        approval = yield from self.watch.approve(rules, call, self.context, verdict.decision_id)
        verdict.approval = approval
        verdict.decision_id = approval.decision_id
        call.args = shown  # the handlers had the other copy in hand
        if not approval.approved:
            verdict.allowed = False
            verdict.message = verdict.reason = self._refusal(approval, deciding)
            verdict.error = approval.error
            if approval.error is not None and approval.status == "error":
                verdict.reason = f"rule '{deciding.id}' failed: {error_type(approval.error)}"
            verdict.result = types.HookResult(
                allow=False, message=verdict.message, rule_id=verdict.rule_id
            )
            return verdict
        approval.join(self.approval)
        self.approval = approval
        if approval.edit is not None:
            self.rewrites = True
            if call.rewrite({**call.args, **approval.edit}):
                denied = yield from self.recheck()
                if denied is not None:
                    denied.approval = approval
                return denied
        return None

    def _refusal(self, approval: Approval, deciding: RuleLike) -> str:
        rule = approval.rejected_by or deciding
        if approval.status == "error" and isinstance(approval.error, ConfigError):
            return f"Policy evaluation failed for policy '{rule.label}'."  # it is about the set-up
        if approval.status == "error" and isinstance(approval.error, OtelHooksError):
            return f"No one could be asked about tool '{self.call.name}' (policy '{rule.label}')."
        if approval.status == "error":
            cause = "None" if approval.error is None else text_of(approval.error)
            return f"Policy evaluation failed for policy '{rule.label}': {cause}"
        about = f": {rule.reason}" if rule.reason else f" (policy '{rule.label}')."
        if approval.status == "expired":
            return f"Tool '{self.call.name}' was not approved in time{about}"
        if approval.status == "withdrawn":
            return f"The question about tool '{self.call.name}' was withdrawn{about}"
        return rule.reason or f"User denied tool '{self.call.name}' (policy '{rule.label}')."

    def result(self) -> types.HookResult:
        """Return the last decider's answer, with all arguments if any decider rewrote them."""
        result = self.last or types.HookResult.allowed()
        if self.rewrites:
            result = result.model_copy(
                update={
                    "modified_args": dict(self.call.args),
                    "replace_args": None,
                    "action": types.HookAction.MODIFY,
                }
            )
        return result
