"""Hook files as hook objects of the points at which their events fire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from otelhooks import types
from otelhooks.hooks import base
from otelhooks.hooks.calls import same_json
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.run_cache import run_state
from otelhooks.policy.files import payloads
from otelhooks.policy.files.hook_script import Decision, HookFailed, HookScript
from otelhooks.policy.files.script_functions import ALLOW, BLOCK, MODIFY
from otelhooks.policy.scripting.plain_values import plain

__all__ = ["MAX_VERIFICATIONS", "ScriptHook", "hook_objects"]

MAX_VERIFICATIONS = 2
"""How often a sub-agent is sent back because its result was not accepted."""

_NOTES = "notes of hook files"


class ScriptHook(base.Hook):
    """A hook file at one point.

    Args:
        script: The file, compiled.

    Attributes:
        script: The file, compiled.
        name: The hook's name: the file's stem.
        policy_id: The same; telemetry's name for the source of its verdicts.
        policy_version: Content hash of the file.
        mode: ``monitor`` if the file sets it.
    """

    writable: ClassVar[tuple[str, ...]] = ()
    """Keys of the payload that `modify` may change here."""

    def __init__(self, script: HookScript) -> None:
        self.script: HookScript = script
        self.name: str = script.name
        self.priority: int = script.said.priority
        self.rule_id: str | None = script.rule_id
        self.policy_id: str = script.name
        self.policy_version: str = script.said.source.version
        self.mode: str | None = script.said.mode
        self.blocking: bool = script.is_slow

    def ask(self, context: HookContext, payload: Mapping[str, Any]) -> Decision:
        """Run the script; keys that it adds to the payload are shown to later hooks.

        Args:
            context: State of the operation.
            payload: Plain values.

        Raises:
            HookFailed: It made no decision, or changes a value that is fixed here.
        """
        event = self.script.said.event
        notes: dict[str, Any] = context.get(f"{_NOTES}: {event}", {})
        seen: dict[str, Any] = {**payloads.common(context), **payload, **notes}
        decision = self.script.ask(context, event, seen)
        if decision.action != MODIFY:
            return decision
        try:
            changes = payloads.without_aliases(seen, decision.changes)
        except ValueError as error:
            raise HookFailed(self.name, str(error)) from error
        changes = {
            key: value
            for key, value in changes.items()
            if key not in seen or not same_json(value, seen[key])
        }
        added = {key: value for key, value in changes.items() if key not in seen or key in notes}
        fixed = [key for key in changes if key not in added and key not in self.writable]
        if fixed:
            raise HookFailed(self.name, f"modify cannot change `{fixed[0]}` of {event}")
        if added:
            context.set(f"{_NOTES}: {event}", {**notes, **added})
        kept = {key: value for key, value in changes.items() if key not in added}
        return Decision(MODIFY if kept else ALLOW, kept)

    def result(self, decision: Decision, **changes: Any) -> types.HookResult:
        """Return a decision as the result of a hook; `changes` are what it modifies."""
        if decision.action == BLOCK:
            return types.HookResult(
                allow=False, message=decision.reason, severity=decision.severity
            )
        return types.HookResult(**changes)


class SessionStart(ScriptHook, base.OnSessionStartHook):
    """``session.start``: its decision is remembered for the session."""

    def __init__(self, script: HookScript) -> None:
        super().__init__(script)
        self.key: str = f"{_NOTES}: start of {script.name}"

    def run(self, context: HookContext, data: None) -> None:  # type: ignore[override]
        try:
            decision: Decision | HookFailed = self.ask(context, {})
        except HookFailed as failed:
            decision = failed
        context.set(self.key, decision)


class SessionGate(ScriptHook, base.PreTurnHook):
    """Refuses the turns of a session that ``session.start`` blocked."""

    def __init__(self, script: HookScript, start: SessionStart) -> None:
        super().__init__(script)
        self._start = start

    def run(self, context: HookContext, data: Any) -> types.HookResult:  # type: ignore[override]
        said: Decision | HookFailed | None = context.get(self._start.key)
        if isinstance(said, HookFailed):
            raise said
        return types.HookResult() if said is None else self.result(said)


class SessionEnd(ScriptHook, base.OnSessionEndHook):
    """``session.end``."""

    def run(self, context: HookContext, data: None) -> None:  # type: ignore[override]
        self.ask(context, {})


class TurnStart(ScriptHook, base.PreTurnHook):
    """``turn.start``."""

    writable: ClassVar[tuple[str, ...]] = ("prompt",)

    def run(self, context: HookContext, data: Any) -> types.HookResult:  # type: ignore[override]
        prompt = payloads.shown(data)
        decision = self.ask(context, {"prompt": prompt})
        if "prompt" not in decision.changes:
            return self.result(decision)
        new = payloads.put_back(data, prompt, decision.changes["prompt"])
        return self.result(decision, modified_prompt=new)


class TurnEnd(ScriptHook, base.PostAgentTransformHook):
    """``turn.end``: the answer to the user, not that of a sub-agent."""

    writable: ClassVar[tuple[str, ...]] = ("text",)

    def run(self, context: HookContext, data: Any) -> Any:  # type: ignore[override]
        if not payloads.is_own_turn(context):
            return None
        text = payloads.as_text(data) if data is not None else ""
        decision = self.ask(context, {"text": text, "logs": list(run_state(context).logs)})
        if "text" in decision.changes:
            return decision.changes["text"]
        return self.result(decision)


class CompletionPre(ScriptHook, base.PreModelCallHook):
    """``completion.pre``."""

    writable: ClassVar[tuple[str, ...]] = ("messages", "tools")

    def run(self, context: HookContext, data: types.ModelCall) -> types.HookResult:  # type: ignore[override]
        try:
            messages = [payloads.message(each) for each in data.messages]
            tools = [payloads.message(each) for each in data.tools]
        except (TypeError, ValueError) as error:
            raise HookFailed(self.name, str(error)) from error
        decision = self.ask(context, {"messages": messages, "tools": tools, "model": data.model})
        changes: dict[str, Any] = {}
        for key, original, before in (
            ("messages", data.messages, messages),
            ("tools", data.tools, tools),
        ):
            if key in decision.changes:
                after = decision.changes[key]
                if not isinstance(after, list):
                    raise HookFailed(self.name, f"modify: `{key}` is not a list")
                changes[f"modified_{key}"] = payloads.put_back(original, before, after)
        return self.result(decision, **changes)


class CompletionPost(ScriptHook, base.PostModelCallTransformHook):
    """``completion.post``."""

    writable: ClassVar[tuple[str, ...]] = ("content", "tool_calls")

    def run(self, context: HookContext, data: types.ModelResponse) -> Any:  # type: ignore[override]
        calls = [
            {"id": call.id, "name": str(call.name), "args": payloads.shown(call.args)}
            for call in data.tool_calls
        ]
        usage = data.usage.model_dump(exclude_none=True) if data.usage is not None else None
        decision = self.ask(context, {"content": data.text, "tool_calls": calls, "usage": usage})
        if decision.action != MODIFY:
            return self.result(decision)
        update: dict[str, Any] = {}
        if "content" in decision.changes:
            update["text"] = _checked(self.name, "content", decision.changes["content"], str)
        if "tool_calls" in decision.changes:
            given = _checked(self.name, "tool_calls", decision.changes["tool_calls"], list)
            try:
                update["tool_calls"] = [types.ToolCall.model_validate(each) for each in given]
            except ValueError as error:
                raise HookFailed(self.name, "modify: `tool_calls` are not calls") from error
        return data.model_copy(update=update)


def _checked(name: str, key: str, value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        raise HookFailed(name, f"modify: `{key}` is not {'text' if kind is str else 'a list'}")
    return value


class ToolPre(ScriptHook, base.PreToolCallDecideHook):
    """``tool.pre``."""

    writable: ClassVar[tuple[str, ...]] = ("args",)

    def run(self, context: HookContext, data: types.ToolCall) -> types.HookResult:  # type: ignore[override]
        try:
            args = plain(data.args)
        except (TypeError, ValueError) as error:
            raise HookFailed(self.name, str(error)) from error
        payload = {
            "id": data.id,
            "name": str(data.name),
            "args": args,
            "arguments": args,
            "server": data.server_name,
            "kind": getattr(context, "tool_kind", None),
            "canonical": list(getattr(context, "canonical", ())),
        }
        if self.script.reads("arguments_json"):
            payload["arguments_json"] = json.dumps(args, ensure_ascii=False, default=str)
        decision = self.ask(context, payload)
        if "args" not in decision.changes:
            return self.result(decision)
        new = _checked_args(self.name, decision.changes["args"])
        return self.result(decision, replace_args=payloads.put_back(data.args, args, new))


def _checked_args(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise HookFailed(name, "modify: `args` is not a dict")
    return cast("dict[str, Any]", value)


class ToolPost(ScriptHook, base.PostToolCallTransformHook):
    """``tool.post``."""

    writable: ClassVar[tuple[str, ...]] = ("content", "result")

    def run(self, context: HookContext, data: Any) -> Any:  # type: ignore[override]
        record = _as_result(context, data)
        failed = record.error is not None
        result = payloads.shown(record.result)
        content = record.error if failed else payloads.as_text(record.result)
        decision = self.ask(
            context,
            {
                "call_id": record.id,
                "name": str(record.name),
                "content": content,
                "is_error": failed,
                "result": result,
            },
        )
        if decision.action != MODIFY:
            return self.result(decision)
        return _rewritten(record, result, decision.changes)


def _as_result(context: HookContext, data: Any) -> types.ToolResult:
    if isinstance(data, types.ToolResult):
        return data
    return types.ToolResult(name=context.known("tool_name"), result=data)


def _rewritten(
    record: types.ToolResult, before: Any, changes: Mapping[str, Any]
) -> types.ToolResult:
    """Return a result with a script's changes; `content` is the result as text."""
    update: dict[str, Any] = {}
    if "content" in changes:
        update["error" if record.error is not None else "result"] = changes["content"]
    if "result" in changes:
        update["result"] = payloads.put_back(record.result, before, changes["result"])
    return record.model_copy(update=update)


