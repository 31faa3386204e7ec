"""What the reader of `shell_only` reads is what bash and dash run, over seeded texts.

The programs of the texts are stubs that note their arguments. Each run of one must be a command
that the reader found, and each file that appears must be one that a redirection names, or else the
reader must refuse the text.
"""

from __future__ import annotations

import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

import pytest

from otelhooks.policy.shells.nodes import Refused, Simple, Word, nodes
from otelhooks.policy.shells.reader import parse

SHELLS = [shell for shell in ("bash", "dash", "zsh", "busybox") if shutil.which(shell)]
STUBS = ("p", "q", "r")
TEXTS = 250
SEEDS = range(4)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="shells of POSIX")

WORDS = r"""
a
-x
--y=z
'b c'
"d  e"
f\ g
$x
"$x"
"${x}h"
$(q i)
"$(p 'j k')"
l*
m?
n#o
'p;q'
"q|r"
'#'
"s\"t"
"u\v"
'w'"x"y
''
""
z=1
{}
[
]
%1
a,b
a:b
a~b
$?
\;
"c$"
d$
'!'
\$x
"\$x"
\\
if
done
in
2
<(r)
"${x%.py}"
${x##*/}
"h${x%%-?}"
"${x#1}"
""".split("\n")[1:-1]
LINES = [
    "{s} 'a\nb'",
    "{s}",
    "{s} | {s}",
    "{s} && {s}",
    "{s} || {s}",
    "{s}; {s}",
    "{s}\n{s}",
    "! {s}",
    "( {s} )",
    "({s}; {s}) | {s}",
    "{{ {s}; }}",
    "{{ {s}\n}} > f1",
    "if {s}; then {s}; fi",
    "if {s}\nthen {s}\nelif {s}; then {s}; else {s}; fi",
    "for x in {w} {w}; do {s}; done",
    "for x in {w}\ndo\n{s}\ndone | {s}",
    "while {s}; do {s}; break; done",
    "until {s}; do {s}; break; done < f2",
    "x={w}; {s}",
    "x={w}\n{s}",
    "x=1 {s}",
    "{s} > f3",
    "{s} >> f4 2>&1",
    "{s} 2> f5 < /dev/null",
    "{s} <<E\nh $(p in) $x \\$y 'k' \"l\"\nE",
    "{s} <<'E' | {s}\nh $(p no) `p no`\nE",
    "{s} <<-E && {s}\n\th\n\tE",
    "{s} <<E <<'F'\na\nE\nb\nF",
    "{s} # {s}",
    "# a, b: c?\n{s}; # d\n{s}",
    "# {s}\n{s}",
    "{s} \\\n {w}",
    "{s} &",
    'case "$x" in 1) {s} ;; *) {s} ;; esac',
    "case $x in\n a | '1' ) {s}\n;; # {s}\n b*|?) ;;\nesac | {s}",
    'case "$(q)" in o*) case "$x" in z) {s} ;; esac; {s};; esac > f6',
    '[[ -n "$x" ]] && {s}',
    "if ! [[ $x != 'b c' ]]; then {s}; fi",
    "[[ -d a ]]; {s}",
    "n=1; {s}; n=2; {s}",
    '{s} "$(p <<E\nin\nE\n)"',
]
NOISE = [*" \t\n;&|(){}<>'\"\\$`#!=*?[]~^-,.1p\r\x0b\x0c", "\\\n", "$(", "$((", "${", "$'", "$x"]
NOISE += ["<<E", "\nE", "\nE\n", "<<-", "<<<", "2>", ">&", "&>", ">|", "<>", "<(", ">(", "&&", "||"]
NOISE += [
    ";;",
    "|&",
    "[[",
    "]]",
    "q() ",
    "x=",
    "\u00a0",
    " # ",
    "\\\\",
    "''",
    '""',
    " case ",
    " in ",
    " ;; ",
    ";;&",
    " esac ",
    " -v ",
    "${x",
    "%",
    "))",
    "n",
    "++",
    "[",
]
NOISE += [f" {word} " for word in "if then fi do done esac".split()]


def written(chance: random.Random) -> str:
    """Return a text, with some noise in it more often than not."""

    def command() -> str:
        words = [chance.choice(STUBS), *(chance.choice(WORDS) for _ in range(chance.randrange(4)))]
        return " ".join(words)

    lines = []
    for _ in range(chance.randrange(1, 3)):
        line = chance.choice(LINES)
        while "{s}" in line:
            line = line.replace("{s}", command(), 1)
        while "{w}" in line:
            line = line.replace("{w}", chance.choice(WORDS), 1)
        lines.append(line.replace("{{", "{").replace("}}", "}"))
    text = "\n".join(lines)
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        at = chance.randrange(len(text) + 1)
        if chance.random() < 0.3:
            text = text[:at] + text[at + 1 :]
        else:
            text = text[:at] + chance.choice(NOISE) + text[at:]
    return text


def form(word: Word) -> str:
    """Return a pattern for the arguments that a word may become, each behind a NUL."""
    if any(
        part.kind == "glob"
        or (part.kind in {"variable", "changed", "sum", "output"} and not part.quoted)
        for part in word
    ):
        return "(?:\0[^\0]*)*"
    return "\0" + "".join(
        re.escape(part.text) if part.kind == "text" else "[^\0]*" for part in word
    )


def fits(text: str, forms: list[re.Pattern[str]]) -> bool:
    """Return whether one of the patterns fits."""
    return any(each.fullmatch(text) for each in forms)


def ran(shell: str, text: str, folder: pathlib.Path) -> tuple[list[str], set[str]]:
    """Run a text in an empty folder; return the runs of stubs, and the files that appeared."""
    # Its own folder: what a text starts in the background may outlive it.
    log, work = (pathlib.Path(tempfile.mkdtemp(dir=folder)) for _ in range(2))
    command = [shutil.which(shell) or shell, *(["sh"] if shell == "busybox" else []), "-c", text]
    env = {"PATH": str(folder / "bin"), "LOG": str(log), "HOME": str(work)}
    try:
        subprocess.run(
            command,
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=1,
        )
    except subprocess.TimeoutExpired:
        pass  # what it did until then counts
    runs = [each.read_text(errors="surrogateescape") for each in log.iterdir()]
    return [run for run in runs if run], {entry.name for entry in work.iterdir()}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with the stubs; `r` fails."""
    (tmp_path / "bin").mkdir()
    for name in STUBS:
        stub = tmp_path / "bin" / name
        code = "1" if name == "r" else "0"
        stub.write_text(
            f'#!/bin/sh\nprintf "\\0%s" {name} "$@" > "$LOG/$$"\necho "o u" -t\nexit {code}\n'
        )
        stub.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("seed", SEEDS)
def test_what_shells_run_was_read(folder: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    wrong: list[tuple[str, str, str]] = []
    read = 0
    for _ in range(TEXTS):
        text = written(chance)
        try:
            found = list(nodes(parse(text)))
        except Refused:
            continue
        read += 1
        words = [each.words for each in found if isinstance(each, Simple)]
        commands = [re.compile("".join(map(form, each)), re.DOTALL) for each in words]
        targets = [each for node in found for each in node.redirects if each.operator[0] == ">"]
        files = [re.compile(form(each.word), re.DOTALL) for each in targets]
        for shell in SHELLS:
            runs, names = ran(shell, text, folder)
            wrong += [(shell, text, run) for run in runs if not fits(run, commands)]
            wrong += [(shell, text, name) for name in names if not fits(f"\0{name}", files)]
    assert wrong == []
    assert read > TEXTS / 5
