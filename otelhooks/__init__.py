"""OpenTelemetry-native hooks and policy for AI agents.

`instrument()` once at start-up, and the tool calls, model calls, turns and sessions of the agent
frameworks in the process run through one hook pipeline: policies decide, hooks inspect and
rewrite, spans record.
"""

from typing import TYPE_CHECKING

from otelhooks import audit, errors, hooks, policy, types
from otelhooks.loops.scopes import cache, current_context, emit, scope, session, turn
from otelhooks.process import console
from otelhooks.process.late import late_names
from otelhooks.setup.instrument import Handle, instrument, uninstrument
from otelhooks.version import __version__

if TYPE_CHECKING:
    from otelhooks import approvals
    from otelhooks.loops.agents import agent
    from otelhooks.loops.model_calls import model_call
    from otelhooks.loops.tools import call_tool, tool

__all__ = [
    "Handle",
    "__version__",
    "agent",
    "approvals",
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

console.use()

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "otelhooks.approvals": "approvals",
            "otelhooks.loops.agents": "agent",
            "otelhooks.loops.model_calls": "model_call",
            "otelhooks.loops.tools": "call_tool tool",
        },
    )
