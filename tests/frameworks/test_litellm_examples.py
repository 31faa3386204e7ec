"""The examples on a loop that is written by hand on LiteLLM."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("litellm")

from otelhooks.frameworks.litellm.scripted import scripted_provider
from tests.examples.performance import Examples
from tests.examples.stage import Actor
from tests.frameworks import test_litellm
from tests.frameworks.client_host import OWN_ERROR, ChatHost, script_of

pytestmark = test_litellm.pytestmark


class LiteLLM(ChatHost):
    """Chat completions of a provider of one's own."""

    framework = "litellm"
    differences = (*ChatHost.differences, OWN_ERROR)

    @contextlib.asynccontextmanager
    async def connected(self, actor: Actor) -> AsyncIterator[Any]:
        provider = {"provider": "own", "custom_handler": scripted_provider(script_of(actor))}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(test_litellm.litellm, "custom_provider_map", [provider])
            yield test_litellm.litellm

    async def create(self, client: Any, **given: Any) -> Any:
        return await client.acompletion(model="scripted", custom_llm_provider="own", **given)


class TestExamples(Examples):
    host = LiteLLM()
