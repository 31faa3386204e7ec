"""The client google-genai under loops that are written by hand, and its automatic calling."""

from __future__ import annotations

import asyncio
import contextlib
import json
import typing
from collections.abc import Callable
from typing import Any

import pytest
from google import genai
from google.genai import _extra_utils, types

import otelhooks
from otelhooks import errors, hooks, policy
from tests.frameworks.loops import DANGER, DENY, REASON, SAFE, Loops, Path, Tools, gaps
from tests.frameworks.model_double import Double, served

DECLARED = [
    types.Tool(
        function_declarations=[
            types.FunctionDeclaration(name=name, description="") for name in ("danger", "safe")
        ]
    )
]
NAMED = [{"name": "danger"}, {"name": "safe"}]
CONFIG = types.GenerateContentConfig(tools=DECLARED, system_instruction="Be brief.")


@pytest.fixture
def model():
    with served() as double:
        yield double


@pytest.fixture
def tools() -> Tools:
    return Tools()


def client_of(model: Double) -> genai.Client:
    return genai.Client(api_key="k", http_options={"base_url": model.url})


# -- loops, as people write them ------------------------------------------------------------


def loop(ask: Callable[..., types.Content], tools: Tools) -> str:
    contents = [types.Content(role="user", parts=[types.Part(text="begin")])]
    while True:
        content = ask(model="small", contents=contents, config=CONFIG)
        contents.append(content)
        calls = [part.function_call for part in content.parts or () if part.function_call]
        if not calls:
            return "".join(part.text or "" for part in content.parts or ())
        results = [
            types.Part.from_function_response(
                name=call.name, response={"result": tools.run(call.name, json.dumps(call.args))}
            )
            for call in calls
        ]
        contents.append(types.Content(role="user", parts=results))


def content(model: Double, tools: Tools) -> str:
    client = client_of(model)
    ask = client.models.generate_content
    return loop(lambda **given: ask(**given).candidates[0].content, tools)


def content_async(model: Double, tools: Tools) -> str:
    async def ask(**given: Any) -> Any:
        client = client_of(model)
        return (await client.aio.models.generate_content(**given)).candidates[0].content

    return loop(lambda **given: asyncio.run(ask(**given)), tools)


def joined(chunks: Any) -> types.Content:
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
    return types.Content(role="model", parts=parts)


def content_stream(model: Double, tools: Tools) -> str:
    client = client_of(model)
    ask = client.models.generate_content_stream
    return loop(lambda **given: joined(ask(**given)), tools)


def content_async_stream(model: Double, tools: Tools) -> str:
    async def ask(**given: Any) -> Any:
        client = client_of(model)
        stream = await client.aio.models.generate_content_stream(**given)
        return joined([chunk async for chunk in stream])

    return loop(lambda **given: asyncio.run(ask(**given)), tools)


def _typed(*functions: Any) -> types.GenerateContentConfig:
    """Give functions annotations that 1.40 reads: it knows none that are texts."""
    for function in functions:
        function.__annotations__ = typing.get_type_hints(function)
    return types.GenerateContentConfig(tools=list(functions))


def _functions(tools: Tools) -> types.GenerateContentConfig:
    def danger(path: str) -> str:
        """Delete."""
        return tools.run("danger", json.dumps({"path": path}))

    def safe(x: int) -> str:
        """Read."""
        return tools.run("safe", json.dumps({"x": x}))

    return _typed(danger, safe)


def _afunctions(tools: Tools) -> types.GenerateContentConfig:
    async def danger(path: str) -> str:
        """Delete."""
        return tools.run("danger", json.dumps({"path": path}))

    async def safe(x: int) -> str:
        """Read."""
        return tools.run("safe", json.dumps({"x": x}))

    return _typed(danger, safe)


def automatic(model: Double, tools: Tools) -> str:
    client = client_of(model)
    return client.models.generate_content(
        model="small", contents="begin", config=_functions(tools)
    ).text


def automatic_async(model: Double, tools: Tools) -> str:
    async def run() -> str:
        client = client_of(model)
        found = await client.aio.models.generate_content(
            model="small", contents="begin", config=_afunctions(tools)
        )
        return found.text

    return asyncio.run(run())


def automatic_stream(model: Double, tools: Tools) -> str:
    client = client_of(model)
    chunks = client.models.generate_content_stream(
        model="small", contents="begin", config=_functions(tools)
    )
    last = ""
    for chunk in chunks:
        parts = chunk.candidates[0].content.parts or ()
        last += "".join(part.text or "" for part in parts)
    return last


