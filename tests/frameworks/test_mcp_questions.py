"""MCP: what a server asks of its client."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pydantic
import pytest

pytest.importorskip("mcp")

from mcp import types as wire

from otelhooks import hooks, policy, types
from otelhooks.frameworks.mcp.questions import Elicitation
from otelhooks.records import semconv
from tests.frameworks.mcp_fixtures import on  # noqa: F401  # fixtures
from tests.frameworks.mcp_world import (
    IS_2,
    VERSION,
    call_ask,
    make_named,
    no_tools,
    spans_of,
    text_of,
)

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning")


def make_asking(answers: list[Any]) -> Any:
    """Return a server whose tool asks the user, and notes the answer."""
    if IS_2:
        from mcp.server.mcpserver import Context
    else:
        from mcp.server.fastmcp import Context

    class Form(pydantic.BaseModel):
        sure: bool
        count: int = 1

    async def ask(ctx: Context) -> str:  # type: ignore[valid-type]
        """Ask."""
        answer = await ctx.elicit("Are you sure?", Form)
        answers.append(answer)
        return answer.action

    ask.__annotations__["ctx"] = Context
    return make_named(ask, "ask")


class TestElicitation:
    """A server asks the user: hooks answer, else the application does."""

    def test_a_hook_answers_for_the_user(self, on, exporter, log_exporter):
        answers: list[Any] = []
        questions: list[str] = []

        @hooks.on_interaction
        def answer(spec: types.AskQuestionInteractionSpec) -> types.QuestionHookResult:
            questions.extend(entry.question for entry in spec.questions)
            sure = types.QuestionResponse(selected_option_ids=["true"])
            count = types.QuestionResponse(freeform_response="3")
            return types.QuestionHookResult(responses=[sure, count])

        async def callback(context: Any, params: Any) -> Any:
            raise AssertionError("the application is not asked")

        server = make_asking(answers)
        on(hooks=[answer])
        assert call_ask(server, elicitation_callback=callback) == "accept"
        assert answers[0].data.sure is True
        assert answers[0].data.count == 3
        assert [text.partition("?")[0] for text in questions] == ["Are you sure", "Are you sure"]
        events = [r.log_record for r in log_exporter.get_finished_logs()]
        (event,) = [e for e in events if e.event_name == semconv.EVENT_INTERACTION]
        assert event.trace_id in {span.context.trace_id for span in spans_of(exporter)}

    def test_without_an_answer_the_application_is_asked(self, on):
        answers: list[Any] = []

        @hooks.on_interaction
        def nothing(spec: Any) -> None:
            return None

        async def callback(context: Any, params: Any) -> Any:
            return wire.ElicitResult(action="accept", content={"sure": False, "count": 2})

        server = make_asking(answers)
        on(hooks=[nothing])
        assert call_ask(server, elicitation_callback=callback) == "accept"
        assert answers[0].data.count == 2

    @pytest.mark.parametrize(
        "result",
        [
            ValueError("the answerer is down"),
            "yes",
            types.QuestionHookResult(responses=[]),
            types.QuestionHookResult(
                responses=[
                    types.QuestionResponse(freeform_response="perhaps"),
                    types.QuestionResponse(skipped=True),
                ]
            ),
            types.QuestionHookResult(
                responses=[types.QuestionResponse(skipped=True) for _ in range(2)]
            ),
        ],
        ids=["raises", "no answer", "too few", "not of the type", "required one skipped"],
    )
    def test_a_hook_that_fails_declines(self, on, result, caplog):
        @hooks.on_interaction
        def answer(spec: Any) -> Any:
            if isinstance(result, Exception):
                raise result
            return result

        async def callback(context: Any, params: Any) -> Any:
            raise AssertionError("the application is not asked")

        server = make_asking([])
        on(hooks=[answer])
        assert call_ask(server, elicitation_callback=callback) == "decline"

    def test_a_hook_can_cancel(self, on):
        @hooks.on_interaction
        def answer(spec: Any) -> Any:
            return types.QuestionHookResult(responses=[], cancelled=True)

        async def callback(context: Any, params: Any) -> Any:
            raise AssertionError("the application is not asked")

        on(hooks=[answer])
        assert call_ask(make_asking([]), elicitation_callback=callback) == "cancel"

    @pytest.mark.skipif(not IS_2, reason="rounds came with 2.x")
    def test_rounds_are_judged_each_on_one_span(self, on, exporter):
        """The server's answer "I need input" ends a request, and not the call."""
        from mcp import Client
        from mcp.server.lowlevel import Server

        judged: list[dict[str, Any]] = []
        decided: list[str] = []
        ran: list[Any] = []

        async def on_call(context: Any, params: Any) -> Any:
            ran.append(params.arguments)
            if params.request_state is None:
                ask = wire.ElicitRequest(
                    params=wire.ElicitRequestFormParams(
                        message="Sure?", requested_schema={"type": "object", "properties": {}}
                    )
                )
                return wire.InputRequiredResult(input_requests={"q": ask}, request_state="s")
            return wire.CallToolResult(content=[wire.TextContent(type="text", text="done")])

        @hooks.pre_tool_call_decide
        def decide(call: types.ToolCall) -> types.HookResult:
            decided.append(call.name)
            return types.HookResult()

        def seen(args: dict[str, Any]) -> bool:
            judged.append(args)
            return False

        async def callback(context: Any, params: Any) -> Any:
            return wire.ElicitResult(action="accept", content={})

        server = Server("x", on_call_tool=on_call, on_list_tools=no_tools)
        on(policy.deny("*/t", when=seen), hooks=[decide])

        async def run() -> str:
            async with Client(server, elicitation_callback=callback) as client:
                return text_of(await client.call_tool("t", {"x": 1}))

        assert anyio.run(run) == "done"
        assert ran == [{"x": 1}, {"x": 1}]
        assert decided == ["t"]
        assert judged == [{"x": 1}, {"x": 1}]
        assert [span.name for span in spans_of(exporter)] == ["execute_tool t"]

        forged: list[Any] = []

        async def forge() -> None:
            async with Client(server) as client:
                forged.append(await client.session.call_tool("t", {"x": 2}, request_state="s"))

        anyio.run(forge)
        assert decided == ["t", "t"]


