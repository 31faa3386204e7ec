"""Readers of settings: each takes an argument, or the text of a variable, and returns its value.

Every reader has the form ``read(value, origin)``, where `origin` names the argument or variable in
error messages, and raises `ConfigError` for unusable values. This is decision code: nothing is
skipped.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from otelhooks.config.capture import CaptureMode
from otelhooks.config.variables import nearest
from otelhooks.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SPANS = ("auto", "own", "annotate", "off")
"""Ways to create spans."""

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def _wrong(origin: str, value: Any, allowed: str) -> ConfigError:
    return ConfigError(f"{origin} cannot be `{value}`", hint=f"use {allowed}")


def boolean(value: object, origin: str) -> bool:
    """Read a bool, or true/false, yes/no, on/off, 1/0."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = value.strip().lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
    raise _wrong(origin, value, "true or false")


def optional_boolean(value: object, origin: str) -> bool | None:
    """Read a bool, or None."""
    return None if value is None else boolean(value, origin)


def choice(*allowed: str) -> Callable[[object, str], str]:
    """Return a reader of one of a few words, upper or lower case."""

    def read(value: object, origin: str) -> str:
        text = value.strip().lower() if isinstance(value, str) else value
        if text not in allowed:
            raise _wrong(origin, value, " or ".join(allowed))
        return cast("str", text)

    return read


def count(value: object, origin: str) -> int:
    """Read a whole number, 0 or more."""
    try:
        number = int(value) if isinstance(value, (str, int)) else -1
    except ValueError:
        number = -1
    if number < 0 or isinstance(value, bool):
        raise _wrong(origin, value, "a whole number, 0 or more")
    return number


def seconds(value: object, origin: str) -> float:
    """Read a time in seconds, 0 or more."""
    try:
        number = float(value) if isinstance(value, (str, int, float)) else -1.0
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf") or isinstance(value, bool):
        raise _wrong(origin, value, "a number of seconds, 0 or more")
    return number


def time_limit(value: object, origin: str) -> float:
    """Read a time limit in seconds: more than 0, at most what a thread can wait."""
    try:
        number = seconds(value, origin)
    except ConfigError:
        number = 0.0
    if not 0 < number <= threading.TIMEOUT_MAX:
        raise _wrong(origin, value, "a number of seconds above 0")
    return number


def words(value: object, origin: str) -> tuple[str, ...]:
    """Read texts: a list of them, or one text with commas."""
    if isinstance(value, str):
        return tuple(word for word in (part.strip() for part in value.split(",")) if word)
    if isinstance(value, (list, tuple, set, frozenset)):
        words = tuple(cast("list[object]", value))
        if all(isinstance(word, str) for word in words):
            return cast("tuple[str, ...]", words)
    raise _wrong(origin, cast("object", value), "a list of names")


def capture(value: object, origin: str) -> CaptureMode:
    """Read a capture mode; true is all content, which older instrumentations call so."""
    if isinstance(value, CaptureMode):
        return value
    text = str(value).strip().lower()
    if text in _TRUE or text in _FALSE:
        return CaptureMode.SPAN_AND_EVENT if text in _TRUE else CaptureMode.NO_CONTENT
    try:
        return CaptureMode(text.upper())
    except ValueError:
        if near := nearest(text.upper(), [mode.value for mode in CaptureMode]):
            problem = f"{origin} cannot be `{value}`"
            raise ConfigError(problem, hint=f"did you mean `{near}`?") from None
        raise _wrong(origin, value, f"true, or one of {', '.join(CaptureMode)}") from None


def text(value: object, origin: str) -> str:
    """Read a text without blanks around it."""
    if isinstance(value, str):
        return value.strip()
    raise _wrong(origin, value, "a text")


def path(value: object, origin: str) -> Path | None:
    """Read the path of a file; ``~`` is the home directory."""
    if value is None:
        return None
    if isinstance(value, (str, os.PathLike)) and os.fspath(cast("str", value)):
        return Path(cast("str", value)).expanduser()
    raise _wrong(origin, cast("object", value), "the path of a file")


