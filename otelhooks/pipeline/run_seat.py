"""How a seat reads and writes a run of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otelhooks.hooks.verdict import Verdict, refusal
from otelhooks.records import semconv

if TYPE_CHECKING:
    from otelhooks.pipeline.sessions import Session

__all__ = ["PROMPT", "RunRequest", "RunSeat"]


PROMPT = object()
"""What the user said is the prompt."""


class RunRequest:
    """A run on its way through a seat.

    Attributes:
        agent: Name of the agent or graph.
        prompt: The user's message, as hooks see it; they may replace it.
        conversation: Id of the conversation, empty if the framework has none.
        operation: ``invoke_agent``, or ``invoke_workflow`` for an orchestration of several agents.
        is_resumed: Whether it continues after a pause: no user message started it.
        source: ``user`` or ``trigger``.
        task_id: The application's or framework's id of the task, if there is one.
        is_rewritten: Whether hooks replaced the prompt.
        holds_back: Whether a stream must wait for the verdict on the final answer.
        refusal: The message for a body that must refuse in its own way; None to run.
        verdict: The verdict that refused it, if any.
        answer: Ready answer that such a body gives instead of running; None to run.
        user_said: What the user said, if `prompt` is more or has another form; None if others
            may have written parts of it.
        session: Conversation that it belongs to. The seat sets it where the framework has no id but
            the run continues a paused one; otherwise it is filled in before the body runs.
        is_measured: Whether the framework records the ``gen_ai.invoke_agent.*`` metrics of its runs
            itself, at the global provider.
    """

    is_measured: bool = False

    __slots__ = (
        "agent",
        "answer",
        "conversation",
        "holds_back",
        "is_resumed",
        "is_rewritten",
        "operation",
        "prompt",
        "refusal",
        "session",
        "source",
        "task_id",
        "user_said",
        "verdict",
    )

    def __init__(
        self,
        agent: str,
        prompt: Any,
        *,
        conversation: str = "",
        operation: str = semconv.OP_INVOKE_AGENT,
        is_resumed: bool = False,
        source: str = "user",
        task_id: str = "",
    ) -> None:
        self.agent = agent
        self.prompt = prompt
        self.conversation = conversation
        self.operation = operation
        self.is_resumed = is_resumed
        self.source = source
        self.task_id = task_id
        self.is_rewritten = False
        self.holds_back = False
        self.refusal: str | None = None
        self.verdict: Verdict | None = None
        self.answer: Any = None
        self.user_said: Any = PROMPT
        self.session: Session | None = None


class RunSeat:
    """How one seat reads and writes a run; adapters subclass it.

    Attributes:
        framework: Adapter's name.
        refuses_in_body: Whether the body makes refusals and ready answers itself, from
            `RunRequest.refusal` and `RunRequest.answer`, so that result, session and stream events
            are the framework's own.
    """

    framework = ""
    refuses_in_body = False

    def refused(self, request: RunRequest, reason: str) -> Any:
        """Return the run's result with the reason as its answer.

        Raises:
            Denied: The framework has no such form; the default.
        """
        raise refusal(reason, request.verdict)

    def answered(self, request: RunRequest, response: Any) -> Any:
        """Return the run's result with a ready answer."""
        return self.refused(request, str(response))

    def response(self, request: RunRequest, raw: Any) -> Any:
        """Return the final answer in a run's result."""
        return raw

    def with_response(self, request: RunRequest, raw: Any, response: Any) -> Any:
        """Return a run's result with another final answer."""
        return response

    def is_control_flow(self, error: BaseException) -> bool:
        """Return whether an exception is the framework's way to pause."""
        return False

    def is_paused(self, request: RunRequest, raw: Any) -> bool:
        """Return whether the run has stopped to continue later: it has no answer yet."""
        return False

    def continued(self, request: RunRequest, raw: Any, reason: str) -> RunRequest | None:
        """Return the request that continues the run with a reason, None if it cannot continue."""
        return None
