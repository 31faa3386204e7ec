"""Where recorded calls come from: the local store, files of OTLP JSON, a Jaeger, a Tempo.

One text names a source: a path, or a server's address after its kind, such as
``jaeger+http://localhost:16686`` and ``tempo+http://localhost:3200``.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otelhooks.errors import ConfigError
from otelhooks.policy_tools.otlp_calls import otlp_calls
from otelhooks.policy_tools.recorded import RecordedCall, Source, read_span

if TYPE_CHECKING:
    from otelhooks.store.reader import Store

__all__ = ["OfService", "StoreSource", "open_source"]

_SQLITE = b"SQLite format 3\0"
_MAX_PARSED_BYTES = 1 << 30


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
        since_ns: Only calls from this time on, in nanoseconds since the Unix epoch; None for a
            whole file, and for the last 24 hours of a server.
        limit: Most traces to read from a server.
        headers: Sent to a server with every request.

    Raises:
        ConfigError: The file does not exist, or the address is of an unknown kind.
    """
    kind, plus, address = text.partition("+")
    if plus and "://" in address:
        from otelhooks.policy_tools.servers import open_server

        return open_server(kind, address, since_ns=since_ns, limit=limit, headers=headers or {})
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
class OfService:
    """The calls of one program in a source.

    Args:
        source: Where the calls are.
        service: Glob of ``service.name``; None for every program.

    Attributes:
        services: Names of the programs whose calls were taken.
    """

    source: Source
    service: str | None = None
    services: set[str] = field(default_factory=set[str])

    def calls(self) -> Iterator[RecordedCall]:
        """Yield the calls of the program, in the order of the source."""
        for call in self.source.calls():
            if self.service is None or fnmatch.fnmatchcase(call.service, self.service):
                self.services.add(call.service)
                yield call

    def link(self, trace_id: str) -> str:
        """Return how to view a trace."""
        return self.source.link(trace_id)


@dataclass(frozen=True)
class StoreSource:
    """The local store.

    Args:
        path: The file; None for the default one.
        since_ns: Only calls from this time on, in nanoseconds since the Unix epoch.
    """

    path: Path | None = None
    since_ns: int | None = None

    def calls(self) -> Iterator[RecordedCall]:
        """Yield the tool calls in the order in which their spans ended."""
        for spans, _ in self._store().records():
            for span in spans:
                if self.since_ns is not None and span.started_at < self.since_ns:
                    continue
                if (found := read_span(span)) is not None:
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
    """A file of OTLP JSON: one request per line, as collectors write it, or one document."""

    path: Path
    since_ns: int | None = None

    def calls(self) -> Iterator[RecordedCall]:
        for number, document in self._documents():
            try:
                found = list(otlp_calls(document))
            except (TypeError, ValueError, AttributeError, KeyError) as error:
                raise ConfigError(
                    f"{self.path}:{number}: not OTLP JSON: {error}",
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
                        f"{self.path}:{number}: not JSON: {error}",
                        hint="a file of OTLP JSON has one request a line, or is one document",
                    ) from error

    def link(self, trace_id: str) -> str:
        return f"trace {trace_id} in {self.path}"