class DelegationPre(ScriptHook, base.PreToolCallDecideHook):
    """``delegation.pre``: a tool call that starts a sub-agent."""

    writable: ClassVar[tuple[str, ...]] = ("task",)

    def run(self, context: HookContext, data: types.ToolCall) -> types.HookResult:  # type: ignore[override]
        found = payloads.subagent(data, context)
        if found is None:
            return types.HookResult()
        context.set(_DELEGATE, found["agent"])
        try:
            decision = self.ask(context, plain(found))
        except (TypeError, ValueError) as error:
            raise HookFailed(self.name, str(error)) from error
        if "task" not in decision.changes:
            return self.result(decision)
        key, task = payloads.task_key(data.args), decision.changes["task"]
        if key is None:
            return self.result(decision, replace_args=_checked_args(self.name, task))
        return self.result(decision, modified_args={key: task})


_DELEGATE = f"{_NOTES}: delegate"


class DelegationPost(ScriptHook, base.PostToolCallTransformHook):
    """``delegation.post``: the result of a sub-agent that a tool call started."""

    writable: ClassVar[tuple[str, ...]] = ("content",)

    def run(self, context: HookContext, data: Any) -> Any:  # type: ignore[override]
        record = _as_result(context, data)
        agent = getattr(context, "starts_agent", "") or context.get(_DELEGATE)
        if agent is None and record.name != types.BuiltinTools.INVOKE_SUBAGENT.value:
            return None
        content = record.error if record.error is not None else payloads.as_text(record.result)
        decision = self.ask(context, {"agent": agent or "", "content": content})
        if decision.action != MODIFY:
            return self.result(decision)
        return _rewritten(record, None, decision.changes)


