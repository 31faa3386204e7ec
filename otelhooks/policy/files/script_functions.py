"""What scripts may call: decisions, metrics, logs, spans, the run's cache, pure functions.

They cannot reach files, programs or the environment. What reaches outside goes through
`otelhooks.hooks.script_host`.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, cast, get_args

from otelhooks.hooks.labels import UNKNOWN, Lasting
from otelhooks.hooks.run_cache import run_state
from otelhooks.hooks.script_host import Speaker, active
from otelhooks.policy.files import named_functions, result_functions
from otelhooks.policy.files.http_client import Client
from otelhooks.policy.linear_regex import Pattern
from otelhooks.policy.rules import Severity
from otelhooks.policy.scripting.starlark import counting_time
from otelhooks.policy.selector_values import read_labels

__all__ = ["ALLOW", "BLOCK", "MODIFY", "PURE", "SLOW", "functions", "speaking"]

ALLOW = "allow"
BLOCK = "block"
MODIFY = "modify"

SLOW = frozenset(("http", "call_tool"))
"""Names of functions that wait; a script that uses one runs in a worker thread."""

_METRIC = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,254}")
_MAX_METRICS = 1_000


_speaker: ContextVar[Speaker | None] = ContextVar("otelhooks_script", default=None)


@contextlib.contextmanager
def speaking(speaker: Speaker) -> Generator[None, None, None]:
    """Run a block in which functions know the hook that they are called for."""
    token = _speaker.set(speaker)
    try:
        yield
    finally:
        _speaker.reset(token)


def _current() -> Speaker:
    speaker = _speaker.get()
    if speaker is None:
        msg = "this function works in `handle` and what it calls, not while the file is loaded"
        raise RuntimeError(msg)
    return speaker


# -- decisions --------------------------------------------------------------------------------


def _allow() -> dict[str, Any]:
    return {"action": ALLOW}


def _block(reason: Any = "", severity: str | None = None) -> dict[str, Any]:
    if not isinstance(reason, str):
        msg = "block: the reason is not text"
        raise TypeError(msg)
    if severity is not None and severity not in get_args(Severity):
        msg = f"block: unknown severity `{severity}`"
        raise ValueError(msg)
    return {"action": BLOCK, "reason": reason, "severity": severity}


def _modify(payload: Any) -> dict[str, Any]:
    if not isinstance(payload, dict):
        msg = "modify: the payload is not a dict"
        raise TypeError(msg)
    return {"action": MODIFY, "payload": payload}


# -- pure functions ---------------------------------------------------------------------------


def _encode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@counting_time
def _match(pattern: str, text: str) -> bool:
    return Pattern.of(pattern).matches(text)


@counting_time
def _search(pattern: str, text: str) -> bool:
    return Pattern.of(pattern).is_in(text)


PURE: dict[str, Callable[..., Any]] = {
    "json.decode": json.loads,
    "json.encode": _encode,
    "named.commands": named_functions.commands,
    "named.paths": named_functions.paths,
    "named.phrases": result_functions.phrases,
    "named.secrets": result_functions.secrets,
    "re.match": _match,
    "re.search": _search,
    "time.now": time.time,
}
"""Functions of their arguments, the clock, and the variables that commands name."""


# -- functions that speak for a hook ----------------------------------------------------------


class _Metrics:
    """Counters and gauges of the scripts that were loaded together."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._lock = threading.Lock()

    def incr(self, name: str, value: float = 1, **attributes: Any) -> None:
        _check_metric(name, value)
        if value < 0:
            msg = "metrics.incr: a counter cannot go down; use metrics.set"
            raise ValueError(msg)
        if self._keep(name, value, True):
            active().count(name, value, attributes)

    def set(self, name: str, value: float, **attributes: Any) -> None:
        _check_metric(name, value)
        if self._keep(name, value, False):
            active().gauge(name, value, attributes)

    def snapshot(self) -> dict[str, float]:
        with self._lock:
            return dict(self._values)

    def _keep(self, name: str, value: float, adds: bool) -> bool:
        with self._lock:
            if name not in self._values and len(self._values) >= _MAX_METRICS:
                return False
            self._values[name] = self._values.get(name, 0) + value if adds else value
            return True


