"""Run hook files by hand: an event and its payload go in, what the hooks made of it comes out.

The generators of the pipeline combine the hooks: where the pipeline asks again after a rewrite, so
does this; elsewhere each hook gets what the one before returned.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from otelhooks import types
from otelhooks.hooks import base, points, results
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import HookContext, OperationContext, SessionContext, TurnContext
from otelhooks.hooks.drive import drive
from otelhooks.hooks.registry import PointHooks, Registration
from otelhooks.hooks.run_cache import run_state
from otelhooks.hooks.verdict import Verdict
from otelhooks.hooks.watch import Watch
from otelhooks.plain_text import LOGGED, one_line
from otelhooks.policy.files import payloads
from otelhooks.policy.files.events import check_event
from otelhooks.policy.files.hook_script import Decision, HookFailed, HookScript
from otelhooks.policy.files.point_hooks import ScriptHook
from otelhooks.policy.files.script_functions import ALLOW, BLOCK, MODIFY
from otelhooks.policy.scripting.plain_values import plain
from otelhooks.records.failures import error_type, outline

__all__ = ["CustomHook", "Dispatched", "HookChain"]

log: logging.Logger = logging.getLogger("otelhooks.policy")

_ASKED_AGAIN = ("tool.pre", "delegation.pre", "custom.", "meta.")
"""Events, or prefixes of them, whose hooks run again after a rewrite."""

_GOES_ON = frozenset(("session.end", "agent.stop", "error"))
"""Events without an effect that follows: a hook that fails there is logged."""


class Dispatched(NamedTuple):
    """What hooks made of an event.

    Attributes:
        action: ``allow``, ``block`` or ``modify``.
        payload: The given payload, with what `modify` set.
        reason: Reason of a block; names hook and cause.
    """

    action: str
    payload: dict[str, Any]
    reason: str


class CustomHook(ScriptHook, base.CustomEventHook):
    """A hook file for events of the application: it decides about the arguments of a `Call`."""

    def run(self, context: HookContext, data: types.ToolCall) -> types.HookResult:  # type: ignore[override]
        """Decide about the payload of an event; the call's name is the event's."""
        event = str(data.name)
        if not self.script.subscribes_to(event):
            return types.HookResult()
        decision = _ask(self.script, context, event, data.args)
        if decision.action == BLOCK:
            return types.HookResult(
                allow=False, message=decision.reason, severity=decision.severity
            )
        return types.HookResult(modified_args=decision.changes or None)


class _PassingHook(ScriptHook, base.TransformHook[Any, Any]):
    """The same, but each hook gets what the one before returned."""

    POINT = "custom"

    def __init__(self, script: HookScript, event: str) -> None:
        super().__init__(script)
        self._event = event

    def run(self, context: HookContext, data: Any) -> Any:  # type: ignore[override]
        try:
            decision = _ask(self.script, context, self._event, data)
        except HookFailed as failed:
            if self._event not in _GOES_ON:
                raise
            log.error("hook `%s` failed: %s", self.name, outline(failed.__cause__ or failed))
            return None
        if decision.action == BLOCK:
            return types.HookResult(allow=False, message=decision.reason)
        return {**data, **decision.changes} if decision.changes else None


def _ask(script: HookScript, context: HookContext, event: str, payload: dict[str, Any]) -> Decision:
    """Run a hook file on a payload; its changes contain the given objects where it kept them.

    Raises:
        HookFailed: It made no decision.
    """
    try:
        given = payloads.with_aliases(payload)
        if event == "turn.end":
            given.setdefault("logs", list(run_state(context).logs))
        seen: dict[str, Any] = plain(given)
        decision = script.ask(context, event, seen)
        changes = payloads.without_aliases(seen, decision.changes)
    except (TypeError, ValueError) as error:
        failed = HookFailed(script.name, str(error))
        failed.__cause__ = error
    except HookFailed as error:
        failed = error
    else:
        if decision.action != BLOCK or script.said.mode != "monitor":
            put = {
                key: payloads.put_back(payload[key], seen[key], value) if key in payload else value
                for key, value in changes.items()
            }
            return decision._replace(changes=put)
        failed = HookFailed(script.name, decision.reason)
    if script.said.mode != "monitor":
        raise failed
    cause = failed.__cause__  # its text is content, but a reason may quote a payload
    why = str(failed) if cause is None else f"{script.name}: {error_type(cause)}"
    log.info("observed: %s", one_line(why, LOGGED))
    return Decision(ALLOW, {})


class HookChain:
    """The hook files of some paths.

    Args:
        scripts: Hook files, in the order in which they run.

    Attributes:
        scripts: The files, compiled.
    """

    def __init__(self, scripts: Iterable[HookScript]) -> None:
        self.scripts: tuple[HookScript, ...] = tuple(scripts)
        self._session = SessionContext()
        self._turn = TurnContext(self._session)

    def dispatch(self, event: str, payload: Mapping[str, Any] | None = None) -> Dispatched:
        """Run the hooks of an event; a ``turn.start`` begins a run with a cache of its own.

        Args:
            event: Such as ``tool.pre``.
            payload: Not changed.

        Raises:
            ConfigError: The event does not exist.
        """
        name = check_event(event)
        if name == "turn.start":
            self._turn = TurnContext(self._session)
        scripts = [script for script in self.scripts if script.subscribes_to(name)]
        context = OperationContext(self._turn)
        given = dict(payload or {})
        if name.startswith(_ASKED_AGAIN):
            found = (Registration("custom", "decide", CustomHook(script)) for script in scripts)
            return decide(PointHooks(found), context, name, given, Watch())[1]
        passing = (Registration("custom", "transform", _PassingHook(g, name)) for g in scripts)
        after, verdict = drive(
            results.post_point(
                "custom", PointHooks(passing), context, given, Watch(), lambda _, new: new
            )
        )
        if verdict is not None and verdict.withheld:
            return Dispatched(BLOCK, given, _reason(verdict))
        return Dispatched(MODIFY if verdict is not None else ALLOW, after, "")


def decide(
    hooks: PointHooks,
    context: HookContext,
    event: str,
    payload: dict[str, Any],
    watch: Watch,
    monitor: bool = False,
) -> tuple[Verdict, Dispatched]:
    """Run the hooks of an event that an effect follows, as the pipeline does for a tool call."""
    call = Call(event, payload)
    verdict = drive(points.pre_tool_call(hooks, context, call, watch, (), monitor))
    if not verdict.allowed:
        return verdict, Dispatched(BLOCK, call.args, _reason(verdict))
    return verdict, Dispatched(MODIFY if call.version else ALLOW, call.args, "")


def _reason(verdict: Verdict) -> str:
    if isinstance(verdict.error, HookFailed):
        return str(verdict.error)
    if verdict.reason.startswith("blocked by hook"):
        return verdict.reason
    return f'blocked by hook "{verdict.rule_id}": {verdict.reason}'
