"""What an exception or a server says is content: everywhere, for every kind of failure.

Each case makes one kind of failure carry a mark and an API key, runs the same small program, and
reads every place that otelhooks writes to: spans with status and events, metrics, log records, the
audit trail, the local store, records handed to sinks, Python's logging and stderr.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from limits.storage import Storage

import otelhooks
from otelhooks import audit, hooks, policy, types
from otelhooks.approvals import Unavailable
from otelhooks.errors import ConfigError
from otelhooks.hooks.base import HOOK_CLASSES
from otelhooks.hooks.calls import Call
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import Split, Unrun
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.policy.files import load
from otelhooks.store.writer import SqliteLogExporter, SqliteSpanExporter

MARK = "hemlock-7731"
KEY = "sk-" + "proj0" * 6  # masked by its form
SAYS = f"{MARK}: the key is {KEY}"


class Poisoned(Exception):
    """An exception of the application's, that says what it should not."""


def fail(*_: Any, **__: Any) -> Any:
    try:
        raise LookupError(SAYS)
    except LookupError as cause:
        raise Poisoned(SAYS) from cause


def unavailable(kind: type[Exception], *_: Any) -> Any:
    raise kind(SAYS)


class Unreachable(Unavailable):
    """A channel of the application's."""


async def fail_later(*_: Any, **__: Any) -> Any:
    return fail()


class Broken(Storage):
    """A storage of counts whose server answers with an error."""

    STORAGE_SCHEME = None
    base_exceptions = Poisoned
    incr = get = get_expiry = check = reset = clear = fail


class Answers(ToolSeat):
    """A seat whose framework reports a failure as a text, as MCP does."""

    def error(self, call: Call, raw: Any) -> str:
        return SAYS


@otelhooks.tool
def act(x: Any = 1) -> Any:
    return x


@otelhooks.tool
def broken(x: Any = 1) -> Any:
    return fail()


@otelhooks.model_call(model="m")
def ask(messages: list[Any]) -> str:
    return "answer"


@otelhooks.model_call(model="m")
def broken_model(messages: list[Any]) -> str:
    return str(fail())


@otelhooks.agent("outer")
def outer(message: str) -> str:
    return str(broken())


def work() -> None:
    """Call everything once, whatever comes of it."""
    runner = hooks.HookRunner()

    async def standalone() -> None:
        context = hooks.TurnContext(runner.session_context)
        _, _, op = await runner.dispatch_pre_tool_call(context, types.ToolCall(name="t"))
        await runner.dispatch_post_tool_call(op, types.ToolResult(name="t", error=SAYS))
        _, _, op = await runner.dispatch_pre_tool_call(context, types.ToolCall(name="t"))
        await runner.dispatch_on_tool_error(op, Poisoned(SAYS))
        call = types.ModelCall(model="m")
        _, _, op = await runner.dispatch_pre_model_call(context, call)
        await runner.dispatch_on_model_error(op, Poisoned(SAYS))

    async def all_at_once() -> None:
        await asyncio.gather(act_later(), standalone(), return_exceptions=True)

    def refused() -> None:
        split = Split(tool(runtime.active(), ToolSeat(), Call("t", {}))).begin()
        split.finish(Unrun(SAYS, is_refused=False))

    def answered() -> None:
        Split(tool(runtime.active(), Answers(), Call("t", {}))).begin().finish("raw")

    calls: list[Callable[[], Any]] = [
        lambda: act(SAYS),
        lambda: asyncio.run(all_at_once()),
        broken,
        lambda: ask([]),
        lambda: broken_model([]),
        lambda: outer("hello"),
        refused,
        answered,
        lambda: otelhooks.emit("custom.done", {"x": SAYS}),
    ]
    with otelhooks.session("s"), contextlib.suppress(Exception):
        with otelhooks.turn("hello", agent="a"):
            for call in calls:
                with contextlib.suppress(Exception):
                    call()
            fail()


@otelhooks.tool
async def act_later() -> None:
    await fail_later()


