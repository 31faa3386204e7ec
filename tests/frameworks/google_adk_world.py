"""Stand-ins for what Google ADK reaches over a network: MCP servers, and a live model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from google.genai import types
from mcp import StdioServerParameters

from otelhooks.frameworks.google_adk.scripted import APP, USER
from tests.frameworks.mcp_world import connected, session_of


@contextlib.asynccontextmanager
async def serving(server: Any, name: str = "files", **settings: Any) -> AsyncIterator[McpToolset]:
    """Connect to a server that is an object, as to the command of its name; give the toolset."""
    command = StdioServerParameters(command=f"{name}-server")
    place = StdioConnectionParams(server_params=command)
    toolset = McpToolset(connection_params=place, **settings)
    async with connected(server) as client:
        toolset._mcp_session_manager = Sessions(session_of(client), place)  # type: ignore[assignment]
        yield toolset


class Sessions:
    """Stands in for what opens sessions."""

    def __init__(self, session: Any, place: Any) -> None:
        self._session, self._connection_params = session, place

    async def create_session(self, headers: Any = None, **options: Any) -> Any:
        return self._session

    async def close(self) -> None:
        """Do nothing: the session is closed where it was opened."""

    def _get_session_context(self, headers: Any = None) -> None:
        return None

    def _session_key_for(self, headers: Any = None) -> str:
        return ""

    def _begin_session_use(self, headers: Any = None) -> None:
        """Do nothing: there is no pool."""

    _end_session_use = _discard_session = _begin_session_use


class Line(BaseLlmConnection):
    """A live connection to a scripted model, which answers each message that it is sent."""

    def __init__(self, next_step: Callable[[str], Any]) -> None:
        self._next, self._sent = next_step, asyncio.Queue[str]()

    async def send_history(self, history: list[types.Content]) -> None:
        await self.send_content(history[-1])

    async def send_content(self, content: types.Content) -> None:
        said = [
            str(part.text or (part.function_response and part.function_response.response))
            for part in content.parts or ()
        ]
        self._sent.put_nowait("\n".join(said))

    async def send_realtime(self, blob: Any) -> None:
        """Do nothing: it hears nothing."""

    async def receive(self) -> AsyncIterator[LlmResponse]:  # type: ignore[override]
        step = self._next(await self._sent.get())
        if isinstance(step, str):
            parts = [types.Part(text=step)]
        else:
            parts = [
                types.Part(
                    function_call=types.FunctionCall(id=f"live_{id(args)}", name=n, args=args)
                )
                for n, args in step
            ]
        content = types.Content(role="model", parts=parts)
        yield LlmResponse(content=content, turn_complete=isinstance(step, str))

    async def close(self) -> None:
        """Do nothing: there is no network."""


def live_model(next_step: Callable[[str], Any]) -> BaseLlm:
    """Return a scripted model for live runs; see `scripted_model`."""

    class Live(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            raise AssertionError("not live")
            yield

        @contextlib.asynccontextmanager
        async def connect(self, llm_request: Any) -> Any:
            yield Line(next_step)

    return Live(model="live")


async def converse_live(runner: Any, message: str, **options: Any) -> list[Any]:
    """Say something in a live run of a session of its own; return the events up to the answer."""
    from google.adk.agents.live_request_queue import LiveRequestQueue

    session = await runner.session_service.create_session(app_name=APP, user_id=USER)
    queue, found = LiveRequestQueue(), []
    queue.send_content(types.Content(role="user", parts=[types.Part(text=message)]))
    events = runner.run_live(
        user_id=USER, session_id=session.id, live_request_queue=queue, **options
    )
    async with contextlib.aclosing(events):
        async for event in events:
            found.append(event)
            if event.author != USER and event.is_final_response() and not event.partial:
                break
    queue.close()
    return found
