"""A program whose run a viewer shows: a denied call, one that runs, an answer."""

from __future__ import annotations

import agents

import otelhooks
from otelhooks import policy
from otelhooks.demo import scripted_model

otelhooks.instrument(
    policies=[
        policy.deny(
            "run_command",
            when=lambda args: "rm -rf" in args["CommandLine"],
            id="no-rm",
            reason="Deleting files is not allowed here; list them instead.",
        )
    ],
    capture_content=True,
    user_attribute="user.id",
)


@agents.function_tool
def run_command(CommandLine: str) -> str:
    """Run a command in a shell."""
    return f"ran: {CommandLine}"


model = scripted_model(
    "openai_agents",
    [
        ("run_command", {"CommandLine": "rm -rf build"}),
        ("run_command", {"CommandLine": "ls"}),
        "All is listed.",
    ],
)
ops = agents.Agent("ops", instructions="You clean up.", tools=[run_command], model=model)
with otelhooks.session("conversation-7", user="u-1"):
    agents.Runner.run_sync(ops, "Clean up.")
