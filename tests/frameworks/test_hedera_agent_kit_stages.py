"""Hooks and policies at the four places of the kit's second generation of tools."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("hedera_agent_kit.shared.tool_v2", reason="tools have one step before 3.4")

from hedera_agent_kit import AbstractHook as KitHook
from hedera_agent_kit import AbstractPolicy as KitPolicy
from hedera_agent_kit import BaseToolV2, HederaAgentAPI
from hedera_agent_kit.plugins.core_account_plugin import TransferHbarTool
from hedera_agent_kit.shared.configuration import AgentMode, Context
from hedera_agent_kit.shared.models import (
    ExecutedTransactionToolResponse,
    ReturnBytesToolResponse,
    ToolResponse,
)
from opentelemetry.trace import StatusCode

from otelhooks import hooks, policy, types
from otelhooks.pipeline import tool_stages
from otelhooks.pipeline.call_span import UNRECORDED
from otelhooks.records import semconv
from tests.frameworks.contract import Seen
from tests.frameworks.hedera_fixtures import client, ledger, on, seen  # noqa: F401  # fixtures
from tests.frameworks.hedera_world import (
    Client,
    Ledger,
    OneStep,
    configured,
    recipients,
    transfer,
)

PLACES = (
    "pre_tool_execution",
    "post_params_normalization",
    "post_core_action",
    "post_secondary_action",
)
FIELDS = ("raw_params", "normalized_params", "core_action_result", "tool_result")
BLOCKED = "Action blocked by policy: Guard (keeps the ledger clean)"


class Logged(BaseToolV2):
    """A tool that says which of its steps it takes."""

    def __init__(self, log: list[str], method: str = "logged") -> None:
        self.log = log
        self.method, self.name, self.description = method, "Logged", "Logs."

    async def normalize_params(self, params: Any, context: Any, client: Any) -> Any:
        self.log.append("normalize")
        return {"amount": params["amount"]}

    async def core_action(self, normalized_params: Any, context: Any, client: Any) -> Any:
        self.log.append("act")
        return ["transaction", normalized_params["amount"]]

    async def secondary_action(self, core_result: Any, client: Any, context: Any) -> Any:
        self.log.append("commit")
        return ToolResponse(human_message=f"sent {core_result}")


class Query(Logged):
    """A tool whose core action is everything."""

    async def core_action(self, normalized_params: Any, context: Any, client: Any) -> Any:
        self.log.append("act")
        return ToolResponse(human_message="the balance is 4711")

    async def should_secondary_action(self, core_result: Any, context: Any) -> bool:
        return UNRECORDED


class Watcher(hooks.AbstractHook):
    """Logs all places, and what is known there."""

    relevant_tools = ("*",)

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.seen: list[tuple[Any, ...]] = []

    async def pre_tool_execution_hook(self, context: Any, params: Any, method: str) -> None:
        self.note("1", context, params, method)

    async def post_params_normalization_hook(self, context: Any, params: Any, method: str) -> None:
        self.note("3", context, params, method)

    async def post_core_action_hook(self, context: Any, params: Any, method: str) -> None:
        self.note("5", context, params, method)

    async def post_secondary_action_hook(self, context: Any, params: Any, method: str) -> None:
        self.note("7", context, params, method)

    def note(self, place: str, context: Any, params: Any, method: str) -> None:
        self.log.append(f"{place} {method}")
        self.seen.append((context, params.client, *(getattr(params, field) for field in FIELDS)))


class KitWatcher(KitHook):
    """The kit's own hook, which logs too."""

    name, description, relevant_tools = "kit", "", ["logged"]  # type: ignore[assignment]

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def pre_tool_execution_hook(self, context: Any, params: Any, method: str) -> None:
        self.log.append("1 kit")

    async def post_params_normalization_hook(self, context: Any, params: Any, method: str) -> None:
        self.log.append(f"3 kit {params.normalized_params}")

    async def post_core_action_hook(self, context: Any, params: Any, method: str) -> None:
        self.log.append("5 kit")

    async def post_secondary_action_hook(self, context: Any, params: Any, method: str) -> None:
        self.log.append("7 kit")