class DelegationVerify(ScriptHook, base.StopHook):
    """``delegation.post_verify``: sends a sub-agent back if its answer is not accepted."""

    def __init__(self, script: HookScript) -> None:
        super().__init__(script)
        self.key: str = f"{_NOTES}: verification of {script.name}"

    def run(self, context: HookContext, data: types.StopArgs) -> types.StopHookResult | None:  # type: ignore[override]
        if not payloads.is_delegated(context):
            return None
        attempt = data.continuation_count + 1
        answer = {"agent": data.agent, "content": data.response_text, "attempt": attempt}
        try:
            said: Decision | HookFailed = self.ask(context, answer)
        except HookFailed as failed:  # asking again would not help
            context.set(self.key, failed)
            return None
        context.set(self.key, said)
        if said.action != BLOCK or data.continuation_count >= MAX_VERIFICATIONS:
            return None
        return types.StopHookResult(decision=types.StopDecision.CONTINUE, reason=said.reason)


class DelegationGate(ScriptHook, base.PostAgentTransformHook):
    """Withholds the answer of a sub-agent that was not accepted in the end."""

    def __init__(self, script: HookScript, verify: DelegationVerify) -> None:
        super().__init__(script)
        self._verify = verify

    def run(self, context: HookContext, data: Any) -> Any:  # type: ignore[override]
        if not payloads.is_delegated(context):
            return None
        said: Decision | HookFailed | None = context.get(self._verify.key)
        if isinstance(said, HookFailed):
            raise said
        return None if said is None else self.result(said)


