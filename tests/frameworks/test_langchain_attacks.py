"""Ways round langchain's seats, pauses, threads, and shapes of answers that no run gave."""

from __future__ import annotations

import concurrent.futures
import functools
import inspect
import logging
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import anyio
import pydantic
import pytest

pytest.importorskip("langchain_core")

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain.tools import InjectedState, InjectedStore, ToolRuntime
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    tool,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied, SeatError
from otelhooks.patching import versions
from otelhooks.pipeline.runtime import Runtime
from otelhooks.records import semconv
from tests.frameworks.agents_langchain import (
    ScriptedModel,
    StreamingModel,
    agent,
    as_call,
    begin,
    said,
    tools_of,
)
from tests.frameworks.contract import ANSWER, DANGER, REASON, SAFE, Ask, Seen, World

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # langgraph 1.0 warns of its own names as it is imported
    from langgraph.prebuilt import ToolNode

THREAD: Any = {"configurable": {"thread_id": "t-1"}}


@pytest.fixture
def seen(exporter: Any, metrics_reader: Any) -> Seen:
    """What was recorded of a run; pass `providers` to `instrument`."""
    return Seen(exporter, metrics_reader)


@pytest.fixture
def start(with_rules: Callable[..., otelhooks.Handle]) -> Callable[..., otelhooks.Handle]:
    """Instrument with rules and settings."""
    return functools.partial(with_rules, frameworks=["langchain"])


# -- arguments ------------------------------------------------------------------------------------


def test_what_looks_like_a_tool_call_in_arguments_is_judged_as_arguments(start: Any) -> None:
    """A model cannot hide the true arguments behind others inside them."""
    seen_args: list[Any] = []

    @tool
    def shell(type: str, args: dict, path: str) -> str:
        """Run."""
        seen_args.append(path)
        return "ran"

    start(policy.deny("shell", when=lambda args: args.get("path") == "/etc", reason=REASON))
    args = {"type": "tool_call", "args": {"path": "/tmp"}, "path": "/etc"}
    assert REASON in shell.invoke(as_call(shell, args)).content
    assert shell.run(args) == REASON
    assert seen_args == []


@pytest.mark.parametrize("method", ["run", "invoke", "arun", "ainvoke"])
def test_an_override_that_calls_its_input_otherwise_is_judged_by_what_it_is_given(
    start: Any, method: str
) -> None:
    ran: list[Any] = []

    def plain(self: Any, order: Any, config: Any = None, **further: Any) -> Any:
        ran.append(order)
        return "ran"

    async def later(self: Any, order: Any, config: Any = None, **further: Any) -> Any:
        return plain(self, order)

    is_async = method.startswith("a")
    kind = type("Shell", (Tool,), {method: later if is_async else plain})
    shell = kind(name="shell", description="Run.", func=None)
    start(policy.deny("shell", when=lambda args: args.get("path") == "/etc", reason=REASON))

    def give(order: Any) -> Any:
        call = functools.partial(getattr(shell, method), order=order)
        return anyio.run(call) if is_async else call()

    assert give({"path": "/etc"}) == REASON
    assert give({"path": "/tmp"}) == "ran"
    assert ran == [{"path": "/tmp"}]


class Order(pydantic.BaseModel):
    path: str


def test_an_object_that_changes_while_a_person_is_asked_is_not_what_runs(start: Any) -> None:
    held, ran = Order(path="/tmp"), list[Any]()

    def ask(call: types.ToolCall) -> bool:
        held.path = "/etc"
        return True

    def place(order: Order, names: set) -> str:
        """Place an order."""
        ran.append((order.path, names))
        return "ran"

    start(policy.ask_user("place", handler=ask))
    tool = StructuredTool.from_function(place)
    assert tool.invoke({"order": held, "names": {"a"}}) == "ran"
    assert ran == [("/tmp", {"a"})]


@pytest.mark.parametrize("name", ["run", "invoke"])
def test_what_a_class_gets_from_a_mixin_or_wraps_is_judged(start: Any, name: str) -> None:
    ran: list[Any] = []

    def override(self: Any, tool_input: Any, *rest: Any, **further: Any) -> Any:
        ran.append(tool_input)
        return "ran"

    wrapped = functools.wraps(getattr(BaseTool, name))(override)
    mixin = type("Mixin", (), {name: override})
    start(policy.deny("shell", reason=REASON))
    for kind in (
        type("Mixed", (mixin, Tool), {}),
        type("Wrapping", (Tool,), {name: wrapped}),
    ):
        shell = kind(name="shell", description="Run.", func=None)
        assert getattr(shell, name)({"path": "/etc"}) == REASON
    assert ran == []


