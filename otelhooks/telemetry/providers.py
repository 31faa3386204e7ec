"""Where telemetry goes: providers given, set by the application, or built here.

::

    providers = resolve(config)
    providers.tracer_provider, providers.meter_provider, providers.logger_provider
    providers.describe()                    # "traces and events to local store ..., metrics ..."
    providers.on_change(callback)           # callback(providers) after any of the three changed
    providers.refresh()                     # at turn start; True if something changed
    providers.owned                         # signals built here: {"traces", "metrics", "logs"}
    providers.force_flush(timeout_s); providers.shutdown(timeout_s)
    providers.after_fork()                  # in the child; the next refresh() builds new ones
    providers.set_global()                  # only `otelhooks run` does that

For each signal separately: a provider that is passed in wins, then one that is set globally. If
nothing at all is configured, traces and events go to the local store. Otherwise the missing ones
are built from ``OTEL_*``; they stay private, and are replaced by a global one as soon as the
application sets it. Replaced ones are kept until shutdown, because spans of running turns end
there.

Wrong configuration raises `ConfigError` from `resolve`; everything after that is telemetry and
fails open.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any, cast

from opentelemetry import metrics, trace

from otelhooks.errors import ConfigError
from otelhooks.process import exits
from otelhooks.records.failures import outline
from otelhooks.telemetry.built import SIGNALS, no_providers
from otelhooks.telemetry.ending import end_of, flush_of, in_time, shut_down

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from otelhooks.config import Config
    from otelhooks.telemetry.built import Built

_log = logging.getLogger("otelhooks.telemetry")

_WORDS = {"traces": "traces", "metrics": "metrics", "logs": "events"}
_ATTRIBUTES = {
    "traces": "tracer_provider",
    "metrics": "meter_provider",
    "logs": "logger_provider",
}


class Providers:
    """The three current providers; created by `resolve`.

    Attributes:
        tracer_provider: Creates tracers.
        meter_provider: Creates meters.
        logger_provider: Creates loggers for events; None if they go nowhere.
        owned: Signals whose provider was built here: ``traces``, ``metrics``, ``logs``.
    """

    tracer_provider: TracerProvider
    meter_provider: MeterProvider
    logger_provider: LoggerProvider | None

    def __init__(self, config: Config) -> None:
        self._config = config
        self._targets: dict[str, str] = {}
        self._retired: list[Any] = []
        self._inherited: list[Any] = []
        self._hurry: tuple[Callable[[], None], ...] = ()
        self._callbacks: list[Callable[[Providers], None]] = []
        self._lock = threading.Lock()
        self._changed_by = 0
        self._is_stale = False
        self._is_shut_down = False
        self._warned: set[str] = set()
        self._watched: dict[str, Callable[[], Any]] = {}
        self.owned: frozenset[str] = frozenset()
        self._resolve()
        exits.register(self.shutdown)

    # --- Choosing -------------------------------------------------------------------------------

    def _resolve(self) -> None:
        if self._config.sdk_disabled:
            self._take(_build(self._config, has_other=True), SIGNALS)
            self._targets = dict.fromkeys(SIGNALS, "nowhere (OTEL_SDK_DISABLED)")
            return
        missing: list[str] = []
        for signal in SIGNALS:
            if (given := getattr(self._config, _ATTRIBUTES[signal])) is not None:
                self._use(signal, given, "the provider given")
            elif self._may_be_set(signal) and (found := global_provider(signal)) is not None:
                self._use(signal, found, "the application's provider")
            else:
                missing.append(signal)
        if missing:
            built = _build(self._config, has_other=len(missing) < len(SIGNALS))
            self._take(built, tuple(missing))
            self._watched = {signal: _global_reader(signal) for signal in missing}

    def _may_be_set(self, signal: str) -> bool:
        """Return whether there can be a global provider.

        Few programs import the Logs API, and asking it would import it.
        """
        module, _ = _VARIABLES[signal]
        return module in sys.modules or "OTEL_PYTHON_LOGGER_PROVIDER" in self._config.otel

    def _take(self, built: Built, signals: tuple[str, ...]) -> None:
        for signal in SIGNALS:
            provider = getattr(built, _ATTRIBUTES[signal])
            if signal in signals:
                setattr(self, _ATTRIBUTES[signal], provider)
                self._targets[signal] = built.targets[signal]
            else:
                shut_down(provider)  # the application has one for this signal
        self.owned = frozenset(signals)
        self._hurry = tuple(built.hurry)

    def _use(self, signal: str, provider: Any, target: str) -> None:
        setattr(self, _ATTRIBUTES[signal], provider)
        self._targets[signal] = target
        if _is_shut_down(provider):
            self._warn_once(
                f"the {_ATTRIBUTES[signal]} is shut down, its {_WORDS[signal]} are lost\n"
                "hint: call otelhooks.instrument() before the provider is shut down, or pass a "
                "running one"
            )
        if signal == "traces" and "opentelemetry.sdk.trace" in sys.modules:
            from otelhooks.telemetry.samplers import ratio_of

            if (ratio := ratio_of(provider)) is not None:
                self._warn_once(
                    f"the tracer provider samples {ratio:g} of all traces at the start, spans of "
                    "denied calls are dropped with the rest (events, metrics and audit are not)\n"
                    "hint: wrap its sampler in otelhooks.telemetry.sdk.KeepVerdicts, or sample in "
                    "the collector"
                )

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            _log.warning("%s", message)

    # --- Changing -------------------------------------------------------------------------------

    def on_change(self, callback: Callable[[Providers], None]) -> None:
        """Call back after a provider was replaced, from the thread that noticed it."""
        self._callbacks.append(callback)

    def refresh(self) -> bool:
        """Check whether the application has set a global provider since, or the process forked.

        Costs a look at three variables; meant for the start of every turn.

        Returns:
            True if a provider was replaced.
        """
        if not self._is_stale:
            for read in self._watched.values():
                if read() is not None:
                    break
            else:
                return False
        if self._changed_by == threading.get_ident():
            return False  # asked by a callback, or by a signal handler in the middle of it
        with self._lock:
            self._changed_by = threading.get_ident()
            try:
                if not self._exchange():
                    return False
                self._tell_changed()
            except Exception as error:
                self._watched = {}
                _log.error("providers could not be replaced; the old ones stay: %s", outline(error))
                return False
            finally:
                # Last: until then other threads wait at the lock, instead of using what a forked
                # child has inherited and nothing sends.
                self._is_stale = False
                self._changed_by = 0
        return True

    def _tell_changed(self) -> None:
        for callback in list(self._callbacks):
            try:
                callback(self)
            except Exception as error:
                _log.error("a callback for changed providers failed: %s", outline(error))

    def _exchange(self) -> bool:
        has_changed = False
        for signal, read in list(self._watched.items()):
            found = read()
            if found is None:
                continue
            del self._watched[signal]
            current = getattr(self, _ATTRIBUTES[signal])
            if found is current:  # `set_global` put it there
                continue
            if not self._is_stale:
                self._retired.append(current)
            self.owned -= {signal}
            self._use(signal, found, "the application's provider")
            has_changed = True
        is_for_store = has_changed and not _is_configured(self._config)
        if self.owned and (self._is_stale or is_for_store):
            if not self._is_stale:
                self._retired += [getattr(self, _ATTRIBUTES[signal]) for signal in self.owned]
            has_other = len(self.owned) < len(SIGNALS)
            self._take(_build(self._config, has_other=has_other), tuple(self.owned))
            has_changed = True
        return has_changed

    def set_global(self) -> None:
        """Make the providers that were built here the global ones of this process."""
        if "traces" in self.owned:
            trace.set_tracer_provider(self.tracer_provider)
        if "metrics" in self.owned:
            metrics.set_meter_provider(self.meter_provider)
        if "logs" in self.owned and self.logger_provider is not None:
            from opentelemetry._logs import set_logger_provider

            set_logger_provider(self.logger_provider)

    # --- Reporting and ending -------------------------------------------------------------------

    def describe(self) -> str:
        """Describe in one line where each signal goes; never headers or credentials."""
        by_target: dict[str, list[str]] = {}
        for signal in SIGNALS:
            by_target.setdefault(self._targets[signal], []).append(_WORDS[signal])
        listed = {to: " and ".join(", ".join(w).rsplit(", ", 1)) for to, w in by_target.items()}
        return ", ".join(f"{words} to {to}" for to, words in listed.items())

    def force_flush(self, timeout_s: float = 5.0) -> bool:
        """Export what is waiting, on all providers at once.

        Args:
            timeout_s: Seconds to wait in total.

        Returns:
            True if everything was sent in time.
        """
        return in_time([flush_of(provider) for provider in self._all()], timeout_s)

    def shutdown(self, timeout_s: float | None = None) -> bool:
        """Flush everything, and shut down what was built here; a second call does nothing.

        Args:
            timeout_s: Seconds to wait in total; None for the setting `exit_timeout`.

        Returns:
            True if everything ended in time.
        """
        if self._is_shut_down:
            return True
        self._is_shut_down = True
        exits.unregister(self.shutdown)
        self._watched = {}
        self._callbacks.clear()
        for hurry in self._hurry:
            hurry()
        built = () if self._is_stale else self.owned
        own = [getattr(self, _ATTRIBUTES[signal]) for signal in SIGNALS if signal in built]
        actions: list[Callable[[], bool]] = []
        for provider in self._all():
            is_own = any(provider is mine for mine in (*own, *self._retired))
            actions.append(end_of(provider) if is_own else flush_of(provider))
        return in_time(actions, self._config.exit_timeout if timeout_s is None else timeout_s)

    def _all(self) -> list[Any]:
        current = [getattr(self, _ATTRIBUTES[signal]) for signal in SIGNALS]
        return [*([] if self._is_stale else current), *self._retired, *self._inherited]

    def after_fork(self) -> None:
        """Forget the parent's providers in a child; the next `refresh` builds new ones.

        What ends before that, in a turn that was open at the fork, waits in the parent's, whose
        queues the SDK empties in the child; their metrics are the parent's. Passed-in and global
        providers stay: the SDK restarts them by itself.
        """
        self._lock = threading.Lock()
        self._changed_by = 0
        self._retired = []
        self._is_stale = bool(self.owned)
        spans_and_events = (signal for signal in ("traces", "logs") if signal in self.owned)
        self._inherited = [getattr(self, _ATTRIBUTES[signal]) for signal in spans_and_events]


def resolve(config: Config) -> Providers:
    """Choose or build the three providers.

    Args:
        config: `tracer_provider`, `meter_provider`, `logger_provider`, `store`, `sdk_disabled`,
            `config_file` and the ``OTEL_*`` variables are used.

    Raises:
        ConfigError: A variable of OpenTelemetry has a value that cannot be used.
    """
    return Providers(config)


def _build(config: Config, *, has_other: bool) -> Built:
    """Build providers for signals that have none.

    Args:
        config: Settings to build from.
        has_other: Whether the application has a provider for another signal, so that something is
            configured and the local store is not used.
    """
    if config.sdk_disabled or (has_other and not _is_configured(config)):
        return no_providers()
    from otelhooks.telemetry import sdk

    if config.config_file is not None:
        return sdk.from_file(config.config_file)
    if config.exporters_configured:
        return sdk.from_environment(config.otel, _unsent(config))
    store = _store(config)
    return no_providers() if store is None else sdk.for_store(store, config.otel)


def _is_configured(config: Config) -> bool:
    """Return whether anything says where telemetry goes, so that the store is not needed."""
    return config.config_file is not None or config.exporters_configured


def _unsent(config: Config) -> Path | None:
    if not config.keep_unsent:
        return None
    from otelhooks.telemetry.spill import folder_of

    store = _store(config)
    return None if store is None else folder_of(store)


def _store(config: Config) -> Path | None:
    """Return the file of the local store; None, and a log line, if it has no place."""
    from otelhooks.store.schema import default_store_path

    try:
        return config.store or default_store_path()
    except ConfigError as error:
        _log.error("there is no local store to keep spans and events in: %s", error)
        return None


# --- Global providers ----------------------------------------------------------------------------


def _get(signal: str) -> Any:
    if signal == "traces":
        return trace.get_tracer_provider()
    if signal == "metrics":
        return metrics.get_meter_provider()
    from opentelemetry._logs import get_logger_provider

    return get_logger_provider()


def global_provider(signal: str) -> Any:
    """Get the provider that the application has set, or None.

    Without one, OpenTelemetry returns a stand-in of its own; other providers are real.
    """
    provider = _get(signal)
    kind = cast("type[Any]", type(provider))
    is_stand_in = kind.__name__.lstrip("_").startswith("Proxy")
    return None if is_stand_in and kind.__module__.startswith("opentelemetry.") else provider


_VARIABLES = {
    "traces": ("opentelemetry.trace", "_TRACER_PROVIDER"),
    "metrics": ("opentelemetry.metrics._internal", "_METER_PROVIDER"),
    "logs": ("opentelemetry._logs._internal", "_LOGGER_PROVIDER"),
}


def _global_reader(signal: str) -> Callable[[], Any]:
    """Return a cheap reader of a global provider.

    The public functions read the environment each time while nothing is set; if this version of the
    API has its variable under the known name, that is read instead.
    """
    module, name = _VARIABLES[signal]
    if module not in sys.modules:
        return lambda: _global_reader(signal)() if module in sys.modules else None
    namespace = vars(sys.modules[module])
    if name in namespace:
        return functools.partial(namespace.get, name)
    return lambda: global_provider(signal)


def _is_shut_down(provider: Any) -> bool:
    """Return whether an SDK provider, or all of its processors, have been shut down.

    The SDK has no function for it; a missing name counts as running.
    """
    if _has_ended(provider):
        return True
    group = getattr(provider, "_active_span_processor", None) or getattr(
        provider, "_multi_log_record_processor", None
    )
    processors = getattr(group, "_span_processors", None) or getattr(
        group, "_log_record_processors", None
    )
    return bool(processors) and all(
        _has_ended(processor)
        or _has_ended(getattr(processor, "_batch_processor", None))
        or _has_ended(getattr(processor, "span_exporter", None))
        or _has_ended(getattr(processor, "_exporter", None))
        for processor in processors
    )


def _has_ended(part: Any) -> bool:
    return any(getattr(part, name, None) is True for name in ("_shutdown", "_stopped"))
