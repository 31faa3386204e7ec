"""The kit's tools and toolkits over a world, and a client that never leaves the machine."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
from collections.abc import Callable
from typing import Any

from hedera_agent_kit import Configuration, HederaAgentAPI, Plugin, Tool
from hedera_agent_kit.shared.configuration import Context
from hedera_agent_kit.shared.models import ToolResponse
from pydantic import BaseModel

from otelhooks.patching.versions import at_least
from tests.frameworks.contract import Path, Run, World

VERSION = importlib.metadata.version("hedera-agent-kit")
HAS_MCP, HAS_ADK = at_least(VERSION, "3.2"), at_least(VERSION, "3.3")
HAS_PHASES = at_least(VERSION, "3.4")

if HAS_PHASES:
    from hedera_agent_kit import BaseToolV2
else:
    BaseToolV2 = Tool

OLD = "" if HAS_PHASES else "tools have one step before 3.4"


class Client:
    """All that the kit wants of a client as long as nothing is sent."""

    network = "offline"


class PathParameters(BaseModel):
    """Of ``danger``."""

    path: str


class NumberParameters(BaseModel):
    """Of the other tools."""

    x: int


async def awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class _Named:
    """What both generations have: the name, which is the body's, and a schema."""

    def __init__(self, body: Callable[..., Any], name: str = "") -> None:
        self.body = body
        self.method = name or body.__name__
        self.name = f"{self.method} of the world"
        self.description = str(body.__doc__)
        self.parameters = PathParameters if self.method == "danger" else NumberParameters


class OneStep(_Named, Tool):
    """A tool of the first generation."""

    async def execute(self, client: Any, context: Any, params: Any) -> ToolResponse:
        return ToolResponse(human_message=await awaited(self.body(**params)))


class Phased(_Named, BaseToolV2):
    """A tool of the second generation; its work is its second step."""

    async def normalize_params(self, params: Any, context: Any, client: Any) -> Any:
        return dict(params)

    async def core_action(self, normalized_params: Any, context: Any, client: Any) -> Any:
        return normalized_params

    async def secondary_action(self, core_result: Any, client: Any, context: Any) -> Any:
        return ToolResponse(human_message=await awaited(self.body(**core_result)))

    if not HAS_PHASES:

        async def execute(self, client: Any, context: Any, params: Any) -> ToolResponse:
            raise NotImplementedError


class Overriding(Phased):
    """A tool whose own ``execute`` calls the kit's."""

    async def execute(self, client: Any, context: Any, params: Any) -> ToolResponse:
        return await super().execute(client, context, params)


def tools_of(world: World, kind: type[Any] = OneStep) -> list[Any]:
    """Return the world's bodies as tools of a class."""
    return [kind(getattr(world, name)) for name in ("danger", "safe", "broken", "slow")]


def configured(tools: list[Any], **context: Any) -> Configuration:
    """Return a configuration that has tools."""
    plugin = Plugin(name="world", tools=lambda _: tools)
    return Configuration(plugins=[plugin], context=Context(account_id="0.0.2", **context))


def said(response: Any) -> str:
    """Return what a model would be shown of a response."""
    return json.dumps(response.to_dict())


# -- paths ----------------------------------------------------------------------------------------


def played(world: World, call: Callable[[str, dict[str, Any]], Any]) -> Run:
    async def run(prompt: str) -> str:
        return await world.aplay(call, prompt)

    return run


def api_path(kind: type[Any]) -> Callable[[World], Run]:
    """Build a program that calls tools through the API."""

    def build(world: World) -> Run:
        api = HederaAgentAPI(Client(), Context(), tools_of(world, kind))

        async def call(name: str, args: dict[str, Any]) -> str:
            return said(await api.run(name, args))

        return played(world, call)

    return build


def direct_path(kind: type[Any], read: Callable[..., Any] | None = None) -> Callable[[World], Run]:
    """Build a program that calls tool objects.

    Args:
        kind: Class of the tools.
        read: Makes parameters of the arguments and the tool; by default they are a dict.
    """

    def build(world: World) -> Run:
        tools = {tool.method: tool for tool in tools_of(world, kind)}

        async def call(name: str, args: dict[str, Any]) -> str:
            params = args if read is None else read(tools[name], args)
            return said(await tools[name].execute(Client(), Context(), params))

        return played(world, call)

    return build


