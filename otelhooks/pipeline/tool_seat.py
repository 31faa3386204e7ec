"""How a seat reads and writes a tool call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from otelhooks.hooks.drive import Raised
from otelhooks.hooks.verdict import refusal
from otelhooks.telemetry.spans import error_type

if TYPE_CHECKING:
    from opentelemetry import trace

    from otelhooks.hooks.calls import Call
    from otelhooks.hooks.stages import StageParams
    from otelhooks.pipeline.permits import NextSeat

__all__ = ["ToolSeat"]


class ToolSeat:
    """How one seat reads and writes a tool call; adapters subclass it.

    Attributes:
        framework: Adapter's name.
        group: Name that a `NextSeat` knows the seat by; empty if none leads here.
        judges_again: Whether rules are evaluated again although a permit led here.
        recovers: Whether a hook's recovery replaces a failure; otherwise it only replaces the
            failure's text, and the call has failed.
        is_ahead: Whether it judges calls before other code runs them: an allowed one then ends with
            `ahead`, without a body or a span.
        is_behind: Whether it only ends a call that an earlier seat has judged and reported.
    """

    framework = ""
    group = ""
    judges_again = False
    recovers = True
    is_ahead = False
    is_behind = False

    def ahead(self, call: Call) -> Any:
        """Return what stands for an allowed call of a seat that is ahead of its tool."""
        raise NotImplementedError

    def denied(self, call: Call, reason: str) -> Any:
        """Return a tool's error in the framework's form, with the reason.

        Raises:
            Denied: The framework has no such form; the default.
        """
        raise refusal(reason, call.op.verdict if call.op is not None else None)

    def result(self, call: Call, raw: Any) -> Any:
        """Return what `ToolResult.result` holds for a tool's return value."""
        return raw

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        """Return a tool's return value with another result in it."""
        return value

    def withheld(self, call: Call, raw: Any, reason: str) -> Any:
        """Return a tool's return value with a reason instead of its result."""
        return self.with_result(call, raw, reason)

    def error(self, call: Call, raw: Any) -> Exception | str | None:
        """Return the failure that the framework reports as a result, or its text; else None."""
        return None

    def stages(self, call: Call) -> StageParams | None:
        """Return what hooks are shown of the steps that the tool takes; None if not known."""
        return None

    def is_paused(self, call: Call, raw: Any) -> bool:
        """Return whether the call has stopped to continue later, without a result yet."""
        return False

    def failed(self, call: Call, error: BaseException, message: str) -> Any:
        """Return a failure whose text a hook replaced."""
        replaced = RuntimeError(message)
        replaced.__cause__ = error
        return Raised(replaced)

    def recovered(self, call: Call, value: Any) -> Any:
        """Return what replaces a failure."""
        return value

    def is_control_flow(self, error: BaseException) -> bool:
        """Return whether an exception is not a failure but the framework's way to pause or jump."""
        return False

    def next_seat(self, call: Call) -> NextSeat | None:
        """Return the deeper seat that the framework will hand this very call to, if any."""
        return None

    def follow_up(self, call: Call, raw: Any) -> NextSeat | None:
        """Return the seat that this call will pass once more after this result, if any."""
        return None

    def error_type(self, error: BaseException) -> str:
        """Return the value of ``error.type`` for an exception."""
        return error_type(error)

    def finished(
        self, call: Call, seconds: float, failure: str | None, span: trace.Span | None
    ) -> None:
        """Record the rest about a call whose body ran; its span is still open."""

    def attributes(self, call: Call) -> Mapping[str, Any] | None:
        """Return further attributes of the call's span."""
        return None

    def starts_agent(self, call: Call) -> bool:
        """Return whether the tool is an agent."""
        return "invoke_subagent" in call.canonical
