"""A topic of the Hedera Consensus Service, reached through hiero-sdk-python, which blocks.

A message that needs several transactions is split into chunks here, not by the SDK: the transaction
id of each chunk is written down before it is tried. The network accepts an id only once, within its
120 s, so an attempt with an unknown outcome is repeated under the same id as long as it is valid.

Source: hiero-sdk-python 0.2 and 0.3; HAPI `consensus_submit_message.proto`.
"""

from __future__ import annotations

import importlib
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from otelhooks.audit.hcs_messages import chunks_of
from otelhooks.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VALID_S = 120
"""Seconds for which the network accepts a transaction after its valid start."""
_EARLIER_S = 4
"""Seconds by which transactions start in the past: clocks of nodes differ, and ids must too."""
_INSTALL = "install it with `pip install otelhooks[hedera]`"
_RECEIPT_TRIES = 3
_NODES = 3
"""Most nodes that a transaction is sent to, one after the other."""
_PASSING = frozenset(
    "BUSY PLATFORM_NOT_ACTIVE PLATFORM_TRANSACTION_NOT_CREATED TRANSACTION_EXPIRED UNKNOWN"
    " RECEIPT_NOT_FOUND RECORD_NOT_FOUND INVALID_NODE_ACCOUNT THROTTLED_AT_CONSENSUS"
    " DUPLICATE_TRANSACTION OK".split()
)
_KEYS = "give the topic's submit key as `submit_key`, and the operator's own private key"
_MONEY = "put HBAR into the operator's account"
_CLOCK = "set this machine's clock"
_HINTS = {
    "INVALID_TOPIC_ID": "make the topic first, or correct `hcs_topic_id`; a topic belongs to one"
    " network: is it the client's?",
    "TOPIC_EXPIRED": "renew the topic, or give another `hcs_topic_id`",
    "UNAUTHORIZED": _KEYS,
    "INVALID_SIGNATURE": _KEYS,
    "INVALID_PAYER_SIGNATURE": _KEYS,
    "PAYER_ACCOUNT_NOT_FOUND": "correct the operator's account id; is it one of this network?",
    "INSUFFICIENT_PAYER_BALANCE": _MONEY,
    "INSUFFICIENT_ACCOUNT_BALANCE": _MONEY,
    "INVALID_TRANSACTION_START": _CLOCK,
    "TRANSACTION_EXPIRED": _CLOCK,
}
_HINT = "look the status up in the documentation of the Hedera Consensus Service"


@dataclass(eq=False)
class Unsent(Exception):
    """A message that is not on its topic, as far as is known."""

    problem: str
    """What is wrong, lower-case, without a final period."""
    hint: str = field(default="", kw_only=True)
    is_passing: bool = field(kw_only=True)
    """Whether it is temporary."""


class Attempt(NamedTuple):
    """The last attempt to send a record, whose outcome may be unknown."""

    chunk: int
    """Number of the chunk, from 1; those before it were sent."""
    transaction: str
    """Transaction id of the attempt, `payer@seconds.nanoseconds`."""
    first: str
    """Transaction id of the first chunk, which identifies the message."""