def chat(model: Double, tools: Tools) -> str:
    client = client_of(model)
    return client.chats.create(model="small", config=_functions(tools)).send_message("begin").text


PATHS = [
    Path(content),
    Path(content_async),
    Path(content_stream),
    Path(content_async_stream),
    Path(automatic),
    Path(automatic_async),
    Path(automatic_stream),
    Path(chat),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
class TestLoops(Loops):
    framework = "google_genai"


def test_a_span_has_the_settings_of_the_request_and_the_server(model, with_rules, exporter):
    model.steps = ["done"]
    with_rules(*DENY)
    config: Any = {"temperature": 0.5, "max_output_tokens": 7}
    client = client_of(model)
    client.models.generate_content(model="small", contents="begin", config=config)
    [span] = exporter.get_finished_spans()
    assert span.attributes["gen_ai.request.temperature"] == 0.5
    assert span.attributes["gen_ai.request.max_tokens"] == 7
    assert span.attributes["server.address"] == "127.0.0.1"
    assert span.attributes["server.port"] == int(model.url.rpartition(":")[2])


class TestTools:
    """What the client itself runs."""

    def test_a_call_has_one_verdict_and_one_span(self, model, tools, with_rules, exporter):
        with_rules(policy.RateLimit(tool_calls=1))
        model.steps = [[SAFE], "done"]
        assert automatic(model, tools) == "done"
        spans = [span for span in exporter.get_finished_spans() if "execute_tool" in span.name]
        assert [span.name for span in spans] == ["execute_tool safe"]

    def test_two_equal_calls_are_two(self, model, tools):
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=1)])
        model.steps = [[SAFE], [SAFE], "done"]
        assert automatic(model, tools) == "done"
        assert tools.ran == ["safe"]

    def test_a_number_that_the_client_converts_is_judged_once(self, model, tools):
        """It gives functions 1 for 1.0."""
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=1)])
        model.steps = [[("call_s", "safe", {"x": 1.0})], "done"]
        assert automatic(model, tools) == "done"
        assert tools.ran == ["safe"]

    def test_functions_run_in_asynchronous_chats_and_threads(self, model, tools):
        async def run() -> str:
            client = client_of(model)  # one that is not held is closed
            chat = client.aio.chats.create(model="small", config=_functions(tools))
            return "".join(
                [chunk.text or "" async for chunk in await chat.send_message_stream("begin")]
            )

        otelhooks.instrument(policies=[*DENY, policy.RateLimit(tool_calls=1)])
        model.steps = [[DANGER, SAFE], "done"]
        assert asyncio.run(run()) == "done"
        assert tools.ran == ["safe"]

    def test_a_call_that_no_answer_asked_for_is_denied(self, tools):
        otelhooks.instrument(policies=DENY)
        danger, _ = _functions(tools).tools
        with pytest.raises(errors.Denied, match="Deleting"):
            _extra_utils.invoke_function_from_dict_args({"path": "/"}, danger)
        assert tools.ran == []


class TestIgnoringTheVerdict:
    def ignore(self, model: Double, tools: Tools) -> Any:
        client = client_of(model)
        ask = client.models.generate_content
        contents = [types.Content(role="user", parts=[types.Part(text="begin")])]
        ask(model="small", contents=contents, config=CONFIG)
        _, name, args = DANGER
        call = types.Part(function_call=types.FunctionCall(name=name, args=args))
        result = types.Part.from_function_response(
            name=name, response={"result": tools.run(name, "{}")}
        )
        contents += [
            types.Content(role="model", parts=[call]),
            types.Content(role="user", parts=[result]),
        ]
        return ask(model="small", contents=contents, config=CONFIG)

    def test_it_is_told_of(self, model, tools, caplog):
        model.steps = [[DANGER], "no", "done"]
        otelhooks.instrument(policies=DENY)
        self.ignore(model, tools)
        assert len(gaps(caplog)) == 1

    def test_under_strict_its_request_is_not_sent(self, model, tools):
        model.steps = [[DANGER], "no", "done"]
        otelhooks.instrument(policies=DENY, strict=True)
        with pytest.raises(errors.Denied, match="The result of `danger` was not sent"):
            self.ignore(model, tools)
        assert len(model.requests) == 2


