"""A gate on instructions: what a governed tool call adds, beside the SDK's span for it alone.

Callgrind counts them in a process of its own, the same on a busy machine; `make bench` prints the
figures of agents, beside OpenTelemetry's own instrumentations.
"""

from __future__ import annotations

import shutil

import pytest

from tests.bench import instructions

pytestmark = [
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind"),
    pytest.mark.timeout(180),
]

BESIDE_A_SPAN = 1.5
"""On a provider of the application's, where the SDK encodes; 1.29 at the end of November 2026, 1.45
with the oldest SDK under Python 3.10."""
BESIDE_A_SPAN_ON_OUR_PROVIDER = 0.95
"""Where otelhooks encodes and samples; 0.75 then, 0.90 under Python 3.10."""


def test_a_tool_call_adds_at_most_so_much_to_the_span_that_it_makes() -> None:
    counts = instructions.count("tool_call")
    added = instructions.added_by_a_call(counts, instructions.TOOL_CALLS)
    assert added["ours"] / added["by hand"] <= BESIDE_A_SPAN
    assert added["on our provider"] / added["by hand"] <= BESIDE_A_SPAN_ON_OUR_PROVIDER
