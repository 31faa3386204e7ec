"""Prove a deny with the real Google Antigravity SDK and its harness: a scripted model server."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.antigravity import Agent, GeminiAPIEndpoint, LocalAgentConfig, ModelType, types
from google.antigravity.hooks import policy as native

from otelhooks.frameworks.kit import trials

__all__ = ["ScriptedGemini", "offline", "prove"]


class ScriptedGemini:
    """A server on loopback that answers like Gemini, with what a function returns.

    Args:
        next_step: Takes everything that the model is shown, one text for each part of a message;
            returns a final text, or the tool calls to ask for: pairs of name and arguments. Called
            in a thread of the server.

    Attributes:
        tools: Names of the tools that the model was last offered.
    """

    def __init__(self, next_step: Callable[[list[str]], trials.Step]) -> None:
        self._next_step = next_step
        self.tools: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                """Log nothing."""

            def do_POST(self) -> None:
                """Answer one model call with one event."""
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = f"data: {json.dumps(outer.answer(asked))}\r\n\r\n".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ScriptedGemini:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        self.tools = [
            function["name"]
            for tool in asked.get("tools", ())
            for function in tool.get("functionDeclarations", ())
        ]
        step = self._next_step(_shown(asked))
        parts: list[Any] = [{"text": step}] if isinstance(step, str) else []
        if not isinstance(step, str):
            summary = {"toolAction": "Working", "toolSummary": "Work"}
            parts = [
                {"functionCall": {"name": name, "args": {**args, **summary}}} for name, args in step
            ]
        content = {"role": "model", "parts": parts}
        return {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": 7,
                "candidatesTokenCount": 3,
                "totalTokenCount": 10,
            },
            "modelVersion": "scripted",
        }


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


def prove() -> Any:
    """Run a scripted agent against a deny on the main paths of the framework."""
    command = {"CommandLine": "echo ran", "Cwd": "/", "WaitMsBeforeAsync": 1000}
    agent = {"name": "prover", "description": "Proves.", "system_prompt": "Prove."}
    start = {"Subagents": [{"TypeName": "prover", "Role": "prover", "Prompt": "Prove."}]}
    define = ("define_subagent", {**agent, "enable_write_tools": True})
    last = trials.STEPS[1:]
    own: dict[str, Any] = {
        "built-in tool": (((("run_command", command),), *last),),
        "agent that the model defines": (
            ((define,), (("invoke_subagent", start),), *last),
            "cannot be started",
        ),
    }
    return trials.prove(
        "google_antigravity",
        "google-antigravity",
        "google.antigravity",
        dict.fromkeys(("Python tool", *own), _chat),
        own=own,
        denied=("danger", "run_command"),
    )
