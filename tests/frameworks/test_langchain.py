"""The contract on langchain, langgraph and langchain-core; with MCP tools; with direct models."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable
from typing import Any

import anyio
import pytest

pytest.importorskip("langchain_core")

from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.records import semconv
from tests.frameworks.agents_langchain import (
    NO_V3,
    PATHS,
    ScriptedModel,
    StreamingModel,
    agent,
    begin,
    said,
)
from tests.frameworks.contract import ANSWER, REASON, SAFE, Contract, Path, Run, World

NO_MCP = (
    "" if importlib.util.find_spec("langchain_mcp_adapters") else "needs langchain-mcp-adapters"
)


class TestLangchain(Contract):
    framework = "langchain"
    paths = PATHS


# -- tools of an MCP server -----------------------------------------------------------------------


class PrefixedModel(ScriptedModel):
    """A model that knows the tools under the names that have a server's name in front."""

    def _say(self, messages: Any) -> AIMessage:
        message = super()._say(messages)
        for call in message.tool_calls:
            call["name"] = f"files_{call['name']}"
        return message


def mcp_path(model: type[ScriptedModel], server_name: str | None) -> Callable[[World], Run]:
    """Build an agent with the tools of a server in the same process."""

    def build(world: World) -> Run:
        async def run(prompt: str) -> str:
            from langchain_mcp_adapters.tools import load_mcp_tools

            from tests.frameworks.mcp_world import connected, make_server

            async with connected(make_server(world, "itself")) as session:
                tools = await load_mcp_tools(
                    session, server_name=server_name, tool_name_prefix=server_name is not None
                )
                graph = create_agent(model(world=world), tools)
                return said(await graph.ainvoke(begin(prompt)))

        return run

    return build


class TestLangchainMcp(Contract):
    """Tools of an MCP server, judged once although they pass agent, client and server."""

    framework = "langchain"
    also = ("mcp",)
    paths = (
        Path(
            "mcp",
            mcp_path(PrefixedModel, "files"),
            selector=lambda name: f"files/{name}",
            skip=NO_MCP,
            lacks={"exception_that_escapes": "the server's task ends with it, not the run"},
        ),
        Path(
            "mcp-without-server-name",
            mcp_path(ScriptedModel, None),
            selector=lambda name: f"whatever/{name}",
            skip=NO_MCP,
            lacks={"exception_that_escapes": "the server's task ends with it, not the run"},
        ),
    )


# -- models that user code calls ------------------------------------------------------------------


def _invoke(model: Any) -> Any:
    return lambda prompt: str(model.invoke(prompt).text)


def _ainvoke(model: Any) -> Any:
    async def run(prompt: str) -> str:
        return str((await model.ainvoke(prompt)).text)

    return run


def _stream(model: Any) -> Any:
    return lambda prompt: "".join(str(chunk.text) for chunk in model.stream(prompt))


def _astream(model: Any) -> Any:
    async def run(prompt: str) -> str:
        return "".join([str(chunk.text) async for chunk in model.astream(prompt)])

    return run


def _batch(model: Any) -> Any:
    return lambda prompt: str(model.batch([prompt])[0].text)


def _events(model: Any) -> Any:
    def run(prompt: str) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is beta
            return "".join(model.stream_events(prompt, version="v3").text)

    return run


def _aevents(model: Any) -> Any:
    async def run(prompt: str) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is beta
            stream = await model.astream_events(prompt, version="v3")
            return "".join([text async for text in stream.text])

    return run


NEEDS_V3 = pytest.mark.skipif(bool(NO_V3), reason=NO_V3)
CALLS = [
    pytest.param(_invoke, id="invoke"),
    pytest.param(_ainvoke, id="ainvoke"),
    pytest.param(_batch, id="batch"),
    pytest.param(_stream, id="stream"),
    pytest.param(_astream, id="astream"),
    pytest.param(_events, id="events-v3", marks=NEEDS_V3),
    pytest.param(_aevents, id="aevents-v3", marks=NEEDS_V3),
]


def ask(call: Any, world: World) -> str:
    """Ask a model once."""
    run = call(StreamingModel(world=world))
    if run.__code__.co_flags & 0x80:  # a coroutine function
        return anyio.run(run, "begin")
    return run("begin")


@pytest.fixture
def spans(exporter: Any, tracer_provider: Any) -> Callable[[], list[Any]]:
    """Return the spans that ended, by a function; `instrument` is to be given the provider."""
    return lambda: list(exporter.get_finished_spans())


@pytest.mark.parametrize("call", CALLS)
def test_a_model_that_user_code_calls_is_one_span(
    call: Any, spans: Any, tracer_provider: Any
) -> None:
    otelhooks.instrument(frameworks=["langchain"], tracer_provider=tracer_provider)
    assert ask(call, World(ANSWER)) == ANSWER
    (span,) = spans()
    assert span.attributes[semconv.GEN_AI_OPERATION_NAME] == semconv.OP_CHAT


