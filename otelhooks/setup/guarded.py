"""The adapters: their names, which are wanted, and the order in which they patch.

An adapter is a package of `otelhooks.frameworks` with an ``ADAPTER`` (see `patches`). It is
loaded when its framework is imported (see `arrivals`), and imports nothing of it. Order: what
others are built on comes first, so that an inner seat is there before an outer one relies on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from otelhooks.errors import ConfigError
from otelhooks.setup.known import KNOWN, named

if TYPE_CHECKING:
    from otelhooks.patching.patches import Adapter, Coverage

__all__ = [
    "ADAPTERS",
    "adapter",
    "adapters",
    "coverage",
    "coverage_so_far",
    "distributions",
    "install",
    "modules",
    "on_arrival",
    "set_strict",
    "tighten",
    "unguarded",
    "uninstall",
    "wanted",
    "watch_others",
]

ADAPTERS: dict[str, tuple[str, ...]] = {
    "mcp": ("mcp",),
    "langchain": (
        "langchain_core",
        "langgraph",
        "langchain",
        "deepagents",
        "langgraph_swarm",
        "langgraph_supervisor",
        "langchain_quickjs",
        "langchain_classic",
        "langchain_anthropic",
    ),
    "openai_agents": ("agents",),
    "hedera_agent_kit": ("hedera_agent_kit",),
    "google_antigravity": ("google.antigravity",),
}
"""Framework -> the packages whose import loads its adapter; top-level, or of a namespace."""

Frameworks = Iterable[str] | Mapping[str, Any] | None


def adapter(name: str) -> Adapter:
    """Load one adapter; its framework is not imported.

    Raises:
        ConfigError: if no adapter has this name.
    """
    if name not in ADAPTERS:
        raise _unknown(name, ADAPTERS)
    return importlib.import_module(f"otelhooks.frameworks.{name}").ADAPTER


def wanted(frameworks: Frameworks) -> tuple[tuple[str, ...], frozenset[str]]:
    """Split ``frameworks=`` of `otelhooks.instrument` into what is patched and what is left alone.

    Args:
        frameworks: Names (all others are left alone); or name -> ``"on"``, ``"off"`` or a dict of
            settings (those not named are on); None = all are on. A single distribution of a
            framework, such as ``langgraph``, can be a name in the second form, to be turned off.

    Returns:
        Every known framework in order of patching, and the names that are off.

    Raises:
        ConfigError: if a name or a value is unknown.
    """
    names = tuple(ADAPTERS)
    if frameworks is None:
        return names, frozenset()
    if isinstance(frameworks, str):
        frameworks = (frameworks,)
    if not isinstance(frameworks, Mapping):
        chosen = tuple(frameworks)
        for name in chosen:
            if named(name) is not None:
                raise _not_guarded(name)
            if name not in ADAPTERS:
                raise _unknown(name, ADAPTERS)
        return names, frozenset(names) - frozenset(chosen)
    off: set[str] = set()
    for name, setting in cast("Mapping[str, Any]", frameworks).items():
        if name not in ADAPTERS and named(name) is None and name not in distributions():
            raise _unknown(name, [*ADAPTERS, *distributions()])
        if named(name) is not None and setting != "off":
            raise _not_guarded(name)
        if setting == "off":
            off.add(name)
        elif isinstance(setting, Mapping):
            _check_options(name, cast("Mapping[str, Any]", setting))
        elif setting != "on":
            problem = f"unknown setting for framework `{name}`: `{setting}`"
            raise ConfigError(problem, hint='use "on", "off" or a dict such as {"spans": "own"}')
    return names, frozenset(off)


def _check_options(name: str, setting: Mapping[str, Any]) -> None:
    """Refuse what the framework has no option for.

    Raises:
        ConfigError: An option or its word is unknown.
    """
    others = {option: word for option, word in setting.items() if option != "spans"}
    known: Mapping[str, tuple[str, ...]] = {}
    if others and name in ADAPTERS:
        known = adapter(name).options
    for option, word in others.items():
        if option not in known:
            listed = ", ".join(f"`{one}`" for one in ("spans", *known))
            problem = f"unknown option of framework `{name}`: `{option}`"
            raise ConfigError(problem, hint=f"use one of {listed}")
        if word not in known[option]:
            listed = " or ".join(f'"{one}"' for one in known[option])
            problem = f"option `{option}` of framework `{name}` cannot be `{word}`"
            raise ConfigError(problem, hint=f"use {listed}")


def install(frameworks: Frameworks = None, *, strict: bool) -> None:
    """Patch every wanted framework, now or as it is imported.

    Args:
        frameworks: As in `otelhooks.instrument`.
        strict: Whether what cannot be guarded in full is refused.

    Raises:
        ConfigError: if a name or setting is unknown, or two adapters want the same framework;
            nothing stays patched then.
    """
    from otelhooks.setup.arrivals import waiting

    names, off = wanted(frameworks)
    try:
        waiting.begin({name: ADAPTERS[name] for name in names}, strict=strict, off=off)
    except BaseException:
        waiting.end()
        raise


def uninstall() -> None:
    """Put every patched name of every framework back."""
    from otelhooks.setup.arrivals import waiting
    from otelhooks.setup.ungoverned import ungoverned

    ungoverned.end()
    waiting.end()


def watch_others(frameworks: Frameworks, *, refuses: bool) -> None:
    """Tell of agent frameworks and model clients that no adapter guards, as they are used.

    Args:
        frameworks: As in `otelhooks.instrument`.
        refuses: Whether the application itself said ``strict=True``.

    Raises:
        SeatError: One is imported already, and refused.
    """
    from otelhooks.setup.ungoverned import ungoverned

    _, off = wanted(frameworks)
    ungoverned.begin(off, refuses=refuses)


def unguarded() -> list[tuple[str, str]]:
    """Return name and version of those that were told of by `watch_others`."""
    from otelhooks.setup.ungoverned import ungoverned

    return ungoverned.told


def adapters() -> tuple[Adapter, ...]:
    """Return the adapters of the frameworks that are imported, or about to be."""
    from otelhooks.patching import patches

    return patches.adapters()


def on_arrival(call: Callable[[], object]) -> None:
    """Have a function called each time another framework is about to be imported, until the end."""
    from otelhooks.setup.arrivals import waiting

    waiting.on_arrival = call


def set_strict(strict: bool) -> None:
    """Switch refusal of what cannot be guarded, for all frameworks at once."""
    from otelhooks.setup.arrivals import waiting
    from otelhooks.setup.ungoverned import ungoverned

    waiting.set_strict(strict)
    ungoverned.look()


def tighten(*, strict: bool) -> None:
    """Go on as if a rule of `otelhooks.instrument` could deny, since one of a block can.

    Args:
        strict: Whether refusal is switched on too.
    """
    from otelhooks.setup.ungoverned import ungoverned

    ungoverned.is_scoped = True
    if strict:
        set_strict(True)
    else:
        ungoverned.look()


def coverage() -> tuple[Coverage, ...]:
    """Return the coverage of all frameworks; empty when nothing is installed.

    Loads the adapters of frameworks that are not imported yet.
    """
    from otelhooks.setup.arrivals import waiting

    waiting.arrive_all()
    return coverage_so_far()


def coverage_so_far() -> tuple[Coverage, ...]:
    """Return the coverage of those frameworks whose adapters are loaded."""
    from otelhooks.patching import patches

    return patches.coverage()


def modules() -> tuple[str, ...]:
    """Return the modules with seats of every package that is installed and not turned off."""
    from otelhooks.patching import patches
    from otelhooks.setup.arrivals import waiting

    waiting.arrive_all()
    return patches.modules()


def distributions() -> tuple[str, ...]:
    """Return every distribution that some adapter judges for itself."""
    names: dict[str, None] = {}
    for name in ADAPTERS:
        known = adapter(name)
        for package in known.packages:
            names.update(dict.fromkeys(package.distributions))
        names.update(dict.fromkeys(item.distribution for item in known.not_covered if item.seats))
    return tuple(name for name in names if name)


def _unknown(name: str, known: Iterable[str]) -> ConfigError:
    from difflib import get_close_matches

    names = sorted(set(known))
    near = get_close_matches(name, [*names, *(each.name for each in KNOWN)], n=1, cutoff=0.7)
    listed = ", ".join(f"`{one}`" for one in names)
    hint = f"did you mean `{near[0]}`?" if near else f"use one of {listed}"
    return ConfigError(f"unknown framework `{name}`", hint=hint)


def _not_guarded(name: str) -> ConfigError:
    return ConfigError(
        f"no adapter guards `{name}`",
        hint='decorate its tools with @otelhooks.tool; "off" says that you know',
    )
