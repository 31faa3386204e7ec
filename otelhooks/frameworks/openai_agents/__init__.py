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
- ``_FunctionToolBatchExecutor._execute_single_tool_body``: around a function tool's call, where the
  run can still pause for a queue that parks it.

The model learns of a denied call from the call's output, as with any tool error. A refused run
answers with the reason, through a canned model in the real runner. Three refusals raise
`otelhooks.errors.Denied`, since no text could express them: the refusal of a run or model call
whose answer has a user's own type, of the computer tool, and of a hand-off in a realtime session.

What cannot be done: tools that the provider runs are out of reach, and so not offered if a rule is
against them; a streamed run's text has been sent when `post_agent` hooks see it, so they can only
change ``final_output``; the user's own approvals (``needs_approval``) come before ours, since the
SDK asks before it calls the tool.
"""

from __future__ import annotations

import functools

from otelhooks.frameworks import kit
from otelhooks.frameworks.openai_agents import models, runs, tools
from otelhooks.frameworks.openai_agents.builtin import TABLE

__all__ = ["ADAPTER"]

_TOOL, _RUN, _INTERNAL = "agents.tool", "agents.run", "agents.run_internal"
_EDITS = ("create_file", "update_file", "delete_file")
_look = functools.partial(kit.listen, required=False)
_in_field = functools.partial(kit.seat, kind="either", field=True)

ADAPTER = kit.Adapter(
    "openai_agents",
    kit.Package("openai-agents", ">=0.10.5,<1", module="agents"),
    seats=(
        kit.seat(
            f"{_TOOL}:FunctionTool.on_invoke_tool", tools.FunctionCall, kind="coroutine", field=True
        ),
        _in_field(f"{_TOOL}:CustomTool.on_invoke_tool", tools.CustomCall, since="0.14"),
        _in_field(f"{_TOOL}:(|Local)ShellTool.executor", tools.ShellCall),
        kit.seat(f"{_TOOL}:ApplyPatchTool.editor", tools.PatchCall, kind="either", field=_EDITS),
        kit.listen(
            f"{_TOOL}:maybe_invoke_function_tool_failure_error_function", tools.note_failure
        ),
        _look(f"{_INTERNAL}.tool_execution:_execute_tool_input_guardrails", tools.note_rejection),
        _look(
            f"{_INTERNAL}.tool_execution:_FunctionToolBatchExecutor._execute_single_tool_body",
            tools.may_pause,
        ),
        kit.seat(f"{_INTERNAL}.tool_actions:ComputerAction.execute", tools.ComputerCall),
        _look(f"{_INTERNAL}.tool_actions:ApplyPatchAction.execute", tools.note_patch),
        kit.seat(f"{_INTERNAL}.turn_resolution:execute_handoffs", tools.HandOff),
        _in_field("agents.handoffs:Handoff.on_invoke_handoff", tools.HandOffFunction),
        kit.listen(f"{_INTERNAL}.run_loop:get_model", models.choose_model),
        kit.seat(f"{_RUN}:AgentRunner.run", runs.AgentRun, entry=True),
        kit.listen(f"{_RUN}:AgentRunner.run_streamed", entry=True),
        kit.seat(f"{_RUN}:start_streaming", runs.StreamedRun),
    ),
    not_covered={
        (
            "hosted tools (web and file search, code interpreter, image generation, hosted MCP, "
            "hosted shell)"
        ): (
            "they run at the provider; those that a rule is against are not offered to models, "
            "but in realtime sessions and stored prompts; hooks see none of their calls"
        ),
        "the function that a tool was made of": (
            "user code that calls it itself calls a plain function"
        ),
        "voice pipelines": "speech is not a model call; the agents they run are covered",
        "what the Codex tool does inside": "it is one tool call; Codex has hooks of its own",
    },
    built_in=TABLE,
    in_part={
        "agent.stop, delegation.post_verify": (
            "a streamed run cannot be continued: its reader already has its end"
        ),
        "turn.end": "a streamed answer is read before it can be withheld",
    },
)
