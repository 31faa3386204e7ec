"""Read and write the model calls of the OpenAI Agents SDK, whichever provider makes them.

The history that a call is given grows with the run: nothing of it, of the settings or of the answer
is read before somebody looks.
"""
# pyright: basic

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from otelhooks import types
from otelhooks.errors import Denied
from otelhooks.frameworks.openai_agents.answers import (
    arguments_of,
    field,
    function_call,
    id_of,
    message,
    response_of,
    text_of,
    usage_of,
)
from otelhooks.frameworks.openai_agents.builtin_kinds import hosted, known
from otelhooks.frameworks.openai_agents.tools import locate
from otelhooks.hooks.calls import Call
from otelhooks.patching.copies import is_a
from otelhooks.pipeline.model_call import ModelReply, ModelRequest, ModelSeat

__all__ = ["SEAT", "AgentsRequest"]

_NAMES = (
    "system_instructions",
    "input",
    "model_settings",
    "tools",
    "output_schema",
    "handoffs",
    "tracing",
)
_HANDOFF = ("agents.handoffs", "Handoff")
_FUNCTION = ("agents.tool", "FunctionTool")
_SETTINGS = ("temperature", "top_p", "max_tokens", "tool_choice", "parallel_tool_calls")
_CALLS = {  # kinds of calls, and the name of those that say none
    "function_call": "",
    "custom_tool_call": "",
    "shell_call": "shell",
    "local_shell_call": "local_shell",
}


class Settings(Mapping[str, Any]):
    """What a model is called with besides messages and tools, read when somebody looks.

    Args:
        arguments: The call's, by name.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments

    @functools.cached_property
    def _found(self) -> dict[str, Any]:
        settings = self._arguments.get("model_settings")
        found = {name: getattr(settings, name, None) for name in _SETTINGS}
        found["instructions"] = self._arguments.get("system_instructions") or None
        return {name: value for name, value in found.items() if value is not None}

    def __getitem__(self, name: str) -> Any:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class AgentsRequest(ModelRequest):
    """A model call with what its seat needs to write it.

    Attributes:
        arguments: All arguments by name.
        positional: How many of them were given by position.
    """

    __slots__ = ("arguments", "positional")

    def __init__(
        self,
        chosen: Any,
        agent: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        stream: bool,
    ) -> None:
        """Read a call of `Model.get_response` or `Model.stream_response`."""
        self.arguments = kwargs if not args else {**dict(zip(_NAMES, args, strict=False)), **kwargs}
        self.positional = len(args)
        named = self.arguments.get
        model, given = getattr(chosen, "model", None), named("input")
        super().__init__(
            model if isinstance(model, str) else "",
            [{"role": "user", "content": given}] if isinstance(given, str) else given or (),
            provider=provider_in(type(chosen).__module__),
            tools=[*(named("tools") or ()), *(named("handoffs") or ())],
            settings=Settings(self.arguments),
            agent=agent,
            stream=stream,
        )

    def call(self, function: Callable[..., Any]) -> Any:
        """Call a model's function as the SDK did, with what hooks wrote."""
        written = self.written()
        if not self.positional:
            return function(**written)
        names = _NAMES[: self.positional]
        rest = {name: value for name, value in written.items() if name not in names}
        return function(*(written[name] for name in names), **rest)

    @property
    def answer_is_typed(self) -> bool:
        """Whether the answer must be JSON of the user's own type."""
        schema = self.arguments.get("output_schema")
        return schema is not None and not schema.is_plain_text()

    def written(self) -> dict[str, Any]:
        """Return the arguments, with what hooks wrote."""
        if not self.is_rewritten:
            return self.arguments
        return {
            **self.arguments,
            "input": self.messages,
            "tools": [one for one in self.tools if not is_a(one, _HANDOFF)],
            "handoffs": [one for one in self.tools if is_a(one, _HANDOFF)],
        }


@functools.lru_cache(maxsize=64)
def provider_in(module: str) -> str:
    """Return who answers: ``openai`` for the SDK's own models, else the package of the class.

    Args:
        module: Name of the module that the model's class is from.
    """
    if module.startswith("agents.extensions.models."):
        return module.rpartition(".")[2].removesuffix("_model")
    head = module.partition(".")[0]
    return "openai" if head == "agents" else head


