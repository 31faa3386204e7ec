# pyright: basic, reportMissingImports=false
"""Hedera Agent Kit for Python: package ``hedera-agent-kit``, 3.0 and later.

The kit has tools, but no model and no turn: those belong to the agent framework. Seats, outermost
first; a call passes those on its way, and is judged at the first:

- ``HederaAgentKitTool._arun``: no call is judged here; the permit of langchain's outer seat becomes
  one for the parameters as langchain has validated them.
- ``HederaAgentAPI.run``: the toolkits for langchain, Google's ADK and MCP, and programs.
- ``execute`` of every class of tools, defined before or later: tool objects that a program calls.
- ``normalize_params``, ``core_action``, ``secondary_action`` (3.4): the steps of the second
  generation of tools, for hooks between them.
- ``handle_error`` (3.4): the exception that becomes a tool's answer.

A deny is a ``ToolResponse`` with the reason as message and as error, the form in which the kit
reports a tool's error to a model; the tool's ``handle_error``, which could report something else,
is not called. Hooks see the response; one that they return replaces it, and a text becomes the
message of a response that keeps only the ledger's receipt.

``ADAPTER.not_covered`` lists what no seat guards.
"""

from __future__ import annotations

from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.hedera_agent_kit import calls

__all__ = ["ADAPTER"]

_API, _TOOL = "hedera_agent_kit.shared.api", "hedera_agent_kit.shared.tool"
_TOOL_V2 = "hedera_agent_kit.shared.tool_v2"
_LANGCHAIN = "hedera_agent_kit.langchain.tool:HederaAgentKitTool"


def _seat(target: str, passage: type, **further: Any) -> Any:
    return kit.seat(target, passage, kind="coroutine", overrides=True, **further)


ADAPTER = kit.Adapter(
    "hedera_agent_kit",
    kit.Package("hedera-agent-kit", ">=3.0,<4", module="hedera_agent_kit"),
    seats=(
        _seat(f"{_TOOL}:Tool.execute", calls.ToolRun),
        _seat(f"{_API}:HederaAgentAPI.run", calls.ApiCall, entry=True),
        kit.listen(
            f"{_TOOL_V2}:BaseToolV2.handle_error", calls.note_error, since="3.4", overrides=True
        ),
        _seat(f"{_TOOL_V2}:BaseToolV2.normalize_params", calls.Normalize, since="3.4"),
        _seat(f"{_TOOL_V2}:BaseToolV2.core_action", calls.Act, since="3.4"),
        _seat(f"{_TOOL_V2}:BaseToolV2.secondary_action", calls.Commit, since="3.4"),
        kit.listen(f"{_LANGCHAIN}._arun", calls.from_langchain, required=False, overrides=True),
    ),
    leads={
        "hedera_agent_kit.adk.tool:HederaAdkTool": (calls.ADK, calls.behind_adk),
        _LANGCHAIN: (calls.LANGCHAIN, calls.behind_langchain),
        "hedera_agent_kit.mcp.toolkit": (calls.MCP, calls.behind_mcp),
    },
    # one line for all: each queries a mirror node, or sends a transaction to the ledger
    built_in=kit.BuiltIns({f"{calls.PLUGINS}:*": ("all tools of the kit's plugins", (), "net")}),
    not_covered={
        "a function that is set as `execute` on a tool object, or later on its class": (
            "called there, it passes nothing of the kit; through the API it is guarded"
        ),
        "steps of a tool, called one by one": "they are judged as parts of `execute`",
    },
    in_part={
        "turn.*, completion.*, delegation.*, agent.stop": (
            "the kit has no agents: they fire with those of the framework or program around it"
        ),
        "hide": "a tool is only denied: what a toolkit offers is not changed",
    },
)
