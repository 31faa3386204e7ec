"""Audit records on a topic of the Hedera Consensus Service: real SDK, real gRPC, local nodes."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hiero_sdk_python", reason="there is no hiero-sdk-python here")

from hiero_sdk_python import PrivateKey

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.audit import HcsAuditTrailHook, check, hcs, hcs_sender, hcs_topic
from otelhooks.audit.chain import parse
from otelhooks.audit.hcs_client import Clients
from otelhooks.audit.hcs_messages import unwrap
from otelhooks.audit.hcs_topic import Attempt
from otelhooks.errors import ConfigError, Denied
from tests.servers.hedera_network import OPERATOR, PASSED, TOPIC, LocalNetwork, Topic

ROOT = Path(__file__).parents[2]


@pytest.fixture
def network() -> Iterator[LocalNetwork]:
    made = LocalNetwork()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hcs_sender, "PASSING", (0.01, 0.05))
    monkeypatch.setattr(hcs_sender, "LOOK_S", 0.05)


@pytest.fixture
def make(network: LocalNetwork, tmp_path: Path) -> Iterator[Callable[..., HcsAuditTrailHook]]:
    made: list[HcsAuditTrailHook] = []

    def hook(tools: Any = ("*",), topic: str = TOPIC, **settings: Any) -> HcsAuditTrailHook:
        settings.setdefault("logging_client", network.client())
        settings.setdefault("spool", tmp_path / "spool")
        made.append(HcsAuditTrailHook(tools, topic, **settings))
        return made[-1]

    yield hook
    network.ledger.close()
    for one in made:
        one.close(1.0)


@pytest.fixture
def instrument(tracer_provider: Any, meter_provider: Any, logger_provider: Any) -> Iterator[Any]:
    def start(**settings: Any) -> otelhooks.Handle:
        return otelhooks.instrument(
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            logger_provider=logger_provider,
            frameworks=(),
            **settings,
        )

    yield start
    otelhooks.uninstrument()


@otelhooks.tool
def send(to: str, password: str = "", note: str = "") -> str:
    return f"sent to {to}"


@otelhooks.tool
def fails() -> None:
    raise KeyError("no such account")


def records(network: LocalNetwork, topic: str = TOPIC) -> list[dict[str, Any]]:
    """Return the records on a topic, without those that the trail writes about itself."""
    found = [record for record in lines(network, topic) if "audit" not in record]
    return sorted(found, key=lambda record: record["seq"])


def lines(network: LocalNetwork, topic: str = TOPIC) -> list[dict[str, Any]]:
    parsed = []
    for data in network.ledger.messages(topic):
        message = unwrap(data)
        assert message is not None
        line = parse(message.line)
        assert line is not None
        assert line.is_intact
        parsed.append({**line.fields, "hash": line.hash})
    return parsed


def told(found: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(record.get(name) for name in names) for record in found]


# -- what is recorded -----------------------------------------------------------------------------


def test_an_allowed_call_is_on_the_topic_signed_by_the_operator(network, make, instrument):
    hook = make()
    instrument(policies=[policy.allow("send", id="mail")], hooks=[hook])
    with otelhooks.session("s-1"), otelhooks.turn("go"):
        assert send("ann", password="hunter2") == "sent to ann"
    assert hook.flush(PASSED)
    (record,) = records(network)
    assert record["decision"] == "allow"
    assert (record["tool_name"], record["rule_id"]) == ("send", "mail")
    assert record["arguments"]["password"] == "[MASKED]"
    assert len(record["arguments_hash"]) == 64
    assert (record["session_id"], record["turn"]) == ("s-1", 1)
    assert len(record["trace_id"]) == 32
    assert {one.payer for one in network.ledger.topics[TOPIC].messages} == {OPERATOR}


def test_secrets_are_masked_although_masking_is_off(network, make, instrument):
    hook = make()
    instrument(hooks=[hook], redact=False)
    send("ann", password="hunter2")
    assert hook.flush(PASSED)
    assert b"hunter2" not in b"".join(network.ledger.messages())


def test_arguments_can_be_left_out_and_their_hash_stays(network, make, instrument):
    hook = make(arguments=False)
    instrument(hooks=[hook])
    send("ann")
    assert hook.flush(PASSED)
    (record,) = records(network)
    assert "arguments" not in record
    assert len(record["arguments_hash"]) == 64


def test_denied_and_failed_calls_are_on_the_topic(network, make, instrument):
    hook = make()
    instrument(policies=[policy.deny("send", id="no-mail")], hooks=[hook])
    with pytest.raises(Denied):
        send("ann")
    with pytest.raises(KeyError):
        fails()
    assert hook.flush(PASSED)
    assert told(records(network), "tool_name", "decision", "rule_id", "outcome") == [
        ("send", "deny", "no-mail", None),
        ("fails", "allow", None, None),
        ("fails", "allow", None, "failed"),
    ]


def test_executed_only_records_what_ran_and_nothing_else(network, make, instrument):
    hook = make(executed_only=True)
    instrument(policies=[policy.deny("send", when=lambda args: args["to"] == "eve")], hooks=[hook])
    with pytest.raises(Denied):
        send("eve")
    with pytest.raises(KeyError):
        fails()
    send("ann")
    assert hook.flush(PASSED)
    assert told(records(network), "tool_name", "outcome") == [("send", "ok")]
    assert records(network)[0]["arguments"]["to"] == "ann"


def test_only_the_relevant_tools_are_recorded(network, make, instrument):
    hook = make(["send"])
    instrument(hooks=[hook, make([], spool=None)])
    send("ann")
    with pytest.raises(KeyError):
        fails()
    assert hook.flush(PASSED)
    assert told(records(network), "tool_name") == [("send",)]


@pytest.mark.parametrize("tools", ["send", "*", b"send"])
def test_tools_that_are_given_as_a_text_are_refused(make, tools):
    with pytest.raises(TypeError, match=r"`relevant_tools` is a text, not a list of names"):
        make(tools)


def test_the_parameters_of_the_kit_are_understood(network, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    hook = HcsAuditTrailHook(
        relevant_tools=["send"], hcs_topic_id=TOPIC, logging_client=network.client()
    )
    assert hook.close(PASSED)
    assert (tmp_path / "otelhooks" / "hcs" / TOPIC).is_dir()


def test_a_runner_alone_records_too(network, make):
    hook = make()
    runner = hooks.HookRunner([policy.enforce([policy.deny("danger", id="no")]), hook])

    async def main() -> None:
        turn = hooks.TurnContext(runner.session_context)
        call = types.ToolCall(name="danger", args={"password": "hunter2"})
        await runner.dispatch_pre_tool_call(turn, call)
        call = types.ToolCall(name="safe", args={})
        _, _, operation = await runner.dispatch_pre_tool_call(turn, call)
        await runner.dispatch_on_tool_error(operation, KeyError("gone"))

    asyncio.run(main())
    assert hook.flush(PASSED)
    found = records(network)
    assert told(found, "tool_name", "decision", "outcome") == [
        ("danger", "deny", None),
        ("safe", "allow", None),
        ("safe", None, "failed"),
    ]
    assert found[0]["arguments"] == {"password": "[MASKED]"}


# -- signatures and chunks ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_operator_and_submit_key_sign(kind, tmp_path):
    operator, submit = (getattr(PrivateKey, f"generate_{kind}")() for _ in range(2))
    network = LocalNetwork(operator)
    network.ledger.topics[TOPIC] = Topic(submit.public_key().to_bytes_raw())
    hook = HcsAuditTrailHook(["*"], TOPIC, network.client(), submit_key=submit, spool=tmp_path)
    try:
        hook.write({"tool_name": "send", "decision": "allow"})
        assert hook.flush(PASSED)
        assert len(records(network)) == 1
    finally:
        network.stop()
        hook.close(1.0)


def test_a_large_record_goes_in_chunks_that_name_their_message(network, make, instrument):
    hook = make()
    instrument(hooks=[hook])
    send("ann", note="x" * 3000)
    assert hook.flush(PASSED)
    (record,) = records(network)
    assert record["arguments"]["note"] == "x" * 3000
    chunks = [one for one in network.ledger.topics[TOPIC].messages if one.total > 1]
    assert [one.number for one in chunks] == list(range(1, chunks[0].total + 1))
    assert {one.first for one in chunks} == {chunks[0].id}
    assert len({one.id for one in chunks}) == len(chunks)
    assert all(len(one.message) <= 1024 for one in chunks)


def test_arguments_that_are_too_large_are_left_out(network, make, instrument):
    hook = make(max_chunks=2)
    instrument(hooks=[hook])
    send("ann", note="x" * 5000)
    assert hook.flush(PASSED)
    (record,) = records(network)
    assert record["arguments_left_out"] > 5000
    assert len(record["arguments_hash"]) == 64
    assert max(one.total for one in network.ledger.topics[TOPIC].messages) <= 2


# -- nodes that are slow, busy, silent ------------------------------------------------------------


@pytest.mark.parametrize(
    "answers",
    [
        ["BUSY"],
        ["BUSY"] * 9,
        ["PLATFORM_NOT_ACTIVE", "BUSY"],
        ["NEVER"],
        ["LOST"],
        ["LOST", "BUSY"],
        ["NEVER", "LOST"],
    ],
)
def test_a_record_is_on_the_topic_once_whatever_nodes_answer(network, make, answers):
    network.ledger.script.extend(answers)
    hook = make(in_flight=1)
    hook.write({"tool_name": "send"})
    assert hook.flush(2 * PASSED)
    assert len(records(network)) == 1
    assert len(network.ledger.messages()) == 2  # with the opening record of the trail
    assert len(network.ledger.tries) > len(answers)


def test_a_call_does_not_wait_for_the_network(network, make, instrument):
    network.ledger.script.extend(["LATE"] * 2)
    hook = make()
    instrument(hooks=[hook])
    assert send("ann") == "sent to ann"
    network.ledger.wait_for(lambda: network.ledger.tries)
    assert records(network) == []
    assert hook.spooled == 1
    network.ledger.release()
    assert hook.flush(PASSED)
    assert hook.spooled == 0
    assert hook.sent == 1


def test_an_event_loop_goes_on_while_a_node_is_silent(network, make, instrument):
    network.ledger.script.extend(["LATE"] * 2)
    hook = make()
    instrument(hooks=[hook])
    threads = []

    @otelhooks.tool
    async def act() -> str:
        threads.append(threading.current_thread())
        return "done"

    assert asyncio.run(act()) == "done"
    assert threads == [threading.main_thread()]
    network.ledger.release()
    assert hook.flush(PASSED)


def test_many_records_arrive_once_each_and_make_one_chain(network, make):
    network.ledger.script.extend(["BUSY", "OK", "OK"] * 20)
    hook = make()
    for number in range(40):
        hook.write({"tool_name": f"tool {number}"})
    assert hook.close(2 * PASSED)
    found = sorted(lines(network), key=lambda record: record["seq"])
    assert [record["seq"] for record in found] == list(range(42))
    assert all(b["prev"] == a["hash"] for a, b in itertools.pairwise(found))
    assert found[-1]["audit"] == "closed"


# -- topics that refuse ---------------------------------------------------------------------------


def errors(caplog: Any) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]


def test_a_topic_that_is_not_there_is_told_once_and_fails_no_tool(
    network, make, instrument, caplog, metrics_reader
):
    hook = make(topic="0.0.404")
    instrument(hooks=[hook])
    assert send("ann") == "sent to ann"
    assert not hook.flush(PASSED)
    assert send("bob") == "sent to bob"
    (message,) = errors(caplog)
    assert "topic `0.0.404`: INVALID_TOPIC_ID" in message
    assert "hint: make the topic first, or correct `hcs_topic_id`" in message
    assert hook.spooled == 2
    assert hook.failed >= 1
    data = metrics_reader.get_metrics_data()
    found = {m.name: m.data for s in data.resource_metrics[0].scope_metrics for m in s.metrics}
    assert found["otelhooks.audit.spooled"].data_points[0].value == 2


def test_a_missing_submit_key_is_told_once_and_the_record_is_kept(network, make, caplog):
    submit = PrivateKey.generate_ed25519()
    network.ledger.topics[TOPIC] = Topic(submit.public_key().to_bytes_raw())
    first = make()
    first.write({"tool_name": "send"})
    assert not first.flush(PASSED)
    (message,) = errors(caplog)
    assert "INVALID_SIGNATURE" in message
    assert "give the topic's submit key as `submit_key`" in message
    assert not first.close(1.0)
    assert records(network) == []

    second = make(submit_key=submit.to_string_der())
    assert second.flush(PASSED)
    assert told(records(network), "tool_name") == [("send",)]


def test_an_operator_whose_key_is_another_is_told(network, make, caplog):
    hook = make(logging_client=network.client(key=PrivateKey.generate_ed25519()))
    hook.write({"tool_name": "send"})
    assert not hook.flush(PASSED)
    (message,) = errors(caplog)
    assert "INVALID_SIGNATURE" in message


def test_what_consensus_refuses_is_sent_again_under_another_id(network, make, monkeypatch):
    monkeypatch.setattr(hcs_sender, "REFUSED", (0.01, 0.05))
    network.ledger.script.append("receipt INSUFFICIENT_PAYER_BALANCE")
    hook = make(in_flight=1)
    hook.write({"tool_name": "send"})
    network.ledger.wait_for(lambda: len(network.ledger.messages()) == 2)
    assert hook.flush(PASSED)
    assert len(network.ledger.receipts) == 3
    assert len(records(network)) == 1


def test_without_a_client_the_variables_are_named(make, caplog, monkeypatch):
    for name in ("OPERATOR_ID", "OPERATOR_KEY", "NETWORK"):
        monkeypatch.delenv(name, raising=False)
    hook = make(logging_client=None)
    assert errors(caplog) == []
    assert hook.write({"tool_name": "send"}).wait()
    assert not hook.flush(PASSED)
    (message,) = errors(caplog)
    assert "give `logging_client`, or set OPERATOR_ID, OPERATOR_KEY and NETWORK" in message


def test_the_operator_may_come_from_the_environment(monkeypatch):
    key = PrivateKey.generate_ed25519()
    monkeypatch.setenv("OPERATOR_ID", "0.0.77")
    monkeypatch.setenv("OPERATOR_KEY", key.to_string_der())
    monkeypatch.setenv("NETWORK", "solo")
    clients = Clients(None)
    assert clients.is_known
    client = clients.get()
    assert str(client.operator_account_id) == "0.0.77"
    assert client.network.network == "solo"
    assert clients.get() is client


def test_a_key_that_cannot_be_read_is_not_shown(make, monkeypatch):
    monkeypatch.setenv("OPERATOR_ID", "0.0.77")
    monkeypatch.setenv("OPERATOR_KEY", "not-a-key-but-secret")
    monkeypatch.setenv("NETWORK", "solo")
    with pytest.raises(hcs_topic.Unsent) as caught:
        Clients(None).get()
    assert "secret" not in f"{caught.value} {caught.value.hint}"
    with pytest.raises(ConfigError, match="`submit_key` cannot be read") as refused:
        make(submit_key="not-a-key-but-secret")
    assert "secret" not in str(refused.value)


def test_what_a_function_for_the_client_says_is_not_shown(make, caplog):
    def client() -> Any:
        raise ValueError("no key: hunter2")

    hook = make(logging_client=client)
    hook.write({"tool_name": "send"})
    assert not hook.flush(PASSED)
    (message,) = errors(caplog)
    assert "`logging_client` raised ValueError" in message
    assert "hunter2" not in caplog.text


def test_a_hook_with_nothing_to_send_has_one_thread(make):
    def running() -> int:
        return sum(thread.name == "otelhooks-hcs" for thread in threading.enumerate())

    before = running()
    hook = make()
    assert hook.flush(PASSED)
    assert running() - before == 1


@pytest.mark.parametrize("topic", ["", "topic", "0.0", "../../etc", None])
def test_what_is_not_a_topic_id_is_refused(make, topic):
    with pytest.raises(ConfigError, match="is not a topic id"):
        make(topic=topic)


def test_a_spool_that_cannot_be_used_is_refused(make, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        make(spool=tmp_path / "file")
    with pytest.raises(ConfigError, match="give a folder"):
        make(spool=tmp_path / "trail.jsonl")


# -- required -------------------------------------------------------------------------------------


def test_a_required_record_is_on_the_topic_before_the_tool_runs(network, make, instrument):
    seen = []

    @otelhooks.tool
    def act() -> None:
        seen.extend(told(records(network), "tool_name"))

    instrument(hooks=[make(required=True)])
    act()
    assert seen == [("act",)]


@pytest.mark.parametrize("answer", ["INVALID_TOPIC_ID", "receipt UNAUTHORIZED"])
def test_a_required_record_that_is_refused_denies(network, make, instrument, answer):
    ran = []

    @otelhooks.tool
    def act() -> None:
        ran.append("act")

    network.ledger.script.extend([answer] * 3)
    instrument(hooks=[make(required=True, timeout_s=PASSED)])
    with pytest.raises(Denied, match="could not be recorded"):
        act()
    assert ran == []


def test_a_required_record_that_is_late_denies(network, make, instrument):
    network.ledger.script.extend(["LATE"] * 8)
    instrument(hooks=[make(required=True, timeout_s=0.05)])
    with pytest.raises(Denied, match="could not be recorded"):
        send("ann")


def test_a_required_record_may_be_tried_twice_in_its_time(network, make, instrument):
    network.ledger.script.extend(["BUSY"] * 9)
    instrument(hooks=[make(required=True, timeout_s=PASSED)])
    assert send("ann") == "sent to ann"


def test_a_denied_call_does_not_wait_for_the_network(network, make, instrument):
    network.ledger.script.extend(["LATE"] * 8)
    instrument(policies=[policy.deny("send")], hooks=[make(required=True, timeout_s=3600.0)])
    with pytest.raises(Denied, match="Denied by policy"):
        send("ann")
    network.ledger.release()


@pytest.mark.parametrize("name", ["timeout_s", "max_spool_bytes", "max_chunks", "in_flight"])
def test_numbers_that_are_not_positive_are_refused(make, name):
    with pytest.raises(ValueError, match=f"`{name}` has to be more than 0"):
        make(**{name: 0})


def test_a_record_that_cannot_be_read_is_counted(make, caplog):
    class Broken(dict[str, Any]):
        def __iter__(self) -> Any:
            raise RuntimeError("no")

        keys = items = __iter__

    hook = make()
    assert not hook.write(Broken(tool_name="send")).wait()
    assert hook.dropped == 1
    assert "audit record not stored: it cannot be read" in caplog.text


def test_what_the_kit_hands_over_by_hand_never_fails_a_tool(network, make):
    hook = make()

    class Params:
        normalized_params = None

    asyncio.run(hook.post_secondary_action_hook(None, Params(), "send"))
    asyncio.run(hook.post_secondary_action_hook(None, object(), "send"))
    assert hook.flush(PASSED)
    assert hook.dropped + len(records(network)) == 2
    assert hook.spooled == 0


def test_required_after_the_call_is_refused(make):
    with pytest.raises(ValueError, match="exclude each other"):
        make(required=True, executed_only=True)


# -- the spool ------------------------------------------------------------------------------------


def test_a_full_spool_drops_records_counts_them_and_says_so_on_the_topic(
    network, make, caplog, monkeypatch
):
    monkeypatch.setattr(hcs, "LOOK_S", -1.0)
    network.ledger.script.extend(["LATE"] * 8)
    hook = make(max_spool_bytes=4000)
    kept = [hook.write({"tool_name": "send", "arguments": "x" * 500}).wait() for _ in range(20)]
    assert kept[0]
    assert not kept[-1]
    assert hook.dropped == kept.count(False)
    assert len([message for message in errors(caplog) if "is full" in message]) == 1
    network.ledger.release()
    assert hook.flush(PASSED)
    hook.write({"tool_name": "after"})
    assert hook.flush(PASSED)
    (lost,) = [record for record in lines(network) if record.get("audit") == "lost"]
    assert lost["count"] == hook.dropped


def test_nothing_is_left_in_the_spool_when_all_is_sent(make, tmp_path):
    hook = make()
    hook.write({"tool_name": "send"})
    assert hook.close(PASSED)
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_process_without_a_record_costs_no_message(network, make):
    assert make().close(PASSED)
    assert network.ledger.tries == []


def test_hooks_that_share_a_spool_send_each_record_once(network, make):
    pair = [make(), make()]
    for number in range(10):
        pair[number % 2].write({"tool_name": f"tool {number}"})
    for hook in pair:
        assert hook.close(PASSED)
    network.ledger.wait_for(lambda: len(network.ledger.messages()) == 14)
    assert sorted(told(records(network), "tool_name")) == sorted(
        (f"tool {number}",) for number in range(10)
    )


CHILD = """
import os, sys
from pathlib import Path
from hiero_sdk_python import AccountId, Client, Network, PrivateKey
from hiero_sdk_python.node import _Node
from otelhooks.audit import HcsAuditTrailHook, hcs_sender

