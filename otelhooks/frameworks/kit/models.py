# pyright: basic
"""A model call at a seat, and the table by which messages are read and created."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from otelhooks import types
from otelhooks.frameworks.kit.objects.classes import native
from otelhooks.frameworks.kit.objects.mistakes import place
from otelhooks.frameworks.kit.passages import Passage
from otelhooks.hooks.calls import Call, same_json
from otelhooks.hooks.context import current_branch
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import Operation
from otelhooks.pipeline.frames import Op, current_frame, current_scope
from otelhooks.pipeline.model_call import ModelReply, ModelRequest, ModelSeat, model
from otelhooks.pipeline.runtime import Runtime
from otelhooks.records import semconv
from otelhooks.records.failures import WrongAnswer
from otelhooks.telemetry.content import messages as as_messages
from otelhooks.telemetry.content import parse_arguments

__all__ = ["ModelCall", "Part", "PartTable"]

_PROVIDERS = {
    name: provider
    for provider, names in {
        semconv.PROVIDER_AWS_BEDROCK: "amazon_bedrock bedrock bedrock_converse",
        semconv.PROVIDER_AZURE_AI_INFERENCE: "azure_ai azure_inference",
        semconv.PROVIDER_AZURE_AI_OPENAI: "azure azure_openai",
        semconv.PROVIDER_GCP_GEMINI: "gemini google_genai",
        semconv.PROVIDER_GCP_VERTEX_AI: "google_vertexai vertex vertex_ai",
        semconv.PROVIDER_IBM_WATSONX_AI: "ibm watsonx",
        semconv.PROVIDER_MISTRAL_AI: "mistral mistralai",
        semconv.PROVIDER_X_AI: "xai",
    }.items()
    for name in names.split()
}
"""What frameworks call providers -> ``gen_ai.provider.name``; any other name is used as it is."""


_SAME = {name: name for name in ("input_tokens", "output_tokens")}


class Part(NamedTuple):
    """One part of a message.

    Args:
        kind: ``text``, ``call``, ``result`` or ``other``.
        native: The framework's part; None for one that hooks created.
        text: Text of a text or a result.
        name: Name of the called tool.
        id: Id of the call.
        args: Arguments of the call; for another part its JSON, if captured content should contain
            it.
    """

    kind: str
    native: Any = None
    text: str = ""
    name: str = ""
    id: str = ""
    args: Any = None


class PartTable(NamedTuple):
    """How a framework's parts of messages are distinguished and created.

    Args:
        made: Our kind to a function that creates such a part of the framework, or to the path of
            a class that takes the `fields` by name; not the id if there is none.
        kind: Name of the attribute that tells them apart, ``__class__`` if that is the name of
            their class; empty if the adapter reads parts itself, and messages have the names that
            APIs of chat models share.
        text, call, result: Its values for texts, tool calls, and results of tools.
        roles: Its values to the roles of messages; all others are the assistant's.
        messages: Role to a function that creates a message from a text; "" for any other role.
        fields: Names of a part's attributes: content, name, id and arguments.
        between: Separator between two texts of one answer.
    """

    made: Mapping[str, Callable[[Part], Any] | str]
    kind: str = ""
    text: Sequence[str] = ()
    call: Sequence[str] = ()
    result: Sequence[str] = ()
    roles: Mapping[str, str] = {}
    messages: Mapping[str, Callable[[str], Any]] = {}
    fields: tuple[str, str, str, str] = ("content", "name", "id", "args")
    between: str = ""

    def kind_of(self, part: Any) -> Any:
        """Return the value that tells a part of the framework apart."""
        kind = getattr(part, self.kind)
        return kind.__name__ if isinstance(kind, type) else kind

    def make(self, part: Part) -> Any:
        """Return a part of the framework."""
        made, (content, name, id, args) = self.made[part.kind], self.fields
        if not isinstance(made, str):
            return made(part)
        if part.kind == "text":
            return native(made)(**{content: part.text})
        known = {id: part.id} if part.id else {}
        return native(made)(**{name: part.name, args: part.args}, **known)

    def read(self, part: Any) -> Part:
        """Read a part of the framework."""
        kind, (content, name, id, args) = self.kind_of(part), self.fields
        if kind in self.call:
            given = parse_arguments(getattr(part, args)) or {}
            return Part("call", part, "", getattr(part, name), getattr(part, id) or "", given)
        ours = "text" if kind in self.text else "result" if kind in self.result else "other"
        found = getattr(part, content, "")
        text = found if isinstance(found, str) else str(found)
        return Part(ours, part, text, id=getattr(part, id, None) or "")


class ModelCall(Passage, ModelRequest):
    """One call of a model. `read` sets what it knows: ``model``, ``messages``, and the rest.

    Attributes:
        table: How messages are read and created.
        runs_here: Names of the tools whose calls pass a seat: none of those may be missed.
        is_typed: Whether a text cannot be its answer: then a refusal raises.
        tokens: Our names of tokens, to where they are in the framework's record of usage, such as
            ``details.cached``; ``input_tokens`` and ``output_tokens`` may have those names there.
    """

    must = ("read", "call", "answer")
    words = (
        "model provider messages tools settings operation agent stream attributes table runs_here "
        "is_typed tokens answer answered changed denied about parts asks role offered hosted "
        "note_first_chunk"
    )
    table: ClassVar[PartTable]
    tokens: ClassVar[Mapping[str, str]] = {}
    runs_here: Container[str] = ()
    is_typed: bool = False
    _steps: ClassVar[list[tuple[str, list[str]]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        paths = {**_SAME, **cls.tokens}
        cls._steps = [(name, path.split(".")) for name, path in paths.items()]

    # -- what an adapter writes ---------------------------------------------------------------

    def call(self, wrapped: Callable[..., Any]) -> Any:
        """Call the framework's function with what hooks wrote: `natives` and ``tools``."""
        raise NotImplementedError

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        """Return an answer of these parts.

        Args:
            parts: The framework's parts.
            of: An answer to copy except for its parts; None creates one.
        """
        raise NotImplementedError

    def denied(self, reason: str) -> Any:
        """Return or raise a refusal: by default an answer with the reason."""
        if self.is_typed:
            raise self.exception(reason)
        return self.answered(reason)

    def about(self, raw: Any) -> tuple[Any, ...]:
        """Return what an answer says about itself, with None for what it does not say.

        Returns:
            The framework's record of usage, in which `tokens` names what counts; without these,
            tokens by our names. Then the reason of its end, or several; its id; its model.
        """
        return ()

    def parts(self, message: Any) -> Iterable[Part]:
        """Read the parts of an answer, or of a message."""
        return map(self.table.read, message.parts)

    def asks(self, raw: Any) -> dict[str, str]:
        """Return the names of the tools whose calls must pass a seat here, by ids of the calls."""
        calls = (part for part in self.parts(raw) if part.kind == "call" and part.id)
        return {call.id: call.name for call in calls if call.name in self.runs_here}

    def role(self, part: Part, message: Any) -> str:
        """Return the role of a part of a message."""
        if part.kind == "result":
            return "tool"
        return self.table.roles.get(self.table.kind_of(part.native), "assistant")

    def offered(self, definition: Any) -> Call | None:
        """Return a call of a defined tool as rules will see it, like the tool's seat reads it."""
        return ModelSeat.tool(_NAMED, definition)

    def answered(self, response: Any) -> Any:
        """Return a hook's answer, a text or a `ModelResponse`, in the framework's form."""
        if not isinstance(response, types.ModelResponse):
            return self.composed([Part("text", text=str(response))])
        parts = [Part("text", text=response.text)] if response.text else []
        return self.composed([*parts, *_asked(response)])

    def args_of(self, part: Part) -> Any:
        """Return the arguments of a call in an answer, as hooks see them."""
        return part.args

    def rewritten(self, part: Part, new: Part) -> Part:
        """Return a call of an answer with a hook's name and arguments."""
        return new

    def changed(self, raw: Any, response: Any) -> Any:
        """Replace the first text, and leave out calls that a hook left out."""
        whole = isinstance(response, types.ModelResponse)
        text = response.text if whole else str(response)
        read = list(self.parts(raw))
        kept = self._paired(read, _asked(response)) if whole else None
        parts: list[Part] = []
        for one in read:
            if one.kind == "text":
                parts += [Part("text", text=text)] if text else []
                text = ""
            elif one.kind != "call" or kept is None:
                parts.append(one)
            elif (new := kept.get(id(one))) is not None:
                parts.append(one if self._is_same(one, new) else self.rewritten(one, new))
        return self.composed([*parts, Part("text", text=text)] if text else parts, raw)

    def _paired(self, parts: list[Part], calls: list[Part]) -> dict[int, Part]:
        """Return for each call of the model its call in a hook's answer: unchanged ones first."""
        found: dict[int, Part] = {}
        for fits in (self._is_same, _has_name, _has_id):
            for one in parts:
                if one.kind == "call" and id(one) not in found:
                    at = next((n for n, call in enumerate(calls) if fits(one, call)), None)
                    if at is not None:
                        found[id(one)] = calls.pop(at)
        return found

    def _is_same(self, one: Part, call: Part) -> bool:
        return _has_name(one, call) and same_json(call.args, self.args_of(one))

    @staticmethod
    def hosted(definition: Any) -> Any:
        """Return what rules see of a tool that runs at the provider, like `BuiltIns.hosted`."""
        return None

    # -- what an adapter uses -----------------------------------------------------------------

    def used(self, usage: Any) -> dict[str, int]:
        """Return the `tokens` in the framework's record of usage; empty if it counted none."""
        found: dict[str, int] = {}
        for name, steps in self._steps:
            value = usage
            for step in steps:
                value = value.get(step) if isinstance(value, dict) else getattr(value, step, None)
            if value is not None:
                found[name] = value
        return found if any(found.values()) else {}

    def natives(self) -> list[Any]:
        """Return the messages in the framework's form: hooks may add some with role and content.

        Without functions for that in its `table`, an adapter converts them.
        """
        made = self.table.messages
        if not made:
            return list(self.messages)
        return [
            (made.get(str(one.get("role"))) or made[""])(str(one.get("content", "")))
            if isinstance(one, Mapping)
            else one
            for one in self.messages
        ]

    @staticmethod
    def is_inner() -> bool:
        """Return whether another seat has let this very call through."""
        frame = current_frame()
        return type(frame) is Op and frame.call is None

    @staticmethod
    def must_wait() -> bool:
        """Return whether answers of models must wait for a hook that may change them."""
        rt = runtime.active()
        if rt is None or rt.stream != "buffer":
            return False
        hooks, _ = rt.in_force(current_scope(), current_branch())
        return bool(hooks.at("post_model_call").transformers)

    # -- what the kit makes of it -------------------------------------------------------------

    def note_first_chunk(self) -> Callable[[], None] | None:
        """Note when the first item of a stream came; return what notes the others, if anything."""
        return ModelRequest.note_first_chunk(self)

    def steps(self, rt: Runtime) -> Operation:
        self.provider = _PROVIDERS.get(self.provider, self.provider)
        return model(rt, _Seat(self), self)

    def run(self, wrapped: Callable[..., Any], approved: Any) -> Any:
        return self.call(wrapped)

    def composed(self, parts: Iterable[Part], of: Any = None) -> Any:
        """Return an answer with some parts in the framework's form, as `answer` creates it."""
        make = self.table.make
        return self.answer([make(one) if one.native is None else one.native for one in parts], of)


