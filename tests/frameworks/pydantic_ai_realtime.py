"""A realtime session of Pydantic AI that plays a script: needs 2.54 or newer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.realtime import RealtimeModel
from pydantic_ai.realtime.codec import OutputTranscript, RealtimeConnection, ResponseDone, ToolCall
from pydantic_ai.realtime.codec import ToolResult as Result
from pydantic_ai.realtime.lifecycle import InferredLifecycle

from tests.frameworks.contract import World

_ids = itertools.count(1)


class Connection(RealtimeConnection):
    """Asks for the script's calls one step after the other."""

    def __init__(self, world: World, prompt: str) -> None:
        self._world = world
        self._lifecycle = InferredLifecycle()
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._left, self._shown = 0, [prompt]
        self.answer = ""

    def step(self) -> None:
        step = self._world.next("\n".join(self._shown))
        self._shown = []
        if isinstance(step, str):
            self.answer = step
            self._events.put_nowait([OutputTranscript(step, is_final=True), ResponseDone()])
            self._events.put_nowait(None)
            return
        self._left = len(step)
        calls = [
            ToolCall(f"call_{next(_ids)}", tool_name=name, args=json.dumps(args))
            for name, args in step
        ]
        self._events.put_nowait([*calls, ResponseDone()])

    async def send(self, content: Any) -> Any:
        with self._lifecycle.sending(content):
            if isinstance(content, Result):
                self._shown.append(str(content.output))
                self._left -= 1
                if not self._left:
                    self.step()
        return self._lifecycle.take_pending()

    async def frames(self) -> AsyncIterator[Any]:
        while (events := await self._events.get()) is not None:
            yield self._lifecycle.frame_for(events)


class ScriptedRealtimeModel(RealtimeModel):
    """A realtime model whose connection plays a script."""

    def __init__(self, world: World, prompt: str) -> None:
        super().__init__()
        self.connection = Connection(world, prompt)

    model_name = "scripted-realtime"  # type: ignore[assignment]
    system = "scripted"  # type: ignore[assignment]

    @contextlib.asynccontextmanager
    async def connect(self, **options: Any) -> Any:
        self.connection.step()
        yield self.connection


def build_realtime(tools_of: Any) -> Any:
    def built(world: World) -> Any:
        agent = Agent(name="worker", tools=tools_of(world))

        async def run(prompt: str) -> Any:
            model = ScriptedRealtimeModel(world, prompt)
            async with agent.realtime(model).session() as session:
                async for _ in session:
                    pass
            return model.connection.answer

        return run

    return built
