"""`otelhooks approvals`: see the calls that wait for a person, and answer them."""

from __future__ import annotations

import json
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from otelhooks.cli import ExitCode, options
from otelhooks.errors import ConfigError
from otelhooks.plain_text import one_line, sanitize, without_credentials

if TYPE_CHECKING:
    from otelhooks import types
    from otelhooks.approvals.questions import Answer, Question, Questions

_TAKEN_S = 2.0
"""Longest wait, in seconds, for the process that asked to take its answer."""

_id = click.argument("id", metavar="ID")
_store = options.store("place", "The store, or redis://HOST:PORT/NUMBER", click.STRING)
_approver = options.person("approver", "Who answers")


@click.group()
def approvals() -> None:
    """Answer calls that wait for a person.

    They come from programs whose approval channel is `otelhooks.approvals.Queue`. ID is the first
    column of `otelhooks approvals list`.
    """


@approvals.command("list")
@_store
@click.option("--all", "is_all", is_flag=True, help="Include those that ended in the last week.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def list_command(place: str | None, is_all: bool, as_json: bool) -> None:
    """List waiting calls, oldest first."""
    found = _questions(place).all()
    shown = [one for one in found if is_all or one.status == "pending"]
    for question in shown:
        click.echo(json.dumps(_record(question)) if as_json else _row(question))
    if not shown and not as_json:
        click.echo(one_line(f"no call waits for an answer in `{_where(place)}`"), err=True)


@approvals.command("show")
@_id
@_store
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_command(id: str, place: str | None, as_json: bool) -> None:
    """Show a call with all of its arguments."""
    question = _questions(place).find(id)
    if as_json:
        click.echo(json.dumps(_record(question)))
        return
    click.echo(_row(question))
    for line in _lines(question):
        click.echo(line)


@approvals.command("approve")
@_id
@_store
@_approver
@options.roles
@click.option(
    "--edit",
    metavar="JSON",
    help="Arguments to change first, a JSON object; rules judge the changed call.",
)
def approve_command(
    id: str,
    place: str | None,
    approver: str | None,
    roles: tuple[str, ...],
    edit: str | None,
) -> None:
    """Let a call run, once, with the arguments that you are shown.

    Asks you to type a code that only a terminal shows: an agent that can run commands must not
    approve its own calls.

    Exit code 0: the call continues, or will when its paused run is resumed; 1: you left the
    question open, or the program did not take the answer; 2: you could not be asked.
    """
    from otelhooks.approvals.console import Console
    from otelhooks.approvals.layout import full, named, summary
    from otelhooks.approvals.questions import Answer, check, doubts

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            "approving needs a terminal, where a person reads the call",
            hint="run the command in one; `deny` works without",
        )
    questions, changes = _questions(place), _changes(edit)
    question = questions.pending(id)
    answer = Answer("approved", approver or options.user_name(), changes, "human", roles)
    check(question, answer)  # before a person reads the call and types the code
    call, console = _call(question, changes), Console()
    reason = question.facts.get("reason", "")
    what = named(call, question.facts.get("rule", ""))
    title = f"Approve {question.id}{', as edited' if changes else ''}:"
    code = f"{secrets.randbelow(10_000):04}"
    while True:
        for line in summary(title, call, reason, console.size):
            console.say(line)
        if question.wanted:
            by = f"; {question.by} has" if question.by else ""
            console.say(one_line(f"Approvers: {question.wanted} must approve{by}"))
        if warning := doubts(question, changes):
            console.say(f"Warning: {warning}")
        try:
            typed = console.ask(
                f"Type {code} to approve {what}, a shows all, Enter leaves it open: "
            )
        except EOFError:
            typed = ""
        if typed.strip().lower() != "a":
            break
        for line in full(call, reason, console.size):
            console.say(line)
    if typed.strip() != code:
        click.echo("not approved; the call still waits", err=True)
        sys.exit(ExitCode.NO)
    _answer(questions, question, answer)


