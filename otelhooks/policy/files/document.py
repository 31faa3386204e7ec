"""YAML as values that know their place in the file, without YAML's other features.

A document consists of mappings with text keys, lists, texts, numbers, true, false and null. Texts
that YAML tools read differently (``no``, ``010``, ``1:30``, dates) must be quoted. Duplicate keys,
tags, several documents, and aliases that blow a file up are errors.
"""

from __future__ import annotations

import math
import re
from typing import Any, cast

import yaml

from otelhooks.errors import PolicyFileError

__all__ = ["MAX_ALIASED_NODES", "MAX_DEPTH", "Node", "is_plain", "parse"]

MAX_DEPTH = 32
"""Deepest nesting of mappings and lists."""

MAX_ALIASED_NODES = 1_000
"""Most nodes that the aliases of a file may expand to, in total."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_YAML_1_1: Any = yaml.resolver.Resolver()
_PREFIX = "tag:yaml.org,2002:"
_NULL = re.compile(r"(?:~|null|Null|NULL)?")
_BOOLEAN = re.compile(r"(?:true|True|TRUE)|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_DIGITS = 100


class Node:
    """A value in a document, and its place.

    Attributes:
        value: None, a bool, int, float or str; a list of nodes; a dict of text to nodes.
        path: File.
        line: Starts at 1.
        column: Starts at 1.
        keys: Line and column of each key of a mapping.
        style: ``|``, ``>``, ``"`` or ``'`` for a text in that style.
        indentation: Columns before the text of ``|``.
    """

    __slots__ = ("column", "indentation", "keys", "line", "path", "style", "value")

    def __init__(self, value: Any, path: str, line: int, column: int) -> None:
        self.value: Any = value
        self.path: str = path
        self.line: int = line
        self.column: int = column
        self.keys: dict[str, tuple[int, int]] = {}
        self.style: str = ""
        self.indentation: int = 0

    def error(self, problem: str, *, hint: str = "") -> PolicyFileError:
        """Return an error at this place, for the caller to raise."""
        return PolicyFileError(self.path, self.line, self.column, problem, hint=hint)

    def key_error(self, key: str, problem: str, *, hint: str = "") -> PolicyFileError:
        """Return an error at the place of a key of this mapping, for the caller to raise."""
        return PolicyFileError(self.path, *self.keys[key], problem, hint=hint)

    def within(self, line: int, column: int) -> tuple[int, int]:
        """Return the place in the file of a place in this text.

        Exact for texts on one line and for those after ``|``, approximate for others.

        Args:
            line: In the text, starts at 1.
            column: In the text, starts at 1.
        """
        if self.style == "|":
            return self.line + line, column + self.indentation
        if self.style == ">":
            return self.line + 1, 1
        return self.line, self.column + (column - 1 if line == 1 else 0) + bool(self.style)

    def mapping(self, what: str) -> dict[str, Node]:
        """Return the value if it is a mapping.

        Args:
            what: Name in the error.

        Raises:
            PolicyFileError: It is something else.
        """
        return self._as(dict, what, "keys and values")

    def items(self, what: str) -> list[Node]:
        """Return the value if it is a list; parameters and errors as for `mapping`."""
        return self._as(list, what, "a list")

    def text(self, what: str) -> str:
        """Return the value if it is text; parameters and errors as for `mapping`."""
        return self._as(str, what, "text")

    def boolean(self, what: str) -> bool:
        """Return the value if it is true or false; parameters and errors as for `mapping`."""
        return self._as(bool, what, "true or false")

    def whole_number(self, what: str) -> int:
        """Return the value if it is a whole number; parameters and errors as for `mapping`."""
        return self._as(int, what, "a whole number")

    def number(self, what: str) -> float:
        """Return the value if it is a number; parameters and errors as for `mapping`."""
        return self._as((int, float), what, "a number")

    def _as(self, kind: Any, what: str, wanted: str) -> Any:
        value = self.value
        if isinstance(value, kind) and (not isinstance(value, bool) or kind is bool):
            return value
        quote = kind is str and isinstance(value, (bool, int, float))
        hint = "put it in quotes" if quote else f"write {wanted} there"
        raise self.error(f"{what} is {_kind(value)}, not {wanted}", hint=hint)

    def plain(self) -> Any:
        """Return the value without places, at any depth."""
        value = self.value
        if isinstance(value, dict):
            return {key: n.plain() for key, n in cast("dict[str, Node]", value).items()}
        if isinstance(value, list):
            return [node.plain() for node in cast("list[Node]", value)]
        return value


def _kind(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "keys and values"


def parse(text: str, path: str, *, first_line: int = 1) -> Node:
    """Read a YAML document.

    Args:
        text: Without byte order mark, lines ended by a line feed.
        path: File, for errors.
        first_line: Line of the file that the text starts on, from 1.

    Returns:
        Its top node; None as its value for an empty document.

    Raises:
        PolicyFileError: It is not YAML, or not of a kind that policy files use.
    """
    return _Reader(text, path, first_line).document()


class _Reader:
    """Builds nodes from the parser's events, within bounds."""

    def __init__(self, text: str, path: str, first_line: int) -> None:
        self._lines: list[str] = text.split("\n")
        self._path = path
        self._first = first_line
        self._nodes = 0
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._aliased = 0
        self._text = text
        self._loader: Any = None

    def document(self) -> Node:
        """Return the top node."""
        try:
            self._loader = _LOADER(self._text)
            self._next()  # start of the stream
            if isinstance(self._next(), yaml.StreamEndEvent):
                return Node(None, self._path, self._first, 1)
            node = self._node(self._next(), 0)
            self._next()  # end of the document
            event = self._next()
            if not isinstance(event, yaml.StreamEndEvent):
                raise self._error(event, "a second document", "give each a file of its own")
            return node
        except yaml.YAMLError as error:
            raise self._syntax_error(error) from None
        finally:
            if self._loader is not None:
                self._loader.dispose()

    def _next(self) -> Any:
        return self._loader.get_event()

    def _node(self, event: Any, depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            raise self._error(
                event, f"the tag `{event.tag}` is not known", "leave it out, or quote the value"
            )
        if depth >= MAX_DEPTH:
            raise self._error(event, f"nested deeper than {MAX_DEPTH} levels", "write it flatter")
        before = self._nodes
        self._nodes += 1
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, depth)
        else:
            node = self._mapping(event, depth)
        if event.anchor is not None:
            if event.anchor in self._anchors:
                raise self._error(event, f"the anchor `&{event.anchor}` occurs twice", "rename it")
            self._anchors[event.anchor] = (node, self._nodes - before)
        return node

    def _alias(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            raise self._error(
                event,
                f"the alias `*{event.anchor}` names nothing above it",
                f"mark a value with `&{event.anchor}`; a text that starts with `*` needs quotes",
            )
        node, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED_NODES:
            raise self._error(
                event,
                f"aliases expand to more than {MAX_ALIASED_NODES} values",
                "write the values out",
            )
        self._nodes += size
        return node

    def _at(self, event: Any, value: Any) -> Node:
        mark = event.start_mark
        return Node(value, self._path, mark.line + self._first, mark.column + 1)

    def _sequence(self, event: Any, depth: int) -> Node:
        values: list[Node] = []
        node = self._at(event, values)
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            values.append(self._node(event, depth + 1))
        return node

    def _mapping(self, event: Any, depth: int) -> Node:
        values: dict[str, Node] = {}
        node = self._at(event, values)
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._node(event, depth + 1).value
            if not isinstance(key, str):
                raise self._error(event, f"a key is {_kind(key)}, not text", "put it in quotes")
            if key in values:
                line, _ = node.keys[key]
                raise self._error(
                    event, f"the key `{key}` occurs twice", f"the first is on line {line}"
                )
            node.keys[key] = (event.start_mark.line + self._first, event.start_mark.column + 1)
            values[key] = self._node(self._next(), depth + 1)
        return node

    def _scalar(self, event: Any) -> Node:
        if event.style:
            node = self._at(event, event.value)
            node.style = event.style
            if event.style == "|":
                node.indentation = self._indentation(event)
            return node
        node = self._at(event, value := _resolved(event.value))
        if _kind_in_yaml_1_1(event.value) != _TAGS.get(type(value), "str"):
            raise self._error(
                event,
                f"`{event.value}` is not the same to every YAML tool",
                _AMBIGUOUS.get(event.value.lower(), f'write "{event.value}" in quotes'),
            )
        return node

    def _indentation(self, event: Any) -> int:
        """Return the indentation of a text after ``|``: that of its first full line."""
        for number, line in enumerate(event.value.split("\n"), event.start_mark.line + 1):
            if line.strip():
                return len(self._lines[number]) - len(line)
        return 0

    def _error(self, event: Any, problem: str, hint: str) -> PolicyFileError:
        mark = event.start_mark
        line, column = mark.line + self._first, mark.column + 1
        return PolicyFileError(self._path, line, column, problem, hint=hint)

    def _syntax_error(self, error: yaml.YAMLError) -> PolicyFileError:
        mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        if mark is None:  # a character that YAML does not allow
            before = self._text[: getattr(error, "position", 0)]
            line = before.count("\n") + self._first
            column = len(before) - before.rfind("\n")
            problem = "not YAML: a character that is not allowed"
            return PolicyFileError(self._path, line, column, problem, hint="take it out")
        parts = (getattr(error, "context", None), getattr(error, "problem", None))
        problem = ": ".join(part for part in parts if part)
        line: int = mark.line
        column: int = mark.column
        text = self._lines[line] if line < len(self._lines) else ""
        return PolicyFileError(
            self._path,
            line + self._first,
            column + 1,
            f"not YAML: {problem}",
            hint=_hint(text, column, problem),
        )


def _hint(line: str, column: int, problem: str) -> str:
    """Return a hint about a line that is not YAML, from where the parser stopped."""
    if "\t" in line[: column + 1]:
        return "indent with spaces, not with tabs"
    if line[column : column + 1] in _MARKS or "alias" in problem:
        return "a text that starts with one of * & ! % @ ` needs quotes"
    if "mapping values" in problem:
        return "indent it like the lines beside it, or put a text with `: ` in it in quotes"
    return "check quotes, brackets and indentation here and on the lines above"


_MARKS = ("*", "&", "!", "%", "@", "`")
_TAGS: dict[type, str] = {type(None): "null", bool: "bool", int: "int", float: "float"}
_AMBIGUOUS = {
    "<<": "there are no merge keys: write the keys out",
    **dict.fromkeys(("yes", "on"), 'write true, or "yes" or "on" in quotes for the word'),
    **dict.fromkeys(("no", "off"), 'write false, or "no" or "off" in quotes for the word'),
}


def is_plain(text: str) -> bool:
    """Return whether an unquoted text is a text to every YAML tool."""
    return isinstance(_resolved(text), str) and _kind_in_yaml_1_1(text) == "str"


def _kind_in_yaml_1_1(text: str) -> str:
    tag: str = _YAML_1_1.resolve(yaml.ScalarNode, text, (True, False))
    return tag.removeprefix(_PREFIX)


def _resolved(text: str) -> bool | int | float | str | None:
    """Return the value of a plain text in YAML 1.2."""
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if len(text) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
            return number
    return text
