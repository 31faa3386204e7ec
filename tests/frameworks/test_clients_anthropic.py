"""The client anthropic under loops that are written by hand, and its tool runner."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any

import anthropic
import pytest
from anthropic import beta_async_tool, beta_tool
from anthropic.lib.tools import _beta_functions
from anthropic.resources.beta.messages import Messages as BetaMessages

import otelhooks
from otelhooks import errors, hooks, policy
from tests.frameworks import model_double
from tests.frameworks.loops import DANGER, DENY, REASON, SAFE, Loops, Path, Tools, gaps
from tests.frameworks.model_double import Double, served

DEFINED = [
    {"name": name, "description": "", "input_schema": {"type": "object"}}
    for name in ("danger", "safe")
]


@pytest.fixture
def model():
    with served() as double:
        yield double


@pytest.fixture
def tools() -> Tools:
    return Tools()


def client_of(model: Double) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=model.url, api_key="k", max_retries=0)


def aclient_of(model: Double) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=model.url, api_key="k", max_retries=0)


# -- loops, as people write them ------------------------------------------------------------


def loop(ask: Callable[..., dict[str, Any]], tools: Tools) -> str:
    messages: list[Any] = [{"role": "user", "content": "begin"}]
    while True:
        message = ask(
            model="small", messages=messages, tools=DEFINED, max_tokens=9, system="Be brief."
        )
        messages.append({"role": "assistant", "content": message["content"]})
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        if not calls:
            return "".join(block["text"] for block in message["content"])
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call["id"],
                "content": tools.run(call["name"], json.dumps(call["input"])),
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": results})


def messages(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        return loop(lambda **given: client.messages.create(**given).to_dict(), tools)


def messages_objects(model: Double, tools: Tools) -> str:
    """Send the blocks of the answer back as they came."""
    with client_of(model) as client:
        said = [{"role": "user", "content": "begin"}]
        while True:
            answer = client.messages.create(**_begin(tools=DEFINED, messages=said))
            said.append({"role": "assistant", "content": answer.content})
            calls = [block for block in answer.content if block.type == "tool_use"]
            if not calls:
                return _said(answer)
            results = [
                {"type": "tool_result", "tool_use_id": call.id}
                | {"content": tools.run(call.name, json.dumps(call.input))}
                for call in calls
            ]
            said.append({"role": "user", "content": results})


def messages_beta(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        return loop(lambda **given: client.beta.messages.create(**given).to_dict(), tools)


def messages_raw(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        create = client.messages.with_raw_response.create
        return loop(lambda **given: json.loads(create(**given).http_response.text), tools)


def messages_streaming_response(model: Double, tools: Tools) -> str:
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            with client.messages.with_streaming_response.create(**given) as response:
                return json.loads(response.read())

        return loop(ask, tools)


def joined(events: Any) -> dict[str, Any]:
    """Add up the events of a streamed message."""
    blocks: list[Any] = []
    for event in events:
        if event.type == "content_block_start":
            blocks.append({"json": "", **event.content_block.to_dict()})
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            blocks[event.index]["text"] += event.delta.text
        elif event.type == "content_block_delta":
            blocks[event.index]["json"] += event.delta.partial_json
    for block in blocks:
        text = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(text)
    return {"content": blocks}


def messages_stream(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        return loop(lambda **given: joined(client.messages.create(**given, stream=True)), tools)


class Event(dict[str, Any]):
    """An event as a loop reads it that parses the lines of a stream itself."""

    __getattr__ = dict.__getitem__
    to_dict = dict.copy


def messages_lines_stream(model: Double, tools: Tools) -> str:
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            create = client.messages.with_streaming_response.create
            with create(**given, stream=True) as response:
                lines = [line[6:] for line in response.iter_lines() if line.startswith("data: {")]
            return joined(json.loads(line, object_hook=Event) for line in lines)

        return loop(ask, tools)


def messages_response_stream(model: Double, tools: Tools) -> str:
    """Read the response that the stream itself reads."""
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            with client.messages.create(**given, stream=True) as stream:
                lines = [
                    line[6:] for line in stream.response.iter_lines() if line.startswith("data: {")
                ]
            return joined(json.loads(line, object_hook=Event) for line in lines)

        return loop(ask, tools)


def messages_helper_stream(model: Double, tools: Tools) -> str:
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            with client.messages.stream(**given) as stream:
                return stream.get_final_message().to_dict()

        return loop(ask, tools)


def messages_async(model: Double, tools: Tools) -> str:
    async def ask(**given: Any) -> Any:
        async with aclient_of(model) as client:
            return (await client.messages.create(**given)).to_dict()

    return loop(lambda **given: asyncio.run(ask(**given)), tools)


def messages_async_stream(model: Double, tools: Tools) -> str:
    async def ask(**given: Any) -> Any:
        async with aclient_of(model) as client:
            stream = await client.messages.create(**given, stream=True)
            return joined([event async for event in stream])

    return loop(lambda **given: asyncio.run(ask(**given)), tools)


def _functions(tools: Tools) -> list[Any]:
    @beta_tool
    def danger(path: str) -> str:
        """Delete."""
        return tools.run("danger", json.dumps({"path": path}))

    @beta_tool
    def safe(x: int) -> str:
        """Read."""
        return tools.run("safe", json.dumps({"x": x}))

    return [danger, safe]


def _afunctions(tools: Tools) -> list[Any]:
    @beta_async_tool
    async def danger(path: str) -> str:
        """Delete."""
        return tools.run("danger", json.dumps({"path": path}))

    @beta_async_tool
    async def safe(x: int) -> str:
        """Read."""
        return tools.run("safe", json.dumps({"x": x}))

    return [danger, safe]


def _begin(**more: Any) -> dict[str, Any]:
    start = [{"role": "user", "content": "begin"}]
    return {"model": "small", "max_tokens": 9, "messages": start, **more}


def _said(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def runner(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        run = client.beta.messages.tool_runner(**_begin(tools=_functions(tools)))
        return _said(run.until_done())


def runner_stream(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        run = client.beta.messages.tool_runner(**_begin(tools=_functions(tools)), stream=True)
        for stream in run:
            for _ in stream:
                pass
            message = stream.get_final_message()
        return _said(message)


def runner_async(model: Double, tools: Tools) -> str:
    async def run() -> str:
        async with aclient_of(model) as client:
            run = client.beta.messages.tool_runner(**_begin(tools=_afunctions(tools)))
            return _said(await run.until_done())

    return asyncio.run(run())


PATHS = [
    Path(messages),
    Path(messages_objects),
    Path(messages_beta),
    Path(messages_raw),
    Path(messages_streaming_response),
    Path(messages_stream),
    Path(messages_lines_stream),
    Path(messages_response_stream),
    Path(messages_helper_stream),
    Path(messages_async),
    Path(messages_async_stream),
    Path(runner),
    Path(runner_stream),
    Path(runner_async),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
class TestLoops(Loops):
    framework = "anthropic"


def test_a_span_has_the_settings_of_the_request_and_the_server(model, with_rules, exporter):
    model.steps = ["done"]
    with_rules(*DENY)
    with client_of(model) as client:
        said: Any = [{"role": "user", "content": "begin"}]
        client.messages.create(
            model="claude-small", max_tokens=7, messages=said, stop_sequences=["x"]
        )
    [span] = exporter.get_finished_spans()
    assert span.attributes["gen_ai.request.max_tokens"] == 7
    assert span.attributes["gen_ai.request.stop_sequences"] == ("x",)
    assert span.attributes["server.address"] == "127.0.0.1"
    assert span.attributes["server.port"] == int(model.url.rpartition(":")[2])


class TestTools:
    """What the client itself runs."""

    def test_a_call_has_one_span_with_its_id(self, model, tools, with_rules, exporter):
        with_rules(policy.RateLimit(tool_calls=1))
        model.steps = [[SAFE], "done"]
        assert runner(model, tools) == "done"
        spans = [span for span in exporter.get_finished_spans() if "execute_tool" in span.name]
        assert [span.name for span in spans] == ["execute_tool safe"]
        assert spans[0].attributes["gen_ai.tool.call.id"] == "call_s"

    def test_a_direct_call_is_denied(self, tools):
        otelhooks.instrument(policies=DENY)
        danger, _ = _functions(tools)
        error = getattr(anthropic.lib.tools, "ToolError", errors.Denied)
        with pytest.raises(error, match="Deleting"):
            danger.call({"path": "/"})
        assert tools.ran == []

    def test_an_asynchronous_one_too(self, tools):
        otelhooks.instrument(policies=DENY)
        danger, _ = _afunctions(tools)
        error = getattr(anthropic.lib.tools, "ToolError", errors.Denied)
        with pytest.raises(error, match="Deleting"):
            asyncio.run(danger.call({"path": "/"}))
        assert tools.ran == []

    def test_so_is_a_tool_with_a_call_of_its_own(self, tools):
        class Danger(_beta_functions.BetaBuiltinFunctionTool):
            def to_dict(self) -> Any:
                return {"type": "danger_1", "name": "danger"}

            def call(self, input: object) -> str:
                return tools.run("danger", json.dumps(input))

        otelhooks.instrument(policies=DENY)
        error = getattr(anthropic.lib.tools, "ToolError", errors.Denied)
        with pytest.raises(error, match="Deleting"):
            Danger().call({"path": "/"})
        assert tools.ran == []

    def test_a_built_in_one_has_canonical_names(self, tools):
        class Bash(_beta_functions.BetaBuiltinFunctionTool):
            def to_dict(self) -> Any:
                return {"type": "bash_20250124", "name": "bash"}

            def call(self, input: object) -> str:
                return tools.run("bash", json.dumps(input))

        otelhooks.instrument(policies=[policy.deny("run_command", reason=REASON)])
        error = getattr(anthropic.lib.tools, "ToolError", errors.Denied)
        with pytest.raises(error, match="Deleting"):
            Bash().call({"command": "ls"})
        assert tools.ran == []

    @pytest.mark.parametrize(
        ("make", "rule", "args"),
        [
            ("beta_bash_tool", "run_command", {"command": "echo hi > made"}),
            ("beta_write_tool", "create_file", {"file_path": "made", "content": "hi"}),
        ],
    )
    def test_so_have_those_that_the_package_has_for_sessions(self, make, rule, args, tmp_path):
        found = pytest.importorskip("anthropic.lib.tools.agent_toolset")
        otelhooks.instrument(policies=[policy.deny(rule, reason=REASON)])
        tool = getattr(found, make)(found.AgentToolContext(workdir=str(tmp_path)))
        with pytest.raises(anthropic.lib.tools.ToolError, match="Deleting"):
            asyncio.run(tool.call(args))
        assert list(tmp_path.iterdir()) == []

    def test_a_tool_cannot_run_twice_on_one_verdict(self, model, tools):
        """`generate_tool_call_response` and the next step run a body twice with one id."""
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=1)])
        model.steps = [[SAFE], "done"]
        with client_of(model) as client:
            run = client.beta.messages.tool_runner(**_begin(tools=_functions(tools)))
            next(run)
            _, safe = _functions(tools)
            safe.call({"x": 1})
            error = getattr(anthropic.lib.tools, "ToolError", errors.Denied)
            with pytest.raises(error):
                safe.call({"x": 1})
        assert tools.ran == ["safe"]


class TestIgnoringTheVerdict:
    def ignore(self, model: Double, tools: Tools) -> Any:
        with client_of(model) as client:
            ask = client.messages.create
            start = _begin(tools=DEFINED)
            ask(**start)
            id, name, args = DANGER
            result = {"type": "tool_result", "tool_use_id": id, "content": tools.run(name, "{}")}
            start["messages"] += [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": id, "name": name, "input": args}],
                },
                {"role": "user", "content": [result]},
            ]
            return ask(**start)

    def test_it_is_told_of(self, model, tools, caplog):
        model.steps = [[DANGER], "no", "done"]
        otelhooks.instrument(policies=DENY)
        self.ignore(model, tools)
        assert len(gaps(caplog)) == 1

    def test_under_strict_its_request_is_not_sent(self, model, tools, caplog):
        model.steps = [[DANGER], "no", "done"]
        otelhooks.instrument(policies=DENY, strict=True)
        with pytest.raises(errors.Denied, match="The result of `danger` was not sent"):
            self.ignore(model, tools)
        assert len(model.requests) == 2


class TestStreams:
    def test_what_was_shown_stays_and_the_reason_follows(self, model):
        otelhooks.instrument(policies=DENY)
        model.steps = [["Let me see.", DANGER]]
        with client_of(model) as client, client.messages.stream(**_begin(tools=DEFINED)) as stream:
            told = list(stream.text_stream)
            message = stream.get_final_message()
        assert "".join(told) == f"Let me see.{REASON}"
        assert message.stop_reason == "end_turn"
        assert [block.type for block in message.content] == ["text", "text"]

    def test_texts_are_not_held_back(self, model):
        otelhooks.instrument(policies=DENY)
        model.steps = ["a long answer"]
        with client_of(model) as client:
            stream = client.messages.create(**_begin(tools=DEFINED), stream=True)
            seen = [event.type for event in stream]
        assert seen[0] == "message_start"
        assert seen[-1] == "message_stop"
        assert seen.count("content_block_delta") == 3


def test_a_hook_reads_and_replaces_the_instructions(model):
    @hooks.pre_model_call
    def shorter(data):
        assert data.messages[0] == {"role": "system", "content": "Be brief."}
        kind = {"role": "system", "content": "Be kind."}
        return hooks.HookResult(allow=True, modified_messages=[kind, *data.messages[1:]])

    otelhooks.instrument(hooks=[shorter])
    model.steps = ["done"]
    with client_of(model) as client:
        client.messages.create(**_begin(system="Be brief."))
    assert model.requests[0]["system"] == "Be kind."
    assert [one["role"] for one in model.requests[0]["messages"]] == ["user"]


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_messages_in_any_iterable_are_seen_and_sent(kind, model):
    model.steps = ["done"]
    seen: list[Any] = []

    @hooks.pre_model_call
    def see(data):
        seen.append(str(data.messages))
        return hooks.HookResult(allow=True)

    otelhooks.instrument(hooks=[see])
    block = {"type": "text", "text": "a question"}
    with client_of(model) as client:
        messages: Any = kind([{"role": "user", "content": kind([block])}])
        client.messages.create(model="small", max_tokens=9, messages=messages, system=kind([block]))
    assert seen[0].count("a question") == 2
    assert model.requests[0]["messages"] == [{"role": "user", "content": [block]}]
    assert model.requests[0]["system"] == [block]


def test_a_framework_of_its_own_has_judged_the_call(model, with_rules, exporter):
    with_rules(*DENY)
    model.steps = [[DANGER]]

    @otelhooks.model_call(model="small", provider="anthropic")
    def ask(messages):
        with client_of(model) as client:
            return client.messages.create(**_begin(tools=DEFINED))

    assert ask([]).content[0].name == "danger"
    assert [span.name for span in exporter.get_finished_spans()] == ["chat small"]


def test_parsed_answers_are_judged_and_parsed(model):
    import pydantic

    class Place(pydantic.BaseModel):
        city: str

    model.steps = [[DANGER], '{"city": "Rome"}']
    otelhooks.instrument(policies=DENY)
    with client_of(model) as client:
        found = client.messages.parse(**_begin(tools=DEFINED), output_format=Place)
    assert found.parsed_output == Place(city="Rome")


PROVIDERS = {
    "aws.bedrock": lambda url: anthropic.AnthropicBedrock(
        base_url=url, aws_region="r", api_key="k", max_retries=0
    ),
    "gcp.vertex_ai": lambda url: anthropic.AnthropicVertex(
        base_url=url, region="r", project_id="p", access_token="k", max_retries=0
    ),
    "azure.ai.inference": lambda url: anthropic.AnthropicFoundry(
        base_url=url, api_key="k", max_retries=0
    ),
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_calls_that_other_providers_carry_are_judged(provider, model, tools, with_rules, exporter):
    if "api_key" not in inspect.signature(anthropic.AnthropicBedrock).parameters:
        pytest.skip("needs boto3 to sign")
    with_rules(*DENY)
    model.steps = [[DANGER], [SAFE], "done"]
    with PROVIDERS[provider](model.url) as client:
        said = loop(lambda **given: client.messages.create(**given).to_dict(), tools)
    assert (said, tools.ran) == ("done", ["safe"])
    chats = [span for span in exporter.get_finished_spans() if span.name == "chat small"]
    assert {span.attributes["gen_ai.provider.name"] for span in chats} == {provider}


def test_a_body_that_is_given_beside_the_arguments_is_judged_and_changed(model, tools):
    """`extra_body` replaces arguments of the same name."""
    model.steps = [[DANGER], "done"]
    otelhooks.instrument(policies=DENY)
    with client_of(model) as client:
        said = [{"role": "user", "content": "begin"}]
        client.messages.create(**_begin(), extra_body={"messages": said, "tools": DEFINED})
    assert json.dumps(model.requests[1]).count(REASON) == 1


@pytest.mark.parametrize("body", ["content", "text"])
def test_a_body_that_is_not_read_is_not_sent_under_strict(body, model):
    otelhooks.instrument(policies=DENY, strict=True)
    sent = json.dumps(_begin(tools=DEFINED))
    given = {"content": sent.encode()} if body == "content" else {"body": [sent]}
    with client_of(model) as client, pytest.raises(errors.Denied, match="no rule"):
        client.post("/v1/messages", cast_to=object, **given)
    assert model.requests == []


@pytest.mark.parametrize(
    ("name", "args", "rule"),
    [
        ("bash", {"command": "ls"}, "run_command"),
        ("str_replace_based_edit_tool", {"command": "view", "path": "/a"}, "view_file"),
        ("str_replace_based_edit_tool", {"command": "create", "path": "/a"}, "create_file"),
        ("str_replace_based_edit_tool", {"command": "insert", "path": "/a"}, "edit_file"),
        ("str_replace_based_edit_tool", {"command": "rub_out", "path": "/a"}, "edit_file"),
    ],
)
def test_tools_that_the_provider_defines_have_canonical_names(name, args, rule, model):
    kind = "bash_20250124" if name == "bash" else "text_editor_20250728"
    otelhooks.instrument(policies=[policy.deny(rule, reason=REASON)])
    model.steps = [[("call_b", name, args)], "done"]
    with client_of(model) as client:
        tools = [{"type": kind, "name": name}]
        assert _said(client.messages.create(**_begin(tools=tools))) == "done"
    assert REASON in json.dumps(model.requests[1])


def test_a_tool_of_the_same_name_that_the_program_defines_has_none(model):
    otelhooks.instrument(policies=[policy.deny("run_command")])
    model.steps = [[("call_b", "bash", {"command": "ls"})]]
    with client_of(model) as client:
        tools = [{"name": "bash", "input_schema": {"type": "object"}}]
        assert client.messages.create(**_begin(tools=tools)).content[0].name == "bash"


@pytest.mark.skipif(
    "run_tools_eagerly" not in inspect.signature(BetaMessages.tool_runner).parameters,
    reason="runs tools when the answer is complete",
)
def test_a_tool_that_runs_while_its_answer_is_streamed_is_judged(model, tools):
    otelhooks.instrument(policies=DENY)
    model.steps = [[DANGER, SAFE], "done"]
    with client_of(model) as client:
        given = _begin(tools=_functions(tools), stream=True)
        run = client.beta.messages.tool_runner(**given, run_tools_eagerly=True)
        for stream in run:
            list(stream)
        assert _said(stream.get_final_message()) == "done"
    assert tools.ran == ["safe"]
    assert json.dumps(model.requests[1]).count(REASON) == 1


def test_legacy_completions_are_not_sent_under_strict(model):
    otelhooks.instrument(policies=DENY, strict=True)
    with client_of(model) as client, pytest.raises(errors.Denied, match="no rule"):
        client.post("/v1/complete", body={}, cast_to=str)
    assert model.requests == []


def _began(id: str, *content: Any) -> dict[str, Any]:
    message = {"id": id, "role": "assistant", "content": list(content)}
    return {"type": "message_start", "message": message}


def _block(index: int, name: str, args: str) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": f"t{name}", "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": args}
    return [
        {"type": "content_block_start", "index": index, "content_block": use},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


ODD_STREAMS = {
    "a second message": [_began("a"), *_block(0, "danger", "{}"), _began("b")],
    "a second block at one index": [
        _began("a"),
        *_block(0, "safe", "{}"),
        *_block(0, "danger", "{}"),
    ],
    "content at the end": [
        _began("a"),
        *_block(0, "danger", "{}"),
        {"type": "message_delta", "delta": {"content": []}, "usage": {"output_tokens": 1}},
    ],
    "another name": [
        _began("a"),
        *_block(0, "danger", "{}")[:2],
        {"type": "content_block_delta", "index": 0}
        | {"delta": {"type": "text_delta", "text": "", "name": "_x"}},
    ],
    "a start with content": [_began("a", _block(0, "danger", "{}")[0]["content_block"])],
}


@pytest.fixture(params=ODD_STREAMS)
def odd_stream(request, model, monkeypatch):
    """Return the events of a stream that can be read in two ways."""
    events = [*ODD_STREAMS[request.param], {"type": "message_stop"}]
    form = (model_double._message, lambda made: events)
    monkeypatch.setitem(model_double._FORMS, "/messages", form)
    model.steps = ["odd"]
    with client_of(model) as client:
        yield lambda: client.messages.create(
            model="small",
            messages=[{"role": "user", "content": "begin"}],
            tools=DEFINED,
            max_tokens=9,
            stream=True,
        )


def test_a_stream_that_can_be_read_in_two_ways_shows_nothing(odd_stream):
    otelhooks.instrument(policies=DENY)
    shown: list[Any] = []
    with pytest.raises(ValueError, match=r"stream (began|changed|told)"):
        shown.extend(odd_stream())
    assert shown == []


def test_a_block_starts_without_the_arguments_that_its_pieces_tell(model, monkeypatch):
    began, piece, ended = _block(0, "safe", '{"c": "ls"}')
    began["content_block"]["input"] = {"c": "rm"}
    events = [_began("a"), began, piece, ended, {"type": "message_stop"}]
    form = (model_double._message, lambda made: events)
    monkeypatch.setitem(model_double._FORMS, "/messages", form)
    model.steps = ["odd"]
    otelhooks.instrument(policies=DENY)
    with client_of(model) as client:
        shown = list(client.messages.create(**_begin(stream=True)))
    assert "rm" not in str([event.to_dict() for event in shown])


def test_without_rules_a_stream_that_can_be_read_in_two_ways_passes(odd_stream):
    otelhooks.instrument()
    assert list(odd_stream())


_SAYS = {"type": "text", "text": "SECRET"}


@pytest.mark.parametrize(
    "block",
    [
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "SECRET"},
        },
        {"type": "search_result", "source": "s", "title": "t", "content": [_SAYS]},
    ],
)
def test_hooks_see_blocks_of_a_result_that_are_no_text(model, block):
    @hooks.post_tool_call_transform
    def masked(data):
        return str(data.result).replace("SECRET", "***")

    otelhooks.instrument(hooks=[masked])
    model.steps = [[SAFE], "done"]
    with client_of(model) as client:
        said: list[Any] = [{"role": "user", "content": "begin"}]
        given: dict[str, Any] = {"model": "small", "tools": DEFINED, "max_tokens": 9}
        answer = client.messages.create(messages=said, **given)
        result = {"type": "tool_result", "tool_use_id": "call_s", "content": [block]}
        said += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": [result]},
        ]
        client.messages.create(messages=said, **given)
    assert "SECRET" not in json.dumps(model.requests[1])


@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_and_results_of_the_provider_go_with_a_text_that_hooks_replace(
    model, monkeypatch, stream
):
    thought = {"type": "thinking", "thinking": "a secret", "signature": "signed"}
    found = {"type": "mcp_tool_result", "tool_use_id": "s", "is_error": False}
    found |= {"content": [{"type": "text", "text": "a secret"}]}
    usual, _ = model_double._FORMS["/messages"]

    def whole(*given: Any) -> Any:
        made = usual(*given)
        return {**made, "content": [thought, found, *made["content"]]}

    def events(made: Any) -> Any:
        yield {"type": "message_start", "message": {**made, "content": []}}
        for index, block in enumerate(made["content"]):
            yield {"type": "content_block_start", "index": index, "content_block": block}
            yield {"type": "content_block_stop", "index": index}
        yield {"type": "message_stop"}

    monkeypatch.setitem(model_double._FORMS, "/messages", (whole, events))
    otelhooks.instrument(hooks=[hooks.post_model_call_transform(lambda data: "masked")])
    model.steps = ["a secret"]
    given: Any = {"model": "small", "messages": [], "max_tokens": 9, "stream": stream}
    with client_of(model) as client:
        answer = client.messages.create(**given)
        told = "".join(map(str, answer)) if stream else answer.to_json()
    assert "secret" not in told
    assert "masked" in told
    assert "signed" in told


def test_the_proof_holds():
    from otelhooks.frameworks.anthropic.scripted import prove

    otelhooks.instrument()
    proof = prove()
    assert proof.proved, proof
