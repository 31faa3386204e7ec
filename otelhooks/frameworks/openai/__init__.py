# pyright: basic
"""The client ``openai``, 1.92 and newer: loops that are written by hand.

``SyncAPIClient.request`` and ``AsyncAPIClient.request`` see each request for a model's answer once:
chat completions and responses, parsed, streamed, with the raw response, and those of Azure. What a
guarded framework sends through the client is judged by that framework's own seats, and passes.

The client runs no tools, so that calls are judged in the answer (see `kit.clients`).
"""

from __future__ import annotations

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.clients import ON_DENIED
from otelhooks.frameworks.kit.generated import UnreadRequest
from otelhooks.frameworks.openai.chat import ChatRequest
from otelhooks.frameworks.openai.responses import ResponsesRequest

__all__ = ["ADAPTER"]


class Unread(UnreadRequest):
    """Legacy completions, assistants, and histories that the provider shortens."""

    paths = ("/completions", "/runs", "/submit_tool_outputs", "/responses/compact")
    others = (ChatRequest.path,)


_REQUESTS = (ChatRequest, ResponsesRequest, Unread)

ADAPTER = kit.Adapter(
    "openai",
    kit.Package("openai", ">=1.92,<4", module="openai"),
    seats=(
        kit.seat("openai._base_client:SyncAPIClient.request", *_REQUESTS),
        kit.seat("openai._base_client:AsyncAPIClient.request", *_REQUESTS),
    ),
    not_covered=(
        kit.NotCovered("realtime, websockets", "they pass no seat"),
        kit.NotCovered(
            "legacy completions, assistants and hosted agents",
            "no rule is asked about them; they are told of, and refused under `strict=True`",
        ),
        kit.NotCovered("tools of the provider", "they run at the provider"),
    ),
    options={"on_denied": ON_DENIED},
    in_part=(
        (
            "tool.post",
            "unless `otelhooks.call_tool` runs the tool, its result is seen when the loop sends it",
        ),
    ),
)
