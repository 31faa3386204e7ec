"""One generator a point that decides: how deciders and rules compose is written only here.

A generator yields what is to be run (`otelhooks.hooks.drive.Run`) and gets back what came out; it
knows neither threads, event loops nor OpenTelemetry. Source of every rule: design section 5.
Decision code: a hook that raises, or returns what it must not, denies. What transforms and inspects
is in `otelhooks.hooks.results`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, TypeGuard

from otelhooks import types
from otelhooks.hooks.calls import Call, copy_json, same_json
from otelhooks.hooks.context import HookContext, OperationContext
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.registry import PointHooks, Registration, is_observed
from otelhooks.hooks.results import HOOK, run_hook
from otelhooks.hooks.verdict import (
    ALLOW,
    ASK,
    DENY,
    MODIFY,
    Approval,
    Judge,
    Observed,
    RuleLike,
    Ruling,
    Verdict,
    text_of,
)
from otelhooks.hooks.watch import Watch

__all__ = ["pre_agent", "pre_model_call", "pre_tool_call", "pre_turn", "rule_verdict", "settled"]

CHECK_FAILED = "The call was refused because a policy check failed."
UNSTABLE = "arguments not stable"
UNREADABLE = "arguments nested too deep"


Steps: TypeAlias = Generator[Run, Any, Ruling]


def rule_verdict(point: str, ruling: Ruling) -> Verdict:
    """Return the verdict that a ruling stands for."""
    rule = ruling.rule
    verdict = Verdict(point, ruling.decision, evaluations=ruling.evaluations)
    if rule is not None:
        verdict.policy_id = rule.policy_id
        verdict.policy_version = rule.policy_version
        verdict.rule_id = rule.id
        verdict.severity = rule.severity
    if ruling.decision == DENY:
        verdict.allowed = False
        verdict.reason = verdict.told = ruling.message
        verdict.error = ruling.error
        verdict.result = types.HookResult(
            allow=False,
            message=ruling.message,
            rule_id=verdict.rule_id or None,
            severity=_severity(verdict.severity),
        )
    if ruling.observed:
        verdict.observed = tuple(_observed(decision, rule) for decision, rule in ruling.observed)
    ruling.verdict = verdict if verdict.is_plain() else None
    return verdict


def _severity(value: str | None) -> Any:
    return value


def _observed(decision: str, rule: RuleLike) -> Observed:
    reason = rule.reason or f"Denied by policy '{rule.label}'."
    return Observed(decision, rule.policy_id, rule.id, reason, rule.severity, rule.policy_version)


class _Chain:
    """The deciders of one point, one after another, up to the first deny."""

    def __init__(self, point: str, watch: Watch, context: Any, monitor: bool) -> None:
        self.point = point
        self.watch = watch
        self.context = context
        self.monitor = monitor
        self.verdict = Verdict(point)
        self.last: types.HookResult | None = None
        self.observed: dict[int, list[Observed]] = {}  # by who said it: asked again, it counts once
        self.evaluations = 0

    def deny(self, verdict: Verdict) -> Verdict:
        """End with a deny; what monitor mode saw before goes with it."""
        return self._finish(verdict)

    def allow(self, result: types.HookResult | None = None) -> Verdict:
        """End with what was said so far."""
        self.verdict.result = result or self.last or types.HookResult()
        return self._finish(self.verdict)

    def _finish(self, verdict: Verdict) -> Verdict:
        before = (seen for said in self.observed.values() for seen in said)
        verdict.observed = (*before, *verdict.observed)
        verdict.evaluations += self.evaluations
        return verdict

    def judge_hook(self, registration: Registration, value: Any) -> Verdict | None:
        """Return the deny that a hook's answer stands for, or None if the chain goes on."""
        self.evaluations += 1
        self.observed.pop(id(registration), None)
        if type(value) is Raised:
            verdict = self.crash(registration, value.error)
        elif not isinstance(value, types.HookResult):
            error = TypeError(f"returned {type(value).__name__}, not a HookResult")
            self.watch.hook_failed(registration, error)
            verdict = self.crash(registration, error)
        elif value.allow:
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
                told=value.message or f"Denied by hook '{registration.rule_id}'.",
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
        """Return the deny of a hook that failed; the model is not told how."""
        reason = f"hook '{registration.source}' failed: {text_of(error)}"
        return Verdict(
            self.point,
            DENY,
            allowed=False,
            result=types.HookResult(allow=False, message=reason),
            policy_id=registration.policy_id,
            policy_version=registration.policy_version,
            rule_id=registration.rule_id,
            reason=reason,
            told=getattr(error, "told", CHECK_FAILED),
            error=error,
        )

    def modified(self, registration: Registration, result: types.HookResult) -> None:
        """Remember who rewrote last; deciding rules name it."""
        self.verdict.decision = MODIFY
        self.verdict.policy_id = registration.policy_id
        self.verdict.policy_version = registration.policy_version
        self.verdict.rule_id = result.rule_id or registration.rule_id
        self.verdict.severity = result.severity
        self.verdict.reason = result.message

    def pass_gates(
        self, gates: Sequence[Registration], subject: Any
    ) -> Generator[Run, Any, Verdict | None]:
        """Put to the gates what nothing else holds up: all are asked first, then all take."""
        denied = None
        if len(gates) > 1:
            denied = yield from self.ask_gates(gates, subject, take=False)
        if denied is None:
            denied = yield from self.ask_gates(gates, subject, take=True)
        return denied

    def ask_gates(
        self, gates: Sequence[Registration], subject: Any, *, take: bool
    ) -> Generator[Run, Any, Verdict | None]:
        """Return the deny of the first gate that does not let pass, or None."""
        for registration in gates:
            gate: Any = registration.gate
            try:
                asked: Steps = gate.admit(self.point, subject, self.context, take=take)
                ruling = yield from asked
            except BaseException as error:
                if escapes(error):
                    raise
                self.watch.hook_failed(registration, error)
                ruling = Ruling(DENY, gate, CHECK_FAILED, error)
            seen = [_observed(decision, rule) for decision, rule in ruling.observed]
            self.observed[id(registration)] = seen
            if ruling.decision != DENY:
                continue
            if not is_observed(registration, self.monitor):
                verdict = rule_verdict(self.point, ruling)
                verdict.observed = ()
                return verdict
            seen.append(
                Observed(
                    DENY,
                    gate.policy_id,
                    gate.id,
                    ruling.message,
                    gate.severity,
                    gate.policy_version,
                )
            )
        return None


