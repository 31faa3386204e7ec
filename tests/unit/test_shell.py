"""Commands as a shell reads them; `test_spellings` compares with real shells."""

from __future__ import annotations

import contextlib
import shlex

import pytest

from otelhooks.policy import shell
from otelhooks.policy.shell import UNKNOWN as U

WORDS: list[tuple[str, list[list[str]]]] = [
    ("", []),
    ("a b", [["a", "b"]]),
    ("a;b&c|d\ne(f)", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
    (r"""a\b 'c d'"e"$'\x66\u0067\150\n'i""", [["c", "defgh"], ["i"], ["ab", "c defgh\ni"]]),
    ("a 'b", [["a", "b"]]),
    ("a # b\nc#d", [["a"], ["c#d"]]),
    ('"a\\"b\\\\c\\d" "e\\\nf"', [['a"b\\c\\d', "ef"]]),
    ("a > b 2>&1 c <<< d", [["b"], ["1"], ["d"], ["a", "c"]]),
    ("x=1; $x ${x}", [["x=1"], ["1", "1"]]),
    ("$none$@$1 $$ $# ${!x} ${x%y} ${}", [[U, U, U, U, U]]),
    ("${x:-a} ${x+'b'} ${x-$(c)}", [["a"], ["'b'"[1]], ["c"], [U], ["a", "b", U]]),
    ("x=abcd; ${x:1} ${x:1:2} ${y:0}", [["x=abcd"], ["bcd", "bc"]]),
    ("x=$(y); ${x:1}", [["y"], [f"x={U}", "x="], [U]]),
    ('x="a b"; $x', [["x=a", "b"], ["x=a b"], ["a", "b", "a"]]),
    ("x=a; x+=b; $x", [["x=a"], ["x+=b"], ["a", "ab", "b", "abb", "bb"]]),
    ("for x in a b; do $x; done", [["for", "x", "in", "a", "b"], ["do", "a", "b"], ["done"]]),
    ("read x; a$x", [["read", "x"], [f"a{U}"]]),
    ("printf -v x y; a$x", [["printf", "-v", "x", "y"], ["-vxy"], [f"a{U}"]]),
    ("a$(echo -n b)c", [["echo", "-n", "b"], ["b"], ["abc"]]),
    ("`printf %s%s d e`", [["printf", "%s%s", "d", "e"], ["de"], ["de"]]),
    ("$(printf %d 1) $(printf)", [["printf", "%d", "1"], ["printf"], [U]]),
    ("$(printf -- x)", [["printf", "--", "x"], ["x"], ["x"]]),
    ("a$(b", [["b"], [f"a{U}", "a"]]),
    ("$(a `b) c", [["b"], ["a", U], [U, "c"]]),
    ("a <<E b\nc\nE\nd", [["a", "b"], ["c"], ["d"]]),
    ("a <<-'E'\n\tc\n\tE\nd", [["a"], ["c"], ["d"]]),
    ("a <<E\nb", [["a"], ["b"]]),
    ("a <<\nb", [["a"], ["b"]]),
    ("{a,b}c {x}", [["{a,b}c", "ac", "bc", "{x}"]]),
    ("{x}{a,b}", [["{x}{a,b}", "{x}a", "{x}b"]]),
    ("a$(echo -n 'b c')", [["b", "c"], ["echo", "-n", "b c"], ["b", "c"], ["ab", "c"]]),
    ("a${IFS:-c}b${IFS:0:1}c", [["a", "b", "c"]]),
    ('x="a b"; ${x}', [["x=a", "b"], ["x=a b"], ["a", "b", "a"]]),
    ("{1..3} {c..a}", [["{1..3}", "1", "2", "3", "{c..a}", "a", "b", "c"]]),
    ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", [[U * 7]]),
    ("sh -c 'a b'", [["a", "b"], ["sh", "-c", "a b"]]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WORDS)
def test_words_of_commands(
    text: str, expected: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("x", "y", "none"):
        monkeypatch.delenv(name, raising=False)

    assert shell.commands(text) == expected


def test_a_variable_with_too_many_values_is_unknown() -> None:
    sets = "; ".join(f"x={n}" for n in range(100))

    assert shell.commands(f"{sets}; a$x$x")[-1] == [U]
    assert len(shell.commands(f"{sets}; a$x")[-1]) == 1


@pytest.mark.parametrize("text", ["x='$x $x $x $x $x $x $x $x $x'; $x" * 40, "a " + "'b `" * 9])
def test_a_text_that_becomes_more_than_can_be_read_is_an_error(text: str) -> None:
    quoted = "a b"
    for _ in range(10):
        quoted = "c " + "'" + quoted.replace("'", "'\\''") + "'"
    with pytest.raises(ValueError, match="nested too deep"):
        shell.commands(quoted)
    with pytest.raises(ValueError, match="nested too deep"):
        shell.commands("; ".join(f"x={n}x" for n in range(60)) + "; " + "$x " * 3000)
    with contextlib.suppress(ValueError):
        shell.commands(text)  # in time


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("-opath", ["-opath", "path", "ath", "th", "h"]),
        ("--o=x", ["--o=x", "o=x", "--o", "x", "x"]),
        ("a:b,c", ["a:b,c", "a", "b", "c", "b,c"]),
        ("a:", ["a:"]),
        ("-", ["-"]),
    ],
)
def test_values_in_words(word: str, values: list[str]) -> None:
    assert list(shell.arguments([word])) == values


def test_folders_that_paths_are_relative_to() -> None:
    assert shell.folders(["cd", "a"]) == ["a"]
    assert shell.folders(["tar", "-C", "a", "-Cb", "--directory=c", "d"]) == ["a", "b", "c"]
    assert shell.folders(["cd"]) == []


@pytest.mark.parametrize(
    ("word", "pattern"),
    [
        ("ab", None),
        ("a*?", "a*?"),
        ("a[[:alpha:]]b", "a*b"),
        ("a[^b]/[c]", "a*/*"),
        ("a@(b|c)d", "a*d"),
        (f"a{U}", "a*"),
        ("a[", None),
    ],
)
def test_patterns(word: str, pattern: str | None) -> None:
    assert shell.pattern(word) == pattern


@pytest.mark.parametrize(
    "text",
    [
        sign * 50_000
        for sign in (
            "{",
            ",",
            "{,",
            "[",
            "'",
            "$'\\'",
            "${",
            "a,",
            "<<A ",
            "<<A\n",
            "a:",
            "(",
            "`",
            "*?",
        )
    ],
    ids=lambda text: text[:4],
)
def test_no_text_takes_longer_than_its_length(text: str) -> None:
    """Each was, or would be, quadratic with a pattern that looks for an end that is not there."""
    with contextlib.suppress(ValueError):
        for command in shell.commands("{" + text):
            for word in shell.arguments(command):
                shell.stands_for(shell.pattern(word) or "", "policies")


def test_escapes() -> None:
    assert shell.unescaped(r"\x41\u0042\U00000043\104\e\q") == "ABCD\x1bq"
    assert shell.unescaped(r"\U0010FFFF") == "\U0010ffff"
    assert shell.unescaped(r"\U00110000") == U
    assert shell.unescaped(r"\UFFFFFFFF") == U


@pytest.mark.parametrize("around", ["eval {}", "sh -c {}"])
def test_eight_commands_within_each_other_are_read_and_nine_are_an_error(around: str) -> None:
    text = "rm x"
    for _ in range(8):
        text = around.format(shlex.quote(text))
    assert ["rm", "x"] in shell.commands(text)
    with pytest.raises(ValueError, match="nested too deep"):
        shell.commands(around.format(shlex.quote(text)))


def test_a_word_of_up_to_64_choices_is_read_and_one_of_more_is_unknown() -> None:
    def readings(count: int) -> list[str]:
        return shell.commands("a{" + ",".join(map(str, range(count))) + "}")[0]

    assert readings(64)[1:] == [f"a{number}" for number in range(64)]
    assert readings(65) == [f"a{U}"]
