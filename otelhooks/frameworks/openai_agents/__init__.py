"""OpenAI Agents SDK (``openai-agents``), 0.10.5 and newer.

Seats and what passes through them:

- ``FunctionTool.on_invoke_tool``: every function tool on every path: run, run_sync, run_streamed,
  parallel calls, agents as tools, MCP tools, realtime sessions, sandbox tools, retries, approvals
  and their resumption, and user code that calls ``tool.on_invoke_tool(...)``.
- ``CustomTool.on_invoke_tool``, ``ShellTool.executor``, ``LocalShellTool.executor``,
  ``ApplyPatchTool.editor``: the built-in tools that run here.
- ``ComputerAction.execute``: the computer tool.
- ``execute_handoffs``, and under it ``Handoff.on_invoke_handoff``, which realtime sessions call
  alone: hand-offs.
- ``get_model``: model calls, streamed or not, one operation an attempt.
- ``AgentRunner.run`` and ``start_streaming``: runs; ``run_sync`` is one of them.

The model is told of a denied call by the call's output, as of any tool error. A refused run answers
with the reason, by a canned model in the real runner. Three refusals raise
`otelhooks.errors.Denied`, since there is no text that could tell them: of a run or model call whose
answer has a type of the user's own, of the computer tool, of a hand-off in a realtime session.

What cannot be done: tools that the provider runs are out of reach, and so not offered where a rule
is against them; a streamed run's text has gone
out when `post_agent` hooks see it, so only ``final_output`` is theirs to change; the user's own
approvals (``needs_approval``) come before ours, since the SDK asks before it calls the tool.
"""

from __future__ import annotations

from otelhooks.frameworks.openai_agents.builtin import (
    call_computer,
    call_local_shell,
    call_patch,
    call_shell,
    note_patch,
    refuse_patch,
)
from otelhooks.frameworks.openai_agents.builtin_kinds import TABLE
from otelhooks.frameworks.openai_agents.handoffs import hand_off, invoke_handoff
from otelhooks.frameworks.openai_agents.runs import run_agent, stream_agent
from otelhooks.frameworks.openai_agents.stand_ins import choose_model
from otelhooks.frameworks.openai_agents.tools import (
    call_custom_tool,
    call_function_tool,
    note_failure,
    note_rejection,
    refuse_text,
)
from otelhooks.patching.fields import in_field, methods
from otelhooks.patching.patches import Adapter, NotCovered, Package, Seat

__all__ = ["ADAPTER"]

SUPPORTED = ">=0.10.5,<1"

_TOOL = "agents.tool"
_RUN = "agents.run"
_EXECUTION = "agents.run_internal.tool_execution"
_RESOLUTION = "agents.run_internal.turn_resolution"

FUNCTION = in_field()
EDITOR = in_field(methods("create_file", "update_file", "delete_file"))

SEATS = (
    Seat(
        _TOOL,
        "FunctionTool.on_invoke_tool",
        call_function_tool,
        install=FUNCTION,
        refuse=refuse_text,
    ),
    Seat(
        _TOOL,
        "CustomTool.on_invoke_tool",
        call_custom_tool,
        since="0.14",
        install=FUNCTION,
        refuse=refuse_text,
    ),
    Seat(_TOOL, "ShellTool.executor", call_shell, install=FUNCTION, refuse=refuse_text),
    Seat(
        _TOOL,
        "LocalShellTool.executor",
        call_local_shell,
        install=FUNCTION,
        refuse=refuse_text,
    ),
    Seat(_TOOL, "ApplyPatchTool.editor", call_patch, install=EDITOR, refuse=refuse_patch),
    Seat(_TOOL, "maybe_invoke_function_tool_failure_error_function", note_failure),
    Seat(_EXECUTION, "_execute_tool_input_guardrails", note_rejection, required=False),
    Seat("agents.run_internal.tool_actions", "ComputerAction.execute", call_computer),
    Seat(
        "agents.run_internal.tool_actions", "ApplyPatchAction.execute", note_patch, required=False
    ),
    Seat(_RESOLUTION, "execute_handoffs", hand_off),
    Seat("agents.handoffs", "Handoff.on_invoke_handoff", invoke_handoff, install=FUNCTION),
    Seat("agents.run_internal.run_loop", "get_model", choose_model),
    Seat(_RUN, "AgentRunner.run", run_agent, entry=True),
    Seat(_RUN, "AgentRunner.run_streamed", entry=True),
    Seat(_RUN, "start_streaming", stream_agent),
)

ADAPTER = Adapter(
    framework="openai_agents",
    packages=(Package(("openai-agents",), SUPPORTED, "agents", SEATS),),
    not_covered=(
        NotCovered(
            "hosted tools (web and file search, code interpreter, image generation, hosted MCP, "
            "hosted shell)",
            "they run at the provider; those that a rule is against are not offered to models, "
            "but in realtime sessions and stored prompts; hooks see none of their calls",
        ),
        NotCovered(
            "the function that a tool was made of",
            "user code that calls it itself calls a plain function",
        ),
        NotCovered("voice pipelines", "speech is no model call; the agents they run are covered"),
        NotCovered(
            "what the Codex tool does inside", "it is one tool call; Codex has hooks of its own"
        ),
    ),
    built_in=TABLE,
    in_part=(
        (
            "agent.stop, delegation.post_verify",
            "a streamed run is not sent on: whoever reads it has its end already",
        ),
        ("turn.end", "a streamed answer is read before it can be withheld"),
    ),
)
