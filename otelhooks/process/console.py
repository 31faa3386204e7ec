"""Log lines of otelhooks on stderr, where a program has not set up logging."""

from __future__ import annotations

import logging
import sys

__all__ = ["program_logs", "use"]


class _Console(logging.Handler):
    """Writes ``otelhooks: warning: message``; without it Python would write the bare message.

    As with `logging.lastResort`, any handler of the program goes before it, also one that is added
    later.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is None or program_logs(record.name):
            return
        try:
            sys.stderr.write(f"otelhooks: {record.levelname.lower()}: {self.format(record)}\n")
        except Exception:
            self.handleError(record)


def program_logs(name: str) -> bool:
    """Return whether a logger has handlers of the program, itself or above it."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(not isinstance(handler, _Console) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def use() -> None:
    """Let lines from warnings on be written this way; once is enough for a process."""
    logger = logging.getLogger("otelhooks")
    if not any(isinstance(handler, _Console) for handler in logger.handlers):
        logger.addHandler(_Console(logging.WARNING))
