"""Where values came from: what a conversation remembers of the results that carry a label.

A tool call that adds a label is a source of it, until its result is read. Everything counts as from
results with the label while another source is open, and for good once one could not be read, once
there was more than is remembered, or if anything but a tool call has added the label.
"""

from __future__ import annotations

from collections.abc import Set

__all__ = ["MOST_PARTS", "Origins", "Parts"]

MOST_PARTS = 50_000
"""Most parts that are remembered for a label: hashes of words, of pairs of them, of numbers."""

Parts = Set[int]


class Origins:
    """What is remembered of the results with one label.

    Attributes:
        is_unsure: Whether everything counts as from them.
    """

    __slots__ = ("_open", "_parts", "is_unsure")

    def __init__(self) -> None:
        self.is_unsure: bool = False
        self._open: set[object] = set()  # operations; its methods are atomic
        self._parts: set[int] = set()

    def expect(self, source: object) -> None:
        """Note that a tool is about to run whose result has the label."""
        if not self.is_unsure:
            self._open.add(source)

    def come(self, source: object, parts: Parts | None) -> None:
        """Take the result of a source; None if it cannot be read."""
        if parts is None:
            self.doubt()
        elif not self.is_unsure:
            self._parts |= parts
            if len(self._parts) > MOST_PARTS:
                self.doubt()
        self.leave(source)

    def leave(self, source: object) -> None:
        """Expect no result of a source any more."""
        self._open.discard(source)

    def doubt(self) -> None:
        """Count everything as from results with the label, from now on."""
        self.is_unsure = True
        self._parts = set()

    def have(self, parts: Parts, asker: object) -> bool:
        """Return whether all parts came from the results.

        Args:
            parts: Of a value.
            asker: The operation that the value is for: what it adds itself does not count.
        """
        return self.is_unsure or bool(self._open - {asker}) or self._parts.issuperset(parts)
