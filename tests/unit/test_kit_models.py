"""The kit's model calls and questions: refusals, messages of several parts, answers of hooks."""

from __future__ import annotations

import json
import sys
import types as python_types
from types import SimpleNamespace
from typing import Any

import pytest

import otelhooks
from otelhooks import errors, hooks, types
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.mcp.questions import Question
from otelhooks.patching import patches, versions
from otelhooks.records import semconv


def text(words: str) -> Any:
    return SimpleNamespace(sort="text", content=words)


def picture() -> Any:
    return SimpleNamespace(sort="picture", content=b"")


def message(role: str, *parts: Any) -> Any:
    return SimpleNamespace(role=role, parts=list(parts))


class Chat(kit.ModelCall):
    framework = "fake"
    table = kit.PartTable(
        made={"text": lambda part: text(part.text)}, kind="sort", text=("text",), between="\n"
    )

    def read(self, owner: Any, messages: Any) -> None:
        self.messages = messages

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.natives())

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        return message("model", *parts)

    def role(self, part: kit.Part, message: Any) -> str:
        return message.role

    def parts(self, message: Any) -> Any:
        for part in super().parts(message):
            yield part if part.kind == "text" else part._replace(args={"type": "picture"})


class Typed(Chat):
    is_typed = True


class Rejecting(Chat):
    def denied(self, reason: str) -> Any:
        return f"rejected: {reason}"


class Ask(Question):
    framework = "fake"

    def read(self, owner: Any, question: str) -> None:
        self.question = question

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.question)

    def spec(self) -> Any:
        entry = types.AskQuestionEntry(question=self.question, options=[])
        return types.AskQuestionInteractionSpec(questions=[entry])

    def answered(self, answer: Any) -> Any:
        if not isinstance(answer, str):
            raise ValueError("not a text")
        return f"hook: {answer}"

    def declined(self) -> Any:
        return "declined"


class TextPart(SimpleNamespace):
    pass


class CallPart(SimpleNamespace):
    pass


def test_the_names_of_classes_tell_parts_apart() -> None:
    table = kit.PartTable(
        made={},
        kind="__class__",
        text=("TextPart",),
        call=("CallPart",),
        roles={"TextPart": "user"},
    )
    words, call = TextPart(content="hello"), CallPart(name="safe", id="1", args={"x": 1})
    assert table.read(words) == kit.Part("text", words, "hello")
    assert table.read(call) == kit.Part("call", call, "", "safe", "1", {"x": 1})
    assert table.read(SimpleNamespace(content="")).kind == "other"

    class ByClass(Chat):
        role = kit.ModelCall.role

    ByClass.table = table
    roles = [ByClass().role(table.read(one), None) for one in (words, call)]
    assert roles == ["user", "assistant"]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, governed: Any) -> Any:
    """Install an adapter of a fake framework; returns its module."""
    module: Any = python_types.ModuleType("fake")
    module.chat = lambda messages: message("model", text("one"), picture(), text("two"))
    module.ask = lambda question: f"user: {question}"
    monkeypatch.setitem(sys.modules, "fake", module)
    monkeypatch.setattr(versions, "installed", lambda names, module: (names[0], "1.0"))

    def install(*seats: Any, **settings: Any) -> Any:
        governed(**settings)
        package = kit.Package("fake", ">=1", module="fake")
        patches.install(kit.Adapter("fake", package, seats=seats), strict=True)
        return module

    yield install
    patches.uninstall("fake")
    otelhooks.uninstrument()


@hooks.pre_model_call
def refuse(call: types.ModelCall) -> types.HookResult:
    return types.HookResult(allow=False, message="no models")


def shown(answer: Any) -> list[Any]:
    return [part.content for part in answer.parts]


def test_a_refused_model_call_answers_with_the_reason(fake) -> None:
    module = fake(kit.seat("fake:chat", Chat), hooks=[refuse])
    assert shown(module.chat([message("user", text("hello"))])) == ["no models"]


