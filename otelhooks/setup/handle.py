"""The handle of one `otelhooks.instrument()`: what it set up, and changing rules at run time."""

from __future__ import annotations

import html
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from otelhooks import types
from otelhooks.config import Config, values
from otelhooks.errors import ConfigError
from otelhooks.hooks.base import Hook
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.recorders import recorders_of
from otelhooks.hooks.registry import HookSet, Registration, registrations
from otelhooks.hooks.verdict import Judge, RuleLike
from otelhooks.pipeline.mcp_lists import CHANGES
from otelhooks.pipeline.offered_tools import Offers
from otelhooks.pipeline.runtime import Loaded, Runtime, active
from otelhooks.plain_text import LOGGED, counted, one_line
from otelhooks.policy import stops
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.rules import Policy
from otelhooks.process import forks
from otelhooks.records import semconv
from otelhooks.setup import catalogue, guarded
from otelhooks.setup.kinds import HINT, unmatched
from otelhooks.setup.policies import Policies
from otelhooks.version import __version__

if TYPE_CHECKING:
    from otelhooks.patching.patches import Coverage
    from otelhooks.policy.candidate import Candidate
    from otelhooks.policy.files.reload import Watch
    from otelhooks.policy.mcp.pins import Approved, Pins
    from otelhooks.telemetry.providers import Providers

__all__ = [
    "Handle",
    "check_servers",
    "load_candidate",
    "load_pins",
    "rebuild",
    "registered",
    "scope_attributes",
    "split",
]

log: logging.Logger = logging.getLogger("otelhooks")

MAX_ZERO_COUNTERS = 1_500
"""Most rules whose deny counter starts at 0; a metric holds 2,000 series."""


_changing = forks.held_over_forks()
"""Held while rules change, also by the threads that watch files and stops."""

Registered: TypeAlias = tuple[Any, list[Registration]]
"""A hook object, and what it is registered as."""


