# pyright: basic, reportMissingImports=false
"""Runs of langgraph's graphs: how one is read, refused, answered and told as a stream."""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from typing import Any

from otelhooks.hooks.context import current_branch
from otelhooks.instrumentation._frames import Turn, current_frame, current_scope
from otelhooks.instrumentation._langchain_models import know_tools
from otelhooks.instrumentation._langchain_tools import is_control_flow
from otelhooks.instrumentation._run import RunRequest, RunSeat
from otelhooks.instrumentation._runtime import Runtime
from otelhooks.telemetry import semconv

__all__ = ["GraphRun"]

log = logging.getLogger("otelhooks.instrumentation")

_TASK = "__pregel_task_id"
_CHECKPOINTER = "__pregel_checkpointer"
_INTERRUPT = "__interrupt__"
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
        self._own = (graph.config or {}).get("configurable") or {}
        self._given = (self._config or {}).get("configurable") or {}
        self._turn: Turn | None = None
        self._tools = _tool_names(graph)
        know_tools(self._tools)
        self.request = self._read()

    def _read(self) -> RunRequest:
        graph = self._graph
        metadata = (graph.config or {}).get("metadata") or {}
        thread = self._given.get("thread_id", self._own.get("thread_id"))
        has_message, prompt = _prompt(_update(self._input))
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
            is_resumed=self._input is None or (_is_command(self._input) and not has_message),
        )

    # -- the body -----------------------------------------------------------------------------

    def inner(self, wrapped: Callable[..., Any]) -> Callable[[RunRequest], Any]:
        """Return the body: a function of what was approved, giving the graph's own stream."""

        def run(approved: RunRequest) -> Any:
            frame = current_frame()
            self._turn = frame if isinstance(frame, Turn) else None
            if not approved.is_rewritten:
                return wrapped(*self._args, **self._kwargs)
            given = _with_prompt(self._input, approved.prompt)
            if self._args:
                return wrapped(given, *self._args[1:], **self._kwargs)
            return wrapped(**{**self._kwargs, "input": given})

        return run

    def holds_back(self, rt: Runtime) -> bool:
        """Say whether the stream has to wait for a hook that may change the final answer."""
        here = current_branch()
        branch = f"{here}/{self.request.agent}" if here else self.request.agent
        hooks, _ = rt.in_force(current_scope(), branch)
        return rt.stream == "buffer" and bool(hooks.at("post_agent").transformers)

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
        return _text(message) if message is not None else values

    def with_response(self, request: RunRequest, raw: Any, response: Any) -> Any:
        """Return the same with another answer, wherever the stream tells it."""
        if isinstance(raw, _Answer):
            return _Answer(str(response), raw.is_kept)
        items = raw.items if isinstance(raw, _Changed) else raw
        old, values = self._final(items)
        if old is None:
            return _Changed([_replace_values(item, values, response) for item in items], None)
        new = old.model_copy(update={"content": _content(response)})
        told: list[Any] = []
        was_streamed = False
        for item in items:
            _, mode, payload = self._parts(item)
            if mode != "messages" or not _is_same(payload[0], old):
                told.append(_replace(item, old, new))
            elif not was_streamed:  # one message in place of the many pieces of the old one
                was_streamed = True
                told.append(_put(item, payload, (new, *payload[1:])))
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
            if namespace == () and _is_interrupted(item, mode, payload):
                return True
        if self._turn is not None and self._turn.asked:
            for call_id in _refused_by_graph(raw):
                self._turn.judged(call_id)
        return False

    # -- telling ------------------------------------------------------------------------------

    @staticmethod
    def chunks(result: Any) -> list[Any]:
        """Return the items that tell a result; an answer of ours is told by `deliver`."""
        return result if isinstance(result, list) else [result]

    def deliver(self, items: Generator[Any, None, None]) -> Generator[Any, None, None]:
        """Yield a run's items; tell answers of ours in the shape that was asked for."""
        try:
            for item in items:
                if type(item) is _Changed:
                    self._keep(item)
                    yield from item.items
                elif type(item) is _Answer:
                    before = self._graph.get_state(self._config).values if self._thread else {}
                    new, told = self._shape(item, before)
                    if item.is_kept and self._thread:
                        self._graph.update_state(self._config, new, as_node=self._node)
                    yield from told
                else:
                    yield item
        finally:
            items.close()

    async def adeliver(self, items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Do what `deliver` does, for an asynchronous stream."""
        try:
            async for item in items:
                if type(item) is _Changed:
                    await self._akeep(item)
                    for changed in item.items:
                        yield changed
                elif type(item) is _Answer:
                    before: Any = {}
                    if self._thread:
                        before = (await self._graph.aget_state(self._config)).values
                    new, told = self._shape(item, before)
                    if item.is_kept and self._thread:
                        await self._graph.aupdate_state(self._config, new, as_node=self._node)
                    for shaped in told:
                        yield shaped
                else:
                    yield item
        finally:
            await items.aclose()

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
        except Exception:
            log.exception("the thread still holds the answer that a hook replaced")

    async def _akeep(self, changed: _Changed) -> None:
        if changed.message is None or not self._thread:
            return
        try:
            new = {"messages": [changed.message]}
            await self._graph.aupdate_state(self._config, new, as_node=self._node)
        except Exception:
            log.exception("the thread still holds the answer that a hook replaced")

    def _shape(self, answer: _Answer, before: Any) -> tuple[dict[str, Any], list[Any]]:
        """Return what an answer changes in the state, and the items that tell it."""
        from langchain_core.messages import AIMessage, convert_to_messages

        graph, kwargs = self._graph, self._kwargs
        given = _update(self._input)
        given = dict(given) if isinstance(given, Mapping) else {}
        sent = given.get("messages") or []
        sent = convert_to_messages(sent if isinstance(sent, list) else [sent])
        message = AIMessage(answer.text, id=str(uuid.uuid4()))
        new = {**given, "messages": [*sent, message]}
        history = before.get("messages") or [] if isinstance(before, Mapping) else []
        values: Any = {**before, **new, "messages": [*history, *sent, message]}
        keys = kwargs.get("output_keys") or graph.stream_channels_asis
        values = values.get(keys) if isinstance(keys, str) else _only(values, keys)
        node = self._node or next(reversed(graph.nodes))
        payloads = {
            "messages": (message, {"langgraph_node": node}),
            "updates": {node: {"messages": [message]}},
            "values": values,
        }
        modes = self._mode if isinstance(self._mode, (list, tuple)) else [self._mode]
        return new, [self._item(mode, payloads[mode]) for mode in payloads if mode in modes]

    # -- the shape of items -------------------------------------------------------------------

    @property
    def _mode(self) -> Any:
        mode = self._kwargs.get("stream_mode")
        if mode is None:
            return "values" if _TASK in self._given else self._graph.stream_mode
        return mode

    def _item(self, mode: str, payload: Any) -> Any:
        if self._kwargs.get("version") == "v2":
            item = {"type": mode, "ns": (), "data": payload}
            return {**item, "interrupts": ()} if mode == "values" else item
        has_mode, has_namespace = isinstance(self._mode, list), self._kwargs.get("subgraphs")
        if has_namespace:
            return ((), mode, payload) if has_mode else ((), payload)
        return (mode, payload) if has_mode else payload

    def _parts(self, item: Any) -> tuple[tuple[str, ...], str, Any]:
        """Return an item's namespace, mode and payload, whatever shape was asked for."""
        if self._kwargs.get("version") == "v2":
            return item["ns"], item["type"], item["data"]
        has_mode, has_namespace = isinstance(self._mode, list), self._kwargs.get("subgraphs")
        namespace: tuple[str, ...] = ()
        if has_namespace and has_mode:
            return item
        if has_namespace:
            namespace, item = item
        if has_mode:
            return namespace, item[0], item[1]
        return namespace, str(self._mode), item

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
                found = _last_message(payload)
                return found, None if found is not None else payload
            elif mode == "updates" and isinstance(payload, Mapping):
                for update in payload.values():
                    if (found := _last_message(update)) is not None:
                        return found, None
        if not pieces:
            return None, None
        whole = pieces.pop()
        while pieces:
            whole = whole + pieces.pop()
        return whole, None


# -- the graph and its input ------------------------------------------------------------------


def _tool_names(graph: Any) -> list[str]:
    """Return the names of the tools that the graph's own nodes run."""
    found: list[str] = []
    for node in graph.nodes.values():
        bound = getattr(node, "bound", None)
        for part in (bound, *getattr(bound, "steps", ())):
            found += getattr(part, "tools_by_name", None) or ()
    return found


def _is_command(value: Any) -> bool:
    return type(value).__name__ == "Command" and hasattr(value, "resume")


def _update(value: Any) -> Any:
    """Return what an input puts into the state; a command has that in an attribute."""
    return getattr(value, "update", None) if _is_command(value) else value


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _last_of_user(messages: list[Any]) -> int | None:
    for index in range(len(messages) - 1, -1, -1):
        item = messages[index]
        role: Any = item[0] if isinstance(item, tuple) and item else None
        if isinstance(item, Mapping):
            role = item.get("role") or item.get("type")
        elif not isinstance(item, tuple):
            role = "user" if isinstance(item, str) else getattr(item, "type", None)
        if role in ("user", "human"):
            return index
    return None


def _prompt(given: Any) -> tuple[bool, Any]:
    """Return whether an input holds a message of the user, and what it says."""
    messages = None if isinstance(given, (str, type(None))) else _get(given, "messages")
    if isinstance(messages, str):
        return True, messages
    if messages is not None and not isinstance(messages, list):
        messages = [messages]
    index = _last_of_user(messages) if messages else None
    if messages is None or index is None:
        return False, given
    item = messages[index]
    if isinstance(item, str):
        return True, item
    return True, item[1] if isinstance(item, tuple) else _get(item, "content")


def _with_prompt(given: Any, prompt: Any) -> Any:
    """Return an input whose last message of the user says something else."""
    inside = _update(given)
    if not _prompt(inside)[0]:
        return prompt
    if _is_command(given):
        return dataclasses.replace(given, update=_with_prompt(inside, prompt))
    messages = _get(inside, "messages")
    if isinstance(messages, str):
        return _set(inside, "messages", prompt)
    many = list(messages) if isinstance(messages, list) else [messages]
    index = _last_of_user(many) or 0
    item = many[index]
    if isinstance(item, (str, tuple)):
        many[index] = prompt if isinstance(item, str) else (item[0], prompt)
    else:
        many[index] = _set(item, "content", prompt)
    return _set(inside, "messages", many)


def _set(value: Any, name: str, new: Any) -> Any:
    """Return a copy with another value under a name."""
    if isinstance(value, Mapping):
        return {**value, name: new}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{name: new})
    return value.model_copy(update={name: new})