_NAMED = ModelSeat()


class _Seat(ModelSeat):
    """A model call in the form that the pipeline needs."""

    def __init__(self, call: ModelCall) -> None:
        self._call, self.framework, self.hosted = call, call.framework, call.hosted

    def reply(self, request: Any, raw: Any) -> ModelReply:
        return _Reply(self._call, raw)

    def refused(self, request: Any, reason: str) -> Any:
        return self._call.denied(reason)

    def answered(self, request: Any, response: Any) -> Any:
        return self._call.answered(response)

    def with_response(self, request: Any, raw: Any, response: Any) -> Any:
        return self._call.changed(raw, response)

    def tool(self, definition: Any) -> Call | None:
        return self._call.offered(definition)

    def messages(self, request: Any) -> list[dict[str, Any]]:
        if not self._call.table.kind:
            return as_messages(request.messages)
        return [
            {"role": role, "parts": list(map(self._shown, parts))}
            for message in self._call.natives()
            for role, parts in itertools.groupby(
                self._call.parts(message), lambda part, of=message: self._call.role(part, of)
            )
        ]

    def _shown(self, part: Part) -> dict[str, Any]:
        if part.kind == "call":
            args = self._call.args_of(part)
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": args}
        if part.kind == "result":
            return {"type": "tool_call_response", "id": part.id, "response": part.text}
        if part.kind == "other" and part.args is not None:
            return part.args
        return {"type": "text", "content": part.text}


