"""Records that cross a boundary: what hooks receive, what they return, server configurations.

Classes that google-antigravity has keep its names, fields and defaults (Source: google-antigravity
0.1.22, ``types``); further fields are ours. Fields in which the pipeline tells a hook where it runs
(``agent``, ``session_id``, ``trace_id``, ...) are left out of ``==`` and of dumps.

The classes are pydantic models, which take long to build: each group is imported when somebody asks
for one of its names, so that a program that never looks at a record starts without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otelhooks._builtin_tools import BuiltinTools, normalize_builtin_tool_name
from otelhooks._late import late_names
from otelhooks.state import ToolContext

if TYPE_CHECKING:
    from otelhooks._mcp_servers import (
        BaseMcpServerConfig,
        McpHttpServer,
        McpServerConfig,
        McpStdioServer,
        McpStreamableHttpServer,
    )
    from otelhooks._records import (
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
    from otelhooks._results import HookAction, HookResult
    from otelhooks._steps import (
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
    from otelhooks.media import Audio, Content, Document, Image, Video, from_bytes, from_file

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "otelhooks._mcp_servers": "BaseMcpServerConfig McpHttpServer McpServerConfig"
            " McpStdioServer McpStreamableHttpServer",
            "otelhooks._records": "AgentCall HookEvent ModelCall ModelResponse RunInfo"
            " SubagentInfo ToolCall ToolResult Usage",
            "otelhooks._results": "HookAction HookResult",
            "otelhooks._steps": "AskQuestionEntry AskQuestionInteractionSpec AskQuestionOption"
            " QuestionHookResult QuestionResponse Step StepSource StepStatus StepTarget StepType"
            " StopArgs StopDecision StopHookResult StopReason",
            "otelhooks.media": "Audio Content Document Image Video from_bytes from_file",
        },
    )
