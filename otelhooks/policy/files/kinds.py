"""Kinds of values in a YAML policy file: how each is read and written, and its JSON Schema.

A kind reads a node or raises `PolicyFileError` at it; whatever it accepts fits its schema.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from otelhooks.errors import ConfigError
from otelhooks.policy.files.document import Node
from otelhooks.policy.files.problems import Problems
from otelhooks.policy.selectors import Selector, glob_matcher
from otelhooks.policy.values.unseen import find_unseen

__all__ = [
    "AMOUNT",
    "COUNT",
    "FLAG",
    "GLOB",
    "LINE",
    "PRICE",
    "TEXT",
    "TOOL",
    "Key",
    "Kind",
    "checked",
    "choice",
    "list_of",
    "map_of",
    "nearest",
    "record",
    "record_schema",
]


@dataclasses.dataclass(frozen=True)
class Kind:
    """What may follow a key.

    Attributes:
        schema: JSON Schema of it.
        read: Returns the value of a node; also takes the name that errors use.
        write: Returns a value as it is written in a file; the reverse of `read`, for values of
            rules.
    """

    schema: Mapping[str, Any]
    read: Callable[[Node, str], Any]
    write: Callable[[Any], Any] = lambda value: value


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of a mapping.

    Attributes:
        name: As written.
        kind: Kind of its value.
        about: One sentence, for the schema and for documentation.
        required: Whether the key must be present.
    """

    name: str
    kind: Kind
    about: str
    required: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its value."""
        return {"description": self.about, **self.kind.schema}


def nearest(word: str, known: Sequence[str]) -> str:
    """Return a hint for an unknown word: the most similar known one, or all of them."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    if near:
        return f"did you mean `{near[0]}`?"
    return f"known: {', '.join(f'`{each}`' for each in known)}"


def _text(node: Node, what: str) -> str:
    text = node.text(what).rstrip("\n")  # a text after `|` ends in one
    if not text.strip():
        raise node.error(f"{what} is empty", hint="write text there, or leave the key out")
    return text


def _line(node: Node, what: str) -> str:
    text = _text(node, what)
    if {"\n", "\t"}.intersection(text) or find_unseen(text, pictures=True) >= 0:
        raise node.error(
            f"{what} has a line end, or a character that cannot be seen",
            hint="write it on one line, with plain blanks",
        )
    return text


TEXT = Kind({"type": "string", "minLength": 1}, _text)
"""A text of any length."""

LINE = Kind({"type": "string", "minLength": 1}, _line)
"""A text of one line."""


def _whole(node: Node, what: str) -> int:
    number = node.whole_number(what)
    if number < 1:
        raise node.error(f"{what} is less than 1", hint="write a whole number from 1 up")
    return number


def _amount(node: Node, what: str) -> float:
    number = node.number(what)
    if number <= 0:
        raise node.error(f"{what} is not above 0", hint="write a number above 0")
    return number


def _price(node: Node, what: str) -> float:
    number = node.number(what)
    if number < 0:
        raise node.error(f"{what} is below 0", hint="write a number from 0 up")
    return number


COUNT = Kind({"type": "integer", "minimum": 1}, _whole)
"""A whole number, 1 or more."""

AMOUNT = Kind({"type": "number", "exclusiveMinimum": 0}, _amount)
"""A number above 0."""

PRICE = Kind({"type": "number", "minimum": 0}, _price)
"""A number, 0 or more."""


FLAG = Kind({"type": "boolean"}, lambda node, what: node.boolean(what))
"""True or false."""


def choice(*words: str) -> Kind:
    """Return the kind of one of a few words."""

    def read(node: Node, what: str) -> str:
        word = node.text(what)
        if word not in words:
            raise node.error(f"unknown {what} `{word}`", hint=nearest(word, words))
        return word

    return Kind({"enum": list(words)}, read)


def list_of(kind: Kind) -> Kind:
    """Return the kind of one value or a list of them; the value is a tuple."""

    def read(node: Node, what: str) -> tuple[Any, ...]:
        if not isinstance(node.value, list):
            return (kind.read(node, what),)
        found = tuple(kind.read(item, what) for item in node.items(what))
        if not found:
            raise node.error(f"{what} is an empty list", hint="write what it is about")
        return found

    def write(values: Sequence[Any]) -> Any:
        written = [kind.write(value) for value in values]
        return written[0] if len(written) == 1 else written

    schema = {"anyOf": [kind.schema, {"type": "array", "items": kind.schema, "minItems": 1}]}
    return Kind(schema, read, write)


def map_of(kind: Kind, key: Kind = LINE) -> Kind:
    """Return the kind of a mapping from texts to values; the value is a dict."""

    def read(node: Node, what: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, item in node.mapping(what).items():
            place = Node(name, node.path, *node.keys[name])
            found[key.read(place, f"a key of {what}")] = kind.read(item, f"`{name}`")
        return found

    def write(values: Mapping[str, Any]) -> Any:
        return {name: kind.write(value) for name, value in values.items()}

    return Kind({"type": "object", "additionalProperties": kind.schema}, read, write)


def record(*keys: Key) -> Kind:
    """Return the kind of a mapping with these keys and no others; the value is a dict."""
    by_name = {key.name: key for key in keys}

    def read(node: Node, what: str) -> dict[str, Any]:
        values = node.mapping(what)
        problems, found = Problems(), dict[str, Any]()
        unknown = [name for name in values if name not in by_name]
        for name in unknown:
            with problems:
                hint = nearest(name, list(by_name))
                raise node.key_error(name, f"unknown key `{name}` in {what}", hint=hint)
        for key in keys:
            if key.required and key.name not in values and not unknown:  # it may be misspelt
                with problems:
                    hint = f"write `{key.name}:` there"
                    raise node.error(f"{what} has no `{key.name}`", hint=hint)
        for name, value in values.items():
            if name in by_name:
                with problems:
                    found[name] = by_name[name].kind.read(value, f"`{name}`")
        problems.check()
        return found

    return Kind(record_schema(keys), read)


def record_schema(keys: Sequence[Key]) -> dict[str, Any]:
    """Return the JSON Schema of a mapping with these keys and no others."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {key.name: key.schema for key in keys},
        "additionalProperties": False,
    }
    required = [key.name for key in keys if key.required]
    return {**schema, "required": required} if required else schema


def checked(kind: Kind, check: Callable[[str], object]) -> Kind:
    """Return a kind whose values `check` must accept; what it raises is an error at the node."""

    def read(node: Node, what: str) -> Any:
        value = kind.read(node, what)
        try:
            check(value)
        except ConfigError as error:
            raise node.error(error.problem, hint=error.hint) from error
        return value

    return Kind(kind.schema, read, kind.write)


TOOL = checked(LINE, Selector)
"""The calls that a rule is about; see `otelhooks.policy.selectors`."""

GLOB = checked(LINE, glob_matcher)
"""A glob on a branch of agents."""
