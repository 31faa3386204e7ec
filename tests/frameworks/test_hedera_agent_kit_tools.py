"""What goes into the kit's tools and comes out: parameters, responses, errors, the ledger."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("hedera_agent_kit")

import pydantic
from hedera_agent_kit import HederaAgentAPI, Tool
from hedera_agent_kit.plugins.core_account_plugin import TransferHbarTool
from hedera_agent_kit.shared.configuration import AgentMode, Context
from hedera_agent_kit.shared.models import (
    ExecutedTransactionToolResponse,
    RawTransactionResponse,
    ReturnBytesToolResponse,
    ToolResponse,
)
from opentelemetry.trace import StatusCode

from otelhooks import hooks, policy, types
from otelhooks.frameworks.hedera_agent_kit.calls import ApiCall
from otelhooks.records import semconv
from tests.frameworks.contract import ANSWER, DANGER, REASON, Seen, World
from tests.frameworks.hedera_fixtures import client, ledger, on, seen  # noqa: F401  # fixtures
from tests.frameworks.hedera_world import (
    HAS_PHASES,
    OLD,
    Client,
    Ledger,
    Phased,
    configured,
    recipients,
    tools_of,
    transfer,
)

phased = pytest.mark.skipif(not HAS_PHASES, reason=OLD)


class Transfer(pydantic.BaseModel):
    account: str
    amount: float = 1


class Parameters(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", populate_by_name=True)
    transfers: list[Transfer]
    memo: str | None = pydantic.Field(None, alias="transactionMemo", exclude=True)


class Taking(Tool):
    """A tool that keeps what it is handed."""

    method, name, description = "taking", "Taking", "Takes."

    def __init__(self) -> None:
        self.got: list[Any] = []

    async def execute(self, client: Any, context: Any, params: Any) -> ToolResponse:
        self.got.append(params)
        return ToolResponse(human_message="taken", extra={"secret": "4711"})


class Answering(Tool):
    """A tool that answers what it was made with."""

    method, name, description = "answering", "Answering", "Answers."

    def __init__(self, response: Any) -> None:
        self.response = response

    async def execute(self, client: Any, context: Any, params: Any) -> Any:
        return self.response


def run(tool: Any, params: Any, client: Any = None, **context: Any) -> Any:
    there = Context(account_id="0.0.2", **context)
    return asyncio.run(tool.execute(client or Client(), there, params))


def rewriting(**changes: Any) -> Any:
    @hooks.pre_tool_call_decide
    def rewrite(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args=changes)

    return rewrite


# -- parameters -----------------------------------------------------------------------------------


def test_rules_see_plain_data_and_the_tool_its_models(on: Any) -> None:
    shown: list[Any] = []
    on(policy.deny("*", when=lambda args: shown.append(args) or False))
    tool = Taking()
    model = Parameters(transfers=[Transfer(account="0.0.5")], transactionMemo="m", further=1)
    run(tool, model)
    run(tool, {"transfers": [Transfer(account="0.0.6")], "rest": (Transfer(account="0.0.7"),)})
    assert shown == [
        {"transfers": [{"account": "0.0.5", "amount": 1}], "memo": "m", "further": 1},
        {
            "transfers": [{"account": "0.0.6", "amount": 1}],
            "rest": ({"account": "0.0.7", "amount": 1},),
        },
    ]
    assert tool.got[0] == model
    assert tool.got[0].model_fields_set == model.model_fields_set
    assert tool.got[1]["transfers"] == [Transfer(account="0.0.6")]
    assert tool.got[1]["rest"] == (Transfer(account="0.0.7"),)


def test_what_a_hook_writes_becomes_a_model_again(on: Any) -> None:
    on(hooks=[rewriting(transfers=[{"account": "0.0.9", "amount": "2.5"}])])
    tool = Taking()
    run(tool, Parameters(transfers=[Transfer(account="0.0.5")], transactionMemo="m", further=1))
    run(tool, {"transfers": [Transfer(account="0.0.5")], "memo": None})
    whole, nested = tool.got
    assert type(whole) is Parameters
    assert whole.transfers == [Transfer(account="0.0.9", amount=2.5)]
    assert (whole.memo, whole.further) == ("m", 1)
    assert nested["transfers"] == [Transfer(account="0.0.9", amount=2.5)]


def test_what_is_not_such_a_model_does_not_run(on: Any) -> None:
    on(hooks=[rewriting(transfers=[{"amount": "much"}])])
    tool = Taking()
    with pytest.raises(pydantic.ValidationError):
        run(tool, Parameters(transfers=[Transfer(account="0.0.5")]))
    assert tool.got == []


@pytest.mark.parametrize(
    "given",
    [
        Parameters(transfers=[Transfer(account="0.0.5")]),
        {"transfers": [Transfer(account="0.0.5")]},
        {"transfers": [{"account": "0.0.5", "amount": 1}]},
    ],
    ids=["model", "models in a dict", "plain"],
)
def test_parameters_that_change_after_the_decision_do_not_change_what_runs(
    on: Any, given: Any
) -> None:
    @hooks.on_event
    def change(event: types.HookEvent) -> None:
        if event.type == "pre_tool_use":
            transfers = given["transfers"] if isinstance(given, dict) else given.transfers
            transfers[0] = Transfer(account="0.0.666")
            transfers.append(transfers[0])

    tool = Taking()
    on(policy.deny("*", when=lambda args: "0.0.666" in str(args), reason=REASON), hooks=[change])
    assert run(tool, given).error is None
    assert "0.0.5" in str(tool.got)
    assert "0.0.666" not in str(tool.got)
    assert "0.0.666" in str(given)


@pytest.mark.parametrize(
    ("given", "shown"), [(None, {}), ("all", {"params": "all"}), ([1], {"params": [1]})]
)
def test_other_parameters_are_shown_and_arrive(on: Any, given: Any, shown: Any) -> None:
    seen_args: list[Any] = []
    on(policy.deny("*", when=lambda args: seen_args.append(args) or False))
    tool = Taking()
    run(tool, given)
    assert tool.got == [given]
    assert seen_args == [shown]


def test_parameters_are_found_wherever_they_stand(on: Any) -> None:
    class Named(Taking):
        async def execute(self, there: Any, where: Any, what: Any) -> ToolResponse:
            return await super().execute(there, where, what)

    on(policy.deny("*", when=lambda args: args["path"] == "/etc", reason=REASON))
    for tool, name in ((Taking(), "params"), (Named(), "what")):
        first = {"client": 1, "context": 2} if name == "params" else {"there": 1, "where": 2}
        assert asyncio.run(tool.execute(**first, **{name: {"path": "/etc"}})).error == REASON
        assert asyncio.run(tool.execute(**first, **{name: {"path": "/tmp"}})).error is None
        assert tool.got == [{"path": "/tmp"}]


def test_a_method_that_only_gives_back_a_coroutine_will_do(on: Any) -> None:
    class Leading(Taking):
        def execute(self, client: Any, context: Any, params: Any) -> Any:
            return super().execute(client, context, params)

    on(policy.deny("taking", when=lambda args: args["x"] == 1, reason=REASON))
    tool = Leading()
    assert run(tool, {"x": 1}).error == REASON
    assert run(tool, {"x": 2}).human_message == "taken"
    assert tool.got == [{"x": 2}]


def test_an_unknown_method_is_the_kits_error(on: Any, seen: Seen) -> None:
    on(policy.deny("danger", reason=REASON))
    api = HederaAgentAPI(Client(), Context(), [Taking()])
    with pytest.raises(ValueError, match="Invalid method nothing"):
        asyncio.run(api.run("nothing", {}))
    assert asyncio.run(api.run("danger", {})).error == REASON
    assert [span.name for span in seen.spans] == ["execute_tool nothing", "execute_tool danger"]


# -- responses ------------------------------------------------------------------------------------

RECEIPT = RawTransactionResponse(status="SUCCESS", error="4711")
EXECUTED = ExecutedTransactionToolResponse(human_message="4711", raw=RECEIPT, extra={"a": "4711"})
BYTES = ReturnBytesToolResponse(human_message="4711", bytes_data=b"4711")


class Own(ToolResponse):
    """A class of a user's, which no rule of ours knows."""


