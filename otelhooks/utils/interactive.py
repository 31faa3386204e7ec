"""Alias of `otelhooks.approvals.terminal`, under google-antigravity's path."""

from otelhooks.approvals.terminal import (
    AskQuestionHook,
    ToolConfirmationHook,
    ask_user_handler,
    async_input,
)
from otelhooks.approvals.terminal import sanitize as _sanitize_terminal_text

__all__ = [
    "AskQuestionHook",
    "ToolConfirmationHook",
    "_sanitize_terminal_text",
    "ask_user_handler",
    "async_input",
]
