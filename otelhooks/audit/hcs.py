"""A hook that puts verdicts on a topic of the Hedera Consensus Service.

Records go to a trail on disk first (the spool), which a sender empties to the topic from threads of
its own: hiero-sdk-python blocks. `otelhooks.audit.hcs_messages` says what a message looks like,
`docs/audit.md` what is promised.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from otelhooks.audit.hcs_client import Clients
from otelhooks.audit.hcs_messages import fit
from otelhooks.audit.hcs_outbox import Outbox
from otelhooks.audit.hcs_sender import Sender
from otelhooks.audit.hcs_topic import Topic
from otelhooks.audit.trail import Audit
from otelhooks.errors import ConfigError
from otelhooks.hooks.base import Hook, PostParamsNormalizationHook, PreToolCallDecideHook
from otelhooks.hooks.compat.tool_bound import AbstractHook
from otelhooks.hooks.context import OperationContext
from otelhooks.hooks.recorders import Recorder
from otelhooks.telemetry import semconv
from otelhooks.telemetry.masking import Redactor
from otelhooks.telemetry.verdicts import arguments_hash
from otelhooks.types import HookResult

if TYPE_CHECKING:
    from otelhooks.audit.ticket import Ticket
    from otelhooks.hooks.calls import Call
    from otelhooks.hooks.context import HookContext
    from otelhooks.types import HookEvent, ToolCall

logger: logging.Logger = logging.getLogger("otelhooks.audit")

NAME = "HcsAuditTrailHook"
REFUSAL = f"{NAME} does not allow this tool in mode RETURN_BYTES, only in AUTONOMOUS."
RETURN_BYTES = "returnBytes"
"""The mode in which the kit sends nothing. Source: hedera-agent-kit 3.4.2, `AgentMode`."""

_SEGMENT_BYTES = 4 * 1024 * 1024
_MASKED = ("arguments", "reason", "error")
_REFUSED = (
    semconv.ENFORCEMENT_BLOCKED,
    semconv.ENFORCEMENT_REJECTED,
    semconv.ENFORCEMENT_EXPIRED,
)
_LOOK_AT_SPOOL_S = 1.0


class HcsAuditTrailHook(AbstractHook):
    """Record the calls of some tools on a topic of the Hedera Consensus Service.

    Every verdict about them is recorded before the call goes on, denied calls included, and every
    failed call once more when it has failed. A record is on disk before the call goes on, and on
    the topic some seconds later; at least once, the same record always with the same ``hash``. A
    topic that cannot be reached, or refuses, is logged once for each cause and never fails a tool;
    records wait in the spool, also over the end of the process.

    Everybody can read a public topic for ever: arguments are masked, whatever ``redact`` says.

    Args:
        relevant_tools: Exact names of tools; ``"*"`` among them stands for all, none for none.
        hcs_topic_id: The topic, `shard.realm.number`; it has to be there.
        logging_client: An SDK ``Client`` with an operator, who pays and signs, or a function that
            returns one, which a forked process calls again. None: the tool call's own, in the
            Hedera agent kit, or else the one that ``OPERATOR_ID``, ``OPERATOR_KEY`` and ``NETWORK``
            name.
        submit_key: The topic's submit key, an SDK ``PrivateKey`` or its DER text in hex, where it
            has one that is not the operator's. A raw key without DER is taken for Ed25519.
        executed_only: Record calls that ran without an error, once they have run, and nothing else;
            what the hook of the same name in the kit does.
        required: Deny a call whose verdict has not reached the topic after `timeout_s`, or cannot.
        timeout_s: Seconds; the network takes three to five to agree on a message.
        arguments: Whether masked arguments are recorded, or their hash only.
        spool: Folder of this topic's records that wait; None for one in the user's data folder.
            Processes may share it. Not to be shared with an `Audit`.
        max_spool_bytes: How much may wait there; beyond it, records are dropped and counted.
        max_chunks: How many transactions of 1024 bytes one record may take. Larger arguments are
            left out.
        in_flight: How many records are on their way at once.
        custom_fee_limits: SDK ``CustomFeeLimit`` objects; without any, whatever a topic with fees
            of its own asks for is paid.

    Raises:
        ConfigError: hiero-sdk-python is not installed, topic or key cannot be read, or the spool
            cannot be written.
        TypeError: `relevant_tools` is no list of names.
        ValueError: A number is not positive; or `required` and `executed_only` together: after the
            call it is too late to deny.

    Source: for name, first three parameters and ``executed_only``: hedera-agent-kit 3.4.2.
    """

    name: str = NAME
    description: str = "Records tool calls on a topic of the Hedera Consensus Service"

    def __init__(
        self,
        relevant_tools: Sequence[str],
        hcs_topic_id: str,
        logging_client: Any = None,
        *,
        submit_key: Any = None,
        executed_only: bool = False,
        required: bool = False,
        timeout_s: float = 15.0,
        arguments: bool = True,
        spool: str | os.PathLike[str] | None = None,
        max_spool_bytes: int = 256 * 1024 * 1024,
        max_chunks: int = 10,
        in_flight: int = 8,
        custom_fee_limits: Iterable[Any] = (),
    ) -> None:
        if required and executed_only:
            msg = "`required` and `executed_only` exclude each other: a call that ran is not denied"
            raise ValueError(msg)
        for name, value in (
            ("timeout_s", timeout_s),
            ("max_spool_bytes", max_spool_bytes),
            ("max_chunks", max_chunks),
            ("in_flight", in_flight),
        ):
            if value <= 0:
                msg = f"`{name}` has to be more than 0, not `{value}`"
                raise ValueError(msg)
        if sys.platform == "win32":
            raise ConfigError("an audit trail on a topic needs file locks, which Windows lacks")
        self.relevant_tools: Collection[str] = _names(relevant_tools)
        self.hcs_topic_id = hcs_topic_id
        self.required = required
        self.executed_only = executed_only
        self._timeout_s = timeout_s
        self._arguments = arguments
        self._max_chunks = max_chunks
        self._max_spool_bytes = max_spool_bytes
        self._in_flight = in_flight
        self._pid = os.getpid()
        self._clients = Clients(logging_client)
        self._topic = Topic(hcs_topic_id, self._clients.get, submit_key, tuple(custom_fee_limits))
        self._folder = _folder(spool, hcs_topic_id)
        self._trail = Audit(self._folder, rotate_bytes=min(_SEGMENT_BYTES, max_spool_bytes // 8))
        self._redactor = Redactor()
        self._records = _Records(self)
        self._parts: tuple[Hook, ...] = (_ModeAtFirst(self), _ModeOfSteps(self), self._records)
        self._begin()
        if self._clients.is_known:
            self.send()
        _live.add(self)
        self._at_exit = functools.partial(_close, weakref.ref(self))
        atexit.register(self._at_exit)

    def _begin(self) -> None:
        """Set what each process has for itself."""
        self._lock = threading.Lock()
        self._taken = 0  # records, those that were dropped too
        self._is_given_away = False
        self._spool_bytes = 0
        self._spool_looked_at = float("-inf")
        self._outbox = Outbox(self._folder)
        self._sender = Sender(self._outbox, self._topic, self.hcs_topic_id, self._in_flight)

    def parts(self) -> Iterator[Hook]:
        """Return what refuses a mode that it cannot record, and what records."""
        return iter(self._parts)

    async def pre_tool_execution_hook(self, context: Any, params: Any, method: str) -> None:
        """Refuse a mode that returns bytes, for whoever calls hooks by hand, as the kit does.

        Raises:
            RuntimeError: It is that mode.
        """
        if self.wants(method, None, ()):
            self.offer(getattr(params, "client", None))
            if _returns_bytes(context):
                raise RuntimeError(REFUSAL)

    async def post_secondary_action_hook(self, context: Any, params: Any, method: str) -> None:
        """Record a call that ran, likewise: there is no verdict, and nothing of failed calls."""
        if self.wants(method, None, ()):
            self._put(lambda: _executed(method, params))
            self.send()

    def wants(self, tool: str, server: str | None, canonical: Iterable[str]) -> bool:
        """Say whether calls of a tool are recorded."""
        return not {"*", tool, f"{server}/{tool}", *canonical}.isdisjoint(self.relevant_tools)

    @property
    def sent(self) -> int:
        """Records that this process has put on the topic, those of earlier ones included."""
        return self._outbox.records_sent

    @property
    def failed(self) -> int:
        """Tries of this process to put a record on the topic that failed."""
        return self._sender.failed

    @property
    def dropped(self) -> int:
        """Records of this process that could be kept nowhere; the topic itself says so."""
        return self._trail.dropped

    @property
    def spooled(self) -> int:
        """Records of this process that are not known to be on the topic yet."""
        return self._taken - self._trail.dropped - self._outbox.own_sent

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all records of this process are on the topic.

        Args:
            timeout: Longest wait in seconds; None for no limit.

        Returns:
            Whether they are; False at once while the network refuses them.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        return self._trail.flush(timeout) and self._sender.flush(_left(deadline))

    def close(self, timeout: float | None = 5.0) -> bool:
        """Send what waits, and end. What is left stays in the spool, for the next start.

        Args:
            timeout: Longest wait in seconds; None for no limit.

        Returns:
            Whether everything is on the topic.
        """
        atexit.unregister(self._at_exit)
        deadline = None if timeout is None else time.monotonic() + timeout
        is_written = self._trail.close(timeout)
        is_sent = self._sender.flush(_left(deadline))
        if self._sender.end(_left(deadline)):
            self._outbox.close()
        return is_written and is_sent

    def offer(self, client: Any) -> None:
        """Take the client of a tool call, where none was given."""
        self._clients.offer(client)

    def write(self, record: Mapping[str, Any]) -> _Receipt:
        """Put a record into the spool, without waiting.

        Args:
            record: As `otelhooks.hooks.recorders.Recorder.write` gets it.

        Returns:
            The receipt; it waits for the disk, and where it is required for the topic.
        """
        return self._put(lambda: record)

    def _put(self, record: Callable[[], Mapping[str, Any]]) -> _Receipt:
        with self._lock:
            self._taken += 1
        try:
            told = self._told(record())
        except Exception as error:  # a value that cannot be read; its call must not fail
            self._trail.drop(f"it cannot be read: {type(error).__name__}")
            return _Receipt(self, None, "", None)
        # A call that is refused anyway, or is over, waits for nobody.
        is_waiting = told.get("enforcement") not in _REFUSED and "outcome" not in told
        with self._lock:
            if self._is_full():
                self._trail.drop(f"the spool `{self._folder}` is full")
                return _Receipt(self, None, "", None)
            before = self._trail.head
            ticket = self._trail.write(told)
            record_hash = self._trail.head
            is_expected = self.required and is_waiting and record_hash != before
            on_topic = self._sender.expect(record_hash) if is_expected else None
        return _Receipt(self, ticket, record_hash, on_topic)

    def _told(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is told of a record: masked, and not too large."""
        told = dict(record)
        if not self._arguments:
            told.pop("arguments", None)
        for name in _MASKED:
            if name in told:
                told[name] = self._redactor.mask(told[name])
        return fit(told, self._max_chunks)

    def send(self) -> None:
        """See that what is on disk is sent; a process that has no client leaves it to others."""
        if not self._outbox.own:
            self._outbox.own = self._trail.chain
        if self._clients.is_known or os.getpid() == self._pid:
            self._sender.start()
        elif not self._is_given_away:
            self._is_given_away = True
            self._outbox.give_away()
            logger.warning(
                "audit records for topic `%s` wait for the parent process: this one was forked, and"
                " has no client\nhint: give a function that returns a client as `logging_client`",
                self.hcs_topic_id,
            )

    def wait_for(self, ticket: Ticket, record_hash: str, on_topic: Ticket | None) -> bool:
        """Wait for one record; see `_Receipt`."""
        is_kept = ticket.wait()
        self.send()
        if on_topic is None:
            return is_kept
        is_there = is_kept and on_topic.wait(self._timeout_s)
        if not is_there:
            self._sender.forget(record_hash)
        return is_there

    def _is_full(self) -> bool:
        """Say whether too much waits in the spool; looked up once a second."""
        now = time.monotonic()
        if now - self._spool_looked_at > _LOOK_AT_SPOOL_S:
            self._spool_looked_at = now
            self._spool_bytes = _size_of(self._folder)
        return self._spool_bytes > self._max_spool_bytes

    def start_anew_in_child(self) -> None:
        """Give up what a forked child inherited: its parent sends what its parent wrote."""
        self._outbox.close()
        self._clients.start_anew_in_child()
        self._begin()


