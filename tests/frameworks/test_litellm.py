"""LiteLLM under a loop that is written by hand, against a model on loopback.

The loops are unchanged: they know nothing of otelhooks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import litellm
import pydantic
import pytest

import otelhooks
from otelhooks import errors, hooks, policy, types
from tests.frameworks.loops import DANGER, DENY, REASON, SAFE, Loops, Path, Tools, gaps
from tests.frameworks.model_double import Double, served

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*{text}.*:{kind}")
    for text, kind in (
        *(("ReadOnly", "UserWarning"), ("Pydantic serializer", "UserWarning")),
        *(
            ("There is no current event loop", "DeprecationWarning"),
            ("unclosed", "ResourceWarning"),
        ),
    )
]
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("danger", "safe")
]


@pytest.fixture
def model():
    with served() as double:
        yield double


@pytest.fixture
def tools() -> Tools:
    return Tools()


def of(model: Double, **given: Any) -> dict[str, Any]:
    place = {"api_base": f"{model.url}/v1", "api_key": "k", "num_retries": 0}
    return {"model": "openai/small", "tools": TOOLS, **place, **given}


def of_anthropic(model: Double, **given: Any) -> dict[str, Any]:
    return {**of(model), "model": "anthropic/claude-small", "api_base": model.url, **given}


def loop(ask: Callable[..., Any], tools: Tools) -> str:
    messages: list[Any] = [{"role": "user", "content": "begin"}]
    while True:
        message = ask(messages)
        messages.append(message)
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            result = tools.run(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def joined(chunks: Any, messages: Any) -> Any:
    return litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message


def completion(model: Double, tools: Tools) -> str:
    def ask(messages: Any) -> Any:
        return litellm.completion(messages=messages, **of(model)).choices[0].message

    return loop(ask, tools)


def completion_stream(model: Double, tools: Tools) -> str:
    def ask(messages: Any) -> Any:
        chunks = litellm.completion(messages=messages, stream=True, **of(model))
        return joined(list(chunks), messages)

    return loop(ask, tools)


def completion_async(model: Double, tools: Tools) -> str:
    async def ask(messages: Any) -> Any:
        return (await litellm.acompletion(messages=messages, **of(model))).choices[0].message

    return loop(lambda messages: asyncio.run(ask(messages)), tools)


def completion_async_stream(model: Double, tools: Tools) -> str:
    async def ask(messages: Any) -> Any:
        chunks: Any = await litellm.acompletion(messages=messages, stream=True, **of(model))
        return joined([chunk async for chunk in chunks], messages)

    return loop(lambda messages: asyncio.run(ask(messages)), tools)


def completion_anthropic(model: Double, tools: Tools) -> str:
    """A provider for which LiteLLM has HTTP of its own."""

    def ask(messages: Any) -> Any:
        return litellm.completion(messages=messages, **of_anthropic(model)).choices[0].message

    return loop(ask, tools)


def completion_anthropic_stream(model: Double, tools: Tools) -> str:
    def ask(messages: Any) -> Any:
        chunks = litellm.completion(messages=messages, stream=True, **of_anthropic(model))
        return joined(list(chunks), messages)

    return loop(ask, tools)


def _router(model: Double) -> Any:
    given = of(model)
    del given["tools"]
    return litellm.Router(model_list=[{"model_name": "small", "litellm_params": given}])


def router(model: Double, tools: Tools) -> str:
    ask = _router(model).completion
    return loop(lambda said: ask("small", said, tools=TOOLS).choices[0].message, tools)


def router_async_stream(model: Double, tools: Tools) -> str:
    async def ask(messages: Any) -> Any:
        asked = _router(model).acompletion
        chunks = await asked(model="small", messages=messages, tools=TOOLS, stream=True)
        return joined([chunk async for chunk in chunks], messages)

    return loop(lambda messages: asyncio.run(ask(messages)), tools)


def tool_loop(model: Double, tools: Tools) -> str:
    """LiteLLM's own loop."""

    def execute(call: Any) -> Any:
        result = tools.run(call.function.name, call.function.arguments)
        return {"role": "tool", "tool_call_id": call.id, "content": result}

    begin: Any = [{"role": "user", "content": "begin"}]
    found: Any = litellm.run_tool_loop(messages=begin, execute_tool=execute, **of(model))
    return found if isinstance(found, str) else found.choices[0].message.content