def settled(call: Call, judges: Sequence[Judge]) -> Verdict | None:
    """Return at once what `pre_tool_call` comes to for a call that rules just allow.

    Args:
        call: No hook decides about it; ends with a copy of its arguments.
        judges: Sets of rules.

    Returns:
        The verdict, shared by all such calls; None for a call that is not as simple as that.
    """
    if len(judges) != 1:
        return None
    ruling = judges[0].settled(call)
    if ruling is None or ruling.verdict is None:
        return None
    try:
        call.args = copy_json(call.args)
    except RecursionError:
        return None
    return ruling.verdict


def pre_tool_call(
    hooks: PointHooks,
    context: Any,
    call: Call,
    watch: Watch,
    judges: Sequence[Judge] = (),
    monitor: bool = False,
) -> Generator[Run, Any, Verdict]:
    """Decide about a tool call: deciders in order, rules last on the final arguments, then people.

    Args:
        hooks: Hooks of this point.
        context: The operation's context; its ``is_recheck`` is set while a decider is asked again.
        call: Ends with the arguments that are to run, in a copy that no hook holds.
        watch: Hears what happens.
        judges: Sets of rules, each of which must allow: those of ``policies=``, then those of the
            scopes that the call is made in.
        monitor: Denies and asks are recorded, not enforced.
    """
    try:
        call.args = copy_json(call.args)
    except RecursionError as error:  # what cannot be copied cannot be handed on as approved
        call.args = {}
        return _unreadable(error)
    first: Ruling | None = None
    if not hooks.deciders and judges:
        first = yield from judges[0].evaluate(call, context)
        is_plain = first.decision == ALLOW and not first.observed
        if is_plain and len(judges) == 1 and not hooks.gates:
            return first.verdict or rule_verdict("pre_tool_call", first)
    chain = _ToolChain(call, watch, context, monitor)
    denied = yield from chain.first_pass(hooks.deciders)
    if denied is None and call.version:
        denied = yield from chain.recheck()
    if denied is not None:
        return chain.deny(denied)
    if hooks.deciders:
        call.args = copy_json(call.args)
    for judge in judges:
        if first is not None and judge is judges[0]:
            denied = chain.take(judge, first)
        else:
            denied = yield from chain.rules(judge)
        if denied is not None:
            return chain.deny(denied)
    if chain.asks:
        denied = yield from chain.ask_gates(hooks.gates, call, take=False)
        if denied is None:
            denied = yield from chain.ask(judges)
        if denied is not None:
            return chain.deny(denied)
    if hooks.gates:
        if isinstance(context, OperationContext):
            context.note_labels()
        denied = yield from chain.pass_gates(hooks.gates, call)
        if denied is not None:
            denied.approval = chain.verdict.approval
            return chain.deny(denied)
    return chain.allow(chain.result())


