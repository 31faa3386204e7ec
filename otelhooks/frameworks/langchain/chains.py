# pyright: basic, reportMissingImports=false
"""Runs of langchain-classic's chains, such as `AgentExecutor`: read, refused, answered, streamed.

An executor is an agent wherever it runs. Any other chain is a workflow, and only where it runs by
itself: chains are made of chains.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any

from otelhooks.frameworks.langchain.listeners import Listeners, must_wait
from otelhooks.frameworks.langchain.tools import is_control_flow
from otelhooks.patching.copies import is_a
from otelhooks.patching.patches import Package, Seat
from otelhooks.pipeline import runtime
from otelhooks.pipeline.agent_run import agent_run
from otelhooks.pipeline.drivers import adrive, drive
from otelhooks.pipeline.frames import Turn, current_frame
from otelhooks.pipeline.run_seat import RunRequest, RunSeat
from otelhooks.pipeline.streams import astream, stream
from otelhooks.telemetry import semconv

__all__ = ["CHAINS"]

_EXECUTOR = ("langchain_classic.agents.agent", "AgentExecutor")


class _ChainRun(RunSeat):
    """One run of one chain.

    Args:
        chain: The chain.
        args: Positional arguments of the method: input, config.
        kwargs: Its keyword arguments.
    """

    framework = "langchain"

    def __init__(self, chain: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._chain = chain
        self._input: Any = args[0] if args else kwargs.get("input")
        self._config = args[1] if len(args) > 1 else kwargs.get("config")
        self._further = args[2:]
        self._keywords = {k: v for k, v in kwargs.items() if k not in ("input", "config")}
        names = chain.output_keys  # an executor of runnables names none
        self._output = names[0] if names and "output" not in names else "output"
        self._key = _message_key(self._input)
        self._turn: Turn | None = None
        self._left_out: Listeners | None = None
        self._is_held = self._has_begun = False
        thread = ((self._config or {}).get("configurable") or {}).get("thread_id")
        is_agent = is_a(chain, _EXECUTOR)
        self.request = RunRequest(
            str(chain.get_name()),
            self._input[self._key] if self._key is not None else self._input,
            conversation="" if thread is None else str(thread),
            operation=semconv.OP_INVOKE_AGENT if is_agent else semconv.OP_INVOKE_WORKFLOW,
        )

    def holds_back(self, rt: runtime.Runtime) -> bool:
        """Return whether the answer waits for a hook; to be asked before the body."""
        self._is_held = must_wait(rt, self.request.agent)
        return self._is_held

    def begin(self, approved: RunRequest) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what the method is called with, inside the run."""
        self._has_begun = True
        frame = current_frame()
        self._turn = frame if isinstance(frame, Turn) else None
        given, config = self._input, self._config
        if approved.is_rewritten:
            prompt = approved.prompt
            given = prompt if self._key is None else {**given, self._key: prompt}
        if self._is_held:
            listeners = Listeners(config)
            if listeners.any:
                self._left_out = listeners
                config = listeners.left_out()
        return (given, config, *self._further), self._keywords

    def inner(
        self, wrapped: Callable[..., Any], steps: Callable[[Listeners, Any], Any]
    ) -> Callable[[RunRequest], Any]:
        """Return the body of a stream: a function of what was approved."""

        def run(approved: RunRequest) -> Any:
            args, kwargs = self.begin(approved)
            items = wrapped(*args, **kwargs)
            return items if self._left_out is None else steps(self._left_out, items)

        return run

    # -- what the pipeline asks ---------------------------------------------------------------

    def refused(self, request: RunRequest, reason: str) -> Any:
        """Return the reason as the chain's output."""
        given = self._input if isinstance(self._input, Mapping) else {}
        return {**given, self._output: reason}

    def response(self, request: RunRequest, raw: Any) -> Any:
        """Return the chain's output, also out of the items of a stream."""
        for item in reversed(raw if isinstance(raw, list) else [raw]):
            if isinstance(item, Mapping) and self._output in item:
                return item[self._output]
        return raw

    def with_response(self, request: RunRequest, raw: Any, response: Any) -> Any:
        """Return the same with another output."""
        if isinstance(raw, list):
            return [self._changed(item, response) for item in raw]
        return self._changed(raw, response)

    def _changed(self, item: Any, response: Any) -> Any:
        if not isinstance(item, Mapping) or self._output not in item:
            return item
        from langchain_core.messages import AIMessage

        messages = {"messages": [AIMessage(str(response))]} if "messages" in item else {}
        return type(item)({**item, self._output: response, **messages})  # type: ignore[call-arg]

    def is_control_flow(self, error: BaseException) -> bool:
        """Return whether langgraph pauses or jumps, around the chain."""
        return is_control_flow(error)

    def is_paused(self, request: RunRequest, raw: Any) -> bool:
        """Return that it is not; a run that has ended has no gaps."""
        self._forget_calls()
        return False

    def _forget_calls(self) -> None:
        """Forget the calls that models asked for: executors hand tools no ids."""
        if self._turn is not None:
            self._turn.asked.clear()

    # -- telling ------------------------------------------------------------------------------

    @staticmethod
    def chunks(result: Any) -> list[Any]:
        """Return the items that tell a result."""
        return result if isinstance(result, list) else [result]

    def deliver(self, items: Generator[Any, None, None]) -> Generator[Any, None, None]:
        """Yield a run's items; tell listeners that were left out, from the first item on."""
        told: list[Any] = []
        heard: Any = None
        try:
            for item in items:
                if not told and (listeners := self._untold()) is not None:
                    heard = listeners.start(self.request.agent, self._input)
                told.append(item)
                yield item
            if heard is not None:
                heard.on_chain_end({self._output: self.response(self.request, told)})
        finally:
            self._forget_calls()
            items.close()

    async def adeliver(self, items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Do what `deliver` does, for an asynchronous stream."""
        told: list[Any] = []
        heard: Any = None
        try:
            async for item in items:
                if not told and (listeners := self._untold()) is not None:
                    heard = await listeners.astart(self.request.agent, self._input)
                told.append(item)
                yield item
            if heard is not None:
                await heard.on_chain_end({self._output: self.response(self.request, told)})
        finally:
            self._forget_calls()
            await items.aclose()

    def tell(self, raw: Any) -> None:
        """Tell those who listen, and were left out, of the whole run."""
        if (listeners := self._untold()) is not None:
            heard = listeners.start(self.request.agent, self._input)
            heard.on_chain_end({self._output: self.response(self.request, raw)})

    async def atell(self, raw: Any) -> None:
        """Do what `tell` does, from a coroutine."""
        if (listeners := self._untold()) is not None:
            heard = await listeners.astart(self.request.agent, self._input)
            await heard.on_chain_end({self._output: self.response(self.request, raw)})

    def _untold(self) -> Listeners | None:
        """Return the listeners that the chain itself did not tell; None if it did."""
        return self._left_out if self._has_begun else Listeners(self._config)


def _message_key(given: Any) -> str | None:
    """Return the input that is the user's message; None where no single one is."""
    if not isinstance(given, Mapping):
        return None
    if "input" in given:
        return "input"
    return next(iter(given)) if len(given) == 1 else None


def _is_run(chain: Any) -> bool:
    if is_a(chain, _EXECUTOR):
        return True
    frame = current_frame()
    return frame is None or (frame if isinstance(frame, Turn) else frame.turn) is None


# -- seats ------------------------------------------------------------------------------------


def invoke_chain(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``Chain.invoke``."""
    rt = runtime.active()
    if rt is None or not _is_run(instance):
        return wrapped(*args, **kwargs)
    run = _ChainRun(instance, args, kwargs)
    run.holds_back(rt)

    def body(approved: RunRequest) -> Any:
        given, further = run.begin(approved)
        return wrapped(*given, **further)

    result = drive(agent_run(rt, run, run.request), body)
    run.tell(result)
    return result


async def ainvoke_chain(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``Chain.ainvoke``."""
    rt = runtime.active()
    if rt is None or not _is_run(instance):
        return await wrapped(*args, **kwargs)
    run = _ChainRun(instance, args, kwargs)
    run.holds_back(rt)

    async def body(approved: RunRequest) -> Any:
        given, further = run.begin(approved)
        return await wrapped(*given, **further)

    result = await adrive(agent_run(rt, run, run.request), body)
    await run.atell(result)
    return result


def stream_executor(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``AgentExecutor.stream``."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    run = _ChainRun(instance, args, kwargs)
    items = stream(
        agent_run(rt, run, run.request),
        run.inner(wrapped, Listeners.steps),
        final=list,
        chunks=run.chunks,
        holds_back=lambda: run.holds_back(rt),
    )
    return run.deliver(items)


def astream_executor(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``AgentExecutor.astream``."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    run = _ChainRun(instance, args, kwargs)
    items = astream(
        agent_run(rt, run, run.request),
        run.inner(wrapped, Listeners.asteps),
        final=list,
        chunks=run.chunks,
        holds_back=lambda: run.holds_back(rt),
    )
    return run.adeliver(items)


_CHAIN = "langchain_classic.chains.base"

CHAINS = Package(
    ("langchain-classic",),
    ">=1.0,<2",
    "langchain_classic",
    (
        Seat(_CHAIN, "Chain.invoke", invoke_chain, entry=True),
        Seat(_CHAIN, "Chain.ainvoke", ainvoke_chain, entry=True),
        Seat(_EXECUTOR[0], "AgentExecutor.stream", stream_executor, entry=True),
        Seat(_EXECUTOR[0], "AgentExecutor.astream", astream_executor, entry=True),
    ),
)
