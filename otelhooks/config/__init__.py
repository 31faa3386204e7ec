"""Settings: arguments and environment variables become one frozen `Config`.

Precedence: argument, then ``OTELHOOKS_<NAME>``, then
``OTEL_*``, then the default. An argument counts as given unless it is `UNSET`::

    config = load(policies=[...], mode="monitor")      # every parameter of otelhooks.instrument()
    config.mode, config.capture_content, config.exporters_configured, config.sources["mode"]
    config.differences(other)                          # names of the settings that differ

Lists in a variable are separated by commas. Objects are given as ``module:attribute``; if the
attribute is a list, tuple or set, its items are used.

Decision code: an unusable value raises `ConfigError` and is never skipped.
"""

from __future__ import annotations

import logging
import os
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from otelhooks.config import values as readers
from otelhooks.config import variables
from otelhooks.config.capture import CaptureMode
from otelhooks.errors import ConfigError
from otelhooks.process.environment import UNSAFE_FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

_log = logging.getLogger("otelhooks.config")

PREFIX = "OTELHOOKS_"
_CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_EMIT_EVENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"
_COMPLETION_HOOK_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK"
_STABILITY_VARIABLE = "OTEL_SEMCONV_STABILITY_OPT_IN"
_STABILITY_KNOWN = "gen_ai_latest_experimental"
_STABILITY_FLAGS = {
    f"{_STABILITY_KNOWN}/dup": "old_model_metrics",
    "gen_ai_tool_call_decision": "decision_event",
}


class Unset(Enum):
    """Type of `UNSET`, the mark of an argument that was not given (None is a value)."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


class Config:
    """The settings of this process; the fields are the parameters of `otelhooks.instrument`.

    Sequences are tuples. `sources` has the source of every field: ``argument``, the name of a
    variable, or ``default``. It is not a dataclass: creating one with thirty fields takes longer,
    at each start of a program, than loading most modules.

    Args:
        **settings: The fields that differ from their defaults.

    Raises:
        TypeError: A name is not a field.
    """

    policies: tuple[Any, ...] = ()
    """Rules, policy and hook objects, in order; policy files and folders as absolute `Path`."""
    hooks: tuple[Any, ...] = ()
    """Hook objects, in order."""
    frameworks: Mapping[str, Any] | tuple[str, ...] | None = None
    """Names, and no others; or name to ``on``, ``off`` or a mapping with ``spans``, and all others
    are on; None: every supported framework."""
    mode: str = "enforce"
    """``enforce`` or ``monitor``."""
    candidate: tuple[Any, ...] = ()
    """A second policy set, evaluated but never enforced."""
    approvals: tuple[Any, ...] = ()
    """Channels for `ask`, in the order in which they are tried."""
    approval_timeout: float = 300.0
    """Seconds after which an unanswered question counts as refused."""
    capture_content: CaptureMode = CaptureMode.NO_CONTENT
    """Where prompts, arguments and results are recorded."""
    redact: Any = True
    """Masking of content: True (built-in patterns), False, patterns, or a callable."""
    audit: Any = None
    """Path of the audit trail, or an `Audit`; None: no audit file."""
    mcp_servers: tuple[Any, ...] | None = None
    """Server configurations that rules may name."""
    mcp_pins: readers.PinFile | None = None
    """File of approved definitions of MCP tools, and its mode; None: definitions do not matter."""
    reload: bool = False
    """Load changed policy files while running."""
    record_allows: bool = False
    """Emit an event for a plain allow too."""
    raise_on_deny: bool = False
    """Raise `Denied` from the entry function if a run is refused."""
    stream: str = "buffer"
    """``buffer``: hold a stream back until its verdict; ``pass``: let it through."""
    spans: str = "auto"
    """``auto`` adopts native spans, ``own`` always opens ours, ``annotate`` and ``off`` none."""
    http_allow: tuple[str, ...] = ()
    """Hosts that policy scripts may call."""
    hook_tools: tuple[str, ...] = ()
    """Tools that policy scripts may call."""
    prices: Any = None
    """Prices of models that go before the list prices: a table or a function; False: no cost is
    recorded."""
    max_continuations: int = 2
    """Most continuations that stop hooks may request in one turn, 0 or more."""
    denied_span_status: str = "error"
    """Status of a denied call's span: ``error`` or ``unset``."""
    user: Any = None
    """Function that returns the user outside sessions that name one: a `types.User`, an id or None;
    None: the resource's attributes do."""
    user_attribute: str = "enduser.pseudo.id"
    """Attribute of a session's user: this one or ``user.id``."""
    exit_timeout: float = 5.0
    """Seconds that the end of the process, also by a signal, may wait for telemetry to be handed
    over; 0 waits for nothing, and leaves signals alone."""
    tracer_provider: Any = None
    meter_provider: Any = None
    logger_provider: Any = None
    strict: bool | None = None
    """Refuse frameworks that cannot be guarded in full; None: once a rule or hook can deny."""
    store: Path | None = None
    """File of the local store; None: the default place in the user's data directory."""

    allow_policy_writes: bool = False
    """Switch the built-in guard of policy files off."""
    token_histogram: bool = False
    """Also emit the histograms ``gen_ai.client.inference.operation.{input,output}_tokens``."""
    chunk_histogram: bool = False
    """Also emit the histogram ``gen_ai.client.inference.time_per_output_chunk``."""
    tool_histogram: bool = False
    """Also emit the histogram ``gen_ai.execute_tool.duration``."""
    announce: bool = True
    """Write the first verdict about a tool call to stderr, if the program does not log."""
    keep_unsent: bool = True
    """Keep spans and events that the collector cannot take, beside the local store."""
    stops: str = ""
    """Where `otelhooks stop` writes: a folder, ``redis://...``, or ``off``; empty: a folder of the
    user's state."""
    old_model_metrics: bool = False
    """Also emit the metrics of model calls under the names that they had before."""
    decision_event: bool = False
    """Emit ``gen_ai.tool.call.decision`` beside our own event of a decision."""
    emit_event: bool = False
    """Emit the operation.details event of each model call."""
    completion_hook: str | None = None
    """Entry point name of an installed GenAI completion hook."""
    sdk_disabled: bool = False
    """``OTEL_SDK_DISABLED``: no telemetry at all; policy still runs."""
    config_file: str | None = None
    """``OTEL_CONFIG_FILE``: declarative configuration of the SDK."""
    otel: Mapping[str, str] = MappingProxyType({})
    """Every ``OTEL_*`` variable that is set and not empty; may contain secrets, is never logged."""
    sources: Mapping[str, str] = MappingProxyType({})

    def __init__(self, **settings: Any) -> None:
        unknown = sorted(settings.keys() - Config.__annotations__.keys())
        if unknown:
            raise TypeError(f"no setting `{unknown[0]}`")
        self.__dict__.update(settings)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings do not change: `{name}`")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"settings do not change: `{name}`")

    def replace(self, **settings: Any) -> Self:
        """Return a copy with other values in some fields."""
        return type(self)(**{**self.__dict__, **settings})

    @property
    def exporters_configured(self) -> bool:
        """True if any variable names an exporter or its target, so the local store is not used."""
        return any("EXPORTER" in name for name in self.otel)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and not self.differences(other)

    def differences(self, other: Config) -> tuple[str, ...]:
        """Return the names of the settings in which another configuration differs."""
        return tuple(
            name
            for name in _FIELDS
            if name not in _ORIGINS and not _is_same(getattr(self, name), getattr(other, name))
        )


