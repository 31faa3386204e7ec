"""What all pages of the console share: its settings, its templates, and its errors."""

from __future__ import annotations

import functools
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs

import jinja2
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from otelhooks.errors import ConfigError
from otelhooks.plain_text import counted, sanitize
from otelhooks.policy.stops import Place, Stop
from otelhooks.process import environment
from otelhooks.setup.stop_places import place_of
from otelhooks.store.reader import Store
from otelhooks.store.schema import StoreError
from otelhooks.ui.guard import form_token
from otelhooks.ui.links import check_address, grafana_link

if TYPE_CHECKING:
    from otelhooks.ui.servers import Server

__all__ = ["FOLDER", "Settings", "Site"]

_MOST_BODY = 16_000_000
FOLDER = str(resources.files("otelhooks.ui"))


@dataclass(frozen=True, slots=True)
class Settings:
    """What one console shows, and to whom.

    Attributes:
        store: The store's file.
        port: The port that it listens on.
        root: The path that all pages are below, which only a browser that was given it knows.
        token: What a browser must know as well, and moves into a cookie.
        approver: Who answers, as traces name it.
        roles: For which roles they approve.
        questions: Where questions are kept, if not in the store: ``redis://...``.
        can_answer: Whether questions can be answered here, or are only shown.
        policies: What the policy page shows, as ``policies=`` takes it.
        candidate: The policies that the same calls are put to.
        audit: The audit trail; None for this user's.
        server: ``jaeger`` or ``tempo`` and its address, if traces are read from there.
        headers: Sent to that server.
        grafana: Base address of a Grafana that shows the same traces; empty for none.
        listening: The token of programs that read ``/events``; empty for none.
    """

    store: Path
    port: int
    root: str
    token: str
    approver: str
    questions: str | None = None
    can_answer: bool = True
    policies: tuple[str, ...] = ()
    candidate: tuple[str, ...] = ()
    audit: str | None = None
    roles: tuple[str, ...] = ()
    server: tuple[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    grafana: str = ""
    listening: str = ""

    @classmethod
    def of_start(cls, **given: Any) -> Settings:
        """Return settings with a new path and token."""
        return cls(root=f"/{secrets.token_urlsafe(16)}", token=secrets.token_urlsafe(32), **given)

    @property
    def address(self) -> str:
        """The address of the console, with the token."""
        return f"http://127.0.0.1:{self.port}{self.root}/?token={self.token}"


class Site:
    """One console.

    Args:
        settings: What it shows.

    Attributes:
        settings: The same.
        server: Where traces are read from, if not from the store.
        store: Opened for each call.
        form: The token that each form carries.
        stops: Where stops are kept; None if they are off.
        answered: When this console answered which question, by a monotonic clock.
        over: Set when the console ends: streams must end as well.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings: Settings = settings
        self.server: Server | None = None
        if settings.server is not None:
            from otelhooks.ui.servers import open_server  # the SDK takes a while to load

            self.server = open_server(*settings.server, settings.headers, settings.grafana)
        elif settings.grafana:
            check_address(settings.grafana)
        self.store: Store = self.server or Store(settings.store)
        self.form: str = form_token(settings.token)
        self.stops: Place | None = place_of(environment.stops())
        self.answered: dict[str, float] = {}
        self.over: threading.Event = threading.Event()
        loader = jinja2.FileSystemLoader(os.path.join(FOLDER, "templates"))
        self._templates = jinja2.Environment(
            loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
        )
        filters = cast("dict[str, Any]", self._templates.filters)
        filters.update(plain=sanitize, counted=counted)

    def route(
        self, path: str, page: Callable[..., Any], methods: Sequence[str] = ("GET",)
    ) -> Route:
        """Return the route of a page: a function of the site and a request.

        Pages read files, so Starlette runs them beside the event loop, unless they are coroutines.
        """
        return Route(path, functools.partial(page, self), methods=methods)

    async def with_form(
        self, request: Request, work: Callable[[Site, Request, Mapping[str, str]], Response]
    ) -> Response:
        """Run what a form of the console asks for; another form changes nothing."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _MOST_BODY:
                return Response("The form is too large.\n", 413)
        fields = parse_qs(body.decode(errors="replace"))
        form = {name: texts[-1] for name, texts in fields.items()}
        given = form.get("form", "").encode()
        if not (self.settings.can_answer and secrets.compare_digest(given, self.form.encode())):
            return Response("This console only shows.\n", 403)
        return await run_in_threadpool(work, self, request, form)

    def _stopped(self) -> tuple[Stop, ...]:
        try:
            return () if self.stops is None else self.stops.kept()
        except ConfigError as error:
            return (Stop("", why=str(error)),)

    def link(self, trace: str) -> str:
        """Return the address of a trace in Jaeger or Grafana; empty for none."""
        if self.server is not None:
            return self.server.page(trace)
        return grafana_link(self.settings.grafana, "tempo", trace) if self.settings.grafana else ""

    def page(self, name: str, here: str, status: int = 200, **shown: Any) -> HTMLResponse:
        """Return a page.

        Args:
            name: Its template.
            here: The part of the console that it belongs to.
            status: The HTTP status.
            **shown: What the template shows.
        """
        common = {
            "here": here,
            "root": self.settings.root,
            "form": self.form if self.settings.can_answer else "",
            "can_answer": self.settings.can_answer,
            "approver": self.settings.approver,
            "roles": self.settings.roles,
            "policies": self.settings.policies,
            "stopped": self._stopped(),
            "note": self.server.note(here) if self.server is not None else "",
        }
        return HTMLResponse(self._templates.get_template(name).render(common | shown), status)

    def problem(self, request: Request, error: Exception) -> Response:
        """Return the page of an error in what a person gave, or in a file."""
        is_missing = isinstance(error, StoreError) and error.cause == "missing"
        text = "Nothing is stored yet: run a program under otelhooks." if is_missing else str(error)
        status = 200 if is_missing else 400
        return self.page("problem.html", "", status, text=text, waits=is_missing)

    def missing(self, request: Request, error: Exception | None = None) -> Response:
        """Return the page of an address that leads nowhere."""
        text = "There is no such page."
        if "/runs/" in request.scope["path"]:
            text = (
                "This store does not have that run. It may not have ended yet, or its program sends"
                " its spans elsewhere, by an exporter or a tracer provider of its own."
            )
        return self.page("problem.html", "", 404, text=text, waits=False)