class AgentStop(ScriptHook, base.StopHook):
    """``agent.stop``: makes an agent continue, or rewrites its final answer."""

    writable: ClassVar[tuple[str, ...]] = ("text",)

    def __init__(self, script: HookScript) -> None:
        super().__init__(script)
        self.key: str = f"{_NOTES}: answer by {script.name}"

    def run(self, context: HookContext, data: types.StopArgs) -> types.StopHookResult | None:  # type: ignore[override]
        context.set(self.key, None)
        answer = {"text": data.response_text, "continuation_count": data.continuation_count}
        decision = self.ask(context, answer)
        if decision.action == BLOCK:
            return types.StopHookResult(
                decision=types.StopDecision.CONTINUE, reason=decision.reason
            )
        context.set(self.key, decision.changes.get("text"))
        return None


class AgentAnswer(ScriptHook, base.PostAgentTransformHook):
    """Replaces the answer by what ``agent.stop`` modified."""

    def __init__(self, script: HookScript, stop: AgentStop) -> None:
        super().__init__(script)
        self._stop = stop

    def run(self, context: HookContext, data: Any) -> Any:  # type: ignore[override]
        return context.get(self._stop.key)


class Failure(ScriptHook, base.OnToolErrorHook, base.OnModelErrorHook):
    """``error``: a tool or a model call that failed."""

    writable: ClassVar[tuple[str, ...]] = ("message",)

    def run(self, context: HookContext, data: Exception) -> Any:  # type: ignore[override]
        payload = {"error": type(data).__name__, "message": str(data)}
        name = context.known("tool_name")
        decision = self.ask(context, {**payload, "name": name} if name else payload)
        if decision.action == BLOCK:
            return types.HookResult(allow=False, message=decision.reason)
        if "message" in decision.changes:
            return types.HookResult(allow=False, message=str(decision.changes["message"]))
        return None


_SIMPLE: dict[str, type[ScriptHook]] = {
    "session.end": SessionEnd,
    "turn.start": TurnStart,
    "turn.end": TurnEnd,
    "completion.pre": CompletionPre,
    "completion.post": CompletionPost,
    "tool.pre": ToolPre,
    "tool.post": ToolPost,
    "delegation.pre": DelegationPre,
    "delegation.post": DelegationPost,
    "error": Failure,
}


def hook_objects(script: HookScript) -> tuple[ScriptHook, ...]:
    """Return the hooks of a file; none if the pipeline never fires its event."""
    event = script.said.event
    if event in _SIMPLE:
        return (_SIMPLE[event](script),)
    if event == "session.start":
        start = SessionStart(script)
        return start, SessionGate(script, start)
    if event == "delegation.post_verify":
        verify = DelegationVerify(script)
        return verify, DelegationGate(script, verify)
    if event == "agent.stop":
        stop = AgentStop(script)
        return stop, AgentAnswer(script, stop)
    return ()
