# pyright: basic
"""What the kit's tools return: a `ToolResponse`, or one of its two subclasses for transactions.

Source: hedera-agent-kit 3.4.2, ``shared/models.py``.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from otelhooks.hooks.calls import copy_json
from otelhooks.patching.copies import is_a

__all__ = ["error_of", "refusal", "response_of", "rewritten", "shown"]

_MODELS = "hedera_agent_kit.shared.models"
_RESPONSE = (_MODELS, "ToolResponse")
_EXECUTED = (_MODELS, "ExecutedTransactionToolResponse")
_RECEIPT = (_MODELS, "RawTransactionResponse")
_OWNERS = {
    ("hedera_agent_kit.shared.api", "HederaAgentAPI"): "run",
    ("hedera_agent_kit.shared.tool", "Tool"): "execute",
}
"""What tools are called through -> its method, whose module knows the class of responses."""


def shown(raw: Any) -> Any:
    """Return a response in a copy that a hook may change in vain, anything else as it is."""
    if not is_a(raw, _RESPONSE):
        return raw
    return dataclasses.replace(raw, extra=copy_json(raw.extra))


def error_of(raw: Any) -> str | None:
    """Return the error that a response tells of."""
    return str(raw.error) if is_a(raw, _RESPONSE) and raw.error else None


def refusal(owner: Any, reason: str) -> Any:
    """Return a response that tells a model, and whoever parses it, of an error.

    Args:
        owner: The API or the tool, whose copy of the kit the response is of.
        reason: What is told.
    """
    return _response_class(owner)(human_message=reason, error=reason)


def response_of(owner: Any, value: Any) -> Any:
    """Return a response of any value; one that is a response already stays it."""
    if is_a(value, _RESPONSE):
        return value
    return _response_class(owner)(human_message=_text_of(value))


def rewritten(raw: Any, value: Any) -> Any:
    """Return a response with other contents.

    A response is what it is. Any other value becomes the message, and nothing of the old response
    is kept but the ledger's receipt, status and ids.
    """
    if not is_a(raw, _RESPONSE) or is_a(value, _RESPONSE):
        return value
    executed, text = _class_in(raw, _EXECUTED), _text_of(value)
    if executed is not None and type(raw.raw) is _class_in(raw.raw, _RECEIPT):
        return executed(human_message=text, raw=dataclasses.replace(raw.raw, error=None))
    return _class_in(raw, _RESPONSE)(human_message=text)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)


def _class_in(value: Any, name: tuple[str, str]) -> Any:
    """Return a class of the kit that a value is of, in its copy of the kit; None if it is not."""
    return next((c for c in type(value).__mro__ if (c.__module__, c.__name__) == name), None)


def _response_class(owner: Any) -> Any:
    for cls in type(owner).__mro__:
        method = _OWNERS.get((cls.__module__, cls.__name__))
        if method is not None:
            return vars(cls)[method].__globals__[_RESPONSE[1]]
    message = f"neither an API nor a tool of the kit: `{type(owner).__qualname__}`"
    raise TypeError(message)