def transforming(make: Any) -> Any:
    @hooks.post_tool_call_transform
    def transform(result: types.ToolResult) -> Any:
        return make(result.result)

    return transform


def test_a_text_takes_the_place_of_all_but_the_receipt(on: Any) -> None:
    on(hooks=[transforming(lambda response: "[redacted]")])
    executed, unsent = run(Answering(EXECUTED), {}), run(Answering(BYTES), {})
    assert type(executed) is ExecutedTransactionToolResponse
    assert executed.raw.status == "SUCCESS"
    assert type(unsent) is ToolResponse
    for response in (executed, unsent, run(Answering(Own(human_message="4711")), {})):
        assert response.human_message == "[redacted]"
        assert "4711" not in json.dumps(response.to_dict())


def test_a_response_of_a_hook_is_the_response_and_changing_the_shown_one_is_vain(on: Any) -> None:
    def stamp(response: Any) -> Any:
        if response.human_message == "plain":
            response.human_message = response.extra["x"] = "changed in place"
            return None
        return ReturnBytesToolResponse(human_message="checked", bytes_data=response.bytes_data)

    on(hooks=[transforming(stamp)])
    response = run(Answering(BYTES), {})
    assert (type(response), response.bytes_data) == (ReturnBytesToolResponse, b"4711")
    assert response.human_message == "checked"
    plain = ToolResponse(human_message="plain")
    assert run(Answering(plain), {}) == plain == ToolResponse(human_message="plain")


