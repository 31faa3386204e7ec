"""Agents of the Google Antigravity SDK with the real harness, in front of a scripted model."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path as FilePath
from typing import Any

import anyio
from google.antigravity import Agent

from otelhooks.frameworks.google_antigravity.scripted import ScriptedGemini, offline
from otelhooks.frameworks.trial import Step
from tests.frameworks.contract import World

TASK = "Do as the script says."
"""A sub-agent's task; its model calls are known by it."""

Next = Callable[[str], Any]


def tools_of(world: World) -> list[Any]:
    """Return the world's tools."""

    def danger(path: str) -> str:
        """Remove a path."""
        return world.danger(path)

    def safe(x: int) -> str:
        """Read number x."""
        return world.safe(x)

    async def broken(x: int) -> str:
        """Fail."""
        return world.broken(x)

    async def slow(x: int) -> str:
        """Wait."""
        return await world.slow(x)

    return [danger, safe, broken, slow]


def model_of(world: World, *main: Step) -> Callable[[list[str]], Step]:
    """Return what the model says: the world's script, or where `main` is given, a sub-agent's.

    Args:
        world: Its script is played by the agent, or by the agent with the task `TASK`.
        main: What the outer agent says; the last of it again and again.
    """
    left = list(main)

    def next_step(shown: list[str]) -> Step:
        if main and TASK not in shown[0]:
            return left.pop(0) if len(left) > 1 else left[0]
        return world.next("\n".join(shown))

    return next_step


def start(type_name: str = "self", *others: str) -> Step:
    """Return the step that starts agents of these types."""
    entries = [
        {"TypeName": name, "Role": "worker", "Prompt": TASK} for name in (type_name, *others)
    ]
    return (("invoke_subagent", {"Subagents": entries}),)


def command(line: str) -> tuple[str, dict[str, Any]]:
    """Return a call of the built-in shell, in the workspace: old versions run it nowhere else."""
    return "run_command", {"CommandLine": line, "WaitMsBeforeAsync": 5000}


@contextlib.asynccontextmanager
async def started(next_step: Callable[[list[str]], Step], **settings: Any) -> AsyncIterator[Agent]:
    """Start an agent whose model says what a function says."""
    with tempfile.TemporaryDirectory(prefix="otelhooks-") as name:
        with ScriptedGemini(next_step) as model:
            agent = Agent(offline(model.url, FilePath(name), **settings))
            await agent.__aenter__()
            agent.offered = model  # type: ignore[attr-defined]
            process: Any = agent.conversation.connection._process  # type: ignore[attr-defined]
            try:
                yield agent
            finally:
                try:
                    with anyio.CancelScope(shield=True):
                        await agent.__aexit__(None, None, None)
                finally:
                    for pipe in (process.stdout, process.stderr):  # which the SDK leaves open
                        pipe.close()


async def ask(agent: Agent, prompt: Any = "please begin") -> str:
    """Return an agent's last word on a message."""
    await (await agent.chat(prompt)).resolve()
    return agent.conversation.last_response


def converse(*steps: Step, prompts: tuple[str, ...] = ("please begin",), **settings: Any) -> Any:
    """Run an agent to its answers; return them, and what its model was shown."""
    left, shown = list(steps), []

    def next_step(seen: list[str]) -> Step:
        shown.append("\n".join(seen))
        return left.pop(0)

    async def run() -> list[str]:
        async with started(next_step, **settings) as agent:
            return [await ask(agent, prompt) for prompt in prompts]

    return anyio.run(run), "\n".join(shown)


@contextlib.contextmanager
def served(server: Any) -> Iterator[str]:
    """Serve an MCP server over HTTP, in a thread; give its address."""
    import uvicorn

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            server.streamable_http_app(), log_config=None, ws="none", timeout_graceful_shutdown=0
        )
        runner = uvicorn.Server(config)
        thread = threading.Thread(target=runner.run, args=([listening],), daemon=True)
        thread.start()
        while not runner.started:
            time.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            runner.should_exit = True
            thread.join(10)
