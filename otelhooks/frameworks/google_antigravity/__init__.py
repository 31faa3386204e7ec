"""Google Antigravity SDK (``google-antigravity``), ``>=0.1.17,<0.2``.

The agent's loop is a program of its own, the harness. It calls the model, runs the built-in tools
and those of MCP servers, and asks this process, over a WebSocket, for the decisions of hooks.
Seats:

- ``LocalConnectionStrategy._build_harness_config``: makes the harness ask, whatever hooks the
  application has; removes tools that a rule hides.
- ``parse_initialize_response``, ``LocalConnection.__init__``: the conversation's id, and a state
  for each start of a harness.
- ``LocalConnection.send``, ``send_trigger_notification``, ``receive_steps``, ``disconnect``:
  turns by message and by trigger, their answers, the end of the conversation. `Agent.chat`,
  `Conversation.chat` and `Conversation.send` lead there.
- ``HookRunner.dispatch_pre_tool_call``, ``dispatch_post_tool_call``, ``dispatch_on_tool_error``:
  every call that the harness asks about: built-in tools, MCP tools, Python tools, parallel calls,
  those of agents of the types ``self`` and ``research``. The application's own hooks come first.
- ``ToolRunner.execute``, and ``handle_tool_call`` above it: every Python tool, on every path, those
  of agents that the harness does not ask for, and direct calls.
- ``HookRunner.dispatch_stop``, ``dispatch_post_turn``, ``dispatch_interaction``,
  ``dispatch_compaction``; ``process_event``, ``dispatch_pre_step``, ``dispatch_post_step`` for what
  the harness reports unasked.
- The SDK's own OpenTelemetry hooks, which pause while ours make spans.

The model learns of a refusal from the step's error, and the run continues; a refused turn is
answered with the reason. A Python tool's result and failure can be changed. Those of tools in the
harness cannot: a failure gets another text, and a result that a hook withholds or rewrites stops
the turn and closes the conversation, since the harness would show it to the model.

A call that the harness does not ask about is refused or removed if anything could deny it; see
`agents`, and ``ADAPTER.not_covered``.
"""

from __future__ import annotations

from otelhooks.frameworks import kit
from otelhooks.frameworks.google_antigravity import agents, calls, events, harness, turns
from otelhooks.frameworks.kit.adapter import NotCovered

__all__ = ["ADAPTER"]

_LOCAL = "google.antigravity.connections.local"
_CONNECTION = f"{_LOCAL}.local_connection:LocalConnection"
_EVENTS = f"{_LOCAL}.event_processor"
_PROCESSOR = f"{_EVENTS}:LocalHarnessEventProcessor"
_HOOKS = "google.antigravity.hooks.hook_runner:HookRunner"
_NATIVE = (
    "google.antigravity.utils.otel:OTel(SessionStart|SessionEnd|PreTurn|PostTurn|PreStep|PostStep|"
    "PreToolCall|PostToolCall|OnToolError)Hook.run"
)

_SEATS = (
    kit.listen(f"{_CONNECTION}Strategy._build_harness_config", agents.build_config, entry=True),
    kit.listen(f"{_EVENTS}:parse_initialize_response", harness.note_conversation),
    kit.listen(f"{_CONNECTION}.__init__", harness.connect),
    kit.listen(f"{_CONNECTION}.send", turns.send, entry=True),
    kit.listen(f"{_CONNECTION}.send_trigger_notification", turns.send_trigger, entry=True),
    kit.listen(f"{_CONNECTION}.receive_steps", turns.read_steps),
    kit.listen(f"{_CONNECTION}.disconnect", harness.disconnect),
    kit.listen(f"{_HOOKS}.dispatch_pre_tool_call", calls.before_call),
    kit.listen(f"{_HOOKS}.dispatch_post_tool_call", calls.after_call),
    kit.listen(f"{_HOOKS}.dispatch_on_tool_error", calls.after_error),
    kit.listen(f"{_PROCESSOR}.handle_tool_call", calls.run_python_tool),
    kit.seat(
        "google.antigravity.tools.tool_runner:ToolRunner.execute", calls.PythonCall, overrides=True
    ),
    kit.listen(f"{_HOOKS}.dispatch_stop", turns.before_stop),
    kit.listen(f"{_HOOKS}.dispatch_post_turn", turns.after_turn),
    kit.seat(f"{_HOOKS}.dispatch_interaction", events.Asked),
    kit.seat(f"{_HOOKS}.dispatch_compaction", events.Compacted),
    kit.listen(f"{_PROCESSOR}.process_event", events.see_event),
    kit.listen(f"{_HOOKS}.dispatch_pre_step", events.see_first_step),
    kit.listen(f"{_HOOKS}.dispatch_post_step", events.see_last_step),
    kit.listen(_NATIVE, events.skip_native, required=False),
)

ADAPTER = kit.Adapter(
    "google_antigravity",
    kit.Package("google-antigravity", ">=0.1.17,<0.2", module="google.antigravity"),
    seats=_SEATS,
    not_covered={
        "model calls": (
            "the harness makes them: no hook sees them, and spans and messages of them are missing"
        ),
        (
            "built-in tools of agents that were configured or that the model defined, and of "
            "agents in workflows"
        ): (
            "the harness does not ask about them; such agents are not started if a policy could "
            'deny them, unless the option `unjudged` is "allow"'
        ),
        "`manage_task` and `schedule`": (
            "the harness does not ask about them; they are removed if a policy could deny "
            'them, unless the option `unjudged` is "allow"'
        ),
        "`define_subagent`, `manage_subagents` and `send_message`": (
            "the harness does not ask about them; they reach only agents that may be started"
        ),
        "the function that a tool was made of": (
            "user code that calls it itself calls a plain function"
        ),
    },
    gaps=(
        NotCovered(
            "an agent of the interactions protocol",
            "its harness does not start yet",
            module=f"{_LOCAL}.interactions_connection",
            seats=(
                kit.listen(
                    f"{_LOCAL}.interactions_connection:InteractionsConnectionStrategy.__aenter__",
                    since="0.1.18",
                ),
            ),
        ),
    ),
    built_in=agents.TABLE,
    in_part={
        "completion.pre, completion.post": "never: the harness calls the model",
        "budget": (
            "a turn without room in it is not begun, or stopped after the call that used it up"
        ),
        "tool.post": (
            "what is taken back of a built-in or MCP tool stops the turn and the conversation"
        ),
        "error": "a failure of a built-in or MCP tool stays one; what is recovered is its text",
    },
    options={agents.UNJUDGED: (agents.REFUSE, agents.ALLOW)},
)
