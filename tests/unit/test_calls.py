"""The tool call on the hot path: copies, comparison, records created on first use."""

from __future__ import annotations

from typing import Any

import pytest

from otelhooks import types
from otelhooks.hooks.calls import Call, copy_json, same_json


class Frame:
    """A value that is not JSON and whose comparison returns no truth value."""

    def __eq__(self, other: object) -> Any:
        return [True]

    __hash__ = None  # type: ignore[assignment]


def test_containers_are_copied_at_any_depth_and_other_values_go_by_reference() -> None:
    frame = Frame()
    value = {"a": [1, {"b": 2}], "frame": frame, "t": (1,), "s": "x"}
    copy = copy_json(value)
    assert copy["a"] == value["a"]
    assert copy["a"] is not value["a"]
    assert copy["a"][1] is not value["a"][1]
    assert copy["frame"] is frame
    flat = {"a": 1}
    assert copy_json(flat) == flat
    assert copy_json(flat) is not flat
    assert copy_json(frame) is frame


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        ({"a": [1, 2]}, {"a": [1, 3]}, False),
        ({"a": 1}, {"b": 1}, False),
        ([1], [1, 2], False),
        ("x", "y", False),
        (None, None, True),
    ],
)
def test_equality_is_of_value_and_type(left: Any, right: Any, same: bool) -> None:
    assert same_json(left, right) is same


def test_other_values_are_equal_if_they_are_the_same_object() -> None:
    frame = Frame()
    assert same_json({"f": frame}, {"f": frame})
    assert not same_json({"f": frame}, {"f": Frame()})


def test_a_record_is_made_once_and_shows_the_very_arguments() -> None:
    call = Call("t", {"x": 1}, id="c", server="s", raw='{"x":1}', path="/p", agent="a", branch="b")
    record = call.record()
    assert record is call.record()
    assert record.args is call.args
    assert (record.name, record.id, record.server_name, record.raw) == ("t", "c", "s", '{"x":1}')
    assert (record.canonical_path, record.agent, record.branch) == ("/p", "a", "b")
    call.rewrite({"x": 2})
    assert call.record().args == {"x": 2}
    assert record.args == {"x": 1}


def test_a_record_says_the_place_that_the_pipeline_knows() -> None:
    call = Call("t", {})
    call.place = lambda: {"agent": "a", "branch": "o/a", "turn": 4}
    assert call.record().turn == 4


def test_only_a_change_of_value_is_a_rewrite() -> None:
    call = Call("t", {"x": 1})
    assert not call.rewrite({"x": 1})
    assert call.version == 0
    assert call.rewrite({"x": True})
    assert call.version == 1


def test_a_record_given_to_a_dispatch_is_carried_and_given_back() -> None:
    record = types.ToolCall(name="t", args={"x": 1}, id="c", server_name="s", raw="r")
    call = Call.of(record)
    assert call.record() is record
    assert (call.name, call.id, call.server, call.raw) == ("t", "c", "s", "r")


def test_a_record_that_a_hook_renamed_is_not_what_runs() -> None:
    call = Call("t", {"x": 1}, server="s")
    shown = call.record()
    shown.name = "other"
    assert call.record().name == "t"
    shown = call.record()
    shown.server_name = "other"
    assert call.record().server_name == "s"


@pytest.mark.parametrize("field", ["agent", "branch", "session_id", "turn", "trace_id", "source"])
def test_a_hook_cannot_lie_about_where_a_call_is_made(field: str) -> None:
    where = {"agent": "a", "branch": "o/a", "session_id": "s", "turn": 4, "trace_id": "7"}
    call = Call("t", {})
    call.place = lambda: {**where, "source": "user"}
    truth = getattr(call.record(), field)
    setattr(call.record(), field, "lie")
    assert getattr(call.record(), field) == truth


def test_a_record_that_was_given_says_where_it_was_made_also_after_a_lie() -> None:
    call = Call.of(types.ToolCall(name="t", session_id="s", turn=4, step_id="9"))
    call.record().name = "other"
    record = call.record()
    assert (record.name, record.session_id, record.turn, record.step_id) == ("t", "s", 4, "9")


def test_something_else_than_a_tool_call_goes_through_as_given() -> None:
    thing = object()
    assert Call.of(thing).record() is thing
    assert Call.of(thing).name == "object"


def test_tuples_and_other_containers_of_the_standard_library_are_copied() -> None:
    import collections

    inner = [1]
    ordered = collections.OrderedDict(a=inner)
    queue = collections.deque([inner], maxlen=3)
    value = {"t": (inner,), "o": ordered, "s": {1, 2}, "q": queue}
    copy = copy_json(value)
    inner.append(2)
    assert copy["t"] == ([1],)
    assert copy["o"] == collections.OrderedDict(a=[1])
    assert type(copy["o"]) is collections.OrderedDict
    assert copy["s"] is not value["s"]
    assert copy["q"] == collections.deque([[1]])
    assert copy["q"].maxlen == 3


def test_no_number_is_the_same_value_as_itself() -> None:
    assert same_json({"x": float("nan")}, {"x": float("nan")})
    assert not same_json(float("nan"), 1.0)
