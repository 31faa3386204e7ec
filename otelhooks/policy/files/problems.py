"""All errors of policy files at once: each is found, nothing is loaded."""

from __future__ import annotations

from types import TracebackType

from otelhooks.errors import PolicyFileError

__all__ = ["Problems"]


class Problems:
    """Keeps errors that are raised in its blocks, so that the parts beside them are read too.

    Use it as a context manager around each part, as often as you like; then `check`.
    """

    def __init__(self) -> None:
        self._found: list[PolicyFileError] = []

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, PolicyFileError):
            return False
        self._found += [error, *error.further]
        return True

    def check(self) -> None:
        """Raise the first error, which has the others as its `further`, if there was one."""
        if self._found:
            first, *others = self._found
            first.further = tuple(others)
            raise first
