# pyright: basic, reportMissingImports=false
"""Runs of langgraph's graphs: how one is read, refused, answered and streamed.

Nodes of a graph, and tasks of the functional API, are spans inside that of the run: other tracers
show them as well (LangSmith and OpenInference as runs of a chain). A node that only calls the model
or tools of an agent, or is a graph itself, has spans of its own already.
"""

from __future__ import annotations

import functools
import operator
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.contents import field
from otelhooks.frameworks.kit.telemetry import failed, inside_run, semconv
from otelhooks.frameworks.langchain import state
from otelhooks.frameworks.langchain.listeners import HeardRun
from otelhooks.frameworks.langchain.models import events_of, know_tools

__all__ = ["GraphRun", "anode", "node"]

_TASK = "__pregel_task_id"
_CHECKPOINTER = "__pregel_checkpointer"
_INTERRUPT = "__interrupt__"
_AGENTS = ("langchain.agents.", "langgraph.prebuilt.")
_MODEL_NODES = ("model", "agent")
"""Names of the node that calls the model, in the agents of langchain and langgraph."""


class _Answer(NamedTuple):
    """An answer that did not come from a run.

    Attributes:
        text: Its text.
        is_kept: Whether the conversation remembers message and answer. A refused message is not
            kept, or the model would read it in the next turn.
    """

    text: str
    is_kept: bool


class _Changed(NamedTuple):
    """What a run streamed, with another final answer, and the message that contains it now."""

    items: list[Any]
    message: Any


