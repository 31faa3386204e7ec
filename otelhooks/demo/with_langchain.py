"""The story in langchain: an agent on langgraph, a sub-agent inside a tool, an MCP call."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from otelhooks.demo import story


class _ScriptedModel(BaseChatModel):
    """Asks for one tool after another, then answers; records what it is sent."""

    name_of_model: str
    seen: list[str]
    steps: Iterator[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def model(self) -> str:
        """The model's name on spans."""
        return self.name_of_model

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Offer tools to the model."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            self.seen.append(str(last.content))
        number, step = next(self.steps)
        usage: Any = {"input_tokens": 120, "output_tokens": 20, "total_tokens": 140}
        if isinstance(step, str):
            message = AIMessage(content=step, usage_metadata=usage)
        else:
            name, args = step
            call = {"name": name, "args": args, "id": f"call_{self.name_of_model}_{number}"}
            message = AIMessage(content="", tool_calls=[call], usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


def scripted(name: str, steps: Sequence[Any]) -> Any:
    """Return a model that answers with these steps."""
    return _ScriptedModel(name_of_model=name, steps=zip(itertools.count(1), steps), seen=[])


def play(steps: Sequence[Any]) -> None:
    """Run an agent with the story's tools on these steps."""
    tools = [tool(each) for each in story.TOOLS]
    agent = create_agent(scripted("scripted", steps), tools, name="assistant")
    agent.invoke({"messages": [("user", story.PROMPT)]})


@tool
async def ask_docs(query: str) -> str:
    """Ask the documentation's MCP server."""
    # Here, so that the scripted model needs langchain alone.
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(command=story.SERVER.command, args=story.SERVER.args)
    async with (
        stdio_client(parameters) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        result = await session.call_tool("find_page", {"query": query})
        return "\n".join(getattr(part, "text", "") for part in result.content)


async def _run() -> None:
    small = scripted(
        "scripted-small", [("search", {"query": "limits", "limit": 50}), "Limits are 10 a minute."]
    )
    researching = create_agent(small, [tool(story.search)], name="researcher")

    @tool
    async def researcher(task: str) -> str:
        """Look things up."""
        answer = await researching.ainvoke({"messages": [("user", task)]})
        return str(answer["messages"][-1].content)

    model = scripted(
        "scripted",
        [
            *story.SCRIPT,
            ("researcher", {"task": "rate limits"}),
            ("ask_docs", {"query": "rate limits"}),
            story.ANSWER,
        ],
    )
    agent = create_agent(
        model, [*(tool(each) for each in story.TOOLS), researcher, ask_docs], name="assistant"
    )
    result = await agent.ainvoke({"messages": [("user", story.PROMPT)]}, {"recursion_limit": 60})
    answer = str(result["messages"][-1].content)
    expected = [*story.TOLD, "Limits are 10 a minute.", "page about rate limits"]
    story.check("langchain", [*model.seen, answer], expected)


def run() -> None:
    """Run the agent to its answer."""
    asyncio.run(_run())
