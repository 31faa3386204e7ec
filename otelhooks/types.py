"""Records that cross a boundary: what hooks receive, what they return, server configurations.

Classes that google-antigravity has keep its names, fields and defaults (Source: google-antigravity
0.1.22, ``types``); further fields are ours. Fields in which the pipeline tells a hook where it runs
(``agent``, ``session_id``, ``trace_id``, ...) are left out of ``==`` and of dumps.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import pydantic
from typing_extensions import Self, deprecated

from otelhooks.media import (
    Audio,
    Document,
    Image,
    Video,
    from_bytes,
    from_file,
)
from otelhooks.state import StateStore

__all__ = [
    "AgentCall",
    "AskQuestionEntry",
    "AskQuestionInteractionSpec",
    "AskQuestionOption",
    "Audio",
    "BaseMcpServerConfig",
    "BuiltinTools",
    "Content",
    "Document",
    "HookAction",
    "HookEvent",
    "HookResult",
    "Image",
    "McpHttpServer",
    "McpServerConfig",
    "McpStdioServer",
    "McpStreamableHttpServer",
    "ModelCall",
    "ModelResponse",
    "QuestionHookResult",
    "QuestionResponse",
    "RunInfo",
    "Step",
    "StepSource",
    "StepStatus",
    "StepTarget",
    "StepType",
    "StopArgs",
    "StopDecision",
    "StopHookResult",
    "StopReason",
    "SubagentInfo",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "Usage",
    "Video",
    "from_bytes",
    "from_file",
    "normalize_builtin_tool_name",
]

ContentPrimitive = str | Image | Document | Audio | Video
Content = ContentPrimitive | list[ContentPrimitive]
"""A user's prompt: text, one medium, or a list of them."""

_START_SUBAGENT = "start_subagent"


class _DeprecatedMember:
    """A class-level alias of an enum member that warns when it is read."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget
        self.__deprecated__ = getattr(fget, "__deprecated__", None)

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        return self.fget(owner if owner is not None else type(instance))


class BuiltinTools(str, enum.Enum):
    """Canonical tool names; adapters map their framework's own tools to them."""

    LIST_DIR = "list_directory"
    SEARCH_DIR = "search_directory"
    FIND_FILE = "find_file"
    VIEW_FILE = "view_file"
    CREATE_FILE = "create_file"
    EDIT_FILE = "edit_file"
    RUN_COMMAND = "run_command"
    ASK_QUESTION = "ask_question"
    INVOKE_SUBAGENT = "invoke_subagent"
    RUN_WORKFLOW = "run_workflow"
    GENERATE_IMAGE = "generate_image"
    SEARCH_WEB = "search_web"
    READ_URL_CONTENT = "read_url_content"
    SCHEDULE = "schedule"
    FINISH = "finish"

    def __str__(self) -> str:
        return self.value

    @_DeprecatedMember
    @deprecated("START_SUBAGENT is deprecated; use INVOKE_SUBAGENT", stacklevel=2)
    def START_SUBAGENT(cls) -> BuiltinTools:  # noqa: D102
        return cls.INVOKE_SUBAGENT

    @classmethod
    def _missing_(cls, value: object) -> BuiltinTools | None:
        if value != _START_SUBAGENT:
            return None
        warnings.warn(
            "'start_subagent' is deprecated; use 'invoke_subagent'",
            DeprecationWarning,
            stacklevel=3,
        )
        return cls.INVOKE_SUBAGENT

    @classmethod
    def read_only(cls) -> list[BuiltinTools]:
        """Return the tools that only read, without those that are off by default."""
        return [cls.VIEW_FILE, cls.READ_URL_CONTENT, cls.SCHEDULE, cls.FINISH]

    @classmethod
    def nondestructive(cls) -> list[BuiltinTools]:
        """Return the tools that cannot delete content."""
        excluded = {cls.RUN_COMMAND, *cls.deprecated()}
        return [tool for tool in cls if tool not in excluded]

    @classmethod
    def all_tools(cls) -> list[BuiltinTools]:
        """Return every tool."""
        return list(cls)

    @classmethod
    def file_tools(cls) -> list[BuiltinTools]:
        """Return the tools that take a path and read or write what is there."""
        return [cls.VIEW_FILE, cls.CREATE_FILE, cls.EDIT_FILE]

    @classmethod
    def none(cls) -> list[BuiltinTools]:
        """Return no tool."""
        return []

    @classmethod
    def minimal(cls) -> list[BuiltinTools]:
        """Return the smallest set that can write software."""
        return [cls.RUN_COMMAND, cls.VIEW_FILE, cls.CREATE_FILE, cls.EDIT_FILE]

    @classmethod
    def deprecated(cls) -> list[BuiltinTools]:
        """Return the tools that are off unless asked for by name."""
        return [cls.LIST_DIR, cls.SEARCH_DIR, cls.FIND_FILE]

    @classmethod
    def default(cls) -> list[BuiltinTools]:
        """Return the tools of an agent that works on its own."""
        excluded = {cls.ASK_QUESTION, *cls.deprecated()}
        return [tool for tool in cls if tool not in excluded]


