"""Which frameworks are guarded: what `otelhooks doctor` says in the environment of the console."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from otelhooks.errors import ConfigError
from otelhooks.patching.adapters import ABSENT
from otelhooks.ui.site import Site

__all__ = ["coverage", "report"]

_TIMEOUT_S = 60


def coverage(site: Site, request: Request) -> Response:
    """Show the page at once; it asks for the report, which takes seconds, by itself."""
    return site.page("coverage.html", "coverage")


def report(site: Site, request: Request) -> Response:
    """Show the frameworks that are here, and what no seat covers."""
    try:
        found = _report(site)
    except ConfigError as error:
        return site.page("coverage_report.html", "coverage", problem=str(error))
    here = [row for row in found["frameworks"] if row["state"] not in ABSENT]
    gaps = [(row["framework"], *gap.values()) for row in here for gap in row["not_covered"]]
    return site.page(
        "coverage_report.html",
        "coverage",
        problem="",
        rows=[row for row in here if row["supported"] != "none"],  # a part that is not covered
        gaps=dict.fromkeys(gaps),
        others=found["not_guarded"],
    )


def _report(site: Site) -> dict[str, Any]:
    """Return the report of a process of its own: it imports and patches every framework."""
    command = [sys.executable, "-m", "otelhooks", "doctor", "--json"]
    for name in site.settings.policies:
        command += ["--policy", name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
        return json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise ConfigError(
            "`otelhooks doctor` did not report", hint="run it in a terminal to see why"
        ) from error
