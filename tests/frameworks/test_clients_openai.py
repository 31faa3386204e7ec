"""The client openai under a loop that is written by hand, against a model on loopback.

The loops are unchanged: they know nothing of otelhooks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import openai
import pytest
from openai import _models

import otelhooks
from otelhooks import errors, hooks, policy, types
from otelhooks.frameworks.kit.clients import calls as clients
from otelhooks.hooks.drive import Raised
from otelhooks.policy import stops
from tests.frameworks import model_double
from tests.frameworks.loops import DANGER, DENY, REASON, SAFE, Loops, Path, Tools, gaps
from tests.frameworks.model_double import Double, served

CHAT_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("danger", "safe")
]
RESPONSE_TOOLS = [{**one["function"], "type": "function"} for one in CHAT_TOOLS]


@pytest.fixture
def model():
    with served() as double:
        yield double


@pytest.fixture
def tools() -> Tools:
    return Tools()


def client_of(model: Double, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{model.url}/v1", api_key="k", max_retries=0, **options)


def aclient_of(model: Double) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="k", max_retries=0)


# -- loops, as people write them ------------------------------------------------------------


def joined(chunks: Any) -> dict[str, Any]:
    """Add up the deltas of a streamed chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, Any] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            message["content"] += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(
                    piece.index, {"type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] = piece.id or call["id"]
                call["function"]["name"] += piece.function.name or ""
                call["function"]["arguments"] += piece.function.arguments or ""
    if calls:
        message["tool_calls"] = list(calls.values())
    return message


def chat_loop(ask: Callable[..., dict[str, Any]], tools: Tools) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "begin"}]
    while True:
        message = ask(model="small", messages=messages, tools=CHAT_TOOLS)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            result = tools.run(call["function"]["name"], call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def chat(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        create = client.chat.completions.create
        return chat_loop(
            lambda **given: create(**given).choices[0].message.to_dict(exclude_unset=True), tools
        )


def chat_objects(model: Double, tools: Tools) -> str:
    """Send the message of the answer back as it came."""
    with client_of(model) as client:
        said: list[Any] = [{"role": "user", "content": "begin"}]
        while True:
            answer = client.chat.completions.create(
                model="small", messages=said, tools=CHAT_TOOLS
            ).choices[0]
            said.append(answer.message)
            if not answer.message.tool_calls:
                return answer.message.content
            for call in answer.message.tool_calls:
                result = tools.run(call.function.name, call.function.arguments)
                said.append({"role": "tool", "tool_call_id": call.id, "content": result})


def chat_raw(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        create = client.chat.completions.with_raw_response.create
        return chat_loop(
            lambda **given: json.loads(create(**given).text)["choices"][0]["message"], tools
        )


def chat_streaming_response(model: Double, tools: Tools) -> str:
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            with client.chat.completions.with_streaming_response.create(**given) as response:
                return json.loads(response.read())["choices"][0]["message"]

        return chat_loop(ask, tools)


def chat_azure(model: Double, tools: Tools) -> str:
    client = openai.AzureOpenAI(
        azure_endpoint=model.url, api_key="k", api_version="2024-10-21", max_retries=0
    )
    with client:
        create = client.chat.completions.create
        return chat_loop(
            lambda **given: create(**given).choices[0].message.to_dict(exclude_unset=True), tools
        )


def chat_stream(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        create = client.chat.completions.create
        return chat_loop(lambda **given: joined(create(**given, stream=True)), tools)


def of_lines(lines: list[str]) -> dict[str, Any]:
    """Add up the chunks of a stream whose lines were read past the client's own classes."""
    data = [line[6:] for line in lines if line.startswith("data: {")]
    return joined([openai.types.chat.ChatCompletionChunk(**json.loads(one)) for one in data])


def chat_lines_stream(model: Double, tools: Tools) -> str:
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            create = client.chat.completions.with_streaming_response.create
            with create(**given, stream=True) as response:
                return of_lines(list(response.iter_lines()))

        return chat_loop(ask, tools)


def chat_async_lines_stream(model: Double, tools: Tools) -> str:
    async def ask(**given: Any) -> Any:
        async with aclient_of(model) as client:
            create = client.chat.completions.with_streaming_response.create
            async with create(**given, stream=True) as response:
                return of_lines([line async for line in response.iter_lines()])

    return chat_loop(lambda **given: asyncio.run(ask(**given)), tools)


def chat_response_stream(model: Double, tools: Tools) -> str:
    """Read the response that the stream itself reads."""
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            with client.chat.completions.create(**given, stream=True) as stream:
                return of_lines(list(stream.response.iter_lines()))

        return chat_loop(ask, tools)


def chat_async_response_stream(model: Double, tools: Tools) -> str:
    async def ask(**given: Any) -> Any:
        async with aclient_of(model) as client:
            async with await client.chat.completions.create(**given, stream=True) as stream:
                return of_lines([line async for line in stream.response.aiter_lines()])

    return chat_loop(lambda **given: asyncio.run(ask(**given)), tools)


def chat_raw_stream(model: Double, tools: Tools) -> str:
    """The raw response is parsed in the first turn, and read as bytes in the others."""
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            raw = client.chat.completions.with_raw_response.create(**given, stream=True)
            if len(given["messages"]) == 1:
                return joined(raw.parse())
            return of_lines(raw.http_response.read().decode().splitlines())

        return chat_loop(ask, tools)


def chat_helper_stream(model: Double, tools: Tools) -> str:
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            with client.chat.completions.stream(**given) as stream:
                for _ in stream:
                    pass
                return stream.get_final_completion().choices[0].message.to_dict()

        return chat_loop(ask, tools)


def chat_async(model: Double, tools: Tools) -> str:
    async def ask(**given: Any) -> Any:
        async with aclient_of(model) as client:
            completion = await client.chat.completions.create(**given)
            return completion.choices[0].message.to_dict(exclude_unset=True)

    return chat_loop(lambda **given: asyncio.run(ask(**given)), tools)


def chat_async_stream(model: Double, tools: Tools) -> str:
    async def ask(**given: Any) -> Any:
        async with aclient_of(model) as client:
            stream = await client.chat.completions.create(**given, stream=True)
            return joined([chunk async for chunk in stream])

    return chat_loop(lambda **given: asyncio.run(ask(**given)), tools)


def response_loop(ask: Callable[..., Any], tools: Tools, *, is_kept: bool = False) -> str:
    items: list[Any] = [{"role": "user", "content": "begin"}]
    last = openai.NOT_GIVEN
    while True:
        response = ask(model="small", input=items, tools=RESPONSE_TOOLS, previous_response_id=last)
        calls = [item for item in response.output if item.type == "function_call"]
        items = [] if is_kept else [*items, *(item.to_dict() for item in response.output)]
        last = response.id if is_kept else last
        if not calls:
            return response.output_text
        for call in calls:
            result = tools.run(call.name, call.arguments)
            items.append(
                {"type": "function_call_output", "call_id": call.call_id, "output": result}
            )


def responses(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        return response_loop(client.responses.create, tools)


def responses_objects(model: Double, tools: Tools) -> str:
    """Send the items of the answer back as they came."""
    with client_of(model) as client:
        items: list[Any] = [{"role": "user", "content": "begin"}]
        while True:
            answer = client.responses.create(model="small", input=items, tools=RESPONSE_TOOLS)
            items += answer.output
            calls = [item for item in answer.output if item.type == "function_call"]
            if not calls:
                return answer.output_text
            for call in calls:
                result = tools.run(call.name, call.arguments)
                items.append(
                    {"type": "function_call_output", "call_id": call.call_id, "output": result}
                )


def responses_kept(model: Double, tools: Tools) -> str:
    with client_of(model) as client:
        return response_loop(client.responses.create, tools, is_kept=True)


def responses_stream(model: Double, tools: Tools) -> str:
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            *_, last = client.responses.create(**given, stream=True)
            return last.response

        return response_loop(ask, tools)


def responses_helper_stream(model: Double, tools: Tools) -> str:
    with client_of(model) as client:

        def ask(**given: Any) -> Any:
            with client.responses.stream(**given) as stream:
                for _ in stream:
                    pass
                return stream.get_final_response()

        return response_loop(ask, tools)


def responses_async(model: Double, tools: Tools) -> str:
    async def ask(**given: Any) -> Any:
        async with aclient_of(model) as client:
            return await client.responses.create(**given)

    return response_loop(lambda **given: asyncio.run(ask(**given)), tools)


PATHS = [
    Path(chat),
    Path(chat_objects),
    Path(chat_raw),
    Path(chat_streaming_response),
    Path(chat_azure),
    Path(chat_stream),
    Path(chat_lines_stream),
    Path(chat_async_lines_stream),
    Path(chat_response_stream),
    Path(chat_async_response_stream),
    Path(chat_raw_stream),
    Path(chat_helper_stream),
    Path(chat_async),
    Path(chat_async_stream),
    Path(responses),
    Path(responses_objects),
    Path(responses_kept),
    Path(responses_stream),
    Path(responses_helper_stream),
    Path(responses_async),
]
every_loop = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)


@every_loop
class TestLoops(Loops):
    framework = "openai"


class TestIgnoringTheVerdict:
    """A loop that gets hold of a denied call, and runs its body all the same."""

    def ignore(self, model: Double, tools: Tools) -> Any:
        """Ask for a denied call twice: the second time its body runs in spite of the deny."""
        with client_of(model) as client:
            messages: list[Any] = [{"role": "user", "content": "begin"}]
            ask = client.chat.completions.create
            ask(model="small", messages=messages, tools=CHAT_TOOLS)
            function = {"name": "danger", "arguments": json.dumps(DANGER[2])}
            call = {"id": "call_d", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            result = tools.run(**function)
            messages.append({"role": "tool", "tool_call_id": "call_d", "content": result})
            return ask(model="small", messages=messages, tools=CHAT_TOOLS)

    def test_it_is_told_of_once(self, model, tools, caplog):
        model.steps = [[DANGER], "no", "done", [SAFE], "done"]
        otelhooks.instrument(policies=DENY)
        self.ignore(model, tools)
        assert gaps(caplog) == [
            "coverage gap: tool `danger` (openai) was denied, and the loop sent a result of it"
        ]
        assert len(model.requests) == 3

    def test_under_strict_its_request_is_not_sent(self, model, tools, caplog):
        model.steps = [[DANGER], "no", "done"]
        otelhooks.instrument(policies=DENY, strict=True)
        with pytest.raises(errors.Denied, match="The result of `danger` was not sent"):
            self.ignore(model, tools)
        assert len(gaps(caplog)) == 1
        assert len(model.requests) == 2

    def test_nor_is_a_history_of_another_process(self, model, tools, caplog):
        model.steps = ["done"]
        otelhooks.instrument(policies=DENY, strict=True)
        function = {"name": "danger", "arguments": "{}"}
        call = {"id": "call_old", "type": "function", "function": function}
        with client_of(model) as client:
            client.chat.completions.create(
                model="small",
                messages=[
                    {"role": "user", "content": "begin"},
                    {"role": "assistant", "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "call_old", "content": "gone"},
                ],
            )
        assert gaps(caplog) == []

    def test_nor_is_another_call_of_the_same_id(self, model, tools, caplog):
        """Some servers count calls from the beginning in every answer."""
        model.steps = [[("call_0", *SAFE[1:])], [("call_0", *DANGER[1:])], "no", "done"]
        otelhooks.instrument(policies=DENY, strict=True)
        with client_of(model) as client:
            ask = client.chat.completions.create
            messages: list[Any] = [{"role": "user", "content": "begin"}]
            for _ in range(2):
                message = ask(model="small", messages=messages, tools=CHAT_TOOLS).choices[0].message
                messages.append(message.to_dict())
                for call in message.tool_calls or ():
                    result = {"role": "tool", "tool_call_id": call.id, "content": "ok"}
                    messages.append(result)
            ask(model="small", messages=messages, tools=CHAT_TOOLS)
        assert gaps(caplog) == []


class TestPermits:
    """A tool seat below the answer seat: one verdict a call."""

    def asked(self, model: Double, *calls: Any) -> None:
        model.steps = [[*calls], "done"]
        with client_of(model) as client:
            client.chat.completions.create(
                model="small", messages=[{"role": "user", "content": "x"}], tools=CHAT_TOOLS
            )

    def test_call_tool_takes_it_by_id(self, model):
        seen: list[Any] = []
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=1)])
        self.asked(model, SAFE)

        def run(x: int, lang: str = "en") -> None:
            seen.append((x, lang))

        otelhooks.call_tool("safe", {"x": 1}, run, id="call_s")
        assert seen == [(1, "en")]
        with pytest.raises(errors.Denied):  # used up: judged again, and counted
            otelhooks.call_tool("safe", {"x": 1}, run, id="call_s")

    def test_other_arguments_are_judged_again(self, model):
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=1)])
        self.asked(model, SAFE)
        with pytest.raises(errors.Denied):
            otelhooks.call_tool("safe", {"x": 2}, lambda x: x, id="call_s")

    def test_a_decorated_function_takes_it_by_name_and_arguments(self, model):
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=1)])
        self.asked(model, SAFE)

        @otelhooks.tool
        def safe(x: int, lang: str = "en") -> int:
            return x

        assert safe(1) == 1
        with pytest.raises(errors.Denied):
            safe(1)

    def test_rules_are_asked_again_when_it_runs(self, model):
        otelhooks.instrument(policies=[policy.deny("safe", when=lambda args: "lang" in args)])
        self.asked(model, SAFE)
        with pytest.raises(errors.Denied):
            otelhooks.call_tool("safe", {"x": 1}, lambda x, lang="en": x, id="call_s")


