"""Settings: arguments and environment variables become one frozen `Config`.

The only module that reads the environment. Precedence: argument, then ``OTELHOOKS_<NAME>``, then
``OTEL_*``, then the default. An argument counts as given unless it is `UNSET`::

    config = load(policies=[...], mode="monitor")      # every parameter of otelhooks.instrument()
    config.mode, config.capture_content, config.exporters_configured, config.sources["mode"]
    config.differences(other)                          # names of the settings that differ

Lists in a variable are separated by commas. Objects are given as ``module:attribute``; an
attribute that is a list, tuple or set stands for its items.

Decision code: a value that cannot be used raises `ConfigError`, it is never skipped.
"""

from __future__ import annotations

import importlib
import logging
import os
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from otelhooks.errors import ConfigError
from otelhooks.telemetry.content import CaptureMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger("otelhooks.config")

PREFIX = "OTELHOOKS_"
_CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_EMIT_EVENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"
_COMPLETION_HOOK_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK"
_STABILITY_VARIABLE = "OTEL_SEMCONV_STABILITY_OPT_IN"
_STABILITY_KNOWN = "gen_ai_latest_experimental"
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


class Unset(Enum):
    """Type of `UNSET`, the mark of an argument that was not given (None is a value)."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True)
class Config:
    """What holds for this process; the fields are the parameters of `otelhooks.instrument`.

    Sequences are tuples. `sources` says for every field where its value came from: ``argument``,
    the name of a variable, or ``default``.
    """

    policies: tuple[Any, ...] = ()
    """Rules, policy and hook objects, in order."""
    hooks: tuple[Any, ...] = ()
    """Hook objects, in order."""
    frameworks: Mapping[str, Any] | None = None
    """Name to ``on``, ``off`` or a mapping with ``spans``; None: every supported framework."""
    mode: str = "enforce"
    """``enforce`` or ``monitor``."""
    candidate: tuple[Any, ...] = ()
    """A second policy set, evaluated and never enforced."""
    approvals: tuple[Any, ...] = ()
    """Channels for `ask`, in the order in which they are tried."""
    capture_content: CaptureMode = CaptureMode.NO_CONTENT
    """Where prompts, arguments and results are recorded."""
    redact: Any = True
    """Masking of content: True (built-in patterns), False, patterns, or a callable."""
    audit: Any = None
    """Path of the audit trail, or an `Audit`; None: no audit file."""
    mcp_servers: tuple[Any, ...] | None = None
    """Server configurations that rules may name."""
    reload: bool = False
    """Load changed policy files while running."""
    record_allows: bool = False
    """Emit an event for a plain allow too."""
    raise_on_deny: bool = False
    """Raise `Denied` from the entry function where a run is refused."""
    stream: str = "buffer"
    """``buffer``: hold a stream back until its verdict; ``pass``: let it through."""
    spans: str = "auto"
    """``auto`` adopts native spans, ``own`` always opens ours, ``off`` opens none."""
    http_allow: tuple[str, ...] = ()
    """Hosts that policy scripts may call."""
    hook_tools: tuple[str, ...] = ()
    """Tools that policy scripts may call."""
    max_continuations: int = 2
    """Continuations that stop hooks may ask for in one turn, 0 or more."""
    denied_span_status: str = "error"
    """Status of a denied call's span: ``error`` or ``unset``."""
    tracer_provider: Any = None
    meter_provider: Any = None
    logger_provider: Any = None
    strict: bool | None = None
    """Refuse frameworks that cannot be guarded in full; None: once a rule or hook can deny."""
    store: Path | None = None
    """File of the local store; None: the default place in the user's data directory."""

    token_histogram: bool = False
    """Also emit the old histogram ``gen_ai.client.token.usage``."""
    emit_event: bool = False
    """Emit the operation.details event of each model call."""
    completion_hook: str | None = None
    """Entry point name of an installed GenAI completion hook."""
    sdk_disabled: bool = False
    """``OTEL_SDK_DISABLED``: no telemetry at all; policy still runs."""
    config_file: str | None = None
    """``OTEL_CONFIG_FILE``: declarative configuration of the SDK."""
    otel: Mapping[str, str] = field(default_factory=dict[str, str])
    """Every ``OTEL_*`` variable that is set and not empty, for building providers."""
    sources: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)

    @property
    def exporters_configured(self) -> bool:
        """True if any variable names an exporter or its target, so the local store is not used."""
        return any("EXPORTER" in name for name in self.otel)

    def differences(self, other: Config) -> tuple[str, ...]:
        """Name the settings in which another configuration differs."""
        return tuple(
            item.name
            for item in fields(self)
            if item.compare and not _is_same(getattr(self, item.name), getattr(other, item.name))
        )


