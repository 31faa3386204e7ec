"""Where the paths of one call lead: from each folder of the call, through links, by patterns."""

from __future__ import annotations

import bisect
import os
import pathlib
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from otelhooks.policy.commands import programs
from otelhooks.policy.commands.shell import UNKNOWN
from otelhooks.policy.files.source import SUFFIXES
from otelhooks.policy.paths import spellings

__all__ = ["PLAIN", "Look", "fits", "fits_around", "is_pattern", "may_be", "names_in"]

_MOST_FOLDERS = 64
_MOST_LINKS = 10_000
_OF_PROCESS = re.compile(r"/+(?:proc/|dev/(?:fd/|stdin))")
_STREAMS = frozenset(("/dev/fd/1", "/dev/fd/2"))
_ONLY_UP = re.compile(r"(?:\.\./?)+")
PLAIN = re.compile(r"[\w+@,.:=-]+", re.ASCII)
"""Words that are paths only if a file of that name exists."""


class Look:
    """Where the paths of one call lead.

    Args:
        bases: Folders that the call names, which its other paths are relative to.
        work_dir: Where the tool works, if known; it may treat this folder as the root.

    Raises:
        ValueError: There are more folders than any call needs.

    Attributes:
        here: The working directory.
        bases: The same, as paths without links, and the folders that commands change to.
        is_lost: Whether a command changes to a folder that is only known when it runs.
    """

    def __init__(self, bases: Iterable[Any], work_dir: str | None) -> None:
        self.here: str = os.path.realpath(os.curdir)
        self._work_dir = None if work_dir is None else os.path.realpath(work_dir)
        self._real: dict[str, tuple[str, bool]] = {}
        self._listed: dict[str, list[str]] = {}
        self._links: dict[str, list[str]] = {}
        self._followed = 0
        self.is_lost: bool = False
        self.bases: list[str] = []
        self.bases = list(dict.fromkeys(place for base in bases for place in self.places(base)))
        self._limit()

    def _limit(self) -> None:
        if len(self.bases) > _MOST_FOLDERS:
            raise ValueError("too many folders")

    def change(self, folders: Iterable[str]) -> None:
        """Let later paths also be relative to these folders.

        Raises:
            ValueError: There are more than any command needs.
        """
        for folder in folders:
            self.is_lost |= UNKNOWN in folder
            for place in self.places(programs.pattern(folder) or folder):
                # how often a loop goes up is unknown
                ups = pathlib.PurePath(place).parents if _ONLY_UP.fullmatch(folder) else ()
                self.bases += dict.fromkeys(
                    each for each in (place, *map(str, ups)) if each not in self.bases
                )
            self._limit()

    def places(self, value: Any) -> list[str]:
        """Return where a path can lead, without links; empty if it is not a local path."""
        if not value:
            return []
        forms: Iterable[str] = (value,)
        if not isinstance(value, str) or not PLAIN.fullmatch(value):
            try:
                forms = spellings(value)
            except TypeError:  # such as the number of an open file
                return []
            except ValueError:
                if isinstance(value, str) and value.lstrip().lower().startswith("file:"):
                    raise
                climbs = isinstance(value, str) and ".." in value  # a tool may use it as a path
                forms = [os.path.normpath(value)] if climbs else []
        found = [os.path.join(s, text) for s in (self.here, *self.bases) for text in forms]
        if self._work_dir is not None:
            found += [os.path.join(self._work_dir, text.lstrip(os.sep)) for text in forms]
        return [each for path in found for each in self._through_links(self._resolve(path))]

    def is_of_process(self, word: str) -> bool:
        """Return whether a word names an open file of a process, only known when it runs."""
        names = [os.path.normpath(os.path.join(base, word)) for base in (self.here, *self.bases)]
        return any(_OF_PROCESS.match(name) and name not in _STREAMS for name in names)

    def _through_links(self, place: str) -> Iterator[str]:
        """Yield a place; for a pattern, also the places that matching links lead to.

        Raises:
            ValueError: There are more than any command needs.
        """
        yield place
        wild = re.search("[*?]", place)
        if wild is None:
            return
        folder = os.path.dirname(place[: wild.start()])
        own, *rest = place[len(folder) :].strip(os.sep).split(os.sep)
        if folder not in self._links:
            paths = (os.path.join(folder, name) for name in self._entries(folder))
            self._links[folder] = [path for path in paths if os.path.islink(path)]
        for path in self._links[folder]:
            if programs.stands_for(own, os.path.basename(path)):
                self._followed += 1
                if self._followed > _MOST_LINKS:
                    raise ValueError("too many links")
                yield from self._through_links(os.path.join(os.path.realpath(path), *rest))

    def climbs(self, head: str, made: Sequence[str]) -> bool:
        """Return whether the rest of a word may lead out of the folder that its start names.

        That needs a folder of that name: an existing one, or one that the same commands create;
        `made` has their names, sorted.
        """
        folder, sign, name = head.rpartition("/")
        if not head or programs.pattern(head) is not None or name in {os.curdir, os.pardir}:
            return True
        if not name:
            return os.path.basename(folder) in made or any(map(os.path.isdir, self.places(head)))
        return any(
            names[(at := bisect.bisect_left(names, name)) : at + 1] and names[at].startswith(name)
            for names in (made, *map(self._entries, self.places(folder + sign or os.curdir)))
        )

    def _entries(self, folder: str) -> list[str]:
        if folder not in self._listed:
            self._listed[folder] = sorted(_entries(folder))
        return self._listed[folder]

    def _resolve(self, path: str) -> str:
        """Return a path without links and ``..``.

        Each folder is read once per call: commands may have thousands of words.
        """
        walked, below_drive = os.path.splitdrive(path)
        real, is_there = walked + os.sep, True
        for name in below_drive.split(os.sep):
            if name in {"", os.curdir}:
                continue
            walked += os.sep + name
            known = self._real.get(walked)
            if known is None:
                if name == os.pardir:
                    known = os.path.dirname(real), is_there
                else:
                    below = os.path.join(real, name)
                    known = _entry(below) if is_there else (below, False)
                self._real[walked] = known
            real, is_there = known
        return real


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder or os.sep)
    except OSError:
        return []