def make_sampling(said: list[Any]) -> Any:
    """Return a server whose tool asks the client for a model call."""
    if IS_2:
        from mcp.server.mcpserver import Context
    else:
        from mcp.server.fastmcp import Context

    async def ask(ctx: Context) -> str:  # type: ignore[valid-type]
        """Ask."""
        message = wire.SamplingMessage(
            role="user", content=wire.TextContent(type="text", text="say hello")
        )
        try:
            answer = await ctx.session.create_message([message], max_tokens=7)
        except Exception as error:
            said.append(error)
            return f"refused: {error}"
        said.append(answer)
        return answer.content.text

    ask.__annotations__["ctx"] = Context
    return make_named(ask, "ask")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*deprecated.*")
class TestSampling:
    """A model call that a server asks its client for."""

    async def model(self, context: Any, params: Any) -> Any:
        self.asked = params
        return wire.CreateMessageResult(
            role="assistant",
            content=wire.TextContent(type="text", text="hello"),
            model="scripted",
        )

    def test_a_model_call_is_a_span_below_the_tool(self, on, exporter):
        on(policy.deny("something_else"))
        assert call_ask(make_sampling([]), sampling_callback=self.model) == "hello"
        chat, tool = (span for span in spans_of(exporter) if span.name.split()[0] != "tools/call")
        assert chat.name == "chat"
        assert chat.attributes[semconv.GEN_AI_RESPONSE_MODEL] == "scripted"
        assert chat.attributes[semconv.MCP_METHOD_NAME] == "sampling/createMessage"
        assert chat.parent.span_id == tool.context.span_id

    def test_a_denied_model_call_is_not_made(self, on):
        @hooks.pre_model_call
        def refuse(call: types.ModelCall) -> types.HookResult:
            return types.HookResult(allow=False, message="no models for servers")

        said: list[Any] = []
        self.asked = None
        on(hooks=[refuse])
        text = call_ask(make_sampling(said), sampling_callback=self.model)
        assert "no models for servers" in text
        assert self.asked is None

    def test_messages_and_answer_can_be_rewritten(self, on):
        @hooks.pre_model_call
        def rewrite(call: types.ModelCall) -> types.HookResult:
            changed = call.messages[0].model_copy(
                update={"content": wire.TextContent(type="text", text="be kind")}
            )
            return types.HookResult(modified_messages=[changed])

        @hooks.post_model_call_transform
        def shout(response: types.ModelResponse) -> Any:
            return response.text.upper()

        on(hooks=[rewrite, shout])
        assert call_ask(make_sampling([]), sampling_callback=self.model) == "HELLO"
        assert self.asked.messages[0].content.text == "be kind"

    def test_a_message_that_a_hook_adds_reaches_the_model_in_the_packages_form(self, on):
        @hooks.pre_model_call
        def add(call: types.ModelCall) -> types.HookResult:
            added = [{"role": "assistant", "content": "hm"}, {"role": "user", "content": "be kind"}]
            return types.HookResult(modified_messages=[*call.messages, *added])

        on(hooks=[add])
        assert call_ask(make_sampling([]), sampling_callback=self.model) == "hello"
        said = [(message.role, message.content.text) for message in self.asked.messages]
        assert said == [("user", "say hello"), ("assistant", "hm"), ("user", "be kind")]

    @pytest.mark.skipif(not IS_2, reason="the only place to ask with tools and without a server")
    def test_a_rewritten_answer_keeps_the_calls_of_the_servers_tools(self, on):
        from mcp import Client

        asked_for = wire.ToolUseContent(type="tool_use", id="1", name="look", input={"x": 1})

        async def model(context: Any, params: Any) -> Any:
            return wire.CreateMessageResultWithTools(
                role="assistant",
                content=[wire.TextContent(type="text", text="hello"), asked_for],
                model="scripted",
                stop_reason="toolUse",
            )

        @hooks.post_model_call_transform
        def shout(response: types.ModelResponse) -> Any:
            return response.text.upper()

        async def run() -> Any:
            async with Client(make_sampling([]), sampling_callback=model) as client:
                message = wire.SamplingMessage(
                    role="user", content=wire.TextContent(type="text", text="look")
                )
                request = wire.CreateMessageRequest(
                    params=wire.CreateMessageRequestParams(messages=[message], max_tokens=7)
                )
                context: Any = SimpleNamespace(meta=None)
                return await client.session.dispatch_input_request(context, request)

        on(hooks=[shout])
        answer = anyio.run(run)
        text, call = answer.content
        assert (text.text, call, answer.stop_reason) == ("HELLO", asked_for, "toolUse")

    def test_an_error_of_the_client_goes_to_the_server_as_it_was(self, on, exporter):
        async def broken(context: Any, params: Any) -> Any:
            return wire.ErrorData(code=-32000, message="the model is gone")

        said: list[Any] = []
        on(policy.deny("something_else"))
        assert "the model is gone" in call_ask(make_sampling(said), sampling_callback=broken)
        assert said[0].error.code == -32000
        chat = next(span for span in spans_of(exporter) if span.name == "chat")
        assert chat.status.status_code.name == "ERROR"


