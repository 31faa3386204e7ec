"""Policy files on disk: which ones, whether they can be trusted, and their text.

Decision code: a file that cannot be read, or that another user could have written, is an error and
never skipped. Skipped in a folder are files with an unknown suffix, names that start with a dot,
and folders.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from otelhooks.errors import PolicyFileError
from otelhooks.policy import packs
from otelhooks.policy.files.problems import Problems
from otelhooks.policy.values.unseen import described, find_unseen
from otelhooks.process.environment import UNSAFE_FILES, allows_unsafe_files

__all__ = [
    "MAX_BYTES",
    "RESERVED",
    "SUFFIXES",
    "YAML",
    "Source",
    "find",
    "read",
    "read_all",
    "refuse_namesakes",
]

log: logging.Logger = logging.getLogger("otelhooks.policy")

MAX_BYTES = 1_048_576
"""Size of the largest policy file that is read."""

MARKDOWN = ".md"
YAML = (".yaml", ".yml")
SUFFIXES = (MARKDOWN, *YAML)
"""Suffixes of policy files; upper case counts as well."""

RESERVED = ("code", "hook", "mcp_pins", "mcp_servers", "policy_files")
"""Telemetry's names for sources that are not files; a file must not have such a name."""

_SHIPPED = os.path.dirname(os.path.realpath(packs.__file__))
_FRONT_MATTER = re.compile(r"---[ \t]*\n.*?^---[ \t]*$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """One policy file.

    Attributes:
        path: As the user named it, or folder and name.
        text: Content, without byte order mark, with line feeds as line ends.
        policy_id: File name without suffix; telemetry's name for the policy.
        version: Content hash, 12 hexadecimal digits.
    """

    path: str
    text: str
    policy_id: str
    version: str

    @property
    def is_markdown(self) -> bool:
        """Whether it is a hook file; else it is YAML."""
        return self.path.lower().endswith(MARKDOWN)


def read_all(
    paths: Iterable[str | os.PathLike[str]], *, trusted: bool = False
) -> tuple[Source, ...]:
    """Read files, and the policy files of folders in the order of their names.

    A file that is named twice is read once.

    Args:
        paths: Files and folders.
        trusted: Whether it does not matter who may write them; packs are always trusted.

    Raises:
        PolicyFileError: One cannot be used, or two have the same policy id.
    """
    sources: dict[str, Source] = {}
    problems = Problems()
    for path in find(paths, trusted=trusted):
        real = os.path.realpath(path)
        if real not in sources:
            with problems:
                sources[real] = read(path, trusted=trusted)
    problems.check()
    refuse_namesakes(sources.values())
    return tuple(sources.values())


def refuse_namesakes(sources: Iterable[Source]) -> None:
    """Refuse files that telemetry could not tell apart from one another or from other sources.

    Raises:
        PolicyFileError: Two have the same policy id, or one has a reserved one.
    """
    places: dict[str, str] = {}
    for source in sources:
        if source.policy_id in RESERVED:
            raise PolicyFileError(
                source.path,
                1,
                1,
                f"`{source.policy_id}` is what telemetry calls rules that are in no file",
                hint="rename the file",
            )
        other = places.setdefault(source.policy_id, source.path)
        if other != source.path:
            raise PolicyFileError(
                source.path,
                1,
                1,
                f"`{other}` is called `{source.policy_id}` as well",
                hint="rename one of them: the name is the policy's id in telemetry",
            )


def find(paths: Iterable[str | os.PathLike[str]], *, trusted: bool = False) -> list[str]:
    """Return the policy files in files and folders; see `read_all`."""
    found: list[str] = []
    for path in paths:
        place: str = os.path.expanduser(os.fspath(path))
        try:
            is_folder = stat.S_ISDIR(os.stat(place).st_mode)
            names = sorted(os.listdir(place)) if is_folder else []
        except (OSError, ValueError) as error:
            raise _unreadable(place, error) from error
        if not is_folder:
            if not place.lower().endswith(SUFFIXES):
                raise PolicyFileError(
                    place, 1, 1, "no policy file", hint=f"its name must end in {_words(SUFFIXES)}"
                )
            found.append(place)
            continue
        _refuse_foreign(place, place, os.stat(place), trusted)
        files = [os.path.join(place, name) for name in names if _is_policy_file(place, name)]
        if not files:
            raise PolicyFileError(
                place,
                1,
                1,
                "the folder has no policy files",
                hint=f"put files in it that end in {_words(SUFFIXES)}; folders in it are not read",
            )
        found += files
    return found


def _is_policy_file(folder: str, name: str) -> bool:
    """Return whether a name in a folder is a policy file; a file that is gone by now counts."""
    known = name.lower().endswith(SUFFIXES) and not name.startswith(".")
    if not known or os.path.isdir(os.path.join(folder, name)):
        log.debug("%s: `%s` is not a policy file", folder, name)
        return False
    return True


def read(path: str, *, trusted: bool = False) -> Source:
    """Read one file.

    Args:
        path: Path of the file.
        trusted: As for `read_all`.

    Raises:
        PolicyFileError: It cannot be read, is not an ordinary file, is too large or not UTF-8, or
            could have been written by another user.
    """
    data = _bytes(path, trusted)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise PolicyFileError(
            path,
            *_place(before, len(before)),
            f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8",
            hint="save the file as UTF-8",
        ) from error
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    _refuse_unseen(path, text)
    version = hashlib.sha256(data).hexdigest()[:12]
    return Source(path, text, Path(path).stem, version)


def _refuse_unseen(path: str, text: str) -> None:
    """Refuse characters that could make a file say something other than what it shows.

    Pictures may be joined and coloured. The text after the front matter of a hook file is prose,
    and may also have blanks of other widths.
    """
    name = os.path.basename(path)
    at = find_unseen(name)
    if at >= 0:
        problem = f"its name has a character that cannot be seen: {described(name[at])}"
        raise PolicyFileError(path, 1, 1, problem, hint="rename the file")
    front = _FRONT_MATTER.match(text) if path.lower().endswith(MARKDOWN) else None
    end = len(text) if front is None else front.end()
    at = find_unseen(text[:end], pictures=True)
    if at < 0:
        at = find_unseen(text[end:], pictures=True, blanks=True)
        at = at if at < 0 else at + end
    if at >= 0:
        raise PolicyFileError(
            path,
            *_place(text, at),
            f"a character that cannot be seen: {described(text[at])}",
            hint="take it out: a policy must say what it shows; a script may write its escape",
        )


def _place(text: str, index: int) -> tuple[int, int]:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _bytes(path: str, trusted: bool) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe would block forever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
        with open(descriptor, "rb") as file:
            # The opened file is checked and read, whatever the name refers to by now.
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise PolicyFileError(path, 1, 1, "no ordinary file", hint="give a file or folder")
            _refuse_foreign(path, path, status, trusted)
            for folder in dict.fromkeys((os.path.dirname(path), _real_folder(path))):
                _refuse_foreign(path, folder, os.stat(folder or os.curdir), trusted)
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, PolicyFileError):
            raise
        raise _unreadable(path, error) from error
    if len(data) > MAX_BYTES:
        raise PolicyFileError(
            path,
            1,
            1,
            f"the file is larger than {MAX_BYTES} bytes",
            hint="split it into several files",
        )
    return data


_BINARY = getattr(os, "O_BINARY", 0)


def _real_folder(path: str) -> str:
    return os.path.dirname(os.path.realpath(path))


def _refuse_foreign(path: str, place: str, status: os.stat_result, trusted: bool) -> None:
    """Refuse a file or folder that anyone but this user and root could have written."""
    if trusted or not hasattr(os, "geteuid") or allows_unsafe_files():
        return
    if os.path.realpath(path).startswith(_SHIPPED + os.sep):
        return  # who can write it can write this code as well
    place = place or os.curdir
    sticky_folder = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    is_mounted = stat.S_ISDIR(status.st_mode) and _is_read_only(place)
    if status.st_mode & stat.S_IWOTH and not sticky_folder and not is_mounted:
        problem, remedy = f"every user may write `{place}`", f"run `chmod o-w {place}`"
    elif status.st_uid not in {0, os.geteuid()}:
        problem = f"`{place}` belongs to another user (uid {status.st_uid})"
        remedy = "let root or the user that runs the agent own it"
    else:
        return
    raise PolicyFileError(path, 1, 1, problem, hint=f"{remedy}, or set {UNSAFE_FILES}=1")


def _is_read_only(place: str) -> bool:
    """Return whether a place is mounted read-only, as ConfigMaps are: their folders have 0777."""
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


def _unreadable(path: str, error: Exception) -> PolicyFileError:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return PolicyFileError(
        path, 1, 1, f"cannot be read: {why}", hint="give an existing policy file or folder"
    )


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
