"""`instrument()`: settings in, one runtime out, frameworks patched; `uninstrument()` undoes it."""

# pyright: reportPrivateUsage=false
# This module and the handle's are one subject in two files, so it uses the handle's private names.
from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from otelhooks.config import UNSET, Config, Unset, load
from otelhooks.config.variables import nearest
from otelhooks.errors import ConfigError
from otelhooks.hooks import background, runner
from otelhooks.hooks.registry import HookSet
from otelhooks.pipeline import runtime as runtimes
from otelhooks.pipeline import standalone
from otelhooks.pipeline.runtime import Loaded, Runtime
from otelhooks.pipeline.runtime_watch import RuntimeWatch
from otelhooks.plain_text import counted
from otelhooks.policy import stops
from otelhooks.policy.mcp import definitions
from otelhooks.policy.prices import put_in_force
from otelhooks.process import exits, forks, signals
from otelhooks.process.environment import is_helper, is_run
from otelhooks.records import semconv
from otelhooks.setup import (
    catalogue,
    first_verdict,
    guarded,
    settings,
    stop_places,
    unasked,
    users,
)
from otelhooks.setup.handle import (
    Handle,
    check_servers,
    load_candidate,
    load_pins,
    rebuild,
    registered,
    scope_attributes,
    split,
)
from otelhooks.setup.policies import Policies
from otelhooks.telemetry.quiet import fails_open
from otelhooks.version import __version__

if TYPE_CHECKING:
    import pathlib

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from otelhooks import types
    from otelhooks.audit import Audit

__all__ = ["Handle", "instrument", "uninstrument"]

log: logging.Logger = logging.getLogger("otelhooks")

P = ParamSpec("P")

_lock = threading.RLock()
_handle: Handle | None = None


# `hooks` must not import the pipeline or OpenTelemetry, so this hands it the observer instead.
runner.observer = standalone.RunnerObserver()


def _suggests(function: Callable[P, Handle]) -> Callable[P, Handle]:
    """Name the parameter that an unknown one may mean, and end a wrong setting's traceback here."""

    @functools.wraps(function)
    def checked(*args: P.args, **given: P.kwargs) -> Handle:
        known = function.__kwdefaults__ or {}
        for name in given:
            if name not in known and (near := nearest(name, known)):
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument '{name}';"
                    f" did you mean `{near}`?"
                )
        try:
            return function(*args, **given)
        except ConfigError as error:
            # Where it was noticed does not help to mend it.
            raise error.with_traceback(None) from error.__cause__

    return checked


