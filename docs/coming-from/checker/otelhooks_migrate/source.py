"""A file of Python source: its text, its tree, and where the one lies in the other."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import stat
import tempfile
import tokenize
import warnings
from functools import cached_property
from pathlib import Path

__all__ = ["Source", "Unreadable", "read"]

MOST_BYTES = 5_000_000
"""A larger file is refused: parsing takes some hundred times its size in memory."""

_LINE_END = re.compile(r"\r\n|\r|\n")


class Unreadable(Exception):
    """A file cannot be read or parsed; the message says where and why."""


class Source:
    """A file that was read.

    Attributes:
        path: As it was given.
        text: Decoded, with its own line ends.
        encoding: What it was decoded from.
        tree: The same, parsed.
    """

    def __init__(self, path: str, text: str, encoding: str, tree: ast.Module) -> None:
        """Keep what was read."""
        self.path = path
        self.text = text
        self.encoding = encoding
        self.tree = tree

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_END.finditer(self.text)), len(self.text)]

    def line_start(self, line: int) -> int:
        """Return the index of a line's first character; lines count from 1."""
        return self._starts[line - 1]

    def offset(self, line: int, column: int) -> int:
        """Return the index of a place; a tree counts columns in bytes of UTF-8."""
        start, end = self._starts[line - 1 : line + 1]
        return start + len(self.text[start:end].encode()[:column].decode())

    def span(self, node: ast.stmt | ast.expr | ast.alias) -> tuple[int, int]:
        """Return the indexes of a node's start and end."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def place(self, node: ast.AST) -> tuple[int, int]:
        """Return line and column, both from 1, the column in characters."""
        line = getattr(node, "lineno", 1)
        column = self.offset(line, getattr(node, "col_offset", 0)) - self.line_start(line)
        return line, column + 1

    def replace(self, text: str) -> None:
        """Put another text into the file, in one step, in its encoding, with its permissions.

        Raises:
            OSError: The folder or the file cannot be written.
        """
        path = Path(self.path).resolve()
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(descriptor, "wb") as file:
                file.write(text.encode(self.encoding))
            shutil.copymode(path, name)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


def read(path: str) -> Source:
    """Read and parse a file.

    Args:
        path: A file of Python source.

    Raises:
        Unreadable: It is no file, too large, not in the encoding that it declares, or no Python.
    """
    content = _content(path)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding)
    except (SyntaxError, UnicodeDecodeError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise Unreadable(f"{path}:1:1: not in the encoding that it declares: {why}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file's own escapes and literals
            tree = ast.parse(text, filename=path)
    except SyntaxError as error:
        where = f"{path}:{error.lineno or 1}:{error.offset or 1}"
        raise Unreadable(f"{where}: no Python of this version: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"{path}:1:1: cannot be parsed: {error}") from error
    return Source(path, text, encoding, tree)


def _content(path: str) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Unreadable(f"{path}: no file\nhint: name the files, as with `folder/*.py`")
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise Unreadable(f"{path}: {why.lower()}") from error
    if len(content) > MOST_BYTES:
        raise Unreadable(f"{path}: larger than {MOST_BYTES // 1_000_000} MB")
    return content
