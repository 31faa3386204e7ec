# pyright: basic
"""The client ``google-genai``, 1.40 and newer: loops that are written by hand, and its own one.

``_generate_content`` and ``_generate_content_stream`` of ``Models`` and ``AsyncModels`` carry each
completion once: of ``generate_content``, of chats, and of each step of automatic function calling.
The calls in the answer are judged there (see `kit.clients`). The functions that the client runs
itself pass ``invoke_function_from_dict_args``, and keep the same verdict. A request that a guarded
framework sends through the client passes, since that framework's own seats judge it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.google_genai.pieces import continued, goes_on, is_piece, is_piecewise
from otelhooks.frameworks.kit.clients.calls import IN_PART, ON_DENIED, ClientCall
from otelhooks.frameworks.kit.mcp.servers import server_of
from otelhooks.frameworks.kit.objects.functions import ASYNC_GENERATOR

__all__ = ["ADAPTER"]

_SETTINGS = ("temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences", "seed")


_types = kit.module("google.genai.types")


def _content(role: str, parts: Iterable[Any]) -> Any:
    return _types.Content(role=role, parts=list(parts))


def _said_by(role: str) -> Any:
    return lambda text: _content(role, [_types.Part(text=text)])


def _asked(part: kit.Part) -> Any:
    call = _types.FunctionCall(name=part.name, id=part.id or None, args=part.args or {})
    return _types.Part(function_call=call)


def _response(call: Any, id: str, response: dict[str, Any]) -> Any:
    own = id if call.id else None
    made = _types.FunctionResponse(name=call.name, id=own, response=response)
    return _types.Part(function_response=made)


def _field(record: Any, name: str) -> Any:
    """Return a field of a request's configuration, an object or a dict; None if it has none."""
    if isinstance(record, Mapping):
        first, *further = name.split("_")
        return record.get(name, record.get("".join([first, *map(str.title, further)])))
    return getattr(record, name, None)


def _parts_of(message: Any) -> Sequence[Any]:
    """Return the parts of a message, or of all candidates of an answer."""
    if not hasattr(message, "candidates"):
        return getattr(message, "parts", None) or ()
    return [part for one in message.candidates or () for part in _parts_of(one.content)]


def _shown(result: Any) -> str:
    """Return what hooks see of a result: its text, and files beside it but pictures and sound."""
    given = result.response or {}
    value = given["result"] if given.keys() == {"result"} else given
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    files = [_file(one) for one in getattr(result, "parts", None) or ()]
    return "\n".join([text, *filter(None, files)])


def _file(part: Any) -> str:
    found = part.inline_data or part.file_data
    if found is None or (found.mime_type or "").startswith(("image/", "audio/", "video/")):
        return ""
    if found is part.file_data:
        return found.file_uri or ""
    return (found.data or b"").decode(errors="replace")


_BESIDE = ("logprobs_result", "avg_logprobs", "grounding_metadata", "citation_metadata")
"""Fields of a candidate that repeat its text, or quote what it is made of."""


def _is_text(part: Any) -> bool:
    return part.text is not None and not part.thought and not part.function_call


def _is_said(part: Any) -> bool:
    """Return whether a part is neither a thought nor code that ran at the provider."""
    return not (part.thought or part.executable_code or part.code_execution_result)


