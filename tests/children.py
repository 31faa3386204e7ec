"""What the children of a program must have recorded at their end: see `governed_work.py`."""

from __future__ import annotations

import collections
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from otelhooks.audit import check
from otelhooks.records import semconv
from otelhooks.store.reader import Store


def work_of(answers: Sequence[Mapping[str, Any]]) -> collections.Counter[int]:
    """Return how often each process has worked, by its id; each time the denied tool was denied."""
    assert {answer["answer"] for answer in answers} == {"denied: no tables are dropped here"}
    assert {answer["rows"] for answer in answers} == {5}
    return collections.Counter(answer["pid"] for answer in answers)


def assert_all_told(folder: Path, worked: Mapping[int, int]) -> None:
    """Find each call in the notes, in the audit trail and in the local store.

    Args:
        folder: Where the children recorded it.
        worked: How often each has, by process id.
    """
    assert not (folder / "dropped").exists()
    noted = collections.Counter(file.name.partition("-")[0] for file in folder.glob("*-*.noted"))
    assert noted == {str(pid): times for pid, times in worked.items()}
    _assert_audited(folder / "audit", worked)
    _assert_stored(folder / "store.db", worked)


def _assert_audited(trail: Path, worked: Mapping[int, int]) -> None:
    assert check(trail).findings == []  # each chain is whole, and closed
    denied = {}
    for file in trail.glob("*.jsonl"):
        first, *records = [json.loads(line) for line in file.read_text().splitlines()]
        if times := sum(record.get("decision") == "deny" for record in records):
            assert first["pid"] not in denied  # one segment a process
            denied[first["pid"]] = times
    assert denied == worked


def _assert_stored(store: Path, worked: Mapping[int, int]) -> None:
    decided, called = collections.Counter(), collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    for spans, events in Store(store).records():
        for span in spans:
            instance = span.origin.resource["service.instance.id"]
            called[instance] += 1
            refused[instance] += span.attributes.get(semconv.POLICY_DECISION) == "deny"
        for event in events:
            is_decision = event.name == semconv.EVENT_POLICY_DECISION
            decided[event.origin.resource["service.instance.id"]] += is_decision
    assert sorted(refused.values()) == sorted(worked.values())
    assert decided == refused
    assert called == {instance: 2 * times for instance, times in refused.items()}