@approvals.command("deny")
@_id
@_store
@_approver
def deny_command(id: str, place: str | None, approver: str | None) -> None:
    """Refuse a call.

    Exit code 0: refused; 1: the program did not take the answer; 2: the question is not open.
    """
    from otelhooks.approvals.questions import Answer

    questions = _questions(place)
    kind = "human" if sys.stdin.isatty() else "service"
    answer = Answer("rejected", approver or options.user_name(), kind=kind)
    _answer(questions, questions.pending(id), answer)


def _where(place: str | None) -> str:
    from otelhooks.store import schema

    if place is not None and "://" in place:
        return without_credentials(place)
    return place or str(schema.default_store_path())


def _questions(place: str | None) -> Questions:
    from otelhooks.approvals.places import questions_at
    from otelhooks.store import schema

    if place is None or "://" not in place:
        path = Path(place) if place else schema.default_store_path()
        if not path.exists():
            raise schema.StoreError(path, "missing")
    return questions_at(place)


def _answer(questions: Questions, question: Question, answer: Answer) -> None:
    status = answer.status
    if questions.answer(question, answer) == "pending":
        now = questions.find(question.id)
        left = " and ".join(now.missing) or question.wanted
        click.echo(one_line(f"approved by {now.by}; {left} must approve"), err=True)
        return
    if question.parked:
        tool = one_line(question.tool)
        click.echo(f"{status} {tool}; its run takes the answer when it is resumed", err=True)
        return
    deadline = time.monotonic() + _TAKEN_S
    while time.monotonic() < deadline:
        if questions.find(question.id).taken:
            click.echo(f"{status} {one_line(question.tool)}", err=True)
            return
        time.sleep(0.05)
    click.echo(
        f"otelhooks: warning: {_program(question)} has not taken the answer in {_TAKEN_S:.0f} s\n"
        "hint: if it has ended, its call will not run; start it again, and it asks again",
        err=True,
    )
    sys.exit(ExitCode.NO)


def _changes(edit: str | None) -> dict[str, Any] | None:
    if edit is None:
        return None
    try:
        found: Any = json.loads(edit)
    except ValueError as error:
        raise ConfigError(
            f"--edit is not JSON: {error}", hint='give an object, such as {"x": 1}'
        ) from None
    if not isinstance(found, dict):
        raise ConfigError("--edit is not a JSON object", hint='give one, such as {"x": 1}')
    return cast("dict[str, Any]", found)


def _call(question: Question, edit: dict[str, Any] | None = None) -> types.ToolCall:
    from otelhooks import types

    facts = question.facts
    return types.ToolCall(
        name=question.tool,
        args={**facts.get("args", {}), **(edit or {})},
        server_name=facts.get("server") or None,
        branch=facts.get("agent", ""),
    )


def _lines(question: Question) -> list[str]:
    from otelhooks.approvals.console import Console
    from otelhooks.approvals.layout import full

    facts = question.facts
    if not facts:
        return ["  arguments and reason were erased when the question ended"]
    rule, trace = one_line(facts["rule"]), one_line(facts["trace"])
    return [
        *full(_call(question), facts["reason"], Console().size),
        f"  rule: {rule}",
        *([f"  trace: {trace}"] if trace else []),
        *([one_line(f"  approvers: {question.wanted} must approve")] if question.wanted else []),
        f"  program: {_program(question)}",
    ]


def _row(question: Question) -> str:
    facts = question.facts
    left = question.expires_at - time.time()
    is_open = question.status == "pending"
    what = f"{_span(left)} left" if is_open else question.status
    by = f"{', approved' if is_open else ''} by {question.by}" if question.by else ""
    if question.status == "approved" and not question.taken:
        why = "its run waits to be resumed" if question.parked else "the program may have ended"
        by += f", but no process has taken the answer: {why}"
    words = (question.id, f"{what}{by}", sanitize(question.tool), facts.get("agent", ""))
    return one_line("  ".join(filter(None, (*words, _program(question)))))


def _program(question: Question) -> str:
    facts = question.facts
    if not facts:
        return ""
    where = "parked" if question.parked else f"pid {facts['pid']}"
    return one_line(f"{facts['program']} ({where})")


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _record(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "status": question.status,
        "asked_at": question.asked_at,
        "expires_at": question.expires_at,
        "tool": question.tool,
        "approver": question.by,
        "taken": bool(question.taken),
        **question.facts,
    }