def guard(place: str, blocks: Any = True, tools: tuple[str, ...] = ("*",)) -> Any:
    """Return a policy that blocks at one place."""

    async def should_block(self: Any, context: Any, params: Any, method: str) -> bool:
        return blocks(params) if callable(blocks) else blocks

    described = {
        "name": "Guard",
        "description": "keeps the ledger clean",
        "relevant_tools": tools,
        f"should_block_{place}": should_block,
    }
    return type("Guard", (policy.AbstractPolicy,), described)()


def writer(place: str, write: Any, tools: tuple[str, ...] = ("*",)) -> Any:
    """Return a hook that writes at one place."""

    async def rewrite(self: Any, context: Any, params: Any, method: str) -> None:
        write(params)

    described = {"name": "Writer", "relevant_tools": tools, f"{place}_hook": rewrite}
    return type("Writer", (hooks.AbstractHook,), described)()


def run(tool: Any, params: Any, client: Any = None, **context: Any) -> Any:
    return asyncio.run(
        tool.execute(client or Client(), Context(account_id="0.0.2", **context), params)
    )


# -- where the places lie -------------------------------------------------------------------------


class CallingSuper(Logged):
    """Its own methods call those that they override."""

    async def execute(self, client: Any, context: Any, params: Any) -> Any:
        self.log.append("in")
        response = await super().execute(client, context, params)
        self.log.append("out")
        return response

    async def normalize_params(self, params: Any, context: Any, client: Any) -> Any:
        return await super().normalize_params(params, context, client)

    async def core_action(self, normalized_params: Any, context: Any, client: Any) -> Any:
        return await super().core_action(normalized_params, context, client)


STEPS = ["normalize", "3 logged", "act", "5 logged", "commit"]


def test_the_places_lie_between_the_steps_around_the_kits_own_hooks(on: Any) -> None:
    log: list[str] = []
    watcher = Watcher(log)
    on(hooks=[watcher])
    context = Context(hooks=[KitWatcher(log)])
    there = Client()
    response = asyncio.run(Logged(log).execute(there, context, {"amount": 1}))
    assert log == [
        *("1 logged", "1 kit", "normalize", "3 logged", "3 kit {'amount': 1}"),
        *("act", "5 logged", "5 kit", "commit", "7 kit", "7 logged"),
    ]
    raw, normalized, prepared = {"amount": 1}, {"amount": 1}, ["transaction", 1]
    assert [found[:2] for found in watcher.seen] == [(context, there)] * 4
    assert [found[2:5] for found in watcher.seen] == [
        (raw, None, None),
        (raw, normalized, None),
        (raw, normalized, prepared),
        (raw, normalized, prepared),
    ]
    assert [found[5] for found in watcher.seen[:3]] == [None] * 3
    assert watcher.seen[3][5] == response


@pytest.mark.parametrize("way", ["api", "langchain", "beside_langchain"])
def test_they_lie_there_on_every_way_to_the_tool(on: Any, seen: Seen, way: str) -> None:
    log: list[str] = []
    tool = Logged(log)
    tool.parameters = None  # type: ignore[assignment]
    on(hooks=[Watcher(log)], also=("langchain",) if way == "beside_langchain" else ())
    if way == "api":
        asyncio.run(HederaAgentAPI(Client(), Context(), [tool]).run("logged", {"amount": 1}))
    else:
        asyncio.run(_langchain(tool).ainvoke({"amount": 1}))
    assert log == ["1 logged", *STEPS, "7 logged"]
    assert len(seen.spans) == 1


def _langchain(tool: Any) -> Any:
    from hedera_agent_kit.langchain.toolkit import HederaLangchainToolkit
    from pydantic import BaseModel

    class Parameters(BaseModel):
        amount: int

    tool.parameters = Parameters
    return HederaLangchainToolkit(Client(), configured([tool])).get_tools()[0]