class TestHooks:
    @pytest.fixture(autouse=True)
    def hooked(self):
        @hooks.post_tool_call_transform
        def masked(data):
            return "masked"

        @hooks.post_model_call_transform
        def withheld(data):
            return data.model_copy(update={"text": "withheld"}) if "secret" in data.text else None

        otelhooks.instrument(hooks=[masked, withheld])

    def test_what_is_parsed_of_a_withheld_text_is_withheld(self, model):
        model.steps = ['{"card": "secret"}']
        config = {"response_schema": {"type": "OBJECT", "properties": {"card": {"type": "STRING"}}}}
        config["response_mime_type"] = "application/json"
        client = client_of(model)
        made = client.models.generate_content(model="small", contents="begin", config=config)
        assert made.parsed is None
        assert "secret" not in made.model_dump_json()

    @pytest.mark.parametrize(
        "response", [{"result": "ok", "stdout": "a secret"}, {"error": "a secret"}]
    )
    def test_all_of_a_result_is_seen(self, model, response):
        model.steps = [[SAFE], "done"]
        client = client_of(model)
        said = [types.Content(role="user", parts=[types.Part(text="begin")])]
        answer = client.models.generate_content(model="small", contents=said, config=CONFIG)
        asked = answer.candidates[0].content
        result = types.FunctionResponse(name="safe", response=response)
        said += [asked, types.Content(role="user", parts=[types.Part(function_response=result)])]
        client.models.generate_content(model="small", contents=said, config=CONFIG)
        assert "secret" not in json.dumps(model.requests[-1])

    @pytest.mark.parametrize("ids", [["made up"], [None, None], ["made up", "made up"]])
    def test_results_are_seen_whatever_id_the_loop_gives_them(self, model, ids):
        model.steps = [[SAFE], "done"]
        client = client_of(model)
        said = [types.Content(role="user", parts=[types.Part(text="begin")])]
        answer = client.models.generate_content(model="small", contents=said, config=CONFIG)
        call = answer.candidates[0].content.parts[0].function_call
        call = types.FunctionCall(name=call.name, args=call.args)
        results = [
            types.FunctionResponse(id=id, name=call.name, response={"result": "a secret"})
            for id in ids
        ]
        said += [
            types.Content(role="model", parts=[types.Part(function_call=call)]),
            types.Content(
                role="user", parts=[types.Part(function_response=each) for each in results]
            ),
        ]
        client.models.generate_content(model="small", contents=said, config=CONFIG)
        sent = json.dumps(model.requests[-1])
        assert "secret" not in sent
        assert sent.count("masked") == len(ids)


class TestStreams:
    def test_what_was_shown_stays_and_the_reason_follows(self, model):
        otelhooks.instrument(policies=DENY)
        model.steps = [["Let me see.", DANGER]]
        client = client_of(model)
        chunks = client.models.generate_content_stream(
            model="small", contents="begin", config=CONFIG
        )
        assert "".join(chunk.text or "" for chunk in chunks) == f"Let me see.{REASON}"

    def test_texts_are_not_held_back(self, model):
        otelhooks.instrument(policies=DENY)
        model.steps = ["a long answer"]
        client = client_of(model)
        chunks = client.models.generate_content_stream(
            model="small", contents="begin", config=CONFIG
        )
        assert [chunk.text or "" for chunk in chunks] == ["a lo", "ng a", "nswe", "r"]


def _piece(**call: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"functionCall": call}]}
    return {"candidates": [{"content": content}]}


PIECES = [
    _piece(name="danger", willContinue=True),
    _piece(partialArgs=[{"jsonPath": "$.path", "stringValue": "/e"}], willContinue=True),
    _piece(partialArgs=[{"jsonPath": "$.path", "stringValue": "tc"}], willContinue=True),
    _piece(partialArgs=[{"jsonPath": "$.many[1]['a b']", "numberValue": 2}], willContinue=True),
    _piece(),
]


