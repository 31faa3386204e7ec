"""The adapter of docs/writing-an-adapter.md against the framework that it is for."""

from __future__ import annotations

import re
import sys
import types as python_types
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.passages import Passage
from otelhooks.patching import patches, versions
from otelhooks.records import semconv

PAGE = Path(__file__).parents[2] / "docs" / "writing-an-adapter.md"


class ToolError(Exception):
    pass


class Tool:
    description = "Does it."

    def __init__(self, name: str, ran: list[Any]) -> None:
        self.name, self.ran = name, ran

    def invoke(self, call_id: str, x: int, state: Any = None) -> str:
        self.ran.append((self.name, x, state))
        return str(x)


def Part(type: str, text: str = "", name: str = "", id: str = "", args: Any = None) -> Any:
    return SimpleNamespace(type=type, text=text, name=name, id=id, args=args)


class Message:
    def __init__(self, role: str, parts: list[Any]) -> None:
        self.role, self.parts = role, parts


class Model:
    name = "shop-1"

    repeats_ids = False

    def __init__(self) -> None:
        self.asked: list[list[Message]] = []

    def generate(self, messages: list[Message], tools: Any = ()) -> Message:
        self.asked.append(messages)
        if len(self.asked) > 1 and not (self.repeats_ids and len(self.asked) == 2):
            return Message("assistant", [Part("text", text=f"done: {messages[-1].parts[0].text}")])
        if self.repeats_ids:
            tools = [tools[len(self.asked) - 1]]
        asks = [
            Part("tool_call", name=tool.name, id=f"c{n}", args={"x": 1})
            for n, tool in enumerate(tools)
        ]
        return Message("assistant", asks)


class Result:
    def __init__(self, text: str) -> None:
        self.text = text


class Agent:
    name = "seller"

    def __init__(self, model: Model, *tools: Tool) -> None:
        self.model, self.tools = model, {tool.name: tool for tool in tools}

    def run(self, prompt: str, **options: Any) -> Result:
        messages = [Message("user", [Part("text", text=prompt)])]
        while True:
            answer = self.model.generate(messages, list(self.tools.values()))
            messages = [*messages, answer]
            asked = [part for part in answer.parts if part.type == "tool_call"]
            if not asked:
                return Result(answer.parts[0].text)
            for part in asked:
                try:
                    said = self.tools[part.name].invoke(part.id, **part.args, state="of the shop")
                except sys.modules["shop.tools"].ToolError as error:  # type: ignore[attr-defined]
                    said = str(error)
                result = Part("tool_result", text=said, id=part.id)
                messages = [*messages, Message("tool", [result])]


MODULES = {"tools": (Tool, ToolError), "models": (Model, Message, Part), "agents": (Agent, Result)}


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, governed: Any) -> Iterator[Any]:
    """Install the page's adapter; gives a function that instruments and runs an agent."""
    for name, members in {"": (), **MODULES}.items():
        module = python_types.ModuleType(f"shop.{name}".rstrip("."))
        for member in members:
            each: Any = member
            if isinstance(member, type):
                each = type(member.__name__, (member,), {"__module__": module.__name__})
                for method in ("invoke", "generate", "run"):
                    if method in vars(member):
                        setattr(each, method, vars(member)[method])
            setattr(module, member.__name__, each)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(versions, "installed", lambda names, module: (names[0], "3.1"))
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), names)

    def run(*tools: str, **settings: Any) -> Any:
        governed(**settings)
        patches.install(names["ADAPTER"], strict=True)
        found = SimpleNamespace(ran=[], model=sys.modules["shop.models"].Model())  # type: ignore[attr-defined]
        made = [sys.modules["shop.tools"].Tool(tool, found.ran) for tool in tools]  # type: ignore[attr-defined]
        agent = sys.modules["shop.agents"].Agent(found.model, *made)  # type: ignore[attr-defined]
        found.answer = agent.run("sell it", conversation="7").text
        return found

    yield run
    patches.uninstall("shop")
    otelhooks.uninstrument()


def test_a_denied_tool_does_not_run_and_the_model_is_told(shop) -> None:
    found = shop("danger", policies=[policy.deny("danger", reason="Not that.")])
    assert found.ran == []
    assert found.answer == "done: Not that."


def test_a_call_is_one_tree_of_spans_with_all_that_was_read(shop, governed, caplog) -> None:
    found = shop("safe", policies=[policy.deny("danger")])
    assert found.ran == [("safe", 1, "of the shop")]
    names = [span.name for span in governed.spans]
    assert names == ["chat shop-1", "execute_tool safe", "chat shop-1", "invoke_agent seller"]
    assert len({span.context.trace_id for span in governed.spans}) == 1
    run = governed.span("invoke_agent seller")
    assert run.attributes[semconv.GEN_AI_CONVERSATION_ID] == "7"
    assert semconv.GEN_AI_USAGE_INPUT_TOKENS in governed.spans[0].attributes
    assert "coverage gap" not in caplog.text


def test_ids_that_begin_again_in_each_answer_make_no_gap(shop, monkeypatch, caplog) -> None:
    monkeypatch.setattr(Model, "repeats_ids", True)
    found = shop("one", "two", policies=[policy.deny("danger")])
    assert [name for name, *_ in found.ran] == ["one", "two"]
    assert "coverage gap" not in caplog.text


def test_hooks_refuse_rewrite_and_answer_model_calls(shop) -> None:
    @hooks.pre_model_call
    def add(call: types.ModelCall) -> types.HookResult:
        added = {"role": "system", "content": "be kind"}
        return types.HookResult(modified_messages=[*call.messages, added])

    found = shop("safe", hooks=[add])
    assert found.model.asked[0][-1].role == "system"
    assert found.model.asked[0][-1].parts[0].text == "be kind"


def test_a_refused_model_call_and_a_refused_run_answer_with_the_reason(shop) -> None:
    @hooks.pre_model_call
    def no_models(call: types.ModelCall) -> types.HookResult:
        return types.HookResult(allow=False, message="no models")

    @hooks.pre_turn
    def closed(prompt: Any) -> types.HookResult:
        return types.HookResult(allow=False, message="closed")

    assert shop(hooks=[no_models]).answer == "no models"
    patches.uninstall("shop")
    otelhooks.uninstrument()
    found = shop(hooks=[closed])
    assert (found.answer, found.model.asked) == ("closed", [])


def test_hooks_see_and_change_the_answer_of_a_run(shop) -> None:
    @hooks.post_turn
    def look(answer: Any) -> None:
        seen.append(answer)

    seen: list[Any] = []
    shop("safe", hooks=[look])
    assert seen == ["done: 1"]


@pytest.mark.parametrize("passage", [Passage, kit.ToolCall, kit.ModelCall, kit.Run])
def test_every_name_that_a_class_may_define_is_on_the_page(passage: type[Passage]) -> None:
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", PAGE.read_text()))))
    assert set(passage.words.split()) - named - {"of", "framework"} == set()


def test_at_most_fifteen_words_make_a_usual_adapter() -> None:
    section = PAGE.read_text().partition("## Words")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert len(rows) <= 15