class TestEqualIds:
    """Calls of one answer with the same id: limits count each that runs, once."""

    TWICE: ClassVar = [SAFE, SAFE]
    DIFFERENT: ClassVar = [SAFE, ("call_s", "safe", {"x": 2})]

    def asked(self, model: Double, calls: Any) -> None:
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=2)])
        model.steps = [[*calls]]
        said: Any = [{"role": "user", "content": "x"}]
        with client_of(model) as client:
            client.chat.completions.create(model="small", messages=said, tools=CHAT_TOOLS)

    @pytest.mark.parametrize("id", ["call_s", None])
    @pytest.mark.parametrize("calls", [TWICE, DIFFERENT])
    def test_each_is_counted_once(self, model, calls, id):
        self.asked(model, calls)
        for _, name, args in calls:
            assert otelhooks.call_tool(name, args, lambda x: x, id=id) == args["x"]
        with pytest.raises(errors.Denied):
            otelhooks.call_tool("safe", {"x": 1}, lambda x: x, id=id)

    def test_a_denied_one_does_not_hide_the_one_that_was_allowed(self, model, tools, caplog):
        model.steps = [[SAFE, SAFE], "done"]
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=1)], strict=True)
        assert chat(model, tools) == "done"
        assert tools.ran == ["safe"]
        assert gaps(caplog) == []


class TestDecidedOnce:
    """What decided in the answer does not decide again about the same call where it runs."""

    def run(self, model: Double, args: dict[str, Any], **scope: Any) -> Any:
        """Run the call of an answer, with a default that only the function knows."""
        model.steps = [[SAFE]]
        said: Any = [{"role": "user", "content": "x"}]
        with client_of(model) as client:
            client.chat.completions.create(model="small", messages=said, tools=CHAT_TOOLS)
        with otelhooks.scope(**scope):
            return otelhooks.call_tool("safe", args, lambda x, lang="en": (x, lang), id="call_s")

    @pytest.fixture
    def asked(self) -> tuple[list[Any], Any]:
        seen: list[Any] = []

        def handler(call: Any, reason: str) -> bool:
            seen.append(call.args)
            return True

        return seen, policy.ask_user("safe", handler=handler)

    @pytest.fixture
    def adds(self) -> Any:
        @hooks.pre_tool_call_decide
        def adds(data: Any) -> Any:
            return types.HookResult(modified_args={"x": data.args["x"] + 1})

        return adds

    def test_a_person_is_asked_once(self, model, asked):
        seen, rule = asked
        otelhooks.instrument(policies=[rule])
        assert self.run(model, {"x": 1}) == (1, "en")
        assert seen == [{"x": 1}]

    def test_a_stop_that_comes_after_the_answer_reaches_call_tool(self, model, asked):
        handle = otelhooks.instrument(policies=[asked[1]])
        model.steps = [[SAFE]]
        with client_of(model) as client:
            said: Any = [{"role": "user", "content": "x"}]
            client.chat.completions.create(model="small", messages=said, tools=CHAT_TOOLS)
        handle._stop((stops.stop_now(why="Fire."),))
        with pytest.raises(errors.Denied, match=r"Stopped: Fire\."):
            otelhooks.call_tool("safe", {"x": 1}, lambda x: x, id="call_s")

    def test_also_about_what_a_hook_wrote(self, model, asked, adds):
        seen, rule = asked
        otelhooks.instrument(policies=[rule], hooks=[adds])
        assert self.run(model, {"x": 2}) == (2, "en")
        assert seen == [{"x": 2}]

    def test_and_again_about_the_models_own_arguments(self, model, asked, adds):
        seen, rule = asked
        otelhooks.instrument(policies=[rule], hooks=[adds])
        assert self.run(model, {"x": 5}) == (6, "en")
        assert seen == [{"x": 2}, {"x": 6, "lang": "en"}]

    def test_a_rule_that_asks_because_of_a_default_does(self, model, asked):
        seen: list[Any] = []

        def handler(call: Any, reason: str) -> bool:
            seen.append(call.args)
            return True

        rule = policy.ask_user("safe", handler=handler, when=lambda args: "lang" in args)
        otelhooks.instrument(policies=[rule, asked[1]])
        assert self.run(model, {"x": 1}) == (1, "en")
        assert seen == [{"x": 1, "lang": "en"}]

    def test_a_hook_that_rewrote_may_still_deny(self, model):
        @hooks.pre_tool_call_decide
        def changed(data: Any) -> Any:
            allow = "lang" not in data.args
            return types.HookResult(allow=allow, modified_args={"x": 2} if allow else None)

        otelhooks.instrument(hooks=[changed])
        with pytest.raises(errors.Denied):
            self.run(model, {"x": 2})

    def test_the_span_tells_of_the_change(self, model, adds, with_rules, exporter):
        with_rules(hooks=[adds])
        self.run(model, {"x": 2})
        span = exporter.get_finished_spans()[-1]
        assert span.attributes["otelhooks.policy.decision"] == "modify"

    def test_a_hook_that_has_not_seen_it_decides(self, model, adds):
        otelhooks.instrument(policies=DENY)
        assert self.run(model, {"x": 1}, hooks=[adds]) == (2, "en")


def test_a_result_that_changes_later_is_checked_again(model, tools):
    @hooks.post_tool_call_transform
    def masked(data):
        return str(data.result).replace("secret", "***")

    otelhooks.instrument(hooks=[masked])
    model.steps = [[SAFE], "wait", "done"]
    with client_of(model) as client:
        ask = client.chat.completions.create
        said: list[Any] = [{"role": "user", "content": "x"}]
        said.append(ask(model="small", messages=said, tools=CHAT_TOOLS).choices[0].message)
        for text in ("pending", "a secret"):
            result = {"role": "tool", "tool_call_id": "call_s", "content": text}
            ask(model="small", messages=[*said, result])
    assert "pending" in json.dumps(model.requests[1])
    assert "a ***" in json.dumps(model.requests[2])


