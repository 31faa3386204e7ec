"""Make the dashboards beside this file: ``python -m dashboards.build``, in the repository's folder.

Never edited by hand, never exported from Grafana's page. Names of metrics, labels and attributes
come from `otelhooks.records.semconv`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from dashboards.agents import agents
from dashboards.governance import governance
from dashboards.health import health

FOLDER = Path(__file__).parent


def files() -> Iterator[tuple[Path, str]]:
    """Give each file of this folder that is made here, and its text."""
    made = {"governance": governance(), "agents": agents(), "coverage-and-health": health()}
    for stem, content in made.items():
        yield FOLDER / f"{stem}.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path, text in files():
        path.write_text(text, "utf-8")
