"""A second set of rules beside the one in force: evaluated on every call, never enforced.

It asks no person, counts nothing and changes nothing: it gets copies, and is reported where its
decision differs. Telemetry: fails open. A predicate that waits is abandoned after a short time; one
that raises denies, as it would if the set were in force.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from otelhooks.hooks.calls import Call, copy_json
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Raised, Run, drive, escapes
from otelhooks.hooks.results import HOOK
from otelhooks.hooks.said import Message
from otelhooks.hooks.verdict import ALLOW, ASK, DENY, Ruling, Verdict
from otelhooks.policy.evaluate import PolicySet

if TYPE_CHECKING:
    from otelhooks.hooks.origins import Parts
    from otelhooks.records.users import User

__all__ = ["Candidate", "Known"]

_log = logging.getLogger("otelhooks.policy")

TIME_LIMIT_S = 0.1
MAX_AT_ONCE = 8
"""Most evaluations that may run at a time, including abandoned ones."""


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
        self, call: Call, known: Known, live: Verdict | None
    ) -> Generator[Run, Any, Ruling | None]:
        """Return what the set would have done if it differs from what happens; else None.

        Args:
            call: The judged call, with its final arguments; not changed.
            known: What rules may read besides the call.
            live: What was decided; None if nothing decided.
        """
        now = said(live)
        if now == DENY and live is not None and live.policy_id == HOOK:
            return None  # a hook has denied, and would under either set
        try:
            ruling = yield from self._ruling(call, known)
        except BaseException as error:
            if escapes(error):
                raise
            self._report("failed", error)
            return None
        return ruling if ruling is not None and ruling.decision != now else None

    def _ruling(self, call: Call, known: Known) -> Generator[Run, Any, Ruling | None]:
        ruling = self.rules.constant(call)
        if ruling is not None:
            return ruling
        if self._running >= MAX_AT_ONCE:
            return None
        value: Any = yield Run(
            self._evaluate, _copy(call), known, blocking=True, timeout=TIME_LIMIT_S
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


class Known:
    """What rules read of a context, as it is when it is made.

    Args:
        labels: Labels in force.
        context: The operation's; None if the rules read nothing else of it.
    """

    def __init__(self, labels: frozenset[str], context: HookContext | None = None) -> None:
        self.labels: frozenset[str] = labels
        self.user: User | None = None if context is None else context.user
        self._messages = () if context is None else context.messages()
        self._context = context

    def messages(self) -> tuple[Message, ...]:
        """Return what the user said."""
        return self._messages

    def is_from(self, label: str, parts: Parts) -> bool:
        """Return whether parts of a value came from results with a label, as of now."""
        return self._context is None or self._context.is_from(label, parts)


def said(verdict: Verdict | None) -> str:
    """Return what rules decided about a call: ``allow``, ``deny`` or ``ask``, enforced or not.

    Rewrites by plain hooks do not concern rules.
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
