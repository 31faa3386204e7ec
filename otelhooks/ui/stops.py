"""Stops of `otelhooks stop`, given and lifted in the browser."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from otelhooks.policy.stops import stop_now
from otelhooks.ui.site import Site

__all__ = ["change"]


async def change(site: Site, request: Request) -> Response:
    """Stop tools, or lift a stop."""
    return await site.with_form(request, _change)


def _change(site: Site, request: Request, form: Mapping[str, str]) -> Response:
    if site.stops is None:
        return Response("OTELHOOKS_STOPS is `off`.\n", 409)
    if id := form.get("lift"):
        site.stops.lift(id)
    else:
        about = {name: form.get(name, "").strip() for name in ("tool", "agent", "why")}
        about["tool"] = about["tool"] or "*"
        site.stops.put(stop_now(by=site.settings.approver, **about))
    return RedirectResponse(f"{site.settings.root}/", 303)
