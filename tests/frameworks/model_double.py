"""A model on loopback that speaks the wire forms of several providers, plain and as a stream."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = Any
"""A text, or a list of calls: (id, name, arguments), or an item of a response as it is.

A text may come first in the list.
"""


class Double(ThreadingHTTPServer):
    """Answers each request with the next step.

    Attributes:
        steps: Texts, or lists of calls; taken from the front.
        requests: Bodies that arrived.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.steps: list[Step] = []
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Double

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(asked)
        self.server.paths.append(self.path)
        path = self.path.partition("?")[0]
        kind, pieces = spoken(path, asked, self.server.steps.pop(0), len(self.server.requests))
        body = "".join(pieces)
        data = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


def spoken(path: str, asked: dict[str, Any], step: Step, number: int) -> tuple[str, list[str]]:
    """Return an answer as its content type and the pieces in which it is sent.

    Args:
        path: Of the request, which tells the form.
        asked: The request's body.
        step: What the model says.
        number: Of the request, for ids.
    """
    words, calls = _parts(step)
    end = next((end for end in _FORMS if path.endswith(end)), None)
    if end is None:  # a form that nothing here speaks
        return "application/json", []
    whole, events = _FORMS[end]
    made = whole(words, calls, number)
    if not (asked.get("stream") or ":streamGenerateContent" in path):
        return "application/json", [json.dumps(made)]
    return "text/event-stream", [*map(_line, events(made)), *_DONE.get(end, ())]


def _parts(step: Step) -> tuple[str, list[Any]]:
    if isinstance(step, str):
        return step, []
    words = "".join(one for one in step if isinstance(one, str))
    return words, [one for one in step if not isinstance(one, str)]


def _line(event: dict[str, Any]) -> str:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def _chat(words: str, calls: list[Any], number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": words or None}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": _text(args)}}
            for id, name, args in calls
        ]
    reason = "tool_calls" if calls else "stop"
    return {
        **{"id": f"chat_{number}", "object": "chat.completion", "created": 1, "model": "small"},
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def _text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args)


def _chat_events(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    choice = made["choices"][0]
    head = {**made, "object": "chat.completion.chunk", "usage": None}

    def chunk(delta: dict[str, Any], reason: Any = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    words = choice["message"]["content"] or ""
    for start in range(0, len(words), 4):
        yield chunk({"content": words[start : start + 4]})
    for index, call in enumerate(choice["message"].get("tool_calls") or ()):
        text = call["function"]["arguments"]
        first = {**call, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [{"index": index, **first}]})
        for start in range(0, len(text), 5):
            piece = {"index": index, "function": {"arguments": text[start : start + 5]}}
            yield chunk({"tool_calls": [piece]})
    yield chunk({}, choice["finish_reason"])
    yield {**head, "choices": [], "usage": made["usage"]}


def _response(words: str, calls: list[Any], number: int) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if words or not calls:
        text = {"type": "output_text", "text": words, "annotations": []}
        output.append(
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
            | {"content": [text]}
        )
    for call in calls:
        if isinstance(call, dict):
            output.append(call)
            continue
        id, name, args = call
        asked = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name}
        output.append(asked | {"arguments": _text(args), "status": "completed"})
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    usage |= {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
    return {
        **{"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "small"},
        **{"status": "completed", "output": output, "usage": usage},
        **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": []},
    }


def _response_events(made: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**made, "output": []}}
    ]
    for index, item in enumerate(made["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            part, here = item["content"][0], {**place, "content_index": 0}
            empty = {**item, "content": []}
            start = {"type": "response.content_part.added", **here, "part": {**part, "text": ""}}
            between = [start]
            for at in range(0, len(part["text"]), 4):
                delta = {"delta": part["text"][at : at + 4], "logprobs": []}
                between.append({"type": "response.output_text.delta", **here, **delta})
            done = {"text": part["text"], "logprobs": []}
            between.append({"type": "response.output_text.done", **here, **done})
            between.append({"type": "response.content_part.done", **here, "part": part})
        elif item["type"] != "function_call":
            empty, between = item, []
        else:
            text, empty = item["arguments"], {**item, "arguments": ""}
            kind = "response.function_call_arguments"
            done = {"arguments": text, "name": item["name"]}
            between = [
                {"type": f"{kind}.delta", **place, "delta": text},
                {"type": f"{kind}.done", **place, **done},
            ]
        events.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        events += between
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": made})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _message(words: str, calls: list[Any], number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": words}] if words else []
    content += [
        {"type": "tool_use", "id": id, "name": name, "input": args} for id, name, args in calls
    ]
    return {
        **{"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "small"},
        **{"content": content, "stop_sequence": None},
        **{"stop_reason": "tool_use" if calls else "end_turn"},
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }


def _message_events(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**made, "content": [], "stop_reason": None}}
    for index, block in enumerate(made["content"]):
        is_text = block["type"] == "text"
        text = block["text"] if is_text else json.dumps(block["input"])
        empty = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for at in range(0, len(text), 5):
            piece = text[at : at + 5]
            delta = {"type": "text_delta", "text": piece}
            if not is_text:
                delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": made["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}
    yield {"type": "message_stop"}


def _generated(words: str, calls: list[Any], number: int) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": words}] if words else []
    parts += [{"functionCall": {"name": name, "args": args}} for _, name, args in calls]
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3},
        "responseId": f"response_{number}",
        "modelVersion": "small",
    }


def _generated_events(made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    parts = made["candidates"][0]["content"]["parts"]
    pieces: list[Any] = []
    for part in parts:
        text = part.get("text", "")
        pieces += [{"text": text[at : at + 4]} for at in range(0, len(text), 4)] or [part]
    for number, piece in enumerate(pieces, start=1):
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": [piece]}}
        if number == len(pieces):
            candidate["finishReason"] = "STOP"
        yield {**made, "candidates": [candidate]}


_DONE = {"/chat/completions": ("data: [DONE]\n\n",)}
_FORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "/chat/completions": (_chat, _chat_events),
    "/responses": (_response, _response_events),
    "/messages": (_message, _message_events),
    "/invoke": (_message, _message_events),
    ":rawPredict": (_message, _message_events),
    ":streamRawPredict": (_message, _message_events),
    ":generateContent": (_generated, _generated_events),
    ":streamGenerateContent": (_generated, _generated_events),
}


@contextlib.contextmanager
def served() -> Iterator[Double]:
    """Serve while the block runs."""
    with Double() as double:
        thread = threading.Thread(target=double.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield double
        finally:
            double.shutdown()
            thread.join()
