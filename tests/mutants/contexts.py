"""A plugin for pytest: which test runs which line, and how long each takes."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

DURATIONS = "MUTANTS_DURATIONS"
"""Variable that names the file for the durations, JSON of test id to seconds."""

_durations: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    measured = coverage.Coverage.current()
    assert measured is not None, "run pytest under `coverage run`"
    measured.switch_context(item.nodeid)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _durations[report.nodeid] = _durations.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish() -> None:
    Path(os.environ[DURATIONS]).write_text(json.dumps(_durations))
