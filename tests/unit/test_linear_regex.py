"""Regular expressions of scripts: what Python's say, in time that no pattern can use up."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otelhooks.policy import linear_regex
from otelhooks.policy.linear_regex import LIMIT_S, Pattern

ATOMS = [
    *("a", "b", ".", "[ab]", "[^a]", r"\w", r"\W", r"\s", r"\d", r"\b", r"\B", "^", "$"),
    *(r"\n", "(?:ab)", "(a|b)", "()", r"\Z", r"\A", "é", "(?i:A)", "(?m:^)", "(?m:$)", "(?s:.)"),
]
QUANTIFIERS = ["", "", "*", "+", "?", "{2}", "{1,3}", "*?", "{0}", "{2,}"]
pieces = st.builds(str.__add__, st.sampled_from(ATOMS), st.sampled_from(QUANTIFIERS))
patterns = st.recursive(
    st.lists(pieces, max_size=4).map("".join),
    lambda inner: st.builds("({}){}|{}".format, inner, st.sampled_from(QUANTIFIERS), inner),
    max_leaves=4,
)


@settings(max_examples=300)
@given(pattern=patterns, text=st.text("abA _\né1", max_size=6))
def test_it_says_what_python_says(pattern: str, text: str) -> None:
    try:
        expected = re.compile(pattern)
    except re.error:
        return
    found = Pattern(pattern)
    if text or r"\B" not in pattern:  # on which versions of Python differ
        assert found.matches(text) == (expected.match(text) is not None)
        assert found.is_in(text) == (expected.search(text) is not None)


@pytest.mark.parametrize(
    "text", ["ab", "ab\n", "ab\nab", "\nab", "a b", "", "\n", "b", "é", "aé", "éa", " É\n"]
)
@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\Ab", r"ab\Z", "^ab", "ab$", "(?m)^ab", "(?m)ab$", r"\bab\b", r"a\B", r"\Bb"),
        *(r"(?a)\b\w+\b", r"(?a:\b)a", r"(?a)(?u:\w)\b", r"\w\b(?a:\W)", r"(?ai)\W", r"(?i)[^A]b"),
        *(".b", "(?s)..ab", "[^a]", "[a-b]+$", "(?i)AB", r"\W", r"\D\S\Z"),
    ],
)
def test_places_and_classes_are_those_of_python(pattern: str, text: str) -> None:
    found = Pattern(pattern)
    assert found.matches(text) == (re.match(pattern, text) is not None)
    assert found.is_in(text) == (re.search(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?i:e)*[^]a]", "A"),  # ignoring case ends with its group
        ("^a{e}$", "b"),  # braces, not a fuzzy match
        ("^a{e}$", "a{e}"),
        ("^(?:rm){i<=1}$", "rxm"),
        ("^[[:alpha:]]$", "b"),  # a class of `[`, `:` and letters, and a `]`
        ("^[[:alpha:]]$", "a]"),
        ("^[a-z--b]$", "b"),  # no class without `b`
        (r"^\w+$", "rm\u200d"),  # a joiner is not seen
        (r"^\w+$", "rm\u0301"),
        (r"rm\s/", "rm\x1c/"),
        ("(?i)^file$", "f\u0131le"),
        ("(?i)^\u212a$", "k"),
    ],
)
def test_a_rule_cannot_mean_more_or_less_than_python_says(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = re.search(pattern, text) is not None
    assert Pattern(pattern).is_in(text) is expected


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?R)", "(a(?1)?b)", "(?&x)", r"(?|a|b)", r"\L<names>", r"\p{L}", r"\X", "(?r)a"),
        *("(?b)a", "(?V1)a", r"\Ka", "(*FAIL)", "(?>a)b", r"(?P<x>a)(?P=x)", "(?!a)b", "(?<=a)b"),
    ],
)
def test_what_other_engines_know_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"^re: "):
        Pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("[ab]+[xy]", "ab" * 5_000_000),
        ("(?:a|b)*?[cd]", "ab" * 500_000),
        ("(?:a{70}){70}[bc]", "a" * 500_000),
        (r"(?i)(?:\w+\s?)+[!?]", "Wörd " * 200_000),
        ("(a+)+$", "a" * 100_000 + "b"),
        ("(a|aa)+$", "a" * 50_000 + "b"),
        ("(.*)(.*)(.*)(.*)(.*)x", "a" * 20_000),
        ("(x+x+)+y", "x" * 50_000),
        ("(a?){500}a{500}", "a" * 400),
        ("([a-z]+)*[a-z0-9]+!", "abc1" * 5_000),
        ("[ab]*a[ab]{14}c", "abba" * 20_000),
    ],
)
def test_no_pattern_hangs(pattern: str, text: str) -> None:
    started = time.thread_time()
    with contextlib.suppress(TimeoutError):
        assert Pattern(pattern).is_in(text) is False
    assert time.thread_time() - started < 20 * LIMIT_S


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[",
        "*",
        r"(a)\1",
        "(?=a)b",
        "(?<!a)b",
        "(?P<x>a)(?(x)b|c)",
        "a" * 2000,
        "(a{99}){99}",
    ],
)
def test_what_is_not_a_pattern_or_cannot_be_bounded_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match="re: "):
        Pattern(pattern)


def test_only_texts_are_matched() -> None:
    with pytest.raises(TypeError, match="re: "):
        Pattern("a").is_in(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="re: "):
        Pattern(1)  # type: ignore[arg-type]


def test_what_is_remembered_of_texts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_regex, "_MAX_STEPS", 10)
    assert Pattern("x.*y").is_in("x" + "".join(map(chr, range(32, 120))) + "y")


def test_threads_share_a_pattern() -> None:
    found: list[bool] = []

    def search(n: int) -> None:
        found.extend(Pattern.of("(ab)+c").is_in("ab" * n + "c" * (n % 2)) for n in range(50))

    threads = [threading.Thread(target=search, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count(True) == 4 * 25
