"""The guarded frameworks: switch their adapters on and off, and see what they cover.

An adapter is loaded when its framework is imported (see `arrivals`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from otelhooks.setup import catalogue
from otelhooks.setup.catalogue import Frameworks, wanted

if TYPE_CHECKING:
    from otelhooks.patching.patches import Adapter, Coverage

__all__ = [
    "adapters",
    "coverage",
    "coverage_so_far",
    "install",
    "modules",
    "on_arrival",
    "set_strict",
    "tighten",
    "unguarded",
    "uninstall",
    "watch_others",
]


def install(frameworks: Frameworks = None, *, strict: bool) -> None:
    """Patch every wanted framework, now or as it is imported.

    Args:
        frameworks: As in `otelhooks.instrument`.
        strict: Whether packages that cannot be guarded in full are refused.

    Raises:
        ConfigError: A name or setting is unknown, or two adapters want the same framework; nothing
            stays patched then.
    """
    from otelhooks.setup.arrivals import waiting

    names, off = wanted(frameworks)
    try:
        waiting.begin({name: catalogue.ADAPTERS[name] for name in names}, strict=strict, off=off)
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
    """Warn about agent frameworks and model clients that no adapter guards, as they are used.

    Args:
        frameworks: As in `otelhooks.instrument`.
        refuses: Whether the application itself said ``strict=True``.

    Raises:
        SeatError: One is already imported, and is refused.
    """
    from otelhooks.setup.ungoverned import ungoverned

    _, off = wanted(frameworks)
    ungoverned.begin(off, refuses=refuses)


def unguarded() -> list[tuple[str, str]]:
    """Return name and version of those that `watch_others` warned about."""
    from otelhooks.setup.ungoverned import ungoverned

    return ungoverned.told


def adapters() -> tuple[Adapter, ...]:
    """Return the adapters of the frameworks that are imported or are about to be."""
    from otelhooks.patching import patches

    return patches.adapters()


def on_arrival(call: Callable[[], object]) -> None:
    """Call a function each time another framework is about to be imported, until `uninstall`."""
    from otelhooks.setup.arrivals import waiting

    waiting.on_arrival = call


def set_strict(strict: bool) -> None:
    """Switch the refusal of packages that cannot be guarded, for all frameworks at once."""
    from otelhooks.setup.arrivals import waiting
    from otelhooks.setup.ungoverned import ungoverned

    waiting.set_strict(strict)
    ungoverned.look()


def tighten(*, strict: bool) -> None:
    """Behave as if a rule of `otelhooks.instrument` could deny, because a rule of a block can.

    Args:
        strict: Whether refusal is switched on as well.
    """
    from otelhooks.setup.ungoverned import ungoverned

    ungoverned.is_scoped = True
    if strict:
        set_strict(True)
    else:
        ungoverned.look()


def coverage() -> tuple[Coverage, ...]:
    """Return the coverage of all frameworks; empty if nothing is installed.

    Loads the adapters of frameworks that are not imported yet.
    """
    from otelhooks.setup.arrivals import waiting

    waiting.arrive_all()
    return coverage_so_far()


def coverage_so_far() -> tuple[Coverage, ...]:
    """Return the coverage of the frameworks whose adapters are loaded."""
    from otelhooks.patching import patches

    return patches.coverage()


def modules() -> tuple[str, ...]:
    """Return the modules with seats of every package that is installed and not turned off."""
    from otelhooks.patching import patches
    from otelhooks.setup.arrivals import waiting

    waiting.arrive_all()
    return patches.modules()
