"""The dashboards: made by their script, of one form, of names, variables and links that exist.

What their queries return is in `tests/e2e/test_dashboards.py`.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
import yaml

from dashboards.build import FOLDER, files
from dashboards.queries import FOREIGN_LABELS, FOREIGN_METRICS

JSON = dict[str, Any]
NAMES = FOLDER.parent / "tests" / "unit" / "semconv_table.json"
TABLE: JSON = json.loads(NAMES.read_text("utf-8"))
DASHBOARDS: dict[str, JSON] = {
    path.name: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))
}
SOURCES: dict[str, JSON] = {
    source["uid"]: source
    for source in yaml.safe_load(
        (FOLDER / "provisioning" / "datasources" / "otelhooks.yaml").read_text("utf-8")
    )["datasources"]
}
each_dashboard = pytest.mark.parametrize("file", DASHBOARDS)


def panels(file: str) -> Iterator[JSON]:
    """Give the panels of a dashboard that show something."""
    return (panel for panel in DASHBOARDS[file]["panels"] if panel["type"] != "row")


def strings(value: Any) -> Iterator[str]:
    """Give every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def test_the_files_are_what_the_script_makes():
    made = dict(files())

    assert {path.name for path in made} == DASHBOARDS.keys()
    for path, text in made.items():
        assert path.read_text("utf-8") == text, f"{path.name}: run `python -m dashboards.build`"


# --- Variables -----------------------------------------------------------------------------------

# Grafana's own, for queries and links.
BUILT_IN = re.compile(r"__(rate_interval|range|interval|from|to|url_time_range|value\.raw|all)")


def unknown_variables(file: str, dashboard: JSON) -> list[str]:
    """Return a line for each variable that is used and not defined, with its place."""
    defined = {variable["name"] for variable in dashboard["templating"]["list"]}
    places = [(f"panel `{panel['title']}`", panel) for panel in dashboard["panels"]]
    places += [(f"variable `{each['name']}`", each) for each in dashboard["templating"]["list"]]
    places += [("annotations", dashboard["annotations"]), ("links", dashboard["links"])]
    return [
        f"{file}: {place}: there is no variable `{name}`"
        for place, part in places
        for text in strings(part)
        for name in re.findall(r"\$\{?([A-Za-z_][\w.]*)", unquote(text))
        if name not in defined and not BUILT_IN.fullmatch(name)
    ]


@each_dashboard
def test_every_variable_is_defined(file: str):
    assert unknown_variables(file, DASHBOARDS[file]) == []


@pytest.mark.parametrize("place", ["expr", "url", "query"])
def test_an_unknown_variable_is_refused_with_file_and_panel(place: str):
    broken = copy.deepcopy(DASHBOARDS["governance.json"])
    for panel in broken["panels"]:
        if panel["title"] == "Denies by rule" and place == "expr":
            panel["targets"][0]["expr"] += ' and up{job="$tenant"}'
        if panel["title"] == "Denies by rule" and place == "url":
            panel["fieldConfig"]["overrides"][0]["properties"][0]["value"][0]["url"] += "&${tenant}"
        if panel["title"] == "Newest denies and questions" and place == "query":
            panel["targets"][0]["query"] = '{ span.x = "${tenant:raw}" }'

    (line,) = unknown_variables("governance.json", broken)

    assert re.fullmatch(
        r"governance\.json: panel `(Denies by rule|Newest denies and questions)`: "
        r"there is no variable `tenant`",
        line,
    )


@each_dashboard
def test_every_dashboard_has_the_same_variables(file: str):
    names = [variable["name"] for variable in DASHBOARDS[file]["templating"]["list"]]

    assert names == ["datasource", "traces", "service", "agent", "policy", "rule", "mode"]


# --- Names in queries ----------------------------------------------------------------------------

SUFFIXES = {
    ("counter", "s"): ("_seconds_total",),
    ("histogram", "s"): ("_seconds_bucket", "_seconds_sum", "_seconds_count"),
    ("gauge", "1"): ("_ratio",),
    ("gauge", "{approval}"): ("",),
    ("gauge", "{record}"): ("",),
}


def translated(name: str) -> str:
    return name.replace(".", "_")


def series() -> dict[str, set[str]]:
    """Return what Prometheus makes of our metrics: name of a series to its labels."""
    of_resource = {"service_name", "service_instance_id"}
    found = {}
    for metric, entry in TABLE["metrics"].items():
        for suffix in SUFFIXES.get((entry["kind"], entry["unit"]), ("_total",)):
            labels = {translated(name) for name in entry["allowed"]} | of_resource
            found[translated(metric) + suffix] = labels | ({"le"} if "bucket" in suffix else set())
    return found


SERIES = series()