# -- messages in what is streamed -------------------------------------------------------------


def _only(values: Mapping[str, Any], keys: Any) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _last_message(values: Any) -> Any:
    messages = None if values is None or isinstance(values, str) else _get(values, "messages")
    if isinstance(messages, list) and messages:
        last = messages[-1]
        return last if hasattr(last, "content") else None
    return messages if hasattr(messages, "content") else None


def _text(message: Any) -> Any:
    text = getattr(message, "text", None)
    return str(text) if isinstance(text, str) else message.content


def _content(response: Any) -> Any:
    return response if isinstance(response, (str, list)) else str(response)


def _is_same(message: Any, old: Any) -> bool:
    if not hasattr(message, "content") or not hasattr(message, "type"):
        return False
    if message.id is not None and message.id == old.id:
        return True
    return bool(old.content) and message.content == old.content and message.type == old.type


def _replace(value: Any, old: Any, new: Any) -> Any:
    """Return the same with one message replaced, however deep it lies."""
    if isinstance(value, dict):
        return {key: _replace(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, old, new) for item in value]
    if type(value) is tuple:
        return tuple(_replace(item, old, new) for item in value)
    if _is_same(value, old):
        return value.model_copy(update={"content": new.content})
    return value


def _replace_values(item: Any, old: Any, new: Any) -> Any:
    """Return an item with other values, where the values as a whole are the answer."""
    if item is old:
        return new
    if isinstance(item, dict) and "data" in item:
        return {**item, "data": new} if item["data"] is old else item
    if type(item) is tuple:
        return tuple(new if part is old else part for part in item)
    return item


def _put(item: Any, old: Any, new: Any) -> Any:
    return _replace_values(item, old, new)


def _is_interrupted(item: Any, mode: str, payload: Any) -> bool:
    if isinstance(item, dict) and item.get("interrupts"):
        return True
    return mode in ("updates", "values") and isinstance(payload, dict) and _INTERRUPT in payload


def _refused_by_graph(items: list[Any]) -> Iterator[str]:
    """Yield the ids of calls whose message says that they failed."""
    stack: list[Any] = list(items)
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping):
            stack.extend(value.values())
        elif isinstance(value, (list, tuple)):
            stack.extend(value)
        elif getattr(value, "status", None) == "error" and getattr(value, "tool_call_id", None):
            yield value.tool_call_id
