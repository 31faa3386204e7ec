"""HTTP for scripts: to hosts that the operator named, for at most two seconds."""

from __future__ import annotations

import contextvars
import json
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Mapping
from typing import Any

from otelhooks.errors import ConfigError

__all__ = ["LIMIT_S", "MAX_BYTES", "Client"]

LIMIT_S = 2.0
"""Longest call, in seconds, redirects included."""

MAX_BYTES = 1_000_000
"""Longest body of an answer that is read."""

_ODD = re.compile(r"[\s\\\x00-\x20\x7f]")
_PORTS = {"http": 80, "https": 443}


class Client:
    """Calls allowed hosts.

    Args:
        allowed: ``host`` for the port of the scheme, or ``host:port``.

    Raises:
        ConfigError: An entry is not a host.
    """

    def __init__(self, allowed: Collection[str]) -> None:
        for entry in allowed:
            if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?", entry):
                raise ConfigError(
                    f"`http_allow`: `{entry}` is not a host", hint="write `host` or `host:port`"
                )
        self._allowed = frozenset(entry.lower() for entry in allowed)

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return ``{status, body, headers}`` of an address.

        Raises:
            PermissionError: The host is not allowed.
            OSError: No answer came in time.
        """
        return self._call("GET", url, None, headers)

    def post(
        self, url: str, body: Any = "", headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a body (text as it is, anything else as JSON); otherwise like `get`."""
        is_text = isinstance(body, str)
        data = (body if is_text else json.dumps(body)).encode()
        kind = "text/plain; charset=utf-8" if is_text else "application/json"
        return self._call("POST", url, data, {"Content-Type": kind, **(headers or {})})

    def _call(
        self, method: str, url: str, data: bytes | None, headers: Mapping[str, str] | None
    ) -> dict[str, Any]:
        self.check(url)
        request = urllib.request.Request(
            url, data=data, headers={str(k): str(v) for k, v in (headers or {}).items()}
        )
        request.method = method
        answer: list[Any] = []
        # In a thread, because a socket's timeout bounds neither a name look-up nor a slow answer.
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._answer, request, answer), daemon=True
        )
        thread.start()
        thread.join(LIMIT_S)
        if not answer:
            msg = f"http: no answer within {LIMIT_S:g} s"
            raise TimeoutError(msg)
        [found] = answer
        if isinstance(found, BaseException):
            raise found
        return found

    def _answer(self, request: urllib.request.Request, answer: list[Any]) -> None:
        try:
            answer.append(self._fetch(request))
        except Exception as error:
            answer.append(error)

    def _fetch(self, request: urllib.request.Request) -> dict[str, Any]:
        opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            _Redirects(self),
        ):
            opener.add_handler(handler)
        try:
            response: Any = opener.open(request, timeout=LIMIT_S)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            body: bytes = response.read(MAX_BYTES + 1)
            if len(body) > MAX_BYTES:
                msg = f"http: the answer is longer than {MAX_BYTES} bytes"
                raise ValueError(msg)
            return {
                "status": response.status,
                "body": body.decode("utf-8", "replace"),
                "headers": {name.lower(): value for name, value in response.headers.items()},
            }

    def check(self, url: Any) -> None:
        """Refuse an address whose host is not allowed.

        Raises:
            PermissionError: It is not allowed, or the address is ambiguous.
        """
        text = url if isinstance(url, str) else ""
        try:
            parts = urllib.parse.urlsplit(text)
            host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError:
            host, port, parts = "", 0, None
        if parts is None or _ODD.search(text) or parts.scheme not in _PORTS or parts.username:
            msg = "http: only plain http and https addresses can be called"
            raise PermissionError(msg)
        shown = f"[{host}]" if ":" in host else host
        is_usual = port == _PORTS[parts.scheme]
        if f"{shown}:{port}" not in self._allowed and not (is_usual and shown in self._allowed):
            msg = f"http: `{shown}:{port}` is not among `http_allow`"
            raise PermissionError(msg)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only if it stays on the host that was called."""

    max_redirections = 3

    def __init__(self, client: Client) -> None:
        self._client = client

    def redirect_request(  # the signature is the library's
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        fp.close()
        self._client.check(newurl)
        if urllib.parse.urlsplit(newurl).netloc.lower() != req.host.lower():
            refused = "http: a redirect to another host"
            raise PermissionError(refused)
        return super().redirect_request(req, fp, code, msg, headers, newurl)
