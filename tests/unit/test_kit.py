"""The kit: every kind of function, arguments of every form, and adapters that are wrong."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import types as python_types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import otelhooks
from otelhooks import errors, hooks, policy, types
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.objects.functions import kind_of
from otelhooks.frameworks.kit.passages import Guarded
from otelhooks.patching.adapters import Adapter
from otelhooks.patching.seats import PASS, REFUSE, Switch
from otelhooks.records import semconv

DENY = policy.deny("danger", reason="Not that.")


class Tool(kit.ToolCall):
    """A tool of the fake framework: an object with a name."""

    framework = "fake"

    def read(self, tool: Any, /, x: Any, **further: Any) -> Any:
        self.name = tool.name
        self.take({"x": x, **further}, hidden=("state",))

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args.pop("x"), **args)

    def denied(self, reason: str) -> Any:
        return f"denied: {reason}"


class StreamedTool(Tool):
    def whole(self, seen: Any) -> Any:
        return "".join(seen) if isinstance(seen, list) else seen.text

    def told(self, result: Any) -> Any:
        return [result]


class Framework:
    """The content of a module of the fake framework."""

    def __init__(self, name: str = "safe") -> None:
        self.name = name
        self.ran: list[Any] = []

    def plain(self, x: Any, state: Any = None, **more: Any) -> Any:
        self.ran.append(x)
        return f"got {x}"

    async def coroutine(self, x: Any) -> Any:
        self.ran.append(x)
        return f"got {x}"

    def generator(self, x: Any) -> Iterator[str]:
        self.ran.append(x)
        yield "got "
        yield str(x)

    async def async_generator(self, x: Any) -> Any:
        self.ran.append(x)
        yield "got "
        yield str(x)

    @contextlib.asynccontextmanager
    async def context(self, x: Any) -> Any:
        self.ran.append(x)
        yield Stream(f"got {x}")

    def hides_a_coroutine(self, x: Any) -> Any:
        return self.coroutine(x)


class Stream:
    def __init__(self, text: str) -> None:
        self.text = text

    async def __aiter__(self) -> Any:
        yield self.text


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda framework, x: framework.plain(x),
    "coroutine": lambda framework, x: asyncio.run(framework.coroutine(x)),
    "generator": lambda framework, x: "".join(framework.generator(x)),
    "async generator": lambda framework, x: asyncio.run(_joined(framework.async_generator(x))),
    "async context": lambda framework, x: asyncio.run(_entered(framework.context(x))),
}
METHODS = dict(
    zip(CALLS, ("plain", "coroutine", "generator", "async_generator", "context"), strict=True)
)


async def _joined(items: Any) -> str:
    return "".join([item async for item in items])


async def _entered(opened: Any) -> Any:
    async with opened as stream:
        return stream.text if isinstance(stream, Stream) else stream[0]


@pytest.fixture
def framework(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a fresh class of the fake framework, in a module of its own."""
    module: Any = python_types.ModuleType("fake")
    module.Framework = type("Framework", (), {**vars(Framework), "__module__": "fake"})
    monkeypatch.setitem(sys.modules, "fake", module)
    return module.Framework


