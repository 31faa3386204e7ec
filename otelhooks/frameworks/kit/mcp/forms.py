"""A form for the user, described by a JSON schema: its questions, and the filled-in answers."""
# pyright: basic

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Form"]

_NUMBERS = {"integer": int, "number": float}
_YES_OR_NO = [("true", "yes"), ("false", "no")]


class Form:
    """A form with one question for each field.

    Args:
        message: Message to the user.
        schema: Schema of the fields.
    """

    def __init__(self, message: str, schema: Mapping[str, Any]) -> None:
        self.message = message
        self.fields: dict[str, Any] = dict(schema.get("properties") or {})
        self._required = set(schema.get("required") or ())

    def questions(self) -> list[dict[str, Any]]:
        """Return the questions, as plain data for `Question.spec_of`."""
        return [self._question(name, shape) for name, shape in self.fields.items()]

    def _question(self, name: str, shape: Mapping[str, Any]) -> dict[str, Any]:
        text, is_multi = self.message, shape.get("type") == "array"
        if len(self.fields) > 1:
            text = f"{text} {shape.get('title') or name}"
            if shape.get("description"):
                text = f"{text}: {shape['description']}"
        choices = _options(shape.get("items") or shape)
        options = [{"id": str(id), "text": str(label)} for id, label in choices]
        return {"question": text, "options": options, "is_multi_select": is_multi}

    def filled_in(self, responses: Sequence[Any]) -> dict[str, Any] | None:
        """Return the fields' values; None if a required one is skipped.

        Args:
            responses: One `types.QuestionResponse` for each question.

        Raises:
            ValueError: There are more or fewer, or one does not have its field's type.
        """
        if len(responses) != len(self.fields):
            raise ValueError(f"{len(responses)} answers to {len(self.fields)} questions")
        found = {
            name: _typed(shape, response)
            for (name, shape), response in zip(self.fields.items(), responses, strict=True)
            if not response.skipped
        }
        return found if self._required <= found.keys() else None


def _options(shape: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    for key in ("oneOf", "anyOf"):
        if key in shape:
            return [(one.get("const"), one.get("title", one.get("const"))) for one in shape[key]]
    if "enum" in shape:
        values = shape["enum"]
        return list(zip(values, shape.get("enumNames") or values, strict=True))
    return _YES_OR_NO if shape.get("type") == "boolean" else []


def _typed(shape: Mapping[str, Any], response: Any) -> Any:
    chosen, kind = response.selected_option_ids, shape.get("type")
    if kind == "array":
        return list(chosen or ())
    text = chosen[0] if chosen else response.freeform_response
    if kind != "boolean":
        return _NUMBERS.get(str(kind), str)(text)
    if text.lower() not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text.lower() == "true"