def test_what_the_framework_injects_is_not_shown_and_arrives(start: Any) -> None:
    shown: list[Any] = []
    got: list[Any] = []

    @hooks.pre_tool_call_decide
    def look(call: types.ToolCall) -> types.HookResult:
        shown.append(dict(call.args))
        return types.HookResult(modified_args={"x": 2})

    def inside(
        x: int,
        state: Annotated[dict, InjectedState],
        id: Annotated[str, InjectedToolCallId],
    ) -> str:
        """Look inside."""
        got.append((x, len(state["messages"]), id))
        return "seen"

    world = World((Ask("inside", {"x": 1}),), ANSWER)
    graph = create_agent(ScriptedModel(world=world), [StructuredTool.from_function(inside)])
    start(hooks=[look])
    assert said(graph.invoke(begin("go"))) == ANSWER
    assert shown == [{"x": 1}]
    assert got == [(2, 2, "call_1_0")]


def test_data_for_an_argument_that_only_the_application_fills_in_is_shown(start: Any) -> None:
    """A model that guesses the name of such an argument is judged with what it made up."""
    ran: list[str] = []

    @tool
    def pay(amount: int, account: Annotated[str, InjectedToolArg]) -> str:
        """Pay."""
        ran.append(account)
        return "paid"

    start(policy.deny("pay", when=lambda args: args["account"] != "mine", reason=REASON))
    assert pay.invoke({"amount": 1, "account": "theirs"}) == REASON
    assert pay.invoke({"amount": 1, "account": "mine"}) == "paid"
    assert ran == ["mine"]


def test_a_bare_text_is_judged_under_the_name_that_models_use(start: Any) -> None:
    ran: list[str] = []
    plain = Tool(name="look_up", description="Look up.", func=lambda q: ran.append(q) or q)
    start(policy.deny("look_up", when=lambda args: args["__arg1"] == "bad", reason=REASON))
    assert plain.run("bad") == plain.invoke("bad") == plain.run({"__arg1": "bad"}) == REASON
    assert plain.run("good") == "good"
    assert ran == ["good"]


def test_a_text_for_a_tool_with_one_argument_is_judged_under_its_name(start: Any) -> None:
    ran: list[str] = []

    @tool
    def read(path: str) -> str:
        """Read."""
        ran.append(path)
        return path

    start(policy.deny("read", when=lambda args: args["path"] == "bad", reason=REASON))
    assert read.run("bad") == REASON
    assert read.run("good") == "good"
    assert ran == ["good"]