@contextlib.contextmanager
def guarded(framework: Any, method: str, passage: Any, *rules: Any, **settings: Any) -> Any:
    """Guard one method, and instrument."""
    kind = settings.pop("kind", "")
    switch = Switch(lambda: errors.SeatError("fake", "fake", "1", "none", "gone"))
    switch.mode = settings.pop("mode", 1)
    function = vars(framework)[method]
    guard = Guarded(passage, f"fake:Framework.{method}", kind)
    assert guard.problem(function) == ""
    wrapper = guard.bind(function, switch)

    def method_of(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return wrapper(function.__get__(self), self, args, kwargs)

    setattr(framework, method, method_of)
    otelhooks.instrument(policies=rules, frameworks=[], **settings)
    try:
        yield
    finally:
        otelhooks.uninstrument()


# -- kinds of functions -----------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "method"), METHODS.items())
def test_the_kind_of_a_function_is_found_out(kind: str, method: str) -> None:
    assert kind_of(vars(Framework)[method]) == kind
    assert kind_of(getattr(Framework(), method)) == kind


@pytest.mark.parametrize("kind", CALLS)
def test_an_allowed_call_runs_once_with_its_result(framework: Any, kind: str) -> None:
    made = framework("safe")
    with guarded(framework, METHODS[kind], StreamedTool, DENY):
        assert CALLS[kind](made, 1) == "got 1"
    assert made.ran == [1]


def other_names(self: Any, /, y: Any, **more: Any) -> Any:
    return f"got {y}"


@pytest.mark.parametrize("function", [None, other_names])
@pytest.mark.parametrize("name", ["tool", "self", "passage", "owner"])
def test_an_argument_may_have_a_name_that_we_use(framework: Any, function: Any, name: str) -> None:
    framework.plain = function or (lambda self, /, x, **more: f"got {x}")
    given = {"y" if function else "x": 1, name: "red"}
    red = policy.deny("danger", reason="Not that.", when=lambda args: args[name] == "red")
    with guarded(framework, "plain", Tool, red):
        assert framework("safe").plain(**given) == "got 1"
        assert framework("danger").plain(**given) == "denied: Not that."


@pytest.mark.parametrize("kind", CALLS)
def test_a_denied_call_does_not_run_and_is_answered(framework: Any, kind: str) -> None:
    made = framework("danger")
    with guarded(framework, METHODS[kind], StreamedTool, DENY):
        assert CALLS[kind](made, 1) == "denied: Not that."
    assert made.ran == []


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_runs_with_rewritten_arguments(framework: Any, kind: str) -> None:
    @hooks.pre_tool_call_decide
    def rewrite(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"x": 2})

    made = framework("safe")
    with guarded(framework, METHODS[kind], StreamedTool, hooks=[rewrite]):
        assert CALLS[kind](made, 1) == "got 2"
    assert made.ran == [2]


@pytest.mark.parametrize("kind", CALLS)
def test_without_a_runtime_everything_runs_as_it_is(framework: Any, kind: str) -> None:
    made = framework("danger")
    with guarded(framework, METHODS[kind], StreamedTool, DENY):
        otelhooks.uninstrument()
        assert CALLS[kind](made, 1) == "got 1"


def test_a_switch_that_is_off_lets_everything_through(framework: Any) -> None:
    made = framework("danger")
    with guarded(framework, "plain", Tool, DENY, mode=PASS):
        assert made.plain(1) == "got 1"


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_refused_package_is_answered_in_its_own_form(framework: Any, kind: str) -> None:
    made = framework("safe")
    with guarded(framework, METHODS[kind], Tool, mode=REFUSE):
        assert CALLS[kind](made, 1).startswith("denied: fake is not guarded")
    assert made.ran == []


@pytest.mark.parametrize("kind", ["generator", "async generator", "async context"])
def test_a_refused_stream_raises(framework: Any, kind: str) -> None:
    made = framework("safe")
    with guarded(framework, METHODS[kind], StreamedTool, mode=REFUSE):
        with pytest.raises(errors.SeatError):
            CALLS[kind](made, 1)
    assert made.ran == []


def test_a_passage_can_be_left_to_the_framework(framework: Any) -> None:
    class Skipping(Tool):
        def read(self, tool: Any, x: Any) -> Any:
            return kit.SKIP

    made = framework("danger")
    with guarded(framework, "plain", Skipping, DENY):
        assert made.plain(1) == "got 1"


# -- arguments --------------------------------------------------------------------------------


class Thing:
    def __init__(self, size: int) -> None:
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing) and other.size == self.size

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture
def seen() -> tuple[list[dict[str, Any]], Any]:
    found: list[dict[str, Any]] = []

    @hooks.pre_tool_call_decide
    def look(call: types.ToolCall) -> types.HookResult:
        found.append(call.args)
        return types.HookResult()

    return found, look


def test_objects_are_shown_as_plain_data_and_given_back_as_they_are(
    framework: Any, seen: Any
) -> None:
    import datetime

    day = datetime.date(2026, 1, 2)
    made = framework()
    with guarded(framework, "plain", Tool, hooks=[seen[1]]):
        made.plain({"day": day})
    assert seen[0] == [{"x": {"day": "2026-01-02"}}]
    assert made.ran[0]["day"] is day


def test_objects_that_a_hook_changed_are_validated_again(framework: Any) -> None:
    class Validating(Tool):
        def read(self, tool: Any, x: Any) -> Any:
            super().read(tool, x)
            self.validate = lambda args: {"x": Thing(args["x"])}

    @hooks.pre_tool_call_decide
    def rewrite(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"x": 7})

    made = framework()
    with guarded(framework, "plain", Validating, hooks=[rewrite]):
        made.plain(Thing(1))
    assert made.ran == [Thing(7)]


