"""The one look of all dashboards: numbers, charts, tables, links between them, variables, pages.

Form: Classic JSON with ``schemaVersion`` 42, which every Grafana reads from files.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from dashboards.queries import (
    AGENT,
    BY_SERVICE,
    DECISIONS,
    EVALUATIONS,
    MODE,
    POLICY,
    RULE,
    SERVICE,
)

JSON = dict[str, Any]

# --- Links ----------------------------------------------------------------------------------------

GOVERNANCE, AGENTS, HEALTH = "otelhooks-governance", "otelhooks-agents", "otelhooks-health"
SHOWN = "&".join(f"${{{each}:queryparam}}" for each in ("service", "agent", "policy", "mode"))


def dashboard(uid: str, **values: str) -> str:
    """Return the address of a dashboard, for what is shown now and further variables."""
    more = "".join(f"&var-{variable}={value}" for variable, value in values.items())
    return f"/d/{uid}?{SHOWN}&${{__url_time_range}}{more}"


def panel_of(uid: str, panel: int) -> str:
    """Return the address of one panel, in full."""
    return f"/d/{uid}?viewPanel=panel-{panel}&{SHOWN}&${{__url_time_range}}"


def in_tempo(attribute: str) -> str:
    """Return the address of the traces with a span that has the clicked value."""
    query = f'{{ span.{attribute} = "${{__value.raw}}" }}'
    pane = {
        "traces": {
            "datasource": "${traces}",
            "queries": [
                {
                    "refId": "A",
                    "datasource": {"type": "tempo", "uid": "${traces}"},
                    "queryType": "traceql",
                    "query": query,
                    "limit": 50,
                    "tableType": "spans",
                }
            ],
            "range": {"from": "${__from}", "to": "${__to}"},
        }
    }
    # Grafana puts values in where `${...}` stands: that must not be escaped.
    panes = quote(json.dumps(pane, separators=(",", ":")), safe="${}:.,")
    return f"/explore?schemaVersion=1&orgId=1&panes={panes}"


def link(title: str, url: str, *, new_tab: bool = False) -> JSON:
    """Return a data link."""
    return {"title": title, "url": url, "targetBlank": new_tab}


# --- Panels ---------------------------------------------------------------------------------------

METRICS = {"type": "prometheus", "uid": "${datasource}"}
TRACES = {"type": "tempo", "uid": "${traces}"}
MIXED_COLORS = {"mode": "palette-classic"}
COLORS = {
    **{"allow": "green", "deny": "red", "ask": "orange", "modify": "blue"},
    **{"approved": "green", "rejected": "red", "expired": "orange", "withdrawn": "purple"},
    **{"patched": "green", "refused": "red", "partial": "orange", "off": "red"},
}


def metric(
    query: str, legend: str = "", *, table: bool = False, instant: bool = False, dots: bool = False
) -> JSON:
    """Return a Prometheus query; with dots it brings its exemplars, which open traces."""
    return {
        "datasource": METRICS,
        "expr": query,
        "legendFormat": legend or "__auto",
        "format": "table" if table else "time_series",
        "instant": instant or table,
        "range": not (instant or table),
        "exemplar": dots,
        "editorMode": "code",
    }


def traceql(query: str) -> JSON:
    """Return a search for spans, or a metric from spans."""
    return {
        "datasource": TRACES,
        "queryType": "traceql",
        "query": query,
        "limit": 50,
        "spss": 3,
        "tableType": "spans",
        "filters": [],
    }


def panel(
    kind: str,
    title: str,
    description: str,
    unit: str,
    width: int,
    height: int,
    targets: list[JSON],
    options: JSON,
    **more: Any,
) -> JSON:
    """Return a panel; its place and id are given by `laid_out`."""
    defaults: JSON = {"unit": unit, "color": MIXED_COLORS, "links": more.pop("links", [])}
    defaults |= more.pop("defaults", {})
    lettered = [{"refId": chr(ord("A") + at), **each} for at, each in enumerate(targets)]
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": targets[0]["datasource"],
        "targets": lettered,
        "gridPos": {"w": width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": more.pop("overrides", [])},
        "options": options,
        **more,
    }


def steps(*values: tuple[float | None, str]) -> JSON:
    """Return thresholds: from a value on a colour; the first value is None."""
    return {
        "mode": "absolute",
        "steps": [{"value": value, "color": color} for value, color in values],
    }


def number(
    title: str,
    description: str,
    query: str,
    unit: str = "short",
    bad: float | None = None,
    **more: Any,
) -> JSON:
    """Return one number of the shown time; from `bad` on it is red."""
    defaults: JSON = {"thresholds": steps((None, "text")), "color": {"mode": "thresholds"}}
    if bad is not None:
        defaults["thresholds"] = steps((None, "green"), (bad, "red"))
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "auto",
    }
    targets = [metric(query, title, instant=True)]
    return panel(
        "stat", title, description, unit, 4, 4, targets, options, defaults=defaults, **more
    )


def chart(
    title: str,
    description: str,
    unit: str,
    targets: list[JSON],
    *,
    bars: bool = False,
    line: float | None = None,
    width: int = 12,
    **more: Any,
) -> JSON:
    """Return values over time: lines, or stacked bars; `line` draws a limit."""
    custom: JSON = {
        "drawStyle": "bars" if bars else "line",
        "fillOpacity": 70 if bars else 10,
        "lineWidth": 1,
        "showPoints": "never" if bars else "auto",
        "spanNulls": False,
        "stacking": {"mode": "normal" if bars else "none", "group": "A"},
        "thresholdsStyle": {"mode": "off" if line is None else "dashed"},
    }
    defaults: JSON = {"custom": custom, "min": 0}
    if line is not None:
        defaults["thresholds"] = steps((None, "transparent"), (line, "red"))
    overrides = [
        {
            "matcher": {"id": "byName", "options": value},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }
        for value, color in COLORS.items()
    ]
    options: JSON = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel(
        *("timeseries", title, description, unit, width, 8, targets, options),
        defaults=defaults,
        overrides=overrides,
        **more,
    )


def table(
    title: str,
    description: str,
    columns: dict[str, str],
    query: str,
    links: dict[str, list[JSON]] | None = None,
    width: int = 12,
    unit: str = "short",
) -> JSON:
    """Return a table of a query: label to heading, in order, then the value; links by label."""
    transformations: list[JSON] = [
        {
            "id": "organize",
            "options": {
                "excludeByName": {"Time": True},
                "indexByName": {each: at for at, each in enumerate([*columns, "Value"])},
                "renameByName": {**columns, "Value": "Count"},
            },
        },
        {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": "Count", "desc": True}]}},
    ]
    overrides = [
        {
            "matcher": {"id": "byName", "options": columns[label]},
            "properties": [{"id": "links", "value": found}],
        }
        for label, found in (links or {}).items()
    ]
    return panel(
        *("table", title, description, unit, width, 8, [metric(query, table=True)]),
        {"showHeader": True, "cellHeight": "sm"},
        overrides=overrides,
        transformations=transformations,
    )


def row(title: str) -> JSON:
    """Return a heading."""
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "panels": [],
        "gridPos": {"w": 24, "h": 1},
    }


def laid_out(panels: list[JSON]) -> list[JSON]:
    """Number panels from 1 on and put them beside each other, from left to right, in lines."""
    x = y = height = 0
    for at, each in enumerate(panels, 1):
        place = each["gridPos"]
        if x + place["w"] > 24:
            x, y, height = 0, y + height, 0
        each["id"] = at
        each["gridPos"] = {"h": place["h"], "w": place["w"], "x": x, "y": y}
        x, height = x + place["w"], max(height, place["h"])
    return panels


# --- Variables and dashboards ---------------------------------------------------------------------


def source(variable: str, label: str, kind: str) -> JSON:
    """Return the choice of a data source; the provisioned one comes first."""
    return {
        "type": "datasource",
        "name": variable,
        "label": label,
        "query": kind,
        "current": {"text": kind, "value": kind},
        "hide": 0,
        "refresh": 1,
    }


def choice(variable: str, label: str, selector: str, heading: str) -> JSON:
    """Return the choice among a label's values; All also takes what has no such label."""
    query = f"label_values({selector}, {label})"
    return {
        "type": "query",
        "name": variable,
        "label": heading,
        "datasource": METRICS,
        "query": {"query": query, "refId": "variable", "qryType": 1},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "hide": 0,
    }


