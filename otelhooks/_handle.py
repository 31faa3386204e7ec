"""The handle of one `otelhooks.instrument()`: what it set up, and changing rules while it runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from otelhooks import instrumentation
from otelhooks.config import Config
from otelhooks.errors import ConfigError
from otelhooks.hooks.base import Hook
from otelhooks.hooks.registry import HookSet, Registration, registrations
from otelhooks.hooks.verdict import Judge
from otelhooks.instrumentation._runtime import Loaded, Runtime
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.rules import Policy
from otelhooks.telemetry import semconv
from otelhooks.version import __version__

if TYPE_CHECKING:
    from otelhooks.instrumentation._patch import Coverage
    from otelhooks.telemetry.providers import Providers

__all__ = ["Handle", "load_rules", "rebuild", "scope_attributes", "split"]

log = logging.getLogger("otelhooks")

MAX_ZERO_COUNTERS = 1_500
"""Rules whose deny counter starts at 0; a metric holds 2,000 series."""


class Handle:
    """What `instrument()` set up; changes take effect in one step, for what starts after them."""

    def __init__(self, config: Config, runtime: Runtime, providers: Providers) -> None:
        self._config = config
        self._runtime = runtime
        self._providers = providers
        self._hooks: list[tuple[Any, list[Registration]]] = []
        self._rules = PolicySet()
        self._lock = threading.RLock()

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
        with self._lock:
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
        with self._lock:
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
        with self._lock:
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
        has_rules = bool(self._rules.rules) or self._rules.can_deny
        judges: tuple[Judge, ...] = (self._rules,) if has_rules else ()
        loaded = Loaded(hooks, judges, self._config.mode == semconv.MODE_MONITOR)
        rebuild(self._runtime, self._providers, self._rules, self._config)
        self._runtime.loaded = loaded
        instrumentation.set_strict(self.is_strict(loaded))

    def is_strict(self, loaded: Loaded) -> bool:
        return loaded.can_deny if self._config.strict is None else self._config.strict


def split(items: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Tell rules and lists of rules from hook objects."""
    rules: list[Any] = []
    hooks: list[Any] = []
    for given in items:
        item: Any = given
        is_list = isinstance(given, Sequence) and not isinstance(given, (str, bytes))
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


def rebuild(runtime: Runtime, providers: Providers, rules: PolicySet, config: Config) -> None:
    """Point a runtime at the providers and rules that hold now."""
    from otelhooks.telemetry.spans import Spans
    from otelhooks.telemetry.verdicts import deny_attributes

    runtime.spans = Spans(providers.tracer_provider, __version__, scope_attributes(rules, config))
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


def scope_attributes(rules: PolicySet, config: Config) -> dict[str, str]:
    scope = {semconv.POLICY_MODE: config.mode}
    if rules.rules:
        scope[semconv.POLICY_VERSION] = rules.version
        scope[semconv.POLICY_EVALUATOR] = semconv.EVALUATOR_PYTHON
    return scope