class TestApprovalTheft:
    """A permit is for the session and the agent whose answer asked for the call."""

    def ask(self, model: Double, *calls: Any, text: str = "x") -> Any:
        model.steps = [[*calls]]
        with client_of(model) as client:
            messages: Any = [{"role": "user", "content": text}]
            return client.chat.completions.create(
                model="small", messages=messages, tools=CHAT_TOOLS
            )

    def approved(self) -> list[str]:
        """Ask a person about each call of `safe`; return who was asked, in order."""
        people: list[str] = []

        async def approve(request: Any) -> bool:
            people.append(request.session_id)
            return len(people) == 1

        otelhooks.instrument(policies=[policy.ask_user("safe", handler=approve)])
        return people

    def take(self, **call: Any) -> None:
        with pytest.raises(errors.Denied):
            otelhooks.call_tool("safe", {"x": 1}, lambda x: x, **call)

    @pytest.mark.parametrize("id", ["call_s", None])
    def test_another_session_does_not_take_it(self, model, id):
        people = self.approved()
        with otelhooks.session("ann"):
            self.ask(model, SAFE)
        with otelhooks.session("bob"):
            self.take(id=id)
        assert people == ["ann", "bob"]

    @pytest.mark.parametrize("id", ["call_s", None])
    def test_it_ends_with_its_session(self, model, id):
        people = self.approved()
        for _ in range(2):
            with otelhooks.session("ann"):
                if not people:
                    self.ask(model, SAFE)
                else:
                    self.take(id=id)
        assert people == ["ann", "ann"]

    @pytest.mark.parametrize("id", ["call_s", None])
    def test_it_ends_with_its_turn(self, model, id):
        people = self.approved()
        with otelhooks.session("ann"):
            with otelhooks.turn("one", agent="a"):
                self.ask(model, SAFE)
            with otelhooks.turn("two", agent="a"):
                self.take(id=id)
        assert len(people) == 2

    def test_an_agent_inside_the_turn_does_not_take_it(self, model):
        people = self.approved()

        @otelhooks.agent("helper")
        def helper() -> None:
            self.take(id="call_s")

        with otelhooks.turn("one", agent="a"):
            self.ask(model, SAFE)
            helper()
        assert len(people) == 2

    def test_another_trace_does_not_take_it(self, model):
        """Requests of several users in one server, each with a span of the server's."""
        from opentelemetry.sdk.trace import TracerProvider

        tracer, people = TracerProvider().get_tracer("server"), self.approved()
        with tracer.start_as_current_span("POST /ann"):
            self.ask(model, SAFE)
        with tracer.start_as_current_span("POST /bob"):
            self.take(id="call_s")
        assert len(people) == 2

    def test_the_turn_that_asked_takes_it(self, model):
        people = self.approved()
        with otelhooks.session("ann"), otelhooks.turn("one", agent="a"):
            self.ask(model, SAFE)
            assert otelhooks.call_tool("safe", {"x": 1}, lambda x: x, id="call_s") == 1
        assert people == ["ann"]

    def test_a_replaced_result_of_one_session_is_not_told_in_another(self, model):
        """Some servers count calls from the beginning: the id is the same."""

        @hooks.post_tool_call_transform
        def masked(data):
            return f"masked {data.result}"

        otelhooks.instrument(hooks=[masked])
        function = {"name": "safe", "arguments": json.dumps(SAFE[2])}
        call = {"id": "call_s", "type": "function", "function": function}
        for name in ("ann", "bob"):
            with otelhooks.session(name), client_of(model) as client:
                if name == "ann":
                    self.ask(model, SAFE)
                model.steps = ["done"]
                result = {"role": "tool", "tool_call_id": "call_s", "content": f"of {name}"}
                said: Any = [{"role": "assistant", "tool_calls": [call]}, result]
                client.chat.completions.create(model="small", messages=said)
        assert "masked of ann" in json.dumps(model.requests[-2])
        assert "ann" not in json.dumps(model.requests[-1])

    def test_a_denied_call_of_one_session_is_not_told_in_another(self, model):
        otelhooks.instrument(policies=DENY)
        with otelhooks.session("ann"):
            self.ask(model, DANGER, SAFE)
        function = {"name": "safe", "arguments": json.dumps(SAFE[2])}
        call = {"id": "call_s", "type": "function", "function": function}
        result = {"role": "tool", "tool_call_id": "call_s", "content": "ok"}
        model.steps = ["done"]
        with otelhooks.session("bob"), client_of(model) as client:
            said: Any = [{"role": "assistant", "tool_calls": [call]}, result]
            client.chat.completions.create(model="small", messages=said)
        assert "danger" not in json.dumps(model.requests[-1])

    def test_nor_beside_another_call_of_the_same_id(self, model):
        otelhooks.instrument(policies=DENY)
        self.ask(model, DANGER, SAFE)
        function = {"name": "other", "arguments": "{}"}
        call = {"id": "call_s", "type": "function", "function": function}
        result = {"role": "tool", "tool_call_id": "call_s", "content": "ok"}
        model.steps = ["done"]
        with client_of(model) as client:
            said: Any = [{"role": "assistant", "tool_calls": [call]}, result]
            client.chat.completions.create(model="small", messages=said)
        assert "danger" not in json.dumps(model.requests[-1])

    @pytest.mark.parametrize("kept", ["previous_response_id", "conversation"])
    def test_a_conversation_that_the_provider_keeps_is_one_in_any_session(
        self, kept, model, caplog
    ):
        otelhooks.instrument(policies=DENY)
        model.steps = [[DANGER, SAFE], "done", "done"]
        with client_of(model) as client:
            with otelhooks.session("ann"):
                first = client.responses.create(model="small", input="x", tools=RESPONSE_TOOLS)
            given = {kept: first.id}  # the oldest client has no parameter for one of them
            result = {"type": "function_call_output", "call_id": "call_d", "output": "gone"}
            with otelhooks.session("bob"):
                client.responses.create(model="small", input=[result], extra_body=given)
        assert len(gaps(caplog)) == 1


class TestStreams:
    def chunks(self, model: Double, *steps: Any, **given: Any) -> list[str]:
        model.steps = list(steps)
        with client_of(model) as client:
            stream = client.chat.completions.create(
                model="small", messages=[], stream=True, tools=CHAT_TOOLS, **given
            )
            return [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]

    def test_texts_are_not_held_back(self, model):
        otelhooks.instrument(policies=DENY)
        model.steps = ["a long answer"]
        with client_of(model) as client:
            stream = client.chat.completions.create(
                model="small", messages=[], stream=True, tools=CHAT_TOOLS
            )
            assert next(stream).choices[0].delta.role == "assistant"
            texts = [next(stream).choices[0].delta.content, next(stream).choices[0].delta.content]
            assert texts == ["a lo", "ng a"]
            stream.close()

    @pytest.mark.parametrize("withheld", [False, True])
    def test_they_wait_where_a_hook_may_change_them(self, model, withheld):
        @hooks.post_model_call_transform
        def changed(data):
            return types.HookResult(allow=False, message="withheld") if withheld else "clean"

        otelhooks.instrument(hooks=[changed])
        told = "".join(self.chunks(model, "a secret"))
        assert told == ("withheld" if withheld else "clean")

    def test_what_was_shown_stays_and_the_reason_follows(self, model):
        otelhooks.instrument(policies=DENY)
        told = "".join(self.chunks(model, ["Let me see.", DANGER]))
        assert told == f"Let me see.\n{REASON}"

    def test_beside_an_allowed_call_the_reason_is_no_text(self, model):
        otelhooks.instrument(policies=DENY)
        told = "".join(self.chunks(model, ["Let me see.", DANGER, SAFE]))
        assert told == "Let me see."

    @pytest.mark.parametrize("is_told_its_type", [True, False])
    def test_denied_calls_go_back_as_a_request_has_them(
        self, model, tools, is_told_its_type, monkeypatch
    ):
        """And not as a stream has them: servers refuse fields that they do not know."""

        def events(made: Any) -> Any:
            for event in model_double._chat_events(made):
                for choice in event["choices"]:
                    for call in choice["delta"].get("tool_calls", ()):
                        if not is_told_its_type:
                            call.pop("type", None)
                yield event

        monkeypatch.setitem(model_double._FORMS, "/chat/completions", (model_double._chat, events))
        otelhooks.instrument(policies=DENY)
        model.steps = [["Let me see.", SAFE, DANGER], "done"]
        assert chat_stream(model, tools) == "done"
        [asked] = [one for one in model.requests[1]["messages"] if one["role"] == "assistant"]
        assert [call["id"] for call in asked["tool_calls"]] == ["call_s", "call_d"]
        for call in asked["tool_calls"]:
            assert call.keys() == {"id", "type", "function"}
            assert call["function"].keys() == {"name", "arguments"}

    def test_nothing_waits_where_no_call_could_be_denied(self, model):
        otelhooks.instrument()
        model.steps = [[SAFE]]
        with client_of(model) as client:
            stream = client.chat.completions.create(
                model="small", messages=[], stream=True, tools=CHAT_TOOLS
            )
            deltas = [c.choices[0].delta.tool_calls for c in stream if c.choices]
        assert len([one for one in deltas if one]) == 3


class TestSpans:
    def test_one_span_a_model_call_and_one_a_tool_call(self, model, tools, with_rules, exporter):
        model.steps = [[DANGER], [SAFE], "done"]
        with_rules(*DENY)
        chat(model, tools)
        names = [span.name for span in exporter.get_finished_spans()]
        assert names == [
            *("chat small", "execute_tool danger", "chat small"),
            *("execute_tool safe", "chat small"),
        ]

    def test_a_framework_of_its_own_has_judged_the_call(self, model, with_rules, exporter):
        with_rules(*DENY)
        model.steps = [[DANGER]]

        @otelhooks.model_call(model="small", provider="openai")
        def ask(messages):
            with client_of(model) as client:
                return client.chat.completions.create(model="small", messages=messages)

        assert ask([]).choices[0].message.tool_calls
        assert [span.name for span in exporter.get_finished_spans()] == ["chat small"]


def test_a_span_has_the_settings_of_the_request_and_the_server(model, with_rules, exporter):
    model.steps = ["done", "done"]
    with_rules(*DENY)
    with client_of(model) as client:
        given: dict[str, Any] = {"temperature": 0.5, "max_completion_tokens": 7, "stop": ["x"]}
        said: Any = [{"role": "user", "content": "begin"}]
        client.chat.completions.create(model="small", messages=said, **given)
        client.responses.create(model="small", input="begin", reasoning={"effort": "low"})
    chat, response = (dict(span.attributes or {}) for span in exporter.get_finished_spans())
    assert chat["gen_ai.request.temperature"] == 0.5
    assert chat["gen_ai.request.max_tokens"] == 7
    assert chat["gen_ai.request.stop_sequences"] == ("x",)
    assert response["gen_ai.request.reasoning.level"] == "low"
    for attributes in (chat, response):
        assert attributes["server.address"] == "127.0.0.1"
        assert attributes["server.port"] == int(model.url.rpartition(":")[2])


@pytest.mark.parametrize("withheld", [False, True])
def test_hooks_change_the_text_of_every_choice(model, monkeypatch, withheld):
    usual, events = model_double._FORMS["/chat/completions"]

    def two(*given: Any) -> Any:
        made = usual(*given)
        other = {"role": "assistant", "content": "another secret"}
        made["choices"].append({"index": 1, "message": other, "finish_reason": "stop"})
        return made

    @hooks.post_model_call_transform
    def changed(data):
        return types.HookResult(allow=False, message="withheld") if withheld else "clean"

    monkeypatch.setitem(model_double._FORMS, "/chat/completions", (two, events))
    otelhooks.instrument(hooks=[changed])
    model.steps = ["a secret"]
    with client_of(model) as client:
        made = client.chat.completions.create(model="small", messages=[], n=2)
    assert {c.message.content for c in made.choices} == {"withheld" if withheld else "clean"}


