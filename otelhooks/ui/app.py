"""The console as an application: its pages, each with its address."""

from __future__ import annotations

import os
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from otelhooks.errors import ConfigError
from otelhooks.ui import approvals, audit, calls, coverage, decisions, events, policies, stops
from otelhooks.ui.guard import Guard
from otelhooks.ui.site import FOLDER, Settings, Site

__all__ = ["create_app"]


def create_app(settings: Settings) -> Starlette:
    """Return the console as an ASGI application, guarded; its state has the `Site`."""
    site = Site(settings)
    routes = [
        site.route("/", calls.live),
        site.route("/live", calls.live_rows),
        site.route("/events", events.stream),
        site.route("/runs", calls.runs),
        site.route("/runs/{id}", calls.run),
        site.route("/decisions", decisions.decisions),
        site.route("/approvals", approvals.approvals),
        site.route("/approvals/waiting", approvals.waiting),
        site.route("/approvals/count", approvals.count),
        site.route("/approvals/{id}", approvals.approval),
        site.route("/approvals/{id}", approvals.answer, methods=["POST"]),
        site.route("/policy", policies.policy),
        site.route("/policy/replay", policies.replayed),
        site.route("/policy/{trace}/{span}", policies.explained),
        site.route("/coverage", coverage.coverage),
        site.route("/coverage/report", coverage.report),
        site.route("/audit", audit.audit),
        site.route("/stops", stops.change, methods=["POST"]),
        Mount("/static", StaticFiles(directory=os.path.join(FOLDER, "static"))),
    ]
    guard = Middleware(
        Guard, root=settings.root, token=settings.token, listening=settings.listening
    )
    handlers: Any = {ConfigError: site.problem, 404: site.missing}
    app = Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)
    app.state.site = site
    return app