hcs_sender.LOOK_S = 0.05
spool, key, *nodes = sys.argv[1:]

def client():
    made = [_Node(AccountId.from_string(i), a, None) for i, a in (n.split("=") for n in nodes)]
    client = Client(Network(network="solo", nodes=made))
    client.set_operator(AccountId.from_string("0.0.1001"), PrivateKey.from_string(key))
    return client
"""

FORK = """
hook = HcsAuditTrailHook(["*"], "0.0.5005", GIVEN, spool=spool)
pid = os.fork()
hook.write({"tool_name": "child" if pid == 0 else "parent"}).wait()
if pid == 0:
    ENDING
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert hook.close(10)
"""


def run(network: LocalNetwork, tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    nodes = [f"{node}={address}" for node, address in network.addresses.items()]
    key = network.operator_key.to_string_der()
    return subprocess.run(
        [sys.executable, "-c", CHILD + script, str(tmp_path / "spool"), key, *nodes],
        capture_output=True,
        text=True,
        timeout=25,
        cwd=ROOT,
        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
    )


def test_records_of_a_killed_process_are_sent_by_the_next(network, make, tmp_path):
    died = run(
        network,
        tmp_path,
        """
hook = HcsAuditTrailHook(["*"], "0.0.404", client, spool=spool)
for number in range(3):
    assert hook.write({"tool_name": f"tool {number}"}).wait()
