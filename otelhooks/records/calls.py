"""Records that hooks receive: calls, results, runs, and the event of every point."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pydantic
from typing_extensions import Self

from otelhooks.plain_text import encodable
from otelhooks.records.arguments import as_text
from otelhooks.records.canonical_tools import BuiltinTools, normalize_builtin_tool_name
from otelhooks.records.users import User

__all__ = [
    "AgentCall",
    "HookEvent",
    "ModelCall",
    "ModelResponse",
    "Place",
    "RunInfo",
    "SubagentInfo",
    "ToolCall",
    "ToolResult",
    "Usage",
]


class Place(pydantic.BaseModel):
    """Where a record was made; filled by the pipeline, not part of a record's value."""

    agent: str = pydantic.Field(default="", exclude=True, repr=False)
    branch: str = pydantic.Field(default="", exclude=True, repr=False)
    task_id: str = pydantic.Field(default="", exclude=True, repr=False)
    session_id: str = pydantic.Field(default="", exclude=True, repr=False)
    turn: int = pydantic.Field(default=0, exclude=True, repr=False)
    trace_id: str = pydantic.Field(default="", exclude=True, repr=False)
    span_id: str = pydantic.Field(default="", exclude=True, repr=False)
    source: str = pydantic.Field(default="", exclude=True, repr=False)

    _PLACE: ClassVar[frozenset[str]] = frozenset(
        ("agent", "branch", "task_id", "session_id", "turn", "trace_id", "span_id", "source")
    )

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.__dict__, other.__dict__
        hidden = self._hidden()
        return {k: v for k, v in mine.items() if k not in hidden} == {
            k: v for k, v in theirs.items() if k not in hidden
        } and self.__pydantic_extra__ == getattr(other, "__pydantic_extra__", None)

    __hash__ = None  # type: ignore[assignment]  # mutable, like every pydantic model

    @classmethod
    def _hidden(cls) -> frozenset[str]:
        return cls._PLACE


def _as_given(name: Any, handler: pydantic.ValidatorFunctionWrapHandler) -> Any:
    """Keep text as text: a server's own tool may have the name of a deprecated member."""
    return name if isinstance(name, str) else handler(name)


class _NamedTool(Place):
    """A record that names a tool under today's name."""

    name: Annotated[BuiltinTools | str, pydantic.WrapValidator(_as_given)]
    id: str | None = None
    step_id: str | None = None
    server_name: str | None = None

    @pydantic.model_validator(mode="after")
    def _todays_name(self) -> Self:
        self.name = normalize_builtin_tool_name(self.name, server_name=self.server_name)
        return self


class ToolCall(_NamedTool):
    """A call of a tool that a model asked for.

    Attributes:
        name: Name that rules see.
        args: Keyword arguments, decoded; validated if the framework validates before our seat.
        id: The framework's id of the call.
        step_id: Id of the step that asked for it.
        canonical_path: Normalised path of a file tool.
        work_dir: Directory that the tool works in, if the adapter knows it: relative paths start
            there, and a tool that sees nothing else treats it as the root.
        server_name: Name the application gave to the MCP server that owns the tool.
        raw: The model's own text of the arguments, if there is one.
        prompt: What the user said in this turn, before hooks changed it; None if that is unknown. A
            sub-agent's input is not the user's: its calls have what the user said to the outermost
            agent.
        prompts: What this user said in the conversation, oldest first, with `prompt` as the last:
            the newest of them.
        user: The user, None if the application has named none.
    """

    args: dict[str, Any] = pydantic.Field(default_factory=dict)
    canonical_path: str | None = None
    work_dir: str | None = pydantic.Field(default=None, exclude=True, repr=False)
    raw: str | None = pydantic.Field(default=None, exclude=True, repr=False)
    prompt: str | None = pydantic.Field(default=None, exclude=True, repr=False)
    prompts: tuple[str, ...] = pydantic.Field(default=(), exclude=True, repr=False)
    user: User | None = pydantic.Field(default=None, exclude=True, repr=False)

    @classmethod
    def _hidden(cls) -> frozenset[str]:
        return cls._PLACE | {"raw", "work_dir", "prompt", "prompts", "user"}


