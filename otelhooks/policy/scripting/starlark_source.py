"""Scripts that are refused before they are compiled, because they would hang or crash the process.

Starlark's syntax is a subset of Python's, so Python's own parser reads it here; that parser is safe
against nesting that would overflow the stack of Starlark's compiler. Nothing is run.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from otelhooks.errors import PolicyFileError
from otelhooks.policy.values.unseen import described, find_unseen

__all__ = [
    "MAX_DEPTH",
    "MAX_LENGTH",
    "MAX_SIZE",
    "Place",
    "error_at",
    "keys_read",
    "parse_expression",
    "parse_script",
    "refuse_attributes",
]

MAX_LENGTH = 65_536
"""Longest script, in characters; Python 3.10 parses longer sums of terms for minutes."""

MAX_DEPTH = 200
"""Deepest nesting of a script's expressions and statements; operators in a row nest."""

MAX_SIZE = 1_000_000
"""Longest text, list or range that a script may contain as a constant."""


_METHODS = {
    *("clear", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"),
}
_OF_ATTRIBUTES = {"dir", "getattr", "hasattr"}


class Place(Protocol):
    """The place of a text in a file."""

    @property
    def path(self) -> str:
        """File, as the user named it."""
        ...

    def within(self, line: int, column: int) -> tuple[int, int]:
        """Return the place in the file of a place in the text; all numbers start at 1."""
        ...


def error_at(
    place: Place, line: int, column: int, problem: str, *, hint: str = ""
) -> PolicyFileError:
    """Return an error at a place in a text, for the caller to raise; both numbers start at 1."""
    return PolicyFileError(place.path, *place.within(line, column), problem, hint=hint)


def parse_expression(text: str, place: Place) -> list[ast.AST]:
    """Read an expression.

    Args:
        text: Starlark.
        place: Place of the text, for errors.

    Returns:
        The nodes of its tree; their lines start at 1.

    Raises:
        PolicyFileError: It is not an expression, or is refused.
    """
    source = _Source(text, place, brackets=True)
    body = source.parse().body
    found = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
    if not isinstance(found, ast.List) or len(found.elts) != 1:
        raise error_at(
            place,
            1,
            1,
            "no expression" if text.strip() else "an empty expression",
            hint='write one, such as args["n"] > 3; `and` and `or` join several',
        )
    nodes = source.checked(found)
    for node in nodes:
        if isinstance(node, ast.expr):
            node.lineno -= 1  # without the line of the bracket
    return nodes


def parse_script(text: str, place: Place, *, function: str, parameters: int) -> list[ast.AST]:
    """Read a script that defines a function.

    Args:
        text: Starlark.
        place: Place of the text, for errors.
        function: Name of the function that it must define.
        parameters: Number of positional parameters of that function.

    Returns:
        The nodes of its tree.

    Raises:
        PolicyFileError: It is not a script, is refused, or does not define the function.
    """
    source = _Source(text, place)
    script = source.parse()
    nodes = source.checked(script)
    signature = f"def {function}({', '.join(('event', 'payload', 'a', 'b')[:parameters])}):"
    bindings = [node for node in script.body if function in _bound_names(ast.walk(node))]
    if not bindings:
        raise error_at(place, 1, 1, f"no `{function}`", hint=f"the script must have `{signature}`")
    last = bindings[-1]
    if not isinstance(last, ast.FunctionDef) or len(bindings) > 1:
        raise source.error(last, f"`{function}` is not one function", f"write one `{signature}`")
    taken = last.args
    most = len(taken.posonlyargs) + len(taken.args)
    fits = most - len(taken.defaults) <= parameters and (
        parameters <= most or taken.vararg is not None
    )
    if not fits or None in taken.kw_defaults:
        problem = f"`{function}` does not take {parameters} parameters"
        raise source.error(last, problem, f"write `{signature}`")
    return nodes


def keys_read(nodes: Iterable[ast.AST], parameter: str) -> frozenset[str] | None:
    """Return the keys that a text reads of a mapping; None if it may read any.

    Args:
        nodes: Nodes of the text.
        parameter: Name of the mapping.
    """
    keys: list[str] = []
    uses = 0
    for node in nodes:
        key: ast.AST | None = None
        if isinstance(node, ast.Name) and node.id == parameter:
            uses += 1
        elif isinstance(node, ast.Subscript) and _is_name(node.value, parameter):
            key = node.slice if isinstance(node.ctx, ast.Load) else None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            is_get = node.func.attr == "get" and _is_name(node.func.value, parameter)
            key = node.args[0] if is_get else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            keys.append(key.value)
    return frozenset(keys) if len(keys) == uses else None


def refuse_attributes(nodes: Sequence[ast.AST], parameter: str, place: Place) -> None:
    """Refuse a key of a mapping that is written as an attribute, which would fail at each call.

    Args:
        nodes: Nodes of an expression.
        parameter: Name of the mapping.
        place: Place of the text, for errors.

    Raises:
        PolicyFileError: There is one.
    """
    if parameter in _bound_names(nodes):
        return  # another value has this name somewhere
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        problem = hint = ""
        if isinstance(node, ast.Attribute) and _is_name(node.value, parameter):
            if node.attr not in _METHODS or id(node) not in called:
                problem = f"`{parameter}` has keys, and no attribute `{node.attr}`"
                hint = f'write `{parameter}["{node.attr}"]`, or `{parameter}.get("{node.attr}")`'
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            if node.func.id in _OF_ATTRIBUTES and _is_name(node.args[0], parameter):
                problem = f"`{node.func.id}` reads attributes, and `{parameter}` has keys"
                hint = f'write `"key" in {parameter}`, or `{parameter}.get("key")`'
        if isinstance(node, ast.expr) and problem:
            raise error_at(place, node.lineno, node.col_offset + 1, problem, hint=hint)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _bound_names(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the names that nodes bind, each as often as it is bound."""
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.FunctionDef):
            names.append(node.name)
    return names


class _Source:
    """A text, its place, and what Python makes of it.

    Args:
        text: Starlark.
        place: Place of the text in its file.
        brackets: Whether it is in brackets, in which lines may end anywhere.
    """

    def __init__(self, text: str, place: Place, *, brackets: bool = False) -> None:
        self._text = text
        self._lines: list[str] = text.split("\n")
        self._place = place
        self._brackets = brackets

    def parse(self) -> ast.Module:
        """Return the text as a tree.

        Raises:
            PolicyFileError: It is not Python, and so not Starlark.
        """
        if len(self._text) > MAX_LENGTH:
            problem = f"longer than {MAX_LENGTH} characters"
            raise self._at(1, 1, problem, "split it into several files")
        at = find_unseen(self._text)
        if at >= 0:  # also from an escape in YAML or in a Python text
            line = self._text.count("\n", 0, at) + 1
            problem = f"a character that cannot be seen: {described(self._text[at])}"
            hint = "take it out, or write its escape in a text of the script"
            place = line + self._brackets, at - self._text.rfind("\n", 0, at)
            raise self._at(*place, problem, hint)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about escapes: Starlark has its own rules
                return ast.parse(f"[\n{self._text}\n]" if self._brackets else self._text)
        except SyntaxError as error:
            hint = "Starlark reads like Python without `while`, `try`, `class` and `import`"
            if isinstance(error, IndentationError):
                hint = "indent with spaces, each level deeper than the one before"
            line = error.lineno or 1
            problem = error.msg.partition(" (detected at line")[0]  # of a text with our brackets
            raise self._at(line, error.offset or 1, f"no Starlark: {problem}", hint) from None
        except (RecursionError, MemoryError):
            raise self._at(1, 1, "nested too deep", _FLATTER) from None

    def _at(self, line: int, column: int, problem: str, hint: str) -> PolicyFileError:
        line = min(max(line - self._brackets, 1), len(self._lines))
        return error_at(self._place, line, max(column, 1), problem, hint=hint)

    def error(self, node: ast.AST, problem: str, hint: str) -> PolicyFileError:
        """Return an error at a node that has a place, for the caller to raise."""
        line, offset = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        before = self._lines[line - self._brackets - 1].encode()[:offset]  # counted in bytes
        return self._at(line, len(before.decode()) + 1, problem, hint)

    def checked(self, tree: ast.AST) -> list[ast.AST]:
        """Return the nodes of a tree that neither overflows a stack nor fills the memory.

        Raises:
            PolicyFileError: It does.
        """
        nodes: list[ast.AST] = []
        pending: list[tuple[ast.AST, int, ast.AST]] = [(tree, 1, tree)]
        while pending:
            node, depth, near = pending.pop()
            nodes.append(node)
            near = node if isinstance(node, (ast.expr, ast.stmt)) else near
            depth += _extra_depth(node)
            if depth > MAX_DEPTH:
                raise self.error(near, f"nested deeper than {MAX_DEPTH} levels", _FLATTER)
            pending += [(child, depth + 1, near) for child in ast.iter_child_nodes(node)]
        constants = _Constants(nodes)
        for node in nodes:
            if isinstance(node, (ast.BinOp, ast.Call)) and constants.size(node) > MAX_SIZE:
                raise self.error(
                    node,
                    f"a constant of more than {MAX_SIZE} parts",
                    "make it smaller: no time limit stops what fills the memory in one step",
                )
        return nodes


_FLATTER = "write it flatter, or as several"


def _extra_depth(node: ast.AST) -> int:
    """Return how much deeper Starlark nests what is one node in Python."""
    if isinstance(node, ast.BoolOp):
        return len(node.values)
    if isinstance(node, (ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)):
        return len(node.generators)
    return 0


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
    ast.FloorDiv: int.__floordiv__,
    ast.Mod: int.__mod__,
    ast.BitOr: int.__or__,
    ast.BitAnd: int.__and__,
    ast.BitXor: int.__xor__,
}


class _Constants:
    """The values of a script's constant expressions: numbers, and the length of the rest."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        # A name that is bound in only one place means what is assigned there.
        bound = collections.Counter(_bound_names(nodes))
        self._names: dict[str, ast.expr] = {
            node.targets[0].id: node.value
            for node in nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and bound[node.targets[0].id] == 1
        }
        self._known: dict[ast.expr, tuple[int | None, int]] = {}

    def size(self, node: ast.expr) -> int:
        """Return the length of a constant text, list, tuple or range; 0 for anything else."""
        return self._read(node)[1]

    def _number(self, node: ast.expr) -> int | None:
        return self._read(node)[0]

    def _read(self, node: ast.expr) -> tuple[int | None, int]:
        if node not in self._known:
            self._known[node] = (None, 0)  # for a name that refers to itself
            with contextlib.suppress(RecursionError):  # names that refer to names, in a long chain
                self._known[node] = self._evaluate(node)
        return self._known[node]

    def _evaluate(self, node: ast.expr) -> tuple[int | None, int]:
        if isinstance(node, ast.Constant):
            value = node.value
            if type(value) is int:
                return value, 0
            return None, len(value) if isinstance(value, (str, bytes)) else 0
        if isinstance(node, (ast.List, ast.Tuple)):
            return None, len(node.elts)
        if isinstance(node, ast.Name):
            assigned = self._names.get(node.id)
            return (None, 0) if assigned is None else self._read(assigned)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self._number(node.operand)
            return None if number is None else -number, 0
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return None, self._call(node.func.id, node.args)
        return None, 0

    def _binary(self, node: ast.BinOp) -> tuple[int | None, int]:
        left, left_size = self._read(node.left)
        right, right_size = self._read(node.right)
        if isinstance(node.op, ast.Add) and (left_size or right_size):
            return None, left_size + right_size
        if isinstance(node.op, ast.Mult) and (left_size or right_size):
            times = right if left_size else left
            return None, (left_size or right_size) * max(times or 1, 1)
        if left is None or right is None:
            return None, 0
        if isinstance(node.op, ast.LShift):
            # Starlark computes it at once, with all its bits.
            return (left << right, 0) if 0 <= right <= MAX_SIZE else (None, right)
        compute = _OPERATORS.get(type(node.op))
        try:
            return None if compute is None else compute(left, right), 0
        except ArithmeticError:
            return None, 0

    def _call(self, function: str, arguments: list[ast.expr]) -> int:
        if function == "range":
            numbers = [self._number(each) for each in arguments]
            given = [number for number in numbers if number is not None]
            if len(given) == len(numbers) and 1 <= len(given) <= 3 and (given[2:] != [0]):
                covered = range(*given)
                return max(0, (covered.stop - covered.start) // covered.step)
        elif function in {"list", "tuple", "sorted", "reversed", "enumerate"} and arguments:
            return self.size(arguments[0])
        return 0
