"""One generator for each point that inspects or transforms, and how one hook runs at any point.

Inspecting fails open: what an inspector raises is logged and the chain continues. Transforming a
result fails closed: a transformer that raises withholds it. `otelhooks.hooks.points` explains what
generators yield. Source of every rule: design section 5.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator
from typing import Any, cast

from otelhooks import types
from otelhooks.hooks import background
from otelhooks.hooks.calls import same_json
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.registry import PointHooks, Registration, is_observed
from otelhooks.hooks.verdict import DENY, MODIFY, Observed, Verdict, text_of
from otelhooks.hooks.watch import Watch
from otelhooks.records.changes import refuse_decision, refuse_unread
from otelhooks.records.failures import WrongAnswer, brief

__all__ = [
    "inspect_point",
    "interaction",
    "on_error",
    "place_response",
    "place_result",
    "place_value",
    "post_point",
    "run_hook",
    "stop",
]

HOOK = "hook"
"""Policy id of a plain hook's decision."""

RESULT_CHECK_FAILED = "The result was withheld because a policy check failed."

Steps = Generator[Run, Any, Any]


def run_hook(registration: Registration, context: Any, data: Any, watch: Watch) -> Steps:
    """Run one hook; return what it returned, or a `Raised`."""
    started = time.perf_counter()
    value: Any
    if registration.plain:
        try:
            value = registration.call(context, data)
        except BaseException as error:
            if escapes(error):
                raise
            value = Raised(error)
        if inspect.isawaitable(value):
            awaitable = value
            value = yield Run(lambda: awaitable, timeout=registration.timeout)
    else:
        value = yield Run(
            registration.call,
            context,
            data,
            blocking=registration.blocking,
            timeout=registration.timeout,
        )
    watch.hook_ran(registration, time.perf_counter() - started)
    if type(value) is Raised:
        watch.hook_failed(registration, value.error)
    return value


def inspect_point(hooks: PointHooks, context: Any, data: Any, watch: Watch) -> Steps:
    """Run a point's inspectors, in order; one that raises, or wants to decide, is logged."""
    for registration in hooks.inspectors:
        value = yield from run_hook(registration, context, data, watch)
        try:
            refuse_decision(value)
        except WrongAnswer as error:
            watch.hook_failed(registration, error)
    for registration in hooks.background:
        background.put(registration, context, data, watch)


# -- transforming -----------------------------------------------------------------------------


def post_point(
    point: str,
    hooks: PointHooks,
    context: Any,
    data: Any,
    watch: Watch,
    place: Callable[[Any, Any], Any],
    monitor: bool = False,
) -> Generator[Run, Any, tuple[Any, Verdict | None]]:
    """Run the transformers of a result, each on what the one before returned.

    Args:
        point: ``post_tool_call``, ``post_model_call`` or ``post_agent``.
        hooks: Hooks of the point; its inspectors do not run here, because they see the final
            result.
        context: The operation's context.
        data: The result.
        watch: Notified of what happens.
        place: Takes the data and a hook's return value; returns the new data.
        monitor: A block is recorded, and the result passes.

    Returns:
        The data, and a verdict if it was rewritten or withheld.
    """
    verdict: Verdict | None = None
    observed: list[Observed] = []
    for registration in hooks.transformers:
        value = yield from run_hook(registration, context, data, watch)
        if isinstance(value, types.HookResult):
            try:
                refuse_unread(value, point)
            except WrongAnswer as error:
                watch.hook_failed(registration, error)
                value = Raised(error)
        blocked = _block(point, registration, value)
        is_seen_only = is_observed(registration, monitor)
        if blocked is not None and blocked.error is None and is_seen_only:
            observed.append(
                Observed(
                    DENY,
                    blocked.policy_id,
                    blocked.rule_id,
                    blocked.reason,
                    blocked.severity,
                    blocked.policy_version,
                )
            )
            continue
        if blocked is not None:
            blocked.observed = observed
            if isinstance(data, types.ToolResult) and data.error is not None:
                hidden = {"result": None, "error": blocked.message, "exception": None}
                return data.model_copy(update=hidden), blocked
            return place(data, blocked.message), blocked
        if isinstance(value, types.HookResult):
            value = value.output
        if value is None:
            continue
        new = place(data, value)
        if new is not data and not _same_data(new, data):
            verdict = Verdict(
                point,
                MODIFY,
                policy_id=registration.policy_id,
                policy_version=registration.policy_version,
                rule_id=registration.rule_id,
                evaluations=1,
            )
        data = new
    if observed:
        verdict = verdict or Verdict(point)
        verdict.observed = observed
    return data, verdict


