"""A hook that puts verdicts on a topic of the Hedera Consensus Service.

Records first go to an audit trail on disk, whose segments `otelhooks.audit.hcs_outbox` reads and
`otelhooks.audit.hcs_sender` sends to the topic. `otelhooks.audit.hcs_parts` connects the hook to
the pipeline, `otelhooks.audit.hcs_messages` defines the messages, and `docs/audit.md` the
guarantees.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otelhooks.audit.hcs_client import Clients
from otelhooks.audit.hcs_messages import fit
from otelhooks.audit.hcs_outbox import Outbox
from otelhooks.audit.hcs_parts import NAME, REFUSAL, parts_of, returns_bytes
from otelhooks.audit.hcs_sender import Sender
from otelhooks.audit.hcs_topic import Topic
from otelhooks.audit.trail import Audit
from otelhooks.errors import ConfigError
from otelhooks.hooks.base import Hook
from otelhooks.hooks.compat.tool_bound import AbstractHook
from otelhooks.process import exits, forks
from otelhooks.process.folders import user_folder
from otelhooks.records import semconv
from otelhooks.records.arguments import arguments_hash
from otelhooks.telemetry.masking import Redactor

if TYPE_CHECKING:
    from otelhooks.audit.ticket import Ticket
    from otelhooks.hooks.recorders import Receipt

logger: logging.Logger = logging.getLogger("otelhooks.audit")

LOOK_S = 1.0
"""Seconds between two measurements of the spool."""
_SEGMENT_BYTES = 4 * 1024 * 1024
_REFUSED = (
    semconv.ENFORCEMENT_BLOCKED,
    semconv.ENFORCEMENT_REJECTED,
    semconv.ENFORCEMENT_EXPIRED,
)
_MASKED = ("arguments", "reason", "error")


class HcsAuditTrailHook(AbstractHook):
    """Record the calls of some tools on a topic of the Hedera Consensus Service.

    Every verdict about them is recorded before the call continues, including denied calls, and
    every failed call once more when it has failed. A record is on disk before the call continues,
    and on the topic some seconds later; at least once, the same record always with the same
    ``hash``. If the topic cannot be reached or refuses, this is logged once for each cause and
    never fails a tool; records wait in the spool, even across the end of the process.

    Everyone can read a public topic forever: arguments are masked, whatever ``redact`` is.

    Args:
        relevant_tools: Exact names of tools; ``"*"`` among them means all, an empty list none.
        hcs_topic_id: The existing topic, `shard.realm.number`.
        logging_client: An SDK ``Client`` with an operator, who pays and signs, or a function that
            returns one, which a forked process calls again. None: the tool call's own client, in
            the Hedera agent kit, or else the one that ``OPERATOR_ID``, ``OPERATOR_KEY`` and
            ``NETWORK`` define.
        submit_key: The topic's submit key, an SDK ``PrivateKey`` or its DER text in hex, if it is
            not the operator's. A raw key without DER is read as Ed25519.
        executed_only: Record only calls that ran without an error, once they have run, like the
            hook of the same name in the kit.
        required: Deny a call whose verdict has not reached the topic after `timeout_s`, or cannot.
        timeout_s: Seconds; the network takes three to five to agree on a message.
        arguments: Whether masked arguments are recorded, or only their hash.
        spool: Folder of this topic's waiting records; None for one in the user's data folder.
            Processes may share it, but not with an `Audit`.
        max_spool_bytes: Most bytes that may wait there; beyond it, records are dropped and counted.
        max_chunks: Most transactions of 1024 bytes that one record may take. Larger arguments are
            left out.
        in_flight: Number of records that are sent at once.
        custom_fee_limits: SDK ``CustomFeeLimit`` objects; without any, all custom fees of a topic
            are paid.

    Raises:
        ConfigError: hiero-sdk-python is not installed, topic or key cannot be read, or the spool
            cannot be written.
        TypeError: `relevant_tools` is not a list of names.
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
        self._arguments = arguments
        self._timeout_s = timeout_s
        self._max_bytes = max_spool_bytes
        self._max_chunks = max_chunks
        self._in_flight = in_flight
        self._redactor = Redactor()
        self._clients = Clients(logging_client)
        self._topic = Topic(hcs_topic_id, self._clients.get, submit_key, custom_fee_limits)
        self._trail = Audit(
            _folder(spool, hcs_topic_id), rotate_bytes=min(_SEGMENT_BYTES, max_spool_bytes // 8)
        )
        self._parts: tuple[Hook, ...] = parts_of(self)
        self._pid = os.getpid()
        self._begin()
        if self._clients.is_known:
            self.send()
        forks.in_child(self.start_anew_in_child, forks.Step.SENDERS)
        self._at_exit = forks.while_it_lives(self.close)
        exits.register(self._at_exit)

    def _begin(self) -> None:
        """Set the state that each process has for itself."""
        self._lock = threading.Lock()
        self._taken = 0  # records, including dropped ones
        self._is_given_away = False
        self._bytes = 0
        self._looked_at = float("-inf")
        self._outbox = Outbox(self._trail.folder)
        self._sender = Sender(self._outbox, self._topic, self.hcs_topic_id, self._in_flight)

    def parts(self) -> Iterator[Hook]:
        """Return the parts: some refuse a mode that cannot be recorded, one records."""
        return iter(self._parts)

    async def pre_tool_execution_hook(self, context: Any, params: Any, method: str) -> None:
        """Refuse a mode that returns bytes, for callers that run hooks by hand, as the kit does.

        Raises:
            RuntimeError: The tool is in that mode.
        """
        if self.wants(method, None, ()):
            self.offer(getattr(params, "client", None))
            if returns_bytes(context):
                raise RuntimeError(REFUSAL)

    async def post_secondary_action_hook(self, context: Any, params: Any, method: str) -> None:
        """Record a call that ran, also for such callers: without a verdict, and no failed calls."""
        if self.wants(method, None, ()):
            self._put(lambda: _executed(method, params))
            self.send()

    def wants(self, tool: str, server: str | None, canonical: Iterable[str]) -> bool:
        """Return whether calls of a tool are recorded."""
        return not {"*", tool, f"{server}/{tool}", *canonical}.isdisjoint(self.relevant_tools)

    @property
    def sent(self) -> int:
        """Records that this process has put on the topic, including those of earlier processes."""
        return self._outbox.records_sent

    @property
    def failed(self) -> int:
        """Failed attempts of this process to put a record on the topic."""
        return self._sender.failed

    @property
    def dropped(self) -> int:
        """Records of this process that could not be kept anywhere; the topic itself says so."""
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
        return self._trail.flush(timeout) and self._is_sent(deadline)

    def close(self, timeout: float | None = 5.0) -> bool:
        """Send what waits, and end; the exit of the interpreter does the same.

        The rest stays in the spool, for the next start.

        Args:
            timeout: Longest wait in seconds; None for no limit.

        Returns:
            Whether everything is on the topic.
        """
        exits.unregister(self._at_exit)
        deadline = None if timeout is None else time.monotonic() + timeout
        is_written = self._trail.close(timeout)
        is_sent = self._is_sent(deadline)
        if self._sender.end(_left(deadline)):
            self._outbox.close()
        return is_written and is_sent

    def _is_sent(self, deadline: float | None) -> bool:
        return self._sender.flush(_left(deadline)) if self._sender.is_running else not self.spooled

    def offer(self, client: Any) -> None:
        """Use the client of a tool call if none was given."""
        self._clients.offer(client)

    def write(self, record: Mapping[str, Any]) -> Receipt:
        """Put a record into the spool, without waiting.

        Args:
            record: As passed to `otelhooks.hooks.recorders.Recorder.write`.

        Returns:
            The receipt; it waits for the disk, and if required for the topic.
        """
        return self._put(lambda: record)

    def _put(self, record: Callable[[], Mapping[str, Any]]) -> Receipt:
        with self._lock:
            self._taken += 1
        try:
            told = self._told(record())
        except Exception as error:  # an unreadable value must not fail its call
            self._trail.drop(f"it cannot be read: {type(error).__name__}")
            return _Receipt(lambda: False)
        if self._is_full():
            self._trail.drop(f"the spool `{self._trail.folder}` is full")
            return _Receipt(lambda: False)
        ticket = self._trail.write(told)
        # A call that is refused anyway, or is over, does not wait for the network.
        is_awaited = told.get("enforcement") not in _REFUSED and "outcome" not in told
        return _Receipt(lambda: self._wait(ticket, self.required and is_awaited))

    def _wait(self, ticket: Ticket, is_awaited: bool) -> bool:
        is_kept = ticket.wait()
        self.send()
        if is_kept and is_awaited:
            return self._sender.wait_for(ticket.seq, self._timeout_s)
        return is_kept

    def _told(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of a record that is sent: masked, and not too large."""
        told = dict(record)
        if not self._arguments:
            told.pop("arguments", None)
        for name in _MASKED:
            if name in told:
                told[name] = self._redactor.mask(told[name])
        return fit(told, self._max_chunks)

    def _is_full(self) -> bool:
        """Return whether too much waits in the spool; measured now and then."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at > LOOK_S:
                self._looked_at = now
                self._bytes = _size_of(self._trail.folder)
            return self._bytes > self._max_bytes

    def send(self) -> None:
        """Start sending what is on disk; a fork without a client leaves it to its parent."""
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

    def start_anew_in_child(self) -> None:
        """Give up what a forked child inherited: the parent sends what the parent wrote."""
        self._outbox.close()
        self._clients.start_anew_in_child()
        self._begin()


class _Receipt:
    def __init__(self, wait: Callable[[], bool]) -> None:
        self.wait: Callable[[], bool] = wait


def _executed(method: str, params: Any) -> dict[str, Any]:
    """Return the record of a call that ran, from what the kit gives its hooks."""
    given: Any = params.normalized_params
    arguments: Any = given.model_dump(mode="json") if hasattr(given, "model_dump") else given
    return {
        "tool_name": method,
        "arguments": arguments,
        "arguments_hash": arguments_hash(arguments),
        "outcome": "ok",
    }


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
    """Return the folder for a topic's waiting records.

    Raises:
        ConfigError: It is a file, or the user has no home folder.
    """
    if given is None:
        return user_folder("data", "`spool`") / "hcs" / topic_id
    if Path(given).suffix == ".jsonl":
        raise ConfigError(f"`spool` is a file name: `{given}`", hint="give a folder")
    return Path(given)


def _size_of(folder: Path) -> int:
    try:
        return sum(entry.stat().st_size for entry in os.scandir(folder))
    except OSError:  # one was just sent and deleted; a failing disk is reported elsewhere
        return 0


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