os.kill(os.getpid(), 9)
""",
    )
    assert died.returncode == -9, died.stderr
    hook = make()
    assert hook.flush(PASSED)
    network.ledger.wait_for(lambda: len(records(network)) == 3)
    assert hook.flush(PASSED)
    assert told(records(network), "tool_name") == [(f"tool {number}",) for number in range(3)]


def test_a_record_that_was_under_way_when_its_process_died_is_sent_once(network, make, tmp_path):
    network.ledger.script.extend(["OK", "LOST"])
    process = _start_and_kill(network, tmp_path)
    assert process.returncode == -9
    hook = make()
    assert hook.flush(2 * PASSED)
    assert told(records(network), "tool_name") == [("send",)]
    assert len(network.ledger.messages()) == 2


def _start_and_kill(network: LocalNetwork, tmp_path: Path) -> Any:
    """Run a process that sends one record, and kill it while it waits for the answer."""
    script = """
hook = HcsAuditTrailHook(["*"], "0.0.5005", client, spool=spool, in_flight=1)
hook.write({"tool_name": "send"}).wait()
hook.flush(60)
"""
    nodes = [f"{node}={address}" for node, address in network.addresses.items()]
    key = network.operator_key.to_string_der()
    arguments = [sys.executable, "-c", CHILD + script, str(tmp_path / "spool"), key, *nodes]
    process = subprocess.Popen(arguments, cwd=ROOT)
    try:
        network.ledger.wait_for(lambda: len(network.ledger.messages()) == 2)
    finally:
        process.kill()
        process.wait()
    return process


@pytest.mark.parametrize("ending", ["assert hook.flush(10)", "pass"])
def test_a_forked_process_records_on_a_trail_of_its_own(network, tmp_path, ending):
    script = FORK.replace("GIVEN", "client").replace("ENDING", ending)
    done = run(network, tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert sorted(told(records(network), "tool_name")) == [("child",), ("parent",)]


def test_a_forked_process_leaves_its_records_to_its_parent_where_it_has_no_client(
    network, tmp_path
):
    done = run(network, tmp_path, FORK.replace("GIVEN", "client()").replace("ENDING", "pass"))
    assert done.returncode == 0, done.stderr
    assert sorted(told(records(network), "tool_name")) == [("child",), ("parent",)]


# -- one message, tried before --------------------------------------------------------------------


@pytest.fixture
def topic(network: LocalNetwork) -> hcs_topic.Topic:
    return hcs_topic.Topic(TOPIC, network.client)


def test_a_try_whose_outcome_is_not_known_is_repeated_under_its_id(network, topic):
    noted: list[Attempt] = []
    topic.submit(b"message", None, noted.append)
    topic.submit(b"message", noted[-1], noted.append)
    assert network.ledger.messages() == [b"message"]
    assert len(noted) == 1


def test_a_try_that_never_arrived_is_made_under_its_id(network, topic):
    start = f"{OPERATOR}@{int(time.time()) - 5}.7"
    topic.submit(b"message", Attempt(1, start, start), lambda _: None)
    assert [one.id for one in network.ledger.topics[TOPIC].messages] == [start]


def test_an_attempt_that_is_too_old_to_arrive_is_repeated(network, topic):
    start = f"{OPERATOR}@{int(time.time()) - 500}.7"
    noted: list[Attempt] = []
    topic.submit(b"message", Attempt(1, start, start), noted.append)
    assert network.ledger.messages() == [b"message"]
    assert noted[0].transaction != start


def test_chunks_that_were_sent_are_not_sent_again(network, topic):
    message = bytes(65 + number // 1024 for number in range(3000))
    noted: list[Attempt] = []
    network.ledger.script.extend(["OK", "INVALID_TOPIC_ID"])
    with pytest.raises(hcs_topic.Unsent, match="INVALID_TOPIC_ID"):
        topic.submit(message, None, noted.append)
    assert [attempt.chunk for attempt in noted] == [1, 2]
    topic.submit(message, noted[-1], noted.append)
    assert network.ledger.messages() == [message]
    assert len(network.ledger.topics[TOPIC].messages) == 3


def test_what_cannot_be_noted_is_not_tried(network, topic):
    def note(_: Attempt) -> None:
        raise OSError("no space left")

    with pytest.raises(hcs_topic.Unsent):
        topic.submit(b"message", None, note)
    assert network.ledger.tries == []


# -- from end to end ------------------------------------------------------------------------------


def test_a_topic_that_a_mirror_node_shows_is_found_sound_and_a_forgery_is_not(
    network, make, instrument, tmp_path
):
    network.ledger.script.extend(["BUSY", "LOST", "OK", "BUSY"])
    hook = make()
    instrument(policies=[policy.deny("send", when=lambda args: args["to"] == "eve")], hooks=[hook])
    for number in range(5):
        send("ann", note="x" * 700 * number)
    with pytest.raises(Denied):
        send("eve")
    otelhooks.uninstrument()
    assert hook.close(2 * PASSED)

    def shown(number: int, sent: Any) -> dict[str, Any]:
        chunk = {
            "initial_transaction_id": sent.first,
            "number": sent.number,
            "total": sent.total,
        }
        return {
            "chunk_info": chunk if sent.first else None,
            "message": base64.b64encode(sent.message).decode(),
            "payer_account_id": sent.payer,
            "sequence_number": number,
        }

    messages = [
        shown(number, sent) for number, sent in enumerate(network.ledger.topics[TOPIC].messages, 1)
    ]
    path = tmp_path / "topic.json"
    path.write_text(json.dumps({"messages": messages}))
    report = check(path)
    assert report.findings == []
    assert report.records == 8

    denied = next(one for one in network.ledger.messages() if b'"deny"' in one)
    forged = denied.replace(b'"deny"', b'"allow"')
    sequence = len(messages) + 1
    whole = {"chunk_info": None, "payer_account_id": "0.0.666", "sequence_number": sequence}
    messages.append({**whole, "message": base64.b64encode(forged).decode()})
    path.write_text(json.dumps({"messages": messages}))
    assert ("foreign", "error", sequence) in [
        (one.kind, one.severity, one.line) for one in check(path).findings
    ]
