"""`HookRunner`: hooks registered by hand and dispatched by hand, over the point generators.

Names and signatures are google-antigravity's, so that code written for its ``HookRunner`` works
with the import changed; further points are ours. With telemetry (the pipeline sets `observer`),
each dispatch leaves the same spans and records as the pipeline of an instrumented framework.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Protocol

from otelhooks import types
from otelhooks.hooks import background, points, results
from otelhooks.hooks.base import HOOK_CLASSES, keyword
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import HookContext, OperationContext, SessionContext, TurnContext
from otelhooks.hooks.drive import Run, adrive, arun
from otelhooks.hooks.registry import HookSet, Registration, registrations
from otelhooks.hooks.said import Message, Said, user_text
from otelhooks.hooks.verdict import RECORD_REQUIRED, Verdict, text_of
from otelhooks.hooks.watch import Watch
from otelhooks.records.failures import FAILED, error_type

__all__ = ["HookRunner", "Observer"]

EVENT_TYPES = {
    "pre_tool_call": "pre_tool_use",
    "post_tool_call": "post_tool_use",
    "on_tool_error": "tool_error",
    "on_model_error": "model_error",
    "pre_agent": "before_agent",
    "post_agent": "after_agent",
    "run_start": "before_run",
    "run_end": "after_run",
    "pre_turn": "user_message",
}
"""Names of points in `HookEvent.type` that differ from the point's own."""

_NAMES = {(c.POINT, c.KIND): f"{keyword(c)}_hooks" for c in HOOK_CLASSES}
"""Keyword and property for each point and kind."""


class Observer(Protocol):
    """Creates spans, metrics and records of what a runner dispatches. Never raises."""

    def watch(self) -> Watch:
        """Return the watch that the dispatch notifies."""
        ...

    def opened(
        self, context: HookContext, data: Any, verdict: Verdict
    ) -> Generator[Run, Any, str | None]:
        """Record a decided operation; return why it is refused, None if it may continue."""
        ...

    def closed(self, context: HookContext, data: Any, verdict: Verdict | None) -> None:
        """Record that an operation has ended, with a result or a failure."""
        ...

    def failed(
        self, context: HookContext, error: BaseException, recovered: bool, data: Any
    ) -> None:
        """Record that an operation has raised."""
        ...

    def happened(self, point: str, context: HookContext) -> None:
        """Record the dispatch of a point without an operation of its own."""
        ...


observer: Observer | None = None


