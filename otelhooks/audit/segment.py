"""Files of the audit trail: a locked, append-only segment, its spool, and their location."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, cast

from otelhooks.audit.chain import SCHEMA
from otelhooks.errors import ConfigError
from otelhooks.process.folders import user_folder

if sys.platform != "win32":
    import fcntl

_OPEN_FLAGS = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_APPEND
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)
LOCKED = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})
"""Errors of `flock` for a file that another process has locked."""
_TRANSIENT = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)


class Place(NamedTuple):
    """The location of a trail."""

    folder: Path
    stem: str
    """Beginning of every file name of the trail."""


def place(path: str | os.PathLike[str] | None) -> Place:
    """Read the `path` that a user gave.

    Args:
        path: A folder, a `.jsonl` file stem, or None for the user's data folder.

    Returns:
        Folder and stem; nothing is created.

    Raises:
        ConfigError: Something of the wrong kind is there, or the user has no home folder.
    """
    if path is None:
        return Place(user_folder("data", "OTELHOOKS_AUDIT") / "audit", "audit")
    given = Path(path).expanduser().absolute()
    if given.suffix != ".jsonl":
        if given.exists() and not given.is_dir():
            raise ConfigError(
                f"audit path `{given}` is a file",
                hint="give a folder, or a name that ends in `.jsonl`",
            )
        return Place(given, "audit")
    if given.is_dir():
        raise ConfigError(
            f"audit path `{given}` is a folder",
            hint="give a folder whose name does not end in `.jsonl`, or a file name in it",
        )
    if given.exists():
        raise occupied(given)
    return Place(given.parent, given.stem)


def occupied(path: Path) -> ConfigError:
    """Return the error for an existing file that cannot be written to as a segment."""
    try:
        if is_locked(path):
            return ConfigError(
                f"audit file `{path}` is locked: another writer has it open",
                hint="give each process a folder or a file stem; it makes segments of its own",
            )
        schema = read_schema(path)
    except OSError as error:
        return unusable(path, error)
    if schema == SCHEMA:
        return ConfigError(
            f"audit file `{path}` is a segment of an earlier run",
            hint="give its folder or a file stem; a finished segment is never reopened",
        )
    return ConfigError(
        f"audit file `{path}` is of another schema: `{schema or 'none'}`, not `{SCHEMA}`",
        hint="give another name, or move that file away; it was not changed",
    )


def unusable(path: Path, error: OSError) -> ConfigError:
    """Return the error for a location that cannot be written, with a hint."""
    return ConfigError(f"audit trail `{path}` cannot be written: {cause(error)}", hint=hint(error))


def writable_by_all(folder: Path) -> str:
    """Return a warning about a folder that every user may write; empty for any other.

    Others may own the folder, or share its group: that is a way to keep the trail from the agent.
    """
    try:
        mode = folder.stat().st_mode
    except OSError:
        return ""
    if not hasattr(os, "geteuid") or not mode & stat.S_IWOTH or mode & stat.S_ISVTX:
        return ""
    return (
        f"every user may write `{folder}`, and could delete or replace the audit trail\n"
        f"hint: run `chmod o-w {folder}`, or choose another folder with `audit=`"
    )


def is_transient(error: OSError) -> bool:
    """Return whether a failure may be temporary, so that trying again makes sense."""
    return error.errno in _TRANSIENT


def cause(error: BaseException) -> str:
    """Return what went wrong, without the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"{type(error).__name__}: {error}"


def hint(error: BaseException) -> str:
    """Return what an operator can do about a failed write."""
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "free some space, or put the trail on another disk with `audit=`"
    if number in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "make the folder writable for this user, or choose another with `audit=`"
    if number in (errno.EMFILE, errno.ENFILE):
        return "raise the limit of open files"
    return "check the disk, or choose another folder with `audit=`"


