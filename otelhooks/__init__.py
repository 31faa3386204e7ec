"""OpenTelemetry-native hooks and policy for AI agents.

`instrument()` once at start-up, and every tool call, model call, turn and session of the agent
frameworks in the process runs through one hook pipeline: policies decide, hooks inspect and
rewrite, spans record.
"""

from otelhooks import audit, errors, hooks, policy, types
from otelhooks._decorators import agent, model_call, tool
from otelhooks._instrument import Handle, instrument, uninstrument
from otelhooks._scopes import cache, current_context, emit, scope, session, turn
from otelhooks.version import __version__

__all__ = [
    "Handle",
    "__version__",
    "agent",
    "audit",
    "cache",
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
