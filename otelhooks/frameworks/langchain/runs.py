# pyright: basic, reportMissingImports=false
"""Runs of langgraph's graphs: how one is read, refused, answered and told as a stream."""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any

from otelhooks.frameworks.langchain.listeners import Listeners, must_wait
from otelhooks.frameworks.langchain.models import know_tools
from otelhooks.frameworks.langchain.state import (
    content_of,
    is_command,
    is_interrupted,
    is_same,
    last_message,
    only,
    prompt_of,
    refused_by_graph,
    replace,
    replace_values,
    text_of,
    tool_names,
    update_of,
    with_prompt,
)
from otelhooks.frameworks.langchain.tools import is_control_flow
from otelhooks.pipeline.frames import Turn, current_frame
from otelhooks.pipeline.run_seat import RunRequest, RunSeat
from otelhooks.pipeline.runtime import Runtime
from otelhooks.records.failures import outline
from otelhooks.telemetry import semconv

__all__ = ["GraphRun"]

log = logging.getLogger("otelhooks.instrumentation")

_TASK = "__pregel_task_id"
_CHECKPOINTER = "__pregel_checkpointer"
_MODEL_NODES = ("model", "agent")


@dataclasses.dataclass
class _Answer:
    """An answer that no run gave.

    Attributes:
        text: What it says.
        is_kept: Whether the conversation remembers message and answer. A refused message is not
            kept: the model would read in the next turn what it was not to read in this one.
    """

    text: str
    is_kept: bool


@dataclasses.dataclass
class _Changed:
    """What a run streamed, with another final answer, and the message that says it now."""

    items: list[Any]
    message: Any


