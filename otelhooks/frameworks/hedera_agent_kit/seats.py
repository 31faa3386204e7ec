# pyright: basic, reportMissingImports=false
"""A call on its way through the kit: how seats read and write it, and lead it to the next one.

The way is toolkit, `HederaAgentAPI.run`, ``execute`` of the tool; a subclass' own method may lead
on to the one that it overrides. The first seat judges and leaves a permit for what it hands on.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import wrapt

from otelhooks.frameworks.hedera_agent_kit import results
from otelhooks.frameworks.hedera_agent_kit.arguments import Given, as_arguments
from otelhooks.hooks.calls import Call, same_json
from otelhooks.hooks.stages import StageParams
from otelhooks.patching.builtin import BuiltIn
from otelhooks.patching.seats import GUARD, SeatWrapper
from otelhooks.pipeline.frames import Op, current_frame, current_scope
from otelhooks.pipeline.permits import Handoff, Permit
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.pipeline.tool_stages import ACTED, NORMALIZED, Stages

__all__ = [
    "BUILT_IN",
    "LANGCHAIN",
    "MCP",
    "ToolRun",
    "calls_on",
    "come_from_langchain",
    "find",
    "is_guarded",
    "kind_of",
    "lead_on",
    "running",
    "uses_super",
]

FRAMEWORK = "hedera_agent_kit"
LANGCHAIN, MCP = "hedera_agent_kit.langchain", "hedera_agent_kit.mcp"
"""Where the seats of langchain and mcp lead a call of the kit's toolkits to."""

_PLUGINS = f"{FRAMEWORK}.plugins"
BUILT_IN = {f"{_PLUGINS}:*": BuiltIn("all tools of the kit's plugins", (), "net")}
"""One line for all: each asks a mirror node, or sends a transaction to the ledger."""

running: ContextVar[ToolRun | None] = ContextVar("otelhooks-hedera-agent-kit", default=None)
"""The innermost ``execute`` that runs."""


def kind_of(tool: Any) -> str | None:
    """Return the kind of a tool: one of the kit's own, or made of one, reaches the network."""
    modules = (cls.__module__ for cls in type(tool).__mro__)
    return "net" if any(module.startswith(f"{_PLUGINS}.") for module in modules) else None


class ToolRun(ToolSeat):
    """One call of one tool, at the API or at the tool itself.

    `ToolResult.result` holds the response.

    Args:
        owner: The API or the tool.
        name: The tool's name for models, its ``method``.
        given: Its parameters.
        params: Makes what hooks of the tool's steps are shown; None where the tool is not there.
        kind: Of the tool.

    Attributes:
        call: The call.
        tool: The tool, where its ``execute`` runs.
        step: The step of the tool that runs; empty between them.
        taken: The steps that the tool takes, where hooks may look at them.
        exception: What the tool has made a response of.
    """

    framework = FRAMEWORK

    def __init__(
        self,
        owner: Any,
        name: str,
        given: Given,
        params: Callable[[], StageParams] | None = None,
        kind: str | None = None,
    ) -> None:
        self.group = _seat_of(owner)
        self._owner = owner
        self._params = params
        self.tool: Any = None
        self.step = ""
        self.taken: Stages | None = None
        self.exception: Exception | None = None
        self._was_told = False
        # Without the tool's description, which is a whole prompt in the kit.
        self.call = Call(name, given.shown, kind=kind, is_known=params is not None)

    def stages(self, call: Call) -> StageParams | None:
        """Return what hooks are shown of the tool's steps."""
        return self._params() if self._params is not None else None

    def denied(self, call: Call, reason: str) -> Any:
        """Return a response with the reason as its error."""
        return results.refusal(self._owner, reason)

    def result(self, call: Call, raw: Any) -> Any:
        """Return a response in a copy of its own, anything else as it is."""
        return results.shown(raw)

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        """Put other contents into a response."""
        return results.rewritten(raw, value)

    def withheld(self, call: Call, raw: Any, reason: str) -> Any:
        """Return a response with the reason as its error, and nothing of the result."""
        return results.refusal(self._owner, reason)

    def error(self, call: Call, raw: Any) -> Exception | str | None:
        """Return the exception that the tool has made a response of, or the response's error."""
        text = results.error_of(raw)
        if text is None:
            return None
        self._was_told = True
        deeper = call.op.failure if call.op is not None else None
        return self.exception or (deeper if isinstance(deeper, Exception) else text)

    def failed(self, call: Call, error: BaseException, message: str) -> Any:
        """Tell another text where the failure was told, raise it where it was raised."""
        if self._was_told:
            return results.refusal(self._owner, message)
        return super().failed(call, error, message)

    def recovered(self, call: Call, value: Any) -> Any:
        """Return a value as a tool's response."""
        return results.response_of(self._owner, value)

    @contextlib.contextmanager
    def open(self, tool: Any) -> Iterator[None]:
        """Make it the call that runs, for a block that runs a tool's ``execute``."""
        frame, outer = current_frame(), running.get()
        self.tool, self.taken = tool, frame.stages if type(frame) is Op else None
        if outer is not None and outer.tool is tool and outer.taken not in (None, self.taken):
            outer.taken.hand_over()
        running.set(self)
        try:
            yield
        finally:
            running.set(outer)

    def come_from_mcp(self, rt: Runtime) -> None:
        """Take up the permit of the kit's MCP server, whose calls pack the parameters once more.

        Rules are asked again, on the same span: they see the parameters, and a bare name of the
        tool denies here as it does without MCP.
        """
        frame, call = current_frame(), self.call
        if type(frame) is not Op or frame.call is None or self._misses_steps(rt, frame):
            return
        for permit in _permits(frame, MCP, call.name):
            packed = permit.args.get("kwargs")
            if not same_json(packed if type(packed) is dict else permit.args, call.args):
                continue
            if _use_up(frame, permit):
                outer = frame.call
                call.server, call.claimed_server = outer.server, outer.claimed_server
                call.server_says, call.canonical = outer.server_says, (call.name,)
                self.judges_again = True
                frame.permits.leave(Handoff(self.group, call.name), call.args)
                return

    def _misses_steps(self, rt: Runtime, frame: Op) -> bool:
        """Say whether hooks want to look at steps that the seat outside knew nothing of.

        It can be the client of a server in this process. The call is judged by itself then.
        """
        if frame.stages is not None:
            return False
        hooks, _ = rt.in_force(current_scope(), frame.branch)
        if not hooks.all:
            return False
        hooks, params = hooks.in_stages(), self.stages(self.call)
        looks = hooks.at(NORMALIZED) or hooks.at(ACTED)
        return bool(looks) and params is not None and params.is_staged