def _entry(path: str) -> tuple[str, bool]:
    """Return where an entry of a folder without links leads, and whether it exists."""
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return path, False
    return (os.path.realpath(path), True) if stat.S_ISLNK(mode) else (path, True)


def is_pattern(place: str) -> bool:
    """Return whether a place is a pattern for several places."""
    return "*" in place or "?" in place


def fits(pattern: str, path: str) -> bool:
    """Return whether a shell's pattern can match a path, or something in it."""
    wanted = pattern.split(os.sep)
    has = path.split(os.sep)
    return len(wanted) >= len(has) and all(map(programs.stands_for, wanted, has))


def fits_around(pattern: str, path: str) -> bool:
    """Return whether a shell's pattern can match a folder around a path."""
    wanted = pattern.rstrip(os.sep).split(os.sep)
    has = path.split(os.sep)
    return len(wanted) < len(has) and all(map(programs.stands_for, wanted, has))


def names_in(path: str) -> list[str]:
    """Return existing and possible names in a protected folder; none for a file."""
    return [] if os.path.isfile(path) else [*_entries(path), *(f"x{end}" for end in SUFFIXES)]


def may_be(
    word: str, path: str, look: Look, made: Sequence[str], *, or_around: bool = False
) -> bool:
    """Return whether a word with an unknown part may lead to a path, or to something in it.

    Args:
        word: Word of a command.
        path: Protected path, without links.
        look: The look of the call.
        made: Names that the commands may give to folders, sorted.
        or_around: Whether folders around the path count.
    """
    head, tail = word.split(UNKNOWN, 1)[0], word.rsplit(UNKNOWN, 1)[-1]
    tail = re.sub(r"/(?:\.?/)+", "/", tail.rsplit("/..", 1)[-1] + "/").rstrip("/")
    end = "*" + (programs.pattern(tail) or tail)
    own = [os.path.basename(tail)] if tail.lower().endswith(SUFFIXES) and "/" in tail else []
    names = [*names_in(path), *own] if not os.path.isfile(path) else []
    goals = [path, *(os.path.join(path, name) for name in names)]
    if or_around:
        goals += map(str, pathlib.PurePath(path).parents)
    starts = [""] if look.climbs(head, made) else look.places(head)
    return any(programs.stands_for(start + end, goal) for start in starts for goal in goals)
