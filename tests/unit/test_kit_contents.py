"""Results of content blocks: what hooks see of them, and another value in all their parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from otelhooks.frameworks.kit import contents

IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def texts(*words: str) -> list[Any]:
    return [{"type": "text", "text": word} for word in words]


class Record(SimpleNamespace):
    """A record of a framework's."""

    def model_dump(self, **options: Any) -> Any:
        return {**vars(self), "options": options}


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ({"isError": True}, True),
        ({"is_error": False, "isError": True}, False),
        (SimpleNamespace(isError=True), True),
        (SimpleNamespace(is_error=True), True),
        ({}, None),
        (None, None),
    ],
)
def test_a_field_is_read_by_its_name_in_python_or_on_the_wire(record: Any, found: Any) -> None:
    assert contents.field(record, "is_error") is found


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ({"content": texts("a", "b")}, "a\nb"),
        ({"content": []}, ""),
        ({"content": [], "structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": [*texts("a"), IMAGE]}, [*texts("a"), IMAGE]),
        ({"task": "7"}, {"task": "7"}),
    ],
    ids=["texts", "nothing", "structured", "not all text", "no result"],
)
def test_hooks_see_the_text_or_the_content(raw: Any, value: Any) -> None:
    assert contents.value_of(raw) == value


@pytest.mark.parametrize(
    ("content", "structured"),
    [
        (texts('{"a": 1}'), {"a": 1}),
        (texts('{"result": "a"}'), {"result": "a"}),
        (texts("a"), {"result": "a"}),
        (texts("1"), {"result": 1}),
        (texts("1"), {"result": "1"}),
        (texts("a", '{"b": 2}', "c"), {"result": ["a", {"b": 2}, ["c"]]}),
        ([*texts('{"a": 1}'), IMAGE], {"a": 1}),
    ],
)
def test_structured_content_that_the_text_says_is_not_shown_again(
    content: Any, structured: Any
) -> None:
    alone = contents.value_of({"content": content})
    raw = {"content": content, "structuredContent": structured}
    assert contents.value_of(raw) == alone
    assert contents.replaced(raw, {"content": 1, "structuredContent": 2}, keeps_schema=True) == {
        "content": texts('{"content": 1, "structuredContent": 2}'),
        "structuredContent": {"content": 1, "structuredContent": 2},
        "isError": False,
    }


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("content", "structured"),
    [
        (texts("Found 1."), {"a": "secret"}),
        (texts("a"), {"result": "secret"}),
        (texts("a", "b"), {"result": ["a", "secret"]}),
        (texts("a", "b"), {"result": ["a", "b", "secret"]}),
        (texts('{"a": 1}'), {"a": 1, "b": "secret"}),
        (texts("a"), {"result": nested(100_000)}),
        (texts("[" * 100_000 + "]" * 100_000), {"a": 1}),
        ([IMAGE], {"a": "secret"}),
    ],
    ids=range(8),
)
def test_structured_content_that_says_more_is_shown_beside_the_content(
    content: Any, structured: Any
) -> None:
    alone = contents.value_of({"content": content})
    raw = {"content": content, "structuredContent": structured}
    shown = contents.value_of(raw)
    assert list(shown) == ["content", "structuredContent"]
    assert shown["content"] == alone
    assert shown["structuredContent"] is structured


@pytest.mark.parametrize(
    ("value", "content", "structured", "is_error"),
    [
        ({"content": "b", "structuredContent": {"a": 2}}, "b", {"a": 2}, False),
        ({"content": "b", "structuredContent": "hidden"}, "b", None, True),
        ("hidden", "hidden", None, True),
        ({"content": "b"}, '{"content": "b"}', {"content": "b"}, False),
    ],
)
def test_both_parts_are_replaced_where_both_are_shown(
    value: Any, content: str, structured: Any, is_error: bool
) -> None:
    raw = {"content": texts("old"), "structuredContent": {"a": "secret"}}
    found = contents.replaced(raw, value, keeps_schema=True)
    assert found["content"] == texts(content)
    assert (found.get("structuredContent"), found["isError"]) == (structured, is_error)


def test_what_is_no_result_is_shown_whole() -> None:
    shown = contents.value_of(Record(task="7"))
    options = {"mode": "json", "by_alias": True, "exclude_none": False}
    assert shown == {"task": "7", "options": options}


def test_the_error_of_a_result_is_its_text() -> None:
    assert contents.error_of({"content": texts("gone"), "isError": True}) == "gone"
    assert contents.error_of({"content": [IMAGE], "isError": True}).startswith('[{"type"')
    assert contents.error_of({"content": texts("gone")}) is None


@pytest.mark.parametrize(
    ("before", "value", "after", "is_error"),
    [
        (None, "new", None, False),
        ({"result": "old"}, "new", {"result": "new"}, False),
        ({"result": "old"}, ["new"], None, True),
        ({"result": 1}, "2", {"result": 2}, False),
        ({"result": 1}, "two", None, True),
        ({"a": 1}, {"a": 2}, {"a": 2}, False),
        ({"a": 1}, '{"a": 2}', {"a": 2}, False),
        ({"a": 1}, "[2]", None, True),
    ],
)
def test_another_value_is_put_into_both_parts_or_the_result_is_an_error(
    before: Any, value: Any, after: Any, is_error: bool
) -> None:
    raw = {"content": texts("old"), "structuredContent": before}
    found = contents.replaced(raw, value, keeps_schema=True)
    assert (found.get("structuredContent"), found["isError"]) == (after, is_error)
    assert "old" not in str(found)
    assert contents.replaced(raw, value, keeps_schema=False)["isError"] is False


@pytest.mark.parametrize(
    ("value", "blocks"),
    [
        ("a", texts("a")),
        ([IMAGE], [IMAGE]),
        ([], texts("[]")),
        ([{"a": 1}], texts('[{"a": 1}]')),
        ({"a": 1}, texts('{"a": 1}')),
    ],
)
def test_a_value_becomes_blocks(value: Any, blocks: Any) -> None:
    assert contents.blocks_of(value) == blocks
