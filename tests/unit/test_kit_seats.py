"""The kit's seats beside methods: fields of instances, functions that look on, built-in tools."""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import types as python_types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import otelhooks
from otelhooks import errors, hooks, policy, types
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import json_text
from otelhooks.frameworks.kit.adapter import NotCovered
from otelhooks.patching import patches, versions

REASON = "Not that."


@dataclass
class Tool:
    """A tool that keeps its function in a field."""

    name: str
    invoke: Callable[..., Any]
    editor: Any = None


class Editor:
    def write(self, text: str) -> str:
        return f"wrote {text}"

    def look(self) -> str:
        return "looked"


class Invoked(kit.ToolCall):
    framework = "fake"
    text_name = "input"

    def read(self, tool: Any, text: Any) -> None:
        self.name = tool.name
        self.take(text)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args)

    def denied(self, reason: str) -> Any:
        return f"denied: {reason}"


class Formless(Invoked):
    def denied(self, reason: str) -> Any:
        raise self.exception(reason)


def later(text: Any) -> Any:
    async def run() -> Any:
        return f"got {text}"

    return run()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install an adapter of a fake framework; returns its module."""
    module: Any = python_types.ModuleType("fake")
    module.Tool = type("Tool", (Tool,), {"__module__": "fake", "__qualname__": "Tool"})
    module.format = lambda text: f"formatted {text}"
    module.enter = lambda: "entered"
    monkeypatch.setitem(sys.modules, "fake", module)
    monkeypatch.setattr(versions, "installed", lambda names, module: (names[0], "1.0"))

    def install(*seats: Any, supported: str = ">=1", **settings: Any) -> Any:
        package = kit.Package("fake", supported, module="fake")
        otelhooks.instrument(frameworks=[], **settings)
        patches.install(kit.Adapter("fake", package, seats=seats), strict=True)
        return module

    yield install
    patches.uninstall("fake")
    otelhooks.uninstrument()


def field(passage: Any = Invoked, name: str = "invoke", **settings: Any) -> Any:
    return kit.seat(f"fake:Tool.{name}", passage, **{"kind": "either", "field": True, **settings})


@pytest.mark.parametrize("function", [later, lambda text: f"got {text}"])
def test_a_function_in_a_field_may_be_plain_or_a_coroutine_function(fake, function) -> None:
    module = fake(field(), policies=[policy.deny("danger", reason=REASON)])
    assert asyncio.run(module.Tool("safe", function).invoke("{}")) == "got {}"
    assert asyncio.run(module.Tool("danger", function).invoke("{}")) == f"denied: {REASON}"


def test_a_function_in_a_field_is_read_by_position_however_it_is_called(fake) -> None:
    module = fake(field(), policies=[policy.deny("safe", when=lambda args: args["x"] == 1)])
    tool = module.Tool("safe", lambda own_name: f"got {own_name}")
    assert asyncio.run(tool.invoke(own_name='{"x": 2}')) == 'got {"x": 2}'
    assert "denied" in asyncio.run(tool.invoke(own_name='{"x": 1}'))
    with pytest.raises(TypeError):
        tool.invoke(another="{}")
    with pytest.raises(TypeError, match="takes 1 arguments by position here, not 0"):
        tool.invoke()


def test_methods_of_an_object_in_a_field_are_guarded_and_others_are_not(fake) -> None:
    module = fake(field(name="editor", field=("write",)), policies=[policy.deny("danger")])
    editor = module.Tool("danger", print, Editor()).editor
    assert "denied" in asyncio.run(editor.write("x"))
    assert editor.look() == "looked"


def test_a_seat_without_a_form_for_refusals_raises_denied_or_why_the_version_is_refused(fake):
    module = fake(field(Formless), policies=[policy.deny("danger", reason=REASON)])
    with pytest.raises(errors.Denied, match=REASON):
        asyncio.run(module.Tool("danger", print).invoke("{}"))
    patches.uninstall("fake")
    otelhooks.uninstrument()
    module = fake(field(Formless), supported=">=2", policies=[policy.deny("danger")])
    with pytest.raises(errors.SeatError, match=r"1\.0"):
        asyncio.run(module.Tool("safe", print).invoke("{}"))


# -- listening --------------------------------------------------------------------------------


def test_a_function_that_listens_may_change_what_the_frameworks_gives(fake) -> None:
    module = fake(kit.listen("fake:format", lambda wrapped, owner, text: wrapped(text).upper()))
    assert module.format("x") == "FORMATTED X"
    patches.uninstall("fake")
    assert module.format("x") == "formatted x"


def test_a_function_that_listens_has_the_parameters_of_the_frameworks(fake, caplog) -> None:
    """Else each call would fail, or pass unseen, only once it is made."""

    def hear(wrapped: Any, owner: Any, words: str) -> Any:
        return wrapped(words)

    module = fake(kit.listen("fake:format", hear), kit.listen("fake:enter", entry=True))
    assert "`hear` names `words`, which the function does not have" in caplog.text
    with pytest.raises(errors.SeatError):
        module.enter()


@pytest.mark.parametrize("function", [None, lambda wrapped, owner: "heard"])
def test_a_refused_package_raises_where_a_function_listens(fake, function) -> None:
    module = fake(kit.listen("fake:enter", function, entry=True), supported=">=2")
    with pytest.raises(errors.SeatError):
        module.enter()


def test_a_function_that_listens_knows_the_call_that_runs(fake) -> None:
    heard: list[Any] = []

    def hear(wrapped: Any, owner: Any, text: str) -> Any:
        heard.append(kit.ToolCall.current())
        return wrapped(text)

    module = fake(field(), kit.listen("fake:format", hear))
    tool = module.Tool("safe", lambda text: module.format(text))
    module.format("x")
    assert asyncio.run(tool.invoke("{}")) == "formatted {}"
    assert [getattr(call, "name", None) for call in heard] == [None, "safe"]


# -- arguments as text --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, {}),
        ("", {}),
        ('{"x": 1}', {"x": 1}),
        (' {"x": 1} ', {"x": 1}),
        (b'{"x": 1}', {"x": 1}),
        ("[1]", {"input": "[1]"}),
        ("no json", {"input": "no json"}),
        ("[" * 100_000, {"input": "[" * 100_000}),
        ('{"x": ' + "9" * 5000 + "}", {"x": float("inf")}),
    ],
)
def test_a_text_is_shown_as_arguments_and_given_on_as_it_is(text: Any, shown: Any) -> None:
    assert json_text.read(text, "input") == shown
    assert json_text.write(text, "input", shown, is_changed=False) == text


@pytest.mark.parametrize(
    ("text", "args", "written"),
    [
        ('{"x": 1}', {"x": 2}, '{"x": 2}'),
        ("no json", {"input": "else"}, "else"),
        ("no json", {"x": 1}, '{"x": 1}'),
        ("", {"input": "new"}, '{"input": "new"}'),
        ('{"input": "old"}', {"input": "new"}, '{"input": "new"}'),
    ],
)
def test_what_hooks_wrote_is_given_on_in_the_form_of_the_text(
    text: str, args: Any, written: str
) -> None:
    assert json_text.write(text, "input", args, is_changed=True) == written


def test_a_hook_rewrites_the_arguments_in_a_text(fake) -> None:
    @hooks.pre_tool_call_decide
    def change(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"x": 2})

    module = fake(field(), hooks=[change])
    tool = module.Tool("safe", lambda text: text)
    assert asyncio.run(tool.invoke('{"x": 1}')) == '{"x": 2}'


# -- built-in tools -------------------------------------------------------------------------------


class Shell:
    name = "shell"


class Search:
    name = "search"


class Bound:
    def run(self, text: str) -> str:
        return text


def runs_code(text: str) -> str:
    return text


def test_one_target_or_place_may_mean_several() -> None:
    several = kit.seat("fake:(|Old)Tool.(run|arun)", Invoked, overrides=True)
    part = NotCovered("old ones", "none", module="fake", seats=(kit.listen("fake:(a|b)"),))
    package = kit.Package("fake", ">=1", module="fake")
    made = kit.Adapter("fake", package, seats=(several,), gaps=(part,))
    names = [f"fake.{tool}.{name}" for tool in ("Tool", "OldTool") for name in ("run", "arun")]
    table: Any = made.packages[0].seats
    assert [(one.name, one.overrides) for one in table] == [(name, True) for name in names]
    assert [one.name for one in made.not_covered[0].seats] == ["fake.a", "fake.b"]
    assert list(kit.BuiltIns({"fake:(a|b)": ("both",)}, {})) == ["fake:a", "fake:b"]


def test_built_in_tools_are_known_by_class_or_function() -> None:
    table = kit.BuiltIns(
        here={
            f"{__name__}:Shell": ("shell", ("run_command",), "shell"),
            f"{__name__}:runs_code": ("code",),
        },
        hosted={f"{__name__}:Search": ("search", ("search_web",), "net")},
    )
    shell, search = table.of(Shell()), table.of(Search())
    assert shell is not None
    assert search is not None
    assert (shell.canonical, shell.kind, shell.is_hosted) == (("run_command",), "shell", False)
    assert search.is_hosted
    assert table.of(Tool("own", runs_code), runs_code) == ("code", (), None, False, "")
    assert table.of(Tool("own", print), print) is None
    assert table.of(Tool("own", print)) is None
    assert table.of(Tool, None, runs_code) == table.of(Tool("own", print), runs_code)
    assert table.of(Shell) == shell


def known(table: kit.BuiltIns, tool: Any, *functions: Any) -> str | None:
    found = table.of(tool, *functions)
    return None if found is None else found.name


def a_table() -> kit.BuiltIns:
    here = {f"{__name__}:Shell": ("shell",), f"{__name__}:runs_code": ("code",)}
    return kit.BuiltIns(here=here, hosted={})


def test_what_is_known_of_a_tool_does_not_hold_for_it_with_another_function() -> None:
    table, tool = a_table(), Tool("own", print)

    def own(text: str) -> str:
        return text

    for _ in range(2):
        assert known(table, tool, own) is None
        assert known(table, tool, runs_code) == "code"


def test_what_is_known_of_a_function_does_not_hold_for_another_tool_that_runs_it() -> None:
    table = a_table()
    for _ in range(2):
        assert known(table, Tool("own", runs_code), runs_code) == "code"
        assert known(table, Shell(), runs_code) == "shell"


def test_what_is_known_of_a_function_does_not_hold_for_the_next_one_in_its_memory() -> None:
    table, tool = a_table(), Tool("own", print)
    for _ in range(50):
        assert known(table, tool, functools.partial(runs_code)) == "code"
        assert known(table, tool, functools.partial(print)) is None


def test_what_is_known_of_a_function_does_not_hold_for_it_with_another_one() -> None:
    table, tool = a_table(), Tool("own", print)

    def own(text: str) -> str:
        return text

    assert known(table, tool, own) is None
    assert known(table, tool, own, runs_code) == "code"


def test_an_object_that_runs_a_tool_is_looked_at_each_time() -> None:
    """Unlike a function's, what it runs may change."""

    class Runner:
        __wrapped__: Any = print

        def __call__(self, text: str) -> str:
            return text

    table, runner = a_table(), Runner()
    assert known(table, Tool("own", runner), runner) is None
    runner.__wrapped__ = runs_code
    assert known(table, Tool("own", runner), runner) == "code"


def test_a_table_keeps_no_function_alive() -> None:
    table = a_table()

    def own(text: str) -> str:
        return text

    alive = weakref.ref(own)
    known(table, Tool("own", own), own)
    known(table, Tool("own", own), own)
    del own
    gc.collect()
    assert alive() is None


def test_the_parts_of_functions_that_are_built_in_tell_whose_they_are() -> None:
    table = kit.BuiltIns(here={f"{__name__}:Bound": ("bound",)}, hosted={})
    bound = Bound()
    known, holder = next(table.parts(print, functools.partial(bound.run)))
    assert known.name == "bound"
    assert holder is bound
