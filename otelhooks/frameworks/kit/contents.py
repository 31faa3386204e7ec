# pyright: basic
"""Results that consist of content blocks, as MCP tools return them.

Records, which may be objects or dicts, are read by their names in Python (``is_error``) or on the
wire (``isError``), and written as JSON.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = [
    "as_text",
    "blocks_of",
    "content_value",
    "error_of",
    "field",
    "has_two_values",
    "is_result",
    "plain",
    "replaced",
    "value_of",
]


_MISSING: Any = object()


@functools.lru_cache(maxsize=1_024)
def _way(cls: type, name: str) -> tuple[bool, str, str]:
    """Return whether records of a class are mappings, and the names of a field."""
    first, *further = name.split("_")
    return issubclass(cls, Mapping), name, "".join((first, *map(str.title, further)))


def field(record: Any, name: str) -> Any:
    """Return a field by its name in Python, or that on the wire; None if it has neither."""
    is_mapping, in_python, on_the_wire = _way(record.__class__, name)
    if is_mapping:
        return record[in_python] if in_python in record else record.get(on_the_wire)
    found = getattr(record, in_python, _MISSING)
    return getattr(record, on_the_wire, None) if found is _MISSING else found


def plain(record: Any, *, exclude_none: bool = True) -> Any:
    """Return the JSON form of a record; anything else unchanged."""
    if not hasattr(record, "model_dump"):
        return record
    return record.model_dump(mode="json", by_alias=True, exclude_none=exclude_none)


def is_result(raw: Any) -> bool:
    """Return whether an object is a tool's result, not a question, task or other answer."""
    return field(raw, "content") is not None


def error_of(raw: Any) -> str | None:
    """Return the text of a result that reports that the tool failed, else None."""
    return as_text(value_of(raw)) if field(raw, "is_error") is True else None


def value_of(raw: Any) -> Any:
    """Return the value of `ToolResult.result`: the text, or the content's JSON if not all is text.

    A result without content is its structured content; with structured content that says something
    else than the content, it is a dict of both. Anything but a result is its JSON.
    """
    if not is_result(raw):
        return plain(raw, exclude_none=False)
    return content_value(field(raw, "content"), field(raw, "structured_content"))


def content_value(content: Any, structured: Any = None) -> Any:
    """Return the value of content blocks, like `value_of`."""
    if not content and structured is not None:
        return structured
    if all(field(block, "type") == "text" for block in content):
        value: Any = "\n".join(field(block, "text") for block in content)
    else:
        value = list(map(plain, content))
    return (
        dict(zip(_PARTS, (value, structured), strict=True))
        if _differ(content, structured)
        else value
    )


def has_two_values(raw: Any) -> bool:
    """Return whether the value of a result is a dict of both its parts."""
    content = field(raw, "content")
    return bool(content) and _differ(content, field(raw, "structured_content"))


_PARTS = ("content", "structuredContent")


def _differ(content: Any, structured: Any) -> bool:
    """Return whether structured content says anything that the texts of the content do not.

    Servers write it as JSON into one text; FastMCP has a text for each item of a list.
    """
    if structured is None:
        return False
    said = structured["result"] if _is_wrapped(structured) else structured
    texts = [field(block, "text") for block in content if field(block, "type") == "text"]
    try:
        if len(texts) == 1 and _parsed(texts[0]) in (structured, said):
            return False
        items = list(_items(said)) if isinstance(said, list) else [said]
        return not (len(texts) == len(items) and all(map(_says, texts, items)))
    except RecursionError:
        return True


def _says(text: str, value: Any) -> bool:
    return value in (text, _parsed(text))


def _parsed(text: str) -> Any:
    """Return what a text is the JSON of; itself if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _items(values: list[Any]) -> Iterator[Any]:
    """Yield the items of a list, and those of lists within it."""
    for one in values:
        if isinstance(one, list):
            yield from _items(one)
        else:
            yield one


def _is_wrapped(structured: Any) -> bool:
    return isinstance(structured, Mapping) and set(structured) == {"result"}


def replaced(raw: Any, value: Any, *, keeps_schema: bool) -> dict[str, Any]:
    """Return a result, as JSON, with another value in content and in structured content.

    Args:
        raw: What the tool returned.
        value: A text, content blocks as JSON, any other JSON, or a dict of both parts where
            `value_of` is one.
        keeps_schema: Whether the result still goes to a client, which checks structured content.
            A value that has no structured form is then marked as an error, which is not checked.
    """
    before = field(raw, "structured_content")
    content = form = value
    if has_two_values(raw) and isinstance(value, Mapping) and set(value) == set(_PARTS):
        content, form = (value[part] for part in _PARTS)
    structured = None if before is None else _structured(before, form)
    does_not_fit = keeps_schema and before is not None and structured is None
    fields = {} if structured is None else {"structuredContent": structured}
    is_error = bool(field(raw, "is_error")) or does_not_fit
    return {"content": blocks_of(content), "isError": is_error, **fields}


def blocks_of(value: Any) -> list[Any]:
    """Return a value as content blocks in JSON."""
    if isinstance(value, list) and value and all(map(_is_block, value)):
        return value
    return [{"type": "text", "text": as_text(value)}]


def _is_block(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("type"), str)


def as_text(value: Any) -> str:
    """Return a text, or the JSON of anything else."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _structured(before: Any, value: Any) -> Any:
    """Return structured content for a value, in the previous form; None if there was none."""
    if isinstance(value, Mapping):
        return dict(value)
    is_wrapped = _is_wrapped(before)
    form = type(before["result"]) if is_wrapped else dict
    found = value
    if isinstance(value, str) and form is not str:
        try:
            found = json.loads(value)
        except ValueError:  # a text that is not JSON has no structured form
            return None
    if type(found) is not form:
        return None
    return {"result": found} if is_wrapped else found
