"""An instrumented agent as a process: ``python -m tests.e2e.agents FRAMEWORK TURNS AUDIT``.

Each turn asks for the calls of `CALLS`, with the tools, rules and hooks of ``otelhooks demo``; a
sub-agent is denied as well. Secrets are planted in arguments and results. Where telemetry goes is
said by ``OTEL_*``; with ``OTEL_TRACES_EXPORTER=otlp,console`` the spans are on standard output too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import Counter
from typing import Any

import otelhooks
from otelhooks.demo import scripted_model, story

FRAMEWORKS = ("openai_agents", "langchain", "mcp")

SECRETS = {
    "plain": "plain-7hQ2vXk9LmRz4TbN",
    "nested": "nested-3fWp8YcJd6SgV1Ae",
    "escaped": "escaped-9uKx5ZnHq2BoM7Ir",
    "bearer": "bearer.4tGe1LwDs8FyC6Pj",
    "card": "4111111111111111",
}
"""What must be in no store, file or log of any hop."""

PLANTED = json.dumps(
    {
        "password": SECRETS["plain"],
        "deep": [{"auth": {"api_key": SECRETS["nested"]}}],
        "text": json.dumps({"secret": SECRETS["escaped"]}),
        "header": f"Authorization: Bearer {SECRETS['bearer']}",
        "payment": f"card {SECRETS['card']} is charged",
    }
)
"""A tool's argument with all of them: JSON in a string, as models write it."""

DELETES = ("run_command", {"CommandLine": "rm -rf ./workspace"})
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("view_file", {"path": "notes.txt"}),
    DELETES,
    ("send_email", {"to": "ada@example.com", "body": PLANTED}),
    ("send_email", {"to": "everyone@example.org", "body": "Hello, all of you!"}),
    ("search", {"query": "limits", "limit": 500}),
    ("read_customer", {"customer_id": "c-7"}),
    ("lookup_rate", {"currency": "EUR"}),
)
"""Allowed; denied; asked and approved; asked and refused; rewritten; masked after; recovered."""

DECISIONS = Counter({"deny": 2, "ask": 2, "modify": 2})
"""Verdicts of a turn that are not a plain allow, the sub-agent's deny included."""

RULES = Counter({"no-rm": 2, "mail": 2, "at-most-10": 1, "no-card-numbers": 1})


async def run_openai_agents() -> None:
    """One turn of an agent with a sub-agent as a tool."""
    import agents

    agents.set_tracing_disabled(True)
    researcher = agents.Agent(
        name="researcher",
        model=scripted_model("openai_agents", [DELETES, "nothing found"], "small"),
        tools=[agents.function_tool(story.run_command)],
    )
    steps = [*CALLS, ("researcher", {"input": "look it up"}), story.ANSWER]
    agent = agents.Agent(
        name="assistant",
        model=scripted_model("openai_agents", steps),
        tools=[
            *(agents.function_tool(tool) for tool in story.TOOLS),
            researcher.as_tool("researcher", "Looks things up."),
        ],
    )
    await agents.Runner.run(agent, story.PROMPT, max_turns=20)


async def run_langchain() -> None:
    """One turn of an agent with a sub-agent inside a tool."""
    from langchain.agents import create_agent
    from langchain_core.tools import tool

    model = scripted_model("langchain", [DELETES, "nothing found"], "small")
    researching = create_agent(model, [tool(story.run_command)], name="researcher")

    @tool
    async def researcher(task: str) -> str:
        """Look things up."""
        answer = await researching.ainvoke({"messages": [("user", task)]})
        return str(answer["messages"][-1].content)

    steps = [*CALLS, ("researcher", {"task": "look it up"}), story.ANSWER]
    agent = create_agent(
        scripted_model("langchain", steps),
        [*(tool(each) for each in story.TOOLS), researcher],
        name="assistant",
    )
    await agent.ainvoke({"messages": [("user", story.PROMPT)]}, {"recursion_limit": 60})


async def run_mcp() -> None:
    """One turn of a host that calls a server's tools, and has a sub-agent that does."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(command=story.SERVER.command, args=story.SERVER.args)
    async with (
        stdio_client(parameters) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()

        @otelhooks.agent("researcher")
        async def research(task: str) -> str:
            await session.call_tool(*DELETES)
            return "nothing found"

        @otelhooks.tool
        async def researcher(task: str) -> str:
            """Look things up."""
            return await research(task)

        async with otelhooks.turn(story.PROMPT, agent="assistant") as turn:
            for name, arguments in CALLS:
                await session.call_tool(name, arguments)
            await researcher("look it up")
            turn.answer(story.ANSWER)


def main() -> None:
    """Run the turns, then let everything that is queued go out."""
    framework, turns, audit = sys.argv[1:]
    # No tool of an MCP server is called there: its counters start, and nothing else is different.
    pins = "monitor:mcp-pins.json" if framework == "openai_agents" else None
    logging.disable(logging.CRITICAL)  # failing tools are part of the turns
    otelhooks.instrument(
        policies=story.policies(),
        hooks=[*story.HOOKS],
        approvals=story.approver,
        mcp_servers=[story.SERVER],
        mcp_pins=pins,
        audit=audit,
        capture_content="SPAN_AND_EVENT",
    )
    for _ in range(int(turns)):
        asyncio.run(globals()[f"run_{framework}"]())
    otelhooks.uninstrument()


if __name__ == "__main__":
    main()