def test_hidden_arguments_are_given_on_and_not_shown(framework: Any, seen: Any) -> None:
    made = framework()
    with guarded(framework, "plain", Tool, hooks=[seen[1]]):
        made.plain(1, state="secret")
    assert seen[0] == [{"x": 1}]


@pytest.mark.parametrize(
    ("text", "shown", "given"),
    [
        ('{"x": 1}', {"x": 1}, '{"x": 1}'),
        ("", {}, ""),
        ("no json", {"arguments": "no json"}, "no json"),
    ],
)
def test_json_text_is_shown_as_arguments_and_given_back_as_text(
    framework: Any, seen: Any, text: str, shown: Any, given: str
) -> None:
    class Text(Tool):
        def read(self, tool: Any, x: Any) -> Any:
            self.name = tool.name
            self.take(x)

        def call(self, wrapped: Any, args: Any) -> Any:
            return wrapped(args)

    made = framework()
    with guarded(framework, "plain", Text, hooks=[seen[1]]):
        made.plain(text)
    assert (seen[0], made.ran) == ([shown], [given])


# -- failures ---------------------------------------------------------------------------------


@hooks.on_tool_error
def reword(error: Exception) -> Any:
    return types.HookResult(allow=False, message="Try later.")


class ReportingTool(Tool):
    def error(self, raw: Any) -> Any:
        return "gone" if raw == "got gone" else None


class TellingTool(Tool):
    tells_failures = True


def _raises(self: Any, x: Any) -> Any:
    raise ValueError(x)


@pytest.mark.parametrize(
    ("tool", "raises"), [(ReportingTool, False), (TellingTool, True)], ids=["reported", "raised"]
)
def test_another_text_of_a_failure_is_told_like_a_denial(
    framework: Any, tool: type[Tool], raises: bool
) -> None:
    if raises:
        framework.plain = _raises
    with guarded(framework, "plain", tool, hooks=[reword]):
        assert CALLS["plain"](framework(), "gone") == "denied: Try later."


@pytest.mark.parametrize("tool", [Tool, ReportingTool])
def test_another_text_of_a_failure_that_was_raised_is_raised(
    framework: Any, tool: type[Tool]
) -> None:
    framework.plain = _raises
    with guarded(framework, "plain", tool, hooks=[reword]):
        with pytest.raises(RuntimeError, match=r"Try later\."):
            CALLS["plain"](framework(), "gone")


# -- streams ----------------------------------------------------------------------------------


@hooks.post_tool_call_transform
def redact(result: types.ToolResult) -> Any:
    return "[redacted]"


@hooks.on_tool_error
def recover(error: Exception) -> Any:
    return "yesterday's"


def test_a_stream_in_a_context_is_held_back_for_a_transform(framework: Any) -> None:
    made = framework()
    with guarded(framework, "context", StreamedTool, hooks=[redact]):
        assert CALLS["async context"](made, 1) == "[redacted]"


def test_a_stream_in_a_context_that_fails_raises_the_very_failure(framework: Any) -> None:
    framework.context = contextlib.asynccontextmanager(_failing)
    with guarded(framework, "context", StreamedTool, DENY):
        with pytest.raises(ValueError, match="gone"):
            CALLS["async context"](framework(), 1)


def test_a_held_stream_that_fails_is_recovered(framework: Any) -> None:
    framework.context = contextlib.asynccontextmanager(_failing)
    with guarded(framework, "context", StreamedTool, hooks=[redact, recover]):
        assert CALLS["async context"](framework(), 1) in ("yesterday's", "[redacted]")


async def _failing(self: Any, x: Any) -> Any:
    raise ValueError("gone")
    yield


def test_the_context_that_a_framework_sets_stays_while_its_stream_is_open(framework: Any) -> None:
    from opentelemetry import context as otel_context

    async def setting(self: Any, x: Any) -> Any:
        token = otel_context.attach(otel_context.set_value("theirs", x))
        try:
            yield Stream("got")
        finally:
            otel_context.detach(token)

    async def look(made: Any) -> Any:
        async with made.context(5):
            inside = otel_context.get_value("theirs")
        return inside, otel_context.get_value("theirs")

    framework.context = contextlib.asynccontextmanager(setting)
    with guarded(framework, "context", StreamedTool, DENY):
        assert asyncio.run(look(framework())) == (5, None)


