# pyright: basic, reportMissingImports=false
"""A call on its way through the kit: the API, the tool, and the steps of the tool.

Source: hedera-agent-kit 3.4.2, ``shared``.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import steps
from otelhooks.frameworks.kit.objects import overrides
from otelhooks.frameworks.kit.values import Value

__all__ = [
    "ADK",
    "LANGCHAIN",
    "MCP",
    "PLUGINS",
    "Act",
    "ApiCall",
    "Commit",
    "Normalize",
    "ToolRun",
    "behind_adk",
    "behind_langchain",
    "behind_mcp",
    "from_langchain",
    "kind_of",
    "note_error",
]

ADK, LANGCHAIN, MCP = (f"hedera_agent_kit.{name}" for name in ("adk", "langchain", "mcp"))
"""Where agent frameworks lead calls of the kit's toolkits."""

PLUGINS = "hedera_agent_kit.plugins"
_PHASED = "hedera_agent_kit.shared.tool_v2:BaseToolV2"
_RESPONSE, _EXECUTED, _RECEIPT = (
    f"hedera_agent_kit.shared.models:{name}"
    for name in ("ToolResponse", "ExecutedTransactionToolResponse", "RawTransactionResponse")
)


def kind_of(tool: Any) -> str | None:
    """Return a tool's kind: the kit's own tools, and those derived from them, use the network."""
    modules = (cls.__module__ for cls in type(tool).__mro__)
    return "net" if any(module.startswith(f"{PLUGINS}.") for module in modules) else None


def _staged(tool: Any, method: str, client: Any, context: Any) -> steps.StageParams:
    """Return what hooks are shown of a tool's steps: those of the kit's second generation."""
    execute = overrides.Method(tool, "execute")
    is_staged = execute.is_guarded and execute.reaches(_PHASED)
    return steps.StageParams(method, context, client=client, is_staged=is_staged)


def _find(api: Any, method: Any) -> Any:
    return next((one for one in api.tools if getattr(one, "method", None) == method), None)


def behind_api(api: Any, method: Any) -> steps.StageParams | None:
    """Return what hooks are shown of a call of the API; None if it has no such tool."""
    tool = _find(api, method)
    return None if tool is None else _staged(tool, method, api.client, api.context)


def behind_langchain(tool: Any, name: str) -> steps.StageParams | None:
    """Return what hooks are shown of a call of the kit's tool for langchain."""
    return behind_api(tool.hedera_api, name) if tool.method == name else None


def behind_adk(tool: Any, name: str) -> steps.StageParams | None:
    """Return what hooks are shown of a call of the kit's tool for ADK."""
    return behind_api(tool._hedera_api, name)


def behind_mcp(handler: Any, name: str) -> steps.StageParams | None:
    """Return what hooks are shown of a call of a function that the kit's MCP server serves."""
    closed = inspect.getclosurevars(handler).nonlocals
    return behind_api(closed["self"]._hedera_agent_kit, closed["tool"].method)


class _Call(kit.ToolCall):
    """What both seats of a call share; hooks see a response of the kit as the result.

    Attributes:
        method: Name of the function whose seat it is.
        tool: The tool that a call of the API is for.
        given: What comes before the parameters, after them, and by name.
        caught: The exception that the tool turned into a response.
    """

    group, text_name = "hedera_agent_kit", "params"
    method: str
    tool: Any = None
    given: tuple[Any, Any, Any]
    caught: Exception | None = None

    async def call(self, wrapped: Any, args: Any) -> Any:
        """Call it; the method that it overrides, or the tool, has the next seat."""
        if overrides.Method(self.owner, self.method).calls_on(wrapped):
            self.expect(self.name, self.owner, args)
        elif self.tool is not None and overrides.Method(self.tool, "execute").is_guarded:
            self.expect(self.name, self.tool, args)
        first, rest, named = self.given
        answer = wrapped(*first, args, *rest, **named)
        # a tool's method need not be a coroutine function
        return await answer if inspect.isawaitable(answer) else answer

    def denied(self, reason: str) -> Any:
        """Return a response that reports an error to a model, and to programs that parse it."""
        return self._response(human_message=reason, error=reason)

    def withheld(self, raw: Any, reason: str) -> Any:
        """Return the same, without anything of the result."""
        return self.denied(reason)

    def value(self, raw: Any) -> Any:
        """Return a copy of a response, which hooks may change without effect, or another value."""
        if not kit.is_a(raw, _RESPONSE):
            return raw
        return dataclasses.replace(raw, extra=self.own(raw.extra))

    def with_value(self, raw: Any, value: Any) -> Any:
        """Return a response unchanged; any other value as the message of a new one.

        Only the ledger's receipt, status and ids of the old response are kept.
        """
        if not kit.is_a(raw, _RESPONSE) or kit.is_a(value, _RESPONSE):
            return value
        receipt: Any = getattr(raw, "raw", None)
        if kit.is_a(raw, _EXECUTED) and type(receipt) is kit.native(_RECEIPT, receipt):
            executed = kit.native(_EXECUTED, raw)
            return executed(
                human_message=self.text_of(value), raw=dataclasses.replace(receipt, error=None)
            )
        return kit.native(_RESPONSE, raw)(human_message=self.text_of(value))

    def error(self, raw: Any) -> Exception | str | None:
        """Return the exception that the tool turned into a response, or the response's error."""
        if not kit.is_a(raw, _RESPONSE) or not raw.error:
            return None
        deeper = self.op.failure if self.op is not None else None
        return self.caught or (deeper if isinstance(deeper, Exception) else str(raw.error))

    def recovered(self, value: Any) -> Any:
        is_response = kit.is_a(value, _RESPONSE)
        return value if is_response else self._response(human_message=self.text_of(value))

    def _response(self, **fields: Any) -> Any:
        return kit.native(_RESPONSE, self.owner)(**fields)


