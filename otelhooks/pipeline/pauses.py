"""The verdicts of calls that their frameworks paused, which count when exactly these continue."""

from __future__ import annotations

import collections
import json
from typing import TYPE_CHECKING, TypeAlias

from otelhooks.records.arguments import arguments_hash

if TYPE_CHECKING:
    from otelhooks.hooks.verdict import Verdict
    from otelhooks.pipeline.frames import Op, Turn

__all__ = ["Pauses", "key_of"]

_MAX_PAUSED = 10_000

_Key: TypeAlias = tuple[str | int, ...]


class Pauses:
    """Verdicts of paused calls, oldest first."""

    def __init__(self) -> None:
        self._paused: collections.OrderedDict[_Key, tuple[Verdict, Turn | None]] = (
            collections.OrderedDict()
        )

    def __len__(self) -> int:
        return len(self._paused)

    def keep(self, op: Op) -> None:
        """Remember the verdict of a call that its framework paused, to apply it afterwards."""
        key = key_of(op)
        if key is None or op.verdict is None:
            return
        self._paused[key] = op.verdict, op.turn
        if len(self._paused) > _MAX_PAUSED:
            self._paused.popitem(last=False)

    def take(self, op: Op) -> Verdict | None:
        """Return the verdict before a pause, for exactly this call with these arguments.

        A run that continues takes it, and no other: a model may repeat a call, with its id.
        """
        key = key_of(op) if self._paused else None
        if key is None:
            return None
        turn = op.turn
        if key not in self._paused and turn is not None and turn.resumed and not op.session.id:
            # A stored run has lost its conversation: one without an id is all that it can be.
            alike = (one for one in [*self._paused] if type(one[0]) is int and one[1:] == key[1:])
            key = next(alike, key)
        found = self._paused.pop(key, None)
        if found is None or not (turn is None or turn.resumed or turn is found[1]):
            return None
        return found[0]


def key_of(op: Op) -> _Key | None:
    """Return the key that identifies a call after a pause; None if nothing identifies it.

    An answer is for one agent of one conversation: others may use the same ids.
    """
    call = op.call
    if call is None or call.id is None:
        return None
    try:
        json.dumps(call.args)
    except (TypeError, ValueError, RecursionError):
        return None  # values that cannot be compared reliably
    server = "" if call.server is None else f"/{call.server}"
    return op.session.key, op.agent, server, call.name, call.id, arguments_hash(call.args)