class _Receipt:
    """Waits until a record is on disk and, where that is required, on its topic."""

    __slots__ = ("_hash", "_hook", "_on_topic", "_ticket")

    def __init__(
        self,
        hook: HcsAuditTrailHook,
        ticket: Ticket | None,
        record_hash: str,
        on_topic: Ticket | None,
    ) -> None:
        self._hook = hook
        self._ticket = ticket
        self._hash = record_hash
        self._on_topic = on_topic

    def wait(self) -> bool:
        if self._ticket is None:
            return False
        return self._hook.wait_for(self._ticket, self._hash, self._on_topic)


class _Mode:
    """Refuses calls in a mode in which nothing is executed: there would be nothing to record."""

    name = NAME

    def __init__(self, hook: HcsAuditTrailHook) -> None:
        self._hook = hook

    async def run(self, context: HookContext, data: ToolCall) -> HookResult:
        if not isinstance(context, OperationContext) or context.stages is None:
            return HookResult()
        if not self._hook.wants(data.name, data.server_name, context.canonical):
            return HookResult()
        stages = context.stages
        self._hook.offer(stages.client)
        if _returns_bytes(stages.context):
            return HookResult(allow=False, message=REFUSAL)
        return HookResult()


class _ModeAtFirst(_Mode, PreToolCallDecideHook):
    pass


