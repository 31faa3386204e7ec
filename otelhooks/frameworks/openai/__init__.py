# pyright: basic
"""The client ``openai``, 1.92 and newer: loops that are written by hand.

``SyncAPIClient.request`` and ``AsyncAPIClient.request`` see each request for a model's answer once:
chat completions and responses, parsed, streamed, with the raw response, and those of Azure. A
request that a guarded framework sends through the client passes, since that framework's own seats
judge it.

Calls are judged in the answer (see `kit.clients`). A call that a tool runner for responses runs
keeps the same verdict; handlers of a session, whose model is at the provider, are judged on call.
"""

from __future__ import annotations

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.clients.calls import IN_PART, ON_DENIED
from otelhooks.frameworks.kit.clients.generated import UnreadRequest
from otelhooks.frameworks.openai.chat import ChatRequest
from otelhooks.frameworks.openai.responses import ResponsesRequest
from otelhooks.frameworks.openai.tools import SEATS

__all__ = ["ADAPTER"]


class Unread(UnreadRequest):
    """Legacy completions, assistants, decisions, and what the provider shortens or keeps."""

    paths = (
        *("/completions", "/runs", "/submit_tool_outputs", "/responses/compact"),
        *("/cancel", "/decisions"),
    )
    others = (ChatRequest.path,)
    kept = (ChatRequest.path, ResponsesRequest.path)


_REQUESTS = (ChatRequest, ResponsesRequest, Unread)

ADAPTER = kit.Adapter(
    "openai",
    kit.Package("openai", ">=1.92,<4", module="openai"),
    seats=(
        kit.seat("openai._base_client:(Sync|Async)APIClient.request", *_REQUESTS, overrides=True),
        *SEATS,
    ),
    not_covered={
        "realtime, websockets": "they pass no seat",
        "legacy completions, assistants, decisions, answers that are retrieved later": (
            "no rule is asked about them; they are reported, and denied under `strict=True`"
        ),
        "items of conversations, messages and runs of threads, batches, evals": (
            "what your loop reads there is not judged"
        ),
        "tools of the provider, models of sessions": "they run at the provider",
        "actions of a browser or computer toolset": "the call is judged, in the answer",
    },
    options={"on_denied": ON_DENIED},
    in_part=IN_PART,
)