def langchain_tools(world: World, kind: type[Any] = OneStep) -> dict[str, Any]:
    from hedera_agent_kit.langchain.toolkit import HederaLangchainToolkit

    toolkit = HederaLangchainToolkit(Client(), configured(tools_of(world, kind)))
    return {tool.name: tool for tool in toolkit.get_tools()}


def langchain_path(kind: type[Any]) -> Callable[[World], Run]:
    """Build a program that calls the toolkit's tools for langchain."""

    def build(world: World) -> Run:
        tools = langchain_tools(world, kind)

        async def call(name: str, args: dict[str, Any]) -> str:
            return str(await tools[name].ainvoke(args))

        return played(world, call)

    return build


def agent_path(kind: type[Any]) -> Callable[[World], Run]:
    """Build an agent of langchain."""

    def build(world: World) -> Run:
        from langchain.agents import create_agent

        from tests.frameworks.agents_langchain import ScriptedModel, begin
        from tests.frameworks.agents_langchain import said as answer

        agent = create_agent(
            ScriptedModel(world=world), list(langchain_tools(world, kind).values())
        )

        async def run(prompt: str) -> str:
            return answer(await agent.ainvoke(begin(prompt)))

        return run

    return build


def adk_path(kind: type[Any]) -> Callable[[World], Run]:
    """Build a program that calls the toolkit's tools for Google's ADK."""

    def build(world: World) -> Run:
        from hedera_agent_kit.adk import HederaADKToolkit

        toolkit = HederaADKToolkit(Client(), configured(tools_of(world, kind)))
        tools = {tool.name: tool for tool in toolkit.get_tools()}

        async def call(name: str, args: dict[str, Any]) -> str:
            return json.dumps(await tools[name].run_async(args=args, tool_context=None))

        return played(world, call)

    return build


def mcp_server(tools: list[Any]) -> Any:
    """Return the toolkit's server."""
    from hedera_agent_kit.mcp import HederaMCPToolkit

    return HederaMCPToolkit(Client(), configured(tools)).server


def mcp_path(kind: type[Any]) -> Callable[[World], Run]:
    """Build a host that calls the toolkit's server."""

    def build(world: World) -> Run:
        from tests.frameworks.mcp_world import connected, text_of

        server = mcp_server(tools_of(world, kind))

        async def run(prompt: str) -> str:
            async with connected(server) as client:

                async def call(name: str, args: dict[str, Any]) -> str:
                    return text_of(await client.call_tool(name, {"kwargs": args}))

                return await world.aplay(call, prompt)

        return run

    return build


def path(name: str, build: Callable[[World], Run], **settings: Any) -> Path:
    return Path(name, build, **{"has_run": False, "has_model": False, **settings})


# -- the ledger -----------------------------------------------------------------------------------


def offline_client() -> Any:
    """Return a real client with a new key and a node that is never asked."""
    from hiero_sdk_python import AccountId, Client, Network, PrivateKey
    from hiero_sdk_python.node import _Node

    nodes = [_Node(AccountId(0, 0, 3), "localhost:50211", None)]
    client = Client(Network("local", nodes=nodes))
    client.set_operator(AccountId(0, 0, 2), PrivateKey.generate_ed25519())
    return client


def transfer(*accounts: int, amount: float = 1) -> dict[str, Any]:
    """Return parameters of the kit's tool that transfers HBAR."""
    transfers = [{"account_id": f"0.0.{account}", "amount": amount} for account in accounts]
    return {"transfers": transfers, "source_account_id": "0.0.2"}


def recipients(transaction: Any) -> list[str]:
    """Return who gets something by a transaction."""
    return [str(one.account_id) for one in transaction.hbar_transfers if one.amount > 0]


class Ledger:
    """The network's place: keeps what would have left the machine."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def handle(
        self, strategy: Any, tx: Any, client: Any, context: Any, post_process: Any = None
    ) -> Any:
        """Replace `ExecuteStrategy.handle`."""
        from hedera_agent_kit.shared import models
        from hiero_sdk_python import AccountId, TransactionId

        self.sent.append(tx)
        receipt = models.RawTransactionResponse(
            status="SUCCESS", transaction_id=TransactionId.generate(AccountId(0, 0, 2))
        )
        return models.ExecutedTransactionToolResponse(
            raw=receipt, human_message=post_process(receipt)
        )