def test_a_class_that_calls_what_it_overrides_has_each_place_once(on: Any, seen: Seen) -> None:
    log: list[str] = []
    on(hooks=[Watcher(log)])
    run(CallingSuper(log), {"amount": 1})
    assert log == ["1 logged", "in", *STEPS, "out", "7 logged"]
    assert len(seen.spans) == 1


def test_a_class_with_an_execute_of_its_own_is_one_step(on: Any) -> None:
    log: list[str] = []

    class OwnWay(Logged):
        async def execute(self, client: Any, context: Any, params: Any) -> Any:
            self.log.append("all")
            return ToolResponse(human_message="done")

    on(hooks=[Watcher(log)])
    run(OwnWay(log), {"amount": 1})
    assert log == ["1 logged", "3 logged", "all", "5 logged", "7 logged"]


def test_a_tool_of_the_first_generation_is_one_step_with_the_kits_context(on: Any) -> None:
    log: list[str] = []
    watcher = Watcher(log)

    def logged(amount: int) -> str:
        """Log."""
        log.append("all")
        return "done"

    on(hooks=[watcher])
    run(OneStep(logged), {"amount": 1})
    assert log == ["1 logged", "3 logged", "all", "5 logged", "7 logged"]
    assert {type(found[0]) for found in watcher.seen} == {Context}
    assert watcher.seen[1][3] == {"amount": 1}


def test_a_failed_tool_does_not_reach_the_places_behind(on: Any) -> None:
    class Failing(Logged):
        async def core_action(self, normalized_params: Any, context: Any, client: Any) -> Any:
            raise RuntimeError("no such account")

    log: list[str] = []
    on(hooks=[Watcher(log)])
    response = run(Failing(log), {"amount": 1})
    assert "no such account" in response.error
    assert log == ["1 logged", "normalize", "3 logged"]


def test_calls_at_the_same_time_do_not_share_their_steps(on: Any) -> None:
    log: list[str] = []
    gate = asyncio.Event()

    class Slow(Logged):
        async def core_action(self, normalized_params: Any, context: Any, client: Any) -> Any:
            if normalized_params["amount"] == 1:
                await gate.wait()
            else:
                gate.set()
            return await super().core_action(normalized_params, context, client)

    watcher = Watcher(log)
    on(
        guard("post_core_action", lambda params: params.normalized_params["amount"] == 1),
        hooks=[watcher],
    )
    tool = Slow(log)

    async def both() -> Any:
        calls = (tool.execute(Client(), Context(), {"amount": amount}) for amount in (1, 2))
        return await asyncio.gather(*calls)

    first, second = asyncio.run(both())
    assert first.error == BLOCKED
    assert second.human_message == "sent ['transaction', 2]"
    assert log.count("commit") == 1


def test_a_tool_that_runs_another_has_its_own_places(on: Any, seen: Seen) -> None:
    log: list[str] = []

    class Outer(Logged):
        async def core_action(self, normalized_params: Any, context: Any, client: Any) -> Any:
            inner = await Logged(self.log, "inner").execute(client, context, {"amount": 7})
            return [inner.human_message, normalized_params["amount"]]

    on(guard("post_core_action", tools=("inner",)), hooks=[Watcher(log)])
    response = run(Outer(log), {"amount": 1})
    assert response.human_message == f"sent {[BLOCKED, 1]}"
    assert [entry for entry in log if entry == "commit"] == ["commit"]
    assert {span.name for span in seen.spans} == {"execute_tool inner", "execute_tool logged"}


# -- blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [AgentMode.AUTONOMOUS, AgentMode.RETURN_BYTES])
@pytest.mark.parametrize("place", PLACES[:3])
def test_a_block_before_the_last_step_prevents_the_transaction(
    on: Any, seen: Seen, client: Any, ledger: Ledger, place: str, mode: Any
) -> None:
    on(guard(place))
    response = run(TransferHbarTool(Context()), transfer(5), client, mode=mode)
    assert type(response) is ToolResponse
    assert (response.human_message, response.error) == (BLOCKED, BLOCKED)
    assert ledger.sent == []
    (span,) = seen.spans
    assert span.attributes[semconv.POLICY_DECISION] == "deny"
    assert span.attributes[semconv.POLICY_RULE_ID] == "Guard"
    assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED
    assert semconv.WITHHELD not in span.attributes
    assert span.status.status_code is StatusCode.ERROR