def _unreadable(error: BaseException) -> Verdict:
    """Return the deny of a call whose arguments are nested too deep, or in themselves."""
    return Verdict(
        "pre_tool_call",
        DENY,
        allowed=False,
        result=types.HookResult(allow=False, message=UNREADABLE),
        policy_id=HOOK,
        rule_id=UNREADABLE,
        reason=UNREADABLE,
        told=CHECK_FAILED,
        error=error,
    )


class _ToolChain(_Chain):
    """The chain at pre_tool_call, where arguments change hands."""

    def __init__(self, call: Call, watch: Watch, context: Any, monitor: bool) -> None:
        super().__init__("pre_tool_call", watch, context, monitor)
        self.call = call
        self.allowed: list[tuple[Registration, int]] = []  # with the version each one saw
        self.asks: dict[int, RuleLike] = {}  # by the set of rules that asks
        self.rewrites = False

    def first_pass(self, deciders: Sequence[Registration]) -> Generator[Run, Any, Verdict | None]:
        """Ask every decider once."""
        for registration in deciders:
            denied = yield from self._decide(registration)
            if denied is not None:
                return denied
        return None

    def recheck(self) -> Generator[Run, Any, Verdict | None]:
        """Ask again whoever allowed arguments that were rewritten later."""
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
                return Verdict(
                    self.point,
                    DENY,
                    allowed=False,
                    result=types.HookResult(allow=False, message=UNSTABLE),
                    policy_id=registration.policy_id,
                    policy_version=registration.policy_version,
                    rule_id=registration.rule_id,
                    reason=UNSTABLE,
                )
        self.last = last
        return None

    def _decide(self, registration: Registration) -> Generator[Run, Any, Verdict | None]:
        call = self.call
        if registration.judge is not None:
            version = call.version
            denied = yield from self.rules(registration.judge)
            self.last = types.HookResult()
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
        if denied is None and isinstance(value, types.HookResult) and value.allow:
            try:
                self._rewrite(registration, value)
            except Exception as error:  # arguments that are no dict, or nested too deep
                self.watch.hook_failed(registration, error)
                denied = self.judge_hook(registration, Raised(error))
        if call.version == version:
            self.allowed.append((registration, version))
        return denied

    def _rewrite(self, registration: Registration, result: types.HookResult) -> None:
        if result.modified_args is None and result.replace_args is None:
            return
        args = self.call.args if result.replace_args is None else copy_json(result.replace_args)
        self.rewrites = True
        if self.call.rewrite({**args, **copy_json(result.modified_args or {})}):
            self.modified(registration, result)

    def rules(self, judge: Judge, asked: bool = False) -> Generator[Run, Any, Verdict | None]:
        """Put the call to a set of rules."""
        ruling = yield from judge.evaluate(self.call, self.context, asked=asked)
        return self.take(judge, ruling, asked)

    def take(self, judge: Judge, ruling: Ruling, asked: bool = False) -> Verdict | None:
        """Return the deny that a ruling stands for, or None if the chain goes on."""
        self.evaluations += ruling.evaluations
        seen = [_observed(decision, rule) for decision, rule in ruling.observed]
        self.observed[id(judge)] = seen
        self.asks.pop(id(judge), None)
        rule = ruling.rule
        if ruling.decision != ALLOW and self.monitor and not getattr(rule, "enforced", False):
            if rule is not None:
                seen.append(_observed(ruling.decision, rule))
            return None
        if ruling.decision == DENY:
            verdict = rule_verdict(self.point, ruling)
            verdict.observed, verdict.evaluations = (), 0
            return verdict
        if rule is not None and ruling.decision == ASK:
            self.asks[id(judge)] = rule
        if rule is not None and self.verdict.decision == ALLOW and not asked:
            self.verdict.policy_id = rule.policy_id
            self.verdict.policy_version = rule.policy_version
            self.verdict.rule_id = rule.id
            self.verdict.severity = rule.severity
        return None

    def ask(self, policies: Sequence[Judge]) -> Generator[Run, Any, Verdict | None]:
        """Ask people once, for all rules together; then see whether anything denies by now."""
        rules, call, verdict = list(self.asks.values()), self.call, self.verdict
        deciding = rules[0]
        verdict.decision = ASK
        verdict.policy_id, verdict.rule_id = deciding.policy_id, deciding.id
        verdict.policy_version, verdict.severity = deciding.policy_version, deciding.severity
        verdict.reason = deciding.reason or f"Asked by policy '{deciding.label}'."
        approved = copy_json(call.args)
        approval = yield from self.watch.approve(rules, call, self.context)
        verdict.approval = approval
        verdict.decision_id = approval.decision_id
        call.args = approved  # whoever was asked had the other copy in hands
        if not approval.approved:
            verdict.allowed = False
            verdict.told = verdict.reason = self._refusal(approval, deciding)
            verdict.error = approval.error
            verdict.result = types.HookResult(
                allow=False, message=verdict.told, rule_id=verdict.rule_id
            )
            return verdict
        denied: Verdict | None = None
        if approval.edit is not None:
            self.rewrites = True
            if call.rewrite({**call.args, **copy_json(approval.edit)}):
                denied = yield from self.recheck()
        judges = [r.judge for r, _ in self.allowed if r.judge is not None]
        for judge in (*judges, *policies):
            if denied is None:
                denied = yield from self.rules(judge, asked=True)
        if denied is not None:
            denied.approval = approval
        return denied

    def _refusal(self, approval: Approval, deciding: RuleLike) -> str:
        rule = approval.rejected_by or deciding
        if approval.status == "error":
            cause = "None" if approval.error is None else text_of(approval.error)
            return f"Policy evaluation failed for policy '{rule.label}': {cause}"
        if rule.reason:
            return rule.reason
        if approval.status == "expired":
            return f"Nobody approved tool '{self.call.name}' in time (policy '{rule.label}')."
        return f"User denied tool '{self.call.name}' (policy '{rule.label}')."

    def result(self) -> types.HookResult:
        """Return the last decider's answer, with all arguments if anybody rewrote any."""
        result = self.last or types.HookResult()
        if self.rewrites:
            result = result.model_copy(
                update={
                    "modified_args": dict(self.call.args),
                    "replace_args": None,
                    "action": types.HookAction.MODIFY,
                }
            )
        return result