class _ModeOfSteps(_Mode, PostParamsNormalizationHook):
    """Has calls judged where their mode is known, which a seat outside the kit may not know."""


class _Records(Recorder):
    """Hands records on; makes them of events where no runtime does, for a `HookRunner` alone."""

    name = NAME

    def __init__(self, hook: HcsAuditTrailHook) -> None:
        self._hook = hook
        self._followed: WeakSet[HookContext] = WeakSet()

    @property
    def required(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._hook.required

    @property
    def spooled(self) -> int:
        return self._hook.spooled

    def wants(self, call: Call) -> bool:
        return self._hook.wants(call.name, call.server, call.canonical)

    def follow(self, context: HookContext) -> None:
        self._followed.add(context)

    def wants_verdicts(self) -> bool:
        return not self._hook.executed_only

    def wants_end(self, is_failed: bool) -> bool:
        return is_failed != self._hook.executed_only

    def write(self, record: Mapping[str, Any], context: HookContext) -> _Receipt:
        return self._hook.write(record)

    def flush(self, timeout: float | None = None) -> bool:
        return self._hook.flush(timeout)

    async def run(self, context: HookContext, data: HookEvent) -> None:
        call: Call | None = getattr(context, "call", None)
        if call is None or context in self._followed or not self.wants(call):
            return
        end: dict[str, Any] = {}
        if data.type == "tool_error":
            end = {"outcome": "failed"}
        elif data.type == "post_tool_use" and not data.is_error and data.decision != "deny":
            end = {"outcome": "ok"}
        is_wanted = self.wants_end(end["outcome"] == "failed") if end else self.wants_verdicts()
        if is_wanted and (end or data.decision is not None):
            fields = data.model_dump(mode="json", exclude={"input", "output"}, exclude_none=True)
            told = {name: value for name, value in fields.items() if value != ""}
            arguments = {"arguments": call.args, "arguments_hash": arguments_hash(call.args)}
            self._hook.write({**told, **arguments, **end})
            self._hook.send()


def _executed(method: str, params: Any) -> dict[str, Any]:
    """Return the record of a call that ran, of what the kit gives its hooks."""
    given: Any = params.normalized_params
    arguments: Any = given.model_dump(mode="json") if hasattr(given, "model_dump") else given
    return {
        "tool_name": method,
        "arguments": arguments,
        "arguments_hash": arguments_hash(arguments),
        "outcome": "ok",
    }


def _returns_bytes(context: Any) -> bool:
    """Say whether tools only return transactions, for others to sign and send."""
    mode = getattr(context, "mode", None)
    return getattr(mode, "value", mode) == RETURN_BYTES


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)


