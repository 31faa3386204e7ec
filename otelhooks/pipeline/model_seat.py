"""How a seat reads and writes a model call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import time_ns
from typing import Any, cast

from otelhooks import types
from otelhooks.hooks.calls import Call
from otelhooks.hooks.verdict import refusal
from otelhooks.pipeline.frames import Op
from otelhooks.pipeline.hosted_tools import Hosted
from otelhooks.records import semconv
from otelhooks.telemetry.content import messages as as_messages

__all__ = ["ModelReply", "ModelRequest", "ModelSeat"]


class ModelRequest:
    """A model call on its way through a seat.

    Attributes:
        model: Name as the framework sends it.
        provider: ``gen_ai.provider.name``.
        messages: The framework's own objects; the list may be replaced by hooks.
        tools: Tool definitions, as the framework's own objects; hooks may replace the list.
        settings: Temperature and the like.
        operation: ``chat``, ``generate_content`` or ``text_completion``.
        agent: Agent that calls; empty for the turn's agent.
        stream: Whether chunks are requested.
        attributes: Further start attributes.
        is_rewritten: Whether hooks replaced messages or tools.
        holds_back: Whether a stream must wait for the verdict on the whole answer.
        first_chunk_ns: When the first chunk of a stream came, in nanoseconds since the epoch; 0 if
            none came.
        chunk_times: When each chunk came; None if that is not recorded.
    """

    __slots__ = (
        "agent",
        "attributes",
        "chunk_times",
        "first_chunk_ns",
        "holds_back",
        "is_rewritten",
        "messages",
        "model",
        "op",
        "operation",
        "provider",
        "settings",
        "stream",
        "tools",
    )

    def __init__(
        self,
        model: str = "",
        messages: Sequence[Any] = (),
        *,
        provider: str = "",
        tools: Sequence[Any] = (),
        settings: Mapping[str, Any] | None = None,
        operation: str = semconv.OP_CHAT,
        agent: str = "",
        stream: bool = False,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.model: str = model
        self.provider: str = provider
        self.messages: list[Any] = list(messages)
        self.tools: list[Any] = list(tools)
        self.settings: Mapping[str, Any] | None = settings
        self.operation: str = operation
        self.agent: str = agent
        self.stream: bool = stream
        self.attributes: Mapping[str, Any] | None = attributes
        self.is_rewritten: bool = False
        self.holds_back: bool = False
        self.first_chunk_ns: int = 0
        self.chunk_times: list[int] | None = None
        self.op: Op | None = None

    def note_first_chunk(self) -> Callable[[], None] | None:
        """Note when the first chunk came; return what notes the others, None if nothing does."""
        self.first_chunk_ns = time_ns()
        if self.chunk_times is None:
            return None
        self.chunk_times.append(self.first_chunk_ns)
        return self._note_chunk

    def _note_chunk(self) -> None:
        if self.chunk_times is not None:
            self.chunk_times.append(time_ns())


class ModelReply:
    """What a seat reads from a model's answer.

    Attributes:
        text: Text of the answer.
        tool_calls: Tool calls that it asks for: id, name, arguments.
        usage: Tokens: ``input_tokens``, ``output_tokens``, and where known
            ``cache_read_input_tokens``, ``cache_write_input_tokens``, ``reasoning_output_tokens``.
        finish_reasons: One for each choice.
        response_id: The provider's id of the answer.
        model: Model that answered.
    """

    __slots__ = ("finish_reasons", "model", "response_id", "text", "tool_calls", "usage")

    def __init__(
        self,
        text: str = "",
        tool_calls: Sequence[tuple[str, str, Any]] = (),
        usage: Mapping[str, int] | None = None,
        finish_reasons: Sequence[str] = (),
        response_id: str = "",
        model: str = "",
    ) -> None:
        self.text: str = text
        self.tool_calls: Sequence[tuple[str, str, Any]] = tool_calls
        self.usage: Mapping[str, int] = usage or {}
        self.finish_reasons: Sequence[str] = finish_reasons
        self.response_id: str = response_id
        self.model: str = model

    @property
    def asked(self) -> dict[str, str]:
        """Map ids to names of the tool calls that it asks for, if they have an id."""
        return {id: name for id, name, _ in self.tool_calls if id}


class ModelSeat:
    """How one seat reads and writes a model call; adapters subclass it.

    Attributes:
        framework: Adapter's name.
        hosted: Static method that returns what rules see of a tool definition, or None if the tool
            does not run at the provider. None if no tool does, or it cannot be known.
    """

    framework = ""
    hosted: Callable[[Any], Hosted | None] | None = None

    def reply(self, request: ModelRequest, raw: Any) -> ModelReply:
        """Return what is in a model's answer."""
        raise NotImplementedError

    def refused(self, request: ModelRequest, reason: str) -> Any:
        """Return an answer of the framework's own form that says the reason.

        Raises:
            Denied: The framework has no such form; the default.
        """
        raise refusal(reason, request.op.verdict if request.op is not None else None)

    def answered(self, request: ModelRequest, response: Any) -> Any:
        """Return a ready response (text or ours) as an answer in the framework's own form."""
        text = response.text if isinstance(response, types.ModelResponse) else response
        return self.refused(request, str(text))

    def with_response(self, request: ModelRequest, raw: Any, response: Any) -> Any:
        """Return a model's answer with another response, a text or a `ModelResponse`."""
        return self.answered(request, response)

    def tool(self, definition: Any) -> Call | None:
        """Return a call of a defined tool as rules would see it, None if it has no name.

        It is read as the tool's seat will read it, with the same server and canonical names, so
        that a rule hides exactly what it denies.
        """
        if isinstance(definition, Mapping):
            outer = cast("Mapping[str, Any]", definition)
            inner: Mapping[str, Any] = outer.get("function") or {}
            found = outer.get("name") or inner.get("name")
        else:
            found = getattr(definition, "name", None)
        return Call(found, {}) if isinstance(found, str) and found else None

    def messages(self, request: ModelRequest) -> list[dict[str, Any]]:
        """Return the messages in the form of the conventions, for captured content."""
        return as_messages(request.messages)
