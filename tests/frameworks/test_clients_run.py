"""Programs with a loop of their own, unchanged, under ``otelhooks run`` with a policy file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.loops import DANGER, REASON, SAFE
from tests.frameworks.model_double import Double, served

POLICY = f"""
version: 1
policies:
  - deny: danger
    reason: {REASON}
"""
BEGIN = """
import json, pathlib, sys

def run(name, args):
    pathlib.Path("ran.txt").open("a").write(name + " ")
    return f"{name} done with {args}"
"""
CHAT = """
import openai
client = openai.OpenAI(max_retries=0)
tools = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("danger", "safe")
]
messages = [{"role": "user", "content": "begin"}]
"""
OPENAI = (
    CHAT
    + """
while True:
    answer = client.chat.completions.create(model="small", messages=messages, tools=tools)
    message = answer.choices[0].message
    messages.append(message)
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        result = run(call.function.name, json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
print(message.content)
"""
)
OPENAI_STREAM = (
    CHAT
    + """
while True:
    text, calls = "", {}
    for chunk in client.chat.completions.create(
        model="small", messages=messages, tools=tools, stream=True
    ):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                if piece.index not in calls:
                    function = {"name": piece.function.name, "arguments": ""}
                    calls[piece.index] = {"id": piece.id, "type": "function", "function": function}
                calls[piece.index]["function"]["arguments"] += piece.function.arguments or ""
    if not calls:
        break
    messages.append({"role": "assistant", "content": text, "tool_calls": list(calls.values())})
    for call in calls.values():
        result = run(call["function"]["name"], json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
print(text)
"""
)
MESSAGES = """
import anthropic
client = anthropic.Anthropic(max_retries=0)
tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("danger", "safe")]
given = {"model": "small", "max_tokens": 9, "tools": tools}
messages = [{"role": "user", "content": "begin"}]
while True:
    ASK
    messages.append({"role": "assistant", "content": answer.content})
    calls = [block for block in answer.content if block.type == "tool_use"]
    if not calls:
        break
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": run(call.name, call.input)}
        for call in calls
    ]
    messages.append({"role": "user", "content": results})
print(answer.content[0].text)
"""
CONTENT = """
from google import genai
from google.genai import types
client = genai.Client()
declared = [types.FunctionDeclaration(name=name) for name in ("danger", "safe")]
given = {"model": "small", "config": {"tools": [types.Tool(function_declarations=declared)]}}
contents = [types.Content(role="user", parts=[types.Part(text="begin")])]
while True:
    ASK
    contents.append(types.Content(role="model", parts=parts))
    calls = [part.function_call for part in parts if part.function_call]
    if not calls:
        break
    results = [
        types.Part.from_function_response(
            name=call.name, response={"result": run(call.name, call.args)}
        )
        for call in calls
    ]
    contents.append(types.Content(role="user", parts=results))
print("".join(part.text or "" for part in parts))
"""
CHUNKS = "chunks = client.models.generate_content_stream(contents=contents, **given)\n"
CHUNKS += "    parts = [p for chunk in chunks for p in chunk.candidates[0].content.parts or ()]"
STREAMED = "with client.messages.stream(messages=messages, **given) as stream:\n"
STREAMED += "        answer = stream.get_final_message()"
LOOPS = {
    "openai": OPENAI,
    "openai-stream": OPENAI_STREAM,
    "anthropic": MESSAGES.replace(
        "ASK", "answer = client.messages.create(messages=messages, **given)"
    ),
    "anthropic-stream": MESSAGES.replace("ASK", STREAMED),
    "google-genai": CONTENT.replace(
        "ASK",
        "answer = client.models.generate_content(contents=contents, **given)\n"
        "    parts = answer.candidates[0].content.parts",
    ),
    "google-genai-stream": CONTENT.replace("ASK", CHUNKS),
}
IGNORING = (
    CHAT
    + """
client.chat.completions.create(model="small", messages=messages, tools=tools)
function = {"name": "danger", "arguments": '{"path": "/"}'}
call = {"id": "call_d", "type": "function", "function": function}
messages += [
    {"role": "assistant", "tool_calls": [call]},
    {"role": "tool", "tool_call_id": "call_d", "content": run("danger", {"path": "/"})},
]
print(client.chat.completions.create(model="small", messages=messages).choices[0].message.content)
"""
)
CALL_TOOL = (
    CHAT
    + """
import otelhooks
call = json.loads(sys.argv[1])
try:
    print(otelhooks.call_tool("danger", call, lambda path: run("danger", path), id="call_d"))
except otelhooks.errors.Denied as denied:
    print(denied)
"""
)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def model():
    with served() as double:
        yield double


@pytest.fixture
def run(tmp_path: Path, model: Double) -> Run:
    """Run a program under ``otelhooks run`` in a folder of its own, against the double."""

    def run(program: str, *arguments: str, **variables: str) -> Any:
        (tmp_path / "loop.py").write_text(textwrap.dedent(BEGIN + program))
        (tmp_path / "policy.yaml").write_text(POLICY)
        command = [sys.executable, "-m", "otelhooks", "run", "--", sys.executable, "loop.py"]
        keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}
        given = {"OPENAI_BASE_URL": f"{model.url}/v1", "ANTHROPIC_BASE_URL": model.url}
        given["GOOGLE_GEMINI_BASE_URL"] = model.url
        ours = {
            "OTELHOOKS_POLICIES": str(tmp_path / "policy.yaml"),
            "OTELHOOKS_STORE": str(tmp_path / "store.db"),
        }
        return subprocess.run(
            [*command, *arguments],
            cwd=tmp_path,
            env={**os.environ, **keys, **given, **ours, **variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def ran(folder: Path) -> str:
    file = folder / "ran.txt"
    return file.read_text() if file.exists() else ""


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_denied_body_does_not_run_and_the_model_reads_why(loop, run, model, tmp_path):
    model.steps = [[DANGER], [SAFE], "done"]
    done = run(loop)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
    assert ran(tmp_path) == "safe "
    assert json.dumps(model.requests[1]).count(REASON) == 1
    assert "safe done" in json.dumps(model.requests[2])


def test_a_loop_that_ignores_the_verdict_is_told_of_at_its_next_request(run, model, tmp_path):
    model.steps = [[DANGER], "no", "done"]
    done = run(IGNORING)
    assert done.stdout == "done\n"
    assert ran(tmp_path) == "danger "
    assert done.stderr.count("coverage gap: tool `danger` (openai) was denied") == 1


def test_under_strict_its_next_request_is_not_sent(run, model):
    model.steps = [[DANGER], "no", "done"]
    done = run(IGNORING, OTELHOOKS_STRICT="1")
    assert (done.stdout, done.returncode) == ("", 1)
    assert "The result of `danger` was not sent" in done.stderr
    assert len(model.requests) == 2


def test_call_tool_judges_what_no_answer_asked_for(run, tmp_path):
    assert run(CALL_TOOL, '{"path": "/"}').stdout == f"{REASON}\n"
    assert ran(tmp_path) == ""