def test_nothing_of_a_withheld_result_is_left(on: Any, seen: Seen) -> None:
    def fail(response: Any) -> Any:
        raise RuntimeError("no")

    on(hooks=[transforming(fail)])
    response = run(Answering(EXECUTED), {})
    assert type(response) is ToolResponse
    assert response.error == response.human_message
    assert "withheld" in response.error
    (span,) = seen.spans
    assert span.attributes[semconv.WITHHELD] is True


def test_what_is_not_a_response_stays_what_it_is(on: Any) -> None:
    on(hooks=[transforming(lambda value: "masked" if value == "a secret" else None)])
    assert run(Answering("a secret"), {}) == "masked"
    assert run(Answering({"a": 1}), {}) == {"a": 1}


def test_values_that_are_not_text_become_one() -> None:
    response = ToolResponse(human_message="old")
    assert ApiCall().with_value(response, {"a": 1}).human_message == '{"a": 1}'
    assert ApiCall().with_value(response, {1}).human_message == "{1}"


# -- errors ---------------------------------------------------------------------------------------


class Broken(Exception):
    pass


def breaking() -> Any:
    def broken(x: int) -> str:
        """Break."""
        raise Broken("no such account")

    return Phased(broken)


@phased
def test_error_hooks_get_the_exception_that_the_tool_made_an_answer_of(on: Any, seen: Seen) -> None:
    errors: list[Exception] = []

    @hooks.on_tool_error
    def recover(error: Exception) -> Any:
        errors.append(error)
        return ToolResponse(human_message="yesterday's balance")

    on(hooks=[recover])
    tool = breaking()
    direct = run(tool, {"x": 1})
    api = asyncio.run(HederaAgentAPI(Client(), Context(), [tool]).run("broken", {"x": 1}))
    assert direct == api == ToolResponse(human_message="yesterday's balance")
    assert [type(error) for error in errors] == [Broken, Broken]
    for span in seen.spans:
        assert span.attributes[semconv.RECOVERED] is True
        assert span.attributes[semconv.ERROR_TYPE].endswith("Broken")


@phased
@pytest.mark.parametrize("also", [(), ("langchain",)], ids=["alone", "beside langchain"])
def test_a_hook_may_tell_another_text(on: Any, also: Any) -> None:
    from tests.frameworks.hedera_world import NumberParameters

    @hooks.on_tool_error
    def reword(error: Exception) -> Any:
        return types.HookResult(allow=False, message="ask the treasurer")

    on(hooks=[reword], also=also)
    tool = breaking()
    tool.parameters = NumberParameters
    assert run(tool, {"x": 1}).error == "ask the treasurer"
    from hedera_agent_kit.langchain.toolkit import HederaLangchainToolkit

    (wrapped,) = HederaLangchainToolkit(Client(), configured([tool])).get_tools()
    call = {"type": "tool_call", "id": "1", "name": "broken", "args": {"x": 1}}
    message = asyncio.run(wrapped.ainvoke(call))
    assert "ask the treasurer" in message.content
    assert "no such account" not in message.content


@phased
def test_a_tool_that_handles_its_error_has_not_failed(on: Any, seen: Seen) -> None:
    class Calm(Phased):
        async def handle_error(self, error: Exception, context: Any) -> Any:
            return ToolResponse(human_message=f"never mind: {error}")

    def broken(x: int) -> str:
        """Break."""
        raise Broken("no such account")

    on(policy.deny("danger"))
    assert run(Calm(broken), {"x": 1}).human_message == "never mind: no such account"
    (span,) = seen.spans
    assert span.status.status_code is StatusCode.UNSET


@phased
def test_the_kits_own_policies_keep_working(
    on: Any, seen: Seen, client: Any, ledger: Ledger
) -> None:
    from hedera_agent_kit import MaxRecipientsPolicy, RejectToolPolicy

    on(policy.deny("danger"))
    tool = TransferHbarTool(Context())
    rejected = run(tool, transfer(5), client, hooks=[RejectToolPolicy(["transfer_hbar_tool"])])
    counted = run(tool, transfer(5, 6), client, hooks=[MaxRecipientsPolicy(1)])
    assert "Action blocked by policy" in rejected.error
    assert "Action blocked by policy" in counted.error
    assert ledger.sent == []
    assert {span.attributes[semconv.ERROR_TYPE] for span in seen.spans} == {"ValueError"}
    assert run(tool, transfer(5), client, hooks=[MaxRecipientsPolicy(1)]).error is None


