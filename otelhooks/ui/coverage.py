"""Which frameworks are guarded: what `otelhooks doctor` says in the environment of the console."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from otelhooks.cli.doctor_rows import ABSENT
from otelhooks.errors import ConfigError
from otelhooks.ui.site import Site

__all__ = ["coverage"]

_TIMEOUT_S = 60


def coverage(site: Site, request: Request) -> Response:
    """Show the frameworks that are here, and what no seat covers."""
    report = _report(site)
    rows = [row for row in report["frameworks"] if row["state"] not in ABSENT]
    gaps = [(row["framework"], gap) for row in rows for gap in row["not_covered"]]
    return site.page(
        "coverage.html", "coverage", rows=rows, gaps=gaps, others=report["not_guarded"]
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
