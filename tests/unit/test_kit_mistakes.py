"""Names that the kit keeps for itself, and seats that several classes share."""

from __future__ import annotations

import contextlib
import sys
import types as python_types
from pathlib import Path
from typing import Any

import pytest

import otelhooks
from otelhooks import errors, policy
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import steps
from otelhooks.frameworks.kit.mcp.questions import Question
from otelhooks.patching import patches, versions


class Base(kit.ToolCall):
    framework = "fake"

    def read(self, owner: Any, x: Any) -> Any:
        self.name, self.args = "tool", {"x": x}

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args["x"])

    def denied(self, reason: str) -> Any:
        return f"denied: {reason}"


def sets_in_read() -> None:
    class Sets(Base):
        def read(self, owner: Any, x: Any) -> Any:
            self.note_of_mine, self.op = x, owner


def sets_the_last_of_two() -> None:
    class Sets(Base):
        def call(self, wrapped: Any, args: Any) -> Any:
            given = args
            self.version = given


def sets_in_a_block() -> None:
    class Sets(Base):
        @contextlib.contextmanager
        def block(self) -> Any:
            with contextlib.nullcontext() as self.is_async:
                yield


def sets_where_a_function_inside_needs_the_object() -> None:
    class Sets(Base):
        def call(self, wrapped: Any, args: Any) -> Any:
            self.place = wrapped
            return [self.name for _ in args]


def sets_in_a_property() -> None:
    class Sets(Base):
        @property
        def mine(self) -> Any:
            self._next = None
            return None


def has_it_from_a_mixin() -> None:
    class Mixin:
        def keep(self) -> None:
            self.is_counted = True

    class Sets(Mixin, Base):
        pass


def sets_the_context() -> None:
    class Sets(Base):
        def keep(self, context: Any) -> None:
            self.context = context


def defines_a_method() -> None:
    class Defines(Base):
        def run(self, *args: Any) -> Any:
            return None


def defines_an_attribute() -> None:
    class Defines(kit.Run):
        framework = "fake"
        verdict = ""


def defines_one_of_a_model_call() -> None:
    class Defines(kit.ModelCall):
        framework = "fake"
        is_rewritten = False


def defines_one_of_a_question() -> None:
    class Defines(Question):
        framework = "fake"

        def steps(self, rt: Any) -> Any:
            return None


def defines_one_of_a_step() -> None:
    class Defines(steps.Step):
        framework = "fake"
        NORMALIZED = ""


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (sets_in_read, "`Sets` sets `self.op`"),
        (sets_the_last_of_two, "`Sets` sets `self.version`"),
        (sets_in_a_block, "`Sets` sets `self.is_async`"),
        (sets_where_a_function_inside_needs_the_object, "`Sets` sets `self.place`"),
        (sets_in_a_property, "`Sets` sets `self._next`"),
        (has_it_from_a_mixin, "`Sets` sets `self.is_counted`"),
        (sets_the_context, "`Sets` sets `self.context`"),
        (defines_a_method, "`Defines` defines `run`"),
        (defines_an_attribute, "`Defines` defines `verdict`"),
        (defines_one_of_a_model_call, "`Defines` defines `is_rewritten`"),
        (defines_one_of_a_question, "`Defines` defines `steps`"),
        (defines_one_of_a_step, "`Defines` defines `NORMALIZED`"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_name_that_the_kit_keeps_for_itself_is_refused_with_the_class(make, found) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        make()
    text = str(caught.value)
    assert f"{Path(__file__)}:" in text
    assert f"class {found}, which the kit keeps for itself" in text
    assert "hint: use another name" in text


def has_a_value_for_a_method() -> None:
    class Has(Base):
        denied: Any = "Not that."


def has_a_property_for_a_method() -> None:
    class Has(kit.Run):
        framework = "fake"

        @property
        def is_paused(self) -> Any:
            return True


def sets_a_value_for_a_method() -> None:
    class Has(Base):
        def read(self, owner: Any, x: Any) -> Any:
            self.attributes = {"x": x}


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (has_a_value_for_a_method, "defines `denied` as a value"),
        (has_a_property_for_a_method, "defines `is_paused` as a value"),
        (sets_a_value_for_a_method, "sets `self.attributes`"),
    ],
)
def test_a_value_for_which_the_kit_has_a_method_is_refused_with_the_class(make, found) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        make()
    assert f"class `Has` {found}, and the kit calls it" in str(caught.value)
    assert "hint: make it a method" in str(caught.value)