_FIELDS = tuple(Config.__annotations__)
_ORIGINS = ("otel", "sources")


def _is_same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    try:
        return bool(left == right)
    except Exception as error:
        # A foreign object whose comparison fails counts as different.
        _log.debug("settings could not be compared: %s", type(error).__qualname__)
        return False


_READERS: dict[str, Callable[[object, str], Any]] = {
    "policies": readers.policies,
    "hooks": readers.objects,
    "frameworks": readers.frameworks,
    "mode": readers.choice("enforce", "monitor"),
    "candidate": readers.policies,
    "approvals": readers.approvers,
    "approval_timeout": readers.time_limit,
    "capture_content": readers.capture,
    "redact": readers.redact,
    "audit": readers.audit,
    "mcp_servers": readers.servers,
    "mcp_pins": readers.pins,
    "reload": readers.boolean,
    "record_allows": readers.boolean,
    "raise_on_deny": readers.boolean,
    "stream": readers.choice("buffer", "pass"),
    "spans": readers.choice(*readers.SPANS),
    "http_allow": readers.words,
    "hook_tools": readers.words,
    "prices": readers.prices,
    "max_continuations": readers.count,
    "denied_span_status": readers.choice("error", "unset"),
    "user": readers.function,
    "user_attribute": readers.choice("enduser.pseudo.id", "user.id"),
    "exit_timeout": readers.seconds,
    "tracer_provider": readers.as_is,
    "meter_provider": readers.as_is,
    "logger_provider": readers.as_is,
    "strict": readers.optional_boolean,
    "store": readers.path,
    "allow_policy_writes": readers.boolean,
    "token_histogram": readers.boolean,
    "chunk_histogram": readers.boolean,
    "tool_histogram": readers.boolean,
    "announce": readers.boolean,
    "keep_unsent": readers.boolean,
    "stops": readers.text,
}

