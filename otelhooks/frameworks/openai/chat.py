# pyright: basic
"""Chat completions."""

from __future__ import annotations

from typing import Any

from otelhooks.frameworks.kit.clients.chat_form import ChatForm
from otelhooks.frameworks.kit.clients.generated import GeneratedCall

__all__ = ["ChatRequest", "provider_of"]


def provider_of(client: Any) -> str:
    """Return the provider that a client is for."""
    is_azure = any(each.__name__.endswith("AzureOpenAI") for each in type(client).__mro__)
    return "azure.ai.openai" if is_azure else "openai"


class ChatRequest(ChatForm, GeneratedCall):
    """A request of ``chat.completions``."""

    path = "/chat/completions"

    def begins(self) -> None:
        self.provider = provider_of(self.client)
        self.is_typed = bool(self.body.get("response_format"))