def test_a_part_is_made_of_a_class_that_takes_its_fields_by_name() -> None:
    fields, made = ("content", "tool", "key", "given"), "types:SimpleNamespace"
    table = kit.PartTable(made={"text": made, "call": made}, fields=fields)
    assert table.make(kit.Part("text", text="hello")) == SimpleNamespace(content="hello")
    call = kit.Part("call", name="safe", id="c1", args={"x": 1})
    assert table.make(call) == SimpleNamespace(tool="safe", key="c1", given={"x": 1})
    assert table.make(call._replace(id="")) == SimpleNamespace(tool="safe", given={"x": 1})


def test_a_refused_model_call_raises_where_no_text_can_be_its_answer(fake) -> None:
    module = fake(kit.seat("fake:chat", Typed), hooks=[refuse])
    with pytest.raises(errors.Denied, match="no models"):
        module.chat([message("user", text("hello"))])


def test_a_refused_model_call_answers_in_a_form_of_its_own(fake) -> None:
    module = fake(kit.seat("fake:chat", Rejecting), hooks=[refuse])
    assert module.chat([message("user", text("hello"))]) == "rejected: no models"


def test_texts_of_an_answer_are_joined_as_the_framework_joins_them(fake) -> None:
    seen: list[str] = []

    @hooks.post_model_call
    def look(response: types.ModelResponse) -> None:
        seen.append(response.text)

    module = fake(kit.seat("fake:chat", Chat), hooks=[look])
    module.chat([message("user", text("hello"))])
    assert seen == ["one\ntwo"]


def test_a_framework_may_name_a_provider_its_own_way(fake, exporter) -> None:
    class Named(Chat):
        def read(self, owner: Any, messages: Any) -> None:
            super().read(owner, messages)
            self.provider = messages[0].parts[0].content

    module, names = fake(kit.seat("fake:chat", Named)), ("bedrock_converse", "vertex_ai", "acme")
    for name in names:
        module.chat([message("user", text(name))])
    found = [one.attributes["gen_ai.provider.name"] for one in exporter.get_finished_spans()]
    assert found == ["aws.bedrock", "gcp.vertex_ai", "acme"]


def test_an_answer_that_is_not_described_by_a_tuple_is_an_error_that_names_the_class(fake) -> None:
    class Described(Chat):
        def about(self, raw: Any) -> Any:
            return {"input_tokens": 7, "output_tokens": 3}

    module = fake(kit.seat("fake:chat", Described))
    with pytest.raises(TypeError, match=r"test_kit_models.py:\d+: class `Described`: `about` ret"):
        module.chat([message("user", text("hello"))])


def test_parts_of_one_role_are_one_message_in_captured_content(fake, exporter) -> None:
    module = fake(kit.seat("fake:chat", Chat), capture_content="SPAN_ONLY")
    module.chat([message("user", text("look"), picture()), message("model", text("a cat"))])
    [span] = exporter.get_finished_spans()
    assert json.loads(span.attributes[semconv.GEN_AI_INPUT_MESSAGES]) == [
        {"role": "user", "parts": [{"type": "text", "content": "look"}, {"type": "picture"}]},
        {"role": "model", "parts": [{"type": "text", "content": "a cat"}]},
    ]


@pytest.mark.parametrize(
    ("given", "answer"),
    [(None, "user: Sure?"), ("yes", "hook: yes"), (1, "declined")],
    ids=["no answer", "answered", "does not fit"],
)
def test_a_question_is_answered_by_hooks_or_by_the_application(fake, given, answer) -> None:
    asked: list[str] = []

    @hooks.on_interaction
    def reply(spec: types.AskQuestionInteractionSpec) -> Any:
        asked.extend(entry.question for entry in spec.questions)
        return given

    module = fake(kit.seat("fake:ask", Ask), hooks=[reply])
    assert module.ask("Sure?") == answer
    assert asked == ["Sure?"]


def test_a_question_that_cannot_be_declined_is_refused_when_its_seat_is_written() -> None:
    declined = {"declined": Question.declined}
    with pytest.raises(errors.ConfigError, match="does not define `declined`"):
        kit.seat("fake:ask", type("Mute", (Ask,), declined))


def test_messages_are_left_to_an_adapter_whose_table_makes_none() -> None:
    chat = Chat()
    chat.messages = [message("user", text("hello")), {"role": "user", "content": "by a hook"}]
    assert chat.natives() == chat.messages
    assert chat.natives() is not chat.messages