def test_a_block_behind_the_last_step_says_that_it_has_happened(
    on: Any, seen: Seen, client: Any, ledger: Ledger
) -> None:
    on(guard(PLACES[3]))
    response = run(TransferHbarTool(Context()), transfer(5), client)
    assert (response.human_message, response.error) == (BLOCKED, BLOCKED)
    assert type(response) is ToolResponse
    assert len(ledger.sent) == 1
    (span,) = seen.spans
    assert span.attributes[semconv.POLICY_DECISION] == "deny"
    assert span.attributes[semconv.WITHHELD] is True


def test_a_block_behind_a_query_withholds_its_answer(on: Any, seen: Seen) -> None:
    log: list[str] = []
    on(guard("post_core_action"))
    response = run(Query(log), {"amount": 1})
    assert (response.human_message, response.error) == (BLOCKED, BLOCKED)
    (span,) = seen.spans
    assert span.attributes[semconv.WITHHELD] is True
    assert log == ["normalize", "act"]


def test_without_a_block_the_transaction_goes_out_once(
    on: Any, seen: Seen, client: Any, ledger: Ledger
) -> None:
    on(*(guard(place, False) for place in PLACES))
    response = run(TransferHbarTool(Context()), transfer(5), client)
    assert type(response) is ExecutedTransactionToolResponse
    assert [recipients(tx) for tx in ledger.sent] == [["0.0.5"]]
    (span,) = seen.spans
    assert span.attributes[semconv.POLICY_DECISION] == "allow"


def test_policies_see_normalized_parameters_and_the_transaction(
    on: Any, client: Any, ledger: Ledger
) -> None:
    def sends_much(params: Any) -> bool:
        gets = [amount for amount in params.normalized_params.hbar_transfers.values() if amount > 0]
        return sum(gets) > 500_000_000  # in tinybars

    on(
        guard("post_params_normalization", sends_much),
        guard("post_core_action", lambda params: "0.0.9" in recipients(params.core_action_result)),
    )
    tool = TransferHbarTool(Context())
    assert run(tool, transfer(5, amount=5.1), client).error == BLOCKED
    assert run(tool, transfer(9), client).error == BLOCKED
    assert run(tool, transfer(5, amount=5), client).error is None
    assert [recipients(tx) for tx in ledger.sent] == [["0.0.5"]]


@pytest.mark.parametrize("place", ["post_params_normalization", "post_core_action"])
def test_a_hook_that_fails_between_steps_denies_with_a_fixed_sentence(
    on: Any, seen: Seen, client: Any, ledger: Ledger, place: str
) -> None:
    def fail(params: Any) -> None:
        raise RuntimeError("secret cause")

    on(hooks=[writer(place, fail)])
    response = run(TransferHbarTool(Context()), transfer(5), client)
    assert "policy check failed" in response.error
    assert "secret" not in str(response)
    assert ledger.sent == []
    (span,) = seen.spans
    assert span.attributes[semconv.POLICY_DECISION] == "deny"


def test_in_monitor_mode_a_block_between_steps_is_recorded_only(
    on: Any, seen: Seen, client: Any, ledger: Ledger
) -> None:
    on(guard("post_params_normalization"), guard("post_core_action"), mode="monitor")
    assert run(TransferHbarTool(Context()), transfer(5), client).error is None
    assert len(ledger.sent) == 1
    (span,) = seen.spans
    assert span.attributes[semconv.POLICY_DECISION] == "deny"
    assert span.attributes[semconv.POLICY_ENFORCEMENT] == semconv.ENFORCEMENT_OBSERVED


