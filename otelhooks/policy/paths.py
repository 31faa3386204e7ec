"""Where a path can lead.

A path leads wherever a tool may understand it to lead: as it is, without blanks and quotes around
it, with expanded variables, with decoded percent signs, with backslashes as separators.
`otelhooks.policy.commands.named` finds the paths in a call.
"""

from __future__ import annotations

import dataclasses
import os
import re
import unicodedata
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

from otelhooks.errors import ConfigError

__all__ = ["Folder", "places", "readings", "real_path", "spellings"]

_URL = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]+://")
_FILE_URL = re.compile(r"\s*file:(?://(?P<host>[^/?#]*))?(?P<path>.*)", re.IGNORECASE | re.DOTALL)
_MOST_DECODINGS = 4
_MOST_PLACES = 10_000
_DRIVE = re.compile(r"\s*[A-Za-z]:(?:[\\/]|$)")


@dataclasses.dataclass(frozen=True)
class Folder:
    """One directory.

    Attributes:
        path: Without links.
        folds_case: Whether its file system treats ``A`` and ``a`` as the same.
    """

    path: str
    folds_case: bool

    @classmethod
    def of(cls, directory: str | os.PathLike[str]) -> Folder:
        """Return a directory by name, resolved now; it need not exist.

        Raises:
            ConfigError: It is not a path.
        """
        text: Any = os.fspath(directory)
        if not isinstance(text, str) or not text.strip() or "\0" in text:
            raise ConfigError(f"`{directory!r}` is not a directory", hint="give a path as text")
        path = os.path.realpath(os.path.expanduser(text))
        return cls(path, _folds_case(path))

    def __str__(self) -> str:
        return self.path

    def contains(self, path: str) -> bool:
        """Return whether a path without links is the directory or is inside it."""
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


def readings(text: str) -> list[str]:
    """Return a text in each form in which a tool may read it as a path, without looking it up."""
    found = [text]
    for _ in range(_MOST_DECODINGS):
        found.append(urllib.parse.unquote(found[-1]))
    found += [each.strip().strip("'\"`").strip() for each in found]
    found += [each.replace("\\", "/") for each in found]
    return list(dict.fromkeys(found))


def spellings(value: Any) -> set[str]:
    """Return a path in each form in which a tool may read it.

    Raises:
        TypeError: It is not a path but, for example, the number of an open file.
        ValueError: It does not lead to a place in the local file system.
    """
    text = os.fsdecode(value)
    url = _FILE_URL.fullmatch(text)
    if url is not None:
        if (url["host"] or "localhost").lower() != "localhost":
            raise ValueError("a file of another host")
        whole = url["path"]
        if ".." in urllib.parse.unquote(whole):
            raise ValueError("a URL that climbs")  # its target depends on the reader
        found = {urllib.parse.unquote(p) for p in (whole, re.split("[?#]", whole)[0])}
        found |= {path.strip() for path in found}
    elif _URL.match(text) or (os.name != "nt" and _DRIVE.match(text)):
        raise ValueError("a place of another kind")
    else:
        found = set(readings(text))
    found |= {os.path.expandvars(path) for path in found}
    found |= {path.replace("\\", "/") for path in found}
    return {_home(path) for path in found}


def _home(path: str) -> str:
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise ValueError("the directory of a user who is not known")
    return expanded


def places(
    paths: Iterable[Any], checked: Iterable[Any], bases: Iterable[Any], here: str
) -> Iterator[str]:
    """Yield the places that paths can mean.

    A relative path is relative to where the tool works, and to each directory of the same call: a
    tool may not know the argument that the model gave it.

    Args:
        paths: Relative to `bases`, which may be relative to one another.
        checked: Those of `bases` that are also checked themselves.
        bases: Directories of the call.
        here: Where the tool works, absolute.

    Raises:
        ValueError: There are more than any tool needs.
    """
    directories = _spelled(bases)
    anchors = [here, *(text for text in directories if os.path.isabs(text))]
    _limit(len(anchors) * len(directories))
    joined = (os.path.join(a, text) for a in anchors for text in directories)
    starts = list(dict.fromkeys((here, *joined)))
    for values, own in ((checked, anchors), (paths, starts)):
        texts = _spelled(values)
        _limit(len(own) * len(texts))
        yield from dict.fromkeys(os.path.join(start, text) for text in texts for start in own)


def _spelled(values: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(text for value in values for text in spellings(value)))


def _limit(count: int) -> None:
    if count > _MOST_PLACES:
        raise ValueError("too many places")


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
        pass  # there is no such file, or not yet: its path is all there is to judge
    return real
