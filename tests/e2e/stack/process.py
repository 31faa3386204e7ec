"""A server as a process of its own: started, asked until it is ready, stopped, its log kept."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path


class StartError(Exception):
    """A server ended at its start, or did not get ready; its last words are in the message."""


class Process:
    """A server that runs, or can be started again.

    Args:
        name: For messages and the log's name.
        command: Program and arguments.
        environment: The whole environment of the process.
        folder: Its working directory.
        log: File that gets all it prints; a second start appends.
        ready_url: Answers 200 as soon as the server can be used.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        ready_url: str,
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.environment = dict(environment)
        self.log = log
        self._folder = folder
        self._ready_url = ready_url
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the running process; None while there is none."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float = 60) -> None:
        """Start and wait until it is ready.

        A session of its own keeps Ctrl-C of the terminal from it, so that servers end in order.
        On Linux, it dies with the process that started it, even when that is killed.

        Raises:
            StartError: It ended, or was not ready in time.
        """
        keeper = shutil.which("setpriv")
        prefix = (keeper, "--pdeathsig", "TERM", "--") if keeper else ()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                (*prefix, *self.command),
                cwd=self._folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + timeout_s
        while not self._answers():
            if self._process.poll() is not None:
                raise StartError(f"{self.name} ended at its start:\n{self.last_words()}")
            if time.monotonic() > deadline:
                self.kill()
                raise StartError(
                    f"{self.name} was not ready after {timeout_s:g} s ({self._ready_url}):\n"
                    f"{self.last_words()}"
                )
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self._ready_url, timeout=2):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False

    def last_words(self, lines: int = 3) -> str:
        """Return the end of the log."""
        text = self.log.read_text("utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def stop(self, timeout_s: float = 20) -> None:
        """Ask the process to end, and make it end when it takes too long."""
        self.ask_to_stop()
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()

    def ask_to_stop(self) -> None:
        """Send the signal to end; do not wait."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