# The alias is no member of its own, but `BuiltinTools["START_SUBAGENT"]` finds it, as upstream.
BuiltinTools._member_map_["START_SUBAGENT"] = BuiltinTools.INVOKE_SUBAGENT


def normalize_builtin_tool_name(
    name: BuiltinTools | str, *, server_name: str | None = None
) -> BuiltinTools | str:
    """Return today's name of a tool; a server's own tool keeps the name it has.

    Args:
        name: Tool name as a rule, a label or a call has it.
        server_name: Name of the MCP server that the tool belongs to, if any.
    """
    if name == _START_SUBAGENT and not server_name:
        return BuiltinTools.INVOKE_SUBAGENT.value
    return name


class BaseMcpServerConfig(pydantic.BaseModel):
    """What the application says about an MCP server; its ``name`` is the one rules use.

    Attributes:
        name: Letters, digits, ``_`` and ``-``.
        timeout_seconds: Seconds to connect and list tools.
        enabled_tools: Only these are shown and allowed; excludes ``disabled_tools``.
        disabled_tools: These are hidden and denied.
        force_all_tools_eager: Kept for configurations written for google-antigravity.
    """

    name: Annotated[str, pydantic.Field(pattern=r"^[a-zA-Z0-9_-]+$")]
    timeout_seconds: int | None = None
    enabled_tools: list[str] | None = None
    disabled_tools: list[str] | None = None
    force_all_tools_eager: bool = False

    @pydantic.model_validator(mode="after")
    def _one_list_only(self) -> Self:
        if self.enabled_tools is not None and self.disabled_tools is not None:
            msg = "enabled_tools and disabled_tools should be mutually exclusive."
            raise ValueError(msg)
        return self


class McpStdioServer(BaseMcpServerConfig):
    """An MCP server that is started as a process."""

    command: str
    type: Literal["stdio"] = "stdio"
    args: list[str] = pydantic.Field(default_factory=list)
    env: dict[str, str] | None = None


class McpStreamableHttpServer(BaseMcpServerConfig):
    """An MCP server at a URL; ``timeout`` and ``sse_read_timeout`` are seconds."""

    url: str
    type: Literal["http"] = "http"
    headers: dict[str, str] | None = None
    timeout: float = 30.0
    sse_read_timeout: float = 300.0
    terminate_on_close: bool = True


McpHttpServer = McpStreamableHttpServer
McpServerConfig = McpStdioServer | McpStreamableHttpServer


class _Place(pydantic.BaseModel):
    """Where a record was made; filled by the pipeline, no part of a record's value."""

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


class _NamedTool(_Place):
    """A record that names a tool under today's name."""

    name: BuiltinTools | str
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
        args: Keyword arguments, decoded; validated where the framework validates before our seat.
        id: The framework's id of the call.
        step_id: Id of the step that asked for it.
        canonical_path: Normalised path of a file tool.
        server_name: Name the application gave to the MCP server that owns the tool.
        raw: The model's own text of the arguments, where there is one.
    """

    args: dict[str, Any] = pydantic.Field(default_factory=dict)
    canonical_path: str | None = None
    raw: str | None = pydantic.Field(default=None, exclude=True, repr=False)

    @classmethod
    def _hidden(cls) -> frozenset[str]:
        return cls._PLACE | {"raw"}


class ToolResult(_NamedTool):
    """What came of a tool call.

    Attributes:
        name: Name that rules see.
        result: The tool's value; each adapter says what it holds.
        error: Text of the failure, None on success.
        exception: The failure itself; never serialised.
        duration: Seconds that the tool ran.
        partial: True when a generator tool was closed before its end.
    """

    model_config = pydantic.ConfigDict(extra="ignore", arbitrary_types_allowed=True)

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

    model_config = pydantic.ConfigDict(extra="allow")

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    reasoning_output_tokens: int | None = None


class _ObjectRecord(_Place):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)


class ModelCall(_ObjectRecord):
    """A call of a model; ``messages`` and ``tools`` hold the framework's own objects."""

    model: str = ""
    provider: str = ""
    messages: list[Any] = pydantic.Field(default_factory=list[Any])
    tools: list[Any] = pydantic.Field(default_factory=list[Any])
    settings: dict[str, Any] = pydantic.Field(default_factory=dict)


class ModelResponse(_ObjectRecord):
    """What a model answered; ``tool_calls`` are those it asks for."""

    text: str = ""
    tool_calls: list[ToolCall] = pydantic.Field(default_factory=list[ToolCall])
    usage: Usage | None = None
    finish_reason: str = ""


