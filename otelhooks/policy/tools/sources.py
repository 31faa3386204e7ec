"""Where recorded calls come from: the local store, files of OTLP JSON, a Jaeger, a Tempo.

A source is named by one text: a path, or the address of a server behind its kind, such as
``jaeger+http://localhost:16686`` and ``tempo+http://localhost:3200``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from otelhooks.errors import ConfigError
from otelhooks.policy.tools.recorded import RecordedCall, read_call

if TYPE_CHECKING:
    from otelhooks.store.reader import Store

__all__ = ["Source", "StoreSource", "open_source", "otlp_calls"]

_SQLITE = b"SQLite format 3\0"
_MAX_PARSED_BYTES = 1 << 30


class Source(Protocol):
    """Something that holds recorded calls."""

    def calls(self) -> Iterable[RecordedCall]:
        """Yield the tool calls, oldest first as far as the source knows.

        Raises:
            ConfigError: It cannot be read.
        """
        ...

    def link(self, trace_id: str) -> str:
        """Return how a person gets to see a trace: a command or an address."""
        ...


def open_source(
    text: str,
    *,
    since_ns: int | None = None,
    limit: int = 1_000,
    headers: Mapping[str, str] | None = None,
) -> Source:
    """Return the source that a text names.

    Args:
        text: A path, an address; empty for the default store.
        since_ns: Only calls from then on, in nanoseconds since the Unix epoch; None for all that
            a file holds, and for the last 24 hours of a server.
        limit: At most so many traces, of a server.
        headers: Sent to a server with every request.

    Raises:
        ConfigError: There is no such file, or the address is of no known kind.
    """
    kind, plus, address = text.partition("+")
    if plus and "://" in address:
        from otelhooks.policy.tools import servers

        return servers.open_server(
            kind, address, since_ns=since_ns, limit=limit, headers=headers or {}
        )
    if "://" in text:
        raise ConfigError(
            f"`{text}` does not say what kind of server it is",
            hint=f"write `jaeger+{text}` or `tempo+{text}`",
        )
    path = Path(text).expanduser() if text else None
    if path is None or _is_sqlite(path):
        return StoreSource(path, since_ns=since_ns)
    return _File(path, since_ns=since_ns)


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise ConfigError(
            f"`{path}` cannot be read: {error.strerror or error}",
            hint="give a store, a file of OTLP JSON, or an address such as"
            " jaeger+http://localhost:16686",
        ) from error


@dataclass(frozen=True)
class StoreSource:
    """The local store.

    Args:
        path: The file; None for the default one.
        since_ns: Only calls from then on, in nanoseconds since the Unix epoch.
    """

    path: Path | None = None
    since_ns: int | None = None

    def calls(self) -> Iterator[RecordedCall]:
        """Yield the tool calls in the order in which their spans ended."""
        for spans, _ in self._store().records():
            for span in spans:
                if self.since_ns is not None and span.started_at < self.since_ns:
                    continue
                found = read_call(
                    span.attributes,
                    trace_id=span.trace_id,
                    span_id=span.span_id,
                    at=span.started_at,
                    has_failed=span.status == "error",
                )
                if found is not None:
                    yield found

    def link(self, trace_id: str) -> str:
        """Return the command that shows a trace."""
        where = "" if self.path is None else f" --store {self.path}"
        return f"otelhooks trace show {trace_id}{where}"

    def _store(self) -> Store:
        from otelhooks.store.reader import Store

        return Store(self.path)


@dataclass(frozen=True)
class _File:
    """A file of OTLP JSON: one request a line, as collectors write it, or one document."""

    path: Path
    since_ns: int | None = None

    def calls(self) -> Iterator[RecordedCall]:
        for number, document in self._documents():
            try:
                found = list(otlp_calls(document))
            except (TypeError, ValueError, AttributeError, KeyError) as error:
                raise ConfigError(
                    f"{self.path}:{number}: no OTLP JSON: {error}",
                    hint="export with `otelhooks trace export --file FILE`",
                ) from error
            for call in found:
                if self.since_ns is None or call.at >= self.since_ns:
                    yield call

    def _documents(self) -> Iterator[tuple[int, Any]]:
        try:
            if self.path.stat().st_size > _MAX_PARSED_BYTES:
                raise ConfigError(f"`{self.path}` is larger than 1 GiB", hint="split it by lines")
            text = self.path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"`{self.path}` cannot be read: {error}") from error
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            whole = None
        if whole is not None:
            yield 1, whole
            return
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ConfigError(
                        f"{self.path}:{number}: no JSON: {error}",
                        hint="a file of OTLP JSON has one request a line, or is one document",
                    ) from error

    def link(self, trace_id: str) -> str:
        return f"trace {trace_id} in {self.path}"


def otlp_calls(document: Any) -> Iterator[RecordedCall]:
    """Yield the tool calls of a document in OTLP's JSON, also in the forms Tempo answers with.

    Args:
        document: An object with ``resourceSpans`` (or ``batches``, or either below ``trace``), or
            a list of such.
    """
    if isinstance(document, list):
        for item in cast("list[Any]", document):
            yield from otlp_calls(item)
        return
    if not isinstance(document, dict):
        msg = f"an object is expected, not {type(document).__name__}"
        raise TypeError(msg)
    request: Any = cast("object", document)
    if "trace" in request:
        yield from otlp_calls(request["trace"] or {})
    for resource in request.get("resourceSpans") or request.get("batches") or ():
        for scope in resource.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                status: Any = span.get("status") or {}
                found = read_call(
                    {pair["key"]: _value(pair["value"]) for pair in span.get("attributes") or ()},
                    trace_id=_hex(span["traceId"], 16),
                    span_id=_hex(span["spanId"], 8),
                    at=int(span["startTimeUnixNano"]),
                    has_failed=status.get("code") in (2, "STATUS_CODE_ERROR"),
                )
                if found is not None:
                    yield found


def _hex(text: str, size: int) -> str:
    """Return an id in hex: OTLP's JSON has it so, protobuf's own JSON has base64."""
    if len(text) == 2 * size:
        return text.lower()
    return base64.b64decode(text, validate=True).hex()


def _value(value: Any) -> Any:
    """Return an attribute's value as plain data."""
    if not value:
        return None
    [(kind, item)] = value.items()
    if kind == "arrayValue":
        return [_value(each) for each in item.get("values") or ()]
    if kind == "kvlistValue":
        return {pair["key"]: _value(pair.get("value")) for pair in item.get("values") or ()}
    return int(item) if kind == "intValue" else item