class TestChoices:
    """Each of several choices keeps its own calls, whatever their ids are."""

    def asked(self, model: Double, monkeypatch: Any, id: Any, *, stream: bool) -> list[list[Any]]:
        """Return the calls of the choices, of which each asks for one."""
        pieces = [_piece(id, "danger", '{"path": "/"}'), _piece(id, "safe", '{"x": 1}')]
        choices = [
            {"index": at, "message": {"tool_calls": [piece]}, "finish_reason": "tool_calls"}
            for at, piece in enumerate(pieces)
        ]

        def events(made: Any) -> Any:
            for at, piece in enumerate(pieces):
                choice = {"index": at, "delta": {"tool_calls": [piece]}}
                yield {**_delta(piece), "choices": [choice]}

        def whole(*given: Any) -> Any:
            return {**model_double._chat(*given), "choices": choices}

        monkeypatch.setitem(model_double._FORMS, "/chat/completions", (whole, events))
        model.steps = [""]
        given: dict[str, Any] = {"messages": [], "n": 2, "tools": CHAT_TOOLS, "stream": stream}
        told: list[list[Any]] = [[], []]
        with client_of(model) as client:
            found: Any = client.chat.completions.create(model="small", **given)
            for each in found if stream else [found]:
                for one in each.choices:
                    said = one.delta if stream else one.message
                    told[one.index] += [call.function.name for call in said.tool_calls or ()]
        return [list(filter(None, calls)) for calls in told]

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("id", ["call_0", "", None])
    def test_the_denied_one_leaves_the_other_where_it_was(self, model, monkeypatch, id, stream):
        otelhooks.instrument(policies=DENY)
        assert self.asked(model, monkeypatch, id, stream=stream) == [[], ["safe"]]

    @pytest.mark.parametrize("id", ["call_0", "", None])
    def test_one_with_other_arguments_stays_where_it_was(self, model, monkeypatch, id):
        @hooks.pre_tool_call_decide
        def changed(data):
            return types.HookResult(modified_args={"y": data.name})

        otelhooks.instrument(hooks=[changed])
        assert self.asked(model, monkeypatch, id, stream=False) == [["danger"], ["safe"]]

    @pytest.mark.parametrize("name", ["danger", "safe"])
    def test_one_that_a_hook_leaves_out(self, model, monkeypatch, name):
        @hooks.post_model_call_transform
        def changed(data):
            (kept,) = [call for call in data.tool_calls if call.name == name]
            return data.model_copy(update={"tool_calls": [kept]})

        otelhooks.instrument(hooks=[changed])
        told = [["danger"], []] if name == "danger" else [[], ["safe"]]
        assert self.asked(model, monkeypatch, "call_0", stream=False) == told

    def test_one_that_a_hook_renames(self, model, monkeypatch):
        @hooks.post_model_call_transform
        def changed(data):
            new = [call.model_copy(update={"name": f"{call.name}r"}) for call in data.tool_calls]
            return data.model_copy(update={"tool_calls": new})

        otelhooks.instrument(hooks=[changed])
        assert self.asked(model, monkeypatch, "call_0", stream=False) == [["dangerr"], ["safer"]]


class TestWithheld:
    """What repeats a text that a hook has changed, or tells how the model came to it, is gone."""

    MESSAGES: ClassVar = {
        "annotations": {"annotations": [{"type": "url_citation", "url": "secret"}]},
        "reasoning": {"reasoning_content": "a secret"},
        "parsed": {"parsed": {"of": "secret"}},
        "fields of the provider": {"provider_specific_fields": {"citations": ["secret"]}},
        "blocks": {"content": [{"type": "text", "text": "x"}, {"type": "z", "z": "secret"}]},
        "no text": {"content": None, "reasoning_content": "a secret"},
    }
    ITEMS: ClassVar = {
        "reasoning": {"id": "r", "type": "reasoning", "encrypted_content": "e"}
        | {"summary": [{"type": "summary_text", "text": "a secret"}]}
        | {"content": [{"type": "reasoning_text", "text": "a secret"}]},
        "a server's tool": {"id": "m", "type": "mcp_call", "server_label": "s", "name": "n"}
        | {"arguments": "{}", "output": "a secret"},
        "files": {"id": "f", "type": "file_search_call", "status": "completed"}
        | {"queries": ["secret"], "results": [{"text": "a secret"}]},
    }

    @pytest.fixture(autouse=True)
    def masked(self):
        otelhooks.instrument(hooks=[hooks.post_model_call_transform(lambda data: "masked")])

    def answer(self, model: Double, monkeypatch: Any, message: Any, **choice: Any) -> str:
        usual, events = model_double._FORMS["/chat/completions"]

        def more(*given: Any) -> Any:
            made = usual(*given)
            made["choices"][0] |= choice
            made["choices"][0]["message"] |= message
            return {**made, "citations": ["secret"]}

        monkeypatch.setitem(model_double._FORMS, "/chat/completions", (more, events))
        model.steps = ["a secret"]
        with client_of(model) as client:
            made = client.chat.completions.create(model="small", messages=[])
        assert made.choices[0].message.content == "masked"
        return made.model_dump_json()

    @pytest.mark.parametrize("name", MESSAGES)
    def test_in_a_message(self, model, monkeypatch, name):
        assert "secret" not in self.answer(model, monkeypatch, self.MESSAGES[name])

    def test_among_tokens(self, model, monkeypatch):
        token = {"token": "secret", "logprob": 0, "bytes": None, "top_logprobs": []}
        tokens = {"content": [token], "refusal": None}
        assert "secret" not in self.answer(model, monkeypatch, {}, logprobs=tokens)

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("name", ITEMS)
    def test_in_an_item_of_a_response(self, model, name, stream):
        model.steps = [["a secret", self.ITEMS[name]]]
        with client_of(model) as client:
            if stream:
                made = [*client.responses.create(model="small", input="x", stream=True)]
                told = "".join(one.model_dump_json(warnings=False) for one in made)
            else:
                told = client.responses.create(model="small", input="x").to_json(warnings=False)
        assert "secret" not in told
        assert "masked" in told
        assert self.ITEMS[name]["type"] in told


@pytest.mark.parametrize("text", ["a secret", "a word"])
def test_hooks_see_texts_in_blocks_inside_blocks(model, monkeypatch, text):
    usual, events = model_double._FORMS["/chat/completions"]
    inner = [{"type": "nested", "content": [{"type": "text", "text": text}]}]

    def nested(*given: Any) -> Any:
        made = usual(*given)
        made["choices"][0]["message"]["content"] = inner
        return made

    @hooks.post_model_call_transform
    def masked(data):
        return data.text.replace("secret", "***")

    monkeypatch.setitem(model_double._FORMS, "/chat/completions", (nested, events))
    otelhooks.instrument(hooks=[masked])
    model.steps = [""]
    with client_of(model) as client:
        made = client.chat.completions.create(model="small", messages=[])
    told: Any = made.choices[0].message.content
    assert told == ("a ***" if text == "a secret" else inner)


class TestResults:
    """What a later request tells of a call's result, in forms that an answer does not fix."""

    def told(self, model: Double, *messages: Any) -> str:
        model.steps.append("done")
        with client_of(model) as client:
            client.chat.completions.create(model="small", messages=list(messages))
        return json.dumps(model.requests[-1])

    @pytest.fixture(autouse=True)
    def masked(self):
        @hooks.post_tool_call_transform
        def masked(data):
            return str(data.result).replace("secret", "***")

        otelhooks.instrument(hooks=[masked])

    def asked(self, model: Double, *calls: Any) -> None:
        model.steps = [[*calls]]
        with client_of(model) as client:
            said: Any = [{"role": "user", "content": "x"}]
            client.chat.completions.create(model="small", messages=said, tools=CHAT_TOOLS)

    def call(self, id: str, **args: Any) -> Any:
        function = {"name": "safe", "arguments": json.dumps(args)}
        return {
            "role": "assistant",
            "tool_calls": [{"id": id, "type": "function", "function": function}],
        }

    def result(self, id: str, content: Any = "a secret") -> Any:
        return {"role": "tool", "tool_call_id": id, "content": content}

    def test_a_result_stays_replaced_when_its_id_is_used_again(self, model):
        self.asked(model, ("call_0", "safe", {"x": 1}))
        first = (self.call("call_0", x=1), self.result("call_0"))
        assert "secret" not in self.told(model, *first)
        self.asked(model, ("call_0", "safe", {"x": 2}))
        later = self.told(model, *first, self.call("call_0", x=2), self.result("call_0"))
        assert "secret" not in later

    def test_one_of_a_call_that_the_loop_repeats_otherwise_is_seen(self, model):
        self.asked(model, ("call_0", "safe", {"x": 1}))
        assert "secret" not in self.told(model, self.call("call_0"), self.result("call_0"))

    def test_so_is_one_without_an_id(self, model):
        self.asked(model, ("", "safe", {"x": 1}))
        assert "secret" not in self.told(model, self.call("", x=1), self.result(""))

    def test_and_blocks_that_are_no_text(self, model):
        block = {"type": "file", "file": {"file_data": "secret", "filename": "f"}}
        self.asked(model, ("call_0", "safe", {"x": 1}))
        told = self.told(model, self.call("call_0", x=1), self.result("call_0", [block]))
        assert "secret" not in told


def test_a_result_that_is_sent_twice_at_once_is_replaced_in_both(model):
    """The second request is sent while the first one takes down what the hook wrote."""

    class Written(str):
        def __str__(self) -> str:
            if waiting:
                waiting.pop()()
            return "***"

    def ask() -> None:
        model.steps.append("done")
        with client_of(model) as client:
            client.chat.completions.create(model="small", messages=said, tools=CHAT_TOOLS)

    waiting = [ask]
    otelhooks.instrument(hooks=[hooks.post_tool_call_transform(lambda data: Written("written"))])
    model.steps = [[SAFE]]
    said: Any = [{"role": "user", "content": "x"}]
    with client_of(model) as client:
        client.chat.completions.create(model="small", messages=said, tools=CHAT_TOOLS)
    said.append({"role": "tool", "tool_call_id": "call_s", "content": "a secret"})
    ask()
    assert ["secret" in json.dumps(one) for one in model.requests] == [False, False, False]


def test_parsed_answers_are_judged_and_parsed(model, tools):
    import pydantic

    class Place(pydantic.BaseModel):
        city: str

    model.steps = [[DANGER], '{"city": "Rome"}']
    otelhooks.instrument(policies=DENY)
    with client_of(model) as client:
        strict = [{"type": "function", "function": {**CHAT_TOOLS[0]["function"], "strict": True}}]
        found = client.chat.completions.parse(
            model="small", messages=[], tools=strict, response_format=Place
        )
    assert found.choices[0].message.parsed == Place(city="Rome")