class AgentCall(_Place):
    """A call of an agent: its name and what it is asked."""

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

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


class SubagentInfo(_Place):
    """A sub-agent that was started or has stopped; ``duration`` is seconds."""

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    agent: str = ""
    parent: str = ""
    task: Any = None
    response: Any = None
    error: BaseException | None = pydantic.Field(default=None, exclude=True)
    duration: float | None = None

    @classmethod
    def _hidden(cls) -> frozenset[str]:
        return cls._PLACE - {"agent"}


class StepType(str, enum.Enum):
    """High-level type of a step."""

    TEXT_RESPONSE = "TEXT_RESPONSE"
    TOOL_CALL = "TOOL_CALL"
    SYSTEM_MESSAGE = "SYSTEM_MESSAGE"
    COMPACTION = "COMPACTION"
    FINISH = "FINISH"
    THINKING = "THINKING"
    UNKNOWN = "UNKNOWN"


class StepSource(str, enum.Enum):
    """Who made a step."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    MODEL = "MODEL"
    UNKNOWN = "UNKNOWN"


class StepTarget(str, enum.Enum):
    """Whom a step is meant for."""

    USER = "TARGET_USER"
    ENVIRONMENT = "TARGET_ENVIRONMENT"
    UNSPECIFIED = "TARGET_UNSPECIFIED"
    UNKNOWN = "UNKNOWN"


class StepStatus(str, enum.Enum):
    """Where a step stands."""

    ACTIVE = "ACTIVE"
    DONE = "DONE"
    WAITING_FOR_USER = "WAITING_FOR_USER"
    ERROR = "ERROR"
    CANCELED = "CANCELED"
    UNKNOWN = "UNKNOWN"


class Step(_Place):
    """One action in an agent's trajectory; ``str(step)`` is its summary."""

    model_config = pydantic.ConfigDict(extra="allow", arbitrary_types_allowed=True)

    id: str = ""
    step_index: int = 0
    trajectory_id: str = ""
    parent_trajectory_id: str = ""
    depth: int = 0
    type: StepType = StepType.UNKNOWN
    # A step's own `source` is who made it: the place's field of that name gives way.
    source: StepSource = StepSource.UNKNOWN  # type: ignore[assignment]
    target: StepTarget = StepTarget.UNKNOWN
    status: StepStatus = StepStatus.UNKNOWN
    content: str = ""
    content_delta: str = ""
    thinking: str = ""
    thinking_delta: str = ""
    tool_calls: list[ToolCall] = pydantic.Field(default_factory=list[ToolCall])
    error: str = ""
    is_complete_response: bool | None = None
    structured_output: Any | None = None
    workflow_progress: Any | None = None
    usage_metadata: Any | None = None

    @classmethod
    def _hidden(cls) -> frozenset[str]:
        return cls._PLACE - {"source"}

    def __str__(self) -> str:
        return self.content or self.error or self.type.value


class HookAction(str, enum.Enum):
    """What a hook's answer does to the operation."""

    ALLOW = "allow"
    DENY = "deny"
    MODIFY = "modify"

    @classmethod
    def _missing_(cls, value: object) -> HookAction | None:
        return cls.DENY if value == "block" else None


class HookResult(pydantic.BaseModel):
    """What a hook answers.

    Attributes:
        allow: Whether the operation goes on.
        message: Reason of a deny, as the model or user is told it.
        modified_args: Arguments to merge key by key into the call.
        replace_args: Arguments that take the place of all of them.
        modified_prompt: Prompt that goes on instead (pre_turn).
        modified_messages: Messages that go on instead (pre_model_call); ``[]`` counts.
        modified_tools: Tool definitions that go on instead (pre_model_call); ``[]`` counts.
        response: A ready answer; nothing runs (pre_agent, pre_model_call).
        input: Input that goes on instead, in the words of the function bundle.
        output: Output that goes on instead, in the words of the function bundle.
        rule_id: Rule that decided, where the hook knows one.
        severity: ``low``, ``medium``, ``high`` or ``critical``.
        action: Derived from the other fields when it is not given.
    """

    model_config = pydantic.ConfigDict(extra="ignore", arbitrary_types_allowed=True)

    allow: bool = True
    message: str = ""
    modified_args: dict[str, Any] | None = None
    replace_args: dict[str, Any] | None = None
    modified_prompt: Any | None = None
    modified_messages: list[Any] | None = None
    modified_tools: list[Any] | None = None
    response: Any | None = None
    input: Any | None = None
    output: Any | None = None
    rule_id: str | None = None
    severity: Literal["low", "medium", "high", "critical"] | None = None
    action: HookAction | None = pydantic.Field(default=None, validate_default=False)

    _CHANGES: ClassVar[tuple[str, ...]] = (
        "modified_args",
        "replace_args",
        "modified_prompt",
        "modified_messages",
        "modified_tools",
        "response",
        "input",
        "output",
    )

    @pydantic.model_validator(mode="after")
    def _derive_action(self) -> Self:
        if self.action is None:
            changes = any(getattr(self, name) is not None for name in self._CHANGES)
            derived = HookAction.MODIFY if changes else HookAction.ALLOW
            self.action = derived if self.allow else HookAction.DENY
        elif self.action is HookAction.DENY:
            self.allow = False
        elif not self.allow:
            if "allow" in self.model_fields_set:
                msg = f"allow=False contradicts action='{self.action.value}'"
                raise ValueError(msg)
        return self