@_suggests
def instrument(
    *,
    policies: Sequence[Any] | os.PathLike[str] | Unset = UNSET,
    hooks: Sequence[Any] | Unset = UNSET,
    frameworks: Iterable[str] | Mapping[str, Any] | Unset | None = UNSET,
    mode: Literal["enforce", "monitor"] | Unset = UNSET,
    candidate: Sequence[Any] | Unset | None = UNSET,
    approvals: Any | Unset | None = UNSET,
    approval_timeout: float | Unset = UNSET,
    capture_content: str | Unset | None = UNSET,
    redact: Any | Unset = UNSET,
    audit: str | pathlib.Path | Audit | Unset | None = UNSET,
    mcp_servers: Sequence[types.BaseMcpServerConfig] | Unset | None = UNSET,
    mcp_pins: str | os.PathLike[str] | Unset | None = UNSET,
    reload: bool | Unset = UNSET,
    record_allows: bool | Unset = UNSET,
    raise_on_deny: bool | Unset = UNSET,
    stream: Literal["buffer", "pass"] | Unset = UNSET,
    spans: Literal["auto", "own", "annotate", "off"] | Unset = UNSET,
    http_allow: Sequence[str] | Unset = UNSET,
    hook_tools: Sequence[str] | Unset = UNSET,
    prices: Any | Unset | None = UNSET,
    max_continuations: int | Unset = UNSET,
    denied_span_status: Literal["error", "unset"] | Unset = UNSET,
    user: Callable[[], Any] | str | Unset | None = UNSET,
    user_attribute: Literal["enduser.pseudo.id", "user.id"] | Unset = UNSET,
    exit_timeout: float | Unset = UNSET,
    tracer_provider: TracerProvider | Unset | None = UNSET,
    meter_provider: MeterProvider | Unset | None = UNSET,
    logger_provider: LoggerProvider | Unset | None = UNSET,
    strict: bool | Unset | None = UNSET,
    store: str | pathlib.Path | Unset | None = UNSET,
    replace: bool = False,
) -> Handle:
    """Govern and trace every supported agent framework in this process.

    Settings that are not given come from ``OTELHOOKS_<NAME>``, then ``OTEL_*``, then the default.

    Args:
        policies: Rules, lists of rules and hook objects; policy files, folders and packs by name.
        hooks: Hook objects, in order.
        frameworks: Names, or name to ``"on"``, ``"off"`` or a dict: ``{"spans": ...}``, and options
            of the framework; None for all.
        mode: ``monitor`` records denies and asks but enforces none, except vetoes.
        candidate: A second set of rules, evaluated but never enforced.
        approvals: Who is asked for ``ask`` rules without a handler: a function of the call (and of
            the reason), or a channel of `otelhooks.approvals`.
        approval_timeout: Seconds after which an unanswered question denies; above 0.
        capture_content: ``NO_CONTENT``, ``SPAN_ONLY``, ``EVENT_ONLY`` or ``SPAN_AND_EVENT``.
        redact: Masking of captured content.
        audit: Where every verdict is written before its call continues.
        mcp_servers: Servers that rules may name.
        mcp_pins: File of approved definitions of MCP tools, as `otelhooks mcp pin` writes it: what
            is not in it is hidden and denied. ``monitor:FILE`` only reports. ``enforce`` and
            ``monitor`` mean ``mcp-pins.json`` in the working folder.
        reload: Whether policy files, and that of `mcp_pins`, are read again when they change.
        record_allows: Whether a plain allow is an event too.
        raise_on_deny: Whether refused turns and model calls raise `Denied`.
        stream: ``pass`` lets text out before its verdict.
        spans: ``own`` opens spans beside native ones, ``off`` opens none.
        http_allow: Hosts that policy files may call.
        hook_tools: Tools that policy files may call.
        prices: What models cost, as `otelhooks.policy.Budget` takes it, or a JSON file; goes before
            the list prices. False records no cost.
        max_continuations: How often stop hooks may continue a turn.
        denied_span_status: Status of spans of denied calls.
        user: Function that returns the user for rules, a `types.User`, an id or None, in code
            outside every `session` that names one. Without it, attributes of the resource count:
            ``user.id`` (or ``enduser.pseudo.id``), ``user.roles`` and ``user.tenant``.
        user_attribute: Attribute of spans that holds a session's user. Back ends that group
            traces by user read ``user.id``.
        exit_timeout: Seconds that the end of the process, also by a signal, may wait until
            telemetry is handed over; 0 does not wait, and leaves signals alone.
        tracer_provider: Where spans go; None for the application's, or one built here.
        meter_provider: The same for metrics.
        logger_provider: The same for events.
        strict: Whether frameworks that cannot be guarded in full are refused; None: as soon as
            anything can deny.
        store: File of the local store.
        replace: Whether `policies`, `hooks` and `approvals` replace those in force, if this is
            called again, as when a notebook's cell runs again; others may not differ.

    Returns:
        The handle; the same one when called again with the same arguments, or to replace.

    Raises:
        ConfigError: A value cannot be used, or other arguments are already in force.

    Example:
        >>> import otelhooks
        >>> from otelhooks import policy
        >>> handle = otelhooks.instrument(policies=[policy.deny("run_command")])
        >>> otelhooks.uninstrument()
    """
    given = {name: value for name, value in locals().items() if value is not UNSET}
    del given["replace"]
    config = load(**given)
    with _lock:
        global _handle
        if _handle is not None:
            return _replaced(_handle, config) if replace else _same(_handle, config)
        # First, so that a signal during the start finds everything that is open by then.
        signals.watch(_at_signal, _at_signal_of_init, config.exit_timeout)
        try:
            handle = _set_up(config)
        except BaseException:
            signals.restore()
            raise
        _handle = handle
    _say(handle)
    return handle