def _names(given: Any) -> list[str]:
    if isinstance(given, (str, bytes)):
        msg = f"`relevant_tools` is a text, not a list of names: write [{given!r}]"
        raise TypeError(msg)
    names: list[str] = list(given)
    for name in names:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"`relevant_tools` holds {type(name).__name__}, not a tool's name: `{name}`"
            raise TypeError(msg)
    return names


def _folder(given: str | os.PathLike[str] | None, topic_id: str) -> Path:
    if given is None:
        import platformdirs

        return platformdirs.user_data_path("otelhooks", appauthor=False) / "hcs" / topic_id
    folder = Path(given).expanduser().absolute()
    if folder.suffix == ".jsonl":
        raise ConfigError(f"`spool` is a file name: `{folder}`", hint="give a folder")
    return folder


def _size_of(folder: Path) -> int:
    total = 0
    try:
        for entry in os.scandir(folder):
            total += entry.stat().st_size
    except OSError:
        pass  # a file that was just sent and deleted; a disk that does not work says so elsewhere
    return total


_live: WeakSet[HcsAuditTrailHook] = WeakSet()


def _close(hook: weakref.ref[HcsAuditTrailHook]) -> None:
    living = hook()
    if living is not None:
        living.close()


def _start_anew_in_child() -> None:
    for hook in list(_live):
        hook.start_anew_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_in_child)