class HookRunner:
    """Hooks of one agent, and the dispatch of each point.

    Args:
        hooks: Hook objects of any style.
        **by_point: Hooks of one point under its keyword, such as ``pre_tool_call_decide_hooks``;
            they come before those of `hooks`.

    Raises:
        ValueError: An object is not a hook.
        TypeError: An unknown keyword, or a hook whose options contradict its kind.
    """

    def __init__(
        self, hooks: Sequence[Any] | None = None, **by_point: Sequence[Any] | None
    ) -> None:
        self._given: dict[str, list[Any]] = {name: [] for name in _NAMES.values()}
        self._registered: list[Registration] = []
        for name, given in by_point.items():
            if name not in self._given:
                msg = f"HookRunner() got an unexpected keyword argument '{name}'"
                raise TypeError(msg)
            for hook in given or ():
                self._add(hook, only=name)
        self._hooks = HookSet(self._registered)
        self.session_context: SessionContext = SessionContext()
        self._is_child = False
        for hook in hooks or ():
            self.register_hook(hook)

    def _add(self, hook: Any, only: str | None = None) -> None:
        named = [(_NAMES.get((r.point, r.kind)), r) for r in registrations(hook)]
        found = [(name, registration) for name, registration in named if only in (None, name)]
        if only is not None and not found:
            msg = f"Unknown hook type: {type(hook)} is not one of `{only}`"
            raise ValueError(msg)
        for name, registration in found:
            self._registered.append(registration)
            if name is not None:
                self._given[name].append(hook)

    def register_hook(self, hook: Any) -> None:
        """Add a hook at every point that it serves.

        Raises:
            ValueError: It is not a hook.
        """
        self._add(hook)
        self._hooks = HookSet(self._registered)

    def child(self, hooks: Iterable[Any] = ()) -> HookRunner:
        """Return the runner of a sub-agent: these hooks first, then its own.

        Args:
            hooks: Hooks that the sub-agent adds.
        """
        runner = HookRunner()
        runner._registered = list(self._registered)
        runner._given = {name: list(given) for name, given in self._given.items()}
        runner._hooks = self._hooks
        runner.session_context = self.session_context
        runner._is_child = True
        for hook in hooks:
            runner.register_hook(hook)
        return runner

    @property
    def has_hooks(self) -> bool:
        """Whether any hook is registered."""
        return bool(self._registered)

    def __getattr__(self, name: str) -> tuple[Any, ...]:
        """Return the hooks of one point and kind, such as ``pre_turn_hooks``."""
        given = self.__dict__.get("_given", {})
        if name not in given:
            msg = f"'HookRunner' object has no attribute '{name}'"
            raise AttributeError(msg)
        return tuple(given[name])

    # -- driving ------------------------------------------------------------------------------

    def _watch(self) -> Watch:
        return observer.watch() if observer is not None else _QUIET

    async def _inspect(self, point: str, context: HookContext, data: Any, **event: Any) -> None:
        hooks, watch = self._hooks, self._watch()
        await adrive(results.inspect_point(hooks.at(point), context, data, watch))
        if observer is not None:
            observer.happened(point, context)
        await self._tell(hooks, point, context, watch, **event)

    async def _tell(
        self, hooks: HookSet, point: str, context: HookContext, watch: Watch, **fields: Any
    ) -> None:
        if hooks.has_events:
            event = watch.event(EVENT_TYPES.get(point, point), context, **fields)
            await adrive(results.inspect_point(hooks.at("event"), context, event, watch))

    async def _decided(
        self,
        hooks: HookSet,
        context: HookContext,
        verdict: Verdict,
        watch: Watch,
        data: Any,
        **event: Any,
    ) -> types.HookResult:
        result = verdict.result or types.HookResult.allowed()
        if observer is not None:
            refusal = await adrive(observer.opened(context, data, verdict))
            if refusal is not None and result.allow:
                result = types.HookResult(allow=False, message=refusal, rule_id=RECORD_REQUIRED)
        await self._tell(
            hooks,
            verdict.point,
            context,
            watch,
            decision=verdict.decision,
            rule_id=verdict.rule_id or None,
            reason=verdict.reason or None,
            **event,
        )
        return result

    # -- session, run, turn ---------------------------------------------------------------------

    async def dispatch_session_start(self) -> None:
        """Run the hooks of session_start."""
        await self._inspect("session_start", self.session_context, None)

    async def dispatch_session_end(self) -> None:
        """Run the hooks of session_end."""
        await self._inspect("session_end", self.session_context, None)
        await arun(Run(background.flush, blocking=True))

    async def dispatch_run_start(self, info: types.RunInfo) -> None:
        """Run the hooks of run_start."""
        await self._inspect("run_start", self.session_context, info, input=info.input)

    async def dispatch_run_end(self, info: types.RunInfo) -> None:
        """Run the hooks of run_end."""
        await self._inspect(
            "run_end",
            self.session_context,
            info,
            output=info.response,
            duration=info.duration,
            is_error=info.error is not None,
        )

    async def dispatch_pre_turn(
        self, prompt: types.Content | None
    ) -> tuple[types.HookResult, TurnContext]:
        """Decide about a user's message; None becomes an empty text."""
        prompt = "" if prompt is None else prompt
        context, hooks, watch = TurnContext(self.session_context), self._hooks, self._watch()
        text = None if self._is_child else user_text(prompt)  # a model wrote it for a sub-agent
        if text is not None:
            message = Message(text, context.speaker())
            context.hear(message)
            said = self.session_context.said = self.session_context.said or Said()
            said.add(message)
        verdict, new = await adrive(points.pre_turn(hooks.at("pre_turn"), context, prompt, watch))
        return await self._decided(hooks, context, verdict, watch, new, input=new), context

    async def dispatch_post_turn(self, turn_context: TurnContext, response: Any) -> None:
        """Run the hooks of post_turn."""
        if observer is not None:
            observer.closed(turn_context, response, None)
        await self._inspect("post_turn", turn_context, response, output=response)

    async def dispatch_pre_agent(
        self, turn_context: HookContext, agent_call: types.AgentCall
    ) -> tuple[types.HookResult, OperationContext]:
        """Decide whether an agent starts."""
        context, hooks, watch = OperationContext(turn_context), self._hooks, self._watch()
        context.know(agent_name=getattr(agent_call, "agent", ""))
        verdict = await adrive(points.pre_agent(hooks.at("pre_agent"), context, agent_call, watch))
        given = getattr(agent_call, "input", None)
        return await self._decided(hooks, context, verdict, watch, agent_call, input=given), context

    async def dispatch_post_agent(self, op_context: HookContext, response: Any) -> Any:
        """Transform an agent's answer."""
        return await self._post("post_agent", op_context, response, results.place_value)

    # -- model ----------------------------------------------------------------------------------

    async def dispatch_pre_model_call(
        self, turn_context: HookContext, model_call: types.ModelCall
    ) -> tuple[types.HookResult, types.ModelCall, OperationContext]:
        """Decide about a model call."""
        context, hooks, watch = OperationContext(turn_context), self._hooks, self._watch()
        context.know(model_name=getattr(model_call, "model", ""))
        verdict, new = await adrive(
            points.pre_model_call(hooks.at("pre_model_call"), context, model_call, watch)
        )
        given = getattr(new, "messages", None)
        result = await self._decided(hooks, context, verdict, watch, new, input=given)
        return result, new, context

    async def dispatch_post_model_call(self, op_context: HookContext, response: Any) -> Any:
        """Transform a model's answer, then let the inspectors see it."""
        usage, name = getattr(response, "usage", None), op_context.known("model_name")
        for registration in self._hooks.at("pre_model_call").gates:
            assert registration.gate is not None
            await adrive(registration.gate.used(op_context, (name,), usage))
        return await self._post("post_model_call", op_context, response, results.place_response)

    async def dispatch_on_model_error(
        self, op_context: HookContext, error: Exception
    ) -> tuple[types.HookResult, Any]:
        """Ask for an answer in place of a model's failure."""
        return await self._on_error("on_model_error", op_context, error)

    # -- tool -----------------------------------------------------------------------------------

    async def dispatch_pre_tool_call(
        self, turn_context: HookContext, tool_call: types.ToolCall
    ) -> tuple[types.HookResult, types.ToolCall, OperationContext]:
        """Decide about a tool call; the returned call has the arguments that will run."""
        context, hooks, watch = OperationContext(turn_context), self._hooks, self._watch()
        call = context.call = Call.of(tool_call)
        context.know(tool_name=call.name)
        verdict = await adrive(
            points.pre_tool_call(hooks.at("pre_tool_call"), context, call, watch)
        )
        record = call.record()
        result = await self._decided(
            hooks,
            context,
            verdict,
            watch,
            record,
            tool_name=call.name,
            tool_call_id=call.id,
            input=call.args,
        )
        return result, record, context

    async def dispatch_post_tool_call(self, op_context: HookContext, tool_result: Any) -> Any:
        """Transform a tool's result, then let the inspectors see it."""
        data = await self._post("post_tool_call", op_context, tool_result, results.place_result)
        self._came(op_context, data)
        return data

    async def dispatch_on_tool_error(
        self, op_context: HookContext, error: Exception
    ) -> tuple[types.HookResult, Any]:
        """Ask for a value in place of a tool's failure."""
        result, value = await self._on_error("on_tool_error", op_context, error)
        self._came(op_context, value, error)
        return result, value

    def _came(self, context: HookContext, data: Any, error: BaseException | None = None) -> None:
        """Remember a result, or a failure, for the labels that the call has added."""
        if isinstance(context, OperationContext) and context.origins:
            context.come(self._hooks.outcome(data, error))

    # -- questions, compaction, stop, sub-agents --------------------------------------------------

    async def dispatch_interaction(
        self, turn_context: HookContext, interaction_spec: Any
    ) -> tuple[types.HookResult, Any, OperationContext]:
        """Ask for an answer to a question.

        Raises:
            Exception: What a hook raised.
        """
        context, hooks, watch = OperationContext(turn_context), self._hooks, self._watch()
        result, answer = await adrive(
            results.interaction(hooks.at("on_interaction"), context, interaction_spec, watch)
        )
        if observer is not None:
            observer.happened("on_interaction", context)
        await self._tell(hooks, "on_interaction", context, watch, input=interaction_spec)
        return result, answer, context

    async def dispatch_compaction(self, turn_context: HookContext, data: types.Step) -> None:
        """Run the hooks of on_compaction."""
        await self._inspect("on_compaction", OperationContext(turn_context), data, output=data)

    async def dispatch_stop(
        self, turn_context: HookContext, args: types.StopArgs
    ) -> types.StopHookResult:
        """Ask whether the turn may end.

        Raises:
            Exception: What a hook raised.
        """
        hooks, watch = self._hooks, self._watch()
        result = await adrive(results.stop(hooks.at("stop"), turn_context, args, watch))
        if observer is not None:
            observer.happened("stop", turn_context)
        await self._tell(hooks, "stop", turn_context, watch, reason=result.reason or None)
        return result

    async def dispatch_subagent_start(
        self, op_context: HookContext, info: types.SubagentInfo
    ) -> None:
        """Run the hooks of subagent_start."""
        await self._inspect("subagent_start", op_context, info, input=info.task)

    async def dispatch_subagent_stop(
        self, op_context: HookContext, info: types.SubagentInfo
    ) -> None:
        """Run the hooks of subagent_stop."""
        await self._inspect(
            "subagent_stop", op_context, info, output=info.response, duration=info.duration
        )

    # -- the two shapes that points share ---------------------------------------------------------

    async def _post(self, point: str, context: HookContext, data: Any, place: Any) -> Any:
        hooks, watch = self._hooks, self._watch()
        found = hooks.at(point)
        data, verdict = await adrive(results.post_point(point, found, context, data, watch, place))
        await adrive(results.inspect_point(found, context, data, watch))
        if observer is not None:
            observer.closed(context, data, verdict)
        failure = getattr(data, "error", None)
        await self._tell(
            hooks,
            point,
            context,
            watch,
            output=getattr(data, "result", data),
            is_error=failure is not None,
            error=str(failure) if failure is not None else None,
            failure=FAILED,
            tool_name=context.get("tool_name"),
            decision=verdict.decision if verdict else None,
            rule_id=verdict.rule_id if verdict else None,
            reason=verdict.reason if verdict else None,
        )
        return data

    async def _on_error(
        self, point: str, context: HookContext, error: Exception
    ) -> tuple[types.HookResult, Any]:
        hooks, watch = self._hooks, self._watch()
        result, value = await adrive(results.on_error(hooks.at(point), context, error, watch))
        if observer is not None:
            observer.failed(context, error, result.allow, value)
        await self._tell(
            hooks,
            point,
            context,
            watch,
            is_error=True,
            error=text_of(error, str),
            failure=error_type(error),
            output=value,
            tool_name=context.get("tool_name"),
        )
        return result, value


_QUIET = Watch()