class ToolResult(_NamedTool):
    """The result of a tool call.

    Attributes:
        name: Name that rules see.
        result: The tool's value, in a form that each adapter documents.
        error: Text of the failure, None on success.
        exception: The failure itself; never serialised.
        duration: Seconds that the tool ran.
        partial: True when a generator tool was closed before its end.
    """

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(
        extra="ignore", arbitrary_types_allowed=True
    )

    result: Any = None
    error: str | None = None
    exception: BaseException | None = pydantic.Field(default=None, exclude=True)
    duration: float | None = pydantic.Field(default=None, exclude=True, repr=False)
    partial: bool = pydantic.Field(default=False, exclude=True, repr=False)

    @classmethod
    def _hidden(cls) -> frozenset[str]:
        return cls._PLACE | {"duration", "partial"}


class Usage(pydantic.BaseModel):
    """Tokens of one or more model calls; input includes cached tokens.

    Source: OpenTelemetry GenAI conventions, ``gen_ai.usage.*``.
    """

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(extra="allow")

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    reasoning_output_tokens: int | None = None


class _ObjectRecord(Place):
    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(arbitrary_types_allowed=True)


class ModelCall(_ObjectRecord):
    """A call of a model; ``messages`` and ``tools`` hold the framework's own objects."""

    model: str = ""
    provider: str = ""
    messages: list[Any] = pydantic.Field(default_factory=list[Any])
    tools: list[Any] = pydantic.Field(default_factory=list[Any])
    settings: dict[str, Any] = pydantic.Field(default_factory=dict)


class ModelResponse(_ObjectRecord):
    """A model's answer; ``tool_calls`` are the calls that it asks for."""

    text: str = ""
    tool_calls: list[ToolCall] = pydantic.Field(default_factory=list[ToolCall])
    usage: Usage | None = None
    finish_reason: str = ""


class AgentCall(Place):
    """A call of an agent: its name and its input."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(arbitrary_types_allowed=True)

    agent: str = ""
    input: Any = None

    @classmethod
    def _hidden(cls) -> frozenset[str]:
        return cls._PLACE - {"agent"}


class RunInfo(_ObjectRecord):
    """One call of a framework's entry function; ``duration`` is seconds."""

    framework: str = ""
    input: Any = None
    response: Any = None
    error: BaseException | None = pydantic.Field(default=None, exclude=True)
    duration: float | None = None


class SubagentInfo(Place):
    """A sub-agent that was started or has stopped; ``duration`` is seconds."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(arbitrary_types_allowed=True)

    agent: str = ""
    parent: str = ""
    task: Any = None
    response: Any = None
    error: BaseException | None = pydantic.Field(default=None, exclude=True)
    duration: float | None = None

    @classmethod
    def _hidden(cls) -> frozenset[str]:
        return cls._PLACE - {"agent"}


class HookEvent(pydantic.BaseModel):
    """What happened at one point, reported after its chain, including denies.

    Attributes:
        type: ``pre_tool_use``, ``post_tool_use``, ``pre_model_call``, ... or the point's own name.
        timestamp: Seconds since the epoch.
        input: What went in; obeys capture mode and masking.
        output: What came out; obeys capture mode and masking.
        duration: Seconds.
        error: The failure's text, masked, if content is captured; else its class or kind.
        decision: ``allow``, ``deny``, ``ask`` or ``modify`` at points that decide.
        trace_id: 32 hexadecimal digits, empty without a trace.
        span_id: 16 hexadecimal digits, empty without a span.
    """

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(arbitrary_types_allowed=True)

    type: str
    timestamp: float = 0.0
    agent_name: str = ""
    task_id: str = ""
    branch: str = ""
    tool_call_id: str | None = None
    tool_name: str | None = None
    input: Any = None
    output: Any = None
    is_error: bool = False
    duration: float | None = None
    usage: Usage | None = None
    error: str | None = None
    decision: str | None = None
    rule_id: str | None = None
    reason: str | None = None
    trace_id: str = ""
    span_id: str = ""

    @pydantic.field_serializer("*", mode="wrap", when_used="json")
    def _anything_to_json(self, value: Any, handler: pydantic.SerializerFunctionWrapHandler) -> Any:
        """Serialise any object: a listener's JSON must not depend on what a tool returned."""
        try:
            return encodable(handler(value))
        except Exception:  # the object's own serialiser may raise anything
            return encodable(as_text(value))
