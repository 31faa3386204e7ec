"""Forms of a JSON schema as questions to the user, and the values that answers give."""

from __future__ import annotations

from typing import Any

import pytest

from otelhooks import types
from otelhooks.frameworks.kit.mcp.forms import Form
from otelhooks.frameworks.kit.mcp.questions import Question


def form(*required: str, **fields: Any) -> Form:
    return Form("Which?", {"type": "object", "properties": fields, "required": required})


def said(text: str) -> types.QuestionResponse:
    return types.QuestionResponse(freeform_response=text)


SKIPPED = types.QuestionResponse(skipped=True)


def test_choices_are_options() -> None:
    shapes = {
        "enum": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        "titled": {"type": "string", "oneOf": [{"const": "c", "title": "C"}]},
        "many": {"type": "array", "items": {"enum": ["d"]}, "description": "take some"},
        "flag": {"type": "boolean"},
        "text": {"type": "string", "title": "Words"},
    }
    entries = Question.spec_of({"questions": form(**shapes).questions()}).questions
    assert [[(o.id, o.text) for o in entry.options] for entry in entries] == [
        [("a", "A"), ("b", "B")],
        [("c", "C")],
        [("d", "d")],
        [("true", "yes"), ("false", "no")],
        [],
    ]
    assert [entry.is_multi_select for entry in entries] == [False, False, True, False, False]
    assert entries[2].question == "Which? many: take some"
    assert entries[4].question == "Which? Words"


def test_the_only_question_is_the_message() -> None:
    assert form(text={"type": "string"}).questions()[0]["question"] == "Which?"


def test_answers_get_the_types_of_the_form() -> None:
    shapes = {
        "many": {"type": "array", "items": {"enum": ["d", "e"]}},
        "share": {"type": "number"},
        "count": {"type": "integer"},
        "sure": {"type": "boolean"},
        "text": {"type": "string"},
        "any": {},
    }
    chosen = types.QuestionResponse(selected_option_ids=["d", "e"])
    no = types.QuestionResponse(selected_option_ids=["False"])
    found = form(**shapes).filled_in([chosen, said("0.5"), said("3"), no, said("hello"), SKIPPED])
    assert found == {
        "many": ["d", "e"],
        "share": 0.5,
        "count": 3,
        "sure": False,
        "text": "hello",
    }


def test_a_form_without_a_required_field_is_not_filled_in() -> None:
    assert form("text", text={"type": "string"}).filled_in([SKIPPED]) is None


@pytest.mark.parametrize(
    ("shape", "responses"),
    [
        ({"type": "boolean"}, [said("perhaps")]),
        ({"type": "integer"}, [said("many")]),
        ({"type": "string"}, []),
    ],
    ids=["neither true nor false", "no number", "too few"],
)
def test_answers_that_do_not_fit_are_an_error(shape: Any, responses: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"neither|invalid|0 answers"):
        form(x=shape).filled_in(responses)
