"""Commands as a shell reads them; `test_spellings` compares with real shells."""

from __future__ import annotations

import contextlib
import shlex
import sys

import pytest

from otelhooks.policy.commands import programs, shell, shell_words
from otelhooks.policy.commands.shell import NUMBER as N
from otelhooks.policy.commands.shell import UNKNOWN as U

WORDS: list[tuple[str, list[list[str]]]] = [
    ("", []),
    ("a b", [["a", "b"]]),
    ("a;b&c|d\ne(f)", [["a"], ["b"], ["c"], ["d"], [f"e{U}"], ["f"]]),
    (r"""a\b 'c d'"e"$'\x66\u0067\150\n'i""", [["c", "defgh"], ["i"], ["ab", "c defgh\ni"]]),
    ("a 'b", [["a", "b"]]),
    ("a # b\nc#d", [["a"], ["c#d"]]),
    ('"a\\"b\\\\c\\d" "e\\\nf"', [['a"b\\c\\d', "ef"]]),
    ("a > b 2>&1 c <<< d", [[">", "b"], [">&", "1"], ["<<<", "d"], ["a", "c"]]),
    ("x=1; $x ${x}", [["x=1"], ["1", "1"]]),
    ("'$none$@$1'", [[U], ["$none$@$1"]]),
    ('"$none" "$1" $$ $# ${#x} "${!x}"', [[U, N, N, N]]),
    ('"a${x%y}" a"${}"', [[f"a{U}"]]),
    ("a$x", [[f"a{U}", U]]),
    ('"a$@"', [[f"a{U}", U]]),
    ("${x:-a} ${x+'b'} ${x-$(c)}", [["a"], ["b"], ["c"], [U], [U, "a", "b"]]),
    ("${x:=a}; $x", [["a"], ["a", U], ["a", U]]),
    ("x=abcd; ${x:1} ${x:1:2} ${y:0} ${PWD:1}", [["x=abcd"], ["bcd", "bc", U]]),
    ("x=$(y); ${x:1}", [["y"], [f"x={U}"], [U]]),
    ("$((x + 1)) $[1] a$((2))", [["x", "+", "1"], ["1"], ["2"], [N, N, f"a{N}"]]),
    ("((x=1)); $x", [["x=1"], [N, "1", U]]),
    ("for((x=0;;)); do $x; done", [["x=0"], ["for"], ["do", N, "0"], ["done"]]),
    ("x=(a b); a$x", [[f"x={U}"], ["a", "b"], [f"a{U}", U]]),
    ("x[1]=a; a$x", [["x[1]=a"], [f"a{U}", U]]),
    ("a@(b)", [[f"a{U}"], ["b"]]),
    ("IFS=b; x=abc; $x", [["IFS=b"], ["x=abc"], [U]]),
    ('x="a b"; $x', [["x=a", "b"], ["x=a b"], ["a", "b", "a"]]),
    ("x=a; x+=b; $x", [["x=a"], ["x+=b"], ["a", "b", "ab", "bb", "abb"]]),
    ("for x in a b; do $x; done", [["for", "x", "in", "a", "b"], ["do", "a", "b"], ["done"]]),
    ("read x; 'a'\"$x\"", [["read", "x"], [f"a{U}"]]),
    ('printf -v x y; "a$x"', [["printf", "-v", "x", "y"], [f"a{U}"]]),
    ('declare -u x=y; "a$x"', [["declare", "-u", "x=y"], ["ay", f"a{U}"]]),
    ('export x=y; "a$x"', [["export", "x=y"], ["ay"]]),
    ('export -n x; "a$x"', [["export", "-n", "x"], [f"a{U}"]]),
    ("a$(echo -n b)c", [["echo", "-n", "b"], ["b"], ["abc"]]),
    ("`printf %s%s d e`", [["printf", "%s%s", "d", "e"], ["de"], ["de"]]),
    ('"$(printf %d 1)" "$(printf)"', [["printf", "%d", "1"], ["printf"], [U]]),
    ('"$(printf a%sb c d)"', [["printf", "a%sb", "c", "d"], [U]]),
    ("$(printf '%b' '\\160')", [["printf", "%b", "\\160"], ["p"], ["p"]]),
    ('"$(a; echo b)" "$(echo {a,b})"', [["a"], ["echo", "b"], ["echo", "{a,b}", "a", "b"], [U]]),
    ("$(which a) $(command -v b)",
        [["which", "a"], ["command", "-v", "b"], ["b"], ["a", "b"]],
    ),
    ("$(pwd)/x", [["pwd"], ["."], ["./x"]]),
    ("$(printf -- x)", [["printf", "--", "x"], ["x"], ["x"]]),
    ('"a$(b', [["b"], [f"a{U}"]]),
    ("$(a `b) c", [["b"], ["a", U], [U, "c"]]),
    ("a <<E b\nc\nE\nd", [["a", "b"], ["c"], ["d"]]),
    ("a <<-'E'\n\tc\n\tE\nd", [["a"], ["c"], ["d"]]),
    ("a <<E\nb", [["a"], ["b"]]),
    ("a <<\nb", [["a"], ["b"]]),
    ("{a,b}c {x}", [["{a,b}c", "ac", "bc", "{x}"]]),
    ("{x}{a,b}", [["{x}{a,b}", "{x}a", "{x}b"]]),
    ("a$(echo -n 'b c')", [["b", "c"], ["echo", "-n", "b c"], ["b", "c"], ["ab", "c"]]),
    ("a${IFS:0:1}b", [["a", "b"]]),
    ('x="a b"; ${x}', [["x=a", "b"], ["x=a b"], ["a", "b", "a"]]),
    ("{1..3} {c..a}", [["{1..3}", "1", "2", "3", "{c..a}", "a", "b", "c"]]),
    ("{a..c..2} {1..03}", [["{a..c..2}", U, "{1..03}"]]),
    ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", [[U]]),
    (r"$'a\0b'c $'\x{70}' $'\0162' $'\1621' $'\cA' $'\xff'", [["ac", U, "r1"]]),
    ("sh -c 'a b'", [["a", "b"], ["sh", "-c", "a b"]]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WORDS)
def test_words_of_commands(
    text: str, expected: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("x", "y", "none"):
        monkeypatch.delenv(name, raising=False)

    assert shell.commands(text) == expected


SURE: list[tuple[str, bool]] = [
    ("x=a; {}", True),
    ("x=a && {}", True),
    ("x=a\nif b; then {}; fi", True),
    ("if b; then x=a; {}; fi", True),
    ("x=a; if b; then c; else d; fi; {}", True),
    ("for x in a; do {}; done", True),
    ("b && x=a && {}", True),
    ("b; x=a; c | d; {}", True),
    ("x=a; (b); f() {{ c; }}; {}", True),
    ("x=a y=b; {}", True),
    ("if b; then x=a; fi; {}", False),
    ("if b; then c; else x=a; fi; {}", False),
    ("! if b; then x=a; fi; {}", False),
    ("while b; do x=a; done; {}", False),
    ("b && x=a; {}", False),
    ("b &&\nx=a; {}", False),
    ("b || x=a && {}", False),
    ("(x=a); {}", False),
    ("{{ x=a; }}; {}", False),
    ("b | x=a; {}", False),
    ("x=a | b; {}", False),
    ("x=a & {}", False),
    ("f() {{ x=a; }}; {}", False),
    ("function f {{ x=a; }}; {}", False),
    ("case b in c) x=a;; esac; {}", False),
    ("x=a b; {}", False),
    ("echo for x in a; {}", False),
    ("b=$(x=a); {}", False),
    ("b | x=$(echo a); {}", False),
    ("for x; do {}; done", False),
    ("{}; x=a", False),
    (r"if b; then x=a; \if; fi; {}", False),
    ("if b; then x=a; >c if; fi; {}", False),
    ("if b; then x=a; echo 'if c'; fi; {}", False),
    ("unset x; {}", False),
]


@pytest.mark.parametrize(("text", "is_sure"), SURE)
def test_a_variable_is_known_only_where_it_is_surely_set(
    text: str, is_sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("x", raising=False)

    (found,) = [each for each in shell.commands(text.format('use "$x"')) if "use" in each]
    assert "a" in found or not is_sure
    assert (U not in found) is is_sure


def test_what_a_loop_adds_to_is_unknown() -> None:
    assert U in shell.commands("x=; for i in a b; do x=$x$i; done; y $x")[-1]
    assert U not in shell.commands("x=a; for i in a b; do c; done; y $x")[-1]


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("HOME=a; cd", ["cd", "a"]),
        ("cd a; cd -", ["cd", "."]),
        ("CDPATH=a; cd b", ["cd", U]),
    ],
)
def test_folders_that_commands_change_to(text: str, folders: list[str]) -> None:
    assert folders in shell.commands(text)


def test_a_tilde_is_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", ".")
    assert shell.commands("HOME=a; b ~/c d=~+ ~2")[-1] == [
        "b", "~/c", "a/c", "d=~+", "d=.", "~2", U
    ]  # fmt: skip
    assert shell.commands("~/a")[-1] == ["~/a"]


def test_what_runs_and_what_is_only_quoted() -> None:
    text = "a 'b c'; d <<E\ne $(f)\nE\n$(g) $((1 + $(h)))"
    found = shell.commands(text)
    assert [each[0] for each in found if not each.runs] == ["b", "e", "1"]
    assert {"f", "g", "h"} <= {each[0] for each in found if each.runs}


def test_a_variable_with_too_many_values_is_unknown() -> None:
    sets = "; ".join(f"x={n}" for n in range(100))

    assert shell.commands(f"{sets}; a$x$x")[-1] == [U]
    assert shell.commands(f"{sets}; a$x")[-1] == [U]


def test_a_value_counts_once_however_often_it_is_assigned() -> None:
    assert shell.commands("x=a; " * 100 + "b$x")[-1] == ["ba"]


@pytest.mark.parametrize("text", ["x='$x $x $x $x $x $x $x $x $x'; $x" * 40, "a " + "'b `" * 9])
def test_a_text_that_becomes_more_than_can_be_read_is_an_error(text: str) -> None:
    quoted = "a b"
    for _ in range(10):
        quoted = "c " + "'" + quoted.replace("'", "'\\''") + "'"
    with pytest.raises(ValueError, match="nested too deep"):
        shell.commands(quoted)
    with pytest.raises(ValueError, match="nested too deep"):
        shell.commands("; ".join(f"x={n}x" for n in range(60)) + "; " + "$x " * 3000)
    with pytest.raises(ValueError, match="nested too deep"):
        shell.commands("$(" * 100)
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
    assert list(programs.arguments([word])) == values


def test_folders_that_paths_are_relative_to() -> None:
    assert programs.folders(["cd", "a"]) == ["a"]
    assert programs.folders(["tar", "-C", "a", "-Cb", "--directory=c", "d"]) == ["a", "b", "c"]
    assert programs.folders(["tar", "-C", "a", "b", "-x", "c"]) == ["a", "b"]
    assert programs.folders(["curl", "--output-dir", "a", "-o", "b"]) == ["a"]
    assert programs.folders(["cd"]) == []
    assert programs.folders(["cd", "a", "b"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("word", "pattern"),
    [
        ("ab", None),
        ("a*?", "a*?"),
        ("a[[:alpha:]]b", "a*b"),
        ("a[^b]/[c]", "a*/*"),
        ("a@(b|c)d", "a*d"),
        (f"a{U}", "a*"),
        (f"a{N}", "a[-0-9]*"),
        ("a[", None),
        ("a[]b", "a*b"),
        ("a]b[c", None),
    ],
)
def test_patterns(word: str, pattern: str | None) -> None:
    assert programs.pattern(word) == pattern


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
            for word in programs.arguments(command):
                programs.stands_for(programs.pattern(word) or "", "policies")


def test_escapes() -> None:
    assert shell_words.unescaped(r"\x41\u0042\U00000043\104\e\q") == "ABCD\x1bq"
    assert shell_words.unescaped(r"\U0010FFFF") == "\U0010ffff"
    assert shell_words.unescaped(r"\U00110000") == U
    assert shell_words.unescaped(r"\UFFFFFFFF") == U


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


REPEATED = {
    "arguments": "a ",
    "unknown arguments": 'x"$a"{} ',
    "assignments": "a=b ",
    "keywords": "do ",
    "variables after keywords": "if $a ",
    "blocks that are not read": "if alias ",
    "chains": "a=b&&c=d||$a ",
    "substitutions": "a=$(b) ",
    "folders": "cd ",
    "folders that exist": "cd - pushd -n ",
    "options that are folders": "-C a ",
    "links": "ln ",
    "names that are read": "read a ",
    "names that are declared": "declare -n ",
    "printed names": "printf -v ",
    "tildes": "~+:",
    "redirections": "<a ",
}


class Looks:
    """Counts calls of functions, and how many words each look at a list of words looks at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total = 0
        for kind in (shell.Words, shell.Command):
            monkeypatch.setattr(shell, kind.__name__, self._counted(kind))

    def _counted(self, kind: type[list[str]]) -> type[list[str]]:
        looks = self

        class Counted(kind):
            def __getitem__(self, key):
                found = super().__getitem__(key)
                looks.total += len(found) if isinstance(key, slice) else 1
                return found

            def __contains__(self, word):
                looks.total += len(self)
                return super().__contains__(word)

            def __iter__(self):
                looks.total += len(self)
                return super().__iter__()

        return Counted

    def of(self, text: str) -> int:
        def count(_frame: object, event: str, _argument: object) -> None:
            self.total += event in {"call", "c_call"}

        self.total = 0
        sys.setprofile(count)
        try:
            for command in programs.executed(shell.commands(text)):
                self.total += len(programs.folders(command))
        finally:
            sys.setprofile(None)
        return self.total


@pytest.mark.parametrize("name", REPEATED)
def test_a_command_of_twice_the_length_is_read_in_twice_the_steps(name, monkeypatch) -> None:
    looks = Looks(monkeypatch)
    once, twice = (
        looks.of("".join(map(REPEATED[name].format, range(count)))) for count in (400, 800)
    )
    assert twice < 2.2 * once


def test_a_variable_is_certain_for_as_long_as_a_block_sets_it() -> None:
    text = 'if b; then x=c; x=c; "$x"; fi; "$x"; y=a; y=b; "$y"; alias; "$y"'
    read = [command for command in shell.commands(text) if command[0] in {"a", "c"}]
    assert read == [["c"], ["c", U], ["a", "b"], ["a", "b", U]]


def test_every_folder_that_a_command_moves_to_is_known() -> None:
    commands = shell.commands("cd a cd b cd; declare -n x declare -n y; read z; $x$y$z")
    assert ["cd", *shell.Variables().values("HOME")] in commands
    assert commands[-1] == [U]
