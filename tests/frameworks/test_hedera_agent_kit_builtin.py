"""The kit's own tools: each reaches the network, and is of that kind on every path."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("hedera_agent_kit")

import hedera_agent_kit
from hedera_agent_kit import HederaAgentAPI, Tool
from hedera_agent_kit.langchain.tool import HederaAgentKitTool
from hedera_agent_kit.plugins.core_misc_query_plugin.get_exchange_rate_tool import (
    GetExchangeRateTool,
)
from hedera_agent_kit.shared.configuration import Context

from otelhooks import policy
from otelhooks.frameworks.hedera_agent_kit.calls import kind_of
from otelhooks.patching.builtin import key_of
from tests.frameworks import builtin_tools
from tests.frameworks.hedera_fixtures import on  # noqa: F401  # fixtures
from tests.frameworks.hedera_world import Client, OneStep

REASON = "Nothing leaves this machine."
FORMS = {"hedera_agent_kit.shared.tool:Tool", "hedera_agent_kit.shared.tool_v2:BaseToolV2"}


def test_every_tool_that_the_installed_release_brings_along_is_of_a_known_kind() -> None:
    """One that lies elsewhere is red: decide what it is to rules."""
    builtin_tools.import_all(hedera_agent_kit)
    found = builtin_tools.below(Tool, "hedera_agent_kit")
    tools = {cls for cls in found if key_of(cls) not in FORMS}
    assert len(tools) > 30
    assert [cls for cls in tools if kind_of(object.__new__(cls)) != "net"] == []


@pytest.mark.parametrize("path", ["execute", "api", "langchain"])
@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_tool_of_the_kit_is_denied_as_one_that_reaches_the_network(
    path: str, is_renamed: bool, on: Any
) -> None:
    class Mine(GetExchangeRateTool):
        def __init__(self) -> None:
            super().__init__(Context())
            self.method = "cheer"

    tool = Mine() if is_renamed else GetExchangeRateTool(Context())
    api = HederaAgentAPI(Client(), Context(), [tool])
    on(policy.veto("kind:net", reason=REASON), also=("langchain",))
    if path == "execute":
        told = asyncio.run(tool.execute(Client(), Context(), {})).error
    elif path == "api":
        told = asyncio.run(api.run(tool.method, {})).error
    else:
        wrapper = HederaAgentKitTool(api, tool.method, tool.parameters, "Rates.", "rates")
        told = str(asyncio.run(wrapper.ainvoke({})))
    assert REASON in told


def test_a_tool_of_ones_own_has_no_kind(on: Any) -> None:
    ran: list[str] = []

    def danger(path: str) -> str:
        """Remove a path."""
        ran.append(path)
        return "removed"

    on(policy.veto("kind:net"))
    asyncio.run(OneStep(danger).execute(Client(), Context(), {"path": "/etc"}))
    assert ran == ["/etc"]
