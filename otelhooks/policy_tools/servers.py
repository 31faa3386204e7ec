"""Recorded calls of trace servers, over their HTTP interfaces.

Source: Jaeger 1.76 (v2), ``/api/services`` and ``/api/traces``; Tempo 3, ``/api/search`` and
``/api/v2/traces/ID``.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from pydantic_core import from_json

from otelhooks.errors import ConfigError
from otelhooks.policy_tools.otlp_calls import otlp_calls
from otelhooks.policy_tools.recorded import RecordedCall, Source, read_call
from otelhooks.records import semconv

__all__ = [
    "JaegerSource",
    "TempoSource",
    "Web",
    "has_failed",
    "items_in",
    "jaeger_spans",
    "open_server",
]

_DAY_NS = 24 * 3600 * 10**9
_PIECE = 1 << 20


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: another server would get the token."""

    def redirect_request(self, *args: Any, **given: Any) -> None:
        """Return no request."""


_OPENER = urllib.request.build_opener(_NoRedirect)


class Fetch(Protocol):
    """Gets a JSON answer from a server."""

    def __call__(self, path: str, query: Mapping[str, str | int]) -> Any:
        """Return the decoded answer.

        Args:
            path: From the server's root.
            query: Not encoded.

        Raises:
            ConfigError: No answer, or an unusable one.
        """
        ...


