"""Google Antigravity SDK (``google-antigravity``), ``>=0.1.17,<0.2``.

The agent's loop is a program of its own, the harness. It calls the model, runs the built-in tools
and those of MCP servers, and asks this process, over a WebSocket, what hooks say. Seats:

- ``LocalConnectionStrategy._build_harness_config``: has the harness ask, whatever hooks the
  application has; takes out tools that a rule hides.
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
  the harness tells unasked.
- The SDK's own OpenTelemetry hooks, which rest while ours make spans.

The model is told of a refusal by the step's error, and the run goes on; a refused turn is answered
with the reason. A Python tool's result and failure can be changed. Those of tools in the harness
cannot: a failure gets another text, and a result that a hook takes back or rewrites stops the turn
and closes the conversation, since the harness would show it to the model.

What the harness does not ask about is refused or taken away where anything could deny it; see
`agents`, and ``ADAPTER.not_covered``.
"""

from __future__ import annotations

from otelhooks.frameworks.google_antigravity import agents, calls, events, questions, runs
from otelhooks.patching.patches import Adapter, NotCovered, Package, Seat

__all__ = ["ADAPTER"]

SUPPORTED = ">=0.1.17,<0.2"

_LOCAL = "google.antigravity.connections.local"
_CONNECTION = f"{_LOCAL}.local_connection"
_EVENTS = f"{_LOCAL}.event_processor"
_HOOKS = "google.antigravity.hooks.hook_runner"
_TOOLS = "google.antigravity.tools.tool_runner"
_NATIVE = "google.antigravity.utils.otel"

_NATIVE_HOOKS = (
    "OTelSessionStartHook",
    "OTelSessionEndHook",
    "OTelPreTurnHook",
    "OTelPostTurnHook",
    "OTelPreStepHook",
    "OTelPostStepHook",
    "OTelPreToolCallHook",
    "OTelPostToolCallHook",
    "OTelOnToolErrorHook",
)

SEATS = (
    Seat(
        _CONNECTION,
        "LocalConnectionStrategy._build_harness_config",
        agents.build_config,
        entry=True,
    ),
    Seat(_EVENTS, "parse_initialize_response", runs.note_conversation),
    Seat(_CONNECTION, "LocalConnection.__init__", runs.connect),
    Seat(_CONNECTION, "LocalConnection.send", runs.send, entry=True),
    Seat(
        _CONNECTION,
        "LocalConnection.send_trigger_notification",
        runs.send_trigger,
        entry=True,
    ),
    Seat(_CONNECTION, "LocalConnection.receive_steps", runs.read_steps),
    Seat(_CONNECTION, "LocalConnection.disconnect", runs.disconnect),
    Seat(_HOOKS, "HookRunner.dispatch_pre_tool_call", calls.before_call),
    Seat(_HOOKS, "HookRunner.dispatch_post_tool_call", calls.after_call),
    Seat(_HOOKS, "HookRunner.dispatch_on_tool_error", calls.after_error),
    Seat(_EVENTS, "LocalHarnessEventProcessor.handle_tool_call", calls.run_python_tool),
    Seat(_TOOLS, "ToolRunner.execute", calls.execute),
    Seat(_HOOKS, "HookRunner.dispatch_stop", runs.before_stop),
    Seat(_HOOKS, "HookRunner.dispatch_post_turn", runs.after_turn),
    Seat(_HOOKS, "HookRunner.dispatch_interaction", questions.answer_question),
    Seat(_HOOKS, "HookRunner.dispatch_compaction", questions.see_compaction),
    Seat(_EVENTS, "LocalHarnessEventProcessor.process_event", events.see_event),
    Seat(_HOOKS, "HookRunner.dispatch_pre_step", events.see_first_step),
    Seat(_HOOKS, "HookRunner.dispatch_post_step", events.see_last_step),
    *(Seat(_NATIVE, f"{name}.run", events.skip_native, required=False) for name in _NATIVE_HOOKS),
)

ADAPTER = Adapter(
    framework="google_antigravity",
    packages=(Package(("google-antigravity",), SUPPORTED, "google.antigravity", SEATS),),
    not_covered=(
        NotCovered(
            "model calls",
            "the harness makes them: no hook sees them, and spans and messages of them are missing",
        ),
        NotCovered(
            "built-in tools of agents that were configured or that the model defined, and of "
            "agents in workflows",
            "the harness asks nobody about them; such agents are not started where anything could "
            'deny them, unless the option `unjudged` is "allow"',
        ),
        NotCovered(
            "`manage_task` and `schedule`",
            "the harness asks nobody about them; they are taken away where anything could deny "
            'them, unless the option `unjudged` is "allow"',
        ),
        NotCovered(
            "`define_subagent`, `manage_subagents` and `send_message`",
            "the harness asks nobody about them; they reach only agents that may be started",
        ),
        NotCovered(
            "the function that a tool was made of",
            "user code that calls it itself calls a plain function",
        ),
        NotCovered(
            "an agent of the interactions protocol",
            "its harness does not start yet",
            module=f"{_LOCAL}.interactions_connection",
            seats=(
                Seat(
                    f"{_LOCAL}.interactions_connection",
                    "InteractionsConnectionStrategy.__aenter__",
                    since="0.1.18",
                ),
            ),
        ),
    ),
    built_in=agents.TABLE,
    in_part=(
        ("completion.pre, completion.post", "never: the harness calls the model"),
        (
            "budget",
            "a turn without room in it is not begun, or stopped after the call that used it up",
        ),
        (
            "tool.post",
            "what is taken back of a built-in or MCP tool stops the turn and the conversation",
        ),
        (
            "error",
            "a failure of a built-in or MCP tool stays one; what is recovered is its text",
        ),
    ),
    options={agents.UNJUDGED: (agents.REFUSE, agents.ALLOW)},
)