class Topic:
    """Submits messages. Thread-safe.

    Args:
        topic_id: As given to `HcsAuditTrailHook`, like `submit_key` and `custom_fee_limits`.
        client_of: Returns the client to send with, an SDK `Client` with an operator.

    Raises:
        ConfigError: The SDK is not installed, or topic or key cannot be read.
    """

    def __init__(
        self,
        topic_id: str,
        client_of: Callable[[], Any],
        submit_key: Any = None,
        custom_fee_limits: Iterable[Any] = (),
    ) -> None:
        self._sdk = _sdk()
        self._errors: Any = importlib.import_module("hiero_sdk_python.exceptions")
        try:
            self._topic_id = self._sdk.TopicId.from_string(topic_id)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"`{topic_id}` is not a topic id",
                hint="give it as `shard.realm.number`: `0.0.12345`",
            ) from error
        try:
            is_text = isinstance(submit_key, str)
            key_of = self._sdk.PrivateKey.from_string
            self._submit_key = key_of(submit_key) if is_text else submit_key
        except ValueError:  # its text contains the key
            raise ConfigError(
                "`submit_key` cannot be read", hint="give a PrivateKey, or its DER text in hex"
            ) from None
        self._client_of = client_of
        self._fee_limits = list(custom_fee_limits)
        self._chunk_class = _chunk_class(self._sdk)

    def submit(self, message: bytes, last: Attempt | None, note: Callable[[Attempt], None]) -> None:
        """Put a message on the topic, and wait until the network has agreed on it.

        Args:
            message: ASCII.
            last: The last attempt, in this process or another, if there was one.
            note: Called before each attempt.

        Raises:
            Unsent: It is not on the topic, or not known to be.
        """
        try:
            client, chunks = self._client_of(), chunks_of(message)
            for number in range(last.chunk if last else 1, len(chunks) + 1):
                attempt = last if last and last.chunk == number else None
                outcome = self._outcome(client, attempt.transaction) if attempt else ""
                if outcome == "SUCCESS":
                    continue
                if attempt is None or outcome or _is_expired(attempt.transaction):
                    transaction = _new_transaction_id(client)
                    first = last.first if last and number > 1 else transaction
                    attempt = Attempt(number, transaction, first)
                    note(attempt)
                last = attempt
                status = self._execute(client, chunks, attempt)
                if status != "SUCCESS":
                    raise _unsent(status)
        except Unsent:
            raise
        except Exception as error:
            raise self._read(error) from error

    def _execute(self, client: Any, chunks: list[bytes], attempt: Attempt) -> str:
        """Send one chunk; return the status in its receipt."""
        number, transaction, first = attempt
        id_of = self._sdk.TransactionId.from_string
        chunk = self._chunk_class()
        chunk.set_topic_id(self._topic_id)
        chunk.set_message(chunks[number - 1].decode("ascii"))
        if len(chunks) > 1:
            chunk.place = id_of(first), len(chunks), number
        if self._fee_limits:
            chunk.set_custom_fee_limits(self._fee_limits)
        chunk.set_transaction_id(id_of(transaction))
        chunk.set_node_account_ids(_some(client.get_node_account_ids()))
        chunk.freeze_with(client)
        if self._submit_key is not None:
            chunk.sign(self._submit_key)
        try:
            return self._name(chunk.execute(client).status)
        except self._errors.PrecheckError as error:
            if self._name(error.status) != "DUPLICATE_TRANSACTION":
                raise
            # An earlier attempt did arrive, although its answer did not.
            return self._outcome(client, transaction) or "UNKNOWN"

    def _outcome(self, client: Any, transaction: str) -> str:
        """Return the status of a transaction's receipt; empty if the network has none (any more).

        The network keeps receipts for three minutes.
        """
        query = self._sdk.TransactionGetReceiptQuery()
        query.set_transaction_id(self._sdk.TransactionId.from_string(transaction))
        query.set_node_account_ids(_some(client.get_node_account_ids()))
        query.set_max_attempts(_RECEIPT_TRIES)
        try:
            return self._name(query.execute(client).status)
        except self._errors.ReceiptStatusError as error:
            return self._name(error.status)
        except (self._errors.MaxAttemptsError, self._errors.PrecheckError):
            return ""

    def _name(self, status: Any) -> str:
        return str(self._sdk.ResponseCode(status).name)

    def _read(self, error: Exception) -> Unsent:
        """Return an exception of the SDK as `Unsent`."""
        # After "exceeded maximum attempts" comes the last answer, or that there was none.
        cause: Any = getattr(error, "last_error", None) or error
        status = getattr(cause, "status", None)
        if status is not None:
            return _unsent(self._name(status))
        code = getattr(cause, "code", None)
        if callable(code):
            return Unsent(f"no node answers: {getattr(code(), 'name', code())}", is_passing=True)
        # The SDK has no exception class of its own for this.
        is_passing = isinstance(error, (self._errors.MaxAttemptsError, RuntimeError, OSError))
        return Unsent(type(cause).__name__, is_passing=is_passing)


def _unsent(status: str) -> Unsent:
    is_passing = status in _PASSING
    hint = _HINTS.get(status, "" if is_passing else _HINT)
    return Unsent(status, hint=hint, is_passing=is_passing)


def _sdk() -> Any:
    try:
        sdk: Any = importlib.import_module("hiero_sdk_python")
    except ImportError as error:
        raise ConfigError(
            "an audit trail on a Hedera topic needs hiero-sdk-python, which cannot be imported:"
            f" {error}",
            hint=_INSTALL,
        ) from error
    if not hasattr(sdk.TopicMessageSubmitTransaction, "set_node_account_ids"):
        raise ConfigError(
            "hiero-sdk-python is too old for an audit trail on a topic: 0.2 is needed",
            hint=_INSTALL,
        )
    return sdk


def _chunk_class(sdk: Any) -> Any:
    """Return the SDK's transaction class, for one chunk of a message of several.

    Its `place` is the transaction id of the first chunk, the number of chunks, and its number from
    1.
    """
    submission: Any = sdk.TopicMessageSubmitTransaction

    def build_transaction_body(self: Any) -> Any:
        body = submission.build_transaction_body(self)
        if self.place is not None:
            first, total, number = self.place
            info = body.consensusSubmitMessage.chunkInfo
            info.total, info.number = total, number
            named = info.initialTransactionID
            named.transactionValidStart.CopyFrom(first.valid_start)
            named.accountID.shardNum = first.account_id.shard
            named.accountID.realmNum = first.account_id.realm
            named.accountID.accountNum = first.account_id.num
        return body

    members = {"place": None, "build_transaction_body": build_transaction_body}
    return type("Chunk", (submission,), members)


def _new_transaction_id(client: Any) -> str:
    """Return a unique id: a moment of the last seconds, to the nanosecond."""
    start_ns = time.time_ns() - secrets.randbelow(_EARLIER_S * 10**9) - 10**9
    seconds, nanoseconds = divmod(start_ns, 10**9)
    return f"{client.operator_account_id}@{seconds}.{nanoseconds}"


def _is_expired(transaction: str) -> bool:
    """Return whether the network no longer accepts a transaction."""
    start_s = int(transaction.partition("@")[2].partition(".")[0])
    return time.time() > start_s + VALID_S


def _some(nodes: list[Any]) -> list[Any]:
    """Return a few random nodes, so that none does all the work and none can stop it."""
    return secrets.SystemRandom().sample(nodes, min(_NODES, len(nodes)))