class AgentsReply(ModelReply):
    """An answer whose text, and whose calls' arguments, are read when somebody looks.

    Args:
        output: The answer's items.
        asked: Those that ask for calls that the SDK will run here, with the names of the tools.
        usage: Tokens by name.
        response_id: The provider's id.
    """

    def __init__(
        self,
        output: Sequence[Any],
        asked: Sequence[tuple[Any, str]],
        usage: Mapping[str, int],
        response_id: str,
    ) -> None:
        self._output = output
        self._asked = asked
        self.usage = usage
        self.finish_reasons = ()
        self.response_id = response_id
        self.model = ""

    @property
    def asked(self) -> dict[str, str]:
        """Names of the tools that it asks for, by the ids of the calls."""
        return {id: name for item, name in self._asked if (id := id_of(item))}

    @functools.cached_property
    def text(self) -> str:  # type: ignore[override]
        """Text of the answer."""
        return text_of(self._output)

    @functools.cached_property
    def tool_calls(self) -> list[tuple[str, str, dict[str, Any]]]:  # type: ignore[override]
        """Calls that it asks for: id, name, arguments."""
        return [(id_of(item), name, arguments_of(item)) for item, name in self._asked]


class _ModelSeat(ModelSeat):
    framework = "openai_agents"
    hosted = staticmethod(hosted)

    def reply(self, request: ModelRequest, raw: Any) -> ModelReply:
        output = raw.output
        asked = [(item, name) for item in output if (name := _asked_name(request, item))]
        return AgentsReply(output, asked, usage_of(raw.usage), raw.response_id or "")

    def tool(self, definition: Any) -> Call | None:
        name = getattr(definition, "tool_name", None) or getattr(definition, "name", None)
        if not isinstance(name, str) or not name:
            return None
        call = Call(name, {})
        if is_a(definition, _FUNCTION):
            locate(call, definition.on_invoke_tool, definition)
        elif (built_in := known(definition, None)) is not None:
            call.kind = built_in.kind
            if built_in.kind != "file_write":  # what a patch does is not known before it is there
                call.canonical = built_in.canonical
        return call

    def refused(self, request: AgentsRequest, reason: str) -> Any:  # type: ignore[override]
        if request.answer_is_typed:
            raise Denied(reason)  # a reason is no JSON of the user's type
        return response_of([message(reason)])

    def answered(self, request: ModelRequest, response: Any) -> Any:
        if not isinstance(response, types.ModelResponse):
            return response_of([message(str(response))])
        output = [message(response.text)] if response.text else []
        output += [function_call(call) for call in response.tool_calls]
        return response_of(output)

    def with_response(self, request: ModelRequest, raw: Any, response: Any) -> Any:
        """Put a text in the place of the message, and leave out calls that a hook left out."""
        text = response.text if isinstance(response, types.ModelResponse) else str(response)
        kept: dict[str, Any] | None = None
        if isinstance(response, types.ModelResponse):
            kept = {call.id or "": call for call in response.tool_calls}
        output: list[Any] = []
        for item in raw.output:
            if field(item, "type") == "message":
                output += [message(text)] if text else []
                text = ""
            elif kept is None or not _asked_name(request, item):
                output.append(item)
            elif id_of(item) in kept:
                asked = kept[id_of(item)]
                is_same = asked.args == arguments_of(item)
                output.append(item if is_same else function_call(asked))
        if text:
            output.append(message(text))
        changed = response_of(output)
        changed.usage, changed.response_id = raw.usage, raw.response_id
        return changed


SEAT = _ModelSeat()


def _asked_name(request: ModelRequest, item: Any) -> str:
    """Return the name in a call that the SDK will run here; empty if an item is no such call."""
    kind = field(item, "type")
    if kind not in _CALLS:
        return ""
    name = field(item, "name") or _CALLS[kind]
    for one in request.tools:
        if getattr(one, "name", None) == name or getattr(one, "tool_name", None) == name:
            if kind != "shell_call" or getattr(one, "executor", None) is not None:
                return name
    return ""  # the provider runs it
