"""What the tests of all frameworks share: asserts that explain themselves, and how they begin."""

from __future__ import annotations

import functools
import os
import ssl
from collections.abc import Callable
from typing import Any

import pytest

import otelhooks

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # it would tell the network what tests run
os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"  # likewise
os.environ["CREWAI_TRACING_ENABLED"] = "false"  # it would ask whether to show traces
os.environ["CREWAI_TESTING"] = "true"  # likewise
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its import fetches a file otherwise

# A client of a model reads all certificates when it is made; here nothing speaks TLS.
ssl.create_default_context = functools.cache(ssl.create_default_context)

pytest.register_assert_rewrite(
    "tests.frameworks.client_costs",
    "tests.frameworks.contract",
    "tests.frameworks.scenarios",
    "tests.conformance",
)


@pytest.fixture
def with_rules(providers: dict[str, Any]) -> Callable[..., otelhooks.Handle]:
    """`otelhooks.instrument`, with rules before its settings and providers of the test's own."""

    def instrument(*rules: Any, **settings: Any) -> otelhooks.Handle:
        return otelhooks.instrument(policies=rules, **providers, **settings)

    return instrument
