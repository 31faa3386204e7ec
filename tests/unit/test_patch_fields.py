"""Fields that hold functions, guarded by a descriptor on their class."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from otelhooks.patching import fields
from otelhooks.patching.fields import in_field


@dataclass
class Tool:
    name: str
    on_invoke: Callable[[], str]


def ran() -> str:
    return "ran"


def other() -> str:
    return "other ran"


def guard(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> str:
    return f"{instance.name}: {wrapped()}"


@pytest.fixture
def guarded() -> Iterator[None]:
    undo = in_field()(Tool, "on_invoke", guard)
    yield
    undo()


def by_state(tool: Tool) -> Tool:
    """Copy a tool as frameworks do that do not want its constructor to run."""
    copied = object.__new__(type(tool))
    copied.__dict__.update(tool.__dict__)
    return copied


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace": dataclasses.replace,
    "pickle": lambda tool: pickle.loads(pickle.dumps(tool)),
    "state": by_state,
}


def test_an_instance_that_was_guarded_before_is_guarded_by_the_next_guard():
    def named(name: str) -> Any:
        return lambda wrapped, instance, args, kwargs: f"{name}: {wrapped()}"

    tool = Tool("tool", ran)
    undo = in_field()(Tool, "on_invoke", named("first"))
    assert tool.on_invoke() == "first: ran"
    undo()
    assert tool.on_invoke() == "ran"
    undo = in_field()(Tool, "on_invoke", named("second"))
    assert tool.on_invoke() == "second: ran"
    undo()


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("is_read", [True, False])
def test_a_copy_is_guarded_as_itself_whether_its_original_was_read_or_not(way, is_read, guarded):
    tool = Tool("original", ran)
    if is_read:
        assert tool.on_invoke() == "original: ran"
    copied = COPIES[way](tool)
    copied.name = "copy"
    assert copied.on_invoke() == "copy: ran"
    assert tool.on_invoke() == "original: ran"


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_of_a_copy_is_guarded_and_itself_again_afterwards(way):
    undo = in_field()(Tool, "on_invoke", guard)
    tool = COPIES[way](COPIES[way](Tool("tool", ran)))
    assert tool.on_invoke() == "tool: ran"
    undo()
    assert COPIES[way](tool).on_invoke is ran


def test_a_function_that_is_put_into_the_instances_state_is_guarded(guarded):
    tool = Tool("tool", ran)
    assert tool.on_invoke() == "tool: ran"
    tool.__dict__["on_invoke"] = other
    assert tool.on_invoke() == "tool: other ran"


def test_what_replaces_the_kept_stand_in_is_not_handed_out(guarded):
    tool = Tool("tool", ran)
    assert tool.on_invoke() == "tool: ran"
    (kept,) = [name for name in vars(tool) if name.startswith("_otelhooks")]
    for value in (ran, None, tool):
        tool.__dict__[kept] = value
        assert tool.on_invoke() == "tool: ran"


def test_the_stand_in_of_a_tool_is_made_once_however_often_it_is_read(guarded, monkeypatch):
    made: list[Any] = []
    make = fields.StandIn.__init__

    def counted(self: Any, *args: Any) -> None:
        made.append(args)
        make(self, *args)

    monkeypatch.setattr(fields.StandIn, "__init__", counted)
    tool = Tool("tool", ran)
    for _ in range(20):
        assert tool.on_invoke() == "tool: ran"
    assert len(made) == 1


def test_a_method_of_a_subclass_is_guarded_by_one_object(guarded):
    class Own(Tool):
        def __init__(self) -> None:
            self.name = "own"

        def on_invoke(self) -> str:  # type: ignore[override]
            return "method ran"

    tool = Own()
    assert tool.on_invoke is tool.on_invoke
    assert tool.on_invoke() == "own: method ran"