class Handle:
    """What `instrument()` set up; a change takes effect in one step, for what starts after it."""

    def __init__(self, config: Config, runtime: Runtime, providers: Providers) -> None:
        self._config = config
        self._runtime = runtime
        self._providers = providers
        self._hooks: list[Registered] = []
        self._policy_hooks: list[Registered] = []
        self._file_hooks: list[Registered] = []
        self._policies: Policies = Policies()
        self._rules = PolicySet()
        self._watch: Watch | None = None
        self._stop_watch: stops.Watch | None = None
        self._pins: Approved | None = None
        self._is_changed = False  # by a method, not by a reload
        self._lock = _changing
        self._misspelt: set[tuple[str, str]] = set()
        self._process: int | None = os.getpid()  # None once it has forked

    @property
    def coverage(self) -> tuple[Coverage, ...]:
        """What is patched, one entry per package: version, state, seats, what is not covered."""
        return guarded.coverage()

    @property
    def config(self) -> Config:
        """The settings in force, and where each came from."""
        mode = self._rules.mode
        if mode == self._config.mode:
            return self._config
        sources = {**self._config.sources, "mode": "policy file"}
        return self._config.replace(mode=mode, sources=sources)

    def __repr__(self) -> str:
        return f"<otelhooks.Handle: {'; '.join(self._said())}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows for the last value of a cell."""
        first, *others = map(html.escape, self._said())
        items = "".join(f"<li>{each}</li>" for each in others)
        return f"<div><b>otelhooks</b>: {first}<ul>{items}</ul></div>"

    def _said(self) -> list[str]:
        """Return in words what is in force: rules and hooks, frameworks, where telemetry goes."""
        if active() is not self._runtime:
            return ["not in force"]
        hooks = len(self._hooks) + len(self._policy_hooks) + len(self._file_hooks)
        frameworks = [
            f"{entry.distribution} {entry.version} {entry.state}"
            for entry in guarded.coverage_so_far()
            if entry.version
        ]
        counts = f"{counted(len(self._rules.given), 'rule')}, {counted(hooks, 'hook')}"
        return [
            f"mode {self._rules.mode}, {counts}",
            ", ".join(frameworks) or "no framework imported yet",
            self._providers.describe(),
        ]

    def register(self, *items: Any) -> None:
        """Add hooks or rules.

        Args:
            *items: Hook objects, rules, or lists of rules.

        Raises:
            ConfigError: A rule cannot be understood.
            ValueError: An object is neither a rule nor a hook.
        """
        with self._lock:
            rules, hooks = split(items)
            added = registered(hooks)
            self._policies.refuse_unanswered(added, self._config)
            self._take(self._policies.with_rules(rules) if rules else self._policies)
            self._hooks += added
            self._is_changed = True
            self._swap()

    def unregister(self, *items: Any) -> None:
        """Remove hooks or rules.

        Args:
            *items: The objects that were registered.

        Raises:
            ConfigError: An object is not registered.
        """
        with self._lock:
            rules, hooks = split(items)
            places = (self._policy_hooks, self._hooks)
            kept = [
                [e for e in place if all(e[0] is not hook for hook in hooks)] for place in places
            ]
            if sum(map(len, kept)) + len(hooks) != sum(map(len, places)):
                raise ConfigError("a hook to unregister is not registered")
            self._take(self._policies.without(rules) if rules else self._policies)
            self._policy_hooks, self._hooks = kept
            self._is_changed = True
            self._swap()

    def replace(self, *, policies: Sequence[Any] | os.PathLike[str]) -> None:
        """Replace all loaded policies by others; hooks stay.

        Args:
            policies: As `instrument` takes them.

        Raises:
            ConfigError: A rule or file cannot be understood; the old ones stay.
        """
        with self._lock:
            rules, hooks = split(values.policies(policies, "policies"))
            added, loaded = registered(hooks), Policies.load(rules, self._config)
            loaded.refuse_unanswered(added, self._config)
            self._take(loaded)
            self._policy_hooks = added
            self._is_changed = True
            self._swap()

    def _start_over(
        self,
        config: Config,
        policies: Policies,
        policy_hooks: list[Registered],
        hooks: list[Registered],
        channel: Callable[..., Any] | None,
    ) -> None:
        """Have what another `instrument()` gave in force, and nothing that was registered.

        Raises:
            ConfigError: A rule cannot be used; then nothing changes.
        """
        with self._lock:
            rules, file_hooks = policies.table(config), registered(policies.hooks)
            self._config, self._policies, self._rules = config, policies, rules
            self._file_hooks, self._policy_hooks, self._hooks = file_hooks, policy_hooks, hooks
            self._runtime.channel = channel
            self._swap()

    def _take(self, policies: Policies) -> None:
        """Validate policies and keep them for `_swap`, or raise and change nothing.

        Raises:
            ConfigError: They cannot be used.
        """
        if policies is self._policies:
            return
        rules = policies.table(self._config)
        self._file_hooks = registered(policies.hooks)
        self._policies, self._rules = policies, rules

    def _read_again(self) -> None:
        """Put policy files in force as they are now; if they cannot be loaded, nothing changes.

        Operations that have begun end with what they started with.
        """
        before, could = self._policies, _stopping(self._rules)
        try:
            now = before.read_again(self._config)
            with self._lock:
                if self._policies is not before or now.versions == before.versions:
                    return  # the next check finds what replaced them, or nothing new
                self._take(now)
                self._swap()
        except Exception as error:
            # Catch everything: agents must continue under the last policies that loaded.
            log.error("policy files could not be loaded again; the old ones hold: %s", error)
            return
        lost, note = could - (can := _stopping(self._rules)), ""
        if lost > 0:
            fewer = f"{counted(lost, 'rule')} fewer can stop calls"
            note = f", and {fewer if can else 'no rule stops a call any more'}"
        log.log(
            logging.WARNING if note else logging.INFO,
            "policy files loaded again%s: %s; mode %s; %s (version %s)",
            note,
            now.describe(),
            self._rules.mode,
            counted(len(self._rules.given), "rule"),
            self._rules.version,
        )

    def _start_watching(self) -> None:
        from otelhooks.policy.files import reload

        pins = self._config.mcp_pins

        def places() -> list[str]:
            return [*self._policies.places, *([] if pins is None else [str(pins.path)])]

        def changed() -> None:
            self._read_again()
            if pins is not None:
                self._read_pins()

        self._watch = reload.Watch(places, changed, interval_s=reload.INTERVAL_S)

    def _read_pins(self) -> None:
        """Put the file of pins in force as it is now; if it cannot be read, the old one holds."""
        try:
            now = load_pins(self._config)
        except ConfigError as error:
            log.error("pins of MCP tools could not be loaded again; the old ones hold: %s", error)
            return
        with self._lock:
            if now == self._pins:
                return
            self._pins = now
            self._swap()
        log.info("pins of MCP tools loaded again")

    def _watch_stops(self, place: stops.Place, known: tuple[stops.Stop, ...]) -> None:
        if known:
            _tell_stopped(known)
        self._stop_watch = stops.Watch(place, known, self._stop)

    def _stop(self, given: tuple[stops.Stop, ...]) -> None:
        """Put the stops in force that people have given, and no others."""
        with self._lock:
            self._runtime.stopped = stops.rules_of(given)
            self._swap()
        if given:
            _tell_stopped(given)
        else:
            log.warning("every stop of `otelhooks stop` is lifted")

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
        for recorder in recorders_of(self._runtime.loaded.hooks):
            written = recorder.flush(timeout_s) and written
        return self._providers.force_flush(timeout_s) and written

    def set_global_providers(self) -> None:
        """Make the handle's providers the global ones too, as `otelhooks run` does."""
        self._providers.set_global()

    def _lacks(self, names: Sequence[str]) -> bool:
        """Return whether variables alone set this up, and left these settings out."""
        sources = self._config.sources
        return (
            "argument" not in sources.values()
            and all(sources[name] == "default" for name in names)
            and not self._is_changed
        )

    def _swap(self) -> None:
        """Put the present hooks and rules in force for operations that start from now on."""
        every = (*self._file_hooks, *self._policy_hooks, *self._hooks)
        if self._policies.only_files_monitor(self._config):
            for _, found in (*self._policy_hooks, *self._hooks):
                for each in found:
                    each.mode = each.mode or "enforce"
        hooks = HookSet(registration for _, found in every for registration in found)
        has_rules = bool(self._rules.rules) or self._rules.can_deny
        judges: tuple[Judge, ...] = (self._rules,) if has_rules else ()
        self._runtime.pins = pins = self._pins_in_force()
        candidate = self._runtime.candidate
        self._runtime.reads_lists |= (
            pins is not None
            or self._rules.reads_annotations
            or (candidate is not None and candidate.rules.reads_annotations)
        )
        if pins is not None:
            judges = (pins, *judges)
        if self._runtime.stopped is not None:
            judges = (self._runtime.stopped, *judges)
        loaded = Loaded(hooks, judges, self._rules.mode == semconv.MODE_MONITOR)
        rebuild(self._runtime, self._providers, self._rules)
        for gate, _ in every:
            if isinstance(gate, Gate) and gate.can_deny:
                count_from_zero(self._runtime, gate, self._rules.mode)
        if pins is not None:
            count_unapproved_from_zero(self._runtime, pins)
        self._runtime.loaded = loaded
        guarded.set_strict(self.is_strict(loaded))
        self._tell_unmatched()
        if self._rules.on_tool is None:  # a different set than before
            Offers(self._runtime, self._rules, self._misspelt)

    def _pins_in_force(self) -> Pins | None:
        """Return the judge of MCP definitions; it only records in monitor mode, its own or all."""
        place = self._config.mcp_pins
        if place is None or self._pins is None:
            return None
        from otelhooks.policy.mcp.pins import Pins

        return Pins(self._pins, monitor=semconv.MODE_MONITOR in {place.mode, self._rules.mode})

    def _tell_unmatched(self) -> None:
        """Warn, once each, about rules for a kind that no tool of the imported frameworks has."""
        adapters = guarded.adapters()
        names = ", ".join(adapter.framework for adapter in adapters)
        for rule in unmatched(self._policies.written, adapters):
            self._runtime.warn_once(
                f"unmatched: {rule.label}",
                "rule `%s` matches nothing: no tool of %s is of kind `%s`\nhint: %s",
                rule.label,
                names,
                rule.tool.removeprefix("kind:"),
                HINT,
            )

    def is_strict(self, loaded: Loaded) -> bool:
        return loaded.can_deny if self._config.strict is None else self._config.strict


