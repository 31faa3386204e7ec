"""Records that cross a boundary: what hooks receive, what they return, server configurations.

Classes that google-antigravity has keep their names, fields and defaults (Source:
google-antigravity 0.1.22, ``types``); further fields are ours. Fields that say where a hook runs
(``agent``, ``session_id``, ``trace_id``, ...) are left out of ``==`` and of dumps.

The classes are pydantic models, which take long to build: each group is imported when one of its
names is first used, so that a program that never reads a record starts without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otelhooks.process.late import late_names
from otelhooks.records.canonical_tools import BuiltinTools, normalize_builtin_tool_name
from otelhooks.state import ToolContext

if TYPE_CHECKING:
    from otelhooks.records.calls import (
        AgentCall,
        HookEvent,
        ModelCall,
        ModelResponse,
        RunInfo,
        SubagentInfo,
        ToolCall,
        ToolResult,
        Usage,
    )
    from otelhooks.records.hook_result import HookAction, HookResult
    from otelhooks.records.mcp_servers import (
        BaseMcpServerConfig,
        McpHttpServer,
        McpServerConfig,
        McpStdioServer,
        McpStreamableHttpServer,
    )
    from otelhooks.records.media import (
        Audio,
        Content,
        Document,
        Image,
        Video,
        from_bytes,
        from_file,
    )
    from otelhooks.records.steps import (
        AskQuestionEntry,
        AskQuestionInteractionSpec,
        AskQuestionOption,
        QuestionHookResult,
        QuestionResponse,
        Step,
        StepSource,
        StepStatus,
        StepTarget,
        StepType,
        StopArgs,
        StopDecision,
        StopHookResult,
        StopReason,
    )
    from otelhooks.records.users import User

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
    "User",
    "Video",
    "from_bytes",
    "from_file",
    "normalize_builtin_tool_name",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "otelhooks.records.mcp_servers": "BaseMcpServerConfig McpHttpServer McpServerConfig"
            " McpStdioServer McpStreamableHttpServer",
            "otelhooks.records.calls": "AgentCall HookEvent ModelCall ModelResponse RunInfo"
            " SubagentInfo ToolCall ToolResult Usage",
            "otelhooks.records.hook_result": "HookAction HookResult",
            "otelhooks.records.steps": "AskQuestionEntry AskQuestionInteractionSpec"
            " AskQuestionOption QuestionHookResult QuestionResponse Step StepSource StepStatus"
            " StepTarget StepType StopArgs StopDecision StopHookResult StopReason",
            "otelhooks.records.users": "User",
            "otelhooks.records.media": "Audio Content Document Image Video from_bytes from_file",
        },
    )
