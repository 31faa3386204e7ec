"""A first policy with its cases, from a few answers, and the line that puts it in force."""

from __future__ import annotations

import ast
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from otelhooks.cli.project.survey import Started, Survey
from otelhooks.hooks.calls import Call
from otelhooks.policy.selectors import Selector
from otelhooks.policy_tools.learn import quoted
from otelhooks.policy_tools.subject import Subject

__all__ = [
    "CASES",
    "POLICY",
    "Answers",
    "arguments",
    "completed",
    "line",
    "policy",
    "suggested",
    "suite",
]

POLICY, CASES = "policies/agents.yaml", "policies/cases/agents.yaml"

_DENIED = frozenset(
    (
        "delete destroy drop erase kill purge remove revoke rm terminate truncate uninstall wipe"
    ).split()
)
_ASKED = frozenset(
    (
        "bash buy charge checkout cmd command deploy edit email eval exec execute mail merge order"
        " pay payment post publish purchase push refund run send shell sms sql submit transfer"
        " tweet update upload write"
    ).split()
)
_READING = frozenset("check count fetch find get list look lookup read search show view".split())
_READ = frozenset("email mail order payment refund sms tweet".split())
"""Things that a tool may read without a question, such as `read_mail`."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_HEAD = """\
# A first policy, written by `otelhooks init`.
{about_mode}
version: 1
mode: {mode}
"""
_ABOUT_MODE = {
    "monitor": """\
# In monitor mode denies and questions are recorded, and nothing is stopped. When the traces show
# what you expect, write `mode: enforce`.""",
    "enforce": "# With `mode: monitor` denies and questions are only recorded.",
}
_RULES = {
    "deny": """\
  - deny: {tool}
    reason: This tool is not allowed here. Find another way, or say that you cannot.
    severity: high
""",
    # Without a reason: the model would read it for a refusal, and the approver as a question.
    "ask": """\
  - ask: {tool}
    severity: medium
""",
}
_CASE = """\
  - name: {name}
    call: {call}
    verdict: {verdict}
"""


class Answers(NamedTuple):
    """What the user wants.

    Args:
        deny: Tools, as rules name them, that must not run.
        ask: Tools about which a person is asked.
        spans: ``local``, ``collector`` or ``none``.
        mode: ``monitor`` or ``enforce``.
    """

    deny: tuple[str, ...]
    ask: tuple[str, ...]
    spans: str
    mode: str

    @property
    def rules(self) -> list[tuple[str, str]]:
        """Verb and tool of each rule."""
        return [("deny", tool) for tool in self.deny] + [("ask", tool) for tool in self.ask]


