"""The scripted server of loops in another process, asked over HTTP."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

from otelhooks.frameworks.kit.remote.loopback import ScriptedServer


class Server(ScriptedServer):
    def events(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"type": "said", "text": self.next_step(asked["messages"])}
        yield {"usage": 1}


def test_a_request_is_answered_with_a_stream_of_events() -> None:
    shown: list[Any] = []

    def next_step(messages: list[str]) -> str:
        shown.append(messages)
        return "done"

    with Server(next_step) as server:
        body = json.dumps({"messages": ["begin"]}).encode()
        with urllib.request.urlopen(f"{server.url}/v1/messages", body) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            lines = response.read().decode().split("\r\n")
    said, usage = '{"type": "said", "text": "done"}', '{"usage": 1}'
    assert lines == ["event: said", f"data: {said}", "", f"data: {usage}", "", ""]
    assert shown == [["begin"]]