def pre_turn(
    hooks: PointHooks, context: Any, prompt: Any, watch: Watch, monitor: bool = False
) -> Generator[Run, Any, tuple[Verdict, Any]]:
    """Decide about a user's message; return the verdict and the message that goes on."""
    chain = _Chain("pre_turn", watch, context, monitor)
    current = prompt
    for registration in hooks.deciders:
        value = yield from run_hook(registration, context, current, watch)
        denied = chain.judge_hook(registration, value)
        if denied is not None:
            return chain.deny(denied), current
        if _allows(value) and value.modified_prompt is not None:
            if not same_json(value.modified_prompt, current):
                chain.modified(registration, value)
            current = value.modified_prompt
    denied = yield from chain.pass_gates(hooks.gates, current)
    if denied is not None:
        return chain.deny(denied), current
    return chain.allow(_with(chain.last, modified_prompt=current, changed=current is not prompt)), (
        current
    )


def pre_agent(
    hooks: PointHooks, context: Any, call: Any, watch: Watch, monitor: bool = False
) -> Generator[Run, Any, Verdict]:
    """Decide whether an agent starts; the last ready answer is used."""
    chain = _Chain("pre_agent", watch, context, monitor)
    for registration in hooks.deciders:
        value = yield from run_hook(registration, context, call, watch)
        denied = chain.judge_hook(registration, value)
        if denied is not None:
            return chain.deny(denied)
        _answer(chain, registration, value)
    return chain.allow(_with(chain.last, response=chain.verdict.answer))


