"""A model on loopback with the two HTTP APIs of openai: it asks for two tools, then answers."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "small"
CALLS = [("search", {"query": "limits"}), ("delete_page", {"title": "limits"})]
ANSWER = "Limits are 10 a minute."


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = (_response if self.path.endswith("/responses") else _completion)(asked)
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


def _response(asked: dict[str, Any]) -> dict[str, Any]:
    outputs = [one for one in asked["input"] if "output" in one] if _is_list(asked) else []
    if outputs:
        text = {"type": "output_text", "text": ANSWER, "annotations": []}
        output: list[dict[str, Any]] = [
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
            | {"content": [text]}
        ]
    else:
        output = [
            {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": name}
            | {"arguments": json.dumps(args), "status": "completed"}
            for n, (name, args) in enumerate(CALLS)
        ]
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    details = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    details["output_tokens_details"] = {"reasoning_tokens": 0}
    fixed = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {
        **{"id": "resp_1", "object": "response", "created_at": 1, "model": MODEL},
        **{"status": "completed", "output": output, "usage": usage | details},
        **fixed,
    }


def _is_list(asked: dict[str, Any]) -> bool:
    return isinstance(asked["input"], list)


def _completion(asked: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    if not any(one["role"] == "tool" for one in asked["messages"]):
        calls = [
            {"id": f"call_{n}", "type": "function"}
            | {"function": {"name": name, "arguments": json.dumps(args)}}
            for n, (name, args) in enumerate(CALLS)
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        **{"id": "chat_1", "object": "chat.completion", "created": 1, "model": MODEL},
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Serve while the block runs; gives the address for a client."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
