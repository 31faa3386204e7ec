"""`instrument()`: settings in, one runtime out, frameworks patched; `uninstrument()` undoes it."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from otelhooks import instrumentation
from otelhooks.config import UNSET, Config, Unset, load
from otelhooks.errors import ConfigError
from otelhooks.hooks import runner
from otelhooks.hooks.base import Hook
from otelhooks.hooks.registry import HookSet, Registration, registrations
from otelhooks.hooks.verdict import Judge
from otelhooks.instrumentation import _runtime, _standalone
from otelhooks.instrumentation._runtime import Loaded, Runtime
from otelhooks.policy.asking import bind_handler
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.rules import Policy
from otelhooks.telemetry import semconv
from otelhooks.version import __version__

if TYPE_CHECKING:
    import pathlib

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from otelhooks import types
    from otelhooks.audit import Audit
    from otelhooks.instrumentation._patch import Coverage
    from otelhooks.telemetry.providers import Providers

__all__ = ["Handle", "instrument", "load_rules", "uninstrument"]

log = logging.getLogger("otelhooks")

MAX_ZERO_COUNTERS = 1_500
"""Rules whose deny counter starts at 0; a metric holds 2,000 series."""

_lock = threading.RLock()
_handle: Handle | None = None


runner.observer = _standalone.RunnerObserver()


class Handle:
    """What `instrument()` set up; changes take effect in one step, for what starts after them."""

    def __init__(self, config: Config, runtime: Runtime, providers: Providers) -> None:
        self._config = config
        self._runtime = runtime
        self._providers = providers
        self._hooks: list[tuple[Any, list[Registration]]] = []
        self._rules = PolicySet()

    @property
    def coverage(self) -> tuple[Coverage, ...]:
        """What is patched, one entry a package: version, state, seats, what is not covered."""
        return instrumentation.coverage()

    @property
    def config(self) -> Config:
        """The settings that hold, and where each came from."""
        return self._config

    def register(self, *items: Any) -> None:
        """Add hooks or rules.

        Args:
            *items: Hook objects, rules, or lists of rules.

        Raises:
            ConfigError: A rule cannot be understood.
            ValueError: An object is neither rule nor hook.
        """
        with _lock:
            rules, hooks = split(items)
            added = [(hook, registrations(hook)) for hook in hooks]
            new_rules = self._rules.with_rules(rules) if rules else self._rules
            self._hooks += added
            self._rules = new_rules
            self._swap()

    def unregister(self, *items: Any) -> None:
        """Take hooks or rules away.

        Args:
            *items: The objects that were registered.

        Raises:
            ConfigError: An object is not registered.
        """
        with _lock:
            rules, hooks = split(items)
            kept = [entry for entry in self._hooks if not any(entry[0] is hook for hook in hooks)]
            if len(kept) + len(hooks) != len(self._hooks):
                raise ConfigError("a hook to unregister is not registered")
            new_rules = self._rules.without(*rules) if rules else self._rules
            self._hooks, self._rules = kept, new_rules
            self._swap()

    def replace(self, *, policies: Sequence[Any]) -> None:
        """Put other rules in the place of all that are loaded; hooks stay.

        Args:
            policies: As `instrument` takes them.

        Raises:
            ConfigError: A rule cannot be understood; the old ones stay.
        """
        with _lock:
            rules, hooks = split(policies)
            if hooks:
                raise ConfigError(
                    "replace() takes rules", hint="add hooks with handle.register(hook)"
                )
            self._rules = load_rules(rules, self._config)
            self._swap()

    def force_flush(self, timeout_s: float = 5.0) -> bool:
        """Send on what is queued: durations, spans, events, audit records.

        Args:
            timeout_s: Longest wait, in seconds.

        Returns:
            Whether all of it was sent in time.
        """
        self._runtime.instruments.flush()
        audit = self._runtime.audit
        written = audit is None or audit.flush(timeout_s)
        return self._providers.force_flush(timeout_s) and written

    def set_global_providers(self) -> None:
        """Make the providers that hold the application's too; what `otelhooks run` does."""
        self._providers.set_global()

    def _swap(self) -> None:
        """Make the present hooks and rules the ones that operations start with."""
        hooks = HookSet(r for _, found in self._hooks for r in found)
        judges: tuple[Judge, ...] = (self._rules,) if self._rules.rules else ()
        loaded = Loaded(hooks, judges, self._config.mode == semconv.MODE_MONITOR)
        rebuild(self._runtime, self._providers, self._rules, self._config)
        self._runtime.loaded = loaded
        instrumentation.set_strict(self._is_strict(loaded))

    def _is_strict(self, loaded: Loaded) -> bool:
        return loaded.can_deny if self._config.strict is None else self._config.strict


