# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""A scripted model behind the client, without a network, and the proof of a deny with it."""

from __future__ import annotations

import json
import sys
from typing import Any

from google.genai import Client, types

from otelhooks.frameworks.kit import trials

__all__ = ["prove", "scripted_client"]


def _http() -> Any:
    """Return the package that sends requests: httpx or httpx2; both may be installed."""
    *_, sender, _ = type(Client(api_key="none")._api_client._httpx_client).__mro__
    return sys.modules[sender.__module__.partition(".")[0]]


def scripted_client(next_step: trials.NextStep) -> Client:
    """Return a client whose plain requests are answered here."""
    http = _http()

    def answer(request: Any) -> Any:
        step = next_step(json.dumps(json.loads(request.content)["contents"]))
        if isinstance(step, str):
            parts: list[Any] = [{"text": step}]
        else:
            parts = [{"functionCall": {"name": name, "args": args}} for name, args in step]
        content = {"role": "model", "parts": parts}
        made = {"candidates": [{"content": content, "finishReason": "STOP"}]}
        return http.Response(200, json=made)

    transport = http.MockTransport(answer)
    options = types.HttpOptions(client_args={"transport": transport})
    return Client(api_key="none", http_options=options)


def _loop(trial: trials.Trial) -> str:
    declared = [types.FunctionDeclaration(name=name) for name in ("danger", "safe")]
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=declared)])
    contents = [types.Content(role="user", parts=[types.Part(text="begin")])]
    client = scripted_client(trial.next_step)
    while True:
        answer = client.models.generate_content(model="scripted", contents=contents, config=config)
        if not answer.function_calls:
            return answer.text or ""
        results = [
            types.Part.from_function_response(
                name=call.name, response={"result": getattr(trial, call.name)(**call.args)}
            )
            for call in answer.function_calls
        ]
        contents += [answer.candidates[0].content, types.Content(role="user", parts=results)]


def _automatic(trial: trials.Trial) -> str:
    def danger(path):  # type: ignore[no-untyped-def]
        return trial.danger(path)

    def safe(x):  # type: ignore[no-untyped-def]
        return trial.safe(x)

    # 1.40 cannot read annotations that are texts, as those of this module would be
    danger.__annotations__, safe.__annotations__ = {"path": str}, {"x": int}
    client = scripted_client(trial.next_step)
    config = types.GenerateContentConfig(tools=[danger, safe])
    answer = client.models.generate_content(model="scripted", contents="begin", config=config)
    return answer.text or ""


prove = trials.Proving(
    "google_genai", {"generate_content": _loop, "automatic function calling": _automatic}
)