def place_value(data: Any, value: Any) -> Any:
    """Replace any data by a value."""
    return value


def place_result(data: Any, value: Any) -> Any:
    """Put a value into a tool's result; a `ToolResult` replaces the whole."""
    if isinstance(value, types.ToolResult) or not isinstance(data, types.ToolResult):
        return value
    return data.model_copy(update={"result": value})


def place_response(data: Any, value: Any) -> Any:
    """Put a text into a model's response; anything else replaces the whole."""
    if isinstance(data, types.ModelResponse) and isinstance(value, str):
        return data.model_copy(update={"text": value, "tool_calls": []})
    return value


def _same_data(new: Any, old: Any) -> bool:
    """Compare two results; values that cannot be compared count as changed."""
    try:
        if type(new) is not type(old) or not bool(new == old):
            return False
    except Exception:  # a data frame's == returns a frame, whose truth value is an error
        return False
    if isinstance(new, types.ToolResult):
        new, old = new.result, old.result
    return same_json(new, old) or not isinstance(new, (dict, list, int, float))


def _block(point: str, registration: Registration, value: Any) -> Verdict | None:
    """Return the verdict of a transformer that withholds the result, or None."""
    if type(value) is Raised:
        verdict = Verdict(
            point,
            DENY,
            reason=f"hook '{registration.source}' failed: {brief(value.error)}",
            message=getattr(value.error, "model_message", RESULT_CHECK_FAILED),
            error=value.error,
        )
    elif isinstance(value, types.HookResult) and not value.allow:
        reason = value.message or f"Withheld by hook '{registration.rule_id}'."
        verdict = Verdict(point, DENY, reason=reason, severity=value.severity)
    else:
        return None
    verdict.policy_id, verdict.rule_id = registration.policy_id, registration.rule_id
    verdict.policy_version = registration.policy_version
    verdict.withheld = True
    verdict.evaluations = 1
    return verdict


def on_error(
    hooks: PointHooks, context: Any, error: BaseException, watch: Watch
) -> Generator[Run, Any, tuple[types.HookResult, Any]]:
    """Ask for a value in place of a failure; the first that is not None ends the chain.

    Returns:
        ``allow=True`` and the value, or ``allow=False`` and None; its message, if any, replaces the
        failure's text.
    """
    message = ""
    for registration in hooks.transformers:
        value: Any = yield from run_hook(registration, context, error, watch)
        if type(value) is Raised:
            failed = f"Error recovery failed: {text_of(value.error, str)}"
            return types.HookResult(allow=False, message=failed), None
        result: types.HookResult | None = None
        if isinstance(value, types.HookResult):
            result, value = value, value.output
        elif isinstance(value, tuple):
            pair = list(cast("tuple[Any, ...]", value))
            if len(pair) == 2 and isinstance(pair[0], types.HookResult):
                result, value = pair[0], pair[1]
        if result is not None and not result.allow:
            message = result.message or message
            continue
        if value is not None:
            return result or types.HookResult(), cast("Any", value)
    return types.HookResult(allow=False, message=message), None


# -- questions and the end of a turn ----------------------------------------------------------


def interaction(
    hooks: PointHooks, context: Any, spec: Any, watch: Watch
) -> Generator[Run, Any, tuple[types.HookResult, Any]]:
    """Ask for an answer to a question; the first that is not None wins.

    Raises:
        Exception: What a hook raised.
    """
    for registration in hooks.transformers:
        value = yield from run_hook(registration, context, spec, watch)
        if type(value) is Raised:
            raise value.error
        if value is not None:
            return types.HookResult(), value
    message = "No interaction hook handled the request"
    return types.HookResult(allow=False, message=message), None


def stop(
    hooks: PointHooks, context: Any, args: Any, watch: Watch
) -> Generator[Run, Any, types.StopHookResult]:
    """Ask whether a turn may end; the first CONTINUE wins.

    Raises:
        Exception: What a hook raised.
    """
    for registration in hooks.transformers:
        value = yield from run_hook(registration, context, args, watch)
        if type(value) is Raised:
            raise value.error
        if value is None:
            continue
        if not isinstance(value, types.StopHookResult):
            msg = f"stop hook `{registration.source}` returned {type(value).__name__}"
            raise TypeError(msg)
        if value.decision is types.StopDecision.CONTINUE:
            return value
    return types.StopHookResult()