PATHS = [
    Path(completion),
    Path(completion_stream),
    Path(completion_async),
    Path(completion_async_stream),
    Path(completion_anthropic),
    Path(completion_anthropic_stream),
    Path(router),
    Path(router_async_stream),
]
if hasattr(litellm, "run_tool_loop"):
    PATHS.append(Path(tool_loop))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
class TestLoops(Loops):
    framework = "litellm"


class TestOnce:
    """A call that LiteLLM makes through a guarded client, or for a guarded framework."""

    def test_through_the_client_of_a_provider(self, model, tools, with_rules, exporter):
        model.steps = [[DANGER], [SAFE], "done"]
        with_rules(*DENY)
        assert completion(model, tools) == "done"
        assert [span.name for span in exporter.get_finished_spans()] == [
            *("chat openai/small", "execute_tool danger", "chat openai/small"),
            *("execute_tool safe", "chat openai/small"),
        ]

    def test_under_a_guarded_model_call(self, model, with_rules, exporter):
        model.steps = [[DANGER]]
        with_rules(*DENY)

        @otelhooks.model_call(model="small", provider="litellm")
        def ask(messages):
            return litellm.completion(messages=messages, **of(model))

        assert ask([{"role": "user", "content": "x"}]).choices[0].message.tool_calls
        assert [span.name for span in exporter.get_finished_spans()] == ["chat small"]

    def test_a_span_has_the_settings_of_the_request(self, model, with_rules, exporter):
        model.steps = ["done"]
        with_rules(*DENY)
        said: list[Any] = [{"role": "user", "content": "x"}]
        litellm.completion(messages=said, temperature=0.5, max_tokens=7, **of(model))
        [span] = exporter.get_finished_spans()
        assert span.attributes["gen_ai.request.temperature"] == 0.5
        assert span.attributes["gen_ai.request.max_tokens"] == 7
        assert span.attributes["server.address"] == "127.0.0.1"

    def test_nothing_is_added_to_a_request(self, model):
        said: list[Any] = [{"role": "user", "content": "x"}]
        for _ in range(2):
            model.steps = ["done"]
            litellm.completion(messages=said, temperature=0.5, **of(model))
            otelhooks.instrument(policies=DENY)
        assert model.requests[0] == model.requests[1]

    def test_a_stream_is_still_an_object_of_its_class(self, model):
        model.steps = ["done"]
        otelhooks.instrument(policies=DENY)
        said = [{"role": "user", "content": "x"}]
        stream = litellm.completion(messages=said, stream=True, **of(model))
        assert isinstance(stream, litellm.CustomStreamWrapper)