def test_a_result_that_could_not_be_checked_is_not_sent(model, tools, monkeypatch):
    def returned(*args: Any) -> Any:
        yield from ()
        return Raised(errors.Denied("not checked"))

    monkeypatch.setattr(clients, "returned", returned)
    model.steps = [[SAFE], "done"]
    otelhooks.instrument(policies=DENY)
    with pytest.raises(errors.Denied, match="not checked"):
        chat(model, tools)
    assert len(model.requests) == 1


def test_a_failed_request_raises_what_it_raised(model):
    otelhooks.instrument(policies=DENY)
    model.steps = []  # the double breaks off
    with client_of(model) as client, pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(model="small", messages=[])


SHELL = {
    **{"type": "shell_call", "id": "sh_1", "call_id": "call_sh", "status": "completed"},
    "action": {"commands": ["ls /"], "timeout_ms": None},
}
LOCAL_SHELL = {
    **{"type": "local_shell_call", "id": "sh_1", "call_id": "call_sh", "status": "completed"},
    "action": {"type": "exec", "command": ["ls", "/"], "env": {}},
}
PATCH = {
    **{"type": "apply_patch_call", "id": "ap_1", "call_id": "call_ap", "status": "completed"},
    "operation": {"type": "delete_file", "path": "/etc/passwd"},
}
COMPUTER = {
    **{"type": "computer_call", "id": "cu_1", "call_id": "call_cu", "status": "completed"},
    **{"pending_safety_checks": [], "action": {"type": "screenshot"}},
}

SEARCH = {
    **{"type": "tool_search_call", "id": "ts_1", "call_id": "call_ts", "status": "completed"},
    **{"execution": "client", "arguments": {"goal": "mail", "type": "any"}},
}


@pytest.mark.parametrize("stream", [False, True])
class TestBuiltIn:
    """Tools that the API defines and the application runs."""

    def ask(self, model: Double, item: Any, *given: Any, stream: bool) -> Any:
        model.steps = [[item], "done"]
        with client_of(model) as client:
            offered = [{"type": item["type"].removesuffix("_call")}]
            asked = [{"role": "user", "content": "begin"}, *given]
            made: Any = client.responses.create(
                model="small", input=asked, tools=offered, stream=stream
            )
            return [*made][-1].response if stream else made

    @pytest.mark.parametrize(
        ("item", "rule"),
        [
            *((SHELL, "shell"), (SHELL, "run_command"), (LOCAL_SHELL, "run_command")),
            *((PATCH, "apply_patch"), (PATCH, "delete_file")),
        ],
    )
    def test_a_denied_call_is_answered_in_its_own_form(self, model, item, rule, stream):
        otelhooks.instrument(policies=[policy.deny(rule, reason=REASON)])
        assert self.ask(model, item, stream=stream).output_text == "done"
        asked, result = model.requests[1]["input"][-2:]
        assert asked["type"] == item["type"]
        assert result["type"] == f"{item['type']}_output"
        assert REASON in json.dumps(result)

    def test_one_whose_result_has_no_text_is_dropped(self, model, stream):
        otelhooks.instrument(policies=[policy.deny("computer", reason=REASON)])
        assert self.ask(model, COMPUTER, stream=stream).output_text == REASON
        assert len(model.requests) == 1

    def test_a_search_for_tools_by_the_application_is_judged(self, model, stream):
        seen: list[Any] = []

        def is_seen(args: Any) -> bool:
            seen.append(args)
            return True

        otelhooks.instrument(policies=[policy.deny("tool_search", when=is_seen, reason=REASON)])
        assert self.ask(model, SEARCH, stream=stream).output_text == REASON
        text = {**SEARCH, "arguments": '{"goal": "mail"}'}
        assert self.ask(model, text, stream=stream).output_text == REASON
        assert seen == [SEARCH["arguments"], {"goal": "mail"}]

    def test_a_search_for_tools_at_the_provider_is_not_judged(self, model, stream):
        otelhooks.instrument(policies=[policy.deny("tool_search")])
        theirs = {**SEARCH, "execution": "server", "call_id": None}
        assert self.ask(model, theirs, stream=stream).output[0].type == "tool_search_call"

    def test_the_result_of_a_denied_search_is_told_of(self, model, caplog, stream):
        otelhooks.instrument(policies=[policy.deny("tool_search")], strict=True)
        self.ask(model, SEARCH, stream=stream)
        result = {"type": "tool_search_output", "call_id": "call_ts", "tools": []}
        with pytest.raises(errors.Denied, match="The result of `tool_search` was not sent"):
            self.ask(model, SEARCH, result, stream=stream)
        assert len(gaps(caplog)) == 1

    def test_an_allowed_call_arrives_as_it_was(self, model, stream):
        otelhooks.instrument(policies=[policy.deny("create_file")])
        item = self.ask(model, PATCH, stream=stream).output[0].to_dict(mode="json")
        assert item["operation"] == PATCH["operation"]

    def test_rules_see_the_arguments(self, model, stream):
        seen: list[Any] = []
        otelhooks.instrument(policies=[policy.deny("run_command", when=seen.append)])
        self.ask(model, SHELL, stream=stream)
        assert seen == [{"commands": ["ls /"]}]

    def test_what_the_provider_runs_is_not_judged(self, model, stream):
        otelhooks.instrument(policies=[policy.deny("run_command")])
        place = {"type": "container_reference", "container_id": "c"}
        found = self.ask(model, {**SHELL, "environment": place}, stream=stream)
        assert found.output[0].type == "shell_call"

    @pytest.mark.parametrize("type", [None, "", "local", "not known"])
    def test_what_runs_at_no_known_place_of_the_provider_is_judged(self, type, model, stream):
        otelhooks.instrument(policies=[policy.deny("run_command", reason=REASON)])
        found = self.ask(model, {**SHELL, "environment": {"type": type}}, stream=stream)
        assert found.output_text == "done"

    def test_the_result_of_a_denied_call_is_told_of(self, model, caplog, stream):
        otelhooks.instrument(policies=[policy.deny("run_command")], strict=True)
        self.ask(model, SHELL, stream=stream)
        result = {"type": "shell_call_output", "call_id": "call_sh", "output": []}
        with pytest.raises(errors.Denied, match="The result of `shell` was not sent"):
            self.ask(model, SHELL, SHELL, result, stream=stream)
        assert len(gaps(caplog)) == 1


def _registered(tools: Tools, *, is_async: bool = False, **more: Any) -> Any:
    lib = pytest.importorskip("openai.lib.responses_tool_runner")

    def function(name: str) -> Any:
        def run(arguments: Any) -> str:
            return tools.run(name, json.dumps(arguments))

        async def arun(arguments: Any) -> str:
            return run(arguments)

        properties = {"path": {"type": "string"}, "x": {"type": "integer"}}
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        tool = {"type": "function", "name": name, "parameters": schema, "strict": False}
        if is_async:
            return lib.AsyncRegisteredFunction(tool=tool, execute=arun, **more)
        return lib.RegisteredFunction(tool=tool, execute=run, **more)

    functions = [function(name) for name in ("danger", "safe")]
    if is_async:
        return lib.AsyncResponsesToolRunner(functions=functions)
    return lib.ResponsesToolRunner(functions=functions)


def run_tools(model: Double, tools: Tools, **given: Any) -> str:
    runner = _registered(tools, independent=bool(given))
    with client_of(model) as client:
        params = {"model": "small", "input": "begin"}
        return runner.run(client, params, max_steps=9, **given).output_text


async def arun_tools(model: Double, tools: Tools, **given: Any) -> str:
    runner = _registered(tools, is_async=True, independent=bool(given))
    async with aclient_of(model) as client:
        params = {"model": "small", "input": "begin"}
        return (await runner.run(client, params, max_steps=9, **given)).output_text


RUNNERS = {
    "plain": run_tools,
    "stream": lambda *given: run_tools(*given, stream=True),
    "eager": lambda *given: run_tools(*given, stream=True, eager=True),
    "async": lambda *given: asyncio.run(arun_tools(*given)),
    "async-stream": lambda *given: asyncio.run(arun_tools(*given, stream=True)),
    "async-eager": lambda *given: asyncio.run(arun_tools(*given, stream=True, eager=True)),
}


@pytest.mark.parametrize("run", RUNNERS.values(), ids=RUNNERS)
class TestRunner:
    """`ResponsesToolRunner`, which runs functions in the client."""

    def test_denied(self, run, model, tools):
        model.steps = [[DANGER, SAFE], "done"]
        otelhooks.instrument(policies=DENY)
        assert run(model, tools) == "done"
        assert tools.ran == ["safe"]
        assert json.dumps(model.requests[1]).count(REASON) == 1

    def test_a_rule_that_denies_when_it_runs_is_told_in_the_result(self, run, model, tools):
        """Between the answer and the body a rule may have come into force."""
        model.steps = [[SAFE], "done"]
        otelhooks.instrument(policies=[_denies_second()])
        assert run(model, tools) == "done"
        assert tools.ran == []
        assert json.dumps(model.requests[1]).count(REASON) == 1

    def test_limits_count_a_call_once(self, run, model, tools):
        model.steps = [[SAFE], [("call_t", "safe", {"x": 2})], "done"]
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=2)])
        assert run(model, tools) == "done"
        assert tools.ran == ["safe", "safe"]

    def test_hooks_replace_results(self, run, model, tools):
        @hooks.post_tool_call_transform
        def masked(data):
            return "masked"

        model.steps = [[SAFE], "done"]
        otelhooks.instrument(hooks=[masked])
        assert run(model, tools) == "done"
        assert tools.ran == ["safe"]
        assert "safe done" not in json.dumps(model.requests[1])
        assert "masked" in json.dumps(model.requests[1])


def _denies_second() -> Any:
    seen: list[Any] = []

    def again(args: Any) -> bool:
        seen.append(args)
        return len(seen) > 1

    return policy.deny("safe", when=again, reason=REASON)


