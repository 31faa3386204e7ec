"""`RejectToolPolicy` and `MaxRecipientsPolicy`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from otelhooks import policy, types
from otelhooks.hooks import HookRunner
from otelhooks.hooks.compat.tool_policies import _COUNTERS

pytestmark = pytest.mark.anyio


async def _result(made: Any, tool: str, args: dict[str, Any]) -> types.HookResult:
    runner = HookRunner([made])
    _, turn = await runner.dispatch_pre_turn("hi")
    result, _, _ = await runner.dispatch_pre_tool_call(turn, types.ToolCall(name=tool, args=args))
    return result


def _accounts(n: int) -> list[dict[str, Any]]:
    return [{"account_id": f"0.0.{i}", "amount": 1} for i in range(n)]


class TestRejectTool:
    async def test_it_denies_its_tools_and_no_others(self) -> None:
        made = policy.RejectToolPolicy(["delete_account"])
        denied = await _result(made, "delete_account", {})
        assert denied.message == "Action blocked by policy: Reject Tool Policy"
        assert (await _result(made, "get_account", {})).allow

    async def test_a_name_as_text_is_an_error(self) -> None:
        with pytest.raises(TypeError, match="list of names"):
            HookRunner([policy.RejectToolPolicy("delete_account")])


class TestMaxRecipients:
    @pytest.mark.parametrize(
        ("tool", "field"),
        [
            ("transfer_hbar_tool", "transfers"),
            ("transfer_hbar_with_allowance_tool", "transfers"),
            ("airdrop_fungible_token_tool", "recipients"),
            ("transfer_fungible_token_with_allowance_tool", "transfers"),
            ("transfer_non_fungible_token_with_allowance_tool", "recipients"),
            ("transfer_non_fungible_token_tool", "recipients"),
        ],
    )
    async def test_the_bound_is_inclusive(self, tool: str, field: str) -> None:
        made = policy.MaxRecipientsPolicy(2)
        assert (await _result(made, tool, {field: _accounts(2)})).allow
        denied = await _result(made, tool, {field: _accounts(3)})
        assert denied.message == (
            "Action blocked by policy: Max Recipients Policy "
            "(Limits the maximum number of recipients to 2)"
        )
        nested = {"kwargs": {field: _accounts(3)}}  # as the kit's MCP server is called
        assert not (await _result(made, tool, nested)).allow

    def test_every_tool_of_the_kit_has_a_counter(self) -> None:
        assert set(policy.MaxRecipientsPolicy(1).relevant_tools) == set(_COUNTERS)

    @pytest.mark.parametrize(
        ("tool", "normalized", "count"),
        [
            ("transfer_hbar_tool", {"hbar_transfers": {"a": 5, "b": 6, "me": -11}}, 2),
            (
                "transfer_hbar_with_allowance_tool",
                {"hbar_approved_transfers": {"a": 5, "me": -5}},
                1,
            ),
            ("airdrop_fungible_token_tool", {"token_transfers": ["a", "b", "c"]}, 3),
            (
                "transfer_fungible_token_with_allowance_tool",
                {"ft_approved_transfer": {"t": {"a": 1, "me": -1}, "u": {"b": 2}}},
                2,
            ),
            (
                "transfer_non_fungible_token_with_allowance_tool",
                {"nft_approved_transfer": {"t": ["a", "b"]}},
                2,
            ),
            ("transfer_non_fungible_token_tool", {"nft_transfers": {"t": ["a"], "u": ["b"]}}, 2),
        ],
    )
    def test_what_the_kit_has_normalized_is_counted_as_it_counts(
        self, tool: str, normalized: dict[str, Any], count: int
    ) -> None:
        assert _COUNTERS[tool](SimpleNamespace(**normalized)) == count

    async def test_an_account_that_is_named_twice_is_one_recipient(self) -> None:
        args = {"transfers": _accounts(2) * 3}
        assert (await _result(policy.MaxRecipientsPolicy(2), "transfer_hbar_tool", args)).allow

    @pytest.mark.parametrize(
        "args",
        [
            {},
            {"transfers": None},
            {"transfers": "0.0.1"},
            {"transfers": 3},
            {"transfers": [{"account": "0.0.1"}]},
            {"transfers": [3]},
            {"transfers": {"0.0.1": "much"}},
            {"kwargs": {"kwargs": {}}},
            # The tool reads `transfers`, so counting the other would be wrong.
            {"hbar_transfers": {}, "transfers": [{"account_id": "0.0.1"}]},
            {"kwargs": {"transfers": [{"account_id": "0.0.1"}]}, "transfers": []},
        ],
    )
    async def test_recipients_in_a_form_that_cannot_be_counted_deny(
        self, args: dict[str, Any]
    ) -> None:
        made = policy.MaxRecipientsPolicy(100)
        assert not (await _result(made, "transfer_hbar_tool", args)).allow

    @pytest.mark.parametrize("recipients", [None, "0.0.1", {"0.0.1": 1}])
    async def test_recipients_of_an_airdrop_are_a_list(self, recipients: Any) -> None:
        made = policy.MaxRecipientsPolicy(100)
        args = {"recipients": recipients}
        assert not (await _result(made, "airdrop_fungible_token_tool", args)).allow

    async def test_a_further_tool_needs_a_counter(self) -> None:
        denied = await _result(policy.MaxRecipientsPolicy(9, ["pay"]), "pay", {"to": ["a"]})
        assert not denied.allow
        assert "`pay`" in denied.message
        assert "custom_strategies" in denied.message
        made = policy.MaxRecipientsPolicy(1, ["pay"], {"pay": lambda args: len(args["to"])})
        assert (await _result(made, "pay", {"to": ["a"]})).allow
        assert not (await _result(made, "pay", {"to": ["a", "b"]})).allow
        assert not (await _result(made, "pay", {})).allow

    @pytest.mark.parametrize("count", [None, "2", 1.5, True])
    async def test_a_counter_that_counts_nothing_denies(self, count: Any) -> None:
        made = policy.MaxRecipientsPolicy(9, ["pay"], {"pay": lambda args: count})
        assert not (await _result(made, "pay", {})).allow

    async def test_other_tools_are_none_of_its_business(self) -> None:
        assert (await _result(policy.MaxRecipientsPolicy(0), "get_account", {})).allow

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (("3",), TypeError),
            ((True,), TypeError),
            ((-1,), ValueError),
            ((1, "pay"), TypeError),
        ],
    )
    def test_arguments_of_another_kind_are_errors(
        self, arguments: tuple[Any, ...], error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            policy.MaxRecipientsPolicy(*arguments)
