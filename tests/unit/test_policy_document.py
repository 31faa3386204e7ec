"""YAML as values with places, and what of YAML is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml

from otelhooks.errors import PolicyFileError
from otelhooks.policy.files import document
from otelhooks.policy.files.document import parse


@pytest.fixture(params=["C", "Python"], autouse=True)
def _both_parsers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = {"C": getattr(yaml, "CSafeLoader", None), "Python": yaml.SafeLoader}[request.param]
    if loader is None:
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(document, "_LOADER", loader)


def _error(text: str) -> PolicyFileError:
    with pytest.raises(PolicyFileError) as caught:
        parse(text, "f.yaml")
    assert caught.value.hint
    assert str(caught.value).startswith(f"f.yaml:{caught.value.line}:{caught.value.column}: ")
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# only a comment\n", None),
        ("a: 1\nb: -2.5\nc: true\nd: null\ne:\nf: text\n", [1, -2.5, True, None, None, "text"]),
        ("a: [1, {b: c}]\nd: []\n", [[1, {"b": "c"}], []]),
        ('a: "no"\nb: \'010\'\nc: "*"\n', ["no", "010", "*"]),
        ("a: |\n  x\n   y\nb: >\n  x\n  y\n", ["x\n y\n", "x y\n"]),
        ("a: &x [1]\nb: *x\n", [[1], [1]]),
        ("a: Yesterday\nb: north\nc: y\nd: ok\n", ["Yesterday", "north", "y", "ok"]),
        ("%YAML 1.2\n---\na: 1\n...\n", [1]),
        ("a: rm -rf / # comment\n", ["rm -rf /"]),
    ],
)
def test_plain_yaml_is_read(text: str, value: Any) -> None:
    found = parse(text, "f.yaml").plain()
    assert (list(found.values()) if found else found) == value


def test_numbers_have_their_types() -> None:
    found = parse("[1, 1.0, true]", "f.yaml").plain()
    assert [type(each) for each in found] == [int, float, bool]


def test_every_value_and_key_knows_its_place() -> None:
    top = parse("a: 1\nb:\n  - x\n  - {c: d}\n", "f.yaml")
    assert top.keys == {"a": (1, 1), "b": (2, 1)}
    items = top.value["b"].items("b")
    assert [(item.line, item.column) for item in items] == [(3, 5), (4, 5)]
    inner = items[1].value["c"]
    assert (inner.line, inner.column) == (4, 9)
    assert str(inner.error("wrong", hint="right")) == "f.yaml:4:9: wrong\nhint: right"
    assert str(items[1].key_error("c", "wrong")) == "f.yaml:4:6: wrong"


def test_places_count_from_the_first_line_that_is_given() -> None:
    top = parse("a: 1\nb: 2\n", "f.md", first_line=7)
    assert (top.value["b"].line, top.keys["b"]) == (8, (8, 1))
    with pytest.raises(PolicyFileError, match=r"^f\.md:8:4: "):
        parse("a: 1\nb: no\n", "f.md", first_line=7)


@pytest.mark.parametrize(
    ("text", "place_in_text", "place_in_file"),
    [
        ("when: a and b", (1, 7), (1, 13)),
        ('when: "a and b"', (1, 7), (1, 14)),
        ("when: 'a and b'", (1, 1), (1, 8)),
        ("when: |\n  a and\n    b\n", (1, 1), (2, 3)),
        ("when: |\n  a and\n    b\n", (2, 3), (3, 5)),
        ("when: |\n\n  a and\n  b\n", (3, 1), (4, 3)),
        ("when: |2\n    a\n", (1, 3), (2, 5)),
        ("when: >\n  a\n  b\n", (1, 1), (2, 1)),
    ],
)
def test_a_place_in_a_text_is_found_in_the_file(
    text: str, place_in_text: tuple[int, int], place_in_file: tuple[int, int]
) -> None:
    assert parse(text, "f.yaml").value["when"].within(*place_in_text) == place_in_file


def test_a_key_that_occurs_twice_is_an_error() -> None:
    error = _error("a: 1\nb:\n  c: 1\n  c: 2\n")
    assert (error.line, error.column) == (4, 3)
    assert "the key `c` occurs twice\nhint: the first is on line 3" in str(error)


@pytest.mark.parametrize(
    "word", ["no", "yes", "on", "off", "No", "OFF", "010", "0x1F", "1_000", "1:30", "1e3", ".inf"]
)
def test_a_word_that_yaml_tools_read_differently_is_an_error(word: str) -> None:
    error = _error(f"a: x\nreason: {word}\n")
    assert (error.line, error.column) == (2, 9)
    assert f"`{word}` is not the same to every YAML tool" in str(error)
    assert "in quotes" in error.hint
    assert parse(f'reason: "{word}"\n', "f.yaml").plain() == {"reason": word}


def test_a_key_that_yaml_tools_read_differently_is_an_error() -> None:
    assert "`on` is not the same" in str(_error("on: tool.pre\n"))
    assert "`2026-01-01` is not the same" in str(_error("a: 2026-01-01\n"))


@pytest.mark.parametrize(
    ("text", "place", "words", "hint"),
    [
        ("a:\n\t- b\n", (2, 1), "not YAML", "spaces, not with tabs"),
        ("a: x\n\tb: c\n", (2, 1), "not YAML", "spaces, not with tabs"),
        ("- deny: *\n", None, "not YAML", "starts with one of * & ! % @ ` needs quotes"),
        ("- deny: *_file\n", (1, 9), "names nothing above it", "needs quotes"),
        ("- deny: @x\n", (1, 9), "not YAML", "needs quotes"),
        ("reason: a: b\n", (1, 10), "mapping values", "in quotes"),
        ("a: b\n---\nc: d\n", (2, 1), "a second document", "a file of its own"),
        ("a: !!python/object/apply:os.system [x]\n", (1, 4), "the tag ", "leave it out"),
        ("a: !!str 1\n", (1, 4), "the tag ", "quote the value"),
        ("<<: {a: b}\n", (1, 1), "`<<`", "write the keys out"),
        ("a: &x 1\nb: &x 2\n", (2, 4), "the anchor `&x` occurs twice", "rename"),
        ("a: &x [*x]\n", (1, 8), "names nothing above it", "&x"),
        ("1: a\n", (1, 1), "a key is a number, not text", "in quotes"),
        ("[a]: b\n", (1, 1), "a key is a list", "in quotes"),
        ("? {a: b}\n: c\n", (1, 3), "a key is keys and values", "in quotes"),
        ("a: [1, 2\n", None, "not YAML", "brackets"),
        ('a: "x\n', None, "not YAML", "quotes"),
        ("a: {b: c}}\n", (1, 10), "not YAML", "brackets"),
    ],
)
def test_what_policy_files_do_not_use_of_yaml_is_an_error(
    text: str, place: tuple[int, int] | None, words: str, hint: str
) -> None:
    error = _error(text)
    assert words in error.problem or words in str(error)
    assert hint in error.hint
    if place is not None:
        assert (error.line, error.column) == place


def test_a_character_that_yaml_does_not_know_is_an_error_at_its_place() -> None:
    error = _error("a: 1\nb: \x1f\n")
    assert (error.line, error.column) == (2, 4)
    assert "a character that is not allowed" in str(error)


def test_a_number_that_no_machine_can_hold_is_an_error() -> None:
    assert "is not the same to every YAML tool" in str(_error(f"a: {'9' * 5000}\n"))
    assert "is not the same to every YAML tool" in str(_error("a: 1.0e+999\n"))


def test_a_blank_text_has_no_indentation() -> None:
    assert parse("a: |\n\n\nb: 1\n", "f.yaml").value["a"].within(1, 1) == (2, 1)


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    depth = document.MAX_DEPTH
    assert parse("[" * depth + "]" * depth, "f.yaml").value
    assert "nested deeper than 32" in str(_error("[" * (depth + 1)))
    start = time.monotonic()
    assert "nested deeper than 32" in str(_error("[" * 1_000_000))
    assert "nested deeper than 32" in str(_error("{a: " * 200_000))
    assert time.monotonic() - start < 10


def test_aliases_that_blow_a_file_up_are_an_error() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    error = _error("\n".join(lines))
    assert "aliases expand to more than 1000 values" in str(error)
    assert error.line == 3  # before anything large is built


def test_few_aliases_are_fine() -> None:
    text = "a: &a [x, y]\nb: [" + ", ".join(["*a"] * 300) + "]\n"
    assert len(parse(text, "f.yaml").value["b"].value) == 300


def test_what_a_node_holds_is_checked_with_its_place() -> None:
    top = parse("a: 1\nb: text\nc: true\nd: [x]\ne:\nf: {g: h}\ni: 1.5\n", "f.yaml").value
    assert top["b"].text("b") == "text"
    assert top["c"].boolean("c") is True
    assert top["a"].whole_number("a") == 1
    assert (top["a"].number("a"), top["i"].number("i")) == (1, 1.5)
    assert json.dumps([node.plain() for node in top["d"].items("d")]) == '["x"]'
    assert list(top["f"].mapping("f")) == ["g"]
    for name, read, message in (
        ("a", "text", "1:4: `a` is a number, not text\nhint: put it in quotes"),
        ("c", "text", "3:4: `c` is true or false, not text\nhint: put it in quotes"),
        ("c", "whole_number", "3:4: `c` is true or false, not a whole number\nhint: write"),
        ("c", "number", "3:4: `c` is true or false, not a number\nhint: write a number"),
        ("i", "whole_number", "7:4: `i` is a number, not a whole number\nhint: write"),
        ("a", "boolean", "1:4: `a` is a number, not true or false\nhint: write"),
        ("b", "items", "2:4: `b` is text, not a list\nhint: write a list"),
        ("d", "mapping", "4:4: `d` is a list, not keys and values\nhint: write"),
        ("f", "text", "6:4: `f` is keys and values, not text\nhint: write"),
        ("e", "text", ": `e` is empty, not text\nhint: write text"),
    ):
        with pytest.raises(PolicyFileError) as caught:
            getattr(top[name], read)(f"`{name}`")
        assert message in str(caught.value)
