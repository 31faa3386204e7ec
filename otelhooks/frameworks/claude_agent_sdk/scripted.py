"""Prove a deny with the real Claude Agent SDK and its CLI: a scripted model server."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk

from otelhooks.frameworks.kit import trials
from otelhooks.frameworks.kit.remote import loopback

__all__ = ["ScriptedClaude", "offline", "prove"]


class ScriptedClaude(loopback.ScriptedServer):
    """A server that answers like the Messages API."""

    _calls = 0

    def events(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the events that answer one request."""
        step: trials.Step = "a title"
        if asked.get("tools"):  # without tools, the CLI asks for a title
            self.tools = [tool["name"] for tool in asked["tools"]]
            step = self.next_step(_shown(asked))
        self._calls += 1
        used = {"input_tokens": 7, "output_tokens": 1}
        message = {"id": f"msg_{self._calls}", "type": "message", "role": "assistant"}
        message |= {"model": asked["model"], "content": [], "usage": used}
        yield {"type": "message_start", "message": message}
        if isinstance(step, str):
            parts: list[Any] = [
                ({"type": "text", "text": ""}, {"type": "text_delta", "text": step})
            ]
        else:
            parts = [
                (
                    {"type": "tool_use", "id": f"toolu_{id(self)}_{self._calls}_{n}"}
                    | {"name": name, "input": {}},
                    {"type": "input_json_delta", "partial_json": json.dumps(args)},
                )
                for n, (name, args) in enumerate(step)
            ]
        for n, (block, delta) in enumerate(parts):
            yield {"type": "content_block_start", "index": n, "content_block": block}
            yield {"type": "content_block_delta", "index": n, "delta": delta}
            yield {"type": "content_block_stop", "index": n}
        reason = "end_turn" if isinstance(step, str) else "tool_use"
        used = {"output_tokens": 3}
        yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": used}
        yield {"type": "message_stop"}


def _shown(asked: dict[str, Any]) -> list[str]:
    """Return what a request shows the model: messages and results."""
    shown: list[str] = []
    for message in asked["messages"]:
        content = message["content"]
        for part in [content] if isinstance(content, str) else content:
            given = part if isinstance(part, str) else part.get("text", part.get("content", ""))
            shown.append(given if isinstance(given, str) else json.dumps(given))
    return shown


def offline(url: str, folder: Path, **settings: Any) -> sdk.ClaudeAgentOptions:
    """Return options of an agent that talks to a server here, and writes to a folder."""
    places = {name: folder / name for name in ("home", "config", "work", "temp")}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    environment = {
        "HOME": str(places["home"]),
        "CLAUDE_CONFIG_DIR": str(places["config"]),
        "CLAUDE_CODE_TMPDIR": str(places["temp"]),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "not-a-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
        "NO_PROXY": "127.0.0.1",
        **settings.pop("env", {}),
    }
    given = {
        "cwd": str(places["work"]),
        "setting_sources": [],
        "permission_mode": "bypassPermissions",
        **settings,
    }
    return sdk.ClaudeAgentOptions(env=environment, **given)


async def _query(trial: trials.Trial) -> str:
    """Return an agent's answer to one message."""

    @sdk.tool("danger", "Do what is denied.", {"path": str})
    async def danger(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": trial.danger(**args)}]}

    @sdk.tool("safe", "Do what is allowed.", {"x": int})
    async def safe(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": trial.safe(**args)}]}

    def next_step(shown: list[str]) -> trials.Step:
        step = trial.next_step("\n".join(shown))
        own = ("danger", "safe")
        if isinstance(step, str):
            return step
        return [(f"mcp__tools__{name}" if name in own else name, args) for name, args in step]

    server = sdk.create_sdk_mcp_server("tools", tools=[danger, safe])
    answer = ""
    with tempfile.TemporaryDirectory(prefix="otelhooks-prove-") as folder:
        with ScriptedClaude(next_step) as model:
            options = offline(model.url, Path(folder), mcp_servers={"tools": server})
            async for message in sdk.query(prompt="begin", options=options):
                if isinstance(message, sdk.ResultMessage):
                    answer = message.result or ""
    return answer


_COMMAND = ("Bash", {"command": "echo ran", "description": "Print."})
prove = trials.Proving(
    "claude_agent_sdk",
    {"tool in this process": _query, "built-in tool": _query},
    own={"built-in tool": (((_COMMAND,), *trials.STEPS[1:]),)},
    denied=("*/danger", "run_command"),
)
