"""Paths in the arguments of a call: which arguments are paths, and where each can lead.

A path leads wherever some tool may take it to lead: as it stands, without blanks around it, with
variables expanded, with percent signs decoded, with backslashes as separators.
"""

from __future__ import annotations

import dataclasses
import os
import re
import unicodedata
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import pydantic

from otelhooks.errors import ConfigError

__all__ = [
    "BASES",
    "PATHS",
    "PATH_ARGUMENTS",
    "Folder",
    "leaves",
    "path_values",
    "places",
    "real_path",
    "spellings",
]

BASE_ARGUMENTS = (
    "base_dir",
    "base_directory",
    "base_path",
    "cwd",
    "dir",
    "directory",
    "directory_path",
    "folder",
    "root",
    "root_dir",
    "root_path",
    "search_directory",
    "search_path",
    "work_dir",
    "working_dir",
    "working_directory",
)
"""Arguments that other, relative paths of the same call may be relative to."""

PATH_ARGUMENTS = (
    *BASE_ARGUMENTS,
    "absolute_path",
    "dest",
    "destination",
    "destination_path",
    "dst",
    "file",
    "file_name",
    "file_path",
    "files",
    "from_path",
    "input_file",
    "input_path",
    "new_path",
    "notebook_path",
    "old_path",
    "output_file",
    "output_path",
    "path",
    "path_name",
    "paths",
    "source",
    "source_path",
    "src",
    "target",
    "target_file",
    "target_path",
    "to_path",
)
"""Arguments that are paths, at any depth; ``AbsolutePath`` and ``absolute-path`` are the same."""


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


PATHS = frozenset(map(_plain, PATH_ARGUMENTS))
"""Names of all of them, as `path_values` compares names."""
BASES = frozenset(map(_plain, BASE_ARGUMENTS))
"""Likewise those of directories that other paths may be relative to."""
_URL = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]+://")
_FILE_URL = re.compile(r"\s*file:(?://(?P<host>[^/?#]*))?(?P<path>.*)", re.IGNORECASE | re.DOTALL)
_DRIVE = re.compile(r"\s*[A-Za-z]:(?:[\\/]|$)")


@dataclasses.dataclass(frozen=True)
class Folder:
    """One directory.

    Attributes:
        path: Without links.
        folds_case: Whether its file system takes ``A`` and ``a`` for the same.
    """

    path: str
    folds_case: bool

    @classmethod
    def of(cls, directory: str | os.PathLike[str]) -> Folder:
        """Return a directory by name, resolved now; it need not exist.

        Raises:
            ConfigError: It is no path.
        """
        text: Any = os.fspath(directory)
        if not isinstance(text, str) or not text.strip() or "\0" in text:
            raise ConfigError(f"`{directory!r}` is no directory", hint="give a path as text")
        path = os.path.realpath(os.path.expanduser(text))
        return cls(path, _folds_case(path))

    def contains(self, path: str) -> bool:
        """Say whether a path without links lies in the directory, or is it."""
        mine = self.path.rstrip(os.sep)
        if self.folds_case:
            mine, path = _fold(mine), _fold(path)
        return path == mine or path.startswith(mine + os.sep) or path == self.path


def _fold(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _folds_case(path: str) -> bool:
    other = path.swapcase()
    try:
        return other != path and os.path.samefile(path, other)
    except OSError:  # one of the two does not exist
        return os.path.normcase("A") == "a"


def _items(value: Any) -> Iterable[tuple[str, Any]] | None:
    """Return what a container of named values holds; None for anything else."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        return [(str(key), item) for key, item in mapping.items()]
    if isinstance(value, pydantic.BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}.items()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    return None


def path_values(container: Any, names: frozenset[str]) -> Iterator[Any]:
    """Yield the values of arguments with one of the names, at any depth."""
    items = _items(container)
    if items is not None:
        for name, value in items:
            yield from leaves(value) if _plain(name) in names else path_values(value, names)
    elif isinstance(container, (list, tuple, set, frozenset)):
        for value in cast("Iterable[Any]", container):
            yield from path_values(value, names)


def leaves(value: Any) -> Iterator[Any]:
    """Yield what a path argument holds: one value, or those of lists and records."""
    items = _items(value)
    if items is not None:
        for _, item in items:
            yield from leaves(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in cast("Iterable[Any]", value):
            yield from leaves(item)
    elif value is not None:
        yield value


def spellings(value: Any) -> set[str]:
    """Return a path in each form in which a tool may read it.

    Raises:
        TypeError: It is no path, such as the number of an open file.
        ValueError: It leads to no place of the local file system.
    """
    text = os.fsdecode(value)
    url = _FILE_URL.fullmatch(text)
    if url is not None:
        if (url["host"] or "localhost").lower() != "localhost":
            raise ValueError("a file of another host")
        whole = url["path"]
        if ".." in urllib.parse.unquote(whole):
            raise ValueError("a URL that climbs")  # where to depends on who reads it
        found = {urllib.parse.unquote(p) for p in (whole, re.split("[?#]", whole, maxsplit=1)[0])}
    elif _URL.match(text) or (os.name != "nt" and _DRIVE.match(text)):
        raise ValueError("a place of another kind")
    else:
        found = {text, urllib.parse.unquote(text)}
    found |= {path.strip() for path in found}
    found |= {os.path.expandvars(path) for path in found}
    found |= {path.replace("\\", "/") for path in found}
    return {_home(path) for path in found}


def _home(path: str) -> str:
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise ValueError("the directory of a user who is not known")
    return expanded


def places(paths: Iterable[Any], checked: Iterable[Any], bases: Iterable[Any]) -> Iterator[str]:
    """Yield the places that paths can stand for.

    A relative path is meant relative to a directory of the same call, if it has one; the working
    directory of the process then counts only if there is something, since a tool may not know the
    argument that the model gave it.

    Args:
        paths: Relative to `bases`, which may be relative to one another.
        checked: Those of `bases` that are to be looked at themselves.
        bases: Directories of the call.
    """
    here = os.getcwd()
    directories = [text for base in bases for text in spellings(base)]
    anchors = [text for text in directories if os.path.isabs(text)] or [here]
    starts = [os.path.join(a, text) for a in anchors for text in directories] or anchors
    for values, own in ((checked, anchors), (paths, starts)):
        for text in (text for value in values for text in spellings(value)):
            yield from (os.path.join(start, text) for start in own)
            if os.path.lexists(os.path.join(here, text)):
                yield os.path.join(here, text)


def real_path(path: str) -> str:
    """Return a path without links and ``..``.

    Raises:
        OSError: It cannot be resolved: a loop, or no access.
        ValueError: It has a NUL byte.
    """
    real = os.path.realpath(path)
    try:
        os.stat(real)
    except (FileNotFoundError, NotADirectoryError):
        pass  # a file that is to be created
    return real