@pytest.mark.parametrize("place", PLACES)
def test_beside_langchain_a_block_has_its_form_and_one_span(
    on: Any, seen: Seen, place: str
) -> None:
    log: list[str] = []
    on(guard(place), also=("langchain",))
    call = {"type": "tool_call", "id": "1", "name": "logged", "args": {"amount": 1}}
    message = asyncio.run(_langchain(Logged(log)).ainvoke(call))
    assert message.content == BLOCKED
    assert ("commit" in log) is (place == PLACES[3])
    (span,) = seen.spans
    assert span.attributes[semconv.POLICY_DECISION] == "deny"


def mcp_answers(tool: Any, way: str) -> str:
    """Ask the toolkit's server for a tool: through a client, its handler, or the server object."""
    from mcp import types as wire

    from tests.frameworks.hedera_world import mcp_server
    from tests.frameworks.mcp_world import connected, text_of

    server = mcp_server([tool])
    arguments = {"kwargs": {"amount": 1}}

    async def ask() -> str:
        if way == "client":
            async with connected(server) as client:
                return text_of(await client.call_tool("logged", arguments))
        if way == "object":
            try:
                return str(await server.call_tool("logged", arguments))
            except Exception as error:  # how that server tells it
                return str(error)
        handler = server._mcp_server.request_handlers[wire.CallToolRequest]
        params = wire.CallToolRequestParams(name="logged", arguments=arguments)
        found = await handler(wire.CallToolRequest(method="tools/call", params=params))
        return text_of(found.root)

    return asyncio.run(ask())


@pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning")
@pytest.mark.parametrize("way", ["client", "handler", "object"])
@pytest.mark.parametrize("place", PLACES[1:3])
def test_beside_mcp_a_block_between_steps_prevents_too(
    on: Any, seen: Seen, place: str, way: str
) -> None:
    """A client in the server's process knows nothing of steps: the kit's call is judged below."""
    log: list[str] = []
    field, value = {
        PLACES[1]: ("normalized_params", {"amount": 1}),
        PLACES[2]: ("core_action_result", ["transaction", 1]),
    }[place]
    on(guard(place, lambda params: getattr(params, field) == value), also=("mcp",))
    assert BLOCKED in mcp_answers(Logged(log), way)
    assert "commit" not in log
    assert len(seen.spans) == (2 if way == "client" else 1)


@pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning")
@pytest.mark.parametrize("way", ["handler", "object"])
def test_beside_mcp_the_places_lie_between_the_steps(on: Any, seen: Seen, way: str) -> None:
    """The first place is asked again by the kit, which alone knows that the tool is for a net."""
    log: list[str] = []
    on(hooks=[Watcher(log)], also=("mcp",))
    assert "sent [" in mcp_answers(Logged(log), way)
    assert log == ["1 logged", "1 logged", *STEPS, "7 logged"]
    assert len(seen.spans) == 1