@dataclass(frozen=True)
class Web:
    """A server.

    Args:
        address: Its base address.
        headers: Sent with every request, such as a token or a tenant.
        timeout_s: Longest time without a byte.
        longest_s: Longest time until all of an answer is there.
        most_bytes: Largest answer.
    """

    address: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = 30.0
    longest_s: float = 600.0
    most_bytes: int = 512 << 20

    def __call__(self, path: str, query: Mapping[str, str | int]) -> Any:
        """Return the decoded answer."""
        url = f"{self.address.rstrip('/')}{path}"
        if query:
            url += "?" + urllib.parse.urlencode(query)
        headers = {"Accept": "application/json", **self.headers}
        request = urllib.request.Request(url, headers=headers)
        try:
            with _OPENER.open(request, timeout=self.timeout_s) as answer:
                body = self._body(answer)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(300).decode("utf-8", "replace").strip()
            raise ConfigError(
                f"`{url}` answers {error.code}: {text or error.reason}",
                hint="check the address, and give a token with --header",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise ConfigError(
                f"`{url}` cannot be reached: {getattr(error, 'reason', error)}",
                hint="check that the server runs there",
            ) from error
        if body is None:
            most = f"{self.most_bytes >> 20} MiB, or for more than {self.longest_s:g} s"
            raise ConfigError(f"`{url}` answers with more than {most}", hint="lower --limit")
        try:
            return from_json(body)  # which, unlike json, fails early on `[[[[...`
        except ValueError as error:
            raise ConfigError(
                f"`{url}` does not answer in JSON", hint="check the address, port and kind"
            ) from error

    def _body(self, answer: http.client.HTTPResponse) -> bytes | None:
        """Return what a server answers, None if that is too much or takes too long."""
        until, body = time.monotonic() + self.longest_s, bytearray()
        while piece := answer.read1(_PIECE):
            body += piece
            if len(body) > self.most_bytes or time.monotonic() > until:
                return None
        return bytes(body)


def open_server(
    kind: str, address: str, *, since_ns: int | None, limit: int, headers: Mapping[str, str]
) -> Source:
    """Return a server as a source.

    Args:
        kind: ``jaeger`` or ``tempo``.
        address: Base address.
        since_ns: Nanoseconds since the Unix epoch; None for the last 24 hours.
        limit: Most traces to read.
        headers: Sent with every request.

    Raises:
        ConfigError: Another kind, or another scheme than http and https.
    """
    known: dict[str, Any] = {"jaeger": JaegerSource, "tempo": TempoSource}
    if kind not in known:
        raise ConfigError(f"unknown kind of server `{kind}`", hint="use one of jaeger, tempo")
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise ConfigError(
            f"`{address}` is not a web address", hint=f"it looks like {kind}+http://HOST:PORT"
        )
    since = time.time_ns() - _DAY_NS if since_ns is None else since_ns
    return known[kind](address.rstrip("/"), Web(address, headers), since_ns=since, limit=limit)


@dataclass(frozen=True)
class JaegerSource:
    """The query service of Jaeger.

    Args:
        address: Base address, for links.
        fetch: Gets its answers.
        since_ns: Only traces from this time on, in nanoseconds since the Unix epoch.
        limit: Most traces of each service.
    """

    address: str
    fetch: Fetch
    since_ns: int = 0
    limit: int = 1_000

    def calls(self) -> Iterator[RecordedCall]:
        """Yield the tool calls, service by service."""
        tags = json.dumps({semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL})
        seen: set[tuple[str, str]] = set()
        for service in items_in(self.fetch("/api/services", {}), "data"):
            answer = self.fetch(
                "/api/traces",
                {
                    "service": str(service),
                    "tags": tags,
                    "start": self.since_ns // 1_000,
                    "end": time.time_ns() // 1_000,
                    "limit": self.limit,
                },
            )
            # A trace of two services is in both answers.
            for call in _oldest_first(_calls(answer)):
                if (call.trace_id, call.span_id) not in seen:
                    seen.add((call.trace_id, call.span_id))
                    yield call

    def link(self, trace_id: str) -> str:
        """Return the address of a trace's page."""
        return f"{self.address}/trace/{trace_id}"


def _calls(answer: Any) -> Iterator[RecordedCall]:
    for span, tags, service in jaeger_spans(answer):
        found = read_call(
            tags,
            trace_id=str(span["traceID"]).zfill(32),
            span_id=str(span["spanID"]).zfill(16),
            at=int(span.get("startTime") or 0) * 1_000,
            has_failed=has_failed(tags),
            resource={semconv.SERVICE_NAME: service},
        )
        if found is not None:
            yield found


def jaeger_spans(answer: Any) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    """Yield each span of an answer of Jaeger, its tags by name, and its service."""
    for trace in items_in(answer, "data"):
        programs = cast("dict[str, Any]", trace.get("processes") or {})
        for span in items_in(trace, "spans"):
            tags = {tag["key"]: tag.get("value") for tag in items_in(span, "tags")}
            yield span, tags, programs.get(span.get("processID"), {}).get("serviceName")


def has_failed(tags: Mapping[str, Any]) -> bool:
    """Return whether the tags of a span in Jaeger say that it failed."""
    return tags.get("otel.status_code") == "ERROR" or tags.get("error") in (True, "true")


@dataclass(frozen=True)
class TempoSource:
    """A Tempo server.

    Args:
        address: Base address, for links.
        fetch: Gets its answers.
        since_ns: Only traces from this time on, in nanoseconds since the Unix epoch.
        limit: Most traces to read.
    """

    address: str
    fetch: Fetch
    since_ns: int = 0
    limit: int = 1_000

    def calls(self) -> Iterator[RecordedCall]:
        """Yield the tool calls, trace by trace."""
        operation = f'span.{semconv.GEN_AI_OPERATION_NAME} = "{semconv.OP_EXECUTE_TOOL}"'
        found = self.fetch(
            "/api/search",
            {
                "q": f"{{ {operation} }}",
                "start": self.since_ns // 10**9,
                "end": time.time_ns() // 10**9 + 1,
                "limit": self.limit,
            },
        )
        traces = sorted(
            items_in(found, "traces"), key=lambda trace: int(trace.get("startTimeUnixNano") or 0)
        )
        for trace in traces:
            trace_id = str(trace["traceID"]).zfill(32)  # searches leave out leading zeros
            answer = self.fetch(f"/api/v2/traces/{trace_id}", {})
            yield from _oldest_first(otlp_calls(answer))

    def link(self, trace_id: str) -> str:
        """Return the address of a trace, which a Grafana for this Tempo shows as a page."""
        return f"{self.address}/api/v2/traces/{trace_id}"


def _oldest_first(calls: Iterable[RecordedCall]) -> list[RecordedCall]:
    try:
        return sorted(calls, key=lambda call: call.at)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise ConfigError(
            f"the server's answer does not have the expected form: {error!r}",
            hint="check that the address matches the prefix before it",
        ) from error


def items_in(answer: Any, key: str) -> list[Any]:
    """Return a list from an answer; ``null`` is an empty one."""
    if not isinstance(answer, dict):
        raise ConfigError(
            "the server's answer is not a JSON object",
            hint="check that the address matches the prefix before it",
        )
    found = cast("dict[str, Any]", answer).get(key)
    return cast("list[Any]", found) if isinstance(found, list) else []
