"""One generator for each deciding point: the order of deciders, rules, people and gates.

A generator yields what must run (`otelhooks.hooks.drive.Run`) and gets the outcome back; it knows
neither threads, event loops nor OpenTelemetry. How answers combine is in `otelhooks.hooks.chain`
and `otelhooks.hooks.tool_chain`, what transforms and inspects in `otelhooks.hooks.results`, and
nowhere else. Source of every rule: design section 5. Decision code: what cannot be decided is
denied.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeGuard

from otelhooks import types
from otelhooks.hooks.calls import Call, copy_json, same_json
from otelhooks.hooks.chain import CHECK_FAILED, Chain, rule_verdict
from otelhooks.hooks.context import OperationContext
from otelhooks.hooks.drive import Raised, Run
from otelhooks.hooks.registry import PointHooks, Registration
from otelhooks.hooks.results import HOOK, run_hook
from otelhooks.hooks.tool_chain import ToolChain
from otelhooks.hooks.verdict import ALLOW, DENY, Approval, Judge, Ruling, Verdict
from otelhooks.hooks.watch import Watch

__all__ = ["constant", "pre_agent", "pre_model_call", "pre_tool_call", "pre_turn"]

UNREADABLE = "arguments nested too deep"


def constant(call: Call, judges: Sequence[Judge]) -> Verdict | None:
    """Return at once the verdict of `pre_tool_call` for a call that rules simply allow.

    Args:
        call: No hook decides about it; ends with a copy of its arguments.
        judges: Sets of rules.

    Returns:
        The verdict, shared by all such calls; None for a call that is less simple.
    """
    if len(judges) != 1:
        return None
    ruling = judges[0].constant(call)
    if ruling is None or ruling.decision != ALLOW or ruling.observed:
        return None
    try:
        call.args = copy_json(call.args)
    except RecursionError:
        return None
    if ruling.verdict is None:
        ruling.verdict = rule_verdict("pre_tool_call", ruling)
    return ruling.verdict


def pre_tool_call(
    hooks: PointHooks,
    context: Any,
    call: Call,
    watch: Watch,
    judges: Sequence[Judge] = (),
    monitor: bool = False,
    approval: Approval | None = None,
    *,
    news: bool | None = None,
    earlier: Verdict | None = None,
) -> Generator[Run, Any, Verdict]:
    """Decide about a tool call: deciders in order, rules on the final arguments, then people.

    Args:
        hooks: Hooks of this point.
        context: The operation's context; its ``is_recheck`` is set while a decider runs again.
        call: Ends with the arguments that will run, in a copy that no hook holds.
        watch: Notified of what happens.
        judges: Sets of rules; each must allow: those of ``policies=``, then those of the scopes
            around the call.
        monitor: Denies and asks are recorded, not enforced.
        approval: People's answer about the call at an earlier seat.
        news: For a call that was allowed at that seat, whether more is known of it now: then hooks
            run again, and rules in any case; none may rewrite it. None for any other call.
        earlier: What was decided about exactly this call before: hooks that rewrote it may only
            deny it now.
    """
    try:
        call.args = copy_json(call.args)
    except RecursionError as error:  # what cannot be copied cannot be passed on as approved
        call.args = {}
        return _unreadable(error)
    first: Ruling | None = None
    if not hooks.deciders and judges:
        first = yield from judges[0].evaluate(call, context)
        is_plain = first.decision == ALLOW and not first.observed
        if is_plain and len(judges) == 1 and not hooks.gates:
            return rule_verdict("pre_tool_call", first)  # of this call alone: it may get an id
    chain = ToolChain(call, watch, context, monitor, approval, earlier)
    if news is None:
        denied = yield from chain.first_pass(hooks.deciders)
    else:
        denied = yield from chain.second_pass(hooks.deciders, news)
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
        denied = yield from chain.pass_or_ask(hooks.gates, judges)
        if denied is not None:
            denied.approval = chain.verdict.approval
            return chain.deny(denied)
    return chain.allow(chain.result())


def _unreadable(error: BaseException) -> Verdict:
    """Return the deny of a call whose arguments are nested too deep, or contain themselves."""
    return Verdict(
        "pre_tool_call",
        DENY,
        allowed=False,
        result=types.HookResult(allow=False, message=UNREADABLE),
        policy_id=HOOK,
        rule_id=UNREADABLE,
        reason=UNREADABLE,
        message=CHECK_FAILED,
        error=error,
    )


def pre_turn(
    hooks: PointHooks, context: Any, prompt: Any, watch: Watch, monitor: bool = False
) -> Generator[Run, Any, tuple[Verdict, Any]]:
    """Decide about a user's message; return the verdict and the message to pass on."""
    chain = Chain("pre_turn", watch, context, monitor)
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
    result = _with(chain.last, current is not prompt, modified_prompt=current)
    return chain.allow(result), current


def pre_agent(
    hooks: PointHooks, context: Any, call: Any, watch: Watch, monitor: bool = False
) -> Generator[Run, Any, Verdict]:
    """Decide whether an agent starts; the last ready answer wins."""
    chain = Chain("pre_agent", watch, context, monitor)
    for registration in hooks.deciders:
        value = yield from run_hook(registration, context, call, watch)
        denied = chain.judge_hook(registration, value)
        if denied is not None:
            return chain.deny(denied)
        _answer(chain, registration, value)
    verdict = chain.verdict
    return chain.allow(_with(chain.last, verdict.answered, response=verdict.answer))


def pre_model_call(
    hooks: PointHooks, context: Any, call: Any, watch: Watch, monitor: bool = False
) -> Generator[Run, Any, tuple[Verdict, Any]]:
    """Decide about a model call; return the verdict and the call to make."""
    chain = Chain("pre_model_call", watch, context, monitor)
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
    if not chain.verdict.answered:  # otherwise no model is called
        denied = yield from chain.pass_gates(hooks.gates, current)
        if denied is not None:
            return chain.deny(denied), current
    result = chain.last or types.HookResult.allowed()
    if changes or chain.verdict.answered:
        changes = {**changes, "action": types.HookAction.MODIFY}
        if chain.verdict.answered:
            changes["response"] = chain.verdict.answer
        result = result.model_copy(update=changes)
    return chain.allow(result), current


def _allows(value: Any) -> TypeGuard[types.HookResult]:
    return isinstance(value, types.HookResult) and value.allow


def _contents(call: Any) -> dict[str, Any]:
    """Return the parts of a model call that a hook could change in place."""
    if not isinstance(call, types.ModelCall):
        return {}
    return {"messages": call.messages, "tools": call.tools}


def _answer(chain: Chain, registration: Registration, value: Any) -> None:
    if _allows(value) and value.response is not None:
        chain.modified(registration, value)
        chain.verdict.answer = value.response
        chain.verdict.answered = True


def _with(result: types.HookResult | None, changed: bool, **fields: Any) -> types.HookResult:
    """Return the last answer with what the chain accumulated, if anything."""
    result = result or types.HookResult.allowed()
    if not changed:
        return result
    return result.model_copy(update={**fields, "action": types.HookAction.MODIFY})
