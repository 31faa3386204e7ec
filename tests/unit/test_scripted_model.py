"""`otelhooks.demo.scripted_model`: what it takes as a script."""

from __future__ import annotations

from typing import Any

import pytest

from otelhooks.demo import scripted_model
from otelhooks.errors import ConfigError


@pytest.mark.parametrize(
    "step", [[("a", {}), ("b", {})], ("a",), ("a", "{}"), (len, {}), {"a": {}}, None]
)
def test_a_step_that_is_no_answer_is_an_error_at_once(step: Any) -> None:
    with pytest.raises(ConfigError, match="step 2 of the script is neither a text nor a call"):
        scripted_model("pydantic_ai", [("a", {}), step, "done"])


def test_a_framework_without_such_a_model_is_named() -> None:
    with pytest.raises(ImportError, match="no scripted model for `crewai`"):
        scripted_model("crewai", ["done"])
