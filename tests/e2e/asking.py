"""What the servers themselves say, over their own APIs."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], timeout_s: float = 60) -> T:
    """Look again and again until what is seen is true.

    Returns:
        What was seen.

    Raises:
        AssertionError: It was not in time; the last look is in the message.
    """
    deadline = time.monotonic() + timeout_s
    while not (seen := look()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s, the last look: {seen!r}"
        time.sleep(0.2)
    return seen


def eventually_equal(look: Callable[[], T], expected: T, timeout_s: float = 60) -> None:
    """Look again and again until what is seen is as expected.

    Raises:
        AssertionError: It was not in time; both are in the message.
    """
    deadline = time.monotonic() + timeout_s
    while (seen := look()) != expected:
        assert time.monotonic() < deadline, f"after {timeout_s:g} s {seen!r}, not {expected!r}"
        time.sleep(0.2)


def get(url: str, **query: str | int) -> Any:
    """Return a decoded JSON answer; None for 404."""
    if query:
        url += "?" + urllib.parse.urlencode(query)
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return None
            raise


class Jaeger:
    """Jaeger's query API; spans as ``{"id", "parent", "name", "tags", "logs", ...}``."""

    def __init__(self, url: str) -> None:
        self._url = url

    def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """Return the spans of a trace; none while it is not there."""
        found = get(f"{self._url}/api/traces/{trace_id}")
        return list(_spans(found["data"][0])) if found and found["data"] else []

    def find(self, service: str, tags: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
        """Return the traces in which one span has all tags: trace id to spans."""
        found = get(f"{self._url}/api/traces", service=service, tags=json.dumps(tags), limit=1000)
        return {trace["traceID"]: list(_spans(trace)) for trace in found["data"]}


def _spans(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for span in trace["spans"]:
        parents = [each["spanID"] for each in span["references"] if each["refType"] == "CHILD_OF"]
        yield {
            "id": span["spanID"],
            "parent": parents[0] if parents else None,
            "name": span["operationName"],
            "tags": {tag["key"]: tag["value"] for tag in span["tags"]},
            "raw": span,
        }


class Prometheus:
    """Prometheus' query API."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """Return labels and value of each series at this moment."""
        answer = get(f"{self._url}/api/v1/query", query=promql)
        return [(each["metric"], float(each["value"][1])) for each in answer["data"]["result"]]

    def exemplars(self, promql: str) -> list[dict[str, Any]]:
        """Return the exemplars of the last hour: ``{"labels", "value", "timestamp"}``."""
        now = int(time.time())
        answer = get(
            f"{self._url}/api/v1/query_exemplars", query=promql, start=now - 3600, end=now + 60
        )
        return [each for series in answer["data"] for each in series["exemplars"]]

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that are pending or fire."""
        return get(f"{self._url}/api/v1/alerts")["data"]["alerts"]


_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? ([0-9.eE+-]+)$")


def own_metric(url: str, name: str, **labels: str) -> float:
    """Return a sum over a collector's own metric, by its labels; 0 where it is not there yet."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    total = 0.0
    for line in lines:
        found = _SAMPLE.match(line)
        if found and found[1].removesuffix("_total") == name:
            there = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
            if labels.items() <= there.items():
                total += float(found[3])
    return total