def script(event: str, body: str, tmp_path: Path) -> dict[str, Any]:
    """Return settings with one hook file."""
    folder = tmp_path / "hooks"
    folder.mkdir()
    lines = "\n".join(f"      {line}" for line in body.splitlines())
    text = f"---\nevent: {event}\nscript: |\n  def handle(event, payload):\n{lines}\n---\n"
    (folder / "guard.md").write_text(text, encoding="utf-8")
    return {"hooks": list(load([folder]).hooks)}


def rules(text: str, tmp_path: Path) -> dict[str, Any]:
    """Return settings with one policy file."""
    path = tmp_path / "rules.yaml"
    path.write_text(f"policies:\n{text}", encoding="utf-8")
    return {"policies": path}


_LOOKING = [kind for kind in HOOK_CLASSES if issubclass(kind, hooks.InspectHook)]


def _hook(kind: type[Any]) -> Any:
    return type("Guard", (kind,), {"run": fail_later})()


def _one(kind: type[Any], _: Path) -> dict[str, Any]:
    return {"hooks": [_hook(kind)]}


KINDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "nothing but the program": lambda _: {},
    "predicate": lambda _: {"policies": [policy.deny("act", when=fail)]},
    "asynchronous predicate": lambda _: {"policies": [policy.deny("act", when=fail_later)]},
    "monitored predicate": lambda _: {"policies": [policy.deny("act", when=fail, mode="monitor")]},
    "veto": lambda _: {"policies": [policy.veto("act", when=fail)]},
    "candidate": lambda _: {"candidate": [policy.deny("act", when=fail)]},
    "when of a file": lambda path: rules('  - deny: act\n    when: int(args["x"]) > 1\n', path),
    "approver": lambda _: {"policies": [policy.ask_user("act", handler=fail)]},
    "channel": lambda _: {"policies": [policy.ask_user("act")], "approvals": fail},
    **{
        f"channel that raises {kind.__name__}": lambda _, kind=kind: {
            "policies": [policy.ask_user("act")],
            "approvals": partial(unavailable, kind),
        }
        for kind in (Unavailable, Unreachable, ConfigError)
    },
    "storage": lambda _: {"policies": [policy.RateLimit(tool_calls=2, storage=Broken())]},
    "storage that allows": lambda _: {
        "policies": [policy.RateLimit(tool_calls=2, storage=Broken(), on_error="allow")]
    },
    "budget": lambda _: {"policies": [policy.Budget(tokens=10, storage=Broken())]},
    "script": lambda path: script("tool.pre", f'fail("{SAYS}")', path),
    "script in post": lambda path: script("tool.post", f'fail("{SAYS}")', path),
    "script of an event": lambda path: script("custom.done", 'fail(payload["x"])', path),
    "listener in the background": lambda _: {
        "hooks": [hooks.post_tool_call(background=True)(fail)]
    },
    "redactor": lambda _: {"redact": lambda text: fail()},
    "hooks that look": lambda _: {"hooks": [_hook(kind) for kind in _LOOKING]},
    **{kind.__name__: partial(_one, kind) for kind in HOOK_CLASSES if kind not in _LOOKING},
}


