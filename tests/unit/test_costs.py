"""What model calls cost: on spans, the conversation's end and metrics; unknown is never 0."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import otelhooks
from otelhooks import policy, types
from otelhooks.errors import ConfigError, Denied
from otelhooks.policy import prices
from otelhooks.policy.prices import LIST, Prices
from otelhooks.records import semconv

MILLION = 1_000_000
OWN = {"m-*": {"input": 2, "output": 4}}


def usage(read: int, written: int, **further: int) -> types.Usage:
    return types.Usage(input_tokens=read, output_tokens=written, **further)


def tokens(read: int, written: int) -> dict[str, int]:
    return {"input_tokens": read, "output_tokens": written}


def ask(model: str, used: types.Usage | None) -> Any:
    """Call a model that answers with a usage."""

    @otelhooks.model_call(model=model, provider="openai")
    def call(messages: Any) -> types.ModelResponse:
        return types.ModelResponse(text="answer", usage=used)

    return call("hello")


def cost_of(attributes: Any) -> tuple[Any, Any]:
    return attributes.get(semconv.COST_USD), attributes.get(semconv.COST_UNKNOWN)


class TestListPrices:
    table = json.loads(Path(prices.__file__).with_name("prices.json").read_text("utf-8"))

    def test_the_table_names_its_source_and_date(self) -> None:
        assert self.table["unit"] == "US dollars per million tokens"
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", self.table["as_of"])
        assert "LiteLLM" in self.table["source"]

    def test_every_entry_is_a_price_that_is_not_0(self) -> None:
        assert Prices(self.table["models"])
        for model, price in self.table["models"].items():
            assert price["input"] > 0, model
            assert price["output"] > 0, model

    @pytest.mark.parametrize("maker", ["gpt-", "claude-", "gemini-"])
    def test_it_knows_models_of_each_maker(self, maker: str) -> None:
        assert sum(model.startswith(maker) for model in self.table["models"]) >= 10

    @pytest.mark.parametrize(
        "name",
        [
            "gpt-4o",
            "gpt-4o-2024-11-20",
            "openai/gpt-4o",
            "openai:gpt-4o-2024-11-20",
        ],
    )
    def test_snapshots_and_names_with_their_maker_cost_the_same(self, name: str) -> None:
        assert LIST.cost((name,), tokens(MILLION, MILLION)) == 12.5

    def test_a_snapshot_with_a_price_of_its_own_has_that(self) -> None:
        assert LIST.cost(("gpt-4o-2024-05-13",), tokens(MILLION, 0)) == 5

    @pytest.mark.parametrize(
        "name", ["", "gpt-4o-next", "my-gpt-4o", "azure/gpt-4o", "gpt", "scripted"]
    )
    def test_other_names_are_not_known(self, name: str) -> None:
        assert not LIST.knows(name)

    def test_long_inputs_cost_more_where_the_maker_says_so(self) -> None:
        assert LIST.cost(("gemini-2.5-pro",), tokens(200_000, 0)) == pytest.approx(0.25)
        assert LIST.cost(("gemini-2.5-pro",), tokens(200_001, 0)) == pytest.approx(0.5000025)

    def test_names_that_are_never_asked_for_twice_take_no_more_memory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(prices, "_MAX_FOUND", 1)
        table = Prices(OWN)
        for name in ("m-1", "m-2", "m-2"):
            assert table.cost((name,), tokens(MILLION, 0)) == 2
        assert len(table._found) == 1


class TestSpans:
    def test_a_call_its_turn_and_its_conversation_say_what_they_cost(self, governed: Any) -> None:
        governed(prices=OWN)
        with otelhooks.session("c"):
            for _ in range(2):
                with otelhooks.turn("hello", agent="a"):
                    ask("m-1", usage(MILLION, MILLION))
        assert [cost_of(s.attributes) for s in governed.spans] == [(6, None)] * 4
        [end] = governed.event(semconv.EVENT_SESSION_END)
        assert cost_of(end) == (12, None)
        [point] = governed.points(semconv.METRIC_COST_USD)
        assert point.value == 12
        assert point.attributes[semconv.GEN_AI_REQUEST_MODEL] == "m-1"
        assert governed.points(semconv.METRIC_COST_UNKNOWN) == []
        governed.check()

    def test_an_unknown_cost_is_counted_as_unknown_not_as_0(self, governed: Any) -> None:
        governed()
        with otelhooks.session("c"), otelhooks.turn("hello", agent="a"):
            ask("nobody-knows", usage(5, 5))
            ask("gpt-4o", None)
        assert [cost_of(span.attributes) for span in governed.spans] == [
            (None, 1),
            (None, 1),
            (None, 2),
        ]
        [end] = governed.event(semconv.EVENT_SESSION_END)
        assert cost_of(end) == (None, 2)
        assert governed.total(semconv.METRIC_COST_UNKNOWN) == 2
        assert governed.points(semconv.METRIC_COST_USD) == []
        governed.check()

    def test_a_sum_of_which_a_part_is_unknown_says_so(self, governed: Any) -> None:
        governed(prices=OWN)
        with otelhooks.turn("hello", agent="a"):
            ask("m-1", usage(MILLION, 0))
            ask("nobody-knows", usage(5, 5))
        assert cost_of(governed.attributes("invoke_agent a")) == (2, 1)

    def test_a_turn_includes_its_sub_agents(self, governed: Any) -> None:
        governed(prices=OWN)

        @otelhooks.agent(name="writer")
        def writer(task: str) -> str:
            ask("m-2", usage(MILLION, 0))
            return "done"

        with otelhooks.turn("hello", agent="lead"):
            ask("m-1", usage(MILLION, 0))
            writer("write")
        assert cost_of(governed.attributes("invoke_agent writer")) == (2, None)
        assert cost_of(governed.attributes("invoke_agent lead")) == (4, None)

    def test_a_single_span_of_a_conversation_has_the_sum(self, governed: Any) -> None:
        governed(prices=OWN)
        with otelhooks.session("c", trace="single"), otelhooks.turn("hello", agent="a"):
            ask("m-1", usage(MILLION, 0))
        assert cost_of(governed.attributes("session")) == (2, None)

    def test_what_did_not_reach_the_model_costs_nothing(self, governed: Any) -> None:
        def refuse(call: types.ModelCall) -> types.HookResult:
            return types.HookResult(allow=False, message="no")

        governed(hooks=[otelhooks.hooks.pre_model_call(refuse)], prices=OWN)
        with otelhooks.turn("hello", agent="a"), pytest.raises(Denied):
            ask("m-1", usage(MILLION, 0))
        assert [cost_of(span.attributes) for span in governed.spans] == [(None, None)] * 2

    def test_costs_can_be_left_out(self, governed: Any) -> None:
        governed(prices=False)
        ask("gpt-4o", usage(5, 5))
        assert cost_of(governed.attributes("chat gpt-4o")) == (None, None)


class TestSetting:
    def test_own_prices_go_before_the_list(self, governed: Any) -> None:
        governed(prices={"gpt-4o": (1, 1)})
        ask("gpt-4o", usage(MILLION, 0))
        ask("gpt-4.1", usage(MILLION, 0))
        assert [cost_of(span.attributes)[0] for span in governed.spans] == [1, 2]

    def test_a_function_that_knows_none_leaves_it_to_the_list(self, governed: Any) -> None:
        governed(prices=lambda model, used: 7 if model == "m-1" else None)
        ask("m-1", usage(1, 0))
        ask("gpt-4.1", usage(MILLION, 0))
        assert [cost_of(span.attributes)[0] for span in governed.spans] == [7, 2]

    @pytest.mark.parametrize("as_models", [True, False])
    def test_the_variable_names_a_file(
        self, governed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_models: bool
    ) -> None:
        file = tmp_path / "prices.json"
        file.write_text(json.dumps({"models": OWN} if as_models else OWN), "utf-8")
        monkeypatch.setenv("OTELHOOKS_PRICES", str(file))
        governed()
        ask("m-1", usage(MILLION, 0))
        assert cost_of(governed.attributes("chat m-1")) == (2, None)

    def test_or_switches_costs_off(self, governed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTELHOOKS_PRICES", "off")
        assert governed().config.prices is False

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"m": 3}, "is not a price"),
            (3, "not a table of prices"),
            ("nowhere.json", "`nowhere.json`, which cannot be read"),
            (
                {"m": {"input": 1, "output": 1, "above": {"input": 1, "output": 1}}},
                "is not a price",
            ),
            ({"m": {"input": 1, "output": 1, "above": 200_000}}, "is not a price"),
        ],
    )
    def test_what_is_no_table_is_an_error(self, given: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=re.escape(message)):
            otelhooks.instrument(prices=given)


class TestBudgets:
    def test_a_budget_has_the_list_prices(self, governed: Any) -> None:
        governed(policies=[policy.Budget(cost_usd=2)])
        ask("gpt-4o", usage(MILLION, 0))
        with pytest.raises(Denied, match=re.escape("2.5000 of 2.0000 USD")):
            ask("gpt-4o", usage(1, 0))
        with pytest.raises(Denied, match="the model has no price"):
            ask("nobody-knows", usage(1, 0))

    def test_or_those_of_the_application_also_with_costs_off_the_spans(self, governed: Any) -> None:
        governed(policies=[policy.Budget(cost_usd=1)], prices=OWN)
        ask("m-1", usage(MILLION, 0))
        with pytest.raises(Denied, match=re.escape("2.0000 of 1.0000 USD")):
            ask("m-1", usage(1, 0))
        otelhooks.uninstrument()
        governed(policies=[policy.Budget(cost_usd=1)], prices=False)
        with pytest.raises(Denied, match="the model has no price"):
            ask("m-1", usage(1, 0))
        ask("gpt-4o", usage(1, 0))

    def test_a_policy_file_needs_no_prices(self, governed: Any, tmp_path: Path) -> None:
        file = tmp_path / "p.yaml"
        file.write_text("policies: [{budget: {cost_usd: 2}}]\n", "utf-8")
        governed(policies=[file])
        ask("gpt-4o", usage(MILLION, 0))
        with pytest.raises(Denied, match=r"of 2\.0000 USD"):
            ask("gpt-4o", usage(1, 0))