def test_a_stream_in_a_context_that_is_left_early_ends_its_span(
    framework: Any, exporter: Any, tracer_provider: Any
) -> None:
    async def leave(made: Any) -> None:
        opened = made.context(1)
        await opened.__aenter__()
        await opened.gen.aclose()

    with guarded(framework, "context", StreamedTool, DENY, tracer_provider=tracer_provider):
        asyncio.run(leave(framework()))
    (span,) = exporter.get_finished_spans()
    assert span.status.is_ok


# -- adapters that are wrong ------------------------------------------------------------------


class Forgets(kit.ToolCall):
    framework = "fake"

    def read(self, tool: Any, x: Any) -> Any: ...

    def call(self, wrapped: Any, args: Any) -> Any: ...


class Unnamed(kit.ToolCall):
    def read(self, tool: Any, x: Any) -> Any: ...

    def call(self, wrapped: Any, args: Any) -> Any: ...

    def denied(self, reason: str) -> Any: ...


class Awaited(Tool):
    async def denied(self, reason: str) -> Any: ...


class Silent(kit.Run):
    framework = "fake"

    def read(self, agent: Any) -> Any: ...

    def call(self, wrapped: Any) -> Any: ...


@pytest.mark.parametrize(
    ("passage", "problem", "remedy"),
    [
        (Forgets, "it does not define `denied`", "return, or raise, what tells"),
        (Unnamed, "it does not name its framework", "write `framework = ...`"),
        (Awaited, "`denied` is a coroutine function", "make it a plain one"),
        (Silent, "it does not define `answer_of`", "define it"),
    ],
)
def test_a_class_that_cannot_be_right_is_refused_where_its_seat_is_written(
    passage: Any, problem: str, remedy: str
) -> None:
    with pytest.raises(errors.ConfigError) as raised:
        kit.seat("fake:Framework.plain", passage)
    text = str(raised.value)
    assert "test_kit.py:" in text
    assert f"class `{passage.__name__}`, for `fake:Framework.plain`: {problem}" in text
    assert remedy in raised.value.hint


@pytest.mark.parametrize("wrong", [Tool(), "Tool", object])
def test_a_seat_wants_a_class_of_the_kit(wrong: Any) -> None:
    with pytest.raises(errors.ConfigError, match=r"not a class of `kit\.ToolCall`"):
        kit.seat("fake:Framework.plain", wrong)


@pytest.mark.parametrize("target", ["fake", "fake:", ":plain", "fake.Framework.plain"])
def test_a_seat_wants_module_and_name(target: str) -> None:
    with pytest.raises(errors.ConfigError, match="does not name a function"):
        kit.seat(target, Tool)


def test_a_seat_wants_a_kind_that_there_is() -> None:
    with pytest.raises(errors.ConfigError, match="`fast` is not a kind of function"):
        kit.seat("fake:Framework.plain", Tool, kind="fast")


class Strange(Tool):
    def read(self, tool: Any, colour: Any, **further: Any) -> Any: ...


class Mixing(Tool):
    def read(self, tool: Any, x: Any, **further: Any) -> Any: ...


class Narrow(Tool):
    def read(self, tool: Any) -> Any: ...


@pytest.mark.parametrize(
    ("passage", "method", "kind", "problem"),
    [
        (Strange, "coroutine", "", "`read` names `colour`, which the function does not have"),
        (
            Mixing,
            "plain",
            "",
            "`read` lacks `/` behind `tool`: the function takes arguments of any",
        ),
        (Narrow, "coroutine", "", "`read` does not take `x`, which the function demands"),
        (
            Tool,
            "generator",
            "",
            "the function is of kind generator, and it does not define `whole`",
        ),
        (Tool, "context", "", "it does not define `whole`"),
        (StreamedTool, "coroutine", "async generator", "written for a function of kind async gen"),
    ],
)
def test_a_class_that_does_not_fit_the_function_refuses_the_package(
    framework: Any, passage: Any, method: str, kind: str, problem: str
) -> None:
    seat = kit.seat(f"fake:Framework.{method}", passage, kind=kind)
    row = install(seat)
    assert row.state == "refused"
    assert problem in row.error
    assert "test_kit.py:" in row.error
    assert "hint: " in row.error


def test_a_target_that_is_gone_refuses_the_package(framework: Any) -> None:
    row = install(kit.seat("fake:Framework.gone", Tool), kit.seat("fake:Framework.plain", Tool))
    assert (row.state, "seat `fake.Framework.gone` is missing" in row.error) == ("refused", True)