class QuestionResponse(pydantic.BaseModel):
    """The answer to one question."""

    model_config = pydantic.ConfigDict(extra="ignore")

    selected_option_ids: list[str] | None = None
    freeform_response: str = ""
    skipped: bool = False


class QuestionHookResult(pydantic.BaseModel):
    """The answers to an interaction, one a question."""

    model_config = pydantic.ConfigDict(extra="ignore")

    responses: list[QuestionResponse]
    cancelled: bool = False


class AskQuestionOption(pydantic.BaseModel):
    """One option of a question."""

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore")

    id: str
    text: str


class AskQuestionEntry(pydantic.BaseModel):
    """One question with its options."""

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore")

    question: str
    options: list[AskQuestionOption]
    is_multi_select: bool = False


class AskQuestionInteractionSpec(pydantic.BaseModel):
    """Questions that an agent asks its user."""

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore")

    questions: list[AskQuestionEntry]


class StopReason(str, enum.Enum):
    """Why a turn stopped."""

    UNSPECIFIED = "UNSPECIFIED"
    MAX_MODEL_CALLS_EXCEEDED = "MAX_MODEL_CALLS_EXCEEDED"
    MAX_TOOL_CALLS_EXCEEDED = "MAX_TOOL_CALLS_EXCEEDED"
    MAX_INPUT_TOKENS_EXCEEDED = "MAX_INPUT_TOKENS_EXCEEDED"
    MAX_OUTPUT_TOKENS_EXCEEDED = "MAX_OUTPUT_TOKENS_EXCEEDED"
    MAX_TOTAL_TOKENS_EXCEEDED = "MAX_TOTAL_TOKENS_EXCEEDED"
    QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"


class StopDecision(str, enum.Enum):
    """Whether a turn may stop."""

    ALLOW_STOP = "ALLOW_STOP"
    CONTINUE = "CONTINUE"


class StopHookResult(pydantic.BaseModel):
    """A stop hook's answer; ``reason`` is what the model is told when it goes on."""

    model_config = pydantic.ConfigDict(extra="ignore")

    decision: StopDecision = StopDecision.ALLOW_STOP
    reason: str = ""

    @pydantic.model_validator(mode="after")
    def _continue_says_why(self) -> Self:
        if self.decision is StopDecision.CONTINUE and not self.reason.strip():
            msg = "StopHookResult with decision=CONTINUE requires a non-empty reason."
            raise ValueError(msg)
        return self


class StopArgs(_Place):
    """What a stop hook learns about the turn that is about to end."""

    model_config = pydantic.ConfigDict(extra="ignore")

    response_text: str = ""
    trajectory_id: str = ""
    continuation_count: int = 0
    stop_reason: StopReason = StopReason.UNSPECIFIED
    error_message: str = ""


class HookEvent(pydantic.BaseModel):
    """What happened at one point, told after its chain; denies included.

    Attributes:
        type: ``pre_tool_use``, ``post_tool_use``, ``pre_model_call``, ... or the point's own name.
        timestamp: Seconds since the epoch.
        input: What went in; obeys capture mode and masking.
        output: What came out; obeys capture mode and masking.
        duration: Seconds.
        decision: ``allow``, ``deny``, ``ask`` or ``modify`` at points that decide.
        trace_id: 32 hexadecimal digits, empty without a trace.
        span_id: 16 hexadecimal digits, empty without a span.
    """

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

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

    @pydantic.field_serializer("input", "output", mode="wrap", when_used="json")
    def _anything_to_json(self, value: Any, handler: pydantic.SerializerFunctionWrapHandler) -> Any:
        """Serialise any object: a listener's JSON must not depend on what a tool returned."""
        try:
            return handler(value)
        except Exception:  # the object's own serialiser may raise anything
            return repr(value)


class ToolContext(StateStore):
    """State of tools, kept for one session; hooks cannot read it.

    Handed to an ``@otelhooks.tool`` function that annotates a parameter with it.

    Args:
        session_id: Conversation that the state belongs to.
    """

    def __init__(self, session_id: str = "") -> None:
        super().__init__()
        self.session_id = session_id