@pytest.mark.skipif(
    "partial_args" not in types.FunctionCall.model_fields, reason="calls come whole"
)
class TestPieces:
    """Arguments that Vertex AI streams piece by piece."""

    def chunks(self, model: Double, monkeypatch: Any, pieces: Any = PIECES) -> list[Any]:
        from tests.frameworks import model_double

        said = {"role": "model", "parts": [{"text": "done"}]}

        def streamed(words: str, calls: Any, number: int) -> Any:
            return words

        def events(words: Any) -> Any:
            return pieces if words == "pieces" else [{"candidates": [{"content": said}]}]

        monkeypatch.setitem(model_double._FORMS, ":streamGenerateContent", (streamed, events))
        model.steps = ["pieces", "done"]
        client = genai.Client(vertexai=True, api_key="k", http_options={"base_url": model.url})
        ask = client.models.generate_content_stream
        return list(ask(model="small", contents="begin", config=CONFIG))

    @pytest.mark.parametrize("text", ["a secret", ""])
    def test_a_call_beside_a_text_in_one_part_is_not_shown(self, text, model, monkeypatch):
        call = {"function_call": {"name": "danger", "args": {}}, "text": text}
        told = [{"role": "model", "parts": [one]} for one in ({"text": "a"}, call)]
        pieces = [{"candidates": [{"content": one}]} for one in told]
        otelhooks.instrument(policies=DENY)
        shown: list[Any] = []
        with contextlib.suppress(ValueError):
            shown = [chunk.to_json_dict() for chunk in self.chunks(model, monkeypatch, pieces)]
        assert "danger" not in json.dumps(shown)

    def test_rules_see_them_as_a_whole(self, model, monkeypatch):
        seen = []

        @hooks.pre_tool_call_decide
        def decide(data):
            seen.append(data.args)
            return hooks.HookResult(allow=False, message=REASON)

        otelhooks.instrument(hooks=[decide])
        chunks = self.chunks(model, monkeypatch)
        assert seen == [{"path": "/etc", "many": [None, {"a b": 2}]}]
        assert [chunk.text for chunk in chunks] == ["done"]
        assert REASON in json.dumps(model.requests[1])

    def calls(self, *given: Any) -> list[Any]:
        return [call for chunk in self.chunks(*given) for call in chunk.function_calls or ()]

    def test_the_loop_gets_an_allowed_call_as_it_was_judged(self, model, monkeypatch):
        otelhooks.instrument(
            policies=[policy.deny("danger", when=lambda args: args["path"] == "/usr")]
        )
        (call,) = self.calls(model, monkeypatch)
        assert call.args == {"path": "/etc", "many": [None, {"a b": 2}]}
        assert call.partial_args is None

    def test_without_rules_they_stay_as_they_came(self, model, monkeypatch):
        otelhooks.instrument()
        assert len(self.chunks(model, monkeypatch)) == len(PIECES)

    def test_a_call_whose_only_piece_is_its_last_is_judged_as_a_whole(self, model, monkeypatch):
        pieces = [_piece(name="danger", partialArgs=[{"jsonPath": "$.path", "stringValue": "/"}])]
        otelhooks.instrument(
            policies=[policy.deny("danger", when=lambda args: args.get("path") == "/")]
        )
        assert self.calls(model, monkeypatch, pieces) == []

    @pytest.mark.parametrize("before", [[], [_piece(name="danger")]])
    @pytest.mark.parametrize("goes_on", [None, True])
    def test_a_piece_that_continues_no_call_shows_nothing(
        self, before, goes_on, model, monkeypatch
    ):
        path = [{"jsonPath": "$.path", "stringValue": "/"}]
        otelhooks.instrument(policies=[policy.deny("danger", when=lambda args: "path" in args)])
        with pytest.raises(ValueError, match="continues none"):
            self.chunks(
                model, monkeypatch, [*before, _piece(partialArgs=path, willContinue=goes_on)]
            )

    def test_without_rules_a_piece_that_continues_no_call_passes(self, model, monkeypatch):
        piece = _piece(partialArgs=[{"jsonPath": "$.path", "stringValue": "/"}])
        otelhooks.instrument()
        assert len(self.chunks(model, monkeypatch, [piece])) == 1

    @pytest.mark.parametrize("path", ["path", "$..path", "$.path[*]", "$[99999]", "$[0]"])
    def test_a_path_that_cannot_be_read_shows_nothing(self, path, model, monkeypatch):
        pieces = [_piece(name="danger", willContinue=True)]
        pieces.append(_piece(partialArgs=[{"jsonPath": path, "stringValue": "/"}]))
        otelhooks.instrument(policies=DENY)
        with pytest.raises(ValueError, match="argument"):
            self.chunks(model, monkeypatch, pieces)

    @pytest.mark.parametrize("id", [None, "another"])
    def test_another_call_ends_the_one_that_was_open(self, id, model, monkeypatch):
        pieces = [_piece(name="safe", id="c1", willContinue=True), _piece(name="danger", id=id)]
        otelhooks.instrument(policies=DENY)
        shown = [
            call.name
            for chunk in self.chunks(model, monkeypatch, pieces)
            for call in chunk.function_calls or ()
        ]
        assert shown == ["safe"]

    def test_a_piece_cannot_bring_whole_arguments(self, model, monkeypatch):
        pieces = [_piece(name="danger", willContinue=True), _piece(args={"path": "/"})]
        otelhooks.instrument(policies=[policy.deny("danger", when=lambda args: "path" in args)])
        with pytest.raises(ValueError, match="as a whole"):
            self.chunks(model, monkeypatch, pieces)


