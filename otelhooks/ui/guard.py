"""Who may see the console: browsers that were given its address, and pages of its own.

Each request must name this host, against DNS rebinding, begin with the console's path, and carry
the token of this start, which the first visit puts into a cookie. Browsers send a cookie of this
host to all of its ports, so to an agent's server as well, but only below the cookie's path, which
no one else knows. A request that changes something must come from a page of the console
(``Origin``), and carry the token that its forms have.

A program that listens to events may have a token that outlives a restart, but opens nothing else:
while the console is away, any program can take its port, and gets what is sent there.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard"]

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'self'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # with no-referrer, forms would come from the origin `null`
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


_COOKIE = "otelhooks"
_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?")  # a forwarded port may be another one


class Guard:
    """Middleware around every page.

    Args:
        app: What is guarded.
        root: The path that all pages are below; of this start only.
        token: What a browser must know as well.
        listening: What a program sends to read ``/events``, and only that; empty for nothing.
    """

    def __init__(self, app: ASGIApp, root: str, token: str, listening: str) -> None:
        self._app, self._root, self._token = app, root, token
        self._listening = listening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":  # the server's own start and end; nothing here has web sockets
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        scope["root_path"] = self._root
        request = Request(scope)
        answer = self._refused(request)
        if answer is None and not self._listens(request):
            answer = self._first_visit(request)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await (answer or self._app)(scope, receive, guarded)

    def _first_visit(self, request: Request) -> RedirectResponse | None:
        """Move a token from the address, where histories keep it, into a cookie."""
        if "token" not in request.query_params:
            return None
        others = [pair for pair in request.query_params.multi_items() if pair[0] != "token"]
        query = f"?{urlencode(others)}" if others else ""
        answer = RedirectResponse(f"{request.scope['path']}{query}", 303)
        answer.set_cookie(
            _COOKIE, self._token, path=f"{self._root}/", httponly=True, samesite="strict"
        )
        return answer

    def _refused(self, request: Request) -> PlainTextResponse | None:
        host = request.headers.get("host", "")
        if not _HOST.fullmatch(host):
            return PlainTextResponse("The console does not have this name.\n", 421)
        if self._listens(request):
            return None
        given = request.query_params.get("token", request.cookies.get(_COOKIE, ""))
        root = f"{self._root}/"
        if not (_same(request.scope["path"][: len(root)], root) and _same(given, self._token)):
            text = "Open the address that `otelhooks ui` printed: it has the token.\n"
            return PlainTextResponse(text, 401)
        is_ours = request.headers.get("origin") == f"http://{host}"
        if request.method not in ("GET", "HEAD") and not is_ours:
            return PlainTextResponse("This page is not one of the console's.\n", 403)
        return None

    def _listens(self, request: Request) -> bool:
        given = request.headers.get("authorization", "")
        is_asked = (
            self._listening and request.method == "GET" and request.scope["path"] == "/events"
        )
        return bool(is_asked) and _same(given, f"Bearer {self._listening}")


def _same(given: str, wanted: str) -> bool:
    return secrets.compare_digest(given.encode(), wanted.encode())


def form_token(token: str) -> str:
    """Return what each form of the console carries."""
    return hmac.new(token.encode(), b"form", hashlib.sha256).hexdigest()
