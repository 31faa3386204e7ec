"""The story in openai-agents: an agent, a sub-agent as a tool, an MCP server."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

import agents
from agents.mcp import MCPServerStdio
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from otelhooks.demo import story

Step = tuple[str, dict[str, Any]] | str


class _ScriptedModel(agents.Model):
    """Asks for one tool after another, then answers; records what it is sent."""

    def __init__(self, name: str, steps: Sequence[Step]) -> None:
        self.model = name
        self.seen: list[str] = []
        self._steps = iter(steps)
        self._ids = itertools.count(1)

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> agents.ModelResponse:
        """Return the next step of the script."""
        if isinstance(input, list):
            self.seen.extend(
                str(item["output"])
                for item in input
                if isinstance(item, dict) and item.get("type") == "function_call_output"
            )
        step, number = next(self._steps), next(self._ids)
        if isinstance(step, str):
            text = ResponseOutputText(text=step, type="output_text", annotations=[])
            output: Any = ResponseOutputMessage(
                id=f"m{number}",
                content=[text],
                role="assistant",
                status="completed",
                type="message",
            )
        else:
            name, arguments = step
            output = ResponseFunctionToolCall(
                call_id=f"call_{self.model}_{number}",
                name=name,
                arguments=json.dumps(arguments),
                type="function_call",
            )
        usage = agents.Usage(requests=1, input_tokens=120, output_tokens=20, total_tokens=140)
        return agents.ModelResponse(output=[output], usage=usage, response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Not used here."""
        raise RuntimeError("the demonstration does not stream")


def scripted(name: str, steps: Sequence[Step]) -> Any:
    """Return a model that answers with these steps."""
    return _ScriptedModel(name, steps)


def play(steps: Sequence[Step]) -> None:
    """Run an agent with the story's tools on these steps."""
    agents.set_tracing_disabled(True)
    agent = agents.Agent(
        name="assistant",
        model=scripted("scripted", steps),
        tools=[agents.function_tool(tool) for tool in story.TOOLS],
    )
    asyncio.run(agents.Runner.run(agent, story.PROMPT))


async def _run() -> None:
    agents.set_tracing_disabled(True)
    researcher = agents.Agent(
        name="researcher",
        instructions="Look things up.",
        model=scripted(
            "scripted-small",
            [("search", {"query": "limits", "limit": 50}), "Limits are 10 a minute."],
        ),
        tools=[agents.function_tool(story.search)],
    )
    model = scripted(
        "scripted",
        [
            *story.SCRIPT,
            ("researcher", {"input": "rate limits"}),
            ("find_page", {"query": "rate limits"}),
            ("delete_page", {"title": "rate limits"}),
            story.ANSWER,
        ],
    )
    server = MCPServerStdio(
        name=story.SERVER.name,
        params={"command": story.SERVER.command, "args": story.SERVER.args},
    )
    async with server:
        agent = agents.Agent(
            name="assistant",
            instructions="Help.",
            model=model,
            tools=[
                *(agents.function_tool(tool) for tool in story.TOOLS),
                researcher.as_tool("researcher", "Looks things up."),
            ],
            mcp_servers=[server],
        )
        result = await agents.Runner.run(agent, story.PROMPT, max_turns=20)
    expected = [
        *story.TOLD,
        "Limits are 10 a minute.",
        "page about rate limits",
        "The documentation is read-only",
    ]
    story.check("openai_agents", [*model.seen, str(result.final_output)], expected)


def run() -> None:
    """Run the agent to its answer."""
    asyncio.run(_run())
