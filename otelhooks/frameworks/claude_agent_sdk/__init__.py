"""Claude Agent SDK (``claude-agent-sdk``), ``>=0.2.144,<0.3``.

The agent's loop is a program of its own, the CLI that the package carries. It calls the model, runs
the built-in tools and sub-agents, is the client of external MCP servers, and asks this process over
its standard streams. Seats:

- ``SubprocessCLITransport.__init__``: the conversation's id; removes tools that a rule hides.
- ``Query.initialize``: puts our hooks in at each connection, whatever hooks the application has;
  runs the application's ``PreToolUse`` hooks before ours; looks for settings that switch hooks off.
  The CLI asks them before every call, also of sub-agents, and whatever the permission mode is.
- ``Query._handle_sdk_mcp_request``: every tool of a server in this process, when its call arrives;
  ``SdkMcpTool.handler``: the tool's function, even if the application calls it.
- ``Transport.write``: each message of the user's, of `query` and of `ClaudeSDKClient`.
- ``Query.receive_messages``: what the application reads.
- ``Query.close``, ``ClaudeSDKClient.disconnect``: the end of the turn, and of the conversation.

The model sees a deny as the tool's error, and the run continues; a refused turn is answered
with the reason. A tool's result can be changed where it runs here, and where the CLI takes another
result; elsewhere the turn is stopped before the model sees it.
"""

from __future__ import annotations

from otelhooks.frameworks import kit
from otelhooks.frameworks.claude_agent_sdk import calls, sessions, turns

__all__ = ["ADAPTER"]

_PACKAGE = "claude_agent_sdk"
_QUERY = f"{_PACKAGE}._internal.query:Query"
_TRANSPORT = f"{_PACKAGE}._internal.transport"
_CLIENT = f"{_PACKAGE}.client:ClaudeSDKClient"

ADAPTER = kit.Adapter(
    "claude_agent_sdk",
    kit.Package("claude-agent-sdk", ">=0.2.144,<0.3", module=_PACKAGE),
    seats=(
        kit.listen(
            f"{_TRANSPORT}.subprocess_cli:SubprocessCLITransport.__init__", sessions.configure
        ),
        kit.listen(f"{_QUERY}.initialize", turns.initialize, entry=True),
        kit.listen(f"{_TRANSPORT}:Transport.write", turns.write, overrides=True),
        kit.listen(f"{_CLIENT}.query", turns.ask_client, entry=True),
        kit.listen(f"{_QUERY}.receive_messages", turns.read_frames),
        kit.listen(f"{_QUERY}.close", sessions.close),
        kit.listen(f"{_CLIENT}.disconnect", sessions.disconnect),
        kit.seat(f"{_QUERY}._handle_sdk_mcp_request", calls.Served),
        kit.seat(
            f"{_PACKAGE}:SdkMcpTool.handler",
            calls.FromSession,
            calls.Handled,
            kind="coroutine",
            field=True,
            entry=True,
        ),
    ),
    not_covered={
        "model calls": (
            "the CLI makes them: no hook sees them, and spans and messages of them are missing"
        ),
        "hooks in settings files": (
            "the CLI runs them itself, beside ours: what they make of the arguments of a built-in "
            "or external tool is not judged"
        ),
        "single commands in a shell's script": "a call of `Bash` is judged as a whole",
        "questions to the user": (
            "a call of `AskUserQuestion` is judged as a tool call; `on_interaction` does not run"
        ),
        "a program at `cli_path` that adds `--bare`": (
            "if a rule can deny, the connection ends when the CLI begins a turn without "
            "asking; until then it can run the tools that its settings name"
        ),
        "the shortening of a conversation's history": "the CLI does not report its result",
        "the function that a tool was made of": (
            "user code that calls it itself calls a plain function"
        ),
    },
    built_in=sessions.TABLE,
    in_part={
        "completion.pre, completion.post": "never: the CLI calls the model",
        "budget": (
            "a turn without room in it is not begun, or stopped after the call that used it up"
        ),
        "tool.post": (
            "taken back from a built-in tool other than shells and `Read`, it stops the turn"
        ),
        "error": (
            "a failure of a built-in or external tool stays one; what is recovered is a remark"
        ),
    },
)