class TestSessions:
    """Sessions of hosted agents: the loop is at the provider, the handlers are here."""

    def dispatch(self, name: str, tools: Tools, arguments: Any, *, is_async: bool = False) -> Any:
        pytest.importorskip("openai.lib.beta.agents")
        from openai.lib.streaming.agents import _dispatch
        from openai.types.beta.agent_function_call_item import AgentFunctionCallItem

        sent: list[Any] = []
        given = {"id": "i", "turn_id": "t", "call_id": "c", "name": name, "arguments": arguments}
        call = AgentFunctionCallItem.construct(type="function_call", **given)

        def submit(session: str, result: Any) -> None:
            sent.append(result)

        async def asubmit(session: str, result: Any) -> None:
            sent.append(result)

        async def arun(arguments: Any) -> str:
            return tools.run(name, json.dumps(arguments))

        if is_async:
            made: Any = _dispatch.AsyncToolDispatcher(None, {})
            made._submit_result = asubmit
            asyncio.run(made.dispatch(("s", call, arun)))
        else:
            made = _dispatch.ToolDispatcher(None, {})
            made._submit_result = submit
            made.dispatch(("s", call, lambda args: tools.run(name, json.dumps(args))))
        return sent[0]

    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize("arguments", ['{"path": "/"}', {"path": "/"}])
    def test_denied(self, tools, arguments, is_async):
        otelhooks.instrument(policies=DENY)
        result = self.dispatch("danger", tools, arguments, is_async=is_async)
        assert (result["success"], result["output"]) == (True, REASON)
        assert tools.ran == []

    @pytest.mark.parametrize("is_async", [False, True])
    def test_allowed(self, tools, is_async):
        otelhooks.instrument(policies=DENY)
        result = self.dispatch("safe", tools, '{"x": 1}', is_async=is_async)
        assert result["output"] == "safe done with {'x': 1}"


