"""Agents of the Claude Agent SDK with the real CLI, in front of a scripted model."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any

import anyio
import claude_agent_sdk as sdk

from otelhooks.frameworks.claude_agent_sdk.scripted import ScriptedClaude, offline
from otelhooks.frameworks.trial import Step
from tests.frameworks.contract import World

TASK = "Do as the script says."
"""A sub-agent's task; its model calls are known by it."""

SERVER = "files"


def content(text: Any) -> dict[str, Any]:
    """Return a handler's result."""
    return {"content": [{"type": "text", "text": str(text)}]}


def tools_of(world: World) -> list[Any]:
    """Return the world's tools."""

    @sdk.tool("danger", "Remove a path.", {"path": str})
    async def danger(args: dict[str, Any]) -> dict[str, Any]:
        return content(world.danger(**args))

    @sdk.tool("safe", "Read number x.", {"x": int})
    async def safe(args: dict[str, Any]) -> dict[str, Any]:
        return content(world.safe(**args))

    @sdk.tool("broken", "Fail.", {"x": int})
    async def broken(args: dict[str, Any]) -> dict[str, Any]:
        return content(world.broken(**args))

    @sdk.tool("slow", "Wait.", {"x": int})
    async def slow(args: dict[str, Any]) -> dict[str, Any]:
        return content(await world.slow(**args))

    return [danger, safe, broken, slow]


def of_server(step: Any, server: str = SERVER) -> Any:
    """Return calls of a server's tools as the model asks for them."""
    if isinstance(step, str):
        return step
    return tuple((f"mcp__{server}__{name}", args) for name, args in step)


def model_of(world: World, *main: Step) -> Callable[[list[str]], Step]:
    """Return what the model says: the world's script, or where `main` is given, a sub-agent's.

    Args:
        world: Its script is played by the agent, or by the agent with the task `TASK`.
        main: What the outer agent says; the last of it again and again.
    """
    left = list(main)

    def next_step(shown: list[str]) -> Step:
        if main and not any(text == TASK for text in shown[:3]):
            return left.pop(0) if len(left) > 1 else left[0]
        return of_server(world.next("\n".join(shown)))

    return next_step


def start(kind: str = "general-purpose", *, background: bool = False) -> Step:
    """Return the step that starts an agent."""
    args = {"subagent_type": kind, "description": "Work", "prompt": TASK}
    return (("Agent", {**args, "run_in_background": background}),)


@contextlib.contextmanager
def served(next_step: Callable[[list[str]], Step], **settings: Any) -> Iterator[Any]:
    """Give the options of an agent whose model says what a function says."""
    with tempfile.TemporaryDirectory(prefix="otelhooks-", ignore_cleanup_errors=True) as name:
        with ScriptedClaude(next_step) as model:
            yield offline(model.url, FilePath(name), **settings)


def own(world: World) -> dict[str, Any]:
    """Return the servers of an agent with the world's tools."""
    return {SERVER: sdk.create_sdk_mcp_server(SERVER, tools=tools_of(world))}


async def answer(messages: Any) -> str:
    """Return the result that ends some messages."""
    last = ""
    async with contextlib.aclosing(messages):
        async for message in messages:
            if isinstance(message, sdk.ResultMessage):
                last = message.result or ""
    return last


def converse(*steps: Step, prompts: tuple[Any, ...] = ("please begin",), **settings: Any) -> Any:
    """Run a client to its answers; return them, and what its model was shown."""
    left, shown = list(steps), []

    def next_step(seen: list[str]) -> Step:
        shown.append("\n".join(seen))
        return left.pop(0)

    async def run() -> list[str]:
        with served(next_step, **settings) as options:
            async with sdk.ClaudeSDKClient(options) as client:
                answers = []
                for prompt in prompts:
                    await client.query(prompt)
                    answers.append(await answer(client.receive_response()))
                return answers

    return anyio.run(run), "\n".join(shown)
