"""What a request through openai, anthropic and google-genai makes, counted."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.frameworks.client_costs import Costs, Limits


@pytest.mark.parametrize("client", ["openai", "anthropic", "google_genai"])
class TestCosts(Costs):
    limits: ClassVar = {
        "openai": Limits(request=(125, 145), message=(10, 10), call=(49, 66), chunk=(14, 20)),
        "anthropic": Limits(request=(134, 149), message=(11, 11), call=(46, 66), chunk=(10, 11)),
        "google_genai": Limits(request=(118, 125), message=(5, 5), call=(44, 46), chunk=(11, 20)),
    }
