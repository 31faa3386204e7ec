"""What all limits share: where they count, and what happens if they cannot.

They are gates (`otelhooks.hooks.gates`): they count what nothing else stops, and a call once.
Decision code: if a count cannot be read, they deny, or allow with ``on_error="allow"``; the span
says so in either case.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from otelhooks.errors import ConfigError
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.verdict import ALLOW, ASK, DENY, Ruling
from otelhooks.policy.rules import Mode, Severity

if TYPE_CHECKING:
    from otelhooks.policy.limits.counters import Counter

__all__ = ["DAY_S", "Limit", "OnBreach", "OnError", "Per", "whole"]

T = TypeVar("T")

_log = logging.getLogger("otelhooks.policy")

Per = Literal["session", "turn", "minute", "hour", "day"]
"""What a count is kept for: a conversation, a turn with its sub-agents, or a period of time."""
OnBreach = Literal["deny", "ask"]
OnError = Literal["deny", "allow"]

DAY_S = 86_400
_WINDOWS_S = {"minute": 60, "hour": 3_600, "day": DAY_S}


class Limit(Gate):
    """What all limits share: where they count, and what happens if they cannot.

    Attributes:
        unreadable: What the model reads if a count cannot be read or written.
        periods: What a count may be kept for.
        kept_s: How long the count of a conversation or turn is kept, from its first unit.
    """

    unreadable: str = ""
    periods: tuple[str, ...] = get_args(Per)
    kept_s: Mapping[str, int] = {"session": 366 * DAY_S, "turn": 7 * DAY_S}

    def __init__(
        self,
        words: str,
        *,
        per: Per,
        storage: Any,
        on_breach: OnBreach,
        on_error: OnError,
        name: str,
        id: str | None,
        reason: str,
        severity: Severity | None,
        mode: Mode | None,
    ) -> None:
        for field, value, known in (
            ("per", per, self.periods),
            ("on_breach", on_breach, get_args(OnBreach)),
            ("on_error", on_error, get_args(OnError)),
            ("severity", severity, (None, *get_args(Severity))),
            ("mode", mode, (None, *get_args(Mode))),
        ):
            if value not in known:
                listed = ", ".join(str(word) for word in known if word is not None)
                raise ConfigError(
                    f"`{words}`: unknown {field} `{value}`", hint=f"use one of {listed}"
                )
        self.per: Per = per
        self.can_ask: bool = on_breach == "ask"
        self.on_error: OnError = on_error
        self.id: str = id if id is not None else words.replace(" ", "_")
        self.label: str = name or words
        self.reason: str = reason
        self.severity: str | None = severity
        self.mode: str | None = mode
        self.monitored: bool = mode == "monitor"
        self._storage: Any = storage
        self._at_least: str = "at least " if self.can_ask else ""  # people may have let more run
        self._said: set[str] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def _counter(self, max: int, *, is_sum: bool = False) -> Counter:
        from otelhooks.policy.limits.counters import Counter, open_storage

        self._storage = open_storage(self._storage)
        window_s = _WINDOWS_S.get(self.per) or self.kept_s[self.per]
        is_moving = self.per in _WINDOWS_S and not is_sum
        return Counter(max, window_s, self._storage, is_moving=is_moving)

    def _key(self, context: HookContext | None, about: str = "") -> str:
        """Return the key of a count as a hash, so that a server stores nothing about users.

        Args:
            context: Context of what is counted.
            about: What the count is about besides the conversation or turn.
        """
        if self.per in _WINDOWS_S or context is None:
            name = ""
        else:
            name = context.turn_key() if self.per == "turn" else context.session_key()
        return hashlib.sha256(f"{self.id}\0{name}{about}".encode()).hexdigest()[:32]

    def _do(self, counter: Counter, fn: Callable[..., T], *args: Any) -> Generator[Run, Any, T]:
        """Take one step with a counter; in a worker thread if it waits for a network.

        Raises:
            Exception: The count could not be read or written.
        """
        if not counter.waits:
            return fn(*args)
        value: Any = yield Run(fn, *args, blocking=True)
        if type(value) is Raised:
            raise value.error
        return value

    def _pass(
        self, counter: Counter, step: Callable[..., bool], key: tuple[str, ...], message: str = ""
    ) -> Generator[Run, Any, Ruling]:
        """Let pass what a count has room for, as one step with it says."""
        try:
            has_room = yield from self._do(counter, step, *key)
        except BaseException as error:
            if escapes(error):
                raise
            return self._failed(error)
        return Ruling(ALLOW) if has_room else self._refuse(message)

    def _refuse(self, message: str) -> Ruling:
        decision, said = ASK if self.can_ask else DENY, _Said(self, message)
        if self.monitored:
            return Ruling(ALLOW, observed=((decision, said),))
        return Ruling(decision, said, said.reason)

    def _failed(self, error: BaseException) -> Ruling:
        """Return the ruling if a count could not be read or written."""
        cause = type(error).__qualname__  # its text may contain addresses
        if cause not in self._said:
            self._said.add(cause)
            _log.error("limit `%s` could not be checked (%s): %s", self.id, self.on_error, cause)
        if self.monitored or self.on_error == "allow":
            said = _Said(self, f"{self.unreadable} ({cause})")
            return Ruling(ALLOW, observed=((DENY, said),))
        return Ruling(DENY, self, self.unreadable, error)


class _Said:
    """A limit as the rule behind one decision, with the reason for it.

    Attributes:
        waits: Whether its question must be answered while the call waits. The run does not pause
            for it: when it continues, in another turn or process, the limit may have room again.
    """

    handler = None
    ask = None
    detail = None
    waits: bool = True

    def __init__(self, limit: Limit, reason: str) -> None:
        self.id: str = limit.id
        self.identity: str = limit.id
        self.policy_id: str = limit.policy_id
        self.policy_version: str = limit.policy_version
        self.label: str = limit.label
        self.reason: str = limit.reason or reason
        self.severity: str | None = limit.severity


def whole(unit: str, cap: Any) -> int:
    """Check a number of units.

    Raises:
        ConfigError: It is not a whole number of 1 or more.
    """
    if not isinstance(cap, int) or isinstance(cap, bool) or cap < 1:
        raise ConfigError(f"{unit}: `{cap!r}` is not a number of them", hint="give 1 or more")
    return cap
