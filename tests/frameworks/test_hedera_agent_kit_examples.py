"""The examples on hedera-agent-kit: its tools, in an agent of langchain."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

pytest.importorskip("hedera_agent_kit")

from pydantic import create_model

from tests.examples.performance import Examples
from tests.examples.stage import Difference
from tests.frameworks.hedera_world import HAS_PHASES, Client, OneStep, Phased, configured
from tests.frameworks.scenarios import Scenarios
from tests.frameworks.test_langchain_examples import Langchain

pytestmark = pytest.mark.timeout(120)  # importing the framework takes long on a busy machine


FORM = Difference(
    "(saw view_file:|view_file gave) (.*)$",
    r'\1 {\n  "human_message": "\2",\n  "error": null\n}',
    "the kit's tools answer in a form of their own",
)
FAILURES = Difference(
    r"\[RateError\]$", "[tool_error]", "a tool in steps tells of a failure in its answer"
)


class Kit(Langchain):
    """An agent of langchain with the tools of a toolkit of the kit."""

    framework = "hedera_agent_kit"
    also = ("langchain",)
    differences = (*Langchain.differences, FORM, *([FAILURES] if HAS_PHASES else []))

    def tools(self, bodies: Iterable[Callable[..., Any]]) -> list[Any]:
        from hedera_agent_kit.langchain.toolkit import HederaLangchainToolkit

        kit = configured([made(body) for body in bodies])
        return HederaLangchainToolkit(Client(), kit).get_tools()


def made(body: Callable[..., Any]) -> Any:
    """Return a tool of the kit, of the newest generation that there is."""
    tool = (Phased if HAS_PHASES else OneStep)(body)
    fields: Any = {
        name: (
            parameter.annotation,
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for name, parameter in inspect.signature(body, eval_str=True).parameters.items()
    }
    tool.parameters = create_model("Parameters", **fields)
    return tool


class TestExamples(Examples):
    host = Kit()


class TestScenarios(Scenarios):
    host = Kit()