def pre_model_call(
    hooks: PointHooks, context: Any, call: Any, watch: Watch, monitor: bool = False
) -> Generator[Run, Any, tuple[Verdict, Any]]:
    """Decide about a model call; return the verdict and the call that goes on."""
    chain = _Chain("pre_model_call", watch, context, monitor)
    current: Any = call
    changes: dict[str, Any] = {}
    for registration in hooks.deciders:
        before = copy_json(_contents(current))
        value = yield from run_hook(registration, context, current, watch)
        if not same_json(_contents(current), before):
            error = ValueError("changed the call in place; return modified_messages instead")
            watch.hook_failed(registration, error)
            current, value = current.model_copy(update=before), Raised(error)
        denied = chain.judge_hook(registration, value)
        if denied is not None:
            return chain.deny(denied), current
        if not _allows(value):
            continue
        update: dict[str, Any] = {}
        if value.modified_messages is not None:
            update["messages"] = changes["modified_messages"] = list(value.modified_messages)
        if value.modified_tools is not None:
            update["tools"] = changes["modified_tools"] = list(value.modified_tools)
        if update:
            current = current.model_copy(update=update)
            chain.modified(registration, value)
        _answer(chain, registration, value)
    if not chain.verdict.answered:  # else no model is called
        denied = yield from chain.pass_gates(hooks.gates, current)
        if denied is not None:
            return chain.deny(denied), current
    result = chain.last or types.HookResult()
    if changes or chain.verdict.answered:
        changes = {**changes, "action": types.HookAction.MODIFY}
        if chain.verdict.answered:
            changes["response"] = chain.verdict.answer
        result = result.model_copy(update=changes)
    return chain.allow(result), current


def _allows(value: Any) -> TypeGuard[types.HookResult]:
    return isinstance(value, types.HookResult) and value.allow


def _contents(call: Any) -> dict[str, Any]:
    """Return what a hook could change in a model call in place."""
    if not isinstance(call, types.ModelCall):
        return {}
    return {"messages": call.messages, "tools": call.tools}


def _answer(chain: _Chain, registration: Registration, value: Any) -> None:
    if _allows(value) and value.response is not None:
        chain.modified(registration, value)
        chain.verdict.answer = value.response
        chain.verdict.answered = True


def _with(
    result: types.HookResult | None, *, changed: bool | None = None, **fields: Any
) -> types.HookResult:
    """Return the last answer with what the chain accumulated, if it accumulated anything."""
    result = result or types.HookResult()
    if changed is None:
        changed = any(value is not None for value in fields.values())
    if not changed:
        return result
    return result.model_copy(update={**fields, "action": types.HookAction.MODIFY})