# -- the ledger -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [AgentMode.AUTONOMOUS, AgentMode.RETURN_BYTES, None])
def test_a_denied_transaction_is_neither_sent_nor_returned(
    on: Any, client: Any, ledger: Ledger, mode: Any
) -> None:
    on(
        policy.deny(
            "transfer_hbar_tool", when=lambda args: len(args["transfers"]) > 1, reason=REASON
        )
    )
    tool = TransferHbarTool(Context())
    assert run(tool, transfer(5, 6), client, mode=mode) == ToolResponse(
        human_message=REASON, error=REASON
    )
    assert ledger.sent == []
    response = run(tool, transfer(5), client, mode=mode)
    assert response.error is None
    assert isinstance(response, ReturnBytesToolResponse) is (mode is AgentMode.RETURN_BYTES)
    sent = [] if mode is AgentMode.RETURN_BYTES else [["0.0.5"]]
    assert [recipients(tx) for tx in ledger.sent] == sent


def test_a_rewritten_transaction_is_the_one_that_is_sent(
    on: Any, client: Any, ledger: Ledger
) -> None:
    on(hooks=[rewriting(**transfer(9))])
    assert run(TransferHbarTool(Context()), transfer(5), client).error is None
    assert [recipients(tx) for tx in ledger.sent] == [["0.0.9"]]


@pytest.mark.parametrize("also", [(), ("langchain",)], ids=["alone", "beside langchain"])
@pytest.mark.parametrize("mode", [AgentMode.AUTONOMOUS, AgentMode.RETURN_BYTES])
def test_langchain_reads_what_was_sent_and_what_was_denied(
    on: Any, seen: Seen, client: Any, ledger: Ledger, mode: Any, also: Any
) -> None:
    """The real tool with its nested parameters, and the toolkit's own parser of its answers."""
    from hedera_agent_kit.langchain.toolkit import HederaLangchainToolkit

    def is_much(args: dict[str, Any]) -> bool:
        return any(float(one["amount"]) > 10 for one in args["transfers"])

    on(policy.deny("transfer_hbar_tool", when=is_much, reason=REASON), also=also)
    configuration = configured([TransferHbarTool(Context())], mode=mode)
    (tool,) = HederaLangchainToolkit(client, configuration).get_tools()

    def call(params: dict[str, Any]) -> str:
        asked = {"type": "tool_call", "id": "1", "name": tool.name, "args": params}
        return asyncio.run(tool.ainvoke(asked)).content

    answer = tool.responseParsingFunction(call(transfer(5, amount=1)))
    assert "error" not in answer["raw"] or answer["raw"]["error"] is None
    assert REASON in call(transfer(5, amount=11))
    assert len(ledger.sent) == (mode is AgentMode.AUTONOMOUS)
    assert [span.attributes[semconv.POLICY_DECISION] for span in seen.spans] == ["allow", "deny"]


@phased
@pytest.mark.filterwarnings("ignore:Field 'lifespan'", "ignore::DeprecationWarning")
@pytest.mark.parametrize("denied", [True, False])
@pytest.mark.parametrize("place", ["agent", "tool", "sub-agent"])
def test_a_call_that_adk_traces_has_one_span_with_the_verdict(
    on: Any, exporter: Any, tracer_provider: Any, monkeypatch: Any, denied: bool, place: str
) -> None:
    """The kit's own version of ADK is older than those that its adapter supports."""
    from google.adk.agents import LlmAgent
    from google.adk.flows.llm_flows import functions
    from google.adk.tools.agent_tool import AgentTool
    from hedera_agent_kit.adk import HederaADKToolkit

    from otelhooks.frameworks.google_adk import scripted

    tracer = tracer_provider.get_tracer("gcp.vertex.agent")
    monkeypatch.setattr(functions, "tracer", tracer)
    world = World((DANGER,), ANSWER)
    on(policy.deny("danger", reason=REASON) if denied else policy.deny("else"))
    tools = HederaADKToolkit(Client(), configured(tools_of(world, Phased))).get_tools()
    agent = LlmAgent(name="ops", model=scripted.scripted_model(world.next), tools=tools)
    transfer_to = ("transfer_to_agent", {"agent_name": "ops"})
    calls = {"tool": ("ops", {"request": "go"}), "sub-agent": transfer_to}
    if place != "agent":
        steps = iter([[calls[place]], ANSWER])
        agent = LlmAgent(
            name="outer",
            model=scripted.scripted_model(lambda shown: next(steps)),
            tools=[AgentTool(agent)] if place == "tool" else [],
            sub_agents=[agent] if place == "sub-agent" else [],
        )
    events = asyncio.run(scripted.converse(scripted.runner_of(agent), "begin"))
    assert scripted.text_of(events) == ANSWER
    assert world.bodies == ([] if denied else ["danger"])
    (span,) = [one for one in exporter.get_finished_spans() if "danger" in one.name]
    assert span.instrumentation_scope.name == "gcp.vertex.agent"
    assert span.attributes[semconv.POLICY_DECISION] == ("deny" if denied else "allow")