class Generated(ClientCall):
    """A request for content. Most calls have no id, so each gets one here, which is not sent."""

    table = kit.PartTable(
        kind="function_call",
        made={"text": lambda part: _types.Part(text=part.text), "call": _asked},
        messages={
            "system": _said_by("system"),
            "assistant": _said_by("model"),
            "": _said_by("user"),
        },
    )
    tokens: ClassVar = {
        "input_tokens": "prompt_token_count",
        "output_tokens": "candidates_token_count",
        "cache_read_input_tokens": "cached_content_token_count",
        "reasoning_output_tokens": "thoughts_token_count",
    }

    def read(self, models: Any, /, model: str, contents: Any, config: Any = None) -> Any:
        if self.is_inner():
            return kit.SKIP
        if self.is_unsupported:
            return None
        if _field(config, "should_return_http_response"):
            return self.passes("`google_genai` asks a model for an answer in bytes")
        self.model, self._contents, self._config = model, contents, config
        is_vertex = models._api_client.vertexai
        self.attributes = server_of(_field(models._api_client._http_options, "base_url"))
        self.provider, self.operation = "gcp.vertex_ai" if is_vertex else "gcp.gemini", "chat"
        self._sent = list(kit.native("google.genai._transformers:t_contents")(contents))
        instructions = _field(config, "system_instruction")
        if instructions:
            to_content = kit.native("google.genai._transformers:t_content")
            self._sent.insert(0, _content("system", to_content(instructions).parts or ()))
        self.messages = list(self._sent)
        self._offered = [one for tool in _field(config, "tools") or () for one in _offered(tool)]
        self.tools = list(self._offered)
        self.settings = {
            name: value for name in _SETTINGS if (value := _field(config, name)) is not None
        }
        forms = ("response_schema", "response_json_schema")
        self.is_typed = any(_field(config, name) for name in forms)
        self._number()
        return None

    def _number(self) -> None:
        """Give the calls and results in the history the ids that they were booked under."""
        self._ids: dict[int, str] = {}
        self._asked: Counter[str] = Counter()
        self._salt = next((str(p.text) for one in self._sent for p in _parts_of(one)), "")
        pending: list[tuple[str, str]] = []
        answered: dict[str, str] = {}  # the last of each name: a result may come in pieces
        known: set[str | None] = set()
        for message in self._sent:
            for part in _parts_of(message):
                if call := part.function_call:
                    self._ids[id(part)] = self._id(call, self._asked)
                    pending.append((call.name, self._ids[id(part)]))
                    known.add(call.id)
                elif result := part.function_response:
                    if result.id and result.id in known:
                        continue
                    found = next((one for one in pending if one[0] == result.name), None)
                    if found is not None:
                        pending.remove(found)
                        answered[result.name] = found[1]
                    if result.name in answered:
                        self._ids[id(part)] = answered[result.name]

    def _id(self, call: Any, asked: Counter[str]) -> str:
        """Return a call's id, or one made of conversation, name, arguments and order."""
        text = json.dumps([self._salt, call.name, call.args], sort_keys=True, default=str)
        asked[text] += 1
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return call.id or f"otelhooks-{digest}-{asked[text]}"

    def call(self, wrapped: Any) -> Any:
        contents, config, messages = self._contents, self._config, self.natives()
        if list(map(id, messages)) != list(map(id, self._sent)):
            contents = [one for one in messages if one.role != "system"]
            said = [part for one in messages if one.role == "system" for part in _parts_of(one)]
            if said or _field(config, "system_instruction"):
                config = _with(config, "system_instruction", _content("user", said))
        if self.tools != self._offered:
            config = _with(config, "tools", _definitions(self.tools))
        return wrapped(model=self.model, contents=contents, config=config)

    # -- answers ------------------------------------------------------------------------------

    def parts(self, message: Any) -> Iterable[kit.Part]:
        asked = self._asked.copy()
        for part in _parts_of(message):
            if call := part.function_call:
                if part.text or part.function_response:
                    raise ValueError("a part is a call and something else: which one is read?")
                id_ = self._ids.get(id(part)) or self._id(call, asked)
                yield kit.Part("call", part, "", call.name or "", id_, dict(call.args or {}))
            elif result := part.function_response:
                text = _shown(result)
                yield kit.Part("result", part, text, id=self._ids.get(id(part)) or result.id or "")
            else:
                yield kit.Part("text" if _is_text(part) else "other", part, part.text or "")

    def role(self, part: kit.Part, message: Any) -> str:
        if part.kind == "result":
            return "tool"
        role = "model" if hasattr(message, "candidates") else message.role or "user"
        return {"model": "assistant"}.get(role, role)

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        if of is None or not of.candidates:
            content = _content("model", parts)
            candidate = _types.Candidate(content=content, finish_reason="STOP", index=0)
            return _types.GenerateContentResponse(candidates=[candidate])
        others = [
            {id(self.origin(part)) for part in _parts_of(one.content)} for one in of.candidates[1:]
        ]
        kept = [[part for part in parts if id(self.origin(part)) in other] for other in others]
        theirs = {id(part) for other in kept for part in other}
        kept.insert(0, [part for part in parts if id(part) not in theirs])
        candidates = [
            one.model_copy(update={"content": _content("model", own)})
            for one, own in zip(of.candidates, kept, strict=True)
        ]
        return of.model_copy(update={"candidates": candidates})

    def bare(self, answer: Any) -> Any:
        candidates = [
            one.model_copy(
                update={
                    "content": _content("model", filter(_is_said, _parts_of(one.content))),
                    **dict.fromkeys(_BESIDE),
                }
            )
            for one in answer.candidates
        ]
        return answer.model_copy(update={"candidates": candidates, "parsed": None})

    def about(self, raw: Any) -> tuple[Any, ...]:
        reason = raw.candidates[0].finish_reason if raw.candidates else None
        reason = reason and getattr(reason, "name", str(reason)).lower()
        return raw.usage_metadata, reason, raw.response_id, raw.model_version

    def offered(self, definition: Any) -> Any:
        if inspect.isroutine(definition):
            definition = {"name": definition.__name__}
        return super().offered(definition)

    # -- the next request ---------------------------------------------------------------------

    def said(self, answer: Any) -> list[Any]:
        return [_content("model", _parts_of(answer))]

    def with_calls(
        self, messages: list[Any], at: int, calls: Iterable[tuple[Any, str, str]]
    ) -> list[Any]:
        calls = list(calls)
        asked = _content("model", [*_parts_of(messages[at]), *(native for native, _, _ in calls)])
        results = [
            _response(native.function_call, id, {"error": text}) for native, id, text in calls
        ]
        after = messages[at + 1 :]
        if after and after[0].role != "model":
            results = [*_parts_of(after.pop(0)), *results]
        return [*messages[:at], asked, _content("user", results), *after]

    def with_result(self, message: Any, part: kit.Part, text: str) -> Any:
        native = part.native
        new: dict[str, Any] = {"response": {"result": text}}
        if getattr(native.function_response, "parts", None):
            new["parts"] = None  # pictures and files beside the text
        result = native.function_response.model_copy(update=new)
        changed = native.model_copy(update={"function_response": result})
        parts = [changed if one is native else one for one in _parts_of(message)]
        return message.model_copy(update={"parts": parts})

    def with_args(self, part: kit.Part, args: dict[str, Any], text: str) -> Any:
        call = part.native.function_call.model_copy(update={"args": args, "id": part.id})
        return part.native.model_copy(update={"function_call": call})


