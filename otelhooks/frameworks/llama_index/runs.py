# pyright: basic
"""Runs of agents and of workflows of agents, whose steps the framework calls in tasks."""

from __future__ import annotations

import functools
import json
from contextvars import ContextVar
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import pending
from otelhooks.frameworks.kit.objects import outer

__all__ = ["STEPS", "Run", "approval_of", "asking", "at_work", "step", "tell"]

STEPS = (
    *("init_run", "setup_agent", "run_agent_step", "parse_agent_output"),
    *("call_tool", "aggregate_tool_results"),
)
WAITING = "workflows.runtime.types.results:WaitingForEvent"
_EVENTS = "llama_index.core.agent.workflow.workflow_events"
_TYPES = "llama_index.core.base.llms.types"
_FLOW, _CONTEXT = "workflows.events", "workflows.context.context:Context"
_events, _flow = kit.module(_EVENTS), kit.module(_FLOW)
_ANSWERS = [f"{_EVENTS}:Agent{name}" for name in ("Stream", "Output", "StreamStructuredOutput")]

_approval: ContextVar[tuple[str, bool] | None] = ContextVar("otelhooks_approval", default=None)


def _said(role: str, text: str) -> Any:
    return kit.native(f"{_TYPES}:ChatMessage")(text, role=role)


class Run(pending.Run):
    """A run of an agent, or of a workflow of agents, which hand over to one another."""

    can_go_on = True
    pauses = (WAITING, "workflows.errors:WorkflowCancelledByUser")

    def read(self, owner: Any, /, *args: Any, **given: Any) -> None:
        self.owner, self.given = owner, (args, given)
        self.agent = self.at_work = getattr(owner, "name", None) or owner.root_agent
        given_contexts = [one for one in (*args, *given.values()) if kit.is_a(one, _CONTEXT)]
        self.is_resumed = any(one.is_running for one in given_contexts)
        self.last: Any = None  # result of the step that ran last
        self.ctx: Any = None  # of that step
        self.held: Any = []  # events that tell the answer; None once it is final
        self.asked: set[str] = set()

    def call(self, wrapped: Any) -> Any:
        args, given = self.given
        handle = wrapped(*args, **given)
        self.shares(handle.ctx)
        return handle

    def starts(self, ev: Any) -> None:
        memory, history = ev.get("memory", None), ev.get("chat_history", None) or ()
        key = getattr(memory, "session_id", None) or getattr(memory, "chat_store_key", "")
        self.conversation = "" if key == "chat_history" else key  # the name of all that have none
        self.shares(memory)
        users = [one for one in history if one.role == "user"]
        message = ev.get("user_msg", None) or (users[-1] if users else "")
        self.prompt = message if isinstance(message, str) else message.content

    def rewritten(self, ev: Any) -> Any:
        """Return the event that starts the run with the message that hooks wrote."""
        made, new = ev.model_copy(), _said("user", str(self.prompt))
        made._data = {**ev._data}  # of fields that no class declares; a copy shares it
        if (message := ev.get("user_msg", None)) is not None:
            made.user_msg = _with_text(message, new)
            return made
        history = list(ev.get("chat_history", None) or ())
        at = [at for at, one in enumerate(history) if one.role == "user"][-1]
        history[at] = _with_text(history[at], new)
        made.chat_history = history
        return made

    async def body(self, wrapped: Any, ctx: Any, ev: Any) -> Any:
        if self.is_rewritten and kit.is_a(ev, f"{_FLOW}:StartEvent"):
            ev = self.rewritten(ev)
        if wrapped.__name__ != "call_tool":
            self.at_work = getattr(ev, "current_agent_name", self.at_work)
            result = await wrapped(ctx, ev)
            self.last = result if self.is_end(result) else None
            return result
        self.at_work = await ctx.store.get("current_agent_name", default=self.at_work)
        call = functools.partial(outer.noted, ev.tool_name, ev.tool_id, wrapped, ctx, ev)
        try:
            if ev.tool_id in self.asked:
                return await self.approved(call, ctx, ev, "")
            result = await call()
        except Exception as error:
            reason = getattr(error, "asks", None)
            if reason is None:
                raise
            self.asked.add(ev.tool_id)
            return await self.approved(call, ctx, ev, reason)
        kit.ToolCall.not_run(ev.tool_id)
        return result

    async def approved(self, call: Any, ctx: Any, ev: Any, reason: str) -> Any:
        """Ask the reader of events, and make the call when the answer has come."""
        shown = {"tool_id": ev.tool_id, "tool_name": ev.tool_name, "tool_kwargs": ev.tool_kwargs}
        question = _flow.InputRequiredEvent(prefix=reason, **shown)
        answer = await ctx.wait_for_event(
            _flow.HumanResponseEvent,
            waiter_event=question,
            waiter_id=f"otelhooks_{ev.tool_id}",
            requirements={"tool_id": ev.tool_id},
        )
        said = answer.get("response", None)
        is_yes = said is True or (isinstance(said, str) and said.strip().lower() in ("y", "yes"))
        with outer.known(_approval, (ev.tool_id, is_yes)):
            return await call()

    def is_end(self, result: Any) -> bool:
        return kit.is_a(result, f"{_FLOW}:StopEvent")

    def denied(self, reason: str) -> Any:
        made = {"response": _said("assistant", reason), "current_agent_name": self.at_work}
        return _flow.StopEvent(result=_events.AgentOutput(**made))

    def answer_of(self, raw: Any) -> Any:
        output = raw.result
        if output.structured_response is None:
            return output.response.content or ""
        form = json.dumps(output.structured_response, default=str)
        return f"{output.response.content or ''}\n{form}"

    def with_answer(self, raw: Any, answer: Any) -> Any:
        old = raw.result.response.content
        response = _with_text(raw.result.response, _said("assistant", str(answer)))
        calls = [_without(old, str(answer), call) for call in raw.result.tool_calls]
        new = {"response": response, "raw": None, "structured_response": None, "tool_calls": calls}
        return _flow.StopEvent(result=raw.result.model_copy(update=new))

    async def again(self, raw: Any, reason: str) -> Any:
        self.last, self.held = None, []
        memory = await self.ctx.store.get("memory")
        await memory.aput(_said("user", reason))
        await self.ctx.store.set("user_msg_str", reason)
        said, name = await memory.aget(input=reason), raw.result.current_agent_name
        return _events.AgentInput(input=said, current_agent_name=name)

    async def end(self, result: Any) -> None:
        """Let held events go, or tell what hooks made of the answer; now, and in later runs."""
        last, held, output = self.last, self.held or (), result.result
        self.last = self.held = None
        if result is not last:
            told = {"response": str(output), "current_agent_name": output.current_agent_name}
            held = (_events.AgentStream(delta=str(output), **told), output)
        if last is not None and result is not last:
            await self.forget(last.result.response.content, output.response)
        for ev in held:
            self.ctx.write_event_to_stream(ev)

    async def forget(self, old: str, new: Any) -> None:
        """Replace an answer in what the next run remembers, back to the user's message."""
        memory = await self.ctx.store.get("memory")
        said = list(await memory.aget_all())
        for at in reversed(range(len(said))):
            if said[at].role == "user":
                break
            if old and old in (said[at].content or ""):
                said[at] = _with_text(said[at], new)
        await memory.aset(said)


