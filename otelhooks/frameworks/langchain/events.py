# pyright: basic, reportMissingImports=false
"""A chat model's events: the third version of langchain's streams, which user code pulls itself.

What is streamed here reaches its consumer by `stream.dispatch` and the callback manager, not by the
generator's items; what is held back, and what a hook says instead, is dispatched once decided.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from otelhooks.frameworks import kit
from otelhooks.frameworks.langchain.models import StreamedCall, quiet

__all__ = ["EventsCall"]


class _Own(NamedTuple):
    """An event of ours, which nobody has dispatched yet."""

    event: Any


class EventsCall(StreamedCall):
    """A call whose events user code pulls; those of an agent lie below another seat."""

    def read(  # type: ignore[override]
        self, model: Any, messages: Any, *, run_manager: Any, stream: Any, **further: Any
    ) -> Any:
        """Read ``BaseChatModel._iter_v2_events``."""
        if self.is_inner():
            return kit.SKIP
        self.manager, self.stream = run_manager, True
        self.target = self.filled = stream
        about = getattr(run_manager, "metadata", None)
        return self.takes(model, messages, about, further)

    def call(self, wrapped: Any) -> Any:
        """Pull the events, into a stream that nobody reads where they are held back."""
        manager = self.manager
        if self.holds_back:
            manager = quiet(manager)
            self.filled = type(self.target)(message_id=self.target.message_id)
        return wrapped(self.converted(), run_manager=manager, stream=self.filled, **self.written())

    def note_first_chunk(self) -> None:
        """Note nothing: the first event is no chunk, but says that a message starts."""

    def whole(self, seen: Any) -> Any:
        """Return the message that the events made up."""
        return self.filled.output_message

    def told(self, result: Any) -> Any:
        """Return the events that tell a message."""
        from langchain_core.language_models._compat_bridge import message_to_events

        return map(_Own, message_to_events(result, message_id=self.target.message_id))

    def deliver(self, item: Any) -> Any:
        """Dispatch what was held back, or is ours; end the call before a message's last event."""
        event = item.event if type(item) is _Own else item
        if self.holds_back or type(item) is _Own:
            self.target.dispatch(event)
            yield self.manager.on_stream_event(event)
        self.is_over = event.get("event") == "message-finish"
        return [event]
