# pyright: basic
"""A loop that runs in another process: each connection to it, its turns and the agents it starts.

The loop asks through hooks what may run, reports what it does, and lets this process run some
tools. All of this arrives in tasks of the connection's reader, in the context that was current when
it connected, so context variables do not show the turn. A `Loop` therefore keeps the contexts, and
each message is handled in the one that it belongs to.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

from opentelemetry.context import Context, attach, detach, get_current

from otelhooks.config.values import of_child as variable
from otelhooks.errors import Denied, SeatError
from otelhooks.frameworks.kit.remote import budgets
from otelhooks.frameworks.kit.runs import Run
from otelhooks.frameworks.kit.telemetry import failed
from otelhooks.hooks import drive
from otelhooks.patching.versions import installed
from otelhooks.pipeline import runtime, session_points
from otelhooks.pipeline.drivers import Closed, Split
from otelhooks.pipeline.frames import current_frame, current_scope, with_scope
from otelhooks.records import semconv

__all__ = ["Loop", "RemoteRun", "Request", "inside", "understood", "variable"]


class RemoteRun(Run):
    """A run, or a turn, of a loop elsewhere: this process is notified of its start and its end.

    Attributes:
        context: Context that its calls are made in.
        parent: The loop's name for the agent that started it, empty for none.
        text: Its last text.
        value: Its answer, if that is not text.
        result: What hooks made of its answer, or the answer instead of a run.
        is_changed: Whether the result differs from its own answer.
    """

    must = ()
    words = "text value"
    parent = ""
    text = ""
    value: Any = None
    result: Any = None
    is_changed = False

    @classmethod
    def of(cls, agent: str, prompt: Any, parent: str = "") -> Any:
        """Return a run that has not begun."""
        run = cls()
        run.agent, run.prompt, run.parent = agent, prompt, parent
        return run

    @property
    def is_open(self) -> bool:
        """Whether it has begun but not ended."""
        return self._split is not None and self._split.proceeds

    async def begin(self) -> bool:
        """Begin it in the current context; return whether it may continue.

        Raises:
            Denied: It may not, and refusals raise.
        """
        rt = runtime.active()
        if rt is None:
            return True
        self._split = split = await Split(self.steps(rt)).abegin()
        self.context = split.context if split.proceeds else get_current()
        if not split.proceeds:
            self.result = split.finish(None)
        return split.proceeds

    async def may_stop(self, text: str = "") -> str | None:
        """End it, unless a stop hook continues it; then return the reason to continue with."""
        if self._split is None or not self.is_open:
            return None
        said = self.said(text)
        with inside(self.context):
            result = await self._split.afinish(said)
        if self.is_open:
            return str(self._split.value)
        self._take(result, said)
        return None

    async def end(self, said: Any = None) -> None:
        """End it with its answer so far, or with one that we give; hooks cannot continue it."""
        if self._split is None or not self.is_open:
            return
        said = self.said() if said is None else said
        with inside(self.context):
            self._take(await self._split.afinish(Closed(said)), said)

    async def fail(self, error: BaseException) -> None:
        """End it with a failure, which the caller raises."""
        if self._split is not None and self.is_open:
            with inside(self.context), contextlib.suppress(type(error)):
                await self._split.afail(error)

    def said(self, text: str = "") -> Any:
        """Return its answer, or the part that is known."""
        return self.value if self.value is not None else text or self.text

    def answer_of(self, raw: Any) -> Any:
        """Return the answer itself."""
        return raw

    def denied(self, reason: str) -> Any:
        """Return the reason as the result."""
        return reason

    def answered(self, answer: Any) -> Any:
        """Return a ready answer as the result."""
        return answer

    def _take(self, result: Any, said: Any) -> None:
        self.result, self.is_changed = result, result is not said and result != said


class Loop:
    """One connection to a loop; a subclass in the adapter says how to stop it.

    Attributes:
        framework: Adapter's name.
        package: Its distribution and import name.
        unnamed: Name of an agent without one.
        provider: Provider of its models, as in the conventions.
        operation: Operation name of its model calls, as in the conventions.
        agent_run: Class for the runs of agents that it starts.
        unseen: Text for a call whose end it has not reported.
        agent: Name of its agent.
        model: Name of its model.
        conversation: Its id of the conversation, empty for none.
        has_history: Whether the conversation began earlier.
        outside: Context outside any turn, with the scopes in force when it connected.
        turn: The open turn.
        last: That, or the one before, for what is reported late.
        closed: Why no further turn may start; empty if one may.
        calls: Calls that may run and have not ended, by their ids.
        judged: Ids of the calls that were judged in this turn.
        starting: Agents whose name in the loop is not known yet.
        agents: Agents by that name, such as a trajectory or an id.
        used: Tokens that it has reported so far.
        is_answering: Whether it has begun to answer the user: no model call follows.
    """

    framework: ClassVar[str]
    package: ClassVar[tuple[str, str]]
    unnamed: ClassVar[str]
    provider: ClassVar[str] = ""
    operation: ClassVar[str] = semconv.OP_CHAT
    agent_run: ClassVar[type[RemoteRun]] = RemoteRun
    unseen: ClassVar[str] = "the loop did not report an end"

    def __init__(self, conversation: str, agent: str, model: str = "") -> None:
        self.conversation, self.agent, self.model = conversation, agent, model
        self.has_history = False
        scope = current_scope()
        with inside(Context()):
            self.outside = with_scope(scope)
        self.turn: Any = None
        self.last: Any = None
        self.closed = ""
        self.calls: dict[str, Any] = {}
        self.judged: set[str] = set()
        self.starting: list[RemoteRun] = []
        self.agents: dict[str, RemoteRun] = {}
        self.used: dict[str, int] = {}
        self.is_answering = False

    # -- what an adapter writes ---------------------------------------------------------------

    async def stop(self, reason: str) -> None:
        """Make the loop stop the turn; the reader of its answer gets the reason."""
        raise NotImplementedError

    # -- finding ------------------------------------------------------------------------------

    def found_by(self, *things: Any) -> None:
        """Make it findable by these objects of the framework."""
        for thing in things:
            if thing is not None:
                _loops[thing] = self

    @staticmethod
    def of(thing: Any) -> Any:
        """Return the loop of an object of the framework; None if it has none."""
        return _loops.get(thing)

    @classmethod
    def unguarded(cls, problem: str) -> None:
        """Refuse to use a loop that does not ask, if anything could be denied.

        Raises:
            SeatError: Something could.
        """
        rt = runtime.active()
        if rt is None:
            return
        hooks, judges = rt.in_force(current_scope(), cls.unnamed)
        if hooks.can_deny or any(getattr(judge, "can_deny", True) for judge in judges):
            distribution, module = cls.package
            name, version = installed((distribution,), module)
            raise SeatError(cls.framework, name, version, "any", problem)

    # -- turns --------------------------------------------------------------------------------

    async def begin(self, turn: RemoteRun) -> bool:
        """Begin a turn; return whether the loop may. If not, ``turn.result`` is the answer.

        Raises:
            Denied: It may not, and refusals raise.
        """
        await self.end()
        rt = runtime.active()
        if rt is None:
            return True
        turn.agent, turn.conversation = self.agent, self.conversation
        _, judges = rt.in_force(current_scope(), self.agent)
        if self.conversation:
            looks = any(judge.needs_context for judge in judges)
            session = rt.sessions.get(self.conversation)
            session.context.meet(lambda: self.has_history, looks=looks)
        if not await turn.begin():
            return False
        self.turn = self.last = turn
        self.judged.clear()
        with inside(turn.context):
            reason = self.closed or await budgets.spent(self)
        if reason:
            await self.end(reason)
            turn.result = reason
        return not reason

    async def end(self, said: Any = None) -> None:
        """End the turn with everything open in it: agents, and calls without a reported end."""
        turn, self.turn = self.turn, None
        if turn is None:
            return
        left, self.starting = [*self.starting, *self.agents.values()], []
        for run in left:
            await run.end()
        self.agents.clear()
        calls, self.calls = list(self.calls.values()), {}
        for call in calls:
            await call.has_not_run(self.unseen, is_refused=False)
        await turn.end(said)

    async def close(self) -> None:
        """End turn and conversation."""
        await self.end()
        rt = runtime.active()
        session = rt.sessions.end(self.conversation) if rt is not None else None
        if rt is not None and session is not None:
            await drive.adrive(session_points.finish(rt, session))

    async def count(self, total: Mapping[str, int]) -> None:
        """Count the tokens that model calls have used so far; stop the turn if they are too many.

        What is reported after the end of a turn still counts for it and its session.

        Args:
            total: Of the whole conversation, as fields of `types.Usage`.
        """
        before, self.used = self.used, dict(total)
        used = {name: n - before.get(name, 0) for name, n in total.items()}
        used = {name: n for name, n in used.items() if n > 0}
        if used and self.last is not None:
            with inside(self.last.context):
                await budgets.count(self, used)
                reason = await budgets.spent(self) if self._works() else ""
            if reason:
                await self.stop(reason)

    def _works(self) -> bool:
        """Return whether a model call may follow; late reports come after a turn's end."""
        return self.turn is not None and self.turn.is_open and not self.is_answering

    # -- calls --------------------------------------------------------------------------------

    def context_of(self, key: str = "") -> Context:
        """Return the context that an agent's calls are made in; the turn's for no agent."""
        run = self.agent_of(key)
        if run is not None and run.context is not None:
            return run.context
        return self.turn.context if self.turn is not None else self.outside

    def allowed(self, call: Any) -> None:
        """Note a call that may run."""
        self.judged.add(call.id)
        self.calls[call.id] = call

    def denied(self, id: str | None, key: str) -> None:
        """Note a call that may not run.

        Args:
            id: Id of the call.
            key: Name of the agent that makes it.
        """
        if id is not None:
            self.judged.add(id)

    def asks_for(self, key: str, calls: Mapping[str, str]) -> None:
        """Note calls that an agent asks for, which a seat must judge: name by id."""
        with inside(self.context_of(key)):
            frame = current_frame()
        if frame is not None and frame.turn is not None:
            frame.turn.ask_for(calls)

    def ended(self, id: str | None) -> Any:
        """Return the call of that id, which ends now, once; None if it is unknown."""
        return self.calls.pop(id, None) if id is not None else None

    async def returned(self, id: str | None, raw: Any) -> Any:
        """Set a call's result; return the call if hooks took back what the loop already has."""
        call = self.ended(id)
        if call is None:
            return None
        await call.has_ended(raw)
        return call if call.is_taken_back else None

    async def failed(self, id: str | None, error: Exception) -> str | None:
        """Set a call's failure; return a hook's text for it, if it failed in the other process."""
        call = self.ended(id)
        if call is None:
            return None
        try:
            await call.has_failed(error)
        except Exception as raised:
            if raised is not error:
                raise
        return call.error_text

    async def not_run(self, id: str | None, reason: str) -> bool:
        """Note that a call has not run although it may; return whether there was one."""
        call = self.ended(id)
        if call is not None:
            await call.has_not_run(reason, is_refused=False)
        return call is not None

    def serve(self, id: str, key: str) -> None:
        """Mark what this task runs from now on as a tool call that the loop requested."""
        Request.current.set(Request(self, id, key))

    # -- agents -------------------------------------------------------------------------------

    def agent_of(self, key: str) -> RemoteRun | None:
        """Return the agent with a name; for a new name, one of those that are starting."""
        if key in self.agents or key in ("", self.conversation):
            return self.agents.get(key)
        return self._bind(key, "", "")

    def _bind(self, key: str, parent: str, shown: str) -> RemoteRun | None:
        """Give a new name to its agent, if it can be determined."""
        found = [run for run in self.starting if not parent or run.parent == parent]
        told = [run for run in found if run.prompt and run.prompt in shown]
        if not found or (not told and len(found) > 1 and not shown and parent):
            return None  # its first step shows it
        run = (told or found)[0]
        self.starting.remove(run)
        self.agents[key] = run
        return run

    async def start(self, runs: list[RemoteRun], context: Context | None) -> str | None:
        """Begin the runs of agents that are about to start; return why one may not, or None."""
        begun: list[RemoteRun] = []
        for run in runs:
            reason = await _refusal(run, context)
            if reason is not None:
                for one in begun:
                    await one.end()
                return reason
            begun.append(run)
        self.starting += begun
        return None

    async def meet(self, key: str, parent: str, shown: str = "") -> None:
        """Note an agent at work; begin a run for one that no call has announced.

        Args:
            key: The loop's name for it.
            parent: The loop's name for the agent that started it, empty for the loop's own.
            shown: Its task, if known.
        """
        if key in ("", self.conversation) or key in self.agents or self.turn is None:
            return
        if self._bind(key, parent, shown) is not None:
            return
        if any(run.parent == parent for run in self.starting):
            return  # its first step shows which one it is
        starters = [call for call in self.calls.values() if call.key == parent and call.is_remote]
        context = starters[-1].split.context if starters else self.context_of(parent)
        run = self.agent_run.of("subagent", shown, parent)
        run.refusal = await _refusal(run, context)
        self.agents[key] = run

    async def left(self, key: str) -> None:
        """Note that an agent has finished."""
        if key in self.agents:
            await self.agents[key].may_stop()