class Streamed(Generated):
    """The same with a stream as answer, whose items are answers of their own."""

    def shows(self, event: Any) -> str:
        parts = _parts_of(event)
        if any(part.function_call for part in parts):
            return "call"
        return "text" if any(_is_text(part) for part in parts) else ""

    def joined(self, events: list[Any]) -> Any:
        told: dict[int, Any] = {}  # the last candidate of each index
        parts: dict[int, list[Any]] = {}
        for event in events:
            for place, (index, one) in enumerate(_candidates(event)):
                self.must_retell |= index != place  # loops read the first one
                told[index] = one
                for part in _parts_of(one.content):
                    self._add(parts.setdefault(index, []), part)
        if not told:
            return self.answer([], events[-1] if events else None)
        candidates = [
            told[index].model_copy(update={"content": _content("model", parts.get(index, ()))})
            for index in sorted(told)
        ]
        return events[-1].model_copy(update={"candidates": candidates})

    def _add(self, parts: list[Any], part: Any) -> None:
        """Add a part of an item to those of its candidate."""
        call = part.function_call
        if parts and _is_text(part) and _is_text(parts[-1]):
            parts[-1] = parts[-1].model_copy(update={"text": parts[-1].text + part.text})
        elif parts and goes_on(parts[-1]) and is_piece(part, parts[-1]):
            parts[-1] = continued(parts[-1], call)
        elif goes_on(part) or is_piecewise(part):
            parts.append(continued(part, call))
            self.must_retell = True  # a loop may join pieces otherwise
        elif call and not call.name:
            raise ValueError("a piece of a call continues none")
        else:
            parts.append(part)

    def events(self, data: Any, shown: list[Any]) -> Iterable[Any]:
        seen: dict[int, list[Any]] = {}
        for index, one in (each for event in shown for each in _candidates(event)):
            seen[index] = [*seen.get(index, ()), *_parts_of(one.content)]
        candidates = [
            one.model_copy(
                update={"content": _content("model", _rest(one.content, seen.get(index, [])))}
            )
            for index, one in _candidates(data)
        ]
        return [data.model_copy(update={"candidates": candidates})]


