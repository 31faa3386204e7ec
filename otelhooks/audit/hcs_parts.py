"""The parts of `HcsAuditTrailHook`, which connect it to the pipeline.

One hands records over. The others refuse the mode that the Hedera Agent Kit calls RETURN_BYTES, in
which tools execute nothing that could be recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from otelhooks.hooks.base import PostParamsNormalizationHook, PreToolCallDecideHook
from otelhooks.hooks.context import OperationContext
from otelhooks.hooks.recorders import Recorder
from otelhooks.records.arguments import arguments_hash
from otelhooks.types import HookResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otelhooks.hooks.base import Hook
    from otelhooks.hooks.calls import Call
    from otelhooks.hooks.context import HookContext
    from otelhooks.hooks.recorders import Receipt
    from otelhooks.types import HookEvent, ToolCall

NAME = "HcsAuditTrailHook"
REFUSAL = f"{NAME} does not allow this tool in mode RETURN_BYTES, only in AUTONOMOUS."
RETURN_BYTES = "returnBytes"
"""The mode in which the kit sends nothing. Source: hedera-agent-kit 3.4.2, `AgentMode`."""


class _Whole(Protocol):
    """What the parts need of `HcsAuditTrailHook`."""

    required: bool
    executed_only: bool

    @property
    def spooled(self) -> int: ...

    def wants(self, tool: str, server: str | None, canonical: Iterable[str]) -> bool: ...

    def offer(self, client: Any) -> None: ...

    def write(self, record: Mapping[str, Any]) -> Receipt: ...

    def send(self) -> None: ...

    def flush(self, timeout: float | None = None) -> bool: ...


def parts_of(hook: _Whole) -> tuple[Hook, ...]:
    """Return the parts of a hook, each for a point of its own."""
    return _ModeAtFirst(hook), _ModeOfSteps(hook), _Records(hook)


def returns_bytes(context: Any) -> bool:
    """Return whether tools only return transactions, for others to sign and send.

    Args:
        context: The kit's own context.
    """
    mode = getattr(context, "mode", None)
    return getattr(mode, "value", mode) == RETURN_BYTES


class _Mode:
    """Refuses calls in a mode in which nothing is executed, so nothing could be recorded."""

    name = NAME

    def __init__(self, hook: _Whole) -> None:
        self._hook = hook

    async def run(self, context: HookContext, data: ToolCall) -> HookResult:
        if not isinstance(context, OperationContext) or context.stages is None:
            return HookResult()
        if not self._hook.wants(data.name, data.server_name, context.canonical):
            return HookResult()
        stages = context.stages
        self._hook.offer(stages.client)
        if returns_bytes(stages.context):
            return HookResult(allow=False, message=REFUSAL)
        return HookResult()


class _ModeAtFirst(_Mode, PreToolCallDecideHook):
    pass


class _ModeOfSteps(_Mode, PostParamsNormalizationHook):
    """Makes calls be judged where their mode is known; a seat outside the kit may not know it."""


class _Records(Recorder):
    """Hands records on; for a `HookRunner` used alone, creates them from events."""

    name = NAME

    def __init__(self, hook: _Whole) -> None:
        self._hook = hook
        self._followed: WeakSet[HookContext] = WeakSet()

    @property
    def required(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._hook.required

    @property
    def spooled(self) -> int:
        return self._hook.spooled

    def wants(self, call: Call) -> bool:
        return self._hook.wants(call.name, call.server, call.canonical)

    def follow(self, context: HookContext) -> None:
        self._followed.add(context)

    def wants_verdicts(self) -> bool:
        return not self._hook.executed_only

    def wants_end(self, is_failed: bool) -> bool:
        return is_failed != self._hook.executed_only

    def write(self, record: Mapping[str, Any], context: HookContext) -> Receipt:
        return self._hook.write(record)

    def flush(self, timeout: float | None = None) -> bool:
        return self._hook.flush(timeout)

    async def run(self, context: HookContext, data: HookEvent) -> None:
        call: Call | None = getattr(context, "call", None)
        if call is None or context in self._followed or not self.wants(call):
            return
        end: dict[str, Any] = {}
        if data.type == "tool_error":
            end = {"outcome": "failed"}
        elif data.type == "post_tool_use" and not data.is_error and data.decision != "deny":
            end = {"outcome": "ok"}
        is_wanted = self.wants_end(end["outcome"] == "failed") if end else self.wants_verdicts()
        if is_wanted and (end or data.decision is not None):
            fields = data.model_dump(mode="json", exclude={"input", "output"}, exclude_none=True)
            told = {name: value for name, value in fields.items() if value != ""}
            arguments = {"arguments": call.args, "arguments_hash": arguments_hash(call.args)}
            self._hook.write({**told, **arguments, **end})
            self._hook.send()
