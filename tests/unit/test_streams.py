"""Streams as operations: what `test_decorators.py` does not reach."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from otelhooks import hooks, types
from otelhooks.pipeline import runtime
from otelhooks.pipeline.agent_run import RunRequest, RunSeat, agent_run
from otelhooks.pipeline.streams import astream, stream
from otelhooks.records import semconv


class Seat(RunSeat):
    framework = "fake"

    def continued(self, request: RunRequest, raw: Any, reason: str) -> RunRequest | None:
        return RunRequest(request.agent, reason)


@pytest.fixture
def sent_on() -> Any:
    decision = types.StopDecision.CONTINUE

    @hooks.stop
    def once(args: types.StopArgs) -> types.StopHookResult | None:
        if args.continuation_count:
            return None
        return types.StopHookResult(decision=decision, reason="more")

    return once


def parts(request: RunRequest) -> Iterator[str]:
    yield f"{request.prompt}1"
    yield f"{request.prompt}2"


def opened(rt: Any) -> Any:
    return agent_run(rt, Seat(), RunRequest("a", "x"))


def test_a_run_that_a_stop_hook_sends_on_streams_on(governed: Any, sent_on: Any) -> None:
    ended: list[Any] = []
    governed(hooks=[sent_on, hooks.on_run_end(lambda info: ended.append(info.response))])
    items = stream(opened(runtime.active()), parts, final=list, chunks=list)
    assert list(items) == ["x1", "x2", "more1", "more2"]
    assert ended == [["more1", "more2"]]
    assert governed.attributes("invoke_agent a")[semconv.GEN_AI_AGENT_NAME] == "a"


def test_so_does_an_asynchronous_one(governed: Any, sent_on: Any) -> None:
    async def aparts(request: RunRequest) -> Any:
        for part in parts(request):
            yield part

    async def main() -> list[Any]:
        items = astream(opened(runtime.active()), aparts, final=list, chunks=list)
        return [item async for item in items]

    governed(hooks=[sent_on])
    assert asyncio.run(main()) == ["x1", "x2", "more1", "more2"]


def test_a_stream_that_cannot_be_opened_fails_the_operation(governed: Any) -> None:
    def closed(request: RunRequest) -> Any:
        raise ConnectionError("down")

    async def aclosed(request: RunRequest) -> Any:
        raise ConnectionError("down")

    async def main() -> None:
        async for _ in astream(opened(runtime.active()), aclosed, final=list, chunks=list):
            raise AssertionError

    governed()
    with pytest.raises(ConnectionError):
        list(stream(opened(runtime.active()), closed, final=list, chunks=list))
    with pytest.raises(ConnectionError):
        asyncio.run(main())
    kinds = [span.attributes[semconv.ERROR_TYPE] for span in governed.spans]
    assert kinds == ["ConnectionError", "ConnectionError"]


def test_what_the_consumer_throws_in_fails_the_operation(governed: Any) -> None:
    governed()
    items = stream(opened(runtime.active()), parts, final=list, chunks=list)
    next(items)
    with pytest.raises(KeyError):
        items.throw(KeyError("x"))
    assert governed.attributes("invoke_agent a")[semconv.ERROR_TYPE] == "KeyError"


@pytest.mark.parametrize("who", ["consumer", "framework"])
def test_what_is_cancelled_since_the_consumer_left_has_not_failed(governed: Any, who: str) -> None:
    async def endless(request: RunRequest) -> Any:
        while True:
            yield "part"
            await asyncio.sleep(3600)

    async def relayed(request: RunRequest) -> Any:
        """Stream an inner run that a task reads, as frameworks with workers do."""
        queue: asyncio.Queue[Any] = asyncio.Queue()

        async def read() -> None:
            inner = agent_run(runtime.active(), Seat(), RunRequest("inner", "x"))
            async for part in astream(inner, endless, final=list, chunks=list):
                queue.put_nowait(part)

        task = asyncio.create_task(read())
        try:
            yield await queue.get()
            if who == "framework":
                raise ConnectionError
            yield await queue.get()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def main() -> None:
        items = astream(opened(runtime.active()), relayed, final=list, chunks=list)
        assert await anext(items) == "part"
        if who == "consumer":
            await items.aclose()
        else:
            with pytest.raises(ConnectionError):
                await anext(items)

    governed()
    asyncio.run(main())
    kinds = [span.attributes.get(semconv.ERROR_TYPE) for span in governed.spans]
    failed = ["asyncio.exceptions.CancelledError", "ConnectionError"]
    assert kinds == (failed if who == "framework" else [None, None])


def test_what_may_be_the_result_waits_for_its_verdict(governed: Any) -> None:
    """The rest of a stream that is not held back comes as it is said."""

    class Changing(Seat):
        def response(self, request: Any, raw: Any) -> Any:
            return raw[-1]

        def with_response(self, request: Any, raw: Any, response: Any) -> Any:
            return [response]

    async def aparts(request: RunRequest) -> Any:
        for part in parts(request):
            yield part

    def run(waits: Any) -> Any:
        operation = agent_run(rt, Changing(), RunRequest("a", "x"))
        return list(stream(operation, parts, final=list, chunks=list, waits=waits))

    async def arun(waits: Any) -> Any:
        operation = agent_run(rt, Changing(), RunRequest("a", "x"))
        items = astream(operation, aparts, final=list, chunks=list, waits=waits)
        return [item async for item in items]

    @hooks.post_agent_transform
    def change(answer: Any) -> str:
        return f"{answer}!"

    governed(hooks=[change])
    rt: Any = runtime.active()
    for waiting, said in (("x1x2", ["x1", "x2!"]), ("x1", ["x1", "x2"])):
        assert run(waiting.__contains__) == said
        assert asyncio.run(arun(waiting.__contains__)) == said
