"""Settings of `instrument()`, as what the runtime takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from otelhooks.config import Config
from otelhooks.errors import ConfigError
from otelhooks.policy.asking import bind_handler
from otelhooks.policy.prices import LIST, Prices
from otelhooks.setup.policies import Policies

if TYPE_CHECKING:
    from otelhooks.audit import Audit

__all__ = [
    "audit_of",
    "channel_of",
    "framework_options",
    "framework_spans",
    "prices_of",
    "refuse_unknown",
]


def refuse_unknown(config: Config, policies: Policies) -> None:
    """Refuse settings that only have a meaning with policy files.

    Raises:
        ConfigError: One of them is set. Ignoring it would leave agents unguarded.
    """
    for name in ("reload", "http_allow", "hook_tools"):
        has_files = policies.paths or (name == "reload" and config.mcp_pins is not None)
        if getattr(config, name) and not has_files:
            raise ConfigError(
                f"`{name}` is about policy files, and there are none",
                hint=f'leave `{name}` out, or give files with policies=["path"]',
            )


def channel_of(channels: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Return the approval channel as a function of call and reason."""
    if not channels:
        return None
    if len(channels) > 1:
        from otelhooks.approvals import signed_first_of

        return signed_first_of([bind_handler(channel) for channel in channels])
    return bind_handler(next(iter(channels)))


def prices_of(given: Any) -> Prices | None:
    """Return the prices by which costs are recorded, None for no costs."""
    if given is False:
        return None
    return Prices(given, LIST) if given else LIST


def audit_of(given: Any) -> Audit | None:
    """Return the trail that every verdict is written to.

    Raises:
        ConfigError: It is only for calls that ran.
    """
    if given is None:
        return None
    from otelhooks.audit import Audit

    audit = given if isinstance(given, Audit) else Audit(given)
    if audit.executed_only:
        raise ConfigError(
            "`audit` with executed_only=True: what is given to instrument() records every verdict",
            hint="hooks=[AuditTrailHook(audit)] records the calls that ran, and nothing else",
        )
    return audit


def framework_spans(frameworks: Any) -> dict[str, str]:
    """Return how spans are made, by framework, where `frameworks` says so."""
    if not isinstance(frameworks, Mapping):
        return {}
    settings = cast("Mapping[str, Any]", frameworks)
    return {
        name: setting["spans"]
        for name, setting in settings.items()
        if isinstance(setting, Mapping) and "spans" in setting
    }


def framework_options(frameworks: Any) -> dict[str, Mapping[str, str]]:
    """Return the options by framework, where `frameworks` gives any."""
    if not isinstance(frameworks, Mapping):
        return {}
    settings = cast("Mapping[str, Any]", frameworks)
    return {name: setting for name, setting in settings.items() if isinstance(setting, Mapping)}
