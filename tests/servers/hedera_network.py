"""Consensus nodes on loopback: real gRPC servers that check what they are sent, and one ledger.

They speak the services that hiero-sdk-python ships, and answer as they are told to. Signatures are
checked with `cryptography`, not with the SDK.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
from Crypto.Hash import keccak
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils
from hiero_sdk_python import AccountId, Client, Network, PrivateKey, ResponseCode
from hiero_sdk_python.hapi.services import (
    consensus_service_pb2_grpc,
    crypto_service_pb2_grpc,
    query_pb2,
    response_pb2,
    transaction_contents_pb2,
    transaction_pb2,
    transaction_response_pb2,
)
from hiero_sdk_python.node import _Node

OPERATOR = "0.0.1001"
TOPIC = "0.0.5005"
PASSED = 10.0
"""Seconds after which a test that waits has failed."""


@dataclass
class Submission:
    """A transaction that the ledger has agreed on."""

    id: str
    payer: str
    node: str
    topic: str
    message: bytes
    first: str
    """Transaction id of the first chunk; empty for a message of one."""
    number: int
    total: int


@dataclass
class Topic:
    """A topic, and the public key that submissions to it need, raw."""

    submit_key: bytes | None = None
    messages: list[Submission] = field(default_factory=list)


class Ledger:
    """What the nodes agree on.

    Attributes:
        script: What the next submissions come to, in order; then they succeed. ``BUSY`` and other
            names of statuses: the node's answer. ``NEVER``: no answer, and nothing happened.
            ``LOST``: no answer, but it happened. ``LATE``: it happens, and the answer comes, when
            `release` is called. ``receipt NAME``: accepted, and refused by consensus.
    """

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}
        self.topics: dict[str, Topic] = {}
        self.script: deque[str] = deque()
        self.tries: list[str] = []
        self.receipts: dict[str, int] = {}
        self.changed = threading.Condition()
        self._released = threading.Event()
        self._closed = threading.Event()

    def release(self) -> None:
        self._released.set()

    def close(self) -> None:
        self._closed.set()
        self._released.set()

    def submit(self, node: str, request: Any) -> str:
        """Judge a transaction as a node does; return its answer."""
        signed = transaction_contents_pb2.SignedTransaction.FromString(
            request.signedTransactionBytes
        )
        body = transaction_pb2.TransactionBody.FromString(signed.bodyBytes)
        signers = {pair.pubKeyPrefix for pair in signed.sigMap.sigPair if _is_valid(pair, signed)}
        with self.changed:
            act = self.script.popleft() if self.script else "OK"
            self.tries.append(act)
            self.changed.notify_all()
        if act == "NEVER":
            self._closed.wait()
            return "PLATFORM_NOT_ACTIVE"
        if act == "LATE":
            self._released.wait()
        if act not in ("OK", "LOST", "LATE") and not act.startswith("receipt "):
            return act
        with self.changed:
            answer = self._judge(node, body, signers, act.removeprefix("receipt "))
            self.changed.notify_all()
        if act == "LOST":
            self._closed.wait()
        return answer

    def _judge(self, node: str, body: Any, signers: set[bytes], act: str) -> str:
        id = _name_of(body.transactionID)
        payer = _account(body.transactionID.accountID)
        start = body.transactionID.transactionValidStart.seconds
        if _account(body.nodeAccountID) != node:
            return "INVALID_NODE_ACCOUNT"
        if not start <= time.time() <= start + body.transactionValidDuration.seconds:
            return "TRANSACTION_EXPIRED"
        if id in self.receipts:
            return "DUPLICATE_TRANSACTION"
        if payer not in self.keys:
            return "PAYER_ACCOUNT_NOT_FOUND"
        if self.keys[payer] not in signers:
            return "INVALID_SIGNATURE"
        sent = body.consensusSubmitMessage
        name = f"{sent.topicID.shardNum}.{sent.topicID.realmNum}.{sent.topicID.topicNum}"
        if len(sent.message) > 1024:
            return "MESSAGE_SIZE_TOO_LARGE"
        self.receipts[id] = self._receipt(id, payer, node, name, sent, signers, act)
        return "OK"

    def _receipt(
        self, id: str, payer: str, node: str, name: str, sent: Any, signers: set[bytes], act: str
    ) -> int:
        if act not in ("OK", "LOST", "LATE"):
            return int(getattr(ResponseCode, act))
        topic = self.topics.get(name)
        if topic is None:
            return int(ResponseCode.INVALID_TOPIC_ID)
        if topic.submit_key is not None and topic.submit_key not in signers:
            return int(ResponseCode.INVALID_SIGNATURE)
        first, number, total = "", 1, 1
        if sent.HasField("chunkInfo"):
            info = sent.chunkInfo
            first = _name_of(info.initialTransactionID)
            number, total = info.number, info.total
            if (number == 1) != (first == id) or _account(info.initialTransactionID.accountID) != (
                payer
            ):
                return int(ResponseCode.INVALID_CHUNK_TRANSACTION_ID)
        made = Submission(id, payer, node, name, sent.message, first, number, total)
        topic.messages.append(made)
        return int(ResponseCode.SUCCESS)

    def wait_for(self, is_true: Any) -> None:
        """Wait until something holds of the ledger."""
        with self.changed:
            assert self.changed.wait_for(is_true, PASSED), "it did not come to that"

    def messages(self, topic: str = TOPIC) -> list[bytes]:
        """Put the chunks of each message together, as readers of a topic do."""
        whole: dict[str, dict[int, Submission]] = {}
        with self.changed:
            submissions = list(self.topics[topic].messages)
        for sent in submissions:
            whole.setdefault(sent.first or sent.id, {})[sent.number] = sent
        return [
            b"".join(chunks[number].message for number in sorted(chunks))
            for chunks in whole.values()
            if len(chunks) == next(iter(chunks.values())).total
        ]


class _Consensus(consensus_service_pb2_grpc.ConsensusServiceServicer):
    def __init__(self, ledger: Ledger, node: str) -> None:
        self._ledger, self._node = ledger, node

    def submitMessage(self, request: Any, context: Any) -> Any:
        answer = self._ledger.submit(self._node, request)
        return transaction_response_pb2.TransactionResponse(
            nodeTransactionPrecheckCode=int(getattr(ResponseCode, answer))
        )


class _Crypto(crypto_service_pb2_grpc.CryptoServiceServicer):
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def getTransactionReceipts(self, request: Any, context: Any) -> Any:
        query = query_pb2.Query.FromString(request.SerializeToString()).transactionGetReceipt
        status = self._ledger.receipts.get(_name_of(query.transactionID))
        response = response_pb2.Response()
        response.transactionGetReceipt.header.nodeTransactionPrecheckCode = int(
            ResponseCode.OK if status is not None else ResponseCode.RECEIPT_NOT_FOUND
        )
        if status is not None:
            response.transactionGetReceipt.receipt.status = status
        return response


class LocalNetwork:
    """Three nodes, an operator, and one topic without a submit key."""

    def __init__(self, operator_key: Any = None) -> None:
        self.ledger = Ledger()
        self.operator_key = operator_key or PrivateKey.generate_ed25519()
        self.ledger.keys[OPERATOR] = self.operator_key.public_key().to_bytes_raw()
        self.ledger.topics[TOPIC] = Topic()
        self.addresses: dict[str, str] = {}
        self._servers: list[grpc.Server] = []
        for number in (3, 4, 5):
            server = grpc.server(ThreadPoolExecutor(16))
            node = f"0.0.{number}"
            add = consensus_service_pb2_grpc.add_ConsensusServiceServicer_to_server
            add(_Consensus(self.ledger, node), server)
            crypto_service_pb2_grpc.add_CryptoServiceServicer_to_server(
                _Crypto(self.ledger), server
            )
            self.addresses[node] = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            server.start()
            self._servers.append(server)

    def client(self, *, operator: str = OPERATOR, key: Any = None) -> Any:
        """Return a client of this network that gives up on a node soon."""
        nodes = [
            _Node(AccountId.from_string(node), address, None)
            for node, address in self.addresses.items()
        ]
        client = Client(Network(network="solo", nodes=nodes))
        client.set_operator(AccountId.from_string(operator), key or self.operator_key)
        client.set_min_backoff(0.01)
        client.set_max_backoff(0.05)
        client.set_grpc_deadline(1)
        client.set_max_attempts(4)
        return client

    def stop(self) -> None:
        self.ledger.close()
        for server in self._servers:
            server.stop(0)


def _is_valid(pair: Any, signed: Any) -> bool:
    key = pair.pubKeyPrefix
    try:
        if pair.WhichOneof("signature") == "ed25519":
            ed25519.Ed25519PublicKey.from_public_bytes(key).verify(pair.ed25519, signed.bodyBytes)
        else:
            signature = pair.ECDSA_secp256k1
            half = len(signature) // 2
            r, s = (int.from_bytes(part, "big") for part in (signature[:half], signature[half:]))
            digest = keccak.new(digest_bits=256, data=signed.bodyBytes).digest()
            ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), key).verify(
                utils.encode_dss_signature(r, s),
                digest,
                ec.ECDSA(utils.Prehashed(hashes.SHA256())),
            )
    except InvalidSignature:
        return False
    return True


def _account(id: Any) -> str:
    return f"{id.shardNum}.{id.realmNum}.{id.accountNum}"


def _name_of(id: Any) -> str:
    start = id.transactionValidStart
    return f"{_account(id.accountID)}@{start.seconds}.{start.nanos}"
