"""Real frameworks that are imported a second time: both copies are guarded, side by side.

A copy is driven by the scripted agents of `otelhooks doctor --prove`, loaded once for each copy.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import anyio
import pytest

import otelhooks
from otelhooks import policy
from otelhooks.frameworks.trial import REASON
from otelhooks.patching.seats import SeatWrapper
from otelhooks.setup.catalogue import ADAPTERS
from otelhooks.setup.guarded import coverage_so_far

pytestmark = [
    pytest.mark.timeout(120),  # a framework is imported twice
    pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning"),  # by mcp 1.x
]

NEEDS = {
    "openai_agents": ("agents",),
    "langchain": ("langchain_core", "langgraph", "langchain"),
    "mcp": ("mcp",),
    "hedera_agent_kit": ("hedera_agent_kit",),
}
FURTHER = {"mcp": ("mcp_types",)}


class Copies:
    """The copies of one framework."""

    def __init__(self, framework: str) -> None:
        self.framework = framework
        self.packages = {*ADAPTERS[framework], *FURTHER.get(framework, ())}
        self.proof = f"otelhooks.frameworks.{framework}.scripted"

    def is_of_it(self, name: str) -> bool:
        return name.partition(".")[0] in self.packages or name == self.proof

    def take(self) -> dict[str, ModuleType]:
        """Take the modules of it that are imported out of `sys.modules`."""
        return {name: sys.modules.pop(name) for name in list(sys.modules) if self.is_of_it(name)}

    def load(self) -> Any:
        """Import it, and return its scripted agents."""
        proof = importlib.import_module(self.proof)
        if self.framework == "langchain":
            # langchain's own asks, when it is called, for the class that is imported by then.
            proof.convert_to_openai_tool = lambda tool: {"function": {"name": tool.name}}  # type: ignore[attr-defined]
        return proof


@pytest.fixture(params=NEEDS)
def copies(request: Any, tracer_provider: Any) -> Iterator[Copies]:
    """An instrumented framework without imported modules; earlier ones come back."""
    for name in NEEDS[request.param]:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    made = Copies(request.param)
    before = made.take()
    otelhooks.instrument(
        frameworks=[made.framework], strict=True, tracer_provider=tracer_provider, policies=[]
    )
    yield made
    otelhooks.uninstrument()
    made.take()
    sys.modules.update(before)


def rows() -> dict[str, str]:
    """State of each distribution that is in use."""
    states = {row.distribution: row.state for row in coverage_so_far()}
    return {name: state for name, state in states.items() if not state.startswith("not ")}


def wrapped(modules: Iterator[ModuleType] | list[ModuleType]) -> list[str]:
    """Names in modules, and in their classes, that hold a wrapper of ours."""
    found: list[str] = []
    for module in modules:
        for name, value in list(vars(module).items()):
            if type(value) is SeatWrapper:
                found.append(f"{module.__name__}.{name}")
            if isinstance(value, type):
                held = [each for each in vars(value) if type(vars(value)[each]) is SeatWrapper]
                found += [f"{module.__name__}.{name}.{each}" for each in held]
    return found


def test_a_copy_that_is_imported_again_denies_on_every_path(copies):
    first = copies.load()
    assert first.prove().proved
    was = rows()
    copies.take()
    second = copies.load()

    proof = second.prove()
    assert proof.proved, proof.paths
    assert rows() == was


def test_an_older_copy_denies_while_a_newer_is_imported(copies):
    """Its objects were made before; the adapter's own lookups find the newer one."""
    first = copies.load()
    run = OLDER[copies.framework](first)
    copies.take()
    second = copies.load()
    assert second.prove().proved

    held, seen = run()
    assert held, seen


def test_both_are_put_back(copies):
    copies.load().prove()
    old = copies.take()
    copies.load().prove()
    new = [module for name, module in sys.modules.items() if copies.is_of_it(name)]
    assert wrapped(list(old.values()))
    assert wrapped(new)
    otelhooks.uninstrument()

    assert wrapped([*old.values(), *new]) == []


def test_what_is_reloaded_denies(copies):
    first = copies.load()
    assert first.prove().proved
    for name in RELOADED[copies.framework]:
        importlib.reload(sys.modules[name])
    del sys.modules[copies.proof]

    assert first.prove().proved
    assert copies.load().prove().proved


Run = Callable[[], tuple[bool, str]]


