"""The questions that wait for a person, and their answers."""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from otelhooks.approvals.layout import argument, mark
from otelhooks.approvals.places import questions_at
from otelhooks.approvals.questions import Answer, Question, doubts
from otelhooks.hooks.calls import same_json
from otelhooks.plain_text import is_unseen, one_line, sanitize
from otelhooks.store import terminal
from otelhooks.ui.site import Site

__all__ = ["answer", "approval", "approvals", "count", "waiting"]

_MOST_ROWS = 60
_COLUMNS = 90
_NAME = 60
_ANSWERED = 50
_GRACE_S = 5.0
"""How long a process has for taking an answer of this console before people read of it."""
_BLANKS = re.compile(r"(?<=\S) {9,}")
"""Blanks in a text that could push the rest of it out of sight."""


@dataclass(frozen=True, slots=True)
class _Shown:
    id: str
    tool: str
    status: str
    is_open: bool
    by: str
    needs: int
    wanted: str
    asked: str
    until: str
    is_taken: bool
    is_parked: bool
    is_edited: bool
    args: str
    marked: list[str]
    facts: defaultdict[str, str]


def approvals(site: Site, request: Request) -> Response:
    """Show the questions that wait, and the last that were answered."""
    return site.page("approvals.html", "approvals", **_all(site))


def waiting(site: Site, request: Request) -> Response:
    """Show the same as a part of the page."""
    return site.page("approvals_waiting.html", "approvals", **_all(site))


def count(site: Site, request: Request) -> Response:
    """Say how many questions wait, if any."""
    waiting = sum(one.status == "pending" for one in _questions(site).all())
    return HTMLResponse(str(waiting or ""))


def _all(site: Site) -> dict[str, Any]:
    found = [_shown(one) for one in _questions(site).all()]
    ended = [one for one in found if not one.is_open][::-1]
    now = time.monotonic()
    fresh = {id for id, at in site.answered.items() if now - at < _GRACE_S}
    waiting = [one for one in found if one.is_open]
    return {"waiting": waiting, "ended": ended[:_ANSWERED], "fresh": fresh}


def approval(site: Site, request: Request) -> Response:
    """Show one question."""
    return _page(site, _questions(site).find(request.path_params["id"]))


async def answer(site: Site, request: Request) -> Response:
    """Take an answer."""
    return await site.with_form(request, _answer)


def _answer(site: Site, request: Request, form: Mapping[str, str]) -> Response:
    id = request.path_params["id"]
    questions = _questions(site)
    question = questions.pending(id)
    if form.get("digest") != question.digest:
        return _page(site, question, "The question has changed: read it again.", 409)
    status = {"approve": "approved", "deny": "rejected"}.get(form.get("answer", ""))
    if status is None:
        return _page(site, question, "Choose an answer.", 400)
    args = form.get("args", "")
    try:
        edit = _edit(args, question) if status == "approved" else None
    except (ValueError, RecursionError) as error:
        return _page(site, question, f"The arguments cannot be read: {error}", 400, args)
    by = site.settings
    warning = doubts(question, edit)
    if warning and form.get("warned") != warning:
        problem = f"Check the edit: {warning}. Approve again if it is right."
        return _page(site, question, problem, 400, args, warning)
    questions.answer(question, Answer(status, by.approver, edit, roles=by.roles))
    site.answered[question.id] = time.monotonic()
    return RedirectResponse(f"{site.settings.root}/approvals", 303)


def _questions(site: Site) -> Any:
    return questions_at(site.settings.questions or site.settings.store)


def _page(
    site: Site,
    question: Question,
    problem: str = "",
    status: int = 200,
    args: str | None = None,
    warned: str = "",
) -> Response:
    """Return the page of a question; with arguments as a person has changed them, if given."""
    shown = _shown(question)
    text = shown.args if args is None else args
    rows = sum(1 + len(line) // _COLUMNS for line in text.splitlines())
    return site.page(
        "approval.html",
        "approvals",
        status=status,
        question=shown,
        args=text,
        rows=min(rows + 1, _MOST_ROWS),
        digest=question.digest,
        problem=problem,
        warned=warned,
    )


def _shown(found: Question) -> _Shown:
    facts = found.facts
    args: dict[str, Any] = facts.get("args", {})
    return _Shown(
        id=found.id,
        tool=one_line(found.tool, _NAME),
        status=found.status,
        is_open=found.status == "pending",
        by=one_line(found.by),
        needs=found.needs,
        wanted=one_line(found.wanted),
        asked=terminal.clock(int(found.asked_at * 1e9)),
        until=terminal.clock(int(found.expires_at * 1e9), with_date=False).partition(".")[0],
        is_taken=found.taken,
        is_parked=bool(found.parked),
        is_edited=bool(found.edit),
        args=_readable(args),
        # Another version may ask with fewer facts.
        marked=[argument(name) + why for name, value in args.items() if (why := mark(name, value))],
        facts=defaultdict(str, ((n, sanitize(v)) for n, v in facts.items() if n != "args")),
    )


def _readable(args: Any) -> str:
    """Return arguments as JSON in which a person sees each character, however it is written."""
    text = json.dumps(args, indent=2, ensure_ascii=False)
    text = _BLANKS.sub(lambda found: r"\u0020" * len(found[0]), text)
    return "".join(
        json.dumps(char)[1:-1] if char != "\n" and is_unseen(char) else char for char in text
    )


def _edit(text: str, question: Question) -> dict[str, Any] | None:
    """Return the arguments that an approver has changed, None if there are none.

    Raises:
        ValueError: They are not a JSON object, or one of them was removed.
        RecursionError: They are nested too deeply.
    """
    given: Any = json.loads(text)
    args: dict[str, Any] = question.facts["args"]
    if not isinstance(given, dict):
        raise ValueError("write a JSON object")
    if missing := [name for name in args if name not in given]:
        raise ValueError(f"`{missing[0]}` is missing; change its value instead")
    items = cast("dict[str, Any]", given).items()
    return {
        name: value for name, value in items if name not in args or not same_json(args[name], value)
    } or None