def come_from_langchain(tool: Any, parameters: dict[str, Any]) -> None:
    """Take up the permit of langchain's tool, which has validated the arguments since.

    Args:
        tool: The kit's tool for langchain.
        parameters: That it hands on.
    """
    frame = current_frame()
    if type(frame) is Op:
        for permit in _permits(frame, LANGCHAIN, tool.method):
            if _use_up(frame, permit):
                lead_on(tool.hedera_api, tool.method, parameters)
                return


def _permits(frame: Op, seat: str, name: str) -> list[Permit]:
    return [one for one in tuple(frame.permits) if (one.to.seat, one.to.name) == (seat, name)]


def _use_up(frame: Op, permit: Permit) -> bool:
    try:
        frame.permits.remove(permit)
    except ValueError:  # another thread was faster
        return False
    return True


def lead_on(owner: Any, name: str, value: Any) -> None:
    """Leave a permit for the next seat of the call that is under way.

    Args:
        owner: The API or tool that is called next, which alone can take the permit.
        name: The tool's.
        value: The parameters that it is handed.
    """
    frame = current_frame()
    if type(frame) is Op:
        frame.permits.leave(Handoff(_seat_of(owner), name), as_arguments(value))


def _seat_of(owner: Any) -> str:
    return f"hedera_agent_kit.{id(owner)}"


def find(api: Any, method: Any) -> Any:
    """Return the tool that the API will run; None where there is none of this name."""
    return next((one for one in api.tools if getattr(one, "method", None) == method), None)


def is_guarded(tool: Any) -> bool:
    """Say whether the ``execute`` that a tool has passes a seat: an object may have its own."""
    if "execute" in getattr(tool, "__dict__", ()):
        return False
    return _has_seat(inspect.getattr_static(type(tool), "execute", None))


def _has_seat(method: Any) -> bool:
    # isinstance() would ask the wrapped object
    return any(
        issubclass(type(entry), SeatWrapper) and entry._self_switch.mode == GUARD
        for entry in wrapt.wrapper_chain(method)
    )


def calls_on(instance: Any, name: str, method: Callable[..., Any]) -> bool:
    """Say whether a method may call one that it overrides, and that has a seat.

    Args:
        instance: Whose method it is.
        name: Of the method.
        method: Bound, without our wrapper.
    """
    function = getattr(method, "__func__", method)
    if not uses_super(function):
        return False
    is_below = False
    for cls in type(instance).__mro__:
        found = vars(cls).get(name)
        if found is not None and is_below:
            return _has_seat(found)
        if found is not None:
            is_below = any(entry is function for entry in wrapt.wrapper_chain(found))
    return False


def uses_super(function: Any) -> bool:
    """Say whether a function, below its wrappers, calls `super`, as far as its code tells."""
    *_, inner = wrapt.wrapper_chain(function)
    code = getattr(inner, "__code__", None)
    return code is not None and "super" in code.co_names
