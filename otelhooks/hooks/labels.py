"""Labels: what a conversation has touched. They are added, never removed.

All contexts of a turn hold the same object, and a sub-agent's contexts that of the turn that
started it: a label that one of them adds applies to all. Hooks read labels and cannot remove one.
"""

from __future__ import annotations

from typing import Literal, Protocol

from otelhooks.hooks.origins import Origins

__all__ = ["UNKNOWN", "Keeper", "Labels", "Lasting"]

UNKNOWN = "unknown"
"""Label of a conversation with a history that this process did not see."""

Lasting = Literal["session", "turn"]
"""How long a label lasts: for the conversation, or for one turn with its sub-agents."""


class Keeper(Protocol):
    """Keeps the labels of one conversation longer than a process remembers it."""

    @property
    def is_read(self) -> bool:
        """Whether `open` could read what was kept; otherwise it is called again."""
        ...

    def open(self) -> tuple[bool, frozenset[str]]:
        """Return whether the conversation is known, and its labels; afterwards it is known."""
        ...

    def add(self, label: str) -> None:
        """Keep one more label."""
        ...


class Labels:
    """Labels of a turn over those of its session, or those of a session.

    Args:
        session: Labels of the session, for a turn's; None for a session's own.

    Attributes:
        session: The labels that last for the conversation; itself for a session's own.
        keeper: Where a session's labels outlive it; None for nowhere.
        origins: What is remembered of the results with each label that this process has added.
    """

    __slots__ = ("_has_history", "_is_known", "_is_read", "_own", "keeper", "origins", "session")

    def __init__(self, session: Labels | None = None) -> None:
        self.session: Labels = session or self
        self._own: set[str] = set()  # its methods are atomic; nothing is ever removed
        self._is_read = False
        self._is_known: bool | None = None  # until it was looked up first
        self._has_history = False
        self.origins: dict[str, Origins] = {}
        self.keeper: Keeper | None = None

    def come_with_history(self) -> None:
        """Note that a session begins with a history; `UNKNOWN` if no labels were kept for it.

        Whether any were kept is looked up when a rule or hook first reads labels.
        """
        self._has_history = True
        if self._is_known is not None:
            self._doubt()

    def all(self) -> frozenset[str]:
        """Return the labels in force."""
        self.session._read()
        return self.so_far()

    def so_far(self) -> frozenset[str]:
        """Return the labels that are known without reading those that were kept."""
        session = self.session
        if session is self or not self._own:
            return frozenset(session._own)
        return frozenset(self._own) | session._own

    def add(self, label: str, per: Lasting = "session") -> Origins:
        """Add a label; return what is remembered of the results with it.

        Args:
            label: Its name.
            per: Whether it lasts for the conversation, or for this turn.
        """
        target = self.session if per == "session" else self
        if target.keeper is not None:
            target._read()  # so that a label of earlier is not taken for one of this process
        return target._put(label)

    def _put(self, label: str) -> Origins:
        origins = self.origins.setdefault(label, Origins())
        if label not in self._own:
            self._own.add(label)
            if self.keeper is not None:
                self.keeper.add(label)
        return origins

    def origins_of(self, label: str) -> list[Origins]:
        """Return what is remembered of the results with a label, in the conversation and turn."""
        layers = {self, self.session}
        return [layer.origins[label] for layer in layers if label in layer.origins]

    def _read(self) -> Labels:
        """Read the kept labels until it was possible once; return the object itself."""
        if self._is_read:
            return self
        keeper, is_first = self.keeper, self._is_known is None
        is_known, kept = (False, frozenset[str]()) if keeper is None else keeper.open()
        for label in kept:  # not one that another thread has added meanwhile
            origins = self.origins.setdefault(label, _UNSEEN)
            if not is_first:
                origins.doubt()  # added here too, before those of earlier could be read
        self._own |= kept
        if is_first:
            self._is_known = is_known  # later it is, by this process
        self._is_read = keeper is None or keeper.is_read
        self._doubt()
        return self

    def _doubt(self) -> None:
        if self._has_history and not self._is_known:
            self._put(UNKNOWN)


_UNSEEN = Origins()
_UNSEEN.doubt()
