"""OpenTelemetry-native hooks and policy for AI agents.

`instrument()` once at start-up, and every tool call, model call, turn and session of the agent
frameworks in the process runs through one hook pipeline: policies decide, hooks inspect and
rewrite, spans record.
"""

from typing import TYPE_CHECKING

from otelhooks import audit, errors, hooks, policy, types
from otelhooks._instrument import Handle, instrument, uninstrument
from otelhooks._late import late_names
from otelhooks._scopes import cache, current_context, emit, scope, session, turn
from otelhooks.version import __version__

if TYPE_CHECKING:
    from otelhooks._decorators.agent import agent
    from otelhooks._decorators.model_call import model_call
    from otelhooks._decorators.tool import call_tool, tool

__all__ = [
    "Handle",
    "__version__",
    "agent",
    "audit",
    "cache",
    "call_tool",
    "current_context",
    "emit",
    "errors",
    "hooks",
    "instrument",
    "model_call",
    "policy",
    "scope",
    "session",
    "tool",
    "turn",
    "types",
    "uninstrument",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "otelhooks._decorators.agent": "agent",
            "otelhooks._decorators.model_call": "model_call",
            "otelhooks._decorators.tool": "call_tool tool",
        },
    )
