# pyright: basic
"""The client ``anthropic``, 0.80 and newer: loops that are written by hand, and its tool runner.

``SyncAPIClient.request`` and ``AsyncAPIClient.request`` see each request for a model's answer once:
messages, beta or not, parsed, streamed, with the raw response, and those of Bedrock and Vertex. The
calls in the answer are judged there (see `kit.clients`). What the tool runner runs passes `call` of
the tool or `tool_result` of the toolset, and keeps the same verdict. A request that a guarded
framework sends through the client passes, since that framework's own seats judge it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.anthropic.messages import MessagesRequest, built_in
from otelhooks.frameworks.kit import contents, telemetry
from otelhooks.frameworks.kit.clients.calls import IN_PART, ON_DENIED
from otelhooks.frameworks.kit.clients.generated import UnreadRequest

__all__ = ["ADAPTER"]

_FUNCTIONS = "anthropic.lib.tools._beta_functions"
_RUNNER = "anthropic.lib.tools._beta_runner"
_TOOLSETS = "anthropic.lib.tools._toolsets._runnable"


class Tool(kit.ToolCall):
    """A call of a tool that the client runs, or that user code does with ``tool.call(input)``."""

    framework = "anthropic"

    def read(self, tool: Any, /, input: Any) -> None:
        self.name, self.description = tool.name, getattr(tool, "description", "")
        self._given = input
        self.take(input if isinstance(input, Mapping) else {"arguments": input})
        function = getattr(tool, "func", None)
        if getattr(function, "__qualname__", "").startswith(("mcp_tool.", "async_mcp_tool.")):
            self.is_of_server(self.name, None)
        for name, value in built_in(tool.to_dict(), self.args).items():
            setattr(self, name, value)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args if isinstance(self._given, Mapping) else self._given)

    def denied(self, reason: str) -> Any:
        try:
            raise kit.native("anthropic.lib.tools:ToolError")(reason)
        except AttributeError:  # before 0.100 the model reads any exception
            raise self.exception(reason) from None

    def value(self, raw: Any) -> Any:
        return raw if isinstance(raw, str) or raw is None else contents.content_value(list(raw))

    def with_value(self, raw: Any, value: Any) -> Any:
        return self.text_of(value)


class Member(kit.ToolCall):
    """A call of a toolset's member."""

    framework, tells_failures = "anthropic", True

    def read(self, toolset: Any, /, tool_use: Any) -> None:
        self.name, self.id, self._use = tool_use.name, tool_use.id, tool_use
        self.canonical = (f"{tool_use.toolset_name}.{tool_use.name}",)
        self.take(dict(tool_use.input))

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(self._use.model_copy(update={"input": args}))

    def denied(self, reason: str) -> Any:
        return self._result(reason, is_error=True)

    def error(self, raw: Any) -> str | None:
        return contents.error_of(raw)

    def value(self, raw: Any) -> Any:
        content = raw.get("content")
        return content if isinstance(content, str) else contents.content_value(content or ())

    def with_value(self, raw: Any, value: Any) -> Any:
        return {**raw, "content": self.text_of(value)}

    def recovered(self, value: Any) -> Any:
        return self._result(self.text_of(value))

    def _result(self, text: str, **more: Any) -> dict[str, Any]:
        made = {"type": "tool_result", "tool_use_id": self.id, "content": text, **more}
        return {**made, "toolset_name": self._use.toolset_name}


class Unread(UnreadRequest):
    """Legacy completions."""

    framework = "anthropic"
    paths = ("/complete",)


def call_span(wrapped: Any, _: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Return a replacement for the client's span of a request for an answer."""
    options = args[2] if len(args) > 2 else kwargs.get("options")
    asks = getattr(options, "span_name", None) == "anthropic.messages.create"
    own = telemetry.in_place_of_own_call("anthropic") if asks else None
    return own or wrapped(*args, **kwargs)


def runner_span(wrapped: Any, _: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Return a replacement for the tool runner's span inside a run, whose loop it is."""
    return telemetry.in_place_of_own("anthropic") or wrapped(*args, **kwargs)


_REQUESTS = (MessagesRequest, Unread)

ADAPTER = kit.Adapter(
    "anthropic",
    kit.Package("anthropic", ">=0.80,<3", module="anthropic"),
    seats=(
        kit.seat(
            "anthropic._base_client:(Sync|Async)APIClient.request", *_REQUESTS, overrides=True
        ),
        kit.listen("anthropic._base_client:start_api_call_span", call_span, required=False),
        kit.listen(f"{_RUNNER}:start_tool_runner_span", runner_span, required=False),
        kit.seat(f"{_FUNCTIONS}:Beta(|Async)(|Builtin)FunctionTool.call", Tool, overrides=True),
        kit.seat(
            f"{_TOOLSETS}:Beta(|Async)RunnableToolset.tool_result",
            Member,
            overrides=True,
            required=False,
        ),
    ),
    not_covered={
        "legacy completions, message batches": (
            "no rule is asked about them; completions are reported, and denied under `strict=True`"
        ),
        "tools of the provider, managed sessions": "they run at the provider",
        "the function behind a tool": "calling it is plain Python",
    },
    options={"on_denied": ON_DENIED},
    in_part=IN_PART,
)