class TestDecisions:
    """Actions that a model chooses by their ids."""

    def run(self, ran: list[str], *, is_async: bool = False, as_plain: bool = False) -> Any:
        runner = pytest.importorskip("openai.lib.decisions_tool_runner")
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        usage |= {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
        usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
        chosen = {"type": "choice", "name": "next_action", "confidence": 1, "probabilities": []}

        def create(**given: Any) -> Any:
            choice = "danger" if not ran else "stop"
            answer = {**chosen, "choice": choice}
            made = {"id": "d", "model": "small", "usage": usage, "answers": [answer]}
            return _models.construct_type(type_=openai.types.Decision, value=made)

        async def acreate(**given: Any) -> Any:
            return create()

        def danger(*, cancelled: Any = None) -> None:
            ran.append("danger")

        async def adanger() -> None:
            ran.append("danger")

        action = adanger if is_async else danger
        action = (lambda: adanger()) if as_plain else action
        offered = [
            {"id": "danger", "description": "d", "execute": action},
            {"id": "stop", "description": "s", "done": True},
        ]
        client: Any = (openai.AsyncOpenAI if is_async else openai.OpenAI)(api_key="k")
        client.decisions = SimpleNamespace(create=acreate if is_async else create)
        params: Any = {"model": "small", "input": "x"}

        async def observe() -> str:
            return "o"

        async def candidates(seen: str) -> Any:
            return offered

        if is_async:
            made = runner.AsyncDecisionsToolRunner(observe=observe, candidates=candidates)
            return asyncio.run(made.run(client, params))
        made = runner.DecisionsToolRunner(observe=lambda: "o", candidates=lambda seen: offered)
        return made.run(client, params)

    @pytest.mark.parametrize("kind", [{}, {"is_async": True}, {"is_async": True, "as_plain": True}])
    def test_a_denied_one_is_not_done(self, kind, with_rules, exporter):
        with_rules(*DENY)
        ran: list[str] = []
        with pytest.raises(RuntimeError):
            self.run(ran, **kind)
        assert ran == []
        [span] = [one for one in exporter.get_finished_spans() if one.name == "execute_tool danger"]
        assert span.attributes["otelhooks.policy.decision"] == "deny"

    @pytest.mark.parametrize("kind", [{}, {"is_async": True}, {"is_async": True, "as_plain": True}])
    def test_an_allowed_one_is(self, kind, with_rules):
        with_rules(policy.deny("other"))
        ran: list[str] = []
        assert self.run(ran, **kind)["completed_candidate_ids"] == ["danger"]
        assert ran == ["danger"]


class TestUnread:
    """Requests of forms that nothing here reads."""

    def test_they_are_told_of_once(self, model, caplog):
        otelhooks.instrument(policies=DENY)
        model.steps = ["done", "done"]
        with client_of(model) as client:
            for _ in range(2):
                client.post("/responses/compact", body={}, cast_to=str)
        warnings = [r.getMessage() for r in caplog.records if "which no rule" in r.getMessage()]
        assert warnings == [
            "`openai` asks a model by `/responses/compact`, which no rule is asked about"
        ]

    @pytest.mark.parametrize(
        "ask",
        [
            lambda client: client.completions.create(model="small", prompt="x"),
            lambda client: client.responses.retrieve("r"),
            lambda client: client.responses.retrieve("r", stream=True),
            lambda client: client.responses.cancel("r"),
            lambda client: client.chat.completions.retrieve("c"),
            lambda client: client.chat.completions.list(),
        ],
    )
    def test_under_strict_they_are_not_sent(self, ask, model):
        otelhooks.instrument(policies=DENY, strict=True)
        with client_of(model) as client, pytest.raises(errors.Denied, match="no rule"):
            ask(client)
        assert model.paths == []

    def test_what_is_no_answer_is_sent(self, model):
        otelhooks.instrument(policies=DENY, strict=True)
        with client_of(model) as client:
            for ask in (client.models.list, lambda: client.responses.delete("r")):
                with pytest.raises(openai.APIStatusError, match="501"):
                    ask()

    @pytest.mark.parametrize(
        "path",
        [
            *("conversations/c/items", "conversations/c/items/i", "responses/r/input_items"),
            *("chat/completions/c/messages", "threads/t/messages", "threads/t/runs"),
            *("threads/t/runs/r", "threads/t/runs/r/steps", "batches/b", "evals/e/runs"),
        ],
    )
    def test_what_the_page_names_is_sent_unreported(self, path, model, caplog):
        otelhooks.instrument(policies=DENY, strict=True)
        with client_of(model) as client, pytest.raises(openai.APIStatusError, match="501"):
            client.get(f"/{path}", cast_to=str)
        assert "no rule" not in caplog.text


def _delta(*pieces: dict[str, Any]) -> dict[str, Any]:
    return _chunk({"tool_calls": list(pieces)})


def _chunk(delta: dict[str, Any], reason: Any = None) -> dict[str, Any]:
    head = {"id": "a", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def _piece(id: str | None, name: str, args: str = "{}", index: Any = 0) -> dict[str, Any]:
    return {"index": index, "id": id, "type": "function"} | {
        "function": {"name": name, "arguments": args}
    }


def _item(name: str, args: str = "{}") -> dict[str, Any]:
    ids = {"type": "function_call", "id": "f", "call_id": "c1"}
    return {**ids, "name": name, "arguments": args, "status": "completed"}


def _ended(*items: dict[str, Any]) -> dict[str, Any]:
    response = {"id": "r", "object": "response", "created_at": 0, "output": list(items)}
    return {"type": "response.completed", "response": response, "sequence_number": 9}


ADDED = {"type": "response.output_item.added", "output_index": 0, "item": _item("danger", "")}
ARGS = {"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "f"} | {
    "arguments": "{}",
    "name": "danger",
}
PIECE = {"type": "response.function_call_arguments.delta", "item_id": "f", "delta": "{}"}
DONE = {"type": "response.output_item.done", "output_index": 0, "item": _item("danger")}
MESSAGE = {"role": "assistant", "content": None, "tool_calls": [_piece("c1", "danger")]}


def _messaged(**choice: Any) -> dict[str, Any]:
    return {**_chunk({}), "choices": [{"index": 0, "finish_reason": None, **choice}]}


ODD_CHATS = {
    "a message": [_chunk({"content": "a"}), _messaged(message=MESSAGE)],
    "a message beside an empty delta": [_messaged(delta={}, message=MESSAGE)],
    "another id at the same index": [_delta(_piece("c1", "safe")), _delta(_piece("c2", "danger"))],
    "both in one chunk": [_delta(_piece("c1", "safe"), _piece("c2", "danger"))],
    "no index": [
        _delta(_piece("c1", "safe", index=None)),
        _delta(_piece("c2", "danger", index=None)),
    ],
    "no index and no id": [
        _delta(_piece("", "safe", index=None), _piece("", "danger", index=None))
    ],
    "a name again": [_delta(_piece("c1", "danger", "{")), _delta(_piece("c1", "danger", "}"))],
    "a name in pieces": [_delta(_piece("c1", "dan", "{")), _delta(_piece(None, "ger", "}"))],
    "another name": [_delta(_piece("c1", "safe")), _delta(_piece("c1", "danger", ""))],
}
ODD_ARGUMENTS = {
    "interleaved": [
        _delta(_piece("c1", "safe", "")),
        _delta(_piece("c2", "run", "", index=1)),
        _delta({"index": 0, "function": {"arguments": '{"c": "rm"}'}}),
        _delta({"index": 1, "function": {"arguments": '{"c": "ls"}'}}),
    ],
    "in a choice that was not asked for": [
        _delta(_piece("c1", "run", '{"c": "ls"')),
        {
            **_chunk({}),
            "choices": [
                {"index": 1, "finish_reason": None}
                | {"delta": {"tool_calls": [_piece(None, "", ', "c": "rm"}')]}}
            ],
        },
    ],
}
ODD_RESPONSES = {
    "an end without items": [ADDED, PIECE, ARGS, DONE, _ended()],
    "an end with another item": [ADDED, ARGS, DONE, _ended(_item("safe"))],
    "no end": [ADDED, ARGS],
    "no start": [DONE, _ended(_item("danger"))],
    "arguments alone": [ARGS, _ended()],
    "arguments in pieces alone": [ADDED, PIECE],
    "a start with items": [
        {**_ended(_item("danger")), "type": "response.created"},
        *({**DONE, "item": _item("safe")}, _ended(_item("safe"))),
    ],
    "an event that is not known": [{**DONE, "type": "response.tool.asked"}, _ended()],
    "arguments that its item has not": [
        {**ADDED, "item": _item("safe", '{"c": "danger"}')},
        {**DONE, "item": _item("safe", '{"c": "ls"}')},
        _ended(_item("safe", '{"c": "ls"}')),
    ],
    "arguments that its end has not": [
        {**ADDED, "item": _item("safe", '{"c": "danger"}')},
        _ended(_item("safe", '{"c": "ls"}')),
    ],
    "an item done twice": [
        {**DONE, "item": _item("safe", '{"c": "danger"}')},
        {**DONE, "item": _item("safe", '{"c": "ls"}')},
        _ended(_item("safe", '{"c": "ls"}')),
    ],
    "a command told beside its item": [
        {"type": "response.output_item.added", "output_index": 0, "item": SHELL},
        {"type": "response.shell_call_command.done", "output_index": 0, "command": "danger"},
        {"type": "response.output_item.done", "output_index": 0, "item": SHELL},
        _ended(SHELL),
    ],
    "a call that says it runs at the provider": [
        {"type": "response.output_text.delta", "item_id": "m", "delta": "a"}
        | {"output_index": 0, "content_index": 0, "logprobs": []},
        {**DONE, "item": {**_item("danger"), "execution": "server"}},
        _ended(),
    ],
    "another name when done": [{**ADDED, "item": _item("safe", "")}, ARGS, _ended(_item("safe"))],
}


class TestOddStreams:
    """Streams that consumers could read in another way than a rule."""

    def said(self, monkeypatch: Any, model: Double, path: str, events: Any) -> None:
        usual, usual_events = model_double._FORMS[path]

        def whole(words: str, *more: Any) -> Any:
            return words if words == "odd" else usual(words, *more)

        def told(made: Any) -> Any:
            return events if made == "odd" else usual_events(made)

        monkeypatch.setitem(model_double._FORMS, path, (whole, told))
        model.steps = ["odd", "done"]

    def chunks(self, model: Double) -> list[Any]:
        with client_of(model) as client:
            ask = client.chat.completions.create
            messages: Any = [{"role": "user", "content": "begin"}]
            return list(ask(model="small", messages=messages, tools=CHAT_TOOLS, stream=True))

    def events(self, model: Double) -> list[Any]:
        with client_of(model) as client:
            ask = client.responses.create
            return list(ask(model="small", input="begin", tools=RESPONSE_TOOLS, stream=True))

    @pytest.mark.parametrize("name", ODD_CHATS)
    def test_a_denied_call_is_not_shown_in_chunks(self, name, model, monkeypatch):
        self.said(monkeypatch, model, "/chat/completions", [*ODD_CHATS[name], _chunk({}, "stop")])
        otelhooks.instrument(policies=DENY)
        shown = [
            piece.function.name
            for chunk in self.chunks(model)
            for choice in chunk.choices
            for piece in (choice.delta and choice.delta.tool_calls) or ()
        ]
        assert "danger" not in shown

    @pytest.mark.parametrize("name", ODD_ARGUMENTS)
    def test_a_loop_that_adds_to_the_last_call_gets_what_was_judged(self, name, model, monkeypatch):
        told = [*ODD_ARGUMENTS[name], _chunk({}, "tool_calls")]
        self.said(monkeypatch, model, "/chat/completions", told)
        otelhooks.instrument(policies=[policy.deny("run", when=lambda args: args["c"] == "rm")])
        calls: list[list[str]] = []
        with contextlib.suppress(ValueError):
            for chunk in self.chunks(model):
                for piece in chunk.choices[0].delta.tool_calls or ():
                    if piece.function.name:
                        calls.append([piece.function.name, ""])
                    calls[-1][1] += piece.function.arguments or ""

        assert "rm" not in dict(calls).get("run", "")

    @pytest.mark.parametrize("name", [name for name in ODD_CHATS if "message" in name])
    def test_nor_in_any_other_field_of_chunks(self, name, model, monkeypatch):
        self.said(monkeypatch, model, "/chat/completions", [*ODD_CHATS[name], _chunk({}, "stop")])
        otelhooks.instrument(policies=DENY)
        assert "danger" not in json.dumps([chunk.to_dict() for chunk in self.chunks(model)])

    @pytest.mark.parametrize("name", ["no index", "a message"])
    def test_without_rules_each_call_is_shown_once(self, name, model, monkeypatch):
        self.said(monkeypatch, model, "/chat/completions", [*ODD_CHATS[name], _chunk({}, "stop")])
        otelhooks.instrument()
        assert json.dumps([each.to_dict() for each in self.chunks(model)]).count("danger") == 1

    def test_without_rules_a_chunk_that_says_two_things_passes(self, model, monkeypatch):
        both = _messaged(delta={"content": "a"}, message=MESSAGE)
        self.said(monkeypatch, model, "/chat/completions", [both, _chunk({}, "stop")])
        otelhooks.instrument()
        assert len(self.chunks(model)) == 2

    def test_a_chunk_that_says_two_things_ends_the_stream(self, model, monkeypatch):
        both = _messaged(delta={"content": "a"}, message=MESSAGE)
        self.said(monkeypatch, model, "/chat/completions", [both, _chunk({}, "stop")])
        otelhooks.instrument(policies=DENY)
        with pytest.raises(ValueError, match="`delta` and `message`"):
            self.chunks(model)

    def test_blocks_of_every_chunk_are_in_the_answer(self, model, monkeypatch):
        block = {"type": "text", "text": "a secret"}
        told = [_chunk({"content": [block]}), _chunk({"content": [{**block, "text": " too"}]})]
        self.said(
            *(monkeypatch, model, "/chat/completions"),
            [_chunk({"content": "This is "}), *told, _chunk({}, "stop")],
        )
        seen: list[str] = []

        @hooks.post_model_call_transform
        def mask(data):
            seen.append(data.text)
            return "clean"

        otelhooks.instrument(hooks=[mask])
        shown = json.dumps([chunk.to_dict() for chunk in self.chunks(model)])
        assert seen == ["This is a secret too"]
        assert "secret" not in shown
        assert "clean" in shown

    @pytest.mark.parametrize("end", [[], ["clear"]])
    def test_a_text_that_its_end_has_not_is_not_shown(self, end, model, monkeypatch):
        part = {"type": "output_text", "text": "clear", "annotations": []}
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
        place = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
        delta = {"type": "response.output_text.delta", **place, "delta": "a secret"}
        self.said(
            monkeypatch,
            model,
            "/responses",
            [delta, _ended(*({**message, "content": [part]} for _ in end))],
        )

        @hooks.post_model_call_transform
        def mask(data):
            return data.model_copy(update={"text": "[x]"}) if "secret" in data.text else None

        otelhooks.instrument(hooks=[mask])
        assert "secret" not in json.dumps([event.to_dict() for event in self.events(model)])

    def test_what_stays_beside_a_denied_call_is_told_once(self, model, monkeypatch):
        """To loops that keep a call's first piece, and add to its arguments."""
        pieces = [_piece("c1", "safe", '{"k": 1}'), _piece("c2", "danger", index=1)]
        told = [*map(_delta, pieces), _chunk({}, "tool_calls")]
        self.said(monkeypatch, model, "/chat/completions", told)
        otelhooks.instrument(policies=DENY)
        found = [
            piece.function.arguments
            for chunk in self.chunks(model)
            for piece in chunk.choices[0].delta.tool_calls or ()
        ]
        assert found == ["", '{"k": 1}']

    def test_an_old_function_call_is_told_with_the_changed_text(self, model, monkeypatch):
        call = {"name": "safe", "arguments": "{}"}
        told = [_chunk({"content": "a secret"}), _chunk({"function_call": call})]
        self.said(monkeypatch, model, "/chat/completions", [*told, _chunk({}, "function_call")])

        @hooks.post_model_call_transform
        def mask(data):
            return data.model_copy(update={"text": "clean"})

        otelhooks.instrument(hooks=[mask])
        deltas = [chunk.choices[0].delta for chunk in self.chunks(model)]
        assert "".join(delta.content or "" for delta in deltas) == "clean"
        assert [one.function_call.to_dict() for one in deltas if one.function_call] == [call]

    @pytest.mark.parametrize("name", ODD_RESPONSES)
    def test_a_denied_call_is_not_shown_in_events(self, name, model, monkeypatch):
        self.said(monkeypatch, model, "/responses", ODD_RESPONSES[name])
        otelhooks.instrument(policies=DENY)
        if name == "a command told beside its item":  # old clients cannot dump one
            pytest.importorskip("openai.types.responses.response_function_shell_tool_call")
        shown = self.events(model)
        assert "danger" not in json.dumps([event.to_dict() for event in shown])

    def test_a_stream_that_ends_twice_shows_neither(self, model, monkeypatch):
        first = {**_ended(_item("danger")), "type": "response.incomplete"}
        self.said(monkeypatch, model, "/responses", [first, _ended(_item("safe"))])
        otelhooks.instrument(policies=DENY)
        with pytest.raises(ValueError, match="ended twice"):
            self.events(model)

    def test_what_was_judged_is_shown(self, model, monkeypatch):
        self.said(
            monkeypatch,
            model,
            "/chat/completions",
            [
                _delta(_piece("c1", "safe", '{"x": ')),
                _delta(_piece("c1", "safe", "1}")),
                _delta(_piece("c2", "safe", '{"x": 2}')),
                _chunk({}, "tool_calls"),
            ],
        )
        otelhooks.instrument(policies=DENY)
        message = joined(self.chunks(model))
        assert [one["id"] for one in message["tool_calls"]] == ["c1", "c2"]
        assert [one["function"] for one in message["tool_calls"]] == [
            {"name": "safe", "arguments": '{"x": 1}'},
            {"name": "safe", "arguments": '{"x": 2}'},
        ]

    def test_events_without_ids_of_items_are_shown_as_they_are(self, model, monkeypatch):
        item = {**_item("safe"), "id": None}
        told = [
            {**ADDED, "item": {**item, "arguments": ""}},
            {**PIECE, "item_id": "c1", "output_index": 0},
            {**ARGS, "item_id": "c1", "name": "safe"},
            {**DONE, "item": item},
        ]
        self.said(monkeypatch, model, "/responses", [*told, _ended(item)])
        otelhooks.instrument(policies=DENY)
        assert len(self.events(model)) == len(told) + 1

    @pytest.mark.parametrize("place", [{}, {"item_id": "g", "output_index": 0}])
    def test_other_pieces_than_the_arguments_that_were_judged_are_not_shown(
        self, place, model, monkeypatch
    ):
        item = _item("danger", '{"path": "/tmp"}')
        pieces = {**PIECE, **place, "delta": '{"path": "/"}'}
        told = [{**ADDED, "item": _item("danger", "")}, pieces, {**DONE, "item": item}]
        self.said(monkeypatch, model, "/responses", [*told, _ended(item)])
        otelhooks.instrument(
            policies=[policy.deny("danger", when=lambda args: args["path"] == "/")]
        )
        shown = json.dumps([event.to_dict() for event in self.events(model)])
        assert "/tmp" in shown
        assert '\\"/\\"' not in shown


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "tool_calls": [_piece("c1", "danger")]},
        {"role": "assistant", "choices": [], "tool_calls": [_piece("c1", "danger")]},
        {"role": "assistant"}
        | {"tool_calls": [{**_piece("c1", "danger"), "custom": {"name": "safe", "input": ""}}]},
    ],
)
def test_an_odd_answer_shows_no_denied_call(message, model, monkeypatch):
    usual = model_double._chat

    def whole(words: str, calls: Any, number: int) -> Any:
        made = usual(words, calls, number)
        if words == "odd":
            made["choices"][0]["message"] = message
        return made

    monkeypatch.setitem(
        model_double._FORMS, "/chat/completions", (whole, model_double._chat_events)
    )
    model.steps = ["odd", "done"]
    otelhooks.instrument(policies=DENY)
    shown = ""
    with client_of(model) as client, contextlib.suppress(ValueError):
        messages: Any = [{"role": "user", "content": "begin"}]
        answer = client.chat.completions.create(model="small", messages=messages, tools=CHAT_TOOLS)
        shown = answer.to_json()
    assert "danger" not in shown


