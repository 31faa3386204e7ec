"""Prove a deny with the real Google Antigravity SDK and its harness: a scripted model server."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from google.antigravity import Agent, GeminiAPIEndpoint, LocalAgentConfig, ModelType, types
from google.antigravity.hooks import policy as native

from otelhooks.frameworks.kit import trials
from otelhooks.frameworks.kit.remote import loopback

__all__ = ["ScriptedGemini", "offline", "prove"]


class ScriptedGemini(loopback.ScriptedServer):
    """A server that answers like Gemini, with one event."""

    def events(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        self.tools = [
            function["name"]
            for tool in asked.get("tools", ())
            for function in tool.get("functionDeclarations", ())
        ]
        step = self.next_step(_shown(asked))
        parts: list[Any] = [{"text": step}] if isinstance(step, str) else []
        if not isinstance(step, str):
            summary = {"toolAction": "Working", "toolSummary": "Work"}
            parts = [
                {"functionCall": {"name": name, "args": {**args, **summary}}} for name, args in step
            ]
        content = {"role": "model", "parts": parts}
        used = {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10}
        candidates = [{"content": content, "finishReason": "STOP", "index": 0}]
        return [{"candidates": candidates, "usageMetadata": used, "modelVersion": "scripted"}]


def _shown(asked: dict[str, Any]) -> list[str]:
    """Return what a request shows the model: messages and results."""
    shown: list[str] = []
    for content in asked["contents"]:
        for part in content["parts"]:
            if "text" in part:
                shown.append(part["text"])
            elif "functionResponse" in part:
                shown.append(str(part["functionResponse"]["response"].get("output")))
    return shown


def offline(url: str, folder: Path, **settings: Any) -> LocalAgentConfig:
    """Return the configuration of an agent that talks to a server here, and writes to a folder."""
    places = {name: folder / name for name in ("home", "data", "saved", "work")}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    endpoint = GeminiAPIEndpoint(base_url=url, api_key="not-a-key")
    kinds = [ModelType.TEXT, ModelType.IMAGE]
    target = types.ModelTarget(name="scripted", types=kinds, endpoint=endpoint)
    given = {
        "models": [target],
        "env": {"HOME": str(places["home"])},
        "app_data_dir": str(places["data"]),
        "save_dir": str(places["saved"]),
        "workspaces": [str(places["work"])],
        "policies": [native.allow_all()],
        **settings,
    }
    return LocalAgentConfig(**given)


async def _chat(trial: trials.Trial) -> str:
    """Return the end of an agent's answer to one message."""
    with tempfile.TemporaryDirectory(prefix="otelhooks-prove-") as folder:
        with ScriptedGemini(lambda shown: trial.next_step("\n".join(shown))) as model:
            config = offline(model.url, Path(folder), tools=[trial.danger, trial.safe])
            async with Agent(config) as agent:
                process: Any = getattr(agent.conversation.connection, "_process", None)
                answer = await (await agent.chat("begin")).text()
            for pipe in (process.stdout, process.stderr):  # which the SDK leaves open
                pipe.close()
            return answer[-len("done") :]


_COMMAND = {"CommandLine": "echo ran", "Cwd": "/", "WaitMsBeforeAsync": 1000}
_AGENT = {"name": "prover", "description": "Proves.", "system_prompt": "Prove."}
_START = {"Subagents": [{"TypeName": "prover", "Role": "prover", "Prompt": "Prove."}]}
_DEFINE = ("define_subagent", {**_AGENT, "enable_write_tools": True})
_LAST = trials.STEPS[1:]
_OWN: dict[str, Any] = {
    "built-in tool": (((("run_command", _COMMAND),), *_LAST),),
    "agent that the model defines": (
        ((_DEFINE,), (("invoke_subagent", _START),), *_LAST),
        "cannot be started",
    ),
}
prove = trials.Proving(
    "google_antigravity",
    dict.fromkeys(("Python tool", *_OWN), _chat),
    own=_OWN,
    denied=("danger", "run_command"),
)
