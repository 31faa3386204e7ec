"""Marks of translated prose: found in README, docs, docstrings, comments and messages.

`make lint` runs it over all of these, and fails when it finds one. `python -m tests.words --count`
prints how many each place has. Code, addresses and quoted text are not read.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parent.parent


class Mark(NamedTuple):
    """One mark of the voice that we do not want.

    Attributes:
        pattern: A regular expression, matched without case against text with single spaces.
        reason: Why a reader stumbles.
        wrong: A sentence in which the pattern is found.
        right: The same sentence as it should be; no pattern is found in it.
    """

    pattern: str
    reason: str
    wrong: str
    right: str


_ACTION = "a condition is `if`, a moment is `when`; `where` is a place"

MARKS = (
    Mark(
        r"\bsay whether\b",
        "a function returns, it does not say",
        "Say whether the call may run.",
        "Return whether the call may run.",
    ),
    Mark(
        r"(?<!there )\b(?:is|are|was|were) no "
        r"(?!longer|more|older|newer|less|fewer|wider|different)",
        "English negates the verb: `is not a`",
        "A policy is no sandbox.",
        "A policy is not a sandbox.",
    ),
    Mark(
        r"(?<!there )\b(?:is|are|was|were) none\b",
        "English negates the verb: `is not one`",
        "It looks like a path and is none.",
        "It looks like a path but is not one.",
    ),
    Mark(
        r"\b(?:nobody|somebody|everybody|whoever|whomever|anybody)\b",
        "name the reader (`you`) or the part: approver, caller, process",
        "Nobody in 300 s is a no.",
        "No answer within 300 s denies.",
    ),
    Mark(
        r"\bis a (?:no|yes)\b|\bmeans (?:no|yes)\b",
        "name what happens",
        "Silence is a no.",
        "Silence denies the call.",
    ),
    Mark(
        r"\bin (?:the|its|their) place\b(?! where)|\b(?:takes?|took|taken) the place of\b",
        "`instead of`, or `replaces`",
        "Its message goes out in the place of the result.",
        "Its message replaces the result.",
    ),
    Mark(
        r"\banew\b",
        "`again`",
        "The call is judged anew.",
        "The call is evaluated again.",
    ),
    Mark(
        r"\bfor ever\b|\bby halves\b",
        "an idiom of another language",
        "Framework X is not guarded by halves.",
        "Every seat of framework X is guarded, or none is.",
    ),
    Mark(
        r"\bwhat (?:has )?(?:came|comes|becomes|became|become) of\b",
        "name the result",
        "It records what became of the call.",
        "It records the result of the call.",
    ),
    Mark(
        r"\b(?:be|is|are|was|were|been|being) told\b",
        "use the active verb of the one who speaks, or `sees`, `gets`",
        "The model is told the reason.",
        "The model sees the reason.",
    ),
    Mark(
        r"\b(?:tells?|told|hears?|heard) of\b|\bhears? (?:every|each|all)\b",
        "`reports`, `receives`",
        "The hook hears of every event.",
        "The hook receives every event.",
    ),
    Mark(
        r"\b(?:is|are|was|were) said\b",
        "use an active verb: `logs`, `reports`",
        "This is said once, as a warning.",
        "otelhooks logs one warning.",
    ),
    Mark(
        r"\bst(?:ands?|ood)\b(?! (?:for|out)\b|-)",
        "`is`",
        "The reason stands in the span.",
        "The reason is in the span.",
    ),
    Mark(
        r"\b(?:lies|lain|lie (?:on|in|at|below|above|under|beside|between|where))\b",
        "`is`",
        "Rules lie on nine levels.",
        "Rules have nine levels.",
    ),
    Mark(
        r"\bof (?:which|whose)\b",
        "two sentences read better than a chain",
        "A run has calls, of which each has a span.",
        "A run has calls. Each call has a span.",
    ),
    Mark(
        r"\bturn(?:s|ed)? (?:\w+ ){1,2}round\b|\b(?:is|be|are) turned round\b",
        "`reverses`",
        "`deny_all()` turns that round.",
        "`deny_all()` reverses this.",
    ),
    Mark(
        r"\bsome (?:ten|twelve|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|\d+)\b",
        "`about`",
        "It knows some thirty clients.",
        "It knows about thirty clients.",
    ),
    Mark(
        r"\b(?:give|given|gives|gave|giving) (?:\w+ )?back\b",
        "`returns`",
        "The tool gives back a text.",
        "The tool returns a text.",
    ),
    Mark(
        r"\bbr(?:ings?|ought) along\b",
        "`ships with`, `includes`",
        "Tools that a framework brings along have a kind.",
        "Tools that ship with a framework have a kind.",
    ),
    Mark(
        r"\b(?:a|an|the|any|no|one|some|every|each) [\w`-]+ of (?:yours|ours|theirs)\b",
        "`your own ...`",
        "A channel is a function of yours.",
        "A channel is your own function.",
    ),
    Mark(
        r"\bends? with (?:an? )?(?:exit )?[012]\b",
        "a process exits with a code",
        "The command ends with 1.",
        "The command exits with 1.",
    ),
    Mark(
        r"\b(?:every|each|all|any|everything) (?:[\w`-]+ ){0,2}but (?!not\b)|\bbut for\b",
        "`except`",
        "Every verdict but a plain allow is an event.",
        "Every verdict except a plain allow is an event.",
    ),
    Mark(
        r"\b(?:seldom|shall|ought|lest|albeit|hence|thereof|wherein|whereof|thereby|whereby|likewise"
        r"|amid|thus|forthwith|hitherto|therein)\b",
        "written for another century",
        "An ask rule is likewise recorded.",
        "An ask rule is also recorded.",
    ),
    Mark(
        r"\b(?:goes on|go on|went on|going on)\b(?! (?:to|the|a|an)\b)",
        "`continues`",
        "The chain goes on.",
        "The chain continues.",
    ),
    Mark(
        r"\b(?:is|are|was|were) not there\b|\bthat (?:is|are) there\b",
        "`is missing`, `exists`",
        "An argument that is not there denies.",
        "A missing argument denies.",
    ),
    Mark(
        r"\b(?:is|are|was|were|be|been) met by\b",
        "say which rule matches",
        "The call is met by the rules of every server.",
        "The rules of every server match the call.",
    ),
    Mark(
        r"(?:^|[.:;] )(?:so )?not [\w`-]+ (?:is|are) ",
        "subject first",
        "Not guarded is a method that you assign later.",
        "A method that you assign later is not guarded.",
    ),
    Mark(
        r"(?:^|[.:;] )of (?:a|an|its|each|these) \w+[^.:;]* (?:is|are|has|have|does|do) ",
        "subject first",
        "Of a hook that failed the message is one sentence.",
        "When a hook fails, the message is one sentence.",
    ),
    Mark(
        r"(?:^|[.] )where (?:a|an|the|it|its|no|nothing|there|this|that|they|you|two|several"
        r"|one|both|all|any|more|only|others|your|neither|none|x) [^.?!:;]*, ",
        _ACTION,
        "Where nothing matches, the call is allowed.",
        "If no rule matches, the call is allowed.",
    ),
    Mark(
        r", where (?:there is (?:a|an|one|none)|(?:it|they) (?:has|have|is|are) "
        r"(?:a|one|none|no)\b)",
        _ACTION,
        "The span has a server, where there is one.",
        "The span has a server, if there is one.",
    ),
    Mark(
        r"(?:^|[.] )what(?:ever)? (?!is\b|are\b|to\b|if\b)"
        r"[^.?!:;,]* (?:is|are|was|has|can|may|\w+s) "
        r"[^.?!:;,]*\b(?:is|are|goes|costs|holds|counts|denies|stays|runs|has)\b[^.?!:]*[.;,]",
        "a clause as subject makes the reader wait: name the thing",
        "What a rule says and the engine does not know is an error.",
        "Unknown fields of a rule are an error.",
    ),
    Mark(
        r"\bas far as (?:it|they|that|this|we|one|the) ",
        "`if known`, or the condition itself",
        "Records carry the agent, as far as it is known.",
        "Records carry the agent, if it is known.",
    ),
    Mark(
        r"\b(?<!and )also (?:if|when|where|while|before|after|without)\b",
        "`even if`, `even when`",
        "The call waits, also if no one answers.",
        "The call waits, even if no one answers.",
    ),
    Mark(
        r"\b(?:holds?|held|holding) up\b",
        "`blocks`, `delays`",
        "A question holds up the loop.",
        "A question blocks the loop.",
    ),
    Mark(
        r"\b(?:is|are) held against\b",
        "`is compared with`",
        "A rule is held against the tools.",
        "otelhooks compares a rule with the tools.",
    ),
    Mark(
        r"\bit is so\b|\bthat is so\b|\bwhat\b[^.?!]{1,40}\bsays is so\b",
        "say what is the case",
        "It is so where a seat knows more.",
        "This happens when a seat knows more.",
    ),
    Mark(
        r"\bhave (?:a|an|the|one) (?:[\w`]+ ){1,2}(?:called|opened|asked|told)\b",
        "use the active verb",
        "Have a function called at exit.",
        "Call a function at exit.",
    ),
    Mark(
        r"\banswers? for (?:a|an|the|it|its|them|every|each)\b",
        "`handles`, `returns`",
        "The seat answers for the refused call.",
        "The seat handles the refused call.",
    ),
    Mark(
        r"\b(?:to be had|to be seen|is to be|are to be|has to know)\b",
        "`must`, or the active verb",
        "The order is to be kept.",
        "Keep the order.",
    ),
)


class Passage(NamedTuple):
    """A piece of prose: where it is, what kind of place that is, and its text in one line."""

    file: Path
    line: int
    place: str
    text: str


class Finding(NamedTuple):
    """A mark that a passage has, with the words around it."""

    passage: Passage
    mark: Mark
    excerpt: str


_FENCE = re.compile(r"^```.*?^```$|^<!--.*?-->$", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"\s*(?:[-*] |\d+\. |\||#)")
_NOT_PROSE = re.compile(r"``.+?``|`[^`]*`|\]\([^)]*\)|\"[^\"]*\"|https?://\S+")


def plain(text: str) -> str:
    """Return text in one line, with code, quotes and addresses as ``X``."""
    return " ".join(_NOT_PROSE.sub(" X ", text).split()).replace(" X ,", " X,").strip()


def marks_in(text: str) -> list[tuple[Mark, str]]:
    """Return the marks that a text has, each with the words around it."""
    text = plain(text)
    return [
        (mark, text[max(0, found.start() - 30) : found.end() + 30])
        for mark in MARKS
        for found in re.finditer(mark.pattern, text, re.IGNORECASE)
    ]


def in_markdown(file: Path) -> Iterator[Passage]:
    """Return the paragraphs, list items and table rows of a page, without its code."""
    place = {"README.md": "README", "CHANGELOG.md": "CHANGELOG"}.get(file.name, "docs")
    text = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), file.read_text(encoding="utf-8"))
    lines: list[str] = []
    start = 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if not line.strip() or _ITEM.match(line):
            if lines:
                yield Passage(file, start, place, " ".join(lines))
            lines, start = [], number
        if line.strip():
            if not lines:
                start = number
            lines.append(re.sub(r"^\s*(?:[-*>] |\d+\. |#+ )", "", line).replace("|", " . "))


def in_python(file: Path) -> Iterator[Passage]:
    """Return the docstrings, comments and messages of a module."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    docstrings: set[ast.expr] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                docstrings.add(statement.value)
                if isinstance(statement.value.value, str):
                    for paragraph, line in paragraphs(statement.value.value, statement.lineno):
                        yield Passage(file, line, "docstrings", paragraph)
    parts = {
        part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                part.value if isinstance(part, ast.Constant) else " X " for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node in docstrings or node in parts:
                continue
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield Passage(file, node.lineno, "messages", text)
    yield from comments(file, source)


def paragraphs(text: str, line: int) -> Iterator[tuple[str, int]]:
    """Return the paragraphs of a docstring and their lines; an ``Args:`` entry is one."""
    for piece in re.split(r"(\n\s*\n|\n(?=\s+\w+: ))", text):
        if piece.strip():
            yield piece, line
        line += piece.count("\n")


def comments(file: Path, source: str) -> Iterator[Passage]:
    """Return the comments of a module; lines that follow each other are one."""
    texts: list[str] = []
    start = end = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != end + 1 and texts:
            yield Passage(file, start, "comments", " ".join(texts))
            texts = []
        if not texts:
            start = token.start[0]
        texts.append(token.string.lstrip("#: "))
        end = token.start[0]
    if texts:
        yield Passage(file, start, "comments", " ".join(texts))


def passages() -> Iterator[Passage]:
    """Return all prose of the repository that a user or a reader of the code meets."""
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]:
        yield from in_markdown(page)
    for module in sorted((ROOT / "otelhooks").rglob("*.py")):
        yield from in_python(module)


def findings(prose: Iterable[Passage]) -> list[Finding]:
    """Return the marks of all passages, in order."""
    return [Finding(each, mark, at) for each in prose for mark, at in marks_in(each.text)]


def main() -> int:
    """Print findings, or with ``--count`` how many each place has; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", action="store_true", help="print how many marks each place has")
    parser.add_argument("paths", nargs="*", help="only files whose path contains one of these")
    given = parser.parse_args()
    found = findings(
        each
        for each in passages()
        if not given.paths or any(part in each.file.as_posix() for part in given.paths)
    )
    if given.count:
        for place, count in Counter(each.passage.place for each in found).most_common():
            sys.stdout.write(f"{place:12}{count:6}\n")
        return 0
    for each in found:
        where = f"{each.passage.file.relative_to(ROOT)}:{each.passage.line}"
        sys.stdout.write(f"{where}: ...{each.excerpt}...\n    {each.mark.reason}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
