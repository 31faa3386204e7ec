"""What the user said: the text of a message, and what is remembered of a conversation.

Only what the application passes as the message that starts an outermost turn counts, before any
hook has changed it, and the messages of the role ``user`` in a request that a loop of its own sends
to a model. Everything else may have been written by a model, a tool or a stranger.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

__all__ = [
    "CHARACTERS_KEPT",
    "MESSAGES_KEPT",
    "PART_END",
    "Message",
    "Said",
    "Speaker",
    "spoken_in",
    "user_text",
]

MESSAGES_KEPT = 100
"""Most messages of a conversation that are remembered for later turns, the newest ones."""

CHARACTERS_KEPT = 16_384
"""Most characters of these together."""

PART_END = "\n\u2029"
"""Between the texts of a message's parts: a value is in one of them."""

_TEXTS = frozenset((None, "text", "input_text"))
_RESULTS = ("_result", "_response", "_output", "_call", "tool-return", "retry-prompt")
_OF_RESULTS = (
    *("toolResult", "functionResponse", "function_response"),
    *("tool_use_id", "tool_call_id", "call_id"),
)


class Speaker(NamedTuple):
    """Who said something, if the application has named the user.

    Attributes:
        id: Of the user; empty if unknown.
        tenant: Of the user; empty if unknown.
    """

    id: str = ""
    tenant: str = ""


class Message:
    """A message of the user's.

    Attributes:
        text: Its text.
        speaker: Who said it.
        normal: Its normal form, which rules compare with; None until the first one has.
    """

    __slots__ = ("normal", "speaker", "text")

    def __init__(self, text: str, speaker: Speaker) -> None:
        self.text: str = text
        self.speaker: Speaker = speaker
        self.normal: Any = None


class Said:
    """The newest messages of a conversation; one that is longer than all may be is not kept."""

    __slots__ = ("_characters", "_lock", "_messages")

    def __init__(self) -> None:
        self._messages: collections.deque[Message] = collections.deque()
        self._characters = 0
        self._lock = threading.Lock()

    def add(self, message: Message) -> None:
        """Remember a message; the oldest ones make room for it."""
        if len(message.text) > CHARACTERS_KEPT:
            return
        with self._lock:
            self._messages.append(message)
            self._characters += len(message.text)
            while len(self._messages) > MESSAGES_KEPT or self._characters > CHARACTERS_KEPT:
                self._characters -= len(self._messages.popleft().text)

    def all(self) -> tuple[Message, ...]:
        """Return what is remembered, oldest first."""
        with self._lock:
            return tuple(self._messages)


def user_text(message: Any) -> str | None:
    """Return the text of a message that the application passes as the user's; None for none.

    Args:
        message: A text, or a list of parts, whose texts count. Only the last one of a list of
            messages counts, if it is the user's. A message with a tool's result in it has no text:
            a loop may have written the rest of it.
    """
    if isinstance(message, str):
        return message or None
    if not isinstance(message, (list, tuple)) or not message:
        return None
    parts = cast("Sequence[Any]", message)
    if _field(parts[-1], "role") is not None:
        return spoken_in(parts[-1])
    return _text_of(parts)


def _text_of(parts: Sequence[Any]) -> str | None:
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if _is_result(part):
            return None
        text = _field(part, "text")
        kind = _field(part, "type") or _field(part, "kind")
        if isinstance(text, str) and kind in _TEXTS and _field(part, "role") is None:
            texts.append(text)
    return PART_END.join(texts) or None


def spoken_in(message: Any) -> str | None:
    """Return the text of a message of a request if it is the user's; None for none.

    Args:
        message: Has ``role`` and ``content`` or ``parts``; a text alone is the user's.
    """
    if isinstance(message, str):
        return message or None
    if _field(message, "role") != "user" or _is_result(message):
        return None
    content = _field(message, "content")
    if content is None:
        content = _field(message, "parts")
    if isinstance(content, str):
        return content or None
    if not isinstance(content, (list, tuple)):
        return None
    return _text_of(cast("Sequence[Any]", content))


def _is_result(part: Any) -> bool:
    kind = _field(part, "type") or _field(part, "kind")
    if isinstance(kind, str) and kind.endswith(_RESULTS):
        return True
    return any(_field(part, name) for name in _OF_RESULTS)


def _field(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name)
    return getattr(value, name, None)