def test_a_hook_reads_and_replaces_the_instructions(model):
    @hooks.pre_model_call
    def shorter(data):
        kind = {"role": "system", "content": "Be kind."}
        return hooks.HookResult(allow=True, modified_messages=[kind, *data.messages[1:]])

    otelhooks.instrument(hooks=[shorter])
    model.steps = ["done"]
    client = client_of(model)
    client.models.generate_content(model="small", contents="begin", config=CONFIG)
    told = json.dumps(model.requests[0])
    assert "Be kind." in told
    assert "Be brief." not in told
    assert [one["role"] for one in model.requests[0]["contents"]] == ["user"]


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        {"tools": DECLARED},
        {"tools": [{"function_declarations": NAMED}]},
    ],
)
def test_a_tool_that_is_denied_in_any_case_is_hidden(model, config):
    otelhooks.instrument(policies=[policy.hide("danger")])
    model.steps = ["done"]
    client = client_of(model)
    client.models.generate_content(model="small", contents="begin", config=config)
    told = json.dumps(model.requests[0])
    assert "danger" not in told
    assert "safe" in told


def test_answers_in_bytes_are_not_asked_for_under_strict(model):
    otelhooks.instrument(policies=DENY, strict=True)
    config = CONFIG.model_copy(update={"should_return_http_response": True})
    client = client_of(model)
    with pytest.raises(errors.Denied, match="no rule"):
        client.models.generate_content(model="small", contents="begin", config=config)
    assert model.requests == []


def test_calls_of_all_candidates_are_judged(model, monkeypatch):
    from tests.frameworks import model_double

    def two(words: str, calls: Any, number: int) -> dict[str, Any]:
        first, second = (model_double._generated("", [call], number) for call in calls)
        return {**first, "candidates": first["candidates"] + second["candidates"]}

    monkeypatch.setitem(model_double._FORMS, ":generateContent", (two, None))
    otelhooks.instrument(policies=DENY)
    model.steps = [[SAFE, DANGER]]
    client = client_of(model)
    answer = client.models.generate_content(model="small", contents="begin", config=CONFIG)
    assert len(answer.candidates) == 2
    assert "danger" not in str(answer.candidates)


def test_a_call_with_other_arguments_stays_in_its_candidate(model, monkeypatch):
    from tests.frameworks import model_double

    def two(words: str, calls: Any, number: int) -> dict[str, Any]:
        first, second = (model_double._generated("", [call], number) for call in calls)
        return {**first, "candidates": first["candidates"] + second["candidates"]}

    @hooks.pre_tool_call_decide
    def changed(data):
        return hooks.HookResult(modified_args={"y": data.name})

    monkeypatch.setitem(model_double._FORMS, ":generateContent", (two, None))
    otelhooks.instrument(hooks=[changed])
    model.steps = [[SAFE, SAFE]]
    client = client_of(model)
    answer = client.models.generate_content(model="small", contents="begin", config=CONFIG)
    assert [len(one.content.parts) for one in answer.candidates] == [1, 1]


def test_thoughts_and_code_go_with_a_text_that_hooks_replace(model, monkeypatch):
    from tests.frameworks import model_double

    beside = [
        {"text": "a secret", "thought": True},
        {"executableCode": {"code": "print('secret')", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "secret"}},
    ]

    def more(*given: Any) -> dict[str, Any]:
        made = model_double._generated(*given)
        made["candidates"][0]["content"]["parts"] += beside
        return made

    monkeypatch.setitem(model_double._FORMS, ":generateContent", (more, None))
    otelhooks.instrument(hooks=[hooks.post_model_call_transform(lambda data: "masked")])
    model.steps = ["a secret"]
    client = client_of(model)
    answer = client.models.generate_content(model="small", contents="begin", config=CONFIG)
    assert answer.text == "masked"
    assert "secret" not in str(answer.candidates)


FILES = {
    "a text": {"inlineData": {"mimeType": "text/plain", "data": "YSBzZWNyZXQ="}},
    "an address": {"fileData": {"mimeType": "text/plain", "fileUri": "https://x/secret"}},
}