def test_what_cannot_be_recorded_between_steps_does_not_go_on(
    on: Any, client: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rewrite of the transaction has a verdict, which a required trail must have first."""

    def record(rt: Any, op: Any, verdict: Any) -> Any:
        yield from ()
        return UNRECORDED

    monkeypatch.setattr(tool_stages, "record", record)
    on(
        hooks=[
            writer(
                "post_core_action",
                lambda params: params.core_action_result.set_transaction_memo("m"),
            )
        ]
    )
    response = run(TransferHbarTool(Context()), transfer(5), client)
    assert "could not be recorded" in response.error
    assert ledger.sent == []


def test_the_ready_made_policies_count_and_reject(on: Any, client: Any, ledger: Ledger) -> None:
    tool = TransferHbarTool(Context())
    on(policy.MaxRecipientsPolicy(1))
    assert "maximum number of recipients to 1" in run(tool, transfer(5, 6), client).error
    assert run(tool, transfer(5), client).error is None
    assert [recipients(tx) for tx in ledger.sent] == [["0.0.5"]]


def test_listeners_hear_of_each_place_where_hooks_are(on: Any) -> None:
    heard: list[tuple[str, str | None]] = []

    @hooks.on_event
    def hear(event: types.HookEvent) -> None:
        heard.append((event.type, event.decision))

    on(guard("post_params_normalization", False), guard("post_core_action"), hooks=[hear])
    run(Logged([]), {"amount": 1})
    assert heard == [
        ("pre_tool_use", "allow"),
        ("post_params_normalization", "allow"),
        ("post_core_action", "deny"),
    ]


# -- rewrites -------------------------------------------------------------------------------------


def _assign(field: str, value: Any) -> Any:
    return lambda params: setattr(params, field, value)


@pytest.mark.parametrize(
    ("place", "write", "message"),
    [
        (PLACES[0], lambda params: params.raw_params.update(amount=2), "sent ['transaction', 2]"),
        (PLACES[0], _assign("raw_params", {"amount": 3}), "sent ['transaction', 3]"),
        (
            PLACES[1],
            lambda params: params.normalized_params.update(amount=2),
            "sent ['transaction', 2]",
        ),
        (PLACES[1], _assign("normalized_params", {"amount": 3}), "sent ['transaction', 3]"),
        (
            PLACES[2],
            lambda params: params.core_action_result.append(2),
            "sent ['transaction', 1, 2]",
        ),
        (PLACES[2], _assign("core_action_result", "another"), "sent another"),
        (PLACES[3], _assign("tool_result", ToolResponse(human_message="checked")), "checked"),
        (
            PLACES[3],
            lambda params: setattr(params.tool_result, "human_message", "checked"),
            "checked",
        ),
    ],
)
def test_what_a_hook_writes_at_its_place_goes_on(
    on: Any, seen: Seen, place: str, write: Any, message: str
) -> None:
    log: list[str] = []
    on(hooks=[writer(place, write)])
    assert run(Logged(log), {"amount": 1}).human_message == message
    assert log == ["normalize", "act", "commit"]
    (span,) = seen.spans
    assert span.attributes[semconv.POLICY_DECISION] == "modify"
    assert span.attributes[semconv.POLICY_RULE_ID] == "Writer"


def test_policies_judge_what_hooks_have_written(on: Any, client: Any, ledger: Ledger) -> None:
    from hiero_sdk_python import AccountId

    def divert(params: Any) -> None:
        transfers = params.normalized_params.hbar_transfers
        params.normalized_params.hbar_transfers = {
            AccountId(0, 0, 9) if amount > 0 else account: amount
            for account, amount in transfers.items()
        }

    on(
        guard("post_core_action", lambda params: "0.0.9" in recipients(params.core_action_result)),
        hooks=[writer("post_params_normalization", divert)],
    )
    assert run(TransferHbarTool(Context()), transfer(5), client).error == BLOCKED
    assert ledger.sent == []


def test_the_kits_own_policies_judge_what_hooks_have_written(on: Any) -> None:
    class Most(KitPolicy):
        name, description, relevant_tools = "Most", "", ["logged"]  # type: ignore[assignment]

        async def should_block_post_params_normalization(self, context, params, method) -> bool:
            return params.normalized_params["amount"] > 1

    log: list[str] = []
    on(hooks=[writer("post_params_normalization", _assign("normalized_params", {"amount": 2}))])
    response = run(Logged(log), {"amount": 1}, hooks=[Most()])
    assert "Action blocked by policy: Most" in response.error
    assert log == ["normalize"]


def test_a_response_keeps_class_and_receipt_where_a_hook_writes_its_message(
    on: Any, client: Any, ledger: Ledger
) -> None:
    def stamp(params: Any) -> None:
        params.tool_result.human_message += " (checked)"

    on(hooks=[writer(PLACES[3], stamp)])
    tool = TransferHbarTool(Context())
    response = run(tool, transfer(5), client)
    assert type(response) is ExecutedTransactionToolResponse
    assert response.raw.status == "SUCCESS"
    assert response.human_message.endswith(" (checked)")
    response = run(tool, transfer(5), client, mode=AgentMode.RETURN_BYTES)
    assert type(response) is ReturnBytesToolResponse
    assert response.bytes_data
    assert response.human_message.endswith(" (checked)")


# -- round the places -----------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES[:3])
def test_a_handler_of_errors_is_not_asked_about_a_block(on: Any, place: str) -> None:
    class Hiding(Logged):
        async def handle_error(self, error: Exception, context: Any) -> Any:
            self.log.append("handled")
            return ToolResponse(human_message="all is well")

    log: list[str] = []
    on(guard(place))
    assert run(Hiding(log), {"amount": 1}).error == BLOCKED
    assert not {"handled", "commit"}.intersection(log)


def test_a_tool_that_goes_on_after_a_block_comes_to_nothing(on: Any) -> None:
    """It catches what it can, and takes the next steps by itself."""

    class Stubborn(Logged):
        async def execute(self, client: Any, context: Any, params: Any) -> Any:
            await super().execute(client, context, params)
            prepared = await self.core_action({"amount": 1}, context, client)
            return await self.secondary_action(prepared, client, context)

    log: list[str] = []
    on(guard("post_core_action"))
    assert run(Stubborn(log), {"amount": 1}).error == BLOCKED
    assert log == ["normalize", "act"]


def test_steps_in_another_order_are_refused(on: Any) -> None:
    class Hasty(Logged):
        async def execute(self, client: Any, context: Any, params: Any) -> Any:
            if params["amount"] > 1:
                return await super().execute(client, context, params)
            return await self.secondary_action(["mine"], client, context)

    log: list[str] = []
    on(guard("post_core_action", False))
    assert "unexpected order" in run(Hasty(log), {"amount": 1}).error
    assert log == []


def test_places_that_a_tool_leaves_out_are_asked_late_and_withhold(on: Any, seen: Seen) -> None:
    class Cached(Logged):
        async def execute(self, client: Any, context: Any, params: Any) -> Any:
            if params["amount"] == 1:
                return ToolResponse(human_message="from the cache")
            return await super().execute(client, context, params)

    on(guard("post_params_normalization", lambda params: params.normalized_params["amount"] == 1))
    response = run(Cached([]), {"amount": 1})
    assert response.error == BLOCKED
    (span,) = seen.spans
    assert span.attributes[semconv.WITHHELD] is True
    assert run(Cached([]), {"amount": 2}).error is None


class Clamping(Logged):
    """It hands on other parameters than it was given."""

    async def execute(self, client: Any, context: Any, params: Any) -> Any:
        fewer = {"amount": min(params["amount"], 5)}
        return await super(Clamping, self).execute(client, context, fewer)  # noqa: UP008  # this form too


def test_other_parameters_are_another_call_with_places_of_its_own(on: Any, seen: Seen) -> None:
    judged: list[int] = []

    def is_much(params: Any) -> bool:
        judged.append(params.normalized_params["amount"])
        return params.normalized_params["amount"] > 5

    on(guard("post_params_normalization", is_much))
    assert run(Clamping([]), {"amount": 9}).error is None
    assert judged == [5]
    assert len(seen.spans) == 2


def test_a_class_that_hands_on_and_then_goes_its_own_way_is_stopped(on: Any) -> None:
    class Sneaking(Clamping):
        async def execute(self, client: Any, context: Any, params: Any) -> Any:
            await super().execute(client, context, {"amount": 1})
            return await self.secondary_action(["mine"], client, context)

    log: list[str] = []
    on(guard("post_core_action", False))
    assert "unexpected order" in run(Sneaking(log), {"amount": 9}).error
    assert log.count("commit") == 1


def test_steps_of_another_tool_are_not_those_of_the_call(on: Any) -> None:
    """A tool that takes a step of another one does not have it judged as its own."""
    log: list[str] = []
    other = Logged(log, "other")

    class Borrowing(Logged):
        async def core_action(self, normalized_params: Any, context: Any, client: Any) -> Any:
            return await other.core_action(normalized_params, context, client)

    watcher = Watcher(log)
    on(hooks=[watcher])
    run(Borrowing(log), {"amount": 1})
    assert [entry for entry in log if entry.startswith("5")] == ["5 logged"]
