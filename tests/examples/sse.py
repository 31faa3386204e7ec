"""A local endpoint for server-sent events, and a client that reads it as a browser does."""

from __future__ import annotations

import http.server
import json
import queue
import threading
import urllib.request
from typing import Any

__all__ = ["Browser", "Feed"]

_WAIT_S = 20


class Feed:
    """A server on loopback whose one page is a stream of what is sent.

    Events that are sent before somebody listens wait for who comes first.
    """

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        waiting = self._waiting

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                while (data := waiting.get(timeout=_WAIT_S)) is not None:
                    self.wfile.write(f"data: {data}\n\n".encode())
                    self.wfile.flush()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.url = f"http://127.0.0.1:{self._server.server_port}/events"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def send(self, data: str) -> None:
        """Send one event."""
        self._waiting.put(data)

    def close(self) -> None:
        """End the stream, once all that was sent is out, and the server."""
        self._waiting.put(None)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_WAIT_S)


class Browser:
    """A client on a thread of its own, which listens from now on.

    Args:
        url: Of the stream.
    """

    def __init__(self, url: str) -> None:
        self._events: list[dict[str, Any]] = []
        self._came = threading.Condition()
        self._response = urllib.request.urlopen(url, timeout=_WAIT_S)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        with self._response:
            for line in self._response:
                name, _, data = line.decode().partition(": ")
                if name == "data":
                    with self._came:
                        self._events.append(json.loads(data))
                        self._came.notify_all()

    def has_seen(self, type: str) -> bool:
        """Wait for an event of a type; return whether it came."""
        with self._came:
            return self._came.wait_for(
                lambda: any(event["type"] == type for event in self._events), _WAIT_S
            )

    def read(self) -> list[dict[str, Any]]:
        """Return all events, once the stream has ended."""
        self._thread.join(_WAIT_S)
        assert not self._thread.is_alive(), "the stream did not end"
        return self._events