class ApiCall(_Call):
    """A call of ``HederaAgentAPI.run``, or of a method that overrides it."""

    method = "run"

    def read(self, api: Any, method: Any, arg: Any = None, *args: Any, **kwargs: Any) -> None:
        """Read it, with the tool that will run; an override may take more."""
        self.owner, self.name, self.given = api, str(method), ((method,), args, kwargs)
        self.take_all(arg)
        self.tool = _find(api, method)
        self.is_known = self.tool is not None
        self.kind = kind_of(self.tool)
        self.comes_from(MCP, _unpacked)
        self.comes_from(ADK, self._validated)

    def _validated(self, arguments: dict[str, Any]) -> Any:
        """Return the parameters that the kit's tool for ADK makes of a call's arguments."""
        if self.tool is None:
            return arguments
        given = self.tool.parameters.model_validate(arguments).model_dump()
        return Value(given, self.text_name).shown

    def stages(self) -> steps.StageParams | None:
        return behind_api(self.owner, self.given[0][0])

    def refused(self, error: Exception) -> Any:
        """Raise: a program that enters the kit should see why."""
        raise error


class ToolRun(_Call, steps.StagedCall):
    """A call of a tool's ``execute``; every class of tools has its own."""

    method = "execute"

    def read(
        self,
        tool: Any,
        client: Any = None,
        context: Any = None,
        params: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Read it; without the tool's description, which is a whole prompt in the kit."""
        self.owner, self.given = tool, ((client, context), args, kwargs)
        self.name = str(getattr(tool, "method", type(tool).__name__))
        self.take_all(params)
        self.kind = kind_of(tool)

    def stages(self) -> steps.StageParams:
        return _staged(self.owner, self.name, *self.given[0])


def from_langchain(wrapped: Any, tool: Any, /, *args: Any, **parameters: Any) -> Any:
    """Pass on a call of the kit's tool for langchain, with langchain's validated parameters."""
    ApiCall.expect(tool.method, tool.hedera_api, parameters, LANGCHAIN)
    return wrapped(*args, **parameters)


def note_error(wrapped: Any, tool: Any, *args: Any, **kwargs: Any) -> Any:
    """Keep the exception that a tool turns into a response."""
    run: Any = steps.StagedCall.running(tool)
    error = args[0] if args else kwargs.get("error")
    if run is not None and isinstance(error, Exception):
        run.caught = error
    return wrapped(*args, **kwargs)


class Normalize(steps.Step):
    """The step that normalizes the parameters."""

    point = steps.Step.NORMALIZED


class Act(steps.Step):
    """The step that queries, or prepares a transaction."""

    point, behind = steps.Step.ACTED, (steps.Step.NORMALIZED,)

    def commits(self, value: Any, context: Any) -> Any:
        """Return whether the transaction is still to be sent."""
        return self.owner.should_secondary_action(value, context)


class Commit(steps.Step):
    """The step that sends a transaction, or returns its bytes."""

    behind = (steps.Step.NORMALIZED, steps.Step.ACTED)


def _unpacked(arguments: dict[str, Any]) -> Any:
    """Return the parameters of a call of the kit's MCP server, which wraps them once more."""
    packed = arguments.get("kwargs")
    return packed if type(packed) is dict else arguments
