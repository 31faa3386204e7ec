"""The pages of the console."""

from __future__ import annotations

import functools
import json
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from otelhooks.approvals.questions import Answer, Question, questions_at
from otelhooks.errors import ConfigError
from otelhooks.plain_text import sanitize
from otelhooks.store.reader import AmbiguousTraceError, Store, Wanted
from otelhooks.store.schema import StoreError
from otelhooks.ui import views
from otelhooks.ui.guard import Guard, form_token

__all__ = ["Settings", "create_app"]

_FOLDER = str(resources.files("otelhooks.ui"))
_MOST_BODY = 1_000_000
_FILTERS = ("agent", "tool", "rule", "decision")


@dataclass(frozen=True, slots=True)
class Settings:
    """What one console shows, and to whom.

    Attributes:
        store: The store's file.
        questions: Where questions are kept, if not in the store: ``redis://...``.
        port: The port that it listens on.
        token: What a browser must know.
        approver: Who answers, as traces name it.
        can_answer: Whether questions can be answered here, or are only shown.
    """

    store: Path
    questions: str | None
    port: int
    token: str
    approver: str
    can_answer: bool = True

    @classmethod
    def of_start(cls, **given: Any) -> Settings:
        """Return settings with a new token."""
        return cls(token=secrets.token_urlsafe(32), **given)

    @property
    def address(self) -> str:
        """The address of the console, with the token."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"


def create_app(settings: Settings) -> Starlette:
    """Return the console as an ASGI application, guarded."""
    pages = _Pages(settings)
    routes = [
        Route("/", pages.live),
        Route("/live", pages.live_rows),
        Route("/runs", pages.runs),
        Route("/runs/{id}", pages.run),
        Route("/approvals", pages.approvals),
        Route("/approvals/waiting", pages.approvals_waiting),
        Route("/approvals/{id}", pages.approval),
        Route("/approvals/{id}", pages.answer, methods=["POST"]),
        Mount("/static", StaticFiles(directory=os.path.join(_FOLDER, "static"))),
    ]
    guard = Middleware(Guard, port=settings.port, token=settings.token)
    handlers: Any = {ConfigError: pages.problem, 404: pages.missing}
    return Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)


_Page = Callable[["_Pages", Request], Response]


def _in_a_thread(page: _Page) -> Callable[[_Pages, Request], Awaitable[Response]]:
    """Run a page, which reads files, beside the event loop."""

    @functools.wraps(page)
    async def run(self: _Pages, request: Request) -> Response:
        return await run_in_threadpool(page, self, request)

    return run


class _Pages:
    def __init__(self, settings: Settings) -> None:
        self._settings, self._store = settings, Store(settings.store)
        loader = jinja2.FileSystemLoader(os.path.join(_FOLDER, "templates"))
        self._templates = jinja2.Environment(
            loader=loader, autoescape=True, undefined=jinja2.StrictUndefined
        )
        self._templates.filters["plain"] = sanitize

    # -- calls and runs -------------------------------------------------------------------------

    @_in_a_thread
    def live(self, request: Request) -> Response:
        return self._page("live.html", "live", **self._calls(request))

    @_in_a_thread
    def live_rows(self, request: Request) -> Response:
        return self._page("live_rows.html", "live", **self._calls(request))

    def _calls(self, request: Request) -> dict[str, Any]:
        given = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
        wanted = Wanted(**{name: given[name] or None for name in ("agent", "tool", "rule")})
        calls = views.calls(self._store, wanted, given["decision"])
        return {"calls": calls, "filters": given, "query": str(request.query_params)}

    @_in_a_thread
    def runs(self, request: Request) -> Response:
        is_denied = "denied" in request.query_params
        return self._page(
            "runs.html", "runs", runs=views.runs(self._store, denied=is_denied), denied=is_denied
        )

    @_in_a_thread
    def run(self, request: Request) -> Response:
        try:
            found = self._store.trace(request.path_params["id"])
        except AmbiguousTraceError:
            found = None
        if found is None:
            return self.missing(request, None)
        is_whole = "content" in request.query_params
        tree = views.tree(found, is_whole=is_whole)
        return self._page("run.html", "runs", trace=found.trace_id, tree=tree, is_whole=is_whole)

    # -- questions --------------------------------------------------------------------------------

    @_in_a_thread
    def approvals(self, request: Request) -> Response:
        return self._page("approvals.html", "approvals", **self._waiting())

    @_in_a_thread
    def approvals_waiting(self, request: Request) -> Response:
        return self._page("approvals_waiting.html", "approvals", **self._waiting())

    def _waiting(self) -> dict[str, Any]:
        found = [views.question(one) for one in self._questions().all()]
        waiting = [one for one in found if one.is_open]
        return {"waiting": waiting, "ended": [one for one in found if not one.is_open][::-1][:50]}

    @_in_a_thread
    def approval(self, request: Request) -> Response:
        question = self._questions().find(request.path_params["id"])
        return self._approval(question)

    def _approval(self, question: Question, problem: str = "", status: int = 200) -> Response:
        return self._page(
            "approval.html",
            "approvals",
            status=status,
            question=views.question(question),
            digest=question.digest,
            problem=problem,
        )

    async def answer(self, request: Request) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _MOST_BODY:
                return Response("The form is too large.\n", 413)
        form = {name: texts[-1] for name, texts in parse_qs(body.decode()).items()}
        return await run_in_threadpool(self._answer, request.path_params["id"], form)

    def _answer(self, id: str, form: Mapping[str, str]) -> Response:
        expected = form_token(self._settings.token)
        if not self._settings.can_answer or not secrets.compare_digest(
            form.get("form", "").encode(), expected.encode()
        ):
            return Response("This console only shows questions.\n", 403)
        questions = self._questions()
        question = questions.pending(id)
        if form.get("digest") != question.digest:
            return self._approval(question, "The question has changed: read it again.", 409)
        status = {"approve": "approved", "deny": "rejected"}.get(form.get("answer", ""))
        if status is None:
            return self._approval(question, "Choose an answer.", 400)
        try:
            edit = _edit(form.get("args", ""), question) if status == "approved" else None
        except ValueError as error:
            return self._approval(question, f"The arguments cannot be read: {error}", 400)
        questions.answer(question, Answer(status, self._settings.approver, edit))
        return RedirectResponse("/approvals", 303)

    def _questions(self) -> Any:
        return questions_at(self._settings.questions or self._settings.store)

    # -- all pages --------------------------------------------------------------------------------

    def _page(self, name: str, here: str, status: int = 200, **shown: Any) -> HTMLResponse:
        common = {
            "here": here,
            "form": form_token(self._settings.token),
            "can_answer": self._settings.can_answer,
            "approver": self._settings.approver,
        }
        return HTMLResponse(self._templates.get_template(name).render(common | shown), status)

    def problem(self, request: Request, error: Exception) -> Response:
        is_missing = isinstance(error, StoreError) and error.cause == "missing"
        text = "Nothing is stored yet: run a program under otelhooks." if is_missing else str(error)
        return self._page("problem.html", "", 200 if is_missing else 400, text=text)

    def missing(self, request: Request, error: Exception | None) -> Response:
        return self._page("problem.html", "", 404, text="There is no such page.")


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
