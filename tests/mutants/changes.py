"""Small changes to Python source; a test should notice each of them."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

_COMPARISONS = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+")}
_LOGGERS = ("_log", "log", "logger")


class Change(NamedTuple):
    """One change.

    Attributes:
        line: Number of the line, from 1.
        start: Offset of the first character that goes, in the source.
        end: Offset behind the last one.
        text: What comes instead.
    """

    line: int
    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        """Return the changed source."""
        return source[: self.start] + self.text + source[self.end :]

    def shown(self, source: str) -> tuple[str, str]:
        """Return the line before and after, without its indentation."""
        before, after = source.splitlines(), self.apply(source).splitlines()
        return before[self.line - 1].strip(), after[self.line - 1].strip()


def changes(source: str) -> list[Change]:
    """Return every change to a module that is worth a try, in the order of the source.

    Comparisons are turned round or moved by one, ``and`` and ``or`` exchanged, conditions negated,
    constants flipped, results dropped. Annotations, log calls, texts, and what only type checkers
    read stay as they are.

    Args:
        source: Of the module.
    """
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return sorted(finder.found)


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.found: list[Change] = []
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = source.splitlines()

    # -- what is left alone ---------------------------------------------------------------------

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in (*node.defaults, *filter(None, node.kw_defaults)):
            self.visit(default)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if not names & {"__all__", "__slots__"}:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        is_overload = any("overload" in ast.unparse(each) for each in node.decorator_list)
        if not is_overload and node.name != "__repr__":
            self.visit(node.args)
            for statement in node.body:
                self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[0] in _LOGGERS:
            return
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts; before Python 3.12 places in them are not to be had either."""

    # -- what is changed ------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            self._between(left, right, *_COMPARISONS[type(operator)])
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in itertools.pairwise(node.values):
            self._between(left, right, *words)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _ARITHMETIC and not isinstance(node.right, (ast.List, ast.Tuple)):
            self._between(node.left, node.right, *_ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start = self._offset(node.lineno, node.col_offset)
            self._add(node.lineno, start, start + len("not "), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace(node, str(node.value + 1))

    def visit_Return(self, node: ast.Return) -> None:
        value = node.value
        if value is not None and not isinstance(value, ast.Constant):
            self._replace(value, "None")
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break")

    # -- how ------------------------------------------------------------------------------------

    def _negate(self, test: ast.expr) -> None:
        """Negate a condition that no other change turns round."""
        if not isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant)):
            segment = ast.get_source_segment(self._source, test)
            self._replace(test, f"(not ({segment}))")

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        start = self._offset(left.end_lineno or 0, left.end_col_offset or 0)
        end = self._offset(right.lineno, right.col_offset)
        pattern = re.escape(old).replace(r"\ ", r"\s+")
        match = re.search(rf"(?<![\w<>=!]){pattern}(?![\w<>=])", self._source[start:end])
        if match is not None:
            line = self._source.count("\n", 0, start + match.start()) + 1
            self._add(line, start + match.start(), start + match.end(), new)

    def _replace(self, node: ast.expr | ast.stmt, text: str) -> None:
        start = self._offset(node.lineno, node.col_offset)
        end = self._offset(node.end_lineno or 0, node.end_col_offset or 0)
        self._add(node.lineno, start, end, text)

    def _add(self, line: int, start: int, end: int, text: str) -> None:
        self.found.append(Change(line, start, end, text))

    def _offset(self, line: int, column: int) -> int:
        """Return the offset of a place as `ast` counts, whose columns are bytes of UTF-8."""
        text = self._lines[line - 1].encode()[:column].decode() if column else ""
        return self._starts[line - 1] + len(text)


def compiles(source: str) -> bool:
    """Return whether a source can be compiled."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def tried(source: str) -> Iterator[Change]:
    """Yield the changes after which a module can still be compiled."""
    return (change for change in changes(source) if compiles(change.apply(source)))
