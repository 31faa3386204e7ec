# pyright: basic, reportMissingImports=false
"""A model for LlamaIndex that says what a function says, and the proof of a deny with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool

from otelhooks.frameworks.kit import trials
from otelhooks.frameworks.llama_index.passages import Chat

__all__ = ["ScriptedModel", "prove"]


class ScriptedModel(CustomLLM, FunctionCallingLLM):
    """A model.

    Args:
        pieces: How many pieces a streamed text comes in.
    """

    next_step: trials.NextStep
    pieces: int = 1

    @property
    def metadata(self) -> LLMMetadata:
        """What it can do."""
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    def chat(self, messages: Any, **given: Any) -> ChatResponse:
        """Answer."""
        step = self.next_step("\n".join(str(one.content or "") for one in messages))
        blocks = trials.parts(step, Chat)
        if isinstance(step, str):
            return _response(blocks, step, {"text": step, "usage": _USED})
        return _response(blocks, "", {"usage": _USED})

    def stream_chat(self, messages: Any, **given: Any) -> Iterator[ChatResponse]:
        """Answer in pieces."""
        whole = self.chat(messages, **given)
        text = whole.message.content or ""
        size = -(-len(text) // self.pieces)
        for at in range(size, len(text), size or 1):
            yield _response([TextBlock(text=text[:at])], text[at - size : at], {})
        yield _response(whole.message.blocks, text[size * (self.pieces - 1) :], whole.raw)

    def complete(self, prompt: str, formatted: bool = False, **given: Any) -> CompletionResponse:
        """Answer a prompt."""
        return CompletionResponse(text=str(self.next_step(prompt)))

    def stream_complete(self, prompt: str, formatted: bool = False, **given: Any) -> Any:
        """Answer a prompt in one piece."""
        yield self.complete(prompt)

    def _prepare_chat_with_tools(self, tools: Any, **given: Any) -> dict[str, Any]:
        messages = [*(given.get("chat_history") or ())]
        if user := given.get("user_msg"):
            messages.append(ChatMessage(user, role="user") if isinstance(user, str) else user)
        defined = [tool.metadata.to_openai_tool() for tool in tools]
        return {"messages": messages, "tools": defined}

    def get_tool_calls_from_response(self, response: Any, **given: Any) -> list[ToolSelection]:
        """Return the calls that an answer asks for."""
        return [
            ToolSelection(
                tool_id=one.tool_call_id, tool_name=one.tool_name, tool_kwargs=one.tool_kwargs
            )
            for one in response.message.blocks
            if isinstance(one, ToolCallBlock)
        ]


_USED = {"prompt_tokens": 7, "completion_tokens": 3}


def _response(blocks: Any, delta: str, raw: Any) -> ChatResponse:
    message = ChatMessage(role="assistant", blocks=blocks)
    return ChatResponse(message=message, delta=delta, raw=raw)


def _way(streaming: bool) -> Callable[[trials.Trial], Any]:
    async def run(trial: trials.Trial) -> str:
        agent = FunctionAgent(
            tools=[FunctionTool.from_defaults(one) for one in (trial.danger, trial.safe)],
            llm=ScriptedModel(next_step=trial.next_step),
            streaming=streaming,
        )
        return str(await agent.run(user_msg="begin"))

    return run


_PATHS = {"achat": _way(streaming=False), "astream_chat": _way(streaming=True)}
prove = trials.Proving("llama_index", _PATHS)