@pytest.mark.parametrize("more", [{"output": []}, {"execution": "server"}])
@pytest.mark.parametrize("stream", [False, True])
def test_an_item_with_the_field_of_another_kind_is_judged(more, stream, model):
    model.steps = [[{**_item("danger"), **more}], "done"]
    otelhooks.instrument(policies=DENY)
    with client_of(model) as client:
        ask: Any = client.responses.create
        made = ask(model="small", input="begin", tools=RESPONSE_TOOLS, stream=stream)
        shown = [each.to_json() for each in (made if stream else [made])]
    assert "danger" not in "".join(shown)


@pytest.mark.parametrize("path", ["responses", "/responses", "/v1/responses"])
def test_a_path_is_read_as_the_client_reads_it(path, model):
    model.steps = [[DANGER], "done"]
    otelhooks.instrument(policies=DENY)
    base = model.url if path.startswith("/v1") else f"{model.url}/v1"
    with openai.OpenAI(base_url=base, api_key="k", max_retries=0) as client:
        body = {"model": "small", "input": "begin", "tools": RESPONSE_TOOLS}
        answer = client.post(path, cast_to=openai.types.responses.Response, body=body)
    assert "danger" not in answer.to_json()


@pytest.mark.parametrize(
    "path",
    ["/responses;x", "/responses/;x", "/%72esponses", "/Responses", "/responses/."],
)
def test_a_path_that_servers_read_as_another_is_judged(path, model, monkeypatch):
    monkeypatch.setitem(model_double._FORMS, path, model_double._FORMS["/responses"])
    model.steps = [[DANGER], "done"]
    otelhooks.instrument(policies=DENY)
    with client_of(model) as client:
        body = {"model": "small", "input": "begin", "tools": RESPONSE_TOOLS}
        answer = client.post(path, cast_to=openai.types.responses.Response, body=body)
    assert answer.output
    assert "danger" not in answer.to_json()


@pytest.mark.parametrize("kind", [tuple, iter])
def test_a_denied_result_in_any_iterable_is_refused_under_strict(kind, model):
    model.steps = [[DANGER], "no", "done"]
    otelhooks.instrument(policies=DENY, strict=True)
    call = {"type": "function_call", "call_id": "call_d", "name": "danger", "arguments": "{}"}
    call["arguments"] = json.dumps(DANGER[2])
    result = {"type": "function_call_output", "call_id": "call_d", "output": "gone"}
    with client_of(model) as client:
        ask: Any = client.responses.create
        ask(model="small", input="begin", tools=RESPONSE_TOOLS)
        with pytest.raises(errors.Denied, match="The result of `danger` was not sent"):
            ask(model="small", input=kind([call, result]))


ODD_ANSWERS = {
    "usage": {"usage": [1]},
    "a choice": {"choices": [None]},
    "a call": {"choices": [{"index": 0, "message": {"tool_calls": [None]}}]},
    "content": {"choices": [{"index": 0, "message": {"content": ["hi"]}}]},
}


@pytest.mark.parametrize("odd", ODD_ANSWERS.values(), ids=ODD_ANSWERS)
@pytest.mark.parametrize(
    "settings",
    [{}, {"policies": DENY}, {"hooks": [hooks.post_model_call_transform(lambda data: "clean")]}],
    ids=["nothing", "a rule", "a hook"],
)
def test_an_answer_that_cannot_be_read_passes_if_nothing_could_deny(
    odd, settings, model, monkeypatch
):
    whole, events = model_double._FORMS["/chat/completions"]
    monkeypatch.setitem(
        model_double._FORMS, "/chat/completions", (lambda *given: whole(*given) | odd, events)
    )
    model.steps = ["hi"]
    otelhooks.instrument(**settings)
    with client_of(model) as client:
        ask: Any = client.chat.completions.create
        if settings:
            with pytest.raises(AttributeError):
                ask(model="small", messages=[])
        else:
            assert ask(model="small", messages=[]).id


def test_a_raw_body_that_is_not_json_is_refused_if_a_rule_could_deny(model, monkeypatch):
    """Such as a stream that `extra_body` asked for."""
    body = {"stream": True}
    for policies, is_refused in (([], False), (DENY, True)):
        model.steps = [[DANGER], "done"]
        otelhooks.instrument(policies=policies)
        with client_of(model) as client:
            ask: Any = client.chat.completions.with_raw_response.create
            given: Any = {"model": "small", "messages": [], "extra_body": body}
            if is_refused:
                with pytest.raises(ValueError, match="Expecting value"):
                    ask(**given)
            else:
                assert "danger" in ask(**given).text
        otelhooks.uninstrument()


def test_a_response_of_any_type_is_judged(model, monkeypatch):
    monkeypatch.setitem(
        model_double._FORMS,
        "/responses",
        (
            lambda *given: {**model_double._response(*given), "type": "response"},
            model_double._response_events,
        ),
    )
    model.steps = [[DANGER], "done"]
    otelhooks.instrument(policies=DENY)
    with client_of(model) as client:
        answer = client.responses.create(model="small", input="begin", tools=RESPONSE_TOOLS)
    assert "danger" not in answer.to_json()


def test_the_proof_holds():
    from otelhooks.frameworks.openai.scripted import prove

    otelhooks.instrument()
    proof = prove()
    assert proof.proved, proof


class TestUnknownVersion:
    @pytest.fixture(autouse=True)
    def unknown(self, monkeypatch) -> None:
        from otelhooks.patching import packages, versions

        real = versions.installed

        def installed(distributions: Any, module: str) -> Any:
            return ("openai", "9.9") if module == "openai" else real(distributions, module)

        for place in (versions, packages):
            if hasattr(place, "installed"):
                monkeypatch.setattr(place, "installed", installed)
        otelhooks.instrument(policies=DENY)

    def ask(self, model: Double, **given: Any) -> Any:
        with client_of(model) as client:
            return client.chat.completions.create(model="small", messages=[], **given)

    @pytest.mark.parametrize("stream", [False, True])
    def test_requests_of_a_loop_are_refused(self, model, stream):
        with pytest.raises(errors.SeatError):
            self.ask(model, stream=stream)
        assert model.requests == []

    @pytest.mark.parametrize("stream", [False, True])
    def test_those_of_a_guarded_framework_are_sent(self, model, stream):
        model.steps = ["done"]
        otelhooks.model_call(model="m")(lambda messages: self.ask(model, stream=stream))([])
        assert len(model.requests) == 1

    def test_asynchronous_ones_as_well(self, model):
        model.steps = ["done"]

        @otelhooks.model_call(model="m")
        async def ask(messages: Any) -> Any:
            async with aclient_of(model) as client:
                return await client.chat.completions.create(model="small", messages=[])

        assert asyncio.run(ask([])).choices[0].message.content == "done"

    def test_other_requests_are_sent(self, model):
        model.steps = ["done"]
        with client_of(model) as client:
            client.post("/embeddings", body={"input": "x"}, cast_to=str)
        assert len(model.requests) == 1

    def test_forms_that_nothing_reads_are_refused(self, model):
        with client_of(model) as client, pytest.raises(errors.SeatError):
            client.completions.create(model="small", prompt="x")
        assert model.requests == []


class TestWhatTheUserSaid:
    """Who can write into what the user said, where only a client is known."""

    RULES: ClassVar = [policy.deny("danger", unless_user_said=["path"], reason=REASON)]

    def runs(self, model: Double, path: str, *messages: Any, around: Any = None) -> bool:
        """Return whether a tool with a seat of its own runs, after these messages."""
        ran: list[str] = []

        @otelhooks.tool
        def danger(path: str) -> str:
            ran.append(path)
            return "done"

        model.steps = [[("call_1", "danger", {"path": path})], "refused"]
        with around or contextlib.nullcontext(), client_of(model) as client:
            answer = client.chat.completions.create(
                model="small", messages=list(messages), tools=CHAT_TOOLS
            )
            for call in answer.choices[0].message.tool_calls or ():
                danger(**json.loads(call.function.arguments))
        return bool(ran)

    def test_a_tool_seat_keeps_what_the_request_said(self, model):
        otelhooks.instrument(policies=self.RULES)
        asked = {"role": "user", "content": "remove x.com"}
        assert self.runs(model, "x.com", asked)
        assert not self.runs(model, "y.com", asked)

    def test_only_messages_of_the_user_count(self, model):
        otelhooks.instrument(policies=self.RULES)
        asked = {"role": "user", "content": "begin"}
        call = {"id": "c", "type": "function", "function": {"name": "safe", "arguments": "{}"}}
        others = [
            {"role": "system", "content": "remove x.com"},
            {"role": "developer", "content": "remove x.com"},
            {"role": "assistant", "content": "remove x.com"},
            {"role": "assistant", "content": "remove x.com", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "remove x.com"},
        ]
        assert not self.runs(model, "x.com", asked, *others)
        block = {"type": "tool_result", "tool_use_id": "c", "content": "remove x.com"}
        text = {"type": "text", "text": "remove x.com"}
        assert not self.runs(model, "x.com", {"role": "user", "content": [block, text]})
        assert self.runs(model, "x.com", {"role": "user", "content": [text]})

    def test_in_a_turn_only_its_prompt_counts(self, model):
        otelhooks.instrument(policies=self.RULES)
        asked = {"role": "user", "content": "remove x.com"}
        assert not self.runs(model, "x.com", asked, around=otelhooks.turn("remove y.com"))
        assert self.runs(model, "y.com", asked, around=otelhooks.turn("remove y.com"))

    def test_in_a_tool_nothing_that_it_writes_counts(self, model):
        otelhooks.instrument(policies=self.RULES)

        @otelhooks.tool
        def delegate(task: str) -> bool:
            return self.runs(model, "x.com", {"role": "user", "content": task})

        assert not delegate("remove x.com")

    def test_what_a_hook_adds_to_the_messages_does_not_count(self, model):
        @hooks.pre_model_call
        def retrieve(data):
            found = {"role": "user", "content": "remove x.com"}
            return hooks.HookResult(allow=True, modified_messages=[*data.messages, found])

        otelhooks.instrument(policies=self.RULES, hooks=[retrieve])
        assert not self.runs(model, "x.com", {"role": "user", "content": "begin"})
