"""What a request through LiteLLM makes, counted."""

from __future__ import annotations

from typing import ClassVar

import litellm  # noqa: F401  # here, not in a request that is counted
import pytest

from tests.frameworks.client_costs import Costs, Limits

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{warning}")  # of LiteLLM
    for warning in (
        ".*ReadOnly.*:UserWarning",
        ".*Pydantic serializer.*:UserWarning",
        ":pydantic.warnings.PydanticDeprecatedSince211",
    )
]


@pytest.mark.parametrize("client", ["litellm"])
class TestCosts(Costs):
    limits: ClassVar = {
        "litellm": Limits(request=(114, 121), message=(10, 10), call=(49, 51), chunk=(15, 21)),
    }
