"""The receiver of pages and tickets: a real HTTP server, which takes them with its token only."""

from __future__ import annotations

import hmac
import http.server
import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Notification:
    """What Alertmanager sent at once.

    Attributes:
        kind: ``oncall`` or ``ticket``.
        body: Alertmanager's webhook message, version 4.
        received_at: Seconds since the epoch.
    """

    kind: str
    body: dict[str, Any]
    received_at: float


class Webhook:
    """Listens on loopback from the start, until `close`.

    Args:
        on_notification: Called with each, from a thread of the server.

    Attributes:
        url: Without the kind, which is the path.
        token: What senders must show.
        notifications: All that were taken, the oldest first.
        refused: How many came without the token.
    """

    def __init__(self, on_notification: Callable[[Notification], None] = lambda _: None) -> None:
        self.token = secrets.token_urlsafe(32)
        self.notifications: list[Notification] = []
        self.refused = 0
        self._on_notification = on_notification
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.send_response(webhook._take(self))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Say nothing: what came is in `notifications`."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def _take(self, request: http.server.BaseHTTPRequestHandler) -> int:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        shown = request.headers.get("Authorization", "")
        if not hmac.compare_digest(shown.encode(), f"Bearer {self.token}".encode()):
            self.refused += 1
            return 401
        notification = Notification(request.path.strip("/"), json.loads(body), time.time())
        self.notifications.append(notification)
        self._on_notification(notification)
        return 200

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
