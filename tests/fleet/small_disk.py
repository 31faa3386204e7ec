"""A file system of a few megabytes that only some processes see, to fill and to make room on.

In a mount namespace of its own, which needs no root where user namespaces are allowed, and is gone
with the process that keeps it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

OWN = ("--mount",) if os.geteuid() == 0 else ("--map-root-user", "--mount")
INTO = ("--mount",) if os.geteuid() == 0 else ("--user", "--preserve-credentials", "--mount")


class NoSmallDiskError(Exception):
    """No user of this machine may mount a file system."""


class SmallDisk:
    """The file system, on a folder that is empty for everybody else.

    Args:
        folder: Made here.
        mebibytes: How much it holds.

    Raises:
        NoSmallDiskError: It cannot be had on this machine.
    """

    def __init__(self, folder: Path, mebibytes: int) -> None:
        folder.mkdir()
        script = f'mount -t tmpfs -o size={mebibytes}m tmpfs "$1" && echo mounted && exec cat'
        try:
            self._keeper = subprocess.Popen(
                ("unshare", *OWN, "sh", "-c", script, "sh", str(folder)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except FileNotFoundError as error:
            raise NoSmallDiskError(str(error)) from error
        assert self._keeper.stdout
        said = self._keeper.stdout.readline().decode().strip()
        if said != "mounted":
            self.close()
            raise NoSmallDiskError(said)
        inside = f"/proc/{self._keeper.pid}/root{folder}"
        self._filler = Path(inside, "filler")
        self._inside = Path(inside)

    def command(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command that runs where the file system is seen."""
        return ("nsenter", "--target", str(self._keeper.pid), *INTO, "--", *command)

    def fill(self) -> None:
        """Use up what is free."""
        block = bytes(4096)
        with self._filler.open("ab", buffering=0) as filler:
            while shutil.disk_usage(self._inside).free:
                filler.write(block)

    def make_room(self) -> None:
        """Give back what `fill` used."""
        self._filler.unlink()

    def close(self) -> None:
        """Let go of it; it is gone when no process is inside any more."""
        assert self._keeper.stdin
        assert self._keeper.stdout
        self._keeper.stdin.close()
        self._keeper.wait()
        self._keeper.stdout.close()