def read_schema(path: Path) -> str | None:
    """Read the schema in a file's first line; None if there is none."""
    with path.open("rb") as file:
        first = file.readline(64 * 1024)
    try:
        fields = json.loads(first)
    except ValueError:
        return None
    schema = cast("dict[str, Any]", fields).get("schema") if isinstance(fields, dict) else None
    return schema if isinstance(schema, str) else None


def is_locked(path: Path) -> bool:
    """Return whether a live writer holds a segment; False if files cannot be locked."""
    if sys.platform == "win32":
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in LOCKED
    finally:
        os.close(fd)
    return False


class SegmentGoneError(FileNotFoundError):
    """The file of a live segment has lost its name: it was moved, renamed or deleted."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ENOENT, "the segment was moved or deleted", str(path))
        self.path = path


class Segment:
    """One file of the trail, created and locked by this process.

    Args:
        path: A file that does not exist yet; a missing folder is created (mode 0700).

    Raises:
        FileExistsError: The file exists.
        OSError: It cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = 0
        self._is_torn = False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(path, _OPEN_FLAGS | os.O_EXCL, 0o600)
        self._identity = os.fstat(self._fd)
        try:
            _lock(self._fd)
            _sync_folder(path.parent)
        except BaseException:
            self.close()
            path.unlink(missing_ok=True)
            raise

    def append(self, data: bytes) -> None:
        """Write whole lines and wait until they are on disk; all of them or none.

        Args:
            data: Lines with their newlines.

        Raises:
            SegmentGoneError: They would be in a file that has lost its name.
            OSError: They are not on disk. The file ends where it ended before, or is cut back to
                that before the next write.
        """
        if self.is_gone():
            raise SegmentGoneError(self.path)
        if self._is_torn:
            self._cut_back()
        try:
            write_all(self._fd, data)
            # After a failed fsync the kernel may mark the pages clean although they were not
            # written: so they are cut off and written again instead of synced again.
            os.fsync(self._fd)
            if self.is_gone():
                raise SegmentGoneError(self.path)
        except OSError:
            self._is_torn = True
            try:
                self._cut_back()
            except OSError:
                pass  # reported with the failure itself; cut back before the next write
            raise
        self._size += len(data)

    def is_gone(self) -> bool:
        """Return whether the file has lost its name; any thread may ask.

        Raises:
            OSError: The folder cannot be read.
        """
        try:
            there = os.lstat(self.path)
        except FileNotFoundError:
            return True
        return not os.path.samestat(there, self._identity)

    def close(self) -> None:
        """Close the file, which also gives up the lock. Closing twice does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _cut_back(self) -> None:
        os.ftruncate(self._fd, self._size)
        self._is_torn = False


class Spool:
    """The file for a chain's waiting lines while its segment cannot be written.

    Args:
        path: File that the first `append` creates and `clear` deletes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_used = False

    def append(self, lines: list[bytes]) -> None:
        """Add lines and wait until they are on disk; all of them or none.

        Raises:
            OSError: They are not.
        """
        fd = os.open(self.path, _OPEN_FLAGS, 0o600)
        self._is_used = True
        try:
            size = os.fstat(fd).st_size
            try:
                write_all(fd, b"".join(lines))
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)
                raise
        finally:
            os.close(fd)

    def clear(self) -> None:
        """Delete the file, once its lines are in the segment.

        Raises:
            OSError: It cannot be deleted.
        """
        if self._is_used:
            self.path.unlink(missing_ok=True)
            self._is_used = False


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, in as many steps as the system needs."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _lock(fd: int) -> None:
    if sys.platform == "win32":
        return
    # A `verify` that reads the file at this moment holds it for some microseconds.
    for attempt in range(20):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in LOCKED:
                return  # a file system without locks: the name belongs to this process anyway
            if attempt == 19:
                raise
            time.sleep(0.01)
        else:
            return


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)  # so that the new name itself survives a power cut
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise
    finally:
        os.close(fd)
