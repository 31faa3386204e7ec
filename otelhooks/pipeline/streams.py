"""Streams as operations: the decision before the first item, the end exactly once.

The frame's context is attached around each step of the inner stream and never across a yield, so
the consumer's code runs in its own context, wherever it stops. A stream that is closed early ends
its operation as partial.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from typing import Any

from opentelemetry.context import attach, detach

from otelhooks.pipeline.drivers import Closed, Operation, Split
from otelhooks.pipeline.frames import Turn, current_frame

__all__ = ["OnFirst", "astream", "stream"]

Inner = Callable[[Any], Any]
OnFirst = Callable[[], Callable[[], None] | None]


def stream(
    operation: Operation | Split,
    inner: Inner,
    *,
    final: Callable[[list[Any]], Any],
    chunks: Callable[[Any], Iterable[Any]],
    holds_back: Callable[[], bool] = lambda: False,
    on_first: OnFirst = lambda: None,
    waits: Callable[[Any], bool] = lambda _: False,
    release: Callable[[Any], Iterable[Any]] | None = None,
) -> Generator[Any, Any, None]:
    """Run an operation whose body is a generator; yield its items.

    Args:
        operation: Not started; or begun, with an `inner` that knows what its first call returned.
        inner: Takes what was approved; returns the framework's own generator.
        final: Takes all items; returns the result that the operation gets.
        chunks: Takes a result that hooks made (a refusal, an answer, a rewrite); returns the items
            that express it.
        holds_back: Called once the operation has been decided: whether all items must wait for the
            verdict on the whole.
        on_first: Called when the first item has come; returns what is called for each of the
            others, if anything.
        waits: Whether an item may be the result: it is kept back until another item comes, and the
            last one for the verdict.
        release: Takes each item as it comes; returns what the consumer gets by then. The rest is
            what `chunks` returns of the result, changed or not.
    """
    split = operation if isinstance(operation, Split) else Split(operation).begin()
    if not split.proceeds:
        yield from chunks(_outcome(split))
        return
    held = holds_back()
    while split.proceeds:  # more than once if a stop hook continues a run
        yield from _pass(split, inner, final, chunks, held, on_first, waits, release)


def _pass(
    split: Split,
    inner: Inner,
    final: Callable[[list[Any]], Any],
    chunks: Callable[[Any], Iterable[Any]],
    held: bool,
    on_first: OnFirst,
    waits: Callable[[Any], bool],
    release: Callable[[Any], Iterable[Any]] | None,
) -> Generator[Any, Any, None]:
    seen: list[Any] = []
    kept = seen if held else []
    generator: Any = None
    on_next: Callable[[], None] | None = None
    ended = False
    try:
        token = attach(split.context)  # type: ignore[arg-type]  # set while it proceeds
        try:
            generator = iter(inner(split.value))
        finally:
            detach(token)
        while True:
            token = attach(split.context)  # type: ignore[arg-type]
            try:
                item = next(generator)
            except StopIteration:
                break
            finally:
                detach(token)
            if not seen:
                on_next = on_first()
            elif on_next is not None:
                on_next()
            seen.append(item)
            if release is not None:
                yield from release(item)
            elif not held:
                yield from kept
                kept = [item] if waits(item) else []
                if not kept:
                    yield item
        ended = True
        raw = final(seen)
        result = split.finish(raw)
        if (held or kept or release is not None) and not split.proceeds:
            yield from kept if release is None and result is raw else chunks(result)
    except GeneratorExit:
        _close(generator)
        if not ended:
            split.finish(Closed(final(seen)))
        raise
    except BaseException as error:
        if ended:
            raise
        _close(generator)
        recovered = split.fail(error)
        yield from chunks(recovered)


async def astream(
    operation: Operation | Split,
    inner: Inner,
    *,
    final: Callable[[list[Any]], Any],
    chunks: Callable[[Any], Iterable[Any]],
    holds_back: Callable[[], bool] = lambda: False,
    on_first: OnFirst = lambda: None,
    waits: Callable[[Any], bool] = lambda _: False,
    release: Callable[[Any], Iterable[Any]] | None = None,
) -> AsyncGenerator[Any, None]:
    """Like `stream`, for an asynchronous generator."""
    split = operation if isinstance(operation, Split) else await Split(operation).abegin()
    if not split.proceeds:
        for item in chunks(_outcome(split)):
            yield item
        return
    held = holds_back()
    while split.proceeds:
        items = _apass(split, inner, final, chunks, held, on_first, waits, release)
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()


async def _apass(
    split: Split,
    inner: Inner,
    final: Callable[[list[Any]], Any],
    chunks: Callable[[Any], Iterable[Any]],
    held: bool,
    on_first: OnFirst,
    waits: Callable[[Any], bool],
    release: Callable[[Any], Iterable[Any]] | None,
) -> AsyncGenerator[Any, None]:
    seen: list[Any] = []
    kept = seen if held else []
    generator: Any = None
    on_next: Callable[[], None] | None = None
    ended = False
    try:
        token = attach(split.context)  # type: ignore[arg-type]
        try:
            opened = inner(split.value)
            generator = aiter(await opened if inspect.isawaitable(opened) else opened)
        finally:
            detach(token)
        while True:
            token = attach(split.context)  # type: ignore[arg-type]
            try:
                item = await anext(generator)
            except StopAsyncIteration:
                break
            finally:
                detach(token)
            if not seen:
                on_next = on_first()
            elif on_next is not None:
                on_next()
            seen.append(item)
            if release is not None:
                for each in release(item):
                    yield each
            elif not held:
                for each in kept:
                    yield each
                kept = [item] if waits(item) else []
                if not kept:
                    yield item
        ended = True
        raw = final(seen)
        result = await split.afinish(raw)
        if (held or kept or release is not None) and not split.proceeds:
            for item in kept if release is None and result is raw else chunks(result):
                yield item
    except GeneratorExit:
        if isinstance(frame := current_frame(split.context), Turn):
            frame.left = True
        await _aclose(generator)
        if not ended:
            await split.afinish(Closed(final(seen)))
        raise
    except BaseException as error:
        if ended:
            raise
        recovered = await split.afail(error)
        for item in chunks(recovered):
            yield item


def _outcome(split: Split) -> Any:
    return split.finish(None)


def _close(generator: Any) -> None:
    close = getattr(generator, "close", None)
    if close is not None:
        close()


async def _aclose(generator: Any) -> None:
    close = getattr(generator, "aclose", None)
    if close is not None:
        await close()