_REPLACEABLE = ("policies", "hooks", "approvals")


def _same(handle: Handle, config: Config) -> Handle:
    """Return the handle of the first call, to which a program may add what variables do not set.

    Raises:
        ConfigError: The values differ.
    """
    differences = handle._config.differences(config)
    if not differences:
        return handle
    # `otelhooks run` and `opentelemetry-instrument` call `instrument()` before the program does.
    if handle._lacks(differences) and set(differences) <= set(_REPLACEABLE):
        return _replaced(handle, config)
    listed = ", ".join(f"`{name}`" for name in differences)
    hint = (
        "change rules with handle.replace(policies=[...]), give replace=True in a cell of a"
        " notebook that runs again, or call uninstrument() first"
    )
    if is_run():
        hint = (
            "start the program without `otelhooks run`, which called instrument() first, with the"
            " settings of variables; or set them all there"
        )
    problem = f"otelhooks is already instrumented, with other values of {listed}"
    raise ConfigError(problem, hint=hint)


def _replaced(handle: Handle, config: Config) -> Handle:
    """Put the rules, hooks and approvers of another call in force, in one step and without a gap.

    Raises:
        ConfigError: Other settings differ, or one cannot be used; what holds stays in force.
    """
    fixed = [name for name in handle._config.differences(config) if name not in _REPLACEABLE]
    if fixed:
        listed = ", ".join(f"`{name}`" for name in fixed)
        raise ConfigError(
            f"otelhooks is already instrumented, and replace=True does not change {listed}",
            hint="call uninstrument() first",
        )
    rules, objects = split(config.policies)
    policy_hooks, hooks = registered(objects), registered(config.hooks)
    policies = Policies.load(rules, config)
    settings.refuse_unknown(config, policies)
    policies.refuse_unanswered((*policy_hooks, *hooks), config)
    handle._start_over(config, policies, policy_hooks, hooks, settings.channel_of(config.approvals))
    return handle