def frameworks(value: object, origin: str) -> dict[str, Any] | tuple[str, ...] | None:
    """Read ``["mcp"]`` or ``openai_agents,mcp``: only these; ``{"mcp": "off"}`` or ``mcp=off``."""
    if value is None:
        return None
    if isinstance(value, str):
        pairs = [word.partition("=") for word in words(value, origin)]
        if not any(sign for _, sign, _ in pairs):
            return tuple(name for name, _, _ in pairs) or None
        choices: dict[str, Any] = {name.strip(): state.strip() or "on" for name, _, state in pairs}
    elif isinstance(value, dict):
        choices = dict(cast("dict[str, Any]", value))
    else:
        return tuple(words(value, origin))
    for name, state in choices.items():
        if isinstance(state, dict):
            options = cast("dict[str, object]", state)
            if not all(isinstance(word, str) for word in options.values()):
                raise _wrong(f"{origin} of `{name}`", options, '"on", "off" or {"spans": ...}')
            spans = options.get("spans", "auto")
            choice(*SPANS)(spans, f"{origin} of `{name}`")
        elif state not in ("on", "off"):
            raise _wrong(f"{origin} of `{name}`", state, '"on", "off" or {"spans": ...}')
    return choices


def load_object(reference: str, origin: str) -> Any:
    """Import the object that ``module:attribute`` names.

    Args:
        reference: Dotted module, a colon, dotted attribute.
        origin: Argument or variable that contains it, for the error message.

    Raises:
        ConfigError: The module cannot be imported or has no such attribute.
    """
    module_name, _, attribute = reference.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(
            f"{origin} names `{reference}`, but module `{module_name}` cannot be imported: {error}",
            hint="check the spelling, and that the folder of the module is on PYTHONPATH",
        ) from error
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise ConfigError(
                f"{origin} names `{reference}`, but module `{module_name}` has no `{attribute}`",
                hint="give the name of a variable, function or class of that module",
            ) from None
    return found


def _is_reference(text: str) -> bool:
    module_name, colon, attribute = text.partition(":")
    parts = [*module_name.split("."), *attribute.split(".")]
    return bool(colon) and all(part.isidentifier() for part in parts)


def of_child(name: str, own: Mapping[str, str]) -> str:
    """Return a variable as a child sees it that gets variables of its own too; empty if unset."""
    return own.get(name, os.environ.get(name, ""))


def _items(value: object) -> list[Any]:
    """Return the items of a list, tuple or set; anything else is one item."""
    if value is None:
        return []
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(cast("list[Any]", value))
    return [value]


def objects(value: object, origin: str) -> tuple[Any, ...]:
    """Read objects; texts are ``module:attribute`` references."""
    found: list[Any] = []
    for item in _items(words(value, origin) if isinstance(value, str) else value):
        if isinstance(item, str):
            if not _is_reference(item):
                raise _wrong(origin, item, "module:attribute, for example my_app.guards:hooks")
            found.extend(_items(load_object(item, origin)))
        else:
            found.append(item)
    return tuple(found)


def approvers(value: object, origin: str) -> tuple[Any, ...]:
    """Read approvers; a class stands for its one instance, so that a variable can name one."""
    return tuple(
        _instance(each, origin) if isinstance(each, type) else each
        for each in objects(value, origin)
    )


@functools.cache  # a second call of `instrument()` has the same arguments then
def _instance(kind: type, origin: str) -> Any:
    try:
        return kind()
    except Exception as error:
        problem = f"{origin} cannot be the class `{kind.__name__}`: {error}"
        raise ConfigError(problem, hint="name an object, or a class without arguments") from error


def policies(value: object, origin: str) -> tuple[Any, ...]:
    """Read rules and policy objects; texts are references, paths of policy files, names of packs.

    Paths are loaded later; they are returned as absolute `Path`.
    """
    found: list[Any] = []
    for item in _items(words(value, origin) if isinstance(value, str) else value):
        if isinstance(item, str) and _is_reference(item):
            found.extend(_items(load_object(item, origin)))
        elif isinstance(item, (str, os.PathLike)):
            found.append(policy_path(cast("str | os.PathLike[str]", item), origin))
        else:
            found.append(item)
    if isinstance(value, str) and not found:
        raise _wrong(origin, value, "paths of policy files, names of packs or `module:attribute`")
    return tuple(found)