class Outputs:
    """Every place that otelhooks writes to."""

    def __init__(self, governed: Any, tmp_path: Path, caplog: Any, capsys: Any):
        self._governed, self._caplog, self._capsys = governed, caplog, capsys
        self._folder = tmp_path / "out"
        self._folder.mkdir()
        self.records: list[Any] = []
        caplog.set_level(logging.DEBUG)

    def write(self, record: Any) -> None:
        """Take a record, as a sink."""
        self.records.append(record)

    def play(self, settings: dict[str, Any], capture: str) -> None:
        """Run the program under settings."""
        listeners = [audit.AuditTrailHook(self)]
        settings = {**settings, "hooks": [*listeners, *settings.get("hooks", ())]}
        self._governed(
            audit=self._folder / "trail", record_allows=True, capture_content=capture, **settings
        )
        work()
        otelhooks.uninstrument()
        store = self._folder / "store.db"
        spans, logs = SqliteSpanExporter(store), SqliteLogExporter(store)
        spans.export(self._governed.spans)
        logs.export(self._governed._logs.get_finished_logs())
        spans.shutdown()
        logs.shutdown()

    def read(self) -> dict[str, str]:
        """Return what was written, by place."""
        governed = self._governed
        told = logging.Formatter("%(name)s %(message)s")
        ours = [r for r in self._caplog.records if r.name.startswith("otelhooks")]
        files = [path for path in self._folder.rglob("*") if path.is_file()]
        data = governed._reader.get_metrics_data()
        return {
            "spans": "".join(span.to_json() for span in governed.spans),
            "metrics": data.to_json() if data is not None else "",
            "events": "".join(str((r.body, dict(r.attributes or {}))) for r in governed.records),
            "files": "".join(path.read_bytes().decode("utf-8", "replace") for path in files),
            "sink": json.dumps(self.records, default=str),
            "logs": "\n".join(told.format(record) for record in ours),
            "stderr": self._capsys.readouterr().err,
        }


@pytest.fixture
def outputs(governed: Any, tmp_path: Path, caplog: Any, capsys: Any) -> Outputs:
    return Outputs(governed, tmp_path, caplog, capsys)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_failure_says_stands_nowhere_with_capture_off(
    kind: str, outputs: Outputs, tmp_path: Path
) -> None:
    settings = KINDS[kind](tmp_path)
    outputs.play(settings, "NO_CONTENT")
    written = outputs.read()
    # The audit trail has the arguments of calls, masked: that is its contract, and no failure.
    arguments = re.compile(r'"arguments":\{[^}]*\}')
    found = [place for place, text in written.items() if MARK in arguments.sub("", text)]
    assert found == []
    assert [place for place, text in written.items() if KEY in text] == []
    assert "Poisoned" in written["spans"]
    assert "Poisoned" in written["files"]


@pytest.mark.parametrize(
    "kind",
    [
        "predicate",
        "approver",
        "channel that raises Unavailable",
        "script",
        "redactor",
        "PreToolCallDecideHook",
        "PostToolCallTransformHook",
        "OnToolErrorHook",
        "hooks that look",
    ],
)
def test_what_a_failure_says_is_masked_everywhere_with_capture_on(
    kind: str, outputs: Outputs, tmp_path: Path
) -> None:
    settings = KINDS[kind](tmp_path)
    outputs.play(settings, "SPAN_AND_EVENT")
    written = outputs.read()
    assert [place for place, text in written.items() if KEY in text] == []
    if kind != "redactor":
        assert MARK in written["spans"]


def test_with_capture_on_a_crash_says_in_event_audit_and_log_what_happened(
    outputs: Outputs, tmp_path: Path
) -> None:
    guard = hooks.pre_tool_call_decide(rule_id="guard")(fail)
    outputs.play({"hooks": [guard]}, "EVENT_ONLY")
    written = outputs.read()
    masked = SAYS.replace(KEY, "[MASKED]")
    assert masked not in written["spans"]
    assert masked in written["events"]
    assert f"Poisoned('{masked}')" in written["files"]
    assert masked in written["logs"]


def test_no_module_logs_the_text_of_an_exception() -> None:
    """Class of the fault: `exc_info` and `log.exception` write whatever an exception says.

    What fails while a framework is patched has no content yet, and is logged in full.
    """
    at_start = {"packages.py", "handles.py", "arrivals.py", "ungoverned.py"}
    telling = re.compile(r"\bexc_info=|log(?:ger)?\.exception\(")
    sources = Path(otelhooks.__file__).parent.rglob("*.py")
    found = {path.name for path in sources if telling.search(path.read_text(encoding="utf-8"))}
    assert found <= at_start


def test_no_message_names_a_page_that_an_installed_package_does_not_have() -> None:
    found = [
        f"{file.name}:{node.lineno}"
        for file in Path(otelhooks.__file__).parent.rglob("*.py")
        if "see docs/" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "see docs/" in node.value
    ]
    assert found == []