def _set_up(config: Config) -> Handle:
    from otelhooks.store.labels import LabelBook
    from otelhooks.telemetry import providers as providers_module
    from otelhooks.telemetry.content import Content, Redactor, limit_of
    from otelhooks.telemetry.events import EventLog
    from otelhooks.telemetry.metrics import Instruments
    from otelhooks.telemetry.spans import Spans
    from otelhooks.telemetry.verdicts import Verdicts

    rules, objects = split(config.policies)
    policy_hooks, hooks = registered(objects), registered(config.hooks)
    policies = Policies.load(rules, config)
    settings.refuse_unknown(config, policies)
    policies.refuse_unanswered((*policy_hooks, *hooks), config)
    check_servers(config)
    pins = load_pins(config)
    place = stop_places.place_of(config.stops)
    given = () if place is None else place.kept()
    table = policies.table(config)
    channel = settings.channel_of(config.approvals)
    audit = settings.audit_of(config.audit)
    catalogue.wanted(config.frameworks)  # an unknown name must fail before anything is set up
    providers = providers_module.resolve(config)
    instruments = Instruments(
        providers.meter_provider,
        __version__,
        token_histogram=config.token_histogram,
        chunk_histogram=config.chunk_histogram,
        tool_histogram=config.tool_histogram,
        old_model_metrics=config.old_model_metrics,
    )
    scope = scope_attributes(table)
    events = EventLog(providers.logger_provider, __version__, scope)
    content = Content(
        config.capture_content, Redactor.of(config.redact), limit=limit_of(config.otel)
    )
    runtime = Runtime(
        Loaded(HookSet()),
        spans=Spans(providers.tracer_provider, __version__, scope),
        instruments=instruments,
        events=events,
        verdicts=Verdicts(
            instruments,
            events,
            content,
            mode=table.mode,
            record_allows=config.record_allows,
            decision_event=config.decision_event,
        ),
        content=content,
        watch=RuntimeWatch,
        audit=audit,
        channel=channel,
        span_mode=config.spans,
        framework_spans=settings.framework_spans(config.frameworks),
        framework_options=settings.framework_options(config.frameworks),
        denied_status=config.denied_span_status,
        user_attribute=config.user_attribute,
        raise_on_deny=config.raise_on_deny,
        stream=config.stream,
        max_continuations=config.max_continuations,
        emit_details=config.emit_event,
        approval_timeout_s=config.approval_timeout,
        servers=config.mcp_servers or (),
        labels=LabelBook(config.store),
        candidate=load_candidate(config),
        prices=settings.prices_of(config.prices),
        refuses=config.strict is True,
    )
    handle = Handle(config, runtime, providers)
    handle._hooks, handle._policies, handle._rules = hooks, policies, table
    definitions.forget()
    handle._pins, runtime.stopped = pins, stops.rules_of(given)
    runtime.user = functools.partial(users.find, config.user, providers, runtime.warn_once)
    handle._policy_hooks, handle._file_hooks = policy_hooks, registered(policies.hooks)
    runtime.refresh = providers.refresh
    if config.announce:
        tell = functools.partial(first_verdict.tell, providers=providers)
        runtime.verdicts.on_first = runtime.verdicts.on_observed = tell
    runtime.tighten = lambda: guarded.tighten(strict=config.strict is None)
    providers.on_change(lambda _: rebuild(runtime, providers, handle._rules))
    instruments.set_gauge(semconv.METRIC_AUDIT_SPOOLED, runtime.spooled_records)
    instruments.set_gauge(semconv.METRIC_ADAPTER_INFO, _adapter_info)
    instruments.set_gauge(semconv.METRIC_POLICY_RULES, lambda: unasked.counted(handle._rules))
    handle._swap()  # before any seat: a call must never find a runtime without its rules
    runtimes.set_active(runtime)
    put_in_force(runtime.prices)
    try:
        strict = handle.is_strict(runtime.loaded)
        guarded.install(config.frameworks, strict=strict)
        guarded.watch_others(config.frameworks, refuses=config.strict is True)
        guarded.on_arrival(handle._tell_unmatched)
        handle._tell_unmatched()
    except BaseException:
        runtimes.set_active(None)
        put_in_force(None)
        guarded.uninstall()
        instruments.close()
        if audit is not None and audit is not config.audit:
            audit.close()
        providers.shutdown()
        raise
    _meet_tracers(runtime, config)
    if config.reload:
        handle._start_watching()
    if place is not None:
        handle._watch_stops(place, given)
    exits.register(background.flush)  # before the exit of what these hooks report to
    atexit.register(_at_exit)
    return handle


@fails_open
def _meet_tracers(runtime: Runtime, config: Config) -> None:
    """Log who else traces a framework: now if they already do, else at its first turn."""
    from otelhooks.setup import tracers

    def meet(framework: str) -> None:
        is_chosen = config.sources["spans"] != "default" or framework in runtime.framework_spans
        tracers.tell(framework, runtime.spans_of(framework), is_chosen=is_chosen)

    runtime.meet = meet
    for framework in catalogue.ADAPTERS:
        if tracers.active(framework):
            runtime.met.add(framework)
            meet(framework)


_ADAPTER_STATES = {
    "patched": semconv.ADAPTER_PATCHED,
    "partial": semconv.ADAPTER_PARTIAL,
    "refused": semconv.ADAPTER_REFUSED,
    "off": semconv.ADAPTER_OFF,
    "unpatched": semconv.ADAPTER_UNGUARDED,
}
"""State of an imported framework -> what the gauge calls it."""


def _adapter_info() -> Iterable[tuple[float, Mapping[str, str]]]:
    found = [
        (entry.framework, entry.version, _ADAPTER_STATES[entry.state])
        for entry in guarded.coverage_so_far()
        if entry.state in _ADAPTER_STATES and (entry.version or entry.state != "off")
    ]
    others = guarded.unguarded()
    found += [(name, version, semconv.ADAPTER_UNGUARDED) for name, version in others]
    names = (semconv.ADAPTER_FRAMEWORK, semconv.ADAPTER_VERSION, semconv.ADAPTER_STATE)
    return [(1, dict(zip(names, values, strict=True))) for values in found]