VARIABLES = [
    source("datasource", "Metrics", "prometheus"),
    source("traces", "Traces", "tempo"),
    choice("service", SERVICE, EVALUATIONS, "Service"),
    choice("agent", AGENT, f"{DECISIONS}{{{BY_SERVICE}}}", "Agent"),
    choice("policy", POLICY, f"{DECISIONS}{{{BY_SERVICE}}}", "Policy"),
    choice("rule", RULE, f'{DECISIONS}{{{BY_SERVICE},{POLICY}=~"$policy"}}', "Rule"),
    choice("mode", MODE, f"{DECISIONS}{{{BY_SERVICE}}}", "Mode"),
]


def page(uid: str, title: str, description: str, panels: list[JSON]) -> JSON:
    """Return a dashboard."""
    others = {GOVERNANCE: "Governance", AGENTS: "Agents", HEALTH: "Coverage and health"}
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["otelhooks"],
        "schemaVersion": 42,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "templating": {"list": VARIABLES},
        "annotations": {
            "list": [
                {
                    "name": "Alerts",
                    "datasource": METRICS,
                    "enable": True,
                    "hide": False,
                    "iconColor": "red",
                    "expr": f'ALERTS{{alertstate="firing",{SERVICE}=~"$service|"}}',
                    "titleFormat": "{{alertname}}",
                    "textFormat": f"{{{{{SERVICE}}}}} {{{{{RULE}}}}}",
                    "step": "60s",
                }
            ]
        },
        "links": [
            {
                "type": "link",
                "title": text,
                "url": f"/d/{other}",
                "icon": "dashboard",
                "keepTime": True,
                "includeVars": True,
                "targetBlank": False,
                "asDropdown": False,
                "tags": [],
                "tooltip": text,
            }
            for other, text in others.items()
            if other != uid
        ],
        "panels": laid_out(panels),
    }
