"""A model's server on loopback, for `scripted.py` of a loop in another process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import Self

from otelhooks.frameworks.trial import Step

__all__ = ["ScriptedServer"]


class ScriptedServer:
    """Answers each request with a stream of events; a subclass knows the API.

    Args:
        next_step: Takes everything that the model is shown, one text for each part of a message;
            returns a final text, or the tool calls to ask for: pairs of name and arguments. Called
            in a thread of the server.

    Attributes:
        tools: Names of the tools that the model was last offered.
    """

    def __init__(self, next_step: Callable[[list[str]], Step]) -> None:
        self.next_step = next_step
        self.tools: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

            def do_POST(self) -> None:
                """Answer one model call."""
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = "".join(map(_line, outer.events(asked))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def events(self, asked: dict[str, Any]) -> Iterable[dict[str, Any]]:
        """Return the events that answer one request."""
        raise NotImplementedError


def _line(event: dict[str, Any]) -> str:
    named = f"event: {event['type']}\r\n" if "type" in event else ""
    return f"{named}data: {json.dumps(event)}\r\n\r\n"