def _tell_stopped(given: Iterable[stops.Stop]) -> None:
    said = "; ".join(one_line(one.said, LOGGED) for one in given)
    log.warning("stopped by `otelhooks stop`: %s", said)


def _stopping(rules: PolicySet) -> int:
    """Return how many rules of the program, and defaults, can deny a call or make it wait."""
    return sum(rule.can_deny for rule in rules.given) + (rules.default == "deny")


def registered(hooks: Iterable[Any]) -> list[Registered]:
    """Return hook objects with what they are registered as.

    Raises:
        ValueError: An object is not a hook.
        TypeError: A hook has the wrong type.
    """
    return [(hook, registrations(hook)) for hook in hooks]


def split(items: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Separate rules and lists of rules from hook objects."""
    rules: list[Any] = []
    hooks: list[Any] = []
    for given in items:
        item: Any = given
        is_list = isinstance(given, Sequence) and not isinstance(given, (str, bytes))
        if isinstance(item, Hook):
            hooks.append(item)
        elif isinstance(item, (Policy, Path)) or is_list:
            rules.append(item)
        elif callable(item) and not isinstance(item, type):
            registrations(item)  # raises an error that names the problem
        else:
            rules.append(item)  # the engine reports the problem
    return rules, hooks


def check_servers(config: Config) -> None:
    """Check that what ``mcp_servers=`` has are configurations of servers.

    Raises:
        ConfigError: One is not, such as a dict.
    """
    servers: tuple[object, ...] = config.mcp_servers or ()
    for number, server in enumerate(servers):
        if not isinstance(server, types.BaseMcpServerConfig):
            raise ConfigError(
                f"`mcp_servers[{number}]` is of type {type(server).__name__}, and not a server",
                hint='write `types.McpStdioServer(name="files", command="files-server")`, or '
                '`types.McpHttpServer(name="bank", url="https://bank.example/mcp")`',
            )


def load_pins(config: Config) -> Approved | None:
    """Return the approved definitions of ``mcp_pins=``; None without it.

    Raises:
        ConfigError: The file cannot be used, or two servers have one name.
    """
    place = config.mcp_pins
    if place is None:
        return None
    names = [server.name for server in config.mcp_servers or ()]
    if "mcp" in catalogue.wanted(config.frameworks)[1]:
        raise ConfigError(
            "`mcp_pins` needs the adapter `mcp`, which `frameworks` leaves out",
            hint="add `mcp` to `frameworks`: every framework reads lists of tools through it",
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(
            f"two servers of `mcp_servers` are called `{twice[0]}`",
            hint="give each its own name: definitions are approved by the server's name",
        )
    if not place.path.exists():
        log.error(
            "`mcp_pins`: `%s` does not exist, so that no MCP tool is approved\n"
            "hint: write it with `otelhooks mcp pin`",
            place.path,
        )
    from otelhooks.policy.mcp import pins

    return pins.read(place.path)


def load_candidate(config: Config) -> Candidate | None:
    """Return the set of ``candidate=``, which is evaluated but never enforced; None without one.

    Raises:
        ConfigError: A rule or file cannot be understood.
    """
    if not config.candidate:
        return None
    from otelhooks.policy.candidate import Candidate

    rules, hooks = split(config.candidate)
    # It only records what it would do and never asks, so no approver has to be configured.
    trial = config.replace(
        mode=semconv.MODE_ENFORCE,
        sources={**config.sources, "mode": "candidate"},
        approvals=("nobody",),
        allow_policy_writes=True,
    )
    policies = Policies.load(rules, trial)
    passed_over = {type(hook).__qualname__ for hook in (*hooks, *policies.hooks)}
    if passed_over:
        names = ", ".join(sorted(passed_over))
        log.warning("a candidate set is tried out by its rules; not evaluated: %s", names)
    return Candidate(policies.table(trial))


def rebuild(runtime: Runtime, providers: Providers, rules: PolicySet) -> None:
    """Point a runtime at the present providers and rules."""
    from otelhooks.telemetry.spans import Spans

    scope = scope_attributes(rules)
    runtime.spans = Spans(providers.tracer_provider, __version__, scope)
    if runtime.annotates:
        from otelhooks.pipeline.annotations import watch_spans

        watch_spans(providers.tracer_provider)
    runtime.instruments.rebind(providers.meter_provider)
    runtime.events.rebind(providers.logger_provider, scope)
    runtime.verdicts.mode = rules.mode
    counted = [rule for rule in rules.rules if rule.decision != "allow"]
    counted.sort(key=lambda rule: _SEVERITIES.get(rule.severity or "", 4))
    if len(counted) > MAX_ZERO_COUNTERS:
        log.warning(
            "%d rules can deny; the counters of the %d severest start at 0",
            len(counted),
            MAX_ZERO_COUNTERS,
        )
    for rule in counted[:MAX_ZERO_COUNTERS]:
        mode = semconv.MODE_MONITOR if rule.monitored else rules.mode
        count_from_zero(runtime, rule, mode)


def count_from_zero(runtime: Runtime, rule: RuleLike, mode: str) -> None:
    """Start the counter of a rule's denies at 0, so that its first deny is an increase."""
    from otelhooks.telemetry.verdicts import deny_attributes

    attributes = deny_attributes(rule.policy_id, rule.id, rule.severity, mode)
    runtime.instruments.denies.cell(attributes).add(0)


def count_unapproved_from_zero(runtime: Runtime, pins: Pins) -> None:
    """Start the counters of pins at 0, so that the first tool or deny is an increase."""
    mode = semconv.MODE_ENFORCE if pins.can_deny else semconv.MODE_MONITOR
    for rule in pins.rules.values():
        count_from_zero(runtime, rule, mode)
    counter = runtime.instruments.counter(semconv.METRIC_MCP_TOOLS_UNAPPROVED)
    for change in CHANGES:
        counter.cell({semconv.MCP_TOOL_CHANGE: change, semconv.POLICY_MODE: mode}).add(0)


_SEVERITIES = {"critical": 0, "high": 1, "medium": 2, "low": 3}


def scope_attributes(rules: PolicySet) -> dict[str, str]:
    scope: dict[str, str] = {semconv.POLICY_MODE: rules.mode}
    if rules.rules:
        scope[semconv.POLICY_VERSION] = rules.version
        scope[semconv.POLICY_EVALUATOR] = semconv.EVALUATOR_PYTHON
    return scope
