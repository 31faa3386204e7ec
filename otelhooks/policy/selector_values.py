"""What the selectors of rules take: labels, users, and where arguments came from."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, cast

from otelhooks.errors import ConfigError

__all__ = ["Origins", "WhenUser", "read_labels", "read_names", "read_origins", "read_user"]

WhenUser = tuple[tuple[str, tuple[str, ...]], ...]
"""What a user must be: pairs of ``id``, ``role`` or ``tenant`` and the values that fit."""
Origins = tuple[tuple[str, tuple[str, ...]], ...]
"""Where arguments came from: pairs of an argument and the labels of the results."""

_LABEL = re.compile(r"[\w.:/-]{1,64}", re.ASCII)
_USER_KEYS = ("id", "role", "tenant")


def read_labels(what: str, given: Any) -> tuple[str, ...]:
    """Return labels in order, each once.

    Args:
        what: Name in the error message.
        given: One label, or a collection of them.

    Raises:
        ConfigError: There is none, or one is not a label.
    """
    labels: tuple[Any, ...] = (given,)
    if not isinstance(given, str):
        labels = tuple(cast("Collection[Any]", given)) if isinstance(given, Collection) else ()
    if not labels:
        raise ConfigError(f"{what}: no label is given: {given!r}", hint="name one or several")
    for label in labels:
        if not isinstance(label, str) or not _LABEL.fullmatch(label):
            raise ConfigError(
                f"{what}: `{label!r}` is not a label",
                hint="use letters, digits and `_ . : / -`, at most 64 of them",
            )
    return tuple(sorted(set(labels)))


def read_user(what: str, given: Any) -> WhenUser:
    """Return what a user must be as pairs, in order.

    Args:
        what: Name in the error message.
        given: A mapping of ``id``, ``role`` and ``tenant`` to a text or several, or such pairs.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(given, tuple):
        given = dict(cast("WhenUser", given))
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(f"{what}: no user is described: {given!r}", hint='write {"role": "x"}')
    keys = cast("Mapping[Any, Any]", given)
    for key in keys:
        if key not in _USER_KEYS:
            near = " (did you mean `role`?)" if key == "roles" else ""
            raise ConfigError(
                f"{what}: a user has no `{key}`{near}", hint="use one of id, role, tenant"
            )
    return tuple((key, read_names(f"{what}: {key}", keys[key])) for key in sorted(keys))


def read_origins(what: str, given: Any) -> Origins:
    """Return where arguments must have come from as pairs, in order.

    Args:
        what: Name in the error message.
        given: A mapping of arguments to a label or several, or such pairs.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(given, tuple):
        given = dict(cast("Origins", given))
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(f"{what}: no argument is named: {given!r}", hint='write {"url": "label"}')
    labels = cast("Mapping[Any, Any]", given)
    names = read_names(what, tuple(labels))
    return tuple((name, read_labels(f"{what}: {name}", labels[name])) for name in names)


def read_names(what: str, given: Any) -> tuple[str, ...]:
    """Return texts in order, each once.

    Raises:
        ConfigError: There is none, or one is not text or empty.
    """
    names: tuple[Any, ...] = (given,)
    if not isinstance(given, str):
        names = tuple(cast("Collection[Any]", given)) if isinstance(given, Collection) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"{what}: no name: {given!r}", hint="name one or several")
    return tuple(sorted(set(names)))
