r"""The strict reader of commands: what it does not know is an error, and no text hides commands."""

from __future__ import annotations

import pytest

from otelhooks.policy.shell_review import review
from otelhooks.policy.shell_syntax import Unread, parse


@pytest.mark.parametrize(
    "text",
    [
        "ls )",
        "ls ;; ls",
        "ls & & ls",
        "ls | | ls",
        "(ls",
        "{ ls;",
        "if ls; then ls",
        "if ls; fi",
        "then ls",
        "for in x; do ls; done",
        "for 1 in x; do ls; done",
        "for ((i=0; i<3; i++)); do ls; done",
        "for x in a; ls",
        "while ls; done",
        "case x in a) ls;;",
        "case x in a ls;; esac",
        "case x",
        "[[ -f x",
        "(( x[0]++ ))",
        "{ ls; } x",
        "(ls) x",
        "function",
        "function f ls",
        "f() ls",
        "coproc ls",
        "select x in a; do ls; done",
        "x=(a b)",
        "x[0]=1",
        "x=1 y[0]=1",
        "ls <",
        "ls < ; ls",
        "ls 'a",
        'ls "a',
        "ls `ls",
        "ls $(ls",
        "ls $'a",
        "ls $[1]",
        'ls $"a"',
        "ls ${x",
        "ls ${!x}",
        "ls ${x[0]}",
        "ls ${x@P}",
        "ls ${x:1+y}",
        "ls $((x[0]))",
        "ls \\",
        "ls a$x{b,c}",
        "ls {a,b}'c'",
        "ls {a,b}$x",
        "ls !x",
        'ls "!x"',
        "cat <<$x\n",
        "cat <<A",
        "cat <<A\nx",
        "cat <<A\\\nB\nx\nAB\n",
        "cat <<A\nx\\\nA\nls\nA\n",
        "cat <<A $(ls)\nA\n",
        "(cat <<A)\nA\n",
        'ls "$x\\\ny"',
        "ls $x\\\ny",
        "ls a(b)",
        "ls <(ls",
        "ls\rls",
        "ls\0",
        "ls \u00a0x",
        "ls \ufffc",
        "(" * 30 + "ls" + ")" * 30,
    ],
)
def test_what_is_not_certain_is_an_error(text: str) -> None:
    with pytest.raises(Unread):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "CURL",
        "ls; CURL",
        "ls\nCURL",
        "ls & CURL",
        "ls | CURL",
        "ls |& CURL",
        "ls && CURL",
        "false || CURL",
        "(CURL)",
        "{ CURL; }",
        "! CURL",
        "time CURL",
        "if CURL; then ls; fi",
        "if ls; then CURL; fi",
        "if ls; then ls; else CURL; fi",
        "if ls; then ls; elif CURL; then ls; fi",
        "while CURL; do ls; done",
        "until ls; do CURL; done",
        "for x in a; do CURL; done",
        "for x do CURL; done",
        "for x in $(CURL); do ls; done",
        "case $(CURL) in a) ls;; esac",
        "case x in $(CURL)) ls;; esac",
        "case x in (a|b) CURL;; esac",
        "case x in a) CURL; esac",
        "[[ $(CURL) = x ]]",
        "[[ x =~ $(CURL) ]]",
        "[[ a < b ]] && CURL",
        "x=$(CURL)",
        "x=a$(CURL) ls",
        "export x=$(CURL)",
        'echo "a $(CURL) b"',
        "echo `CURL`",
        'echo "`CURL`"',
        "echo `echo \\`CURL\\``",
        "cat <(CURL)",
        "ls > >(CURL)",
        "cat <<A\n$(CURL)\nA\n",
        "cat <<A\n`CURL`\nA\n",
        "cat <<< $(CURL)",
        "ls > $(CURL)",
        "cat <<A; CURL\ntext\nA\n",
        "cat <<A | wc\ntext\nA\nCURL",
        "cat <<'A'\n$x \\\nA\nCURL",
        "cat <<''\ntext\n\nCURL",
        "ls # x\nCURL",
        "ls a#b; CURL",
        "ls \\\n; CURL",
        "ls 'a\\'; CURL",
        "ls $'a\\''; CURL",
        'ls "a\\"b"; CURL',
        "ls 2>&1; CURL",
        "f() { CURL; }",
        "function f { CURL; }",
        "function f() (CURL)",
        "if ls; then exit; fi; CURL",
        "ls && exit; CURL",
        "set -e; CURL",
    ],
)
def test_a_command_is_found_wherever_it_runs(text: str) -> None:
    found = review(text.replace("CURL", "curl https://example.com"))
    assert "network" in {kind for kind, _ in found.problems}


@pytest.mark.parametrize(
    "text",
    [
        "echo CURL",
        "echo '; CURL'",
        "echo a\\; CURL",
        "# CURL",
        "ls # ; CURL",
        "cat <<'A'\n$(CURL)\nA\n",
        "cat <<A\nCURL\nA\n",
        "cat <<-A\n\tCURL\n\tA\n",
        "exit; CURL",
        "case x in curl) ls;; esac",
    ],
)
def test_what_does_not_run_is_no_command(text: str) -> None:
    assert review(text.replace("CURL", "curl https://example.com")).problems == ()


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("cd a && cat b", {"a", "a/b"}),
        ("cd a; cat b", {"a", "a/b", "b"}),
        ("cd a || exit; cat b", {"a", "a/b"}),
        ("(cd a && cat b); cat c", {"a", "a/b", "c"}),
        ("cd a | cat b; cat c", {"a", "b", "c"}),
        ("if cd a; then cat b; else cat c; fi", {"a", "a/b", "c"}),
        ("x=a; if ls; then x=b; fi; cat $x", {"a", "b"}),
        ("x=a; [ -n y ] && x=b; cat $x", {"a", "b"}),
        ("for x in a b; do cat $x; done", {"a", "b"}),
        ("x=a y=$x/b; cat $y", {"a/b"}),
        ("x=a; (x=b; cat $x); cat $x", {"a", "b"}),
        ("cat 'a b' c\\ d", {"a b", "c d"}),
    ],
)
def test_paths_start_where_the_commands_run(text: str, paths: set[str]) -> None:
    found = review(text)
    assert found.problems == ()
    assert {path for _, path in found.paths} == paths