async def _refusal(run: RemoteRun, context: Context | None) -> str | None:
    """Begin an agent's run; return why it may not, or None."""
    with inside(context):
        try:
            return None if await run.begin() else str(run.result)
        except Denied as refusal:
            return refusal.reason


class Request:
    """A request of a loop to run a tool here; the task that serves it finds it in `current`.

    Attributes:
        id: Id of the call.
        key: The loop's name for the agent that makes it.
        is_taken: Whether the call is already running.
    """

    current: ClassVar[ContextVar[Request | None]] = ContextVar("otelhooks-request", default=None)

    def __init__(self, loop: Loop, id: str, key: str) -> None:
        self.loop, self.id, self.key = loop, id, key
        self.is_taken = not id

    @classmethod
    def taken(cls) -> Request | None:
        """Return the current one, once: what a tool's body calls is another call."""
        request = cls.current.get()
        if request is None or request.is_taken:
            return None
        request.is_taken = True
        return request


_loops: weakref.WeakKeyDictionary[Any, Loop] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def inside(context: Context | None) -> Iterator[None]:
    """Run a block in a context; None keeps the current one."""
    if context is None:
        yield
        return
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


@contextlib.contextmanager
def understood(what: str) -> Iterator[None]:
    """Log failures in a block that only listens; the loop continues."""
    try:
        yield
    except Exception as error:
        failed(f"{what} was not understood", error)
