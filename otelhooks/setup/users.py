"""The user outside sessions that name one: from the application's function, else the resource."""

from __future__ import annotations

import contextvars
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from otelhooks import types
from otelhooks.records import semconv
from otelhooks.records.failures import outline

if TYPE_CHECKING:
    from otelhooks.telemetry.providers import Providers

__all__ = ["find"]

_ROLES = "user.roles"
_TENANT = "user.tenant"
_SLOW_S = 0.1
_SLOW = "`user` took %.0f ms: calls whose rules look at the user wait for it, event loops included"
_RECURSION = "`user` makes a call that asks for the user: for that call, the user is unknown"
_is_asked: contextvars.ContextVar[bool] = contextvars.ContextVar("is_asked", default=False)


def find(
    function: Callable[[], Any] | None, providers: Providers, warn_once: Callable[..., None]
) -> types.User | None:
    """Return the user for rules; None if unknown, or if the function fails.

    Args:
        function: The application's; None if it gave none.
        providers: The tracer provider's resource may name the user of the whole process.
        warn_once: Takes a key, a message and its arguments.
    """
    if function is None:
        resource = getattr(providers.tracer_provider, "resource", None)
        if resource is None:  # spans are off: the variables still name the user
            from opentelemetry.sdk.resources import OTELResourceDetector

            resource = OTELResourceDetector().detect()
        return _of_resource(resource.attributes)
    if _is_asked.get():
        warn_once("user calls", _RECURSION)
        return None
    token, began = _is_asked.set(True), time.perf_counter()
    try:
        found = function()
    except Exception as error:  # code of the application may raise anything
        problem = outline(error)
    else:
        if found is None or isinstance(found, types.User):
            return found
        if isinstance(found, str):
            return types.User(id=found) if found else None
        problem = f"it returned {type(found).__qualname__}, not a `types.User`, an id or None"
    finally:
        _is_asked.reset(token)
        if (seconds := time.perf_counter() - began) > _SLOW_S:
            warn_once("slow user", _SLOW, seconds * 1e3)
    warn_once(problem, "`user` failed; rules treat the user as unknown: %s", problem)
    return None


def _of_resource(attributes: Mapping[str, Any]) -> types.User | None:
    names = (semconv.USER_ID, semconv.ENDUSER_PSEUDO_ID)
    id = next((str(attributes[name]) for name in names if attributes.get(name)), "")
    given = attributes.get(_ROLES) or ()
    # A variable of the environment can only hold text.
    roles = re.split(r"[\s,;]+", given.strip()) if isinstance(given, str) else map(str, given)
    tenant = str(attributes.get(_TENANT) or "")
    user = types.User(id=id, roles=tuple(filter(None, roles)), tenant=tenant)
    return user if id or user.roles or tenant else None