class GraphRun(RunSeat):
    """One run of one graph, through ``stream`` or ``astream``.

    Args:
        graph: The graph.
        args: Positional arguments of the method: input, config.
        kwargs: Its keyword arguments.
    """

    framework = "langchain"

    def __init__(self, graph: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._graph = graph
        self._args = args
        self._kwargs = kwargs
        self._input = args[0] if args else kwargs.get("input")
        self._config = args[1] if len(args) > 1 else kwargs.get("config")
        self._keywords = {k: v for k, v in kwargs.items() if k not in ("input", "config")}
        self._is_v2 = kwargs.get("version") == "v2"
        self._has_namespace = bool(kwargs.get("subgraphs"))
        self._own = (graph.config or {}).get("configurable") or {}
        self._given = (self._config or {}).get("configurable") or {}
        self._mode = self._read_mode()
        self._has_mode = isinstance(self._mode, list)
        self._turn: Turn | None = None
        self._left_out: Listeners | None = None
        self._is_held = False
        self._tools = tool_names(graph)
        know_tools(self._tools)
        self.request = self._read()

    def _read(self) -> RunRequest:
        graph = self._graph
        metadata = (graph.config or {}).get("metadata") or {}
        thread = self._given.get("thread_id", self._own.get("thread_id"))
        has_message, prompt = prompt_of(update_of(self._input))
        is_agent = (
            bool(self._tools)
            or "lc_agent_name" in metadata
            or "ls_integration" in metadata
            or ("messages" in graph.channels and any(n in graph.nodes for n in _MODEL_NODES))
        )
        return RunRequest(
            str(metadata.get("lc_agent_name") or graph.name),
            prompt if has_message else self._input,
            conversation="" if thread is None else str(thread),
            operation=semconv.OP_INVOKE_AGENT if is_agent else semconv.OP_INVOKE_WORKFLOW,
            is_resumed=self._input is None or (is_command(self._input) and not has_message),
        )

    # -- the body -----------------------------------------------------------------------------

    def inner(
        self, wrapped: Callable[..., Any], steps: Callable[[Listeners, Any], Any]
    ) -> Callable[[RunRequest], Any]:
        """Return the body: a function of what was approved, giving the graph's own stream.

        Args:
            wrapped: The graph's method.
            steps: `Listeners.steps` or `Listeners.asteps`.
        """

        def run(approved: RunRequest) -> Any:
            frame = current_frame()
            self._turn = frame if isinstance(frame, Turn) else None
            given, config = self._input, self._config
            if approved.is_rewritten:
                given = with_prompt(given, approved.prompt)
            listeners = Listeners(config) if self._is_held else None
            if listeners is None or not listeners.any:
                return wrapped(given, config, *self._args[2:], **self._keywords)
            self._left_out = listeners
            config = listeners.left_out()
            return steps(listeners, wrapped(given, config, *self._args[2:], **self._keywords))

        return run

    def holds_back(self, rt: Runtime) -> bool:
        """Return whether the stream has to wait for a hook; to be asked before the body."""
        self._is_held = must_wait(rt, self.request.agent)
        return self._is_held

    # -- what the pipeline asks ---------------------------------------------------------------

    def refused(self, request: RunRequest, reason: str) -> Any:
        """Return the reason as the answer.

        Raises:
            Denied: The graph has no messages that could say it.
        """
        if "messages" not in self._graph.channels:
            return super().refused(request, reason)
        return _Answer(reason, is_kept=False)

    def answered(self, request: RunRequest, response: Any) -> Any:
        """Return a ready answer; the conversation remembers it."""
        if "messages" not in self._graph.channels:
            return super().refused(request, str(response))
        return _Answer(str(response), is_kept=True)

    def response(self, request: RunRequest, raw: Any) -> Any:
        """Return the text of the last message, or the last values of a graph without messages."""
        if isinstance(raw, _Answer):
            return raw.text
        message, values = self._final(raw.items if isinstance(raw, _Changed) else raw)
        return text_of(message) if message is not None else values

    def with_response(self, request: RunRequest, raw: Any, response: Any) -> Any:
        """Return the same with another answer, wherever the stream tells it."""
        if isinstance(raw, _Answer):
            return _Answer(str(response), raw.is_kept)
        items = raw.items if isinstance(raw, _Changed) else raw
        old, values = self._final(items)
        if old is None:
            return _Changed([replace_values(item, values, response) for item in items], None)
        new = old.model_copy(update={"content": content_of(response)})
        told: list[Any] = []
        was_streamed = False
        for item in items:
            _, mode, payload = self._parts(item)
            if mode != "messages" or not is_same(payload[0], old):
                told.append(replace(item, old, new))
            elif not was_streamed:  # one message in place of the many pieces of the old one
                was_streamed = True
                told.append(replace_values(item, payload, (new, *payload[1:])))
        return _Changed(told, new)

    def is_control_flow(self, error: BaseException) -> bool:
        """Say whether langgraph pauses or jumps."""
        return is_control_flow(error)

    def is_paused(self, request: RunRequest, raw: Any) -> bool:
        """Say whether the run stopped at an interrupt; forget calls that the graph itself refused.

        A middleware that limits or rejects calls tells the model so with a message of its own, and
        no seat sees the call, since there is none.
        """
        if not isinstance(raw, list):
            return False
        for item in raw:
            namespace, mode, payload = self._parts(item)
            if namespace == () and is_interrupted(mode, payload):
                return True
            if self._is_v2 and namespace == () and item.get("interrupts"):
                return True
        turn = self._turn
        if turn is not None and turn.asked:
            for call_id in refused_by_graph(raw):
                turn.judged(call_id)
                if not turn.asked:  # the last state tells all of them: the history was in each
                    break
        return False

    # -- telling ------------------------------------------------------------------------------

    @staticmethod
    def chunks(result: Any) -> list[Any]:
        """Return the items that tell a result; an answer of ours is told by `deliver`."""
        return result if isinstance(result, list) else [result]

    def deliver(self, items: Generator[Any, None, None]) -> Generator[Any, None, None]:
        """Yield a run's items; tell answers of ours in the shape that was asked for."""
        told: list[Any] = []
        heard: Any = None
        try:
            for item in items:
                kind = type(item)
                if self._left_out is None and kind is not _Changed and kind is not _Answer:
                    yield item
                    continue
                found = [item]
                if kind is _Changed:
                    found = item.items
                    self._keep(item)
                elif kind is _Answer:
                    before = self._graph.get_state(self._config).values if self._thread else {}
                    new, found = self._shape(item, before)
                    if item.is_kept and self._thread:
                        self._graph.update_state(self._config, new, as_node=self._node)
                    self._left_out = Listeners(self._config)
                if self._left_out is not None:
                    told += found
                    heard = heard or self._left_out.start(self._graph.get_name(), self._input)
                yield from found
            if heard is not None:
                heard.on_chain_end(self._output(told))
        finally:
            items.close()

    async def adeliver(self, items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Do what `deliver` does, for an asynchronous stream."""
        told: list[Any] = []
        heard: Any = None
        name = self._graph.get_name()
        try:
            async for item in items:
                kind = type(item)
                if self._left_out is None and kind is not _Changed and kind is not _Answer:
                    yield item
                    continue
                found = [item]
                if kind is _Changed:
                    found = item.items
                    await self._akeep(item)
                elif kind is _Answer:
                    state = await self._graph.aget_state(self._config) if self._thread else None
                    new, found = self._shape(item, state.values if state is not None else {})
                    if item.is_kept and self._thread:
                        await self._graph.aupdate_state(self._config, new, as_node=self._node)
                    self._left_out = Listeners(self._config)
                if self._left_out is not None:
                    told += found
                    heard = heard or await self._left_out.astart(name, self._input)
                for part in found:
                    yield part
            if heard is not None:
                await heard.on_chain_end(self._output(told))
        finally:
            await items.aclose()

    def _output(self, items: list[Any]) -> Any:
        """Return what a run came to, for who listens to it as a whole."""
        for item in reversed(items):
            namespace, mode, payload = self._parts(item)
            if namespace == () and mode == "values":
                return payload
        message, values = self._final(items)
        return values if message is None else {"messages": [message]}

    @property
    def _thread(self) -> bool:
        """Whether the graph remembers this conversation by itself; an inner graph does not."""
        saver = self._given.get(_CHECKPOINTER) or self._graph.checkpointer
        return _TASK not in self._given and saver not in (None, True, False)

    @property
    def _node(self) -> str | None:
        """The node whose word an answer of ours is taken for."""
        return next((name for name in _MODEL_NODES if name in self._graph.nodes), None)

    def _keep(self, changed: _Changed) -> None:
        """Put the changed answer into the thread. Telemetry: fails open, since it was told."""
        if changed.message is None or not self._thread:
            return
        try:
            new = {"messages": [changed.message]}
            self._graph.update_state(self._config, new, as_node=self._node)
        except Exception as error:
            log.error("the thread still holds the answer that a hook replaced: %s", outline(error))

    async def _akeep(self, changed: _Changed) -> None:
        if changed.message is None or not self._thread:
            return
        try:
            new = {"messages": [changed.message]}
            await self._graph.aupdate_state(self._config, new, as_node=self._node)
        except Exception as error:
            log.error("the thread still holds the answer that a hook replaced: %s", outline(error))

    def _shape(self, answer: _Answer, before: Any) -> tuple[dict[str, Any], list[Any]]:
        """Return what an answer changes in the state, and the items that tell it."""
        from langchain_core.messages import AIMessage, convert_to_messages

        graph, kwargs = self._graph, self._kwargs
        given = update_of(self._input)
        given = dict(given) if isinstance(given, Mapping) else {}
        sent = given.get("messages") or []
        sent = convert_to_messages(sent if isinstance(sent, list) else [sent])
        message = AIMessage(answer.text, id=str(uuid.uuid4()))
        new = {**given, "messages": [*sent, message]}
        history = before.get("messages") or [] if isinstance(before, Mapping) else []
        values: Any = {**before, **new, "messages": [*history, *sent, message]}
        keys = kwargs.get("output_keys") or graph.stream_channels_asis
        values = values.get(keys) if isinstance(keys, str) else only(values, keys)
        node = self._node or next(reversed(graph.nodes))
        payloads = {
            "messages": (message, {"langgraph_node": node}),
            "updates": {node: {"messages": [message]}},
            "values": values,
        }
        modes = self._mode if isinstance(self._mode, (list, tuple)) else [self._mode]
        return new, [self._item(mode, payloads[mode]) for mode in payloads if mode in modes]

    # -- the shape of items -------------------------------------------------------------------

    def _read_mode(self) -> Any:
        mode = self._kwargs.get("stream_mode")
        if mode is None:
            return "values" if _TASK in self._given else self._graph.stream_mode
        return mode

    def _item(self, mode: str, payload: Any) -> Any:
        if self._is_v2:
            item = {"type": mode, "ns": (), "data": payload}
            return {**item, "interrupts": ()} if mode == "values" else item
        if self._has_namespace:
            return ((), mode, payload) if self._has_mode else ((), payload)
        return (mode, payload) if self._has_mode else payload

    def _parts(self, item: Any) -> tuple[tuple[str, ...], str, Any]:
        """Return an item's namespace, mode and payload, whatever shape was asked for."""
        if self._is_v2:
            return item["ns"], item["type"], item["data"]
        if self._has_namespace and self._has_mode:
            return item
        if self._has_namespace:
            return item[0], self._mode, item[1]
        if self._has_mode:
            return (), item[0], item[1]
        return (), self._mode, item

    def _final(self, items: list[Any]) -> tuple[Any, Any]:
        """Return the last message of the graph itself, and its last values."""
        pieces: list[Any] = []
        for item in reversed(items):
            namespace, mode, payload = self._parts(item)
            if namespace != ():
                continue
            if mode == "messages":
                if not pieces or payload[0].id == pieces[-1].id:
                    pieces.append(payload[0])
            elif mode == "values":
                found = last_message(payload)
                return found, None if found is not None else payload
            elif mode == "updates" and isinstance(payload, Mapping):
                for update in payload.values():
                    if (found := last_message(update)) is not None:
                        return found, None
        if not pieces:
            return None, None
        whole = pieces.pop()
        while pieces:
            whole = whole + pieces.pop()
        return whole, None