@pytest.mark.parametrize("method", ["invoke", "run"])
@pytest.mark.parametrize("changes", [False, True])
def test_an_override_is_judged_again_only_if_it_changes_the_call(
    start: Any, seen: Seen, method: str, changes: bool
) -> None:
    """What a subclass passes on to langchain's own method unchanged was approved already."""
    ran: list[str] = []

    class Detour(BaseTool):
        name: str = "read"
        description: str = "Read."

        def _run(self, path: str) -> str:
            ran.append(path)
            return path

        def _other(self, given: Any) -> Any:
            return {"path": "/etc"} if changes else given

    def override(self: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(BaseTool, method)(self, self._other(given), *args, **kwargs)

    kind: Any = type("Override", (Detour,), {method: override, "__module__": __name__})
    start(policy.deny("read", when=lambda args: args["path"] == "/etc", reason=REASON))
    assert kind().invoke({"path": "a"}) == (REASON if changes else "a")
    assert ran == ([] if changes else ["a"])
    assert seen.decisions() == (2 if changes else 1)


def test_a_tool_called_in_a_pool_without_context_is_judged(start: Any) -> None:
    world = World()
    danger = tools_of(world)[0]
    start(policy.deny("danger", reason=REASON))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        told = list(pool.map(danger.run, [{"path": str(n)} for n in range(20)]))
    assert told == [REASON] * 20
    assert world.ran == []


FORGED: Any = {"state": {"role": "admin"}, "id": "call_9", "store": {"a": 1}, "runtime": {"a": 1}}


@pytest.mark.parametrize("name", list(FORGED))
@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_model_gives_under_the_name_of_an_injected_argument_is_judged(
    start: Any, name: str, is_async: bool
) -> None:
    """The class: an argument that a model passes and rules do not see.

    In a loop of the user's own nothing takes the model's word for what langgraph fills in away.
    """
    got: list[Any] = []

    def act(
        x: int,
        state: Annotated[Any, InjectedState] = None,
        id: Annotated[Any, InjectedToolCallId] = "",
        store: Annotated[Any, InjectedStore] = None,
        runtime: Annotated[Any, ToolRuntime] = None,
    ) -> str:
        """Act."""
        got.append(1)
        return "acted"

    made: Any = StructuredTool.from_function(act)
    rule = policy.deny("act", when=lambda args: args.get(name) == FORGED[name], reason=REASON)
    start(rule)
    call = as_call(made, {"x": 1, name: FORGED[name]})
    told = anyio.run(made.ainvoke, call) if is_async else made.invoke(call)
    assert told.content == REASON
    assert got == []


@pytest.mark.parametrize("is_async", [False, True])
def test_plain_data_that_langgraph_fills_in_is_not_shown_and_arrives(
    start: Any, is_async: bool
) -> None:
    """What a model gives under its name is replaced, by langgraph itself."""
    shown: list[Any] = []
    got: list[Any] = []

    class State(AgentState):
        user: str

    @hooks.pre_tool_call_decide
    def look(call: types.ToolCall) -> types.HookResult:
        shown.append(dict(call.args))
        return types.HookResult(modified_args={"x": 2})

    @tool
    def pay(x: int, user: Annotated[str, InjectedState("user")]) -> str:
        """Pay."""
        got.append((x, user))
        return "paid"

    asks = (Ask("pay", {"x": 1, "user": "forged"}), Ask("pay", {"x": 3}))
    world = World(asks, ANSWER)
    graph = create_agent(ScriptedModel(world=world), [pay], state_schema=State)
    start(hooks=[look])
    given = {**begin("go"), "user": "alice"}
    result = anyio.run(graph.ainvoke, given) if is_async else graph.invoke(given)
    assert said(result) == ANSWER
    assert sorted(shown, key=str) == [{"x": 1}, {"x": 3}]
    assert got == [(2, "alice"), (2, "alice")]


def test_what_a_tool_was_filled_in_with_says_nothing_of_calls_that_its_body_makes(
    start: Any,
) -> None:
    """A model's word under the same name, in a loop inside a tool, is judged."""
    got: list[Any] = []

    class State(AgentState):
        user: str

    @tool
    def pay(user: Annotated[str, InjectedState("user")]) -> str:
        """Pay."""
        got.append(user)
        return "paid"

    @tool
    def delegate(user: Annotated[str, InjectedState("user")]) -> str:
        """Pay for somebody else."""
        return str(pay.invoke({"user": "mallory"}))

    world = World((Ask("delegate", {}),), ANSWER)
    graph = create_agent(ScriptedModel(world=world), [delegate], state_schema=State)
    rule = policy.deny("pay", when=lambda args: args.get("user") == "mallory", reason=REASON)
    start(rule)
    assert said(graph.invoke({**begin("go"), "user": "alice"})) == ANSWER
    assert REASON in world.told
    assert got == []


# -- results --------------------------------------------------------------------------------------


def test_a_withheld_result_leaves_no_artifact(start: Any) -> None:
    @tool(response_format="content_and_artifact")
    def fetch(x: int) -> tuple[str, dict]:
        """Fetch."""
        return "secret", {"raw": "secret"}

    @hooks.post_tool_call_transform
    def withhold(result: types.ToolResult) -> types.HookResult:
        return types.HookResult(allow=False, message="not for you")

    start(hooks=[withhold])
    message = fetch.invoke(as_call(fetch, {"x": 1}))
    assert message.content == "not for you"
    assert "secret" not in repr(message)


def test_the_message_inside_a_command_is_rewritten_and_the_command_goes_on(start: Any) -> None:
    @tool
    def jump(id: Annotated[str, InjectedToolCallId]) -> Command:
        """Jump."""
        return Command(update={"messages": [ToolMessage("secret", tool_call_id=id)], "n": 1})

    @hooks.post_tool_call_transform
    def redact(result: types.ToolResult) -> Any:
        return result.result.replace("secret", "[redacted]")

    start(hooks=[redact])
    command = jump.invoke(as_call(jump, {}))
    assert command.update["messages"][0].content == "[redacted]"
    assert command.update["n"] == 1


def _telling(*, is_list: bool) -> Any:
    """Make a tool that returns several messages: its own, and one that answers no call."""

    @tool
    def tell(id: Annotated[str, InjectedToolCallId]) -> Any:
        """Tell."""
        own = [ToolMessage("secret", tool_call_id=id) for _ in range(3)]
        command = Command(update={"messages": [own[1], AIMessage("secret"), own[2]], "n": 1})
        return [own[0], command] if is_list else command

    return tell


@pytest.mark.parametrize("is_list", [True, False])
def test_a_result_of_several_messages_is_withheld_as_a_whole(start: Any, is_list: bool) -> None:
    @hooks.post_tool_call_transform
    def withhold(result: types.ToolResult) -> types.HookResult:
        return types.HookResult(allow=False, message="not for you")

    start(hooks=[withhold])
    tell = _telling(is_list=is_list)
    told = tell.invoke(as_call(tell, {}))
    assert "secret" not in repr(told)
    assert repr(told).count("not for you") == 1
    assert is_list or told.update["n"] == 1


@pytest.mark.parametrize("is_list", [True, False])
def test_a_hook_sees_and_rewrites_all_messages_that_answer_a_call(
    start: Any, is_list: bool
) -> None:
    seen: list[str] = []

    @hooks.post_tool_call_transform
    def redact(result: types.ToolResult) -> Any:
        seen.append(str(result.result))
        return "[redacted]"

    start(hooks=[redact])
    tell = _telling(is_list=is_list)
    told = tell.invoke(as_call(tell, {}))
    assert seen[0].count("secret") >= (3 if is_list else 2)
    assert repr(told).count("[redacted]") == 1
    assert repr(told).count("secret") <= 1  # the message that answers no call is not its result


def test_an_error_that_a_tool_tells_can_be_recovered(start: Any) -> None:
    from langchain_core.tools import ToolException

    def fail() -> str:
        """Fail."""
        raise ToolException("it is closed")

    @hooks.on_tool_error
    def recover(error: Exception) -> str:
        assert "closed" in str(error)
        return "opened"

    closed = StructuredTool.from_function(fail, handle_tool_error=True)
    start(hooks=[recover])
    message = closed.invoke(as_call(closed, {}))
    assert (message.content, message.status) == ("opened", "success")


# -- gaps -----------------------------------------------------------------------------------------


def test_a_call_that_a_node_makes_past_the_seats_is_a_gap(
    start: Any, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool node that calls the function itself is found out at the end of the turn."""

    class Sly(ToolNode):
        def past(self, input: Any, **_: Any) -> Any:
            found = []
            for call in input["messages"][-1].tool_calls:
                result = self.tools_by_name[call["name"]].func(**call["args"])
                found.append(ToolMessage(result, tool_call_id=call["id"]))
            return {"messages": found}

    from langgraph.graph import END, MessagesState

    world = World((SAFE,), ANSWER)
    tools = tools_of(world)
    node = Sly(tools)
    node.func = node.past  # what the node runs, in every version
    model = ScriptedModel(world=world).bind_tools(tools)
    graph = StateGraph(MessagesState)
    graph.add_node("llm", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("act", node)
    graph.add_edge(START, "llm")
    graph.add_conditional_edges(
        "llm", lambda state: "act" if state["messages"][-1].tool_calls else END, ["act", END]
    )
    graph.add_edge("act", "llm")
    start(policy.deny("something_else"))
    with caplog.at_level(logging.ERROR):
        assert said(graph.compile().invoke(begin("go"))) == ANSWER
    assert seen.gaps() == 1
    assert "coverage gap" in caplog.text


def test_calls_that_nothing_here_runs_are_not_a_gap(start: Any, seen: Seen) -> None:
    """The schema of an answer, a tool of the provider, and a name that a model makes up."""
    import pydantic

    class Weather(pydantic.BaseModel):
        """The weather."""

        sky: str

    from langchain.agents.structured_output import ToolStrategy

    world = World((Ask("nonsense", {}),), (Ask("Weather", {"sky": "blue"}),))
    graph = create_agent(
        ScriptedModel(world=world), tools_of(world), response_format=ToolStrategy(Weather)
    )
    start(policy.deny("something_else"))
    assert graph.invoke(begin("go"))["structured_response"] == Weather(sky="blue")
    assert seen.gaps() == 0


# -- streams --------------------------------------------------------------------------------------


def test_a_rule_that_comes_during_a_stream_holds_for_the_rest_of_it(start: Any) -> None:
    world = World((SAFE,), (DANGER,), ANSWER)
    graph = agent(world, StreamingModel)
    handle = start(policy.deny("something_else"))
    for update in graph.stream(begin("go"), stream_mode="updates"):
        if "tools" in update and world.bodies == ["safe"]:
            handle.register(policy.deny("danger", reason=REASON))
    assert world.bodies == ["safe"]
    assert REASON in world.told


def test_a_held_back_answer_reaches_no_listener(start: Any) -> None:
    """Callbacks stream as well: what a hook replaces is in no event before or after."""

    @hooks.post_agent_transform
    def rewrite(response: Any) -> str:
        return "nothing to see"

    world = World((SAFE,), ANSWER)
    graph = agent(world, StreamingModel)
    start(hooks=[rewrite])

    async def listen() -> list[Any]:
        return [event async for event in graph.astream_events(begin("go"), version="v2")]

    told = repr(anyio.run(listen))
    assert ANSWER not in told
    assert "nothing to see" in told


def test_the_held_back_answer_of_an_agent_in_a_tool_is_not_streamed_by_the_outer_one(
    start: Any,
) -> None:
    @hooks.post_agent_transform
    def rewrite(response: Any) -> Any:
        return "nothing to see" if response == ANSWER else None

    worker = agent(World(ANSWER), StreamingModel, name="worker")

    @tool
    def ask_worker(question: str) -> str:
        """Ask."""
        return said(worker.invoke(begin(question)))

    world = World((Ask("ask_worker", {"question": "q"}),), "the end")
    boss = create_agent(StreamingModel(world=world), [ask_worker])
    start(hooks=[rewrite])
    modes = ["messages", "updates", "values"]
    told = repr(list(boss.stream(begin("go"), stream_mode=modes, subgraphs=True)))
    assert "done" not in told
    assert "nothing to see" in told
    assert "the end" in told


def test_hooks_of_a_run_are_looked_for_on_its_own_branch(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class: a branch that is made longer by an agent that is already part of it."""
    asked: list[str] = []
    in_force = Runtime.in_force

    def note(self: Any, scope: Any, branch: str) -> Any:
        asked.append(branch)
        return in_force(self, scope, branch)

    @hooks.post_agent_transform
    def look(response: Any) -> None:
        return None

    start(hooks=[look])
    monkeypatch.setattr(Runtime, "in_force", note)
    assert said(agent(World((SAFE,), ANSWER), name="ops").invoke(begin("go"))) == ANSWER
    assert "ops" in asked
    assert not [branch for branch in asked if branch.count("ops") > 1]


@pytest.mark.parametrize("mode", ["values", "updates", "messages", ["messages", "values"]])
@pytest.mark.parametrize("subgraphs", [False, True])
def test_a_held_back_answer_is_replaced_in_every_shape(
    start: Any, mode: Any, subgraphs: bool
) -> None:
    @hooks.post_agent_transform
    def rewrite(response: Any) -> str:
        assert response == ANSWER
        return "nothing to see"

    world = World((SAFE,), ANSWER)
    graph = agent(world, StreamingModel)
    start(hooks=[rewrite])
    told = repr(list(graph.stream(begin("go"), stream_mode=mode, subgraphs=subgraphs)))
    assert ANSWER not in told
    assert "done" not in told
    assert "nothing to see" in told


@pytest.mark.parametrize("mode", ["values", "updates", "messages", ["messages", "values"]])
@pytest.mark.parametrize("subgraphs", [False, True])
def test_a_refusal_has_the_shape_that_was_asked_for(start: Any, mode: Any, subgraphs: bool) -> None:
    """The items of a refused run look like those of one that ran."""
    real = World("hello")
    like = list(agent(real).stream(begin("go"), stream_mode=mode, subgraphs=subgraphs))[-1]

    @hooks.pre_turn
    def refuse(prompt: Any) -> types.HookResult:
        return types.HookResult(allow=False, message=REASON)

    start(hooks=[refuse])
    items = list(agent(World()).stream(begin("go"), stream_mode=mode, subgraphs=subgraphs))
    assert shape(items[-1]) == shape(like)
    assert REASON in repr(items)


def shape(value: Any) -> Any:
    """Return the containers and names of a stream's item, without what is said in it."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], AIMessage):
        return ("message", "metadata")
    if isinstance(value, (tuple, list)):
        return [shape(part) for part in value]
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    return type(value).__name__ if not isinstance(value, str) else "text"


def test_a_refusal_of_a_graph_without_messages_raises(start: Any) -> None:
    @hooks.pre_turn
    def refuse(prompt: Any) -> types.HookResult:
        return types.HookResult(allow=False, message=REASON)

    graph = StateGraph(dict)
    graph.add_node("add", lambda state: {"n": 1})
    graph.add_edge(START, "add")
    compiled = graph.compile()
    start(hooks=[refuse])
    with pytest.raises(Denied, match="Nobody"):
        compiled.invoke({"n": 0})


# -- threads --------------------------------------------------------------------------------------


def test_a_refused_message_is_not_remembered_and_a_ready_answer_is(start: Any) -> None:
    """What a model was not to read now it does not read in the next turn either."""
    world = World(ANSWER)
    graph = agent(world, checkpointer=InMemorySaver())

    @hooks.pre_turn
    def refuse(prompt: Any) -> types.HookResult:
        return types.HookResult(allow="poison" not in str(prompt), message=REASON)

    @hooks.pre_agent
    def answer(call: types.AgentCall) -> types.HookResult:
        return types.HookResult(response="ready made" if call.input == "known" else None)

    start(hooks=[refuse, answer])
    assert said(graph.invoke(begin("poison"), THREAD)) == REASON
    assert said(graph.invoke(begin("known"), THREAD)) == "ready made"
    assert said(graph.invoke(begin("unknown"), THREAD)) == ANSWER
    assert "poison" not in world.told
    assert "known\nready made\nunknown" in world.told


def test_a_rewritten_answer_is_what_the_thread_remembers(start: Any) -> None:
    @hooks.post_agent_transform
    def rewrite(response: Any) -> Any:
        return "[redacted]" if response == "secret" else None

    world = World("secret", ANSWER)
    graph = agent(world, checkpointer=InMemorySaver())
    start(hooks=[rewrite])
    assert said(graph.invoke(begin("one"), THREAD)) == "[redacted]"
    assert said(graph.invoke(begin("two"), THREAD)) == ANSWER
    assert "secret" not in world.told
    assert "[redacted]" in world.told


def test_turns_of_a_thread_are_one_conversation_and_two_traces(
    start: Any, seen: Seen, exporter: Any
) -> None:
    world = World("one", "two")
    graph = agent(world, checkpointer=InMemorySaver(), name="worker")
    start(policy.deny("something_else"))
    graph.invoke(begin("a"), THREAD)
    graph.invoke(begin("b"), THREAD)
    turns = [s for s in seen.spans if s.name == "invoke_agent worker"]
    assert [s.attributes[semconv.GEN_AI_CONVERSATION_ID] for s in turns] == ["t-1", "t-1"]
    assert turns[0].context.trace_id != turns[1].context.trace_id
    assert [link.context.span_id for link in turns[1].links] == [turns[0].context.span_id]


# -- pauses ---------------------------------------------------------------------------------------


def asking(ran: list[Any]) -> StructuredTool:
    """Make a tool that asks a person in the middle of its work."""

    def remove(path: str) -> str:
        """Remove a path."""
        ran.append(("begun", path))
        answer = interrupt({"really": path})
        ran.append((answer, path))
        return f"removed {path}: {answer}"

    return StructuredTool.from_function(remove)


def test_a_paused_call_goes_on_under_the_same_verdict(start: Any, seen: Seen) -> None:
    """Pausing counts nothing twice: one decision, one question, one message of the user."""
    ran: list[Any] = []
    asked: list[Any] = []
    prompts: list[Any] = []

    @hooks.pre_turn
    def note(prompt: Any) -> types.HookResult:
        prompts.append(prompt)
        return types.HookResult()

    def approve(call: types.ToolCall) -> bool:
        asked.append(dict(call.args))
        return True

    world = World((Ask("remove", {"path": "a"}),), ANSWER)
    graph = create_agent(
        ScriptedModel(world=world), [asking(ran)], checkpointer=InMemorySaver(), name="worker"
    )
    start(policy.ask_user("remove", handler=approve), hooks=[note])
    assert "__interrupt__" in graph.invoke(begin("go"), THREAD)
    assert said(graph.invoke(Command(resume="yes"), THREAD)) == ANSWER
    assert ran == [("begun", "a"), ("begun", "a"), ("yes", "a")]
    assert asked == [{"path": "a"}]
    assert prompts == ["go"]
    assert seen.decisions() == 1
    assert seen.gaps() == 0
    turns = [s for s in seen.spans if s.name == "invoke_agent worker"]
    assert all(s.status.is_unset for s in turns)
    assert len(turns[1].links) == 1


def test_a_paused_call_that_goes_on_with_other_arguments_is_a_new_call(
    start: Any, seen: Seen
) -> None:
    """Arguments that are changed in the thread while a run is paused are judged again."""
    ran: list[Any] = []
    world = World((Ask("remove", {"path": "a"}),), ANSWER)
    graph = create_agent(ScriptedModel(world=world), [asking(ran)], checkpointer=InMemorySaver())
    asked: list[Any] = []

    def approve(call: types.ToolCall) -> bool:
        asked.append(call.args["path"])
        return call.args["path"] == "a"

    start(policy.ask_user("remove", handler=approve, reason=REASON))
    graph.invoke(begin("go"), THREAD)
    last = graph.get_state(THREAD).values["messages"][-1]
    changed = last.model_copy(
        update={"tool_calls": [{**last.tool_calls[0], "args": {"path": "/etc"}}]}
    )
    graph.update_state(THREAD, {"messages": [changed]}, as_node="model")
    assert said(graph.invoke(None, THREAD)) == ANSWER
    assert asked == ["a", "/etc"]
    assert ran == [("begun", "a")]
    assert REASON in world.told


def test_a_paused_call_that_the_model_repeats_in_another_run_is_a_new_call(start: Any) -> None:
    """Its answer was for the run that paused: a new message of the user does not continue it."""

    class Repeating(ScriptedModel):
        def _generate(self, *args: Any, **given: Any) -> Any:
            result = super()._generate(*args, **given)
            for call in result.generations[0].message.tool_calls:
                call["id"] = "c1"
            return result

    ran: list[Any] = []
    asked: list[Any] = []
    world = World(*[(Ask("remove", {"path": "a"}),)] * 2, ANSWER)
    graph = create_agent(Repeating(world=world), [asking(ran)], checkpointer=InMemorySaver())

    def approve(call: types.ToolCall) -> bool:
        asked.append(call.args["path"])
        return len(asked) == 1

    start(policy.ask_user("remove", handler=approve))
    graph.invoke(begin("go"), THREAD)
    assert said(graph.invoke(begin("on"), THREAD)) == ANSWER
    assert ran == [("begun", "a")]
    assert asked == ["a", "a"]


@pytest.mark.parametrize("decision", ["approve", "edit", "reject"])
def test_a_person_in_the_loop_decides_beside_the_policy(
    start: Any, seen: Seen, decision: str
) -> None:
    """What a person approved is judged once, as it will run; what they rejected is not a gap."""
    world = World((DANGER,), ANSWER)
    middleware = HumanInTheLoopMiddleware(interrupt_on={"danger": True})
    graph = agent(world, middleware=[middleware], checkpointer=InMemorySaver())
    start(policy.deny("danger", when=lambda args: args["path"] == "/root", reason=REASON))
    answers: dict[str, Any] = {
        "approve": {"type": "approve"},
        "reject": {"type": "reject", "message": "no"},
        "edit": {"type": "edit", "edited_action": {"name": "danger", "args": {"path": "/root"}}},
    }
    assert "__interrupt__" in graph.invoke(begin("go"), THREAD)
    resumed = Command(resume={"decisions": [answers[decision]]})
    assert said(graph.invoke(resumed, THREAD)) == ANSWER
    assert world.bodies == (["danger"] if decision == "approve" else [])
    assert seen.decisions() == (0 if decision == "reject" else 1)
    assert (REASON in world.told) is (decision == "edit")
    assert seen.gaps() == 0


# -- what only inspects ---------------------------------------------------------------------------


def test_a_summary_of_the_history_is_shown_to_hooks(start: Any) -> None:
    steps: list[types.Step] = []

    @hooks.on_compaction
    def note(step: types.Step) -> None:
        steps.append(step)

    world = World("the short of it", ANSWER)
    model = ScriptedModel(world=world)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of the settings have changed within 1.x
        try:
            middleware = SummarizationMiddleware(
                model=model, trigger=("messages", 3), keep=("messages", 1)
            )
        except TypeError:
            middleware = SummarizationMiddleware(
                model=model, max_tokens_before_summary=1, messages_to_keep=1
            )
    graph = create_agent(model, [], middleware=[middleware])
    start(hooks=[note])
    history = [HumanMessage("a"), AIMessage("b"), HumanMessage("c"), AIMessage("d")]
    assert said(graph.invoke({"messages": [*history, HumanMessage("e")]})) == ANSWER
    (step,) = steps
    assert step.type is types.StepType.COMPACTION
    assert step.content == "the short of it"


# -- what is not covered --------------------------------------------------------------------------


def test_a_version_out_of_range_refuses_tools_models_and_graphs(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = versions.installed

    def installed(names: Any, module: str) -> Any:
        name, version = real(names, module)
        return name, "9.0" if version and name in ("langchain-core", "langgraph") else version

    monkeypatch.setattr(versions, "installed", installed)
    world = World()
    graph, tools = agent(world), tools_of(world)
    start(policy.deny("something_else"))
    message = tools[0].invoke(as_call(tools[0], {"path": "x"}))
    assert message.status == "error"
    assert "9.0" in message.content
    with pytest.raises(SeatError, match=r"9\.0"):
        tools[0].invoke({"path": "x"})
    with pytest.raises(SeatError, match=r"9\.0"):
        ScriptedModel(world=world).invoke("hello")
    with pytest.raises(SeatError, match=r"9\.0"):
        graph.invoke(begin("go"))
    with pytest.raises(SeatError, match=r"9\.0"):
        anyio.run(tools[0].arun, {"path": "x"})
    assert world.ran == []


REFUSING = [
    ("langchain_quickjs", "CodeInterpreterMiddleware"),
]


@pytest.mark.parametrize(("module", "name"), REFUSING)
def test_what_is_not_covered_refuses_under_a_policy(start: Any, module: str, name: str) -> None:
    found = pytest.importorskip(module)
    start(policy.deny("something_else"))
    with pytest.raises(SeatError, match="not covered"):
        getattr(found, name)()


def test_remote_graphs_refuse_under_a_policy(start: Any) -> None:
    remote = pytest.importorskip("langgraph.pregel.remote")
    graph = remote.RemoteGraph("agent", url="http://127.0.0.1:9")
    start(policy.deny("something_else"))
    with pytest.raises(SeatError, match="not covered"):
        graph.invoke(begin("go"))


def test_classes_are_as_they_were_once_otelhooks_is_gone(start: Any) -> None:
    """Overrides that existed before, those made meanwhile, and the way classes are made."""

    class Before(BaseTool):
        name: str = "before"
        description: str = "Made before."

        def _run(self) -> str:
            return "ran"

        def run(self, *args: Any, **kwargs: Any) -> Any:
            return super().run(*args, **kwargs)

    hook, method = vars(BaseTool)["__init_subclass__"], vars(Before)["run"]
    start(policy.deny("*", reason=REASON))

    class Meanwhile(Before):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            return super().run(*args, **kwargs)

    assert vars(Before)["run"] is not method
    assert Before().run({}) == Meanwhile().run({}) == REASON
    otelhooks.uninstrument()
    assert vars(BaseTool)["__init_subclass__"] is hook
    assert vars(Before)["run"] is method
    assert inspect.isfunction(vars(Meanwhile)["run"])
    assert Before().run({}) == Meanwhile().run({}) == "ran"
