"""Prove a deny with the real Hedera Agent Kit: the API and tool objects, of both generations."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from hedera_agent_kit.shared.api import HederaAgentAPI
from hedera_agent_kit.shared.configuration import Context
from hedera_agent_kit.shared.models import ToolResponse
from hedera_agent_kit.shared.tool import Tool

from otelhooks.frameworks.kit import trials

__all__ = ["prove"]


class _Client:
    """Everything that the kit needs of a client as long as nothing is sent."""

    network = "offline"


def _one_step(name: str, ran: list[str]) -> Tool:
    class OneStep(Tool):
        """A tool of the first generation."""

        method = name

        async def execute(self, client: Any, context: Any, params: Any) -> ToolResponse:
            ran.append(name)
            return ToolResponse(human_message="done")

    return OneStep()


def _phased(name: str, ran: list[str]) -> Tool:
    base: Any = importlib.import_module("hedera_agent_kit.shared.tool_v2").BaseToolV2

    class Phased(base):
        """A tool of the second generation, whose first step is irrelevant here."""

        method = name

        async def normalize_params(self, params: Any, context: Any, client: Any) -> Any:
            ran.append(name)
            return params

        async def core_action(self, normalized_params: Any, context: Any, client: Any) -> Any:
            return ToolResponse(human_message="done")

        async def should_secondary_action(self, core_result: Any, context: Any) -> bool:
            return False

    return Phased()


async def _through_api(tool: Any) -> Any:
    client: Any = _Client()
    return await HederaAgentAPI(client, Context(), [tool]).run(tool.method, {})


async def _directly(tool: Any) -> Any:
    return await tool.execute(_Client(), Context(), {})


def _path(make: Callable[..., Tool], call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def run(trial: trials.Trial) -> Any:
        denied, allowed = [await call(make(name, trial.ran)) for name in ("danger", "safe")]
        trial.shown = str(denied.error)
        return allowed.human_message

    return run


_makers = {"one step": _one_step}
if importlib.util.find_spec("hedera_agent_kit.shared.tool_v2") is not None:
    _makers["phased"] = _phased
_WAYS = {"API": _through_api, "tool object": _directly}
prove = trials.Proving(
    "hedera_agent_kit",
    {
        f"{way}, {kind}": _path(make, call)
        for kind, make in _makers.items()
        for way, call in _WAYS.items()
    },
)