def form(**fields: Any) -> Elicitation:
    schema = {"type": "object", "properties": fields}
    return question_of(SimpleNamespace(message="Which?", requested_schema=schema))


def question_of(params: Any) -> Elicitation:
    question = Elicitation()
    question.of(params)
    return question


class TestForms:
    """Answers put into a form; the kit reads the form."""

    @pytest.mark.skipif(VERSION < (1, 23), reason="an answer was no list in this version")
    def test_answers_get_the_types_of_the_form(self):
        shapes = {
            "many": {"type": "array", "items": {"enum": ["d", "e"]}},
            "share": {"type": "number"},
            "text": {"type": "string"},
        }
        answers = [
            types.QuestionResponse(selected_option_ids=["d", "e"]),
            types.QuestionResponse(freeform_response="0.5"),
            types.QuestionResponse(freeform_response="hello"),
        ]
        found = form(**shapes).answered(types.QuestionHookResult(responses=answers))
        assert found.action == "accept"
        assert found.content == {"many": ["d", "e"], "share": 0.5, "text": "hello"}

    def test_a_form_can_be_filled_in_by_a_dict_or_the_packages_own_result(self):
        assert form(a={"type": "string"}).answered({"a": "b"}).content == {"a": "b"}
        own = wire.ElicitResult(action="cancel")
        assert form().answered(own) is own

    @pytest.mark.parametrize(("chosen", "action"), [("accept", "accept"), ("decline", "decline")])
    def test_an_address_is_accepted_or_not(self, chosen, action):
        params = SimpleNamespace(message="Log in", url="https://example.com")
        question = question_of(params)
        assert question.spec().questions[0].question == "Log in (https://example.com)"
        answer = types.QuestionResponse(selected_option_ids=[chosen])
        result = question.answered(types.QuestionHookResult(responses=[answer]))
        assert result.action == action
