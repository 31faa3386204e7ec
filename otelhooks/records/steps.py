"""Steps of an agent's trajectory, the end of a turn, and questions to the user."""

from __future__ import annotations

import enum
from typing import Any, ClassVar

import pydantic
from typing_extensions import Self

from otelhooks.records.calls import Place, ToolCall

__all__ = [
    "AskQuestionEntry",
    "AskQuestionInteractionSpec",
    "AskQuestionOption",
    "QuestionHookResult",
    "QuestionResponse",
    "Step",
    "StepSource",
    "StepStatus",
    "StepTarget",
    "StepType",
    "StopArgs",
    "StopDecision",
    "StopHookResult",
    "StopReason",
]


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
    """Source of a step."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    MODEL = "MODEL"
    UNKNOWN = "UNKNOWN"


class StepTarget(str, enum.Enum):
    """Audience of a step."""

    USER = "TARGET_USER"
    ENVIRONMENT = "TARGET_ENVIRONMENT"
    UNSPECIFIED = "TARGET_UNSPECIFIED"
    UNKNOWN = "UNKNOWN"


class StepStatus(str, enum.Enum):
    """State of a step."""

    ACTIVE = "ACTIVE"
    DONE = "DONE"
    WAITING_FOR_USER = "WAITING_FOR_USER"
    ERROR = "ERROR"
    CANCELED = "CANCELED"
    UNKNOWN = "UNKNOWN"


class Step(Place):
    """One action in an agent's trajectory; ``str(step)`` is its summary."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(
        extra="allow", arbitrary_types_allowed=True
    )

    id: str = ""
    step_index: int = 0
    trajectory_id: str = ""
    parent_trajectory_id: str = ""
    depth: int = 0
    type: StepType = StepType.UNKNOWN
    # A step's own `source` says who made it, and overrides the place's field of that name.
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


class QuestionResponse(pydantic.BaseModel):
    """The answer to one question."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(extra="ignore")

    selected_option_ids: list[str] | None = None
    freeform_response: str = ""
    skipped: bool = False


class QuestionHookResult(pydantic.BaseModel):
    """The answers to an interaction, one per question."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(extra="ignore")

    responses: list[QuestionResponse]
    cancelled: bool = False


class AskQuestionOption(pydantic.BaseModel):
    """One option of a question."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, extra="ignore")

    id: str
    text: str


class AskQuestionEntry(pydantic.BaseModel):
    """One question with its options."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, extra="ignore")

    question: str
    options: list[AskQuestionOption]
    is_multi_select: bool = False


class AskQuestionInteractionSpec(pydantic.BaseModel):
    """Questions that an agent asks its user."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, extra="ignore")

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
    """A stop hook's answer; ``reason`` is the message to the model if the turn continues."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(extra="ignore")

    decision: StopDecision = StopDecision.ALLOW_STOP
    reason: str = ""

    @pydantic.model_validator(mode="after")
    def _continue_says_why(self) -> Self:
        if self.decision is StopDecision.CONTINUE and not self.reason.strip():
            msg = "StopHookResult with decision=CONTINUE requires a non-empty reason."
            raise ValueError(msg)
        return self


class StopArgs(Place):
    """The turn that is about to end, as a stop hook sees it."""

    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(extra="ignore")

    response_text: str = ""
    trajectory_id: str = ""
    continuation_count: int = 0
    stop_reason: StopReason = StopReason.UNSPECIFIED
    error_message: str = ""
