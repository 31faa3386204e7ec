"""The marks of `tests/words.py`: each finds its example, and good sentences pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import words

if TYPE_CHECKING:
    from pathlib import Path

GOOD = (
    "A rule allows, denies or asks about calls of a tool.",
    "If no rule matches, the call is allowed; `policy.deny_all()` reverses this.",
    "There is no more specific rule, and there are none in monitor mode.",
    "This is where the span starts, and no longer than 5 s later it ends.",
    "What does a deny cost? Nothing but the message that `deny` stands for.",
    "Go on to the next page; `goes on` in code, and [a link](#what-stands-here), pass.",
)


@pytest.mark.parametrize("mark", words.MARKS, ids=lambda mark: mark.wrong)
def test_a_mark_is_found_in_its_example_and_not_in_the_better_sentence(mark: words.Mark) -> None:
    assert mark in [found for found, _ in words.marks_in(mark.wrong)]
    assert words.marks_in(mark.right) == []


@pytest.mark.parametrize("sentence", GOOD)
def test_a_good_sentence_passes(sentence: str) -> None:
    assert words.marks_in(sentence) == []


def test_a_mark_is_found_across_the_lines_of_a_paragraph_and_not_in_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n\n```\nIt is no code.\n```\n\nThe rule\nis\nno rule.\n- It is none.\n")

    found = words.findings(words.in_markdown(page))

    assert [(each.passage.line, each.passage.place) for each in found] == [
        (7, "docs"),
        (10, "docs"),
    ]


def test_each_place_of_a_module_is_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""It is none."""\n\n'
        "# It is\n# none.\n"
        "def run(name: str) -> str:\n"
        '    """Run it.\n\n    Args:\n        name: It is none.\n    """\n'
        '    return f"`{name}` is none"\n'
    )

    found = words.findings(words.in_python(module))

    assert [(each.passage.line, each.passage.place) for each in found] == [
        (1, "docstrings"),
        (9, "docstrings"),
        (11, "messages"),
        (3, "comments"),
    ]