def test_a_value_on_the_class_that_objects_set_again_is_refused_with_the_class() -> None:
    with pytest.raises(errors.ConfigError, match=r"`Streamed` defines `stream`.*each object sets"):

        class Streamed(kit.ModelCall):
            framework = "fake"
            stream = True


def test_other_kinds_of_methods_are_methods() -> None:
    class Fine(Base):
        is_paused = staticmethod(lambda raw: False)  # type: ignore[assignment]

        @classmethod
        def is_control_flow(cls, error: BaseException) -> bool:
            return False

    assert not Fine.is_control_flow(ValueError())


def test_a_kept_name_may_be_set_on_another_object_whatever_constants_the_method_has() -> None:
    class Fine(Base):
        def call(self, wrapped: Any, args: Any) -> Any:
            wrapped.run = args
            return wrapped(*(self.id or ()))

    assert Fine.framework == "fake"


def test_static_methods_that_read_results_are_called_as_such() -> None:
    class Tool(Base):
        value = staticmethod(lambda raw: f"<{raw}>")
        with_value = staticmethod(lambda raw, value: (raw, value))

    class Run(kit.Run):
        framework = "fake"
        answer_of = staticmethod(lambda raw: f"<{raw}>")
        with_answer = staticmethod(lambda raw, answer: (raw, answer))

    tool: Any = Tool()
    run: Any = Run()
    assert (tool.result("x"), tool.with_result("x", "y")) == ("<x>", ("x", "y"))
    assert (run.response("x"), run.with_response("x", "y")) == ("<x>", ("x", "y"))


def test_who_sets_a_context_of_the_frameworks_learns_of_the_word_for_it() -> None:
    with pytest.raises(errors.ConfigError, match=r"call `self\.runs_in`"):
        sets_the_context()


def test_names_of_other_objects_and_names_of_its_own_are_free() -> None:
    class Free(Base):
        mine = 1

        def read(self, owner: Any, x: Any) -> Any:
            self.given, owner.op, x.version = x, 1, 2
            super().read(owner, x)

        def failed(self, error: BaseException, message: str) -> Any:
            self.mine = 2
            return super().failed(error, message)


# -- several classes of one seat ----------------------------------------------------------------


class Even(Base):
    def read(self, owner: Any, x: Any) -> Any:
        if x % 2:
            return kit.SKIP
        return super().read(owner, x)

    def denied(self, reason: str) -> Any:
        return f"even: {reason}"


class Three(Even):
    def read(self, owner: Any, x: Any) -> Any:
        return kit.SKIP if x % 3 else Base.read(self, owner, x)

    def denied(self, reason: str) -> Any:
        return f"three: {reason}"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install one seat of a fake framework; returns its module."""
    module: Any = python_types.ModuleType("fake")
    module.double = lambda x: 2 * x
    monkeypatch.setitem(sys.modules, "fake", module)
    monkeypatch.setattr(versions, "installed", lambda names, module: (names[0], "1.0"))

    def install(*classes: Any, supported: str = ">=1", **settings: Any) -> Any:
        otelhooks.instrument(frameworks=[], policies=[policy.deny("tool")])
        package = kit.Package("fake", supported, module="fake")
        seat = kit.seat("fake:double", *classes, **settings)
        patches.install(kit.Adapter("fake", package, seats=(seat,)), strict=True)
        return module

    yield install
    patches.uninstall("fake")
    otelhooks.uninstrument()


def test_the_first_class_that_does_not_skip_a_call_has_it(fake) -> None:
    module = fake(Even, Three)
    found = [str(module.double(x)).partition(":")[0] for x in (2, 3, 5, 6)]
    assert found == ["even", "three", "10", "even"]


def test_a_refused_version_answers_in_the_form_of_the_class_that_reads_the_call(fake) -> None:
    module = fake(Even, Three, supported=">=2")
    assert [module.double(x).partition(":")[0] for x in (2, 3)] == ["even", "three"]


def test_every_class_of_a_seat_must_fit_the_function(fake) -> None:
    class Narrow(Base):
        def read(self, owner: Any, y: Any) -> Any:
            return kit.SKIP

    assert "`read` names `y`" in fake(Even, Narrow).double(2)


def test_a_class_that_cannot_be_right_is_refused_at_every_place_of_a_seat() -> None:
    mute = {"denied": kit.ToolCall.denied}
    with pytest.raises(errors.ConfigError, match="does not define `denied`"):
        kit.seat("fake:double", Even, type("Mute", (Base,), mute))
