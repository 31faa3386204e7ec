"""A run of an agent at a seat: its conversation, its refusal, its end.

A conversation is known by the framework's id, if there is one. One that only continues by its
history is found by what the history contains. The roles in an unknown history show at the first
model call whether it is a past.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import inspect
import json
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, ClassVar, cast

from opentelemetry import context as otel_context
from opentelemetry.context import Context, attach, detach

from otelhooks.frameworks.kit.objects.classes import is_a
from otelhooks.frameworks.kit.passages import Passage
from otelhooks.frameworks.kit.streams.contexts import opened
from otelhooks.hooks.verdict import refusal
from otelhooks.pipeline import runtime
from otelhooks.pipeline.agent_run import RunRequest, agent_run
from otelhooks.pipeline.drivers import Closed, Operation, Split
from otelhooks.pipeline.frames import Turn, current_frame
from otelhooks.pipeline.runtime import Runtime

__all__ = ["Run"]

_MAX_SESSIONS = 10_000
_sessions: weakref.WeakKeyDictionary[Runtime, Any] = weakref.WeakKeyDictionary()


class Run(Passage, RunRequest):
    """One run. `read` sets what it knows: ``agent``, ``prompt``, and the rest.

    Attributes:
        is_typed: Whether a text cannot be its answer: then a refusal raises.
        can_go_on: Whether stop hooks can continue it.
        turn: The run as calls inside it see it; None outside `call`.
        pauses: Exceptions by which the framework pauses, such as ``pkg.mod:Class``.
    """

    must = ("read", "call", "answer_of")
    words = (
        "agent prompt user_said conversation operation is_resumed source task_id session is_typed "
        "can_go_on "
        "pauses answer_of with_answer denied answered is_paused answered_itself again continued "
        "is_control_flow is_measured"
    )
    is_typed = False
    can_go_on = False
    refuses_in_body: ClassVar[bool]
    turn: Turn | None = None
    pauses: ClassVar[tuple[str, ...]] = ()

    _split: Split | None = None
    _is_left = False

    def __init__(self) -> None:
        super().__init__("", "")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # a static method, looked up on the class, would get the object as its first argument
        cls.response = inspect.getattr_static(cls, "answer_of")
        cls.with_response = inspect.getattr_static(cls, "with_answer")
        cls.refuses_in_body = cls.denied is Run.denied

    # -- what an adapter writes ---------------------------------------------------------------

    def call(self, wrapped: Callable[..., Any]) -> Any:
        """Call the framework's function with what hooks wrote: ``prompt``."""
        raise NotImplementedError

    def answer_of(self, raw: Any) -> Any:
        """Return the final answer in a run's result."""
        raise NotImplementedError

    def with_answer(self, raw: Any, answer: Any) -> Any:
        """Return a run's result with another final answer."""
        return answer

    def denied(self, reason: str) -> Any:
        """Return or raise a refusal that needs no run.

        Without this method `call` runs, and answers with `canned`.
        """
        raise NotImplementedError

    def answered(self, answer: Any) -> Any:
        """Return the result with a ready answer, if `denied` makes refusals."""
        return self.refused(str(answer))

    def whole(self, seen: Any) -> Any:
        """Return the result of a stream, as `answer_of` gets it: its items, without this method."""
        return seen

    def told(self, result: Any) -> Any:
        """Return the items that tell a result: its own, or itself."""
        return cast("list[Any]", result) if isinstance(result, list) else [result]

    def is_paused(self, raw: Any) -> bool:
        """Return whether the run has stopped to continue later."""
        return False

    def answered_itself(self, raw: Any) -> Iterable[str]:
        """Return ids of tool calls that the framework answered: their tools were never called."""
        return ()

    async def again(self, raw: Any, reason: str) -> Any:
        """Continue the run from a result, with a message; return the new result."""
        raise NotImplementedError

    # -- what an adapter uses -----------------------------------------------------------------

    @property
    def canned(self) -> str | None:
        """The text that the run must answer with, without its model; None if it should run."""
        answer = self.answer if self.refusal is None else self.refusal
        if answer is None or isinstance(answer, str):
            return answer
        if hasattr(answer, "model_dump_json"):
            return answer.model_dump_json()
        return json.dumps(answer, default=str)

    def belongs_to(self, given: Any, known_as: Iterable[Any] = ()) -> None:
        """Set the conversation.

        Args:
            given: The application's id.
            known_as: Ids in the messages that the run continues from, newest first; the first that
                is not empty counts.
        """
        self.conversation = given or ""
        rt = runtime.active()
        if not given and rt is not None:
            past = next((str(id) for id in known_as if id), None)
            self.session = _sessions.get(rt, {}).get(past)

    def is_known_as(self, id: Any) -> None:
        """Remember its conversation by the framework's own id, for runs that continue it."""
        rt = runtime.active()
        if rt is None or not isinstance(id, str) or self.session is None or self.session.id:
            return
        known = _sessions.setdefault(rt, collections.OrderedDict())
        known[id] = self.session
        if len(known) > _MAX_SESSIONS:
            known.popitem(last=False)

    async def around(self, body: Callable[[], Any]) -> Any:
        """Run the framework's body inside this run, at a place that sees its result.

        For functions that return a context manager: the run ends here, not when it is left.

        Returns:
            The result as hooks leave it.
        """
        split = self._split
        if split is None or not split.proceeds:
            return await body()
        try:
            with inside(split):
                result = await body()
        except BaseException as error:
            if self._is_left and isinstance(error, asyncio.CancelledError):
                await split.afinish(Closed(None))
                raise
            return await split.afail(error)
        while True:
            self.note_unasked(result)
            result, last = await split.afinish(result), result
            if not split.proceeds:
                return result
            try:
                with inside(split):
                    result = await self.again(last, split.value)
            except BaseException as error:
                return await split.afail(error)

    @staticmethod
    def here() -> Any:
        """Return the innermost run that this code is inside; None outside any."""
        frame = current_frame()
        run = frame.turn.run if frame is not None and frame.turn is not None else None
        return run() if run is not None else None

    @staticmethod
    def is_outermost() -> bool:
        """Return whether the code runs outside any other run."""
        frame = current_frame()
        return frame is None or frame.turn is None

    def note_unasked(self, result: Any) -> None:
        """Remove calls that the framework answered itself from those that no seat has judged."""
        turn = self.turn
        if turn is not None and turn.asked:
            for id in self.answered_itself(result):
                turn.judged(id)
                if not turn.asked:
                    break

    # -- what the kit makes of it -------------------------------------------------------------

    @classmethod
    def needs(cls, kind: str) -> tuple[str, ...]:
        return ()

    def driver(self, run: Callable[..., Any]) -> Callable[..., Any]:
        return self._open if run is opened else super().driver(run)

    @contextlib.asynccontextmanager
    async def _open(
        self, operation: Operation, body: Callable[[Any], Any]
    ) -> AsyncGenerator[Any, None]:
        """Run a body that is a context manager; `around` ends the run, or else its exit does."""
        self._split = split = await Split(operation).abegin()
        try:
            if not split.proceeds:
                split.finish(None)
            if self.is_typed and self.canned is not None:
                raise refusal(self.canned, self.verdict)
            with inside(split):
                async with body(split.value) as inner:
                    try:
                        yield inner
                        self._is_left = True
                    except GeneratorExit:  # the consumer's own generator was closed
                        self._is_left = True
                        raise
        except BaseException as error:
            if split.proceeds:
                with contextlib.suppress(type(error)):
                    await split.afail(error)
            raise
        if split.proceeds:
            await split.afinish(Closed(None))

    def steps(self, rt: Runtime) -> Operation:
        seat: Any = type(self)
        return agent_run(rt, seat, self)

    def run(self, wrapped: Callable[..., Any], approved: Any) -> Any:
        frame = current_frame()
        if isinstance(frame, Turn):
            approved.turn, frame.run = frame, weakref.ref(approved)
        return approved.call(wrapped)

    def refused(self, error: Any) -> Any:
        if isinstance(error, Exception):  # of a version; a run's error is text
            raise error
        if self.is_typed:
            raise self.exception(error)
        return self.denied(error)

    def continued(self, raw: Any, reason: str) -> Any:
        return reason if self.can_go_on else None

    @classmethod
    def is_control_flow(cls, error: BaseException) -> bool:
        return is_a(error, *cls.pauses)


@contextlib.contextmanager
def inside(split: Split) -> Any:
    """Run a block in the run's context, or in what the framework has since put inside it."""
    ours, current = split.context, otel_context.get_current()
    same = current_frame(current) is current_frame(ours)
    token = attach(Context(current if same else ours or {}))
    try:
        yield
    finally:
        detach(token)