class TestIgnoringTheVerdict:
    def ignore(self, model: Double, tools: Tools) -> Any:
        messages: list[Any] = [{"role": "user", "content": "begin"}]
        litellm.completion(messages=messages, **of(model))
        function = {"name": "danger", "arguments": json.dumps(DANGER[2])}
        call = {"id": "call_d", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = tools.run(**function)
        messages.append({"role": "tool", "tool_call_id": "call_d", "content": result})
        return litellm.completion(messages=messages, **of(model))

    def test_it_is_told_of(self, model, tools, caplog):
        model.steps = [[DANGER], "no", "done"]
        otelhooks.instrument(policies=DENY)
        self.ignore(model, tools)
        assert gaps(caplog) == [
            "coverage gap: tool `danger` (litellm) was denied, and the loop sent a result of it"
        ]

    def test_under_strict_its_request_is_not_sent(self, model, tools):
        model.steps = [[DANGER], "no", "done"]
        otelhooks.instrument(policies=DENY, strict=True)
        with pytest.raises(errors.Denied, match="The result of `danger` was not sent"):
            self.ignore(model, tools)
        assert len(model.requests) == 2


def test_call_tool_goes_on_under_the_same_verdict(model):
    model.steps = [[SAFE]]
    otelhooks.instrument(policies=[policy.RateLimit(tool_calls=1)])
    litellm.completion(messages=[{"role": "user", "content": "x"}], **of(model))
    assert otelhooks.call_tool("safe", {"x": 1}, lambda x: x, id="call_s") == 1
    with pytest.raises(errors.Denied):
        otelhooks.call_tool("safe", {"x": 1}, lambda x: x, id="call_s")


class TestWhatAStreamKeeps:
    """LiteLLM keeps the chunks of a stream in the object that the loop has."""

    def read(self, model: Double, *, is_async: bool) -> Any:
        model.steps = [["a secret", DANGER]]
        said: list[Any] = [{"role": "user", "content": "x"}]
        given: dict[str, Any] = {"messages": said, "stream": True, **of(model)}

        async def ask() -> Any:
            stream: Any = await litellm.acompletion(**given)
            return stream, [chunk async for chunk in stream]

        if is_async:
            return asyncio.run(ask())
        stream: Any = litellm.completion(**given)
        assert stream.completion_stream is stream
        return stream, list(stream)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_it_keeps_what_the_loop_got(self, model, is_async):
        masked = hooks.post_model_call_transform(
            lambda data: data.model_copy(update={"text": "masked"})
        )
        options = {"litellm": {"on_denied": "drop"}}
        otelhooks.instrument(hooks=[masked], policies=DENY, frameworks=options)
        stream, chunks = self.read(model, is_async=is_async)
        assert stream.chunks == chunks
        assert stream.response_uptil_now == f"masked\n{REASON}"
        kept = [*stream.chunks, stream.partial_response()]
        assert not [one for one in kept if "secret" in str(one) or "danger" in str(one)]

    def test_it_can_be_closed_before_its_end(self, model, with_rules, exporter):
        model.steps = ["done"]
        with_rules(*DENY)
        said: list[Any] = [{"role": "user", "content": "x"}]
        stream: Any = litellm.completion(messages=said, stream=True, **of(model))
        kept = [next(stream)]
        stream.close()
        assert stream.chunks == kept
        assert len(exporter.get_finished_spans()) == 1


def test_hooks_see_messages_that_are_objects_of_the_programs_own(model):
    """Any class of pydantic's, if it has the methods that LiteLLM calls."""

    class Said(pydantic.BaseModel):
        role: str = "user"
        content: str
        name: str | None = None

        def get(self, name: str) -> Any:
            return getattr(self, name, None)

    @hooks.pre_model_call
    def masked(data):
        said = [
            {**one, "content": one["content"].replace("secret", "***")} for one in data.messages
        ]
        return types.HookResult(modified_messages=said)

    model.steps = ["done"]
    otelhooks.instrument(hooks=[masked])
    said: list[Any] = [Said(content="a secret")]
    litellm.completion(messages=said, **of(model))
    assert model.requests[0]["messages"] == [{"role": "user", "content": "a ***"}]


class TestUnread:
    """Requests of forms that nothing here reads."""

    def test_they_are_told_of_once(self, model, caplog):
        otelhooks.instrument(policies=DENY)
        for _ in range(2):
            model.steps = ["done"]
            litellm.responses(input="x", **of(model))
        said = [r.getMessage() for r in caplog.records if "which no rule" in r.getMessage()]
        assert said == ["`litellm.responses` asks a model, which no rule is asked about"]

    def test_under_strict_they_are_not_sent(self, model):
        otelhooks.instrument(policies=DENY, strict=True)
        with pytest.raises(errors.Denied, match="no rule"):
            litellm.responses(input="x", **of(model))
        with pytest.raises(errors.Denied, match="no rule"):
            asyncio.run(litellm.aresponses(input="x", **of(model)))
        with pytest.raises(errors.Denied, match="no rule"):
            litellm.text_completion(prompt="x", **of(model))
        with pytest.raises(errors.Denied, match="no rule"):
            asyncio.run(litellm.anthropic_messages(messages=[], max_tokens=9, **of(model)))
        assert model.requests == []


def test_the_reason_is_in_the_next_request(model, tools):
    model.steps = [[DANGER, SAFE], "done"]
    otelhooks.instrument(policies=DENY)
    completion(model, tools)
    assert REASON in json.dumps(model.requests[1])


def test_the_proof_holds():
    from otelhooks.frameworks.litellm.scripted import prove

    otelhooks.instrument()
    proof = prove()
    assert proof.proved, proof


def test_a_stream_that_litellm_reads_itself_is_judged(model):
    model.steps = [[DANGER], "done"]
    otelhooks.instrument(policies=DENY)
    begin = [{"role": "user", "content": "begin"}]
    answer: Any = litellm.completion(
        messages=begin, stream=True, complete_response=True, **of(model)
    )
    assert "danger" not in answer.model_dump_json()
    assert answer.choices[0].message.content == "done"