@pytest.mark.parametrize("call", CALLS)
def test_a_model_that_user_code_calls_is_refused(call: Any) -> None:
    @hooks.pre_model_call
    def refuse(call: types.ModelCall) -> types.HookResult:
        return types.HookResult(allow=False, message=REASON)

    otelhooks.instrument(hooks=[refuse], frameworks=["langchain"])
    world = World()
    assert ask(call, world) == REASON


@pytest.mark.parametrize("call", CALLS)
def test_an_answer_that_a_hook_may_change_is_held_back(call: Any) -> None:
    @hooks.post_model_call_transform
    def rewrite(response: types.ModelResponse) -> str:
        assert response.text == ANSWER
        return "something else"

    otelhooks.instrument(hooks=[rewrite], frameworks=["langchain"])
    assert ask(call, World(ANSWER)) == "something else"


@pytest.mark.parametrize("call", [*CALLS[1:2], *CALLS[4:5], *CALLS[6:]])
def test_listeners_hear_nothing_early_of_a_model_that_streams_in_a_thread(call: Any) -> None:
    heard: list[str] = []

    class Listener(BaseCallbackHandler):
        def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
            heard.append(token)

    class InThread(StreamingModel):
        def _stream(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> Any:
            for chunk in super()._stream(messages, stop, run_manager, **kwargs):
                if run_manager is not None:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    @hooks.post_model_call_transform
    def rewrite(response: types.ModelResponse) -> str:
        return "something else"

    otelhooks.instrument(hooks=[rewrite], frameworks=["langchain"])
    run = call(InThread(world=World(ANSWER), callbacks=[Listener()]))
    assert anyio.run(run, "begin") == "something else"
    assert ANSWER not in "".join(heard)


@pytest.mark.parametrize("call", CALLS)
def test_an_answer_that_a_hook_leaves_alone_comes_through_whole(call: Any) -> None:
    @hooks.post_model_call_transform
    def look(response: types.ModelResponse) -> None:
        return None

    otelhooks.instrument(hooks=[look], frameworks=["langchain"])
    assert ask(call, World(ANSWER)) == ANSWER


def test_a_refused_model_call_of_a_given_form_raises() -> None:
    """An answer that must be a structure cannot say a reason."""

    @hooks.pre_model_call
    def refuse(call: types.ModelCall) -> types.HookResult:
        return types.HookResult(allow=False, message=REASON)

    otelhooks.instrument(hooks=[refuse], frameworks=["langchain"])
    model = ScriptedModel(world=World())
    with pytest.raises(Denied, match="Nobody"):
        model.invoke("begin", response_format={"type": "json_schema"})


def test_calls_that_a_hook_adds_to_an_answer_get_ids() -> None:
    @hooks.post_model_call_transform
    def again(response: types.ModelResponse) -> types.ModelResponse:
        more = types.ToolCall(name="safe", args={"x": 2})
        return types.ModelResponse(text=response.text, tool_calls=[*response.tool_calls, more])

    otelhooks.instrument(hooks=[again], frameworks=["langchain"])
    answer = ScriptedModel(world=World((SAFE,))).invoke("begin")
    first, second = answer.tool_calls
    assert (first["name"], first["args"], second["args"]) == ("safe", SAFE.args, {"x": 2})
    assert len({None, first["id"], second["id"]}) == 3


def test_a_hidden_tool_is_not_shown_to_the_model() -> None:
    shown: list[Any] = []

    class Looking(ScriptedModel):
        def _generate(self, messages: Any, stop: Any = None, **kwargs: Any) -> Any:
            shown.append([t["function"]["name"] for t in kwargs.get("tools", [])])
            return super()._generate(messages, stop)

    world = World((SAFE,), ANSWER)
    otelhooks.instrument(policies=[policy.hide("danger")], frameworks=["langchain"])
    assert said(agent(world, Looking).invoke(begin("begin"))) == ANSWER
    assert shown == [["safe", "broken", "slow"]] * 2


def test_no_module_of_the_framework_is_imported_by_the_adapter() -> None:
    """Instrumenting costs a program that uses no framework nothing."""
    import subprocess

    code = (
        "import otelhooks, sys\n"
        "otelhooks.instrument(frameworks=['langchain'])\n"
        "print([m for m in sys.modules if m.startswith(('langchain', 'langgraph'))])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_proof_of_the_doctor_holds_and_fails_where_nothing_is_guarded() -> None:
    """All paths of the proof hold; with the adapter off they say that the denied body ran."""
    from otelhooks.frameworks.langchain.scripted import prove

    otelhooks.instrument(frameworks=["langchain"])
    proof = prove()
    assert proof.proved, proof
    assert len(proof.paths) == 7
    otelhooks.uninstrument()
    otelhooks.instrument(frameworks={"langchain": "off"})
    assert not prove().proved