def _say(handle: Handle) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    states = ", ".join(
        f"{entry.distribution} {entry.version} {entry.state}"
        for entry in guarded.coverage_so_far()
        if entry.version
    )
    rules = handle._rules
    files = handle._policies.describe()
    audit, stopping = handle._runtime.audit, handle._stop_watch
    log.info(
        "instrumented: %s; mode %s; %s (version %s%s), %s; %s%s%s",
        states or "no framework imported yet",
        rules.mode,
        counted(len(rules.given), "rule"),
        rules.version,
        f"; {files}" if files else "",
        counted(len(handle._hooks) + len(handle._policy_hooks) + len(handle._file_hooks), "hook"),
        handle._providers.describe(),
        f"; audit trail in `{audit.folder}`" if audit is not None else "",
        f"; stops in {stopping.place.where}" if stopping is not None else "",
    )


def uninstrument() -> None:
    """Restore every patched name, end sessions, send what is queued, close what was opened.

    Does nothing if nothing is instrumented.
    """
    global _handle
    with _lock:
        handle, _handle = _handle, None
        if handle is None:
            return
        guarded.uninstall()
        _end(handle)
        runtimes.set_active(None)
        put_in_force(None)
        atexit.unregister(_at_exit)
        signals.restore()


def _at_signal() -> None:
    """End everything, and hold tool calls back meanwhile: the process will not continue."""
    with _lock:
        if _handle is not None:
            _end(_handle, ends_process=True, holds_calls=True)
    exits.end()


def _at_signal_of_init() -> None:
    """Send what is queued; the process, the first of its container, keeps running."""
    background.flush()
    if _handle is not None:
        _handle.force_flush(_handle.config.exit_timeout)


def _at_exit() -> None:
    """End everything except the rules: other threads and later exit functions may call tools."""
    with _lock:
        if _handle is not None:
            if _handle._process == os.getpid():
                _say_unasked(_handle)
            _end(_handle, ends_process=True)


@fails_open
def _say_unasked(handle: Handle) -> None:
    """Log once, in the instrumented process itself, that no rule was evaluated, unless it forked.

    A helper process that a program under `otelhooks run` starts, and that does not use agents, is
    ignored.
    """
    text = unasked.unasked(handle._rules, handle._runtime)
    if not text or unasked.is_one_of_several():
        return
    if not is_helper() or unasked.is_about_agents():
        log.warning("%s", text)


def _before_fork() -> None:
    """Note that calls may be judged in another process."""
    if _handle is not None:
        _handle._process = None


def _end(handle: Handle, *, ends_process: bool = False, holds_calls: bool = False) -> None:
    """End sessions, send what is queued, close what was opened."""
    for watch in (handle._watch, handle._stop_watch):
        if watch is not None:
            watch.stop()
    runtime = handle._runtime
    runtime.close(ends_process=ends_process, ends_spans="traces" in handle._providers.owned)
    if holds_calls:
        runtime.hold_calls()
    runtime.instruments.close()
    if runtime.audit is not None and runtime.audit is not handle.config.audit:
        if not ends_process:
            runtime.audit.outlive()
        runtime.audit.close(handle.config.exit_timeout)
    if runtime.labels is not None:
        runtime.labels.close()
    handle._providers.shutdown()


def _after_fork() -> None:
    """Start afresh in a child process: the parent's threads, queues and files are not its own."""
    global _lock
    _lock = threading.RLock()
    handle = _handle
    if handle is None:
        return
    handle._lock = threading.RLock()
    handle._providers.after_fork()
    handle._runtime.instruments.after_fork(reset="metrics" in handle._providers.owned)
    handle._runtime.after_fork()
    if handle._watch is not None:
        handle._start_watching()


forks.before(_before_fork)
forks.in_child(_after_fork, forks.Step.RUNTIME)
