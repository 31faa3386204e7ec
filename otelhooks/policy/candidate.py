"""A second set of rules beside the one that holds: evaluated on every call, never enforced.

It asks nobody, counts nothing and changes nothing: it is given copies, and what it says is told
where it differs. Telemetry: fails open. A predicate that waits is left behind after a short time,
one that raises denies, as it would if the set held.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from typing import Any

from otelhooks.hooks.calls import Call, copy_json
from otelhooks.hooks.drive import Raised, Run, drive, escapes
from otelhooks.hooks.results import HOOK
from otelhooks.hooks.verdict import ALLOW, ASK, DENY, Ruling, Verdict
from otelhooks.policy.evaluate import PolicySet

__all__ = ["Candidate"]

_log = logging.getLogger("otelhooks.policy")

TIME_LIMIT_S = 0.1
MAX_AT_ONCE = 8
"""Evaluations that may run at a time, those that were left behind included."""


class Candidate:
    """Rules that are tried out.

    Args:
        rules: The set, in enforce mode.

    Attributes:
        rules: The set.
    """

    def __init__(self, rules: PolicySet) -> None:
        self.rules: PolicySet = rules
        self._running = 0
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def flip(
        self, call: Call, labels: frozenset[str], live: Verdict | None
    ) -> Generator[Run, Any, Ruling | None]:
        """Return what the set would have done, where that is not what happens; else None.

        Args:
            call: As it was judged, with its final arguments; not touched.
            labels: Those in force.
            live: What was decided; None where there was nobody to decide.
        """
        now = said(live)
        if now == DENY and live is not None and live.policy_id == HOOK:
            return None  # a hook has denied, and would under either set
        try:
            ruling = yield from self._ruling(call, labels)
        except BaseException as error:
            if escapes(error):
                raise
            self._report("failed", error)
            return None
        return ruling if ruling is not None and ruling.decision != now else None

    def _ruling(self, call: Call, labels: frozenset[str]) -> Generator[Run, Any, Ruling | None]:
        ruling = self.rules.constant(call)
        if ruling is not None:
            return ruling
        if self._running >= MAX_AT_ONCE:
            return None
        value: Any = yield Run(
            self._evaluate, _copy(call), _Labels(labels), blocking=True, timeout=TIME_LIMIT_S
        )
        if type(value) is Raised:
            raise value.error
        return value

    def _evaluate(self, call: Call, context: Any) -> Ruling | None:
        with self._lock:
            if self._running >= MAX_AT_ONCE:
                return None
            self._running += 1
        try:
            return drive(self.rules.evaluate(call, context))
        finally:
            with self._lock:
                self._running -= 1

    def _report(self, what: str, error: BaseException) -> None:
        cause = type(error).__qualname__
        if cause not in self._said:
            self._said.add(cause)
            _log.warning("the candidate set %s and is passed over: %s", what, cause)


class _Labels:
    """What rules read of a context."""

    def __init__(self, labels: frozenset[str]) -> None:
        self.labels = labels


def said(verdict: Verdict | None) -> str:
    """Return what rules said of a call: ``allow``, ``deny`` or ``ask``, whether enforced or not.

    What plain hooks rewrote is no matter of rules.
    """
    if verdict is None:
        return ALLOW
    words = {verdict.decision, *(seen.decision for seen in verdict.observed)}
    if DENY in words:
        return DENY
    return ASK if ASK in words else ALLOW


def _copy(call: Call) -> Call:
    copied = Call(
        call.name,
        copy_json(call.args),
        id=call.id,
        server=call.server,
        claimed_server=call.claimed_server,
        server_says=call.server_says,
        canonical=call.canonical,
        kind=call.kind,
        path=call.path,
        raw=call.raw,
        agent=call.agent,
        branch=call.branch,
        tool_type=call.tool_type,
        description=call.description,
        is_known=call.is_known,
    )
    copied.place, copied.foreign = call.place, call.foreign
    return copied