def policy_path(path: str | os.PathLike[str], origin: str) -> Path:
    """Return the location of a policy file, a folder of them or a pack.

    A pack overrides a file with its name: the folder that an agent works in must not decide what
    `governed` means. The path is absolute, so that a reload reads the same files.

    Args:
        path: File or folder, or name of a pack.
        origin: Argument or variable that contains it, for the error message.

    Raises:
        ConfigError: It does not exist.
    """
    from otelhooks.policy import packs

    pack = packs.folder(path) if isinstance(path, str) else None
    place = Path(path).expanduser().absolute() if pack is None else pack
    try:
        place.stat()
    except (OSError, ValueError) as error:
        cause = (error.strerror if isinstance(error, OSError) else None) or error
        raise ConfigError(
            f"{origin} names `{os.fspath(path)}`, which cannot be read: {cause}",
            hint="give an existing policy file or folder, a pack, or objects as module:attribute",
        ) from None
    return place


class PinFile(NamedTuple):
    """Where approved definitions of MCP tools are.

    Attributes:
        path: The file, absolute; it may be missing.
        mode: ``enforce`` or ``monitor``.
    """

    path: Path
    mode: str = "enforce"


PIN_FILE = "mcp-pins.json"
"""The file of pins if none is named."""


def pins(value: object, origin: str) -> PinFile | None:
    """Read the path of a file; ``enforce`` or ``monitor`` for the usual one; ``monitor:PATH``."""
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(cast("str", value)):
        raise _wrong(
            origin, cast("object", value), "a file, `enforce`, `monitor` or `monitor:FILE`"
        )
    text = os.fspath(cast("str", value)).strip()
    mode, _, rest = text.partition(":")
    if mode not in ("enforce", "monitor"):
        mode, rest = "enforce", text
    return PinFile(Path(rest or PIN_FILE).expanduser().absolute(), mode)


def servers(value: object, origin: str) -> tuple[Any, ...] | None:
    """Read server configurations, or None."""
    return None if value is None else objects(value, origin)


def redact(value: object, origin: str) -> Any:
    """Read True, False, patterns or a callable; a text is true, false or a reference."""
    if isinstance(value, str):
        if _is_reference(value):
            return load_object(value, origin)
        return boolean(value, origin)
    return True if value is None else value


def audit(value: object, origin: str) -> Any:
    """Read a path, a ``module:attribute`` reference, or an object as it is."""
    if isinstance(value, str) and _is_reference(value):
        return load_object(value, origin)
    return path(cast("str", value), origin) if isinstance(value, (str, os.PathLike)) else value


def function(value: object, origin: str) -> Any:
    """Read a function, or a reference to one as text."""
    if isinstance(value, str):
        value = load_object(value, origin)
    if value is not None and (not callable(value) or inspect.iscoroutinefunction(value)):
        raise _wrong(origin, value, "a plain function, or one as module:attribute")
    return value


def prices(value: object, origin: str) -> Any:
    """Read a table of prices, a function, or False; a text is a reference, a JSON file, or off."""
    if isinstance(value, str) and value.strip().lower() in _FALSE:
        return False
    if isinstance(value, str) and _is_reference(value):
        value = load_object(value, origin)
    elif isinstance(value, (str, os.PathLike)):
        value = _read_prices(Path(cast("str", value)).expanduser(), origin)
    if value is None or value is False:
        return value
    from otelhooks.policy.prices import Prices

    Prices(cast("Any", value))  # raises an error that names what is wrong
    return value


def _read_prices(file: Path, origin: str) -> Any:
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{origin} names `{file}`, which cannot be read: {error}",
            hint='give a JSON file such as {"my-model": {"input": 1.25, "output": 10}}, an object '
            "as module:attribute, or `off`",
        ) from error
    if isinstance(found, dict):
        return cast("dict[str, Any]", found).get("models", found)
    return found


def as_is(value: object, _origin: str) -> Any:
    """Return an object unchanged."""
    return value
