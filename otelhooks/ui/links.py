"""Addresses of servers that show the same traces."""

from __future__ import annotations

import json
from urllib.parse import quote, urlsplit

from otelhooks.errors import ConfigError
from otelhooks.plain_text import one_line, without_credentials

__all__ = ["check_address", "grafana_link"]

_WORDS = 300


def check_address(url: str) -> None:
    """Refuse what is not the address of a web server.

    Raises:
        ConfigError: It is not.
    """
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    except ValueError:
        is_web = is_plain = False
    if not (is_web and is_plain):
        raise ConfigError(
            f"`{one_line(without_credentials(url), _WORDS)}` is not the address of a server",
            hint="write http://HOST:PORT; give a token with --header Authorization=...",
        )


def grafana_link(grafana: str, source: str, id: str) -> str:
    """Return the address of a trace in Grafana's Explore, with the data sources of dashboards/."""
    query = {"refId": "A", "datasource": {"type": source, "uid": source}, "query": id}
    query["queryType"] = "traceql" if source == "tempo" else "search"
    pane = {"datasource": source, "queries": [query], "range": {"from": "now-24h", "to": "now"}}
    panes = quote(json.dumps({"trace": pane}, separators=(",", ":")))
    return f"{grafana.rstrip('/')}/explore?schemaVersion=1&orgId=1&panes={panes}"
