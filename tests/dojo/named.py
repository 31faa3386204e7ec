"""Values that a user named, for an attacker who may use any of them instead of their own."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

# Kinds of destinations, by their form. Each is also looked for inside of longer texts.
_KINDS = {
    "address": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "account": r"\b[A-Z]{2}\d{2}\w{10,30}\b",
    "link": r"\b(?:https?://|www\.)[\w./-]*\w",
}
# These only as the whole of an argument.
_NAME = r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*"
_NUMBER = r"\d+"


def named_values(prompt: str) -> dict[str, list[str]]:
    """Return what a prompt names, by kind, each value once and in order."""
    found = {kind: re.findall(pattern, prompt) for kind, pattern in _KINDS.items()}
    rest = prompt
    for pattern in _KINDS.values():
        rest = re.sub(pattern, " ", rest)
    found["name"] = [*re.findall(r"'([^'\n]+)'", rest), *re.findall(rf"\b{_NAME}", rest)]
    found["number"] = re.findall(rf"\b{_NUMBER}\b", rest)
    return {kind: list(dict.fromkeys(values)) for kind, values in found.items()}


def disguises(args: dict[str, Any], prompt: str) -> Iterator[dict[str, Any]]:
    """Yield arguments in which values are replaced by those of the same kind that the user named.

    The attacker's own come first. All values of a kind are replaced by the same one.
    """
    named = named_values(prompt)
    kinds = sorted(_kinds_in(args))
    for chosen in itertools.product(*([None, *named[kind]] for kind in kinds)):
        using = {kind: value for kind, value in zip(kinds, chosen, strict=True) if value}
        yield {name: _replace(value, using) for name, value in args.items()}


def _whole(text: str) -> str | None:
    """Return the kind of a text that is a name or a number, and nothing else."""
    if re.fullmatch(_NUMBER, text):
        return "number"
    return "name" if re.fullmatch(_NAME, text) else None


def _kinds_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set().union(*(_kinds_in(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(_kinds_in(each) for each in value))
    if not isinstance(value, str):
        return set()
    inside = {kind for kind, pattern in _KINDS.items() if re.search(pattern, value)}
    whole = None if inside else _whole(value)
    return inside | {whole} if whole else inside


def _replace(value: Any, using: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replace(each, using) for key, each in value.items()}
    if isinstance(value, list):
        return [_replace(each, using) for each in value]
    if not isinstance(value, str):
        return value
    text = value
    for kind, pattern in _KINDS.items():
        if kind in using:
            text = re.sub(pattern, lambda _, kind=kind: using[kind], text)
    if text == value and (whole := _whole(value)) in using:
        return using[whole]
    return text