def _is_same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    try:
        return bool(left == right)
    except Exception:
        # A foreign object whose comparison fails is taken for another one.
        _log.debug("settings could not be compared", exc_info=True)
        return False


# --- Readers: one value, from an argument or the text of a variable -------------------------------
# `origin` names the argument or variable in error messages.


def _wrong(origin: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"{origin} cannot be `{value}`", hint=f"use {allowed}")


def _bool(value: object, origin: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = value.strip().lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
    raise _wrong(origin, value, "true or false")


def _optional_bool(value: object, origin: str) -> bool | None:
    return None if value is None else _bool(value, origin)


def _choice(*allowed: str) -> Callable[[object, str], str]:
    def read(value: object, origin: str) -> str:
        text = value.strip().lower() if isinstance(value, str) else value
        if text not in allowed:
            raise _wrong(origin, value, " or ".join(allowed))
        return cast("str", text)

    return read


def _count(value: object, origin: str) -> int:
    try:
        number = int(value) if isinstance(value, (str, int)) else -1
    except ValueError:
        number = -1
    if number < 0 or isinstance(value, bool):
        raise _wrong(origin, value, "a whole number, 0 or more")
    return number


def _words(value: object, origin: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(word for word in (part.strip() for part in value.split(",")) if word)
    if isinstance(value, (list, tuple, set, frozenset)):
        words = tuple(cast("list[object]", value))
        if all(isinstance(word, str) for word in words):
            return cast("tuple[str, ...]", words)
    raise _wrong(origin, value, "a list of names")


def _capture(value: object, origin: str) -> CaptureMode:
    if isinstance(value, CaptureMode):
        return value
    try:
        return CaptureMode(value.strip().upper() if isinstance(value, str) else value)
    except ValueError:
        raise _wrong(origin, value, ", ".join(CaptureMode)) from None


def _path(value: object, origin: str) -> Path | None:
    if value is None:
        return None
    if isinstance(value, (str, os.PathLike)) and os.fspath(cast("str", value)):
        return Path(cast("str", value)).expanduser()
    raise _wrong(origin, value, "the path of a file")


def _frameworks(value: object, origin: str) -> dict[str, Any] | None:
    """Read ``["mcp"]``, ``{"mcp": "off"}`` or the text ``openai_agents,mcp=off``."""
    if value is None:
        return None
    if isinstance(value, str):
        pairs = [word.partition("=") for word in _words(value, origin)]
        choices: dict[str, Any] = {name.strip(): state.strip() or "on" for name, _, state in pairs}
    elif isinstance(value, dict):
        choices = dict(cast("dict[str, Any]", value))
    else:
        choices = dict.fromkeys(_words(value, origin), "on")
    for name, state in choices.items():
        if isinstance(state, dict):
            spans = cast("dict[str, object]", state)
            if set(spans) - {"spans"}:
                raise _wrong(f"{origin} of `{name}`", state, '"on", "off" or {"spans": ...}')
            _choice("auto", "own", "off")(spans.get("spans", "auto"), f"{origin} of `{name}`")
        elif state not in ("on", "off"):
            raise _wrong(f"{origin} of `{name}`", state, '"on", "off" or {"spans": ...}')
    return choices


def load_object(reference: str, origin: str) -> Any:
    """Import what ``module:attribute`` names.

    Args:
        reference: Dotted module, a colon, dotted attribute.
        origin: Argument or variable it stands in, for the error message.

    Raises:
        ConfigError: The module cannot be imported or has no such attribute.
    """
    module_name, _, attribute = reference.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(
            f"{origin} names `{reference}`, but module `{module_name}` cannot be imported: {error}",
            hint="check the spelling, and that the folder of the module is on PYTHONPATH",
        ) from error
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise ConfigError(
                f"{origin} names `{reference}`, but module `{module_name}` has no `{attribute}`",
                hint="give the name of a variable, function or class of that module",
            ) from None
    return found


def _is_reference(text: str) -> bool:
    module_name, colon, attribute = text.partition(":")
    parts = [*module_name.split("."), *attribute.split(".")]
    return bool(colon) and all(part.isidentifier() for part in parts)


def _items(value: object) -> list[Any]:
    """Spread a list, tuple or set; anything else is one item."""
    if value is None:
        return []
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(cast("list[Any]", value))
    return [value]


def _objects(value: object, origin: str) -> tuple[Any, ...]:
    """Read objects; texts are ``module:attribute`` references."""
    found: list[Any] = []
    for item in _items(_words(value, origin) if isinstance(value, str) else value):
        if isinstance(item, str):
            if not _is_reference(item):
                raise _wrong(origin, item, "module:attribute, for example my_app.guards:hooks")
            found.extend(_items(load_object(item, origin)))
        else:
            found.append(item)
    return tuple(found)


def _policies(value: object, origin: str) -> tuple[Any, ...]:
    """Read rules and policy objects; texts are references or paths of policy files."""
    found: list[Any] = []
    for item in _items(_words(value, origin) if isinstance(value, str) else value):
        if isinstance(item, str) and _is_reference(item):
            found.extend(_items(load_object(item, origin)))
        elif isinstance(item, (str, os.PathLike)):
            found.extend(load_policy_path(cast("str | os.PathLike[str]", item), origin))
        else:
            found.append(item)
    return tuple(found)


def load_policy_path(path: str | os.PathLike[str], origin: str) -> list[Any]:
    """Load a policy file, or the files of a folder.

    Args:
        path: File or folder.
        origin: Argument or variable it stands in, for the error message.

    Raises:
        ConfigError: Always: the path cannot be read, or it is a policy file, which this version
            does not load.
    """
    place = Path(path).expanduser()
    try:
        if place.is_dir():
            os.listdir(place)
        else:
            place.open("rb").close()
    except OSError as error:
        raise ConfigError(
            f"{origin} names `{os.fspath(path)}`, which cannot be read: {error.strerror or error}",
            hint="give an existing policy file or folder, or objects as module:attribute",
        ) from error
    raise ConfigError(
        f"{origin} names `{os.fspath(path)}`: this version does not load policy files",
        hint="write the rules in Python and give them as objects or as module:attribute",
    )


def _servers(value: object, origin: str) -> tuple[Any, ...] | None:
    return None if value is None else _objects(value, origin)


def _redact(value: object, origin: str) -> Any:
    """Read True, False, patterns or a callable; a text is true, false or a reference."""
    if isinstance(value, str):
        if _is_reference(value):
            return load_object(value, origin)
        return _bool(value, origin)
    return True if value is None else value


def _audit(value: object, origin: str) -> Any:
    return _path(value, origin) if isinstance(value, (str, os.PathLike)) else value


def _as_is(value: object, _origin: str) -> Any:
    return value


_READERS: dict[str, Callable[[object, str], Any]] = {
    "policies": _policies,
    "hooks": _objects,
    "frameworks": _frameworks,
    "mode": _choice("enforce", "monitor"),
    "candidate": _policies,
    "approvals": _objects,
    "capture_content": _capture,
    "redact": _redact,
    "audit": _audit,
    "mcp_servers": _servers,
    "reload": _bool,
    "record_allows": _bool,
    "raise_on_deny": _bool,
    "stream": _choice("buffer", "pass"),
    "spans": _choice("auto", "own", "off"),
    "http_allow": _words,
    "hook_tools": _words,
    "max_continuations": _count,
    "denied_span_status": _choice("error", "unset"),
    "tracer_provider": _as_is,
    "meter_provider": _as_is,
    "logger_provider": _as_is,
    "strict": _optional_bool,
    "store": _path,
    "token_histogram": _bool,
}

_WITHOUT_VARIABLE = ("tracer_provider", "meter_provider", "logger_provider")

VARIABLES = tuple(PREFIX + name.upper() for name in _READERS if name not in _WITHOUT_VARIABLE)
"""Every variable of otelhooks that is a setting."""


def load(**arguments: object) -> Config:
    """Put arguments, environment and defaults together.

    Args:
        arguments: Parameters of `otelhooks.instrument` (and ``token_histogram``); `UNSET` ones
            count as not given.

    Returns:
        The frozen configuration.

    Raises:
        ConfigError: A value cannot be used; names the argument or variable, the value, and what
            is allowed.
    """
    unknown = sorted(set(arguments) - set(_READERS))
    if unknown:
        raise ConfigError(f"unknown setting `{unknown[0]}`", hint=f"known: {', '.join(_READERS)}")
    environment = os.environ
    otel = {k: v for k, v in environment.items() if k.startswith("OTEL_") and v.strip()}
    values: dict[str, Any] = {}
    sources = {item.name: "default" for item in fields(Config)}
    for name, read in _READERS.items():
        variable = PREFIX + name.upper()
        value = arguments.get(name, UNSET)
        if value is None and name == "capture_content":
            value = UNSET  # None stands for the environment here
        if value is not UNSET:
            values[name], sources[name] = read(value, name), "argument"
        elif name not in _WITHOUT_VARIABLE and environment.get(variable, "").strip():
            values[name], sources[name] = read(environment[variable], variable), variable
    if "capture_content" not in values:
        _read_capture(otel, values, sources)
    if (text := otel.get(_EMIT_EVENT_VARIABLE)) is not None:
        values["emit_event"] = _lenient_bool(text, _EMIT_EVENT_VARIABLE)
        sources["emit_event"] = _EMIT_EVENT_VARIABLE
    for name, variable in (
        ("completion_hook", _COMPLETION_HOOK_VARIABLE),
        ("config_file", "OTEL_CONFIG_FILE"),
    ):
        if variable in otel:
            values[name], sources[name] = otel[variable], variable
    if "OTEL_SDK_DISABLED" in otel:
        values["sdk_disabled"] = otel["OTEL_SDK_DISABLED"].strip().lower() == "true"
        sources["sdk_disabled"] = "OTEL_SDK_DISABLED"
    _say_ignored(environment, otel)
    return Config(**values, otel=otel, sources=sources)


def _read_capture(otel: Mapping[str, str], values: dict[str, Any], sources: dict[str, str]) -> None:
    """Read the variable of the official GenAI util, which takes a wrong value for NO_CONTENT."""
    text = otel.get(_CAPTURE_VARIABLE)
    if text is None:
        return
    try:
        values["capture_content"] = _capture(text, _CAPTURE_VARIABLE)
    except ConfigError as error:
        _log.warning("no content is captured: %s", error)
        values["capture_content"] = CaptureMode.NO_CONTENT
    sources["capture_content"] = _CAPTURE_VARIABLE


def _lenient_bool(text: str, variable: str) -> bool:
    """Read a variable of OpenTelemetry, whose wrong values warn and mean false."""
    try:
        return _bool(text, variable)
    except ConfigError as error:
        _log.warning("%s", error)
        return False


def _say_ignored(environment: Mapping[str, str], otel: Mapping[str, str]) -> None:
    """Warn of a variable that looks like a misspelt one of ours."""
    if text := otel.get(_STABILITY_VARIABLE):
        others = [word for word in _words(text, _STABILITY_VARIABLE) if word != _STABILITY_KNOWN]
        if others:
            _log.debug("%s: no meaning for otelhooks: %s", _STABILITY_VARIABLE, ", ".join(others))
    unknown = [k for k in environment if k.startswith(PREFIX) and k not in VARIABLES]
    if unknown:
        from difflib import get_close_matches

        settings = [variable.removeprefix(PREFIX) for variable in VARIABLES]
        for name in unknown:
            near = get_close_matches(name.removeprefix(PREFIX), settings, n=1, cutoff=0.75)
            if near:
                _log.warning(
                    "variable `%s` is not known\nhint: did you mean `%s%s`?", name, PREFIX, near[0]
                )