_WITHOUT_VARIABLE = ("tracer_provider", "meter_provider", "logger_provider")

VARIABLES = tuple(PREFIX + name.upper() for name in _READERS if name not in _WITHOUT_VARIABLE)
"""Every variable of otelhooks that is a setting."""


def check_variables(*, warns: bool = True) -> None:
    """Check for misspelt variables of otelhooks.

    Args:
        warns: Whether to log those that do not stop the program.

    Raises:
        ConfigError: One of them could name rules.
    """
    variables.check(os.environ, (*VARIABLES, UNSAFE_FILES), warns)


def load(**arguments: object) -> Config:
    """Combine arguments, environment and defaults.

    Args:
        arguments: Parameters of `otelhooks.instrument` (and settings that only have a variable);
            `UNSET` ones count as not given.

    Returns:
        The frozen configuration.

    Raises:
        ConfigError: A value cannot be used; names the argument or variable, the value, and what is
            allowed.
    """
    unknown = sorted(set(arguments) - set(_READERS))
    if unknown:
        raise ConfigError(f"unknown setting `{unknown[0]}`", hint=f"known: {', '.join(_READERS)}")
    check_variables()
    environment = os.environ
    otel = {k: v for k, v in environment.items() if k.startswith("OTEL_") and v.strip()}
    found: dict[str, Any] = {}
    sources = dict.fromkeys(_FIELDS, "default")
    for name, read in _READERS.items():
        variable = PREFIX + name.upper()
        value = arguments.get(name, UNSET)
        if value is None and name == "capture_content":
            value = UNSET  # None means the environment here
        if value is not UNSET:
            found[name], sources[name] = read(value, name), "argument"
        elif name not in _WITHOUT_VARIABLE and environment.get(variable, "").strip():
            found[name], sources[name] = read(environment[variable], variable), variable
    if "capture_content" not in found:
        _read_capture(otel, found, sources)
    if (text := otel.get(_EMIT_EVENT_VARIABLE)) is not None:
        found["emit_event"] = _lenient_bool(text, _EMIT_EVENT_VARIABLE)
        sources["emit_event"] = _EMIT_EVENT_VARIABLE
    for name, variable in (
        ("completion_hook", _COMPLETION_HOOK_VARIABLE),
        ("config_file", "OTEL_CONFIG_FILE"),
    ):
        if variable in otel:
            found[name], sources[name] = otel[variable], variable
    if "OTEL_SDK_DISABLED" in otel:
        found["sdk_disabled"] = otel["OTEL_SDK_DISABLED"].strip().lower() == "true"
        sources["sdk_disabled"] = "OTEL_SDK_DISABLED"
    if text := otel.get(_STABILITY_VARIABLE):
        _read_stability(text, found, sources)
    return Config(**found, otel=otel, sources=sources)


def _read_capture(otel: Mapping[str, str], found: dict[str, Any], sources: dict[str, str]) -> None:
    """Read the variable of the official GenAI util, which reads a wrong value as NO_CONTENT."""
    text = otel.get(_CAPTURE_VARIABLE)
    if text is None:
        return
    try:
        found["capture_content"] = readers.capture(text, _CAPTURE_VARIABLE)
    except ConfigError as error:
        _log.warning("no content is captured: %s", error)
        found["capture_content"] = CaptureMode.NO_CONTENT
    sources["capture_content"] = _CAPTURE_VARIABLE


def _lenient_bool(text: str, variable: str) -> bool:
    """Read an OpenTelemetry variable, for which wrong values warn and mean false."""
    try:
        return readers.boolean(text, variable)
    except ConfigError as error:
        _log.warning("%s", error)
        return False


def _read_stability(text: str, found: dict[str, Any], sources: dict[str, str]) -> None:
    """Read the list that all instrumentations share; words that are for others are only logged."""
    others: list[str] = []
    for word in readers.words(text, _STABILITY_VARIABLE):
        if flag := _STABILITY_FLAGS.get(word):
            found[flag], sources[flag] = True, _STABILITY_VARIABLE
        elif word != _STABILITY_KNOWN:
            others.append(word)
    if others:
        _log.debug("%s: no meaning for otelhooks: %s", _STABILITY_VARIABLE, ", ".join(others))