_NOTHING = (None, None, None, None)


class _Reply(ModelReply):
    """An answer whose parts are read on first use."""

    def __init__(self, call: ModelCall, raw: Any) -> None:
        self._call, self._raw = call, raw
        about: Any = call.about(raw)
        if type(about) is not tuple:
            given = type(about).__name__
            raise WrongAnswer(f"{place(type(call))}: `about` returned {given}, not a tuple")
        usage, reason, id, model = (*about, *_NOTHING)[:4]
        self.usage = call.used(usage) if call.tokens else usage or {}
        self.response_id, self.model = id or "", model or ""
        several = isinstance(reason, list)
        self.finish_reasons = reason if several else (str(reason),) if reason else ()

    @functools.cached_property
    def _parts(self) -> list[Part]:
        return list(self._call.parts(self._raw))

    @functools.cached_property
    def text(self) -> str:  # type: ignore[override]
        between = self._call.table.between
        return between.join(one.text for one in self._parts if one.kind == "text")

    @functools.cached_property
    def tool_calls(self) -> list[tuple[str, str, Any]]:  # type: ignore[override]
        args = self._call.args_of
        return [(one.id, one.name, args(one)) for one in self._parts if one.kind == "call"]

    @property
    def asked(self) -> dict[str, str]:
        return self._call.asks(self._raw)


def _asked(response: types.ModelResponse) -> list[Part]:
    return [
        Part("call", name=str(one.name), id=one.id or "", args=one.args)
        for one in response.tool_calls
    ]


def _has_name(one: Part, call: Part) -> bool:
    return _has_id(one, call) and one.name == call.name


def _has_id(one: Part, call: Part) -> bool:
    return one.id == call.id
