"""The contract on langchain-classic's `AgentExecutor`, and what other chains are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain_classic")

from langchain_classic.chains.base import Chain

import otelhooks
from otelhooks import hooks, types
from otelhooks.records import semconv
from tests.frameworks.agents_executor import PATHS
from tests.frameworks.contract import REASON, Contract


class TestExecutor(Contract):
    framework = "langchain"
    paths = PATHS


class Echo(Chain):
    """A chain that repeats its input, through another one if it has one."""

    inner: Any = None

    @property
    def input_keys(self) -> list[str]:
        return ["q"]

    @property
    def output_keys(self) -> list[str]:
        return ["a"]

    def _call(self, inputs: Any, run_manager: Any = None) -> Any:
        return {"a": inputs["q"]} if self.inner is None else self.inner.invoke({"q": inputs["q"]})


@pytest.fixture
def start(with_rules: Callable[..., otelhooks.Handle]) -> Callable[..., otelhooks.Handle]:
    """Instrument with rules and settings."""
    return functools.partial(with_rules, frameworks=["langchain"])


def test_a_chain_that_is_not_an_agent_is_one_workflow_with_all_that_is_in_it(
    start: Any, exporter: Any
) -> None:
    start()
    assert Echo(inner=Echo()).invoke({"q": "x"}) == {"q": "x", "a": "x"}
    (span,) = exporter.get_finished_spans()
    assert span.attributes[semconv.GEN_AI_OPERATION_NAME] == semconv.OP_INVOKE_WORKFLOW


def test_a_refused_chain_says_the_reason(start: Any) -> None:
    @hooks.pre_turn
    def refuse(prompt: Any) -> types.HookResult:
        return types.HookResult(allow=prompt != "x", message=REASON)

    start(hooks=[refuse])
    assert Echo().invoke({"q": "x"}) == {"q": "x", "a": REASON}
    assert Echo().invoke({"q": "y"}) == {"q": "y", "a": "y"}
