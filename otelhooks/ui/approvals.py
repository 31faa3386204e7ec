"""The questions that wait for a person, and their answers."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from otelhooks.approvals.questions import Answer, Question, questions_at
from otelhooks.plain_text import one_line, sanitize
from otelhooks.store import terminal
from otelhooks.ui.site import Site

__all__ = ["answer", "approval", "approvals", "waiting"]

_MOST_BODY = 1_000_000
_NAME = 60
_ANSWERED = 50


@dataclass(frozen=True, slots=True)
class _Shown:
    id: str
    tool: str
    status: str
    is_open: bool
    approver: str
    needs: int
    asked: str
    left: str
    args: str
    facts: dict[str, Any]


def approvals(site: Site, request: Request) -> Response:
    """Show the questions that wait, and the last that were answered."""
    return site.page("approvals.html", "approvals", **_all(site))


def waiting(site: Site, request: Request) -> Response:
    """Show the same as a part of the page."""
    return site.page("approvals_waiting.html", "approvals", **_all(site))


def _all(site: Site) -> dict[str, Any]:
    found = [_shown(one) for one in _questions(site).all()]
    ended = [one for one in found if not one.is_open][::-1]
    return {"waiting": [one for one in found if one.is_open], "ended": ended[:_ANSWERED]}


def approval(site: Site, request: Request) -> Response:
    """Show one question."""
    return _page(site, _questions(site).find(request.path_params["id"]))


async def answer(site: Site, request: Request) -> Response:
    """Take an answer."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BODY:
            return Response("The form is too large.\n", 413)
    form = {name: texts[-1] for name, texts in parse_qs(body.decode()).items()}
    return await run_in_threadpool(_answer, site, request.path_params["id"], form)


def _answer(site: Site, id: str, form: Mapping[str, str]) -> Response:
    if not site.settings.can_answer or not secrets.compare_digest(
        form.get("form", "").encode(), site.form.encode()
    ):
        return Response("This console only shows questions.\n", 403)
    questions = _questions(site)
    question = questions.pending(id)
    if form.get("digest") != question.digest:
        return _page(site, question, "The question has changed: read it again.", 409)
    status = {"approve": "approved", "deny": "rejected"}.get(form.get("answer", ""))
    if status is None:
        return _page(site, question, "Choose an answer.", 400)
    try:
        edit = _edit(form.get("args", ""), question) if status == "approved" else None
    except ValueError as error:
        return _page(site, question, f"The arguments cannot be read: {error}", 400)
    questions.answer(question, Answer(status, site.settings.approver, edit))
    return RedirectResponse("/approvals", 303)


def _questions(site: Site) -> Any:
    return questions_at(site.settings.questions or site.settings.store)


def _page(site: Site, question: Question, problem: str = "", status: int = 200) -> Response:
    return site.page(
        "approval.html",
        "approvals",
        status=status,
        question=_shown(question),
        digest=question.digest,
        problem=problem,
    )


def _shown(found: Question) -> _Shown:
    """Return a question with its arguments as JSON, whole and without control characters."""
    left = max(found.expires_at - time.time(), 0.0)
    facts = found.facts
    return _Shown(
        id=found.id,
        tool=one_line(found.tool, _NAME),
        status=found.status,
        is_open=found.status == "pending",
        approver=found.approver,
        needs=found.needs,
        asked=terminal.clock(int(found.asked_at * 1e9)),
        left=terminal.duration(left),
        args=json.dumps(facts.get("args", {}), indent=2),
        facts={name: sanitize(value) for name, value in facts.items() if name != "args"},
    )


def _edit(text: str, question: Question) -> dict[str, Any] | None:
    """Return the arguments that an approver has changed, None if there are none.

    Raises:
        ValueError: They are not a JSON object, or one of them was removed.
    """
    given: Any = json.loads(text)
    args: dict[str, Any] = question.facts["args"]
    if not isinstance(given, dict):
        raise ValueError("write a JSON object")
    if missing := [name for name in args if name not in given]:
        raise ValueError(f"`{missing[0]}` is missing; change its value instead")
    items = cast("dict[str, Any]", given).items()
    return {name: value for name, value in items if name not in args or args[name] != value} or None