def _with_text(message: Any, new: Any) -> Any:
    """Return a message with another's text, and all else that it has but its texts."""
    if isinstance(message, str):
        return new
    kept = [block for block in message.blocks if block.block_type != "text"]
    return message.model_copy(update={"blocks": [*new.blocks, *kept]})


def _without(old: str, new: str, call: Any) -> Any:
    output = getattr(call, "tool_output", None)
    if output is None or not old or old not in output.content:
        return call
    made = type(output)(new, output.tool_name, raw_input=output.raw_input, raw_output=new)
    return call.model_copy(update={"tool_output": made})


async def step(wrapped: Any, owner: Any, ctx: Any, ev: Any) -> Any:
    """Run one step of a run, which the first one begins and the last one ends."""
    run = Run.of(owner)
    if run is None:
        return await wrapped(ctx, ev)
    run.ctx = ctx
    if kit.is_a(ev, f"{_FLOW}:StartEvent"):
        run.starts(ev)
    result = await run.step(functools.partial(run.body, wrapped, ctx, ev))
    if run.is_end(result) and not run.is_open and run.held is not None:
        await run.end(result)
    return result


def tell(wrapped: Any, ctx: Any, ev: Any) -> Any:
    """Write an event, unless it tells an answer that hooks may still change."""
    run = pending.Run.here()
    if run is None or run.held is None or not run.holds_back or not run.is_open:
        return wrapped(ev)
    ends = kit.is_a(ev, f"{_EVENTS}:ToolCallResult") and ev.return_direct
    if ends or kit.is_a(ev, *_ANSWERS):
        run.held.append(ev)
        return None
    if kit.is_a(ev, f"{_EVENTS}:ToolCall"):  # text before it is not the answer
        held, run.held = run.held, []
        for one in held:
            wrapped(one)
    return wrapped(ev)


def at_work() -> str:
    """Return the agent that is at work, empty outside any run."""
    run = pending.Run.here()
    return run.at_work if run is not None and run.is_open else ""


def asking(id: str, reason: str) -> Any:
    """Return what pauses a step that calls a tool, until the reader of events has answered."""
    run = pending.Run.here()
    if not id or run is None or not run.is_open:
        return None
    return _asks(reason)


@kit.subclass(WAITING)
def _asks(base: Any) -> Any:
    def init(self: Any, reason: str) -> None:
        self.asks = reason

    return type("Asks", (base,), {"__init__": init})


def approval_of(id: str) -> bool | None:
    """Return what was answered for the call with an id; None if nothing was."""
    found = _approval.get()
    return found[1] if found is not None and found[0] == id else None