def _check_metric(name: Any, value: Any) -> None:
    if not isinstance(name, str) or not _METRIC.fullmatch(name):
        msg = f"metrics: `{name}` is not a metric name"
        raise ValueError(msg)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        msg = "metrics: the value is not a number"
        raise TypeError(msg)


def _info(message: Any, **fields: Any) -> None:
    _log(False, message, fields)


def _warn(message: Any, **fields: Any) -> None:
    _log(True, message, fields)


def _log(is_warning: bool, message: Any, fields: dict[str, Any]) -> None:
    speaker = _current()
    text = message if isinstance(message, str) else _encode(message)
    level = "warn" if is_warning else "info"
    entry = {"hook": speaker.hook, "level": level, "message": text, "fields": fields}
    run_state(speaker.context).log(entry)
    active().log(speaker, is_warning, text, fields)


def _audit(record: Any) -> None:
    active().audit(_current(), record)


def _add_label(name: Any, per: Any = "session") -> None:
    [label] = read_labels("labels.add", [name])
    if label == UNKNOWN or per not in get_args(Lasting):
        msg = f"labels.add: cannot add `{label}` per `{per}`"
        raise ValueError(msg)
    _current().context.add_label(label, per)


def _set_attribute(name: str, value: Any) -> None:
    _current().context.set_attribute(_own_name(name), _attribute(value))


def _add_event(name: str, attributes: Mapping[str, Any] | None = None) -> None:
    given = {_own_name(key): _attribute(value) for key, value in (attributes or {}).items()}
    _current().context.event(_own_name(name), given)


def _own_name(name: Any) -> str:
    if not isinstance(name, str) or not name or active().is_reserved(name):
        msg = f"span: `{name}` is not a name of your own"
        raise ValueError(msg)
    return name


def _attribute(value: Any) -> Any:
    """Return a value in a form that a span accepts."""
    if isinstance(value, (str, bool, int, float)):
        return value
    items = cast("list[Any]", value) if isinstance(value, list) else []
    same = bool(items) and all(type(item) is type(items[0]) for item in items)
    if same and isinstance(items[0], (str, bool, int, float)):
        return items
    return _encode(value)


def _cached(key: str, default: Any = None) -> Any:
    return run_state(_current().context).get(key, default)


def _cache(key: str, value: Any) -> None:
    run_state(_current().context).set(key, value)


_inside_tool: ContextVar[bool] = ContextVar("otelhooks_script_tool", default=False)


class _Tools:
    """`call_tool`."""

    def __init__(self, allowed: Collection[str]) -> None:
        self._allowed = frozenset(allowed)

    def call(self, name: str, args: Mapping[str, Any] | None = None) -> Any:
        if name not in self._allowed:
            msg = f"call_tool: `{name}` is not among `hook_tools`"
            raise PermissionError(msg)
        if _inside_tool.get():
            msg = "call_tool: a hook of a tool that a hook called may not call one"
            raise RecursionError(msg)
        token = _inside_tool.set(True)
        try:
            return active().call(name, dict(args or {}))
        finally:
            _inside_tool.reset(token)


def functions(
    listed: Callable[[], Sequence[Mapping[str, Any]]],
    *,
    http_allow: Collection[str] = (),
    hook_tools: Collection[str] = (),
) -> dict[str, Callable[..., Any]]:
    """Return the functions that the scripts of one set of files may call, by name.

    Args:
        listed: What ``hooks.list()`` returns.
        http_allow: Hosts that ``http.get`` and ``http.post`` may call.
        hook_tools: Tools that ``call_tool`` may call.
    """
    metrics, http = _Metrics(), Client(http_allow)
    return {
        **PURE,
        "allow": _allow,
        "block": _block,
        "modify": _modify,
        "metrics.incr": metrics.incr,
        "metrics.set": metrics.set,
        "metrics.snapshot": metrics.snapshot,
        "log": _info,
        "log.info": _info,
        "log.warn": _warn,
        "span.set": _set_attribute,
        "span.event": _add_event,
        "audit": _audit,
        "labels.add": _add_label,
        "cache.get": _cached,
        "cache.set": _cache,
        "http.get": http.get,
        "http.post": http.post,
        "hooks.list": lambda: [dict(each) for each in listed()],
        "call_tool": _Tools(hook_tools).call,
    }