def older_openai_agents(first: Any) -> Run:
    # The SDK itself asks, when it runs, for classes that are imported by then: an older runner
    # fails. A tool does not need one.
    trial = first.trials.Trial()
    danger, safe = first._agent(trial).tools
    context = importlib.import_module("agents.tool_context").ToolContext

    async def call(tool: Any, args: str) -> Any:
        given = context(context=None, tool_name=tool.name, tool_call_id="1", tool_arguments=args)
        return await tool.on_invoke_tool(given, args)

    async def play() -> list[Any]:
        return [await call(danger, '{"path": "/"}'), await call(safe, '{"x": 1}')]

    def run() -> tuple[bool, str]:
        with otelhooks.scope(policies=[policy.deny("danger", reason=REASON)]):
            told = asyncio.run(play())
        return (told, trial.ran) == ([REASON, "1"], ["safe"]), f"{told} {trial.ran}"

    return run


def older_langchain(first: Any) -> Run:
    trials = [first.trials.Trial() for _ in range(4)]
    tools = [first._tools(trial) for trial in trials[:2]]
    agents = [first._agent(trial) for trial in trials[2:]]

    async def acall(danger: Any, safe: Any) -> Any:
        return await danger.arun({"path": "/"}) + await safe.arun({"x": 1})

    def run() -> tuple[bool, str]:
        with otelhooks.scope(policies=[policy.deny("danger", reason=REASON)]):
            danger, safe = tools[0]
            trials[0].shown = danger.run({"path": "/"}) + safe.run({"x": 1})
            trials[1].shown = asyncio.run(acall(*tools[1]))
            said = agents[0].invoke(first._INPUT), asyncio.run(agents[1].ainvoke(first._INPUT))
        went_on = all(state["messages"][-1].content == "done" for state in said)
        outcomes = [trial.outcome(went_on=went_on) for trial in trials]
        return all(held for held, _ in outcomes), str(outcomes)

    return run


def older_mcp(first: Any) -> Run:
    trials = [first.trials.Trial() for _ in range(3)]
    server = first._server_of(trials[0])
    types = sys.modules["mcp.types"]
    connected = contextlib.AsyncExitStack()
    package = sys.modules["mcp"]
    memory = importlib.import_module("mcp.shared.memory")
    lowlevel = None
    if not hasattr(package, "Client"):  # 1.x, whose servers keep handlers in a table
        lowlevel = importlib.import_module("mcp.server.lowlevel").Server("prover")

        @lowlevel.call_tool(validate_input=False)
        async def call_tool(name: str, arguments: dict[str, Any]) -> list[Any]:
            text = getattr(trials[2], name)(**arguments)
            return [types.TextContent(type="text", text=text)]

    async def play() -> list[tuple[bool, str]]:
        if hasattr(package, "Client"):
            client = await connected.enter_async_context(package.Client(server))
        else:
            client = await connected.enter_async_context(
                memory.create_connected_server_and_client_session(server)
            )

        async def handle(name: str, args: dict[str, Any]) -> Any:
            params = types.CallToolRequestParams(name=name, arguments=args)
            request = types.CallToolRequest(method="tools/call", params=params)
            handlers = lowlevel.request_handlers
            return (await handlers[types.CallToolRequest](request)).root

        async with connected:
            said = [await first._play(trials[0], client.call_tool), await first._server(trials[1])]
            if lowlevel is not None:
                said.append(await first._play(trials[2], handle))
        pairs = zip(trials, said, strict=False)
        return [trial.outcome(went_on=answer == "done") for trial, answer in pairs]

    def run() -> tuple[bool, str]:
        with otelhooks.scope(policies=[policy.deny("*/danger", reason=REASON)]):
            outcomes = anyio.run(play)
        return all(held for held, _ in outcomes), str(outcomes)

    return run


def older_hedera_agent_kit(first: Any) -> Run:
    ran: list[str] = []
    ways = (first._through_api, first._directly)
    calls = [(way, first._one_step(name, ran)) for way in ways for name in ("danger", "safe")]

    async def play() -> list[Any]:
        return [await way(tool) for way, tool in calls]

    def run() -> tuple[bool, str]:
        with otelhooks.scope(policies=[policy.deny("danger", reason=REASON)]):
            told = [(type(each), each.human_message) for each in asyncio.run(play())]
        expected = [(first.ToolResponse, text) for text in (REASON, "done")] * 2
        return (told, ran) == (expected, ["safe", "safe"]), f"{told} {ran}"

    return run


OLDER: dict[str, Callable[[Any], Run]] = {
    "openai_agents": older_openai_agents,
    "langchain": older_langchain,
    "mcp": older_mcp,
    "hedera_agent_kit": older_hedera_agent_kit,
}
RELOADED = {
    "openai_agents": ("agents.run", "agents.run_internal.tool_execution"),
    "langchain": ("langchain_core.tools.base", "langchain_core.tools.structured"),
    "mcp": ("mcp.client.session", "mcp.server.lowlevel.server"),
    "hedera_agent_kit": ("hedera_agent_kit.shared.tool", "hedera_agent_kit.shared.api"),
}