def unknown_names(promql: str) -> Iterator[str]:
    """Yield what a query asks for and nothing sends."""
    plain = re.sub(r'"[^"]*"', '""', promql)
    selected = re.findall(r"(?<![\w$])([a-zA-Z_:]\w*)?(?:\{([^}]*)\})", plain)
    bare = re.findall(r"(?<![\w${.])([a-zA-Z_:]\w*)(?=\s*(?:\[|\)|/|$| offset))", plain)
    of_query: set[str] = set()
    for metric, matchers in [*selected, *((name, "") for name in bare)]:
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        if metric in SERIES:
            of_query |= SERIES[metric]
            yield from (f"{metric}{{{label}}}" for label in labels - SERIES[metric])
        elif metric and not FOREIGN_METRICS.fullmatch(metric) and metric not in grouped(plain):
            yield metric
        else:
            of_query |= FOREIGN_LABELS | {"service_name", "error_type"}
            yield from labels - of_query - {"__name__"}
    yield from (label for label in grouped(plain) if label not in of_query)


def grouped(plain: str, words: str = "by|on") -> set[str]:
    """Return the labels that a query groups or joins by."""
    lists = re.findall(rf"\b(?:{words}) \(([^)]*)\)", plain)
    return {label.strip() for each in lists for label in each.split(",")}


def promqls(file: str) -> Iterator[tuple[str, str]]:
    """Give place and query, of panels, variables and annotations."""
    for panel in panels(file):
        yield from ((panel["title"], each["expr"]) for each in panel["targets"] if "expr" in each)
    for each in DASHBOARDS[file]["annotations"]["list"]:
        yield each["name"], each["expr"]
    for variable in DASHBOARDS[file]["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = re.fullmatch(
                r"label_values\((.*), (\w+)\)", variable["query"]["query"]
            ).groups()
            yield variable["name"], f"count by ({label}) ({selector})"


@each_dashboard
def test_every_metric_and_label_is_one_that_is_sent(file: str):
    unknown = [(place, name) for place, promql in promqls(file) for name in unknown_names(promql)]

    assert unknown == []


@pytest.mark.parametrize(
    ("promql", "name"),
    [
        ("sum(otelhooks_policy_decision_total)", "otelhooks_policy_decision_total"),
        ("sum by (rule) (otelhooks_policy_decisions_total)", "rule"),
        (
            'otelhooks_coverage_gaps_total{gen_ai_model=""}',
            "otelhooks_coverage_gaps_total{gen_ai_model}",
        ),
        ('rate(otelhooks_adapter_info{service_name=""}[5m])', "otelhooks_adapter_info"),
        ("last_over_time(otelhooks_hook_duration_bucket[5m])", "otelhooks_hook_duration_bucket"),
        ('{__name__=~"x",tenant="a"}', "tenant"),
    ],
)
def test_a_name_that_is_never_sent_is_found(promql: str, name: str):
    assert name in set(unknown_names(promql))


def test_what_asks_for_model_calls_reads_the_name_of_before_too():
    """Of a process that sends both, only the new one counts: see `tests/e2e/test_dashboards.py`."""
    new = "gen_ai_client_inference_duration_seconds"
    found = [promql for _, promql in promqls("agents.json") if new in promql]
    assert len(found) == 3
    for promql in found:
        assert "or on (service_name, service_instance_id)" in promql
        assert "gen_ai_client_operation_duration_seconds" in promql


@each_dashboard
def test_legends_show_labels_that_the_query_has(file: str):
    for panel in panels(file):
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")):
                assert label in grouped(target["expr"]), (panel["title"], label)


@each_dashboard
def test_columns_are_labels_that_the_query_has(file: str):
    for panel in panels(file):
        for step in panel.get("transformations", ()):
            if step["id"] == "organize":
                columns = step["options"]["renameByName"].keys() - {"Value"}
                assert columns == grouped(panel["targets"][0]["expr"], "by"), panel["title"]


# --- TraceQL -------------------------------------------------------------------------------------

# Of the queries that were run against Tempo 3.1.0-dev (ad33aa8), those used here: for A there were
# attributes, for V values.
RUN = (
    '{ span.A = "V" }',
    '{ span.A =~ "V" } | select(span.A, span.A, statusMessage)',
    '{ span.A = "V" } | count_over_time() by (span.A) | topk(10)',
    '{ name =~ "V" } | quantile_over_time(duration, .95) by (span.A) with (exemplars=true)',
)


def shape(traceql: str) -> str:
    """Leave out which attribute and which value."""
    return re.sub(r"span(\.\w+)+", "span.A", re.sub(r'"[^"]*"', '"V"', traceql))


def links(value: Any) -> Iterator[str]:
    """Give the addresses of data links, unescaped."""
    if isinstance(value, dict):
        if "targetBlank" in value and "url" in value:
            yield value["url"]
        for each in value.values():
            yield from links(each)
    elif isinstance(value, list):
        for each in value:
            yield from links(each)