class GraphRun(HeardRun):
    """One run of one graph, through ``stream`` or ``astream``."""

    def read(self, graph: Any, /, input: Any, config: Any = None, **further: Any) -> None:
        self.graph, self.given, self.config, self.further = graph, input, config, further
        self.title = graph.get_name()
        self.configurable = (config or {}).get("configurable") or {}
        self.is_inside = _TASK in self.configurable
        mode = further.get("stream_mode")
        if mode is None:
            mode = "values" if self.is_inside else graph.stream_mode
        self.mode, self.has_mode = mode, isinstance(mode, list)
        self.has_namespace = bool(further.get("subgraphs"))
        self.is_v2 = further.get("version") == "v2"
        tools = state.tool_names(graph)
        know_tools(tools)
        metadata = (graph.config or {}).get("metadata") or {}
        has_message, prompt = state.prompt_of(state.update_of(input))
        is_agent = (
            bool(tools)
            or "lc_agent_name" in metadata
            or "ls_integration" in metadata
            or ("messages" in graph.channels and any(n in graph.nodes for n in _MODEL_NODES))
        )
        self.agent = str(metadata.get("lc_agent_name") or graph.name)
        self.prompt = prompt if has_message else input
        self.conversation = state.thread_of(config, graph.config)
        self.operation = semconv.OP_INVOKE_AGENT if is_agent else semconv.OP_INVOKE_WORKFLOW
        self.is_resumed = input is None or (kit.is_a(input, state.COMMAND) and not has_message)

    def call(self, wrapped: Any) -> Any:
        given = state.with_prompt(self.given, self.prompt) if self.is_rewritten else self.given
        return self.runs(wrapped, given)

    # -- answers ------------------------------------------------------------------------------

    def denied(self, reason: str) -> Any:
        """Return the reason as the answer.

        Raises:
            Denied: The graph has no messages that could contain it.
        """
        return self.answered(reason, is_kept=False)

    def answered(self, answer: Any, *, is_kept: bool = True) -> Any:
        """Return a ready answer; the conversation remembers it."""
        if "messages" not in self.graph.channels:
            raise self.exception(str(answer))
        return _Answer(str(answer), is_kept)

    def answer_of(self, raw: Any) -> Any:
        """Return the text of the last message, or the last values of a graph without messages."""
        if isinstance(raw, _Answer):
            return raw.text
        message, values = self.final(getattr(raw, "items", raw))
        if message is None:
            return values
        text = getattr(message, "text", None)
        return str(text) if isinstance(text, str) else message.content

    def with_answer(self, raw: Any, answer: Any) -> Any:
        """Return the same with another answer, wherever the stream contains it."""
        if isinstance(raw, _Answer):
            return _Answer(str(answer), raw.is_kept)
        items = getattr(raw, "items", raw)
        old, values = self.final(items)
        if old is None:
            return _Changed([] if values is None else [self.item("values", answer)], None)
        content = answer if isinstance(answer, (str, list)) else str(answer)
        new = old.model_copy(update={"content": content})
        told: list[Any] = []
        streamed: set[Any] = set()
        was_told = False
        for item in items:
            namespace, mode, payload = self.parts(item)
            if mode != "messages":
                told.append(state.replace(item, old, new))
                continue
            piece, about = payload
            if isinstance(piece, dict):  # an event of `stream_events(version="v3")`
                run = about.get("run_id")
                if piece["event"] == "message-start":
                    (streamed.add if piece["id"] == old.id else streamed.discard)(run)
                is_old, whole = run in streamed, events_of(new, old.id)
            else:
                is_old, whole = state.is_same(piece, old), [new]
            if not is_old:
                told.append(item)
            elif not was_told:  # one message in place of the many pieces of the old one
                was_told = True
                told += (self.item(mode, (each, about), namespace) for each in whole)
        return _Changed(told, new)

    def is_paused(self, raw: Any) -> bool:
        for item in raw:
            namespace, mode, payload = self.parts(item)
            states = mode in ("updates", "values") and isinstance(payload, dict)
            stops = (states and _INTERRUPT in payload) or (self.is_v2 and item.get("interrupts"))
            if stops and namespace == ():
                return True
        self.note_unasked(raw)
        return False

    def answered_itself(self, raw: Any) -> Iterable[str]:
        """Return the ids of calls that the graph itself refused.

        A middleware that limits or rejects calls reports this to the model with a message of its
        own, and the call reaches no seat.
        """
        for value in state.leaves(raw):  # last ones first
            if getattr(value, "type", None) == "tool" and getattr(value, "status", None) == "error":
                yield value.tool_call_id

    # -- telling ------------------------------------------------------------------------------

    def deliver(self, item: Any) -> Any:
        """Return an item; answers of ours in the requested shape."""
        if self.left_out is None and type(item) is not _Changed and type(item) is not _Answer:
            return (item,)
        return self.made(item)

    def made(self, item: Any) -> Any:
        """Keep our answer in the thread, and pass it to left-out listeners."""
        found = [item]
        if type(item) is _Changed:
            found = item.items
            if item.message is not None and self.remembers:
                new = {"messages": [item.message]}
                try:  # it was streamed already: a failure here is only recorded
                    yield self.does("update_state", new, as_node=self.node)
                except Exception as error:
                    failed("the thread still holds the answer that a hook replaced", error)
        elif type(item) is _Answer:
            before = (yield self.does("get_state")) if self.remembers else None
            new, found = self.shape(item, before.values if before is not None else {})
            if item.is_kept and self.remembers:
                yield self.does("update_state", new, as_node=self.node)
            self.leaves_out()
        yield from self.hear(found)
        return found

    def does(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the graph, or its asynchronous form, with the run's configuration."""
        method = getattr(self.graph, f"a{name}" if self.is_async else name)
        return method(self.config, *args, **kwargs)

    def output(self, items: list[Any]) -> Any:
        """Return a run's result, for listeners that get it as a whole."""
        message, values = self.final(items)
        return values if values is not None or message is None else {"messages": [message]}

    @property
    def remembers(self) -> bool:
        """Whether the graph remembers this conversation by itself; an inner graph does not."""
        saver = self.configurable.get(_CHECKPOINTER) or self.graph.checkpointer
        return not self.is_inside and saver not in (None, True, False)

    @property
    def node(self) -> str | None:
        """The node to which our answer is attributed."""
        return next((name for name in _MODEL_NODES if name in self.graph.nodes), None)

    def shape(self, answer: _Answer, before: Any) -> tuple[dict[str, Any], list[Any]]:
        """Return an answer's changes to the state, and the items that contain it."""
        messages, graph = "langchain_core.messages", self.graph
        given = state.update_of(self.given)
        given = dict(given) if isinstance(given, Mapping) else {}
        sent = given.get("messages") or []
        sent = sent if isinstance(sent, list) else [sent]
        sent = kit.native(f"{messages}:convert_to_messages")(sent)
        message = kit.native(f"{messages}:AIMessage")(answer.text, id=str(uuid.uuid4()))
        new = {**given, "messages": [*sent, message]}
        history = before.get("messages") or [] if isinstance(before, Mapping) else []
        values: Any = {**before, **new, "messages": [*history, *sent, message]}
        keys = self.further.get("output_keys") or graph.stream_channels_asis
        several = [] if isinstance(keys, str) else [key for key in keys if key in values]
        values = values.get(keys) if isinstance(keys, str) else {k: values[k] for k in several}
        node = self.node or next(reversed(graph.nodes))
        payloads = {
            "messages": (message, {"langgraph_node": node}),
            "updates": {node: {"messages": [message]}},
            "values": values,
        }
        modes = self.mode if isinstance(self.mode, (list, tuple)) else [self.mode]
        return new, [self.item(mode, payloads[mode]) for mode in payloads if mode in modes]

    # -- the shape of items -------------------------------------------------------------------

    def item(self, mode: str, payload: Any, namespace: tuple[str, ...] = ()) -> Any:
        """Return an item in the requested shape."""
        if self.is_v2:
            item = {"type": mode, "ns": namespace, "data": payload}
            return {**item, "interrupts": ()} if mode == "values" else item
        parts = ((namespace,) if self.has_namespace else ()) + ((mode,) if self.has_mode else ())
        return (*parts, payload) if parts else payload

    def parts(self, item: Any) -> tuple[tuple[str, ...], str, Any]:
        """Return an item's namespace, mode and payload, in any requested shape."""
        if self.is_v2:
            return item["ns"], item["type"], item["data"]
        if not self.has_namespace and not self.has_mode:
            return (), self.mode, item
        namespace = item[0] if self.has_namespace else ()
        return namespace, item[-2] if self.has_mode else self.mode, item[-1]

    def final(self, items: list[Any]) -> tuple[Any, Any]:
        """Return the last message of the graph itself, and its last values."""
        pieces: list[Any] = []
        for item in reversed(items):
            namespace, mode, payload = self.parts(item)
            if namespace != ():
                continue
            if mode == "messages":
                piece = payload[0]
                if hasattr(piece, "id") and (not pieces or piece.id == pieces[-1].id):
                    pieces.append(piece)
            elif mode == "values":
                messages = field(payload, "messages")
                last = messages[-1] if isinstance(messages, list) and messages else messages
                return last if hasattr(last, "content") else None, payload
            elif mode != "custom":
                for found in state.leaves(payload):
                    if hasattr(found, "content") and hasattr(found, "type"):
                        return found, None
        return functools.reduce(operator.add, reversed(pieces)) if pieces else None, None


# -- nodes ------------------------------------------------------------------------------------


def node(wrapped: Any, owner: Any, task: Any, *rest: Any, **further: Any) -> Any:
    """Run a node."""
    if _is_seen_already(task):
        return wrapped(task, *rest, **further)
    with _span(task):
        return wrapped(task, *rest, **further)


async def anode(wrapped: Any, owner: Any, task: Any, *rest: Any, **further: Any) -> Any:
    """Run a node whose function may be a coroutine function."""
    if _is_seen_already(task):
        return await wrapped(task, *rest, **further)
    with _span(task):
        return await wrapped(task, *rest, **further)


def _span(task: Any) -> Any:
    attributes, pauses = {semconv.NODE_NAME: task.name}, ("langgraph.errors:GraphBubbleUp",)
    return inside_run(f"node {task.name}", attributes, task.input, lambda: _written(task), pauses)


def _is_seen_already(task: Any) -> bool:
    steps = getattr(task.proc, "steps", None) or (task.proc,)
    return (
        (task.name in _MODEL_NODES and _is_of_agent(steps[0]))
        or hasattr(steps[0], "tools_by_name")
        or any(steps[0] is graph for graph in task.subgraphs)
        or "langsmith:hidden" in (task.config.get("tags") or ())
    )


def _is_of_agent(bound: Any) -> bool:
    """Return whether a node's function is that of an agent of langchain or langgraph."""
    function = getattr(bound, "func", None) or getattr(bound, "afunc", None)
    return getattr(function, "__module__", "").startswith(_AGENTS)


def _written(task: Any) -> dict[str, Any]:
    """Return what a node wrote into the state; branches are edges."""
    return {name: value for name, value in task.writes if not name.startswith("branch:")}