def _candidates(answer: Any) -> Iterable[tuple[int, Any]]:
    """Return the candidates of an answer, with their indices; most have none."""
    for place, one in enumerate(answer.candidates or ()):
        yield place if one.index is None else one.index, one


def _rest(content: Any, seen: list[Any]) -> list[Any]:
    """Return the parts of a candidate that a consumer has not seen."""
    text = "".join(part.text for part in seen if _is_text(part))
    parts: list[Any] = []
    for part in _parts_of(content):
        if not _is_text(part):
            parts += [] if any(part is one for one in seen) else [part]
            continue
        known = len(text) if part.text.startswith(text) else 0
        known = len(part.text) if text.startswith(part.text) else known
        text = text[known:]
        if rest := part.text[known:]:
            parts.append(part.model_copy(update={"text": rest}))
    return parts


class Opened(Streamed):
    """An asynchronous stream, which a coroutine returns."""

    def read(self, models: Any, /, model: str, contents: Any, config: Any = None) -> Any:
        if self.is_inner() or self.is_unsupported:
            return super().read(models, model, contents, config)
        self.function = functools.partial(_opened, self.function, models)
        return kit.SKIP


async def _opened(wrapped: Any, models: Any, **given: Any) -> Any:
    async def items(**given: Any) -> Any:
        async for item in await wrapped(**given):
            yield item

    return Streamed.through(ASYNC_GENERATOR, items, models, **given)


class Tool(kit.ToolCall):
    """A call of a function by the client: automatic function calling."""

    def read(self, _: Any, /, args: Any, function_to_invoke: Any) -> None:
        self._function = function_to_invoke
        self.name, self.description = function_to_invoke.__name__, function_to_invoke.__doc__ or ""
        self.take(args)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args, self._function)

    def denied(self, reason: str) -> Any:
        raise self.exception(reason)  # the client tells the model


def _is_declared(one: Any) -> bool:
    return kit.is_a(one, "google.genai.types:FunctionDeclaration") or (
        isinstance(one, Mapping) and "name" in one
    )


def _offered(tool: Any) -> list[Any]:
    """Return what one definition offers: functions one by one, or itself."""
    return list(_field(tool, "function_declarations") or ()) or [tool]


def _definitions(offered: Iterable[Any]) -> list[Any]:
    """Return definitions as a request has them: declared functions in one."""
    offered = list(offered)
    declared = [one for one in offered if _is_declared(one)]
    rest = [one for one in offered if not _is_declared(one)]
    return [*([_types.Tool(function_declarations=declared)] if declared else []), *rest]


def _with(config: Any, name: str, value: Any) -> Any:
    """Return a configuration with another value of a field."""
    if config is None or isinstance(config, Mapping):
        return {**(config or {}), name: value}
    return config.model_copy(update={name: value})


_MODELS = "google.genai.models"
_INVOKE = "google.genai._extra_utils:invoke_function_from_dict_args"

ADAPTER = kit.Adapter(
    "google_genai",
    kit.Package("google-genai", ">=1.40,<4", module="google.genai"),
    seats=(
        kit.seat(f"{_MODELS}:(|Async)Models._generate_content", Generated),
        kit.seat(f"{_MODELS}:Models._generate_content_stream", Streamed),
        kit.seat(f"{_MODELS}:AsyncModels._generate_content_stream", Opened),
        kit.seat(f"{_INVOKE}(|_async)", Tool),
    ),
    not_covered={
        "live sessions, interactions, batches": "they pass no seat",
        "tools of the provider": "they run at the provider",
        "a function that your code calls itself": "calling it is plain Python",
    },
    options={"on_denied": ON_DENIED},
    in_part=IN_PART,
)