def install(*seats: Any) -> Any:
    """Install an adapter of these seats, strictly; return its row of the coverage."""
    from otelhooks.patching import patches, versions

    adapter: Adapter = kit.Adapter("fake", kit.Package("fake", ">=1", module="fake"), seats=seats)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "installed", lambda names, module: ("fake", "1.0"))
        try:
            return patches.install(adapter, strict=True).coverage()[0]
        finally:
            patches.uninstall("fake")


class Raises(Tool):
    def read(self, tool: Any, x: Any) -> Any:
        raise KeyError("secret")


class GivesBack(Tool):
    def read(self, tool: Any, x: Any) -> Any:
        return {"x": x}


class Nameless(Tool):
    def read(self, tool: Any, x: Any) -> Any:
        self.take({"x": x})


class OddlyNamed(Nameless):
    def read(self, tool: Any, x: Any) -> Any:
        super().read(tool, x)
        self.name = 7


@pytest.mark.parametrize("passage", [Raises, GivesBack, Nameless, OddlyNamed])
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_call_that_cannot_be_read_is_denied(
    framework: Any, passage: Any, kind: str, exporter: Any, tracer_provider: Any, caplog: Any
) -> None:
    made = framework("safe")
    settings = {"tracer_provider": tracer_provider}
    with guarded(framework, METHODS[kind], passage, DENY, **settings):
        assert CALLS[kind](made, 1).startswith("denied: The call was refused")
    assert made.ran == []
    (span,) = exporter.get_finished_spans()
    assert span.attributes[semconv.POLICY_RULE_ID] == "unreadable"
    assert "test_kit.py:" in caplog.text
    assert "`read` failed for a call of `fake:Framework." in caplog.text
    assert "secret" not in caplog.text, "the text of an exception is content"


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_call_that_the_function_itself_does_not_take_raises_as_without_us(
    framework: Any, kind: str, caplog: Any
) -> None:
    made = framework("safe")
    with guarded(framework, METHODS[kind], Tool, DENY), pytest.raises(TypeError, match="missing"):
        getattr(made, METHODS[kind])()
    assert caplog.text == ""


def test_a_call_that_cannot_be_read_runs_where_nothing_decides(framework: Any) -> None:
    made = framework("safe")
    with guarded(framework, "plain", Raises):
        assert made.plain(1) == "got 1"


def test_a_call_that_cannot_be_read_does_not_run_where_every_call_is_recorded(
    framework: Any, tmp_path: Any
) -> None:
    made = framework("safe")
    with guarded(framework, "plain", Raises, audit=tmp_path / "audit.jsonl"):
        assert made.plain(1).startswith("denied: The call was refused")
    assert made.ran == []
    written = [path.read_text() for path in tmp_path.rglob("audit*") if path.is_file()]
    assert "unreadable" in "".join(written)


def test_a_call_that_cannot_be_read_runs_where_denies_are_only_recorded(framework: Any) -> None:
    made = framework("safe")
    with guarded(framework, "plain", Raises, DENY, mode=1):
        with pytest.MonkeyPatch.context() as patch:
            from otelhooks.pipeline import runtime

            patch.setattr(runtime.active().loaded, "monitor", True)
            assert made.plain(1) == "got 1"


def test_a_coroutine_behind_a_plain_function_does_not_run(framework: Any) -> None:
    made = framework("safe")
    with guarded(framework, "hides_a_coroutine", Tool, DENY):
        with pytest.raises(errors.ConfigError, match="is a coroutine behind a plain function"):
            made.hides_a_coroutine(1)
    assert made.ran == []


def test_a_coroutine_behind_a_plain_function_runs_where_the_seat_says_so(framework: Any) -> None:
    made = framework("safe")
    with guarded(framework, "hides_a_coroutine", Tool, DENY, kind="coroutine"):
        assert asyncio.run(made.hides_a_coroutine(1)) == "got 1"


# -- what is taken from a framework -----------------------------------------------------------


def test_classes_are_known_in_any_copy_and_made_when_needed(framework: Any) -> None:
    assert kit.native("fake:Framework") is framework
    fake = kit.module("fake")
    assert fake.Framework is framework
    assert fake.paths("Framework", "Gone") == ("fake:Framework", "fake:Gone")
    assert kit.is_a(framework(), "fake:Framework")
    assert not kit.is_a(framework(), "other:Framework")

    @kit.subclass("fake:Framework")
    def make(base: Any) -> Any:
        return type("Sub", (base,), {})

    first, second = make("a"), make("b")
    assert isinstance(first, framework)
    assert type(first) is type(second)


def test_at_most_15_names_are_all_that_an_adapter_needs() -> None:
    assert len(kit.__all__) <= 15