def traceqls(file: str) -> Iterator[tuple[str, str]]:
    for panel in panels(file):
        for target in panel["targets"]:
            if target.get("queryType") == "traceql":
                yield panel["title"], target["query"]
        for url in links(panel):
            for name, value in parse_qsl(urlsplit(url).query):
                if name == "panes":
                    (pane,) = json.loads(value).values()
                    yield panel["title"], pane["queries"][0]["query"]


@each_dashboard
def test_every_traceql_was_run_and_asks_for_attributes_that_are_sent(file: str):
    found = list(traceqls(file))

    assert found or file == "coverage-and-health.json"
    for title, traceql in found:
        assert shape(traceql) in RUN, (title, traceql)
        for attribute in re.findall(r"span\.([\w.]+)", traceql):
            assert attribute in TABLE["attributes"], (title, attribute)


# --- Form ----------------------------------------------------------------------------------------


@each_dashboard
def test_a_dashboard_has_what_grafana_asks_for(file: str):
    dashboard = DASHBOARDS[file]
    ids = [panel["id"] for panel in dashboard["panels"]]

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", dashboard["uid"])
    assert dashboard["schemaVersion"] == 42
    assert "__inputs" not in dashboard
    assert len(ids) == len(set(ids))


def test_uids_are_fixed_and_different():
    assert {dashboard["uid"] for dashboard in DASHBOARDS.values()} == {
        *("otelhooks-governance", "otelhooks-agents", "otelhooks-health"),
    }


@each_dashboard
def test_every_panel_says_what_it_shows_in_which_unit_from_where(file: str):
    for panel in panels(file):
        assert panel["title"], file
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] in {"${datasource}", "${traces}"}, panel["title"]
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"], panel["title"]


@each_dashboard
def test_panels_lie_in_24_columns_and_not_on_each_other(file: str):
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARDS[file]["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), panel["title"])
                assert other == panel["title"], f"`{panel['title']}` lies on `{other}`"


# --- Links ---------------------------------------------------------------------------------------


@each_dashboard
def test_links_lead_to_dashboards_panels_and_variables_that_exist(file: str):
    by_uid = {dashboard["uid"]: dashboard for dashboard in DASHBOARDS.values()}
    for url in [*links(DASHBOARDS[file])]:
        parts = urlsplit(url)
        if parts.path == "/explore":
            continue  # looked at as TraceQL
        target = by_uid[parts.path.removeprefix("/d/")]
        names = {variable["name"] for variable in target["templating"]["list"]}
        for name, value in parse_qsl(parts.query):
            if name == "viewPanel":
                titles = {f"panel-{panel['id']}": panel["title"] for panel in target["panels"]}
                assert titles[value] == "Denies by rule", url
            else:
                assert name.removeprefix("var-") in names, url


def test_a_number_leads_to_a_table_a_table_to_traces_and_to_the_rule():
    governance = {panel["title"]: panel for panel in panels("governance.json")}

    (to_table,) = links(governance["Denies"])
    assert to_table.startswith("/d/otelhooks-governance?viewPanel=panel-")
    to_traces, to_rule = links(governance["Denies by rule"])
    assert to_traces.startswith("/explore?")
    assert "var-rule=${__value.raw}" in to_rule
    exemplars = [
        target
        for title in ("Decisions by outcome", "Denies by rule over time")
        for target in governance[title]["targets"]
    ]
    assert all(target["exemplar"] for target in exemplars)


# --- Provisioning --------------------------------------------------------------------------------


def test_data_sources_have_fixed_uids_and_lead_to_each_other():
    assert {uid: source["type"] for uid, source in SOURCES.items()} == {
        "prometheus": "prometheus",
        "tempo": "tempo",
        "jaeger": "jaeger",
    }
    there = SOURCES["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert [(each["name"], each["datasourceUid"]) for each in there] == [
        ("trace_id", "tempo"),
        ("trace_id", "jaeger"),
    ]
    for store in ("tempo", "jaeger"):
        assert SOURCES[store]["jsonData"]["tracesToMetrics"]["datasourceUid"] == "prometheus"


@pytest.mark.parametrize("store", ["tempo", "jaeger"])
def test_what_a_span_is_asked_in_prometheus_exists(store: str):
    back = SOURCES[store]["jsonData"]["tracesToMetrics"]
    labels = {tag["key"]: tag["value"] for tag in back["tags"]}

    assert labels
    assert all(value == translated(key) for key, value in labels.items())
    assert labels.keys() - {"service.name"} <= TABLE["attributes"].keys()
    for query in back["queries"]:
        matchers = ",".join(f'{label}="x"' for label in labels.values())
        promql = query["query"].replace("$$__tags", matchers)
        assert "$" not in promql
        assert list(unknown_names(promql)) == []