has_files = pytest.mark.skipif(
    "parts" not in types.FunctionResponse.model_fields, reason="a result is only a dict"
)


@has_files
class TestFiles:
    """Files beside the text of a result."""

    def sent(self, model: Double, response: Any, file: Any) -> str:
        """Return how a result is sent to the model."""
        model.steps = [[SAFE], "done"]
        client = client_of(model)
        given: Any = {"model": "small", "config": CONFIG}
        answer = client.models.generate_content(contents="begin", **given)
        result = {"functionResponse": {"name": "safe", "response": response, "parts": [file]}}
        said = types.Content(role="user", parts=[types.Part(text="begin")])
        told = types.Content(role="user", parts=[types.Part.model_validate(result)])
        asked = answer.candidates[0].content
        client.models.generate_content(contents=[said, asked, told], **given)
        return json.dumps(model.requests[1]["contents"][2])

    @pytest.mark.parametrize("file", FILES)
    @pytest.mark.parametrize("response", [{"result": "see the file"}, {}])
    def test_hooks_see_them(self, model, file, response):
        @hooks.post_tool_call_transform
        def masked(data):
            return "***" if "secret" in str(data.result) else data.result

        otelhooks.instrument(hooks=[masked])
        sent = self.sent(model, response, FILES[file])
        assert "***" in sent
        assert "YSBzZWNyZXQ" not in sent
        assert "secret" not in sent

    def test_a_picture_is_sent_as_it_is(self, model):
        otelhooks.instrument(hooks=[hooks.post_tool_call_transform(lambda data: data.result)])
        picture = {"inlineData": {"mimeType": "image/png", "data": "YSBzZWNyZXQ="}}
        assert "YSBzZWNyZXQ" in self.sent(model, {"result": "x"}, picture)


class TestCandidates:
    """A stream of two candidates, in turns."""

    def told(self, model: Double, monkeypatch: Any, *, has_index: bool) -> list[list[Any]]:
        from tests.frameworks import model_double

        def chunk(*texts: Any) -> dict[str, Any]:
            candidates = [
                {"content": {"role": "model", "parts": [part]}, "index": at if has_index else None}
                for at, part in enumerate(texts)
            ]
            return {"candidates": candidates}

        call = {"functionCall": {"name": "danger", "args": {"path": "/"}}}
        pieces = [chunk({"text": "a"}, {"text": "x"}), chunk({"text": "b"}, {"text": "y"})]
        pieces.append(chunk({"functionCall": {"name": "safe", "args": {"x": 1}}}, call))
        form = (lambda *given: None, lambda made: pieces)
        monkeypatch.setitem(model_double._FORMS, ":streamGenerateContent", form)
        model.steps = [""]
        told: list[list[Any]] = [[], []]
        client = client_of(model)
        ask = client.models.generate_content_stream
        for one in ask(model="small", contents="begin", config=CONFIG):
            for at, candidate in enumerate(one.candidates):
                for part in candidate.content.parts or ():
                    told[at].append(part.text or part.function_call.name)
        return told

    @pytest.mark.parametrize("has_index", [False, True])
    def test_each_keeps_what_is_its_own(self, model, monkeypatch, has_index):
        otelhooks.instrument(policies=DENY)
        told = self.told(model, monkeypatch, has_index=has_index)
        assert told == [["a", "b", "safe"], ["x", "y"]]

    def test_hooks_see_both(self, model, monkeypatch):
        seen = []

        @hooks.post_model_call_transform
        def masked(data):
            seen.append(data.text)
            return data.model_copy(update={"text": "***"})

        otelhooks.instrument(hooks=[masked])
        told = self.told(model, monkeypatch, has_index=True)
        assert seen == ["abxy"]
        assert told == [["***", "safe"], ["danger"]]


def test_a_framework_of_its_own_has_judged_the_call(model, with_rules, exporter):
    with_rules(*DENY)
    model.steps = [[DANGER]]

    @otelhooks.model_call(model="small", provider="gcp.gemini")
    def ask(messages):
        client = client_of(model)
        return client.models.generate_content(model="small", contents="begin", config=CONFIG)

    assert ask([]).function_calls[0].name == "danger"
    assert [span.name for span in exporter.get_finished_spans()] == ["chat small"]


def test_the_proof_holds():
    from otelhooks.frameworks.google_genai.scripted import prove

    otelhooks.instrument()
    proof = prove()
    assert proof.proved, proof