def suggested(survey: Survey) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return tools to deny and tools to ask about, by the words of their names.

    If no tool has such a name, those that any agent may have: deletions, and the shells of
    frameworks.
    """
    deny: list[str] = []
    ask: list[str] = []
    for tool in survey.tools:
        words = [word.lower() for word in _WORD.findall(tool.name)]
        reads = bool(words) and words[0] in _READING
        if not _DENIED.isdisjoint(words):
            deny.append(tool.name)
        elif not (_ASKED - _READ if reads else _ASKED).isdisjoint(words):
            ask.append(tool.name)
    if not deny and not ask:
        return ("delete_*",), ("run_command",)
    return tuple(deny), tuple(ask)


def policy(answers: Answers) -> str:
    """Return the text of the policy."""
    rules = [_RULES[verb].format(tool=quoted(tool)) for verb, tool in answers.rules]
    head = "policies:" if rules else "policies: []"
    return "".join(
        (_HEAD.format(mode=answers.mode, about_mode=_ABOUT_MODE[answers.mode]), f"{head}\n", *rules)
    )


def suite(answers: Answers, survey: Survey) -> str:
    """Return the text of the cases: a call for each rule, and one that no rule is about.

    The policy is loaded and judges each call, so that the cases hold where one rule goes before
    another.
    """
    named = {tool for _, tool in answers.rules}
    others = [tool.name for tool in survey.tools if tool.name not in named]
    calls = [(f"{verb} {tool}", _example(tool)) for verb, tool in answers.rules]
    calls.append(("what no rule names", {"tool": (others or ["look_up"])[0]}))
    with tempfile.TemporaryDirectory(prefix="otelhooks-init-") as folder:
        file = Path(folder) / "agents.yaml"
        file.write_text(policy(answers), encoding="utf-8")
        judge = Subject.open([file]).dry_run(mode="enforce").judge
        verdicts = [judge(_call(about)).decision for _, about in calls]
    cases = [
        _CASE.format(name=quoted(name), call=quoted(about), verdict=verdict)
        for (name, about), verdict in zip(calls, verdicts, strict=True)
    ]
    return (
        "suite: agents\n"
        "mode: enforce  # what the rules decide, even while the policy is in monitor mode\n"
        "cases:\n" + "".join(cases)
    )


def _example(tool: str) -> dict[str, str]:
    """Return a call that a rule is about, in the form of cases."""
    selector = Selector(tool)
    if selector.kind is not None:
        return {"tool": "a_tool", "kind": selector.kind}
    parts = {"tool": selector.tool, "server": selector.server}
    return {key: _one_of(text) for key, text in parts.items() if text is not None}


def _one_of(glob: str) -> str:
    """Return a text that a glob of the usual form matches."""
    text = re.sub(r"\[.[^]]*\]", lambda found: found[0][1], glob)
    return text.replace("*", "thing").replace("?", "x")


def _call(about: dict[str, str]) -> Call:
    further: dict[str, Any] = {key: value for key, value in about.items() if key != "tool"}
    return Call(about["tool"], {}, **further)


def line(answers: Answers, *, imports: bool) -> str:
    """Return the one line that a program needs.

    Args:
        answers: Whose policy it is.
        imports: Whether the program imports otelhooks already.
    """
    return f"{'' if imports else 'import otelhooks; '}otelhooks.instrument({arguments(answers)})"


def completed(answers: Answers, started: Started) -> str:
    """Return the text of a call of ``instrument()`` with what it lacks; empty if that is nothing.

    It is on one line, and without comments.
    """
    call = started.call
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    before = _listed(given["policies"]) if "policies" in given else []
    if not any(isinstance(each, ast.Constant) and _is_policy(each.value) for each in before):
        given["policies"] = ast.List([*before, ast.Constant(POLICY)])
    if answers.ask and "approvals" not in given:
        module = started.module or "otelhooks"
        given["approvals"] = ast.parse(f"{module}.approvals.Terminal()", mode="eval").body
    if list(given.values()) == [keyword.value for keyword in call.keywords]:
        return ""
    keywords = [ast.keyword(name, value) for name, value in given.items()]
    return ast.unparse(ast.Call(call.func, call.args, keywords))


def _listed(value: ast.expr) -> list[ast.expr]:
    """Return what is given as ``policies=``, as items of a list."""
    if isinstance(value, (ast.List, ast.Tuple)):
        return value.elts
    if isinstance(value, ast.Constant):
        words = value.value.split(",") if isinstance(value.value, str) else ()
        return [ast.Constant(word.strip()) for word in words]
    # A path is one item; anything else is a sequence.
    is_path = any(
        isinstance(node, (ast.Div, ast.JoinedStr)) or getattr(node, "id", None) == "Path"
        for node in ast.walk(value)
    )
    return [value if is_path else ast.Starred(value)]


def _is_policy(value: object) -> bool:
    """Return whether a text is the path of the policy, or of its folder."""
    policy = PurePosixPath(POLICY)
    return isinstance(value, str) and PurePosixPath(value) in (policy, policy.parent)


def arguments(answers: Answers) -> str:
    """Return the arguments of ``instrument()``; rules that ask need an approver."""
    asks = ", approvals=otelhooks.approvals.Terminal()" if answers.ask else ""
    return f'policies="{POLICY}"{asks}'