def split(items: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Tell rules and lists of rules from hook objects."""
    rules: list[Any] = []
    hooks: list[Any] = []
    for item in items:
        is_list = isinstance(item, Sequence) and not isinstance(item, (str, bytes))
        if isinstance(item, Hook):
            hooks.append(item)
        elif isinstance(item, Policy) or is_list:
            rules.append(item)
        elif callable(item) and not isinstance(item, type):
            registrations(item)  # says what is wrong with it
        else:
            rules.append(item)  # the engine says what is wrong with it
    return rules, hooks


def load_rules(rules: Sequence[Any], config: Config) -> PolicySet:
    """Return rules as the table that the engine uses.

    Raises:
        ConfigError: A rule cannot be understood, or has nobody to ask.
    """
    return PolicySet(
        rules,
        mcp_servers=config.mcp_servers or (),
        mode=cast("Literal['enforce', 'monitor']", config.mode),
        channel=bool(config.approvals),
    )


def instrument(
    *,
    policies: Sequence[Any] | Unset = UNSET,
    hooks: Sequence[Any] | Unset = UNSET,
    frameworks: Iterable[str] | Mapping[str, Any] | Unset | None = UNSET,
    mode: Literal["enforce", "monitor"] | Unset = UNSET,
    candidate: Sequence[Any] | Unset | None = UNSET,
    approvals: Any | Unset | None = UNSET,
    capture_content: str | Unset | None = UNSET,
    redact: Any | Unset = UNSET,
    audit: str | pathlib.Path | Audit | Unset | None = UNSET,
    mcp_servers: Sequence[types.BaseMcpServerConfig] | Unset | None = UNSET,
    reload: bool | Unset = UNSET,
    record_allows: bool | Unset = UNSET,
    raise_on_deny: bool | Unset = UNSET,
    stream: Literal["buffer", "pass"] | Unset = UNSET,
    spans: Literal["auto", "own", "off"] | Unset = UNSET,
    http_allow: Sequence[str] | Unset = UNSET,
    hook_tools: Sequence[str] | Unset = UNSET,
    max_continuations: int | Unset = UNSET,
    denied_span_status: Literal["error", "unset"] | Unset = UNSET,
    tracer_provider: TracerProvider | Unset | None = UNSET,
    meter_provider: MeterProvider | Unset | None = UNSET,
    logger_provider: LoggerProvider | Unset | None = UNSET,
    strict: bool | Unset | None = UNSET,
    store: str | pathlib.Path | Unset | None = UNSET,
) -> Handle:
    """Govern and trace every supported agent framework in this process.

    What is not given comes from ``OTELHOOKS_<NAME>``, then from ``OTEL_*``, then from the default.

    Args:
        policies: Rules, lists of rules, and hook objects.
        hooks: Hook objects, in order.
        frameworks: Names, or name to ``"on"``, ``"off"`` or ``{"spans": ...}``; None for all.
        mode: ``monitor`` records denies and asks and enforces none, vetoes excepted.
        candidate: A second set of rules, evaluated and never enforced.
        approvals: Who is asked for ``ask`` rules without a handler: a function of the call (and of
            the reason), or a channel of `otelhooks.approvals`.
        capture_content: ``NO_CONTENT``, ``SPAN_ONLY``, ``EVENT_ONLY`` or ``SPAN_AND_EVENT``.
        redact: Masking of captured content.
        audit: Where every verdict is written before its call goes on.
        mcp_servers: Servers that rules may name.
        reload: Whether policy files are read again when they change.
        record_allows: Whether a plain allow is an event too.
        raise_on_deny: Whether refused turns and model calls raise `Denied`.
        stream: ``pass`` lets text out before its verdict.
        spans: ``own`` opens spans beside native ones, ``off`` opens none.
        http_allow: Hosts that policy files may call.
        hook_tools: Tools that policy files may call.
        max_continuations: How often stop hooks may send a turn on.
        denied_span_status: Status of spans of denied calls.
        tracer_provider: Where spans go; None for the application's, or one built here.
        meter_provider: Likewise for metrics.
        logger_provider: Likewise for events.
        strict: Whether frameworks that cannot be guarded in full are refused; None: as soon as
            anything can deny.
        store: File of the local store.

    Returns:
        The handle; the same one when called again with the same arguments.

    Raises:
        ConfigError: A value cannot be used, or other arguments hold already.

    Example:
        >>> import otelhooks
        >>> from otelhooks import policy
        >>> handle = otelhooks.instrument(policies=[policy.deny("run_command")])
        >>> otelhooks.uninstrument()
    """
    given = {name: value for name, value in locals().items() if value is not UNSET}
    config = load(**given)
    with _lock:
        global _handle
        if _handle is not None:
            return _same(_handle, config)
        handle = _set_up(config)
        _handle = handle
    _say(handle)
    return handle


def _same(handle: Handle, config: Config) -> Handle:
    differences = handle.config.differences(config)
    if not differences:
        return handle
    listed = ", ".join(f"`{name}`" for name in differences)
    raise ConfigError(
        f"otelhooks is instrumented already, with other values of {listed}",
        hint="change rules with handle.replace(policies=[...]), or call uninstrument() first",
    )


def _set_up(config: Config) -> Handle:
    from otelhooks.telemetry import providers as providers_module
    from otelhooks.telemetry.content import Content, Redactor, limit_of
    from otelhooks.telemetry.events import EventLog
    from otelhooks.telemetry.metrics import Instruments
    from otelhooks.telemetry.spans import Spans
    from otelhooks.telemetry.verdicts import Verdicts

    _refuse_unknown(config)
    rules, policy_hooks = split(config.policies)
    hooks = [(hook, registrations(hook)) for hook in (*policy_hooks, *config.hooks)]
    table = load_rules(rules, config)
    channel = _channel(config.approvals)
    audit = _audit(config.audit)
    instrumentation.wanted(config.frameworks)  # an unknown name is an error before anything is set
    providers = providers_module.resolve(config)
    instruments = Instruments(
        providers.meter_provider, __version__, token_histogram=config.token_histogram
    )
    scope = _scope(table, config)
    events = EventLog(providers.logger_provider, __version__, scope)
    runtime = Runtime(
        Loaded(HookSet()),
        spans=Spans(providers.tracer_provider, __version__, scope),
        instruments=instruments,
        events=events,
        verdicts=Verdicts(
            instruments, events, mode=config.mode, record_allows=config.record_allows
        ),
        content=Content(
            config.capture_content, Redactor.of(config.redact), limit=limit_of(config.otel)
        ),
        audit=audit,
        channel=channel,
        span_mode=config.spans,
        framework_spans=_framework_spans(config.frameworks),
        denied_status=config.denied_span_status,
        raise_on_deny=config.raise_on_deny,
        stream=config.stream,
        max_continuations=config.max_continuations,
        servers=config.mcp_servers or (),
    )
    handle = Handle(config, runtime, providers)
    handle._hooks, handle._rules = hooks, table
    runtime.refresh = providers.refresh
    providers.on_change(lambda _: rebuild(runtime, providers, handle._rules, config))
    if audit is not None:
        instruments.set_gauge(
            semconv.METRIC_AUDIT_SPOOLED, lambda: [(audit.spooled, {})] if audit.spooled else []
        )
    instruments.set_gauge(semconv.METRIC_ADAPTER_INFO, _adapter_info)
    _runtime.set_active(runtime)
    try:
        strict = handle._is_strict(
            Loaded(HookSet(r for _, found in hooks for r in found), (table,) if rules else ())
        )
        instrumentation.install(config.frameworks, strict=strict)
        handle._swap()
    except BaseException:
        _runtime.set_active(None)
        instrumentation.uninstall()
        raise
    atexit.register(uninstrument)
    return handle


def _refuse_unknown(config: Config) -> None:
    """Refuse settings that only policy files and a second policy set give a meaning to.

    Raises:
        ConfigError: One of them is set. Ignoring it would leave somebody unguarded.
    """
    for name in ("candidate", "reload", "http_allow", "hook_tools"):
        if getattr(config, name):
            raise ConfigError(
                f"`{name}` needs policy files, which this version does not load",
                hint=f"leave `{name}` out, and give rules in Python with policies=[...]",
            )


def rebuild(runtime: Runtime, providers: Providers, rules: PolicySet, config: Config) -> None:
    """Point a runtime at the providers and rules that hold now."""
    from otelhooks.telemetry.spans import Spans
    from otelhooks.telemetry.verdicts import deny_attributes

    runtime.spans = Spans(providers.tracer_provider, __version__, _scope(rules, config))
    runtime.instruments.rebind(providers.meter_provider)
    runtime.events.rebind(providers.logger_provider)
    counted = [rule for rule in rules.rules if rule.decision != "allow"]
    counted.sort(key=lambda rule: _SEVERITIES.get(rule.severity or "", 4))
    if len(counted) > MAX_ZERO_COUNTERS:
        log.warning(
            "%d rules can deny; the counters of the %d severest start at 0",
            len(counted),
            MAX_ZERO_COUNTERS,
        )
    for rule in counted[:MAX_ZERO_COUNTERS]:
        mode = semconv.MODE_MONITOR if rule.monitored else config.mode
        attributes = deny_attributes(rule.policy_id, rule.id, rule.severity, mode)
        runtime.instruments.denies.cell(attributes).add(0)


_SEVERITIES = {"critical": 0, "high": 1, "medium": 2, "low": 3}


def _scope(rules: PolicySet, config: Config) -> dict[str, str]:
    scope = {semconv.POLICY_MODE: config.mode}
    if rules.rules:
        scope[semconv.POLICY_VERSION] = rules.version
        scope[semconv.POLICY_EVALUATOR] = semconv.EVALUATOR_PYTHON
    return scope


def _channel(channels: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Return the approval channel as a function of call and reason."""
    if not channels:
        return None
    if len(channels) > 1:
        from otelhooks.approvals import first_of

        return first_of([bind_handler(channel) for channel in channels])
    return bind_handler(channels[0])


def _audit(given: Any) -> Audit | None:
    if given is None:
        return None
    from otelhooks.audit import Audit

    return given if isinstance(given, Audit) else Audit(given)


def _framework_spans(frameworks: Any) -> dict[str, str]:
    if not isinstance(frameworks, Mapping):
        return {}
    settings = cast("Mapping[str, Any]", frameworks)
    return {
        name: setting["spans"]
        for name, setting in settings.items()
        if isinstance(setting, Mapping) and "spans" in setting
    }


def _adapter_info() -> Iterable[tuple[float, Mapping[str, str]]]:
    for entry in instrumentation.coverage():
        if entry.state in {"patched", "refused", "partial", "off"}:
            yield (
                1,
                {
                    semconv.ADAPTER_FRAMEWORK: entry.framework,
                    semconv.ADAPTER_VERSION: entry.version,
                    semconv.ADAPTER_STATE: entry.state,
                },
            )


def _say(handle: Handle) -> None:
    states = ", ".join(
        f"{entry.distribution} {entry.version} {entry.state}"
        for entry in handle.coverage
        if entry.version
    )
    rules = handle._rules
    log.info(
        "instrumented: %s; mode %s; %d rules (version %s), %d hooks; %s",
        states or "no framework installed",
        handle.config.mode,
        len(rules.rules),
        rules.version,
        len(handle._hooks),
        handle._providers.describe(),
    )


def uninstrument() -> None:
    """Put every patched name back, end sessions, send on what is queued, close what was opened.

    Nothing happens where nothing is instrumented.
    """
    global _handle
    with _lock:
        handle, _handle = _handle, None
        if handle is None:
            return
        instrumentation.uninstall()
        runtime = handle._runtime
        runtime.close()
        _runtime.set_active(None)
        runtime.instruments.close()
        if runtime.audit is not None and runtime.audit is not handle.config.audit:
            runtime.audit.close()
        handle._providers.shutdown()
        atexit.unregister(uninstrument)


def _after_fork() -> None:
    """Start anew in a child process: threads, queues and files of the parent are not its own."""
    global _lock
    _lock = threading.RLock()
    handle = _handle
    if handle is None:
        return
    handle._providers.after_fork()
    handle._runtime.instruments.after_fork(reset="metrics" in handle._providers.owned)
    handle._runtime.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
