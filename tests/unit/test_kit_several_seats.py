"""Calls that pass several seats of one package: at objects, at overridden methods, in steps."""

from __future__ import annotations

import asyncio
import sys
import types as python_types
from collections.abc import Iterator
from typing import Any

import pytest

from otelhooks import policy
from otelhooks.errors import SeatError
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import steps
from otelhooks.frameworks.kit.objects import overrides
from otelhooks.patching.handles import Handle
from otelhooks.patching.seats import GUARD, Switch, find
from otelhooks.pipeline import leads
from otelhooks.pipeline.leads import next_seat_of, stages_of
from otelhooks.pipeline.permits import NextSeat
from otelhooks.records import semconv

REASON = "Not that."
NOT_ETC = policy.deny("danger", when=lambda args: args.get("path") == "/etc", reason=REASON)
ran: list[Any] = []


class Refusal:
    """How the fake package reports an error."""

    def __init__(self, text: str) -> None:
        self.text = text


class Shell:
    """An agent framework's tool object, which packs the arguments and calls a tool."""

    def __init__(self, tool: Any) -> None:
        self.tool = tool

    async def use(self, path: str) -> Any:
        return await self.tool.run({"path": path})


class Tool:
    def refusal(self, text: str) -> Any:
        return Refusal(text)

    async def run(self, params: Any) -> Any:
        first = await self.prepare(params)
        return await self.commit(first)

    async def prepare(self, params: Any) -> Any:
        return dict(params)

    async def commit(self, prepared: Any) -> Any:
        ran.append(prepared["path"])
        return "done"


for fake in (Refusal, Shell, Tool):
    fake.__module__ = "fake"


class ShellCall(kit.ToolCall):
    framework, group = "fake", "fake.shell"

    def read(self, shell: Any, path: str) -> None:
        self.name, self.owner = "danger", shell
        self.take({"packed": {"path": path}})
        self.goes_to("fake.other", "danger")

    async def call(self, wrapped: Any, args: Any) -> Any:
        return await wrapped(args["packed"]["path"])

    def denied(self, reason: str) -> Any:
        return kit.native("fake:Refusal", self.owner)(reason)


class ToolCall(steps.StagedCall):
    framework, group = "fake", "fake.tool"

    def read(self, tool: Any, params: Any) -> None:
        self.name, self.owner = "danger", tool
        self.take_all(params)
        self.comes_from("fake.other", lambda args: args["packed"])

    async def call(self, wrapped: Any, args: Any) -> Any:
        if overrides.Method(self.owner, "run").calls_on(wrapped):
            self.expect(self.name, self.owner, args)
        return await wrapped(args)

    def denied(self, reason: str) -> Any:
        return kit.native("fake:Refusal", self.owner)(reason)

    def stages(self) -> steps.StageParams:
        is_staged = overrides.Method(self.owner, "run").reaches("fake:Tool")
        return steps.StageParams("danger", None, is_staged=is_staged)


class Prepare(steps.Step):
    framework, point = "fake", steps.Step.NORMALIZED


class Commit(steps.Step):
    framework, behind = "fake", (steps.Step.NORMALIZED,)
    point = steps.Step.ACTED


SEATS = (
    kit.seat("fake:Shell.use", ShellCall, overrides=True),
    kit.seat("fake:Tool.run", ToolCall, overrides=True),
    kit.seat("fake:Tool.prepare", Prepare, overrides=True),
    kit.seat("fake:Tool.commit", Commit, overrides=True),
)


@pytest.fixture(autouse=True)
def _guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ran.clear()
    module: Any = python_types.ModuleType("fake")
    module.Refusal, module.Shell, module.Tool = Refusal, Shell, Tool
    monkeypatch.setitem(sys.modules, "fake", module)
    switch = Switch(lambda: SeatError("fake", "fake", "1", "none", "gone"))
    switch.mode = GUARD
    places = [find(seat, module) for seat in SEATS]
    handles = [
        Handle(seat, place, switch)
        for seat, place in zip(SEATS, places, strict=True)
        if place is not None
    ]
    yield
    for handle in handles:
        handle.undo()


def call(tool: Any, path: str = "/tmp", **named: Any) -> Any:
    return asyncio.run(tool.run(**named) if named else tool.run({"path": path}))


def decisions(governed: Any) -> list[Any]:
    return [span.attributes.get(semconv.POLICY_DECISION) for span in governed.spans]


# -- overriding -----------------------------------------------------------------------------------


class Calling(Tool):
    async def run(self, params: Any) -> Any:
        return await super().run(params)


class Renaming(Tool):
    async def run(self, what: Any) -> Any:
        return await super().run(what)


class Other(Tool):
    """Calls another tool before the method that it overrides."""

    def __init__(self, other: Any) -> None:
        self.other = other

    async def run(self, params: Any) -> Any:
        found = await self.other.run(params)
        await super().run(params)
        return found


class Alone(Tool):
    async def run(self, params: Any) -> Any:
        return "alone"


def test_a_method_that_calls_the_one_it_overrides_is_judged_once(governed: Any) -> None:
    governed(policies=[NOT_ETC])
    assert call(Calling()) == "done"
    assert decisions(governed) == ["allow"]
    assert call(Calling(), "/etc").text == REASON
    assert ran == ["/tmp"]


def test_a_permit_is_for_one_object(governed: Any) -> None:
    """Not for another one of its class that is called with the same arguments."""
    governed(policies=[NOT_ETC])
    assert call(Other(Tool())) == "done"
    assert decisions(governed) == ["allow", "allow"]


def test_an_override_may_name_its_parameters_otherwise(governed: Any) -> None:
    governed(policies=[NOT_ETC])
    assert call(Renaming(), what={"path": "/etc"}).text == REASON
    assert call(Renaming(), what={"path": "/tmp"}) == "done"
    assert ran == ["/tmp"]


def test_it_is_known_where_a_method_leads() -> None:
    own, tool = Tool(), overrides.Method(Tool(), "run")
    own.run = lambda params: None  # type: ignore[method-assign]
    assert tool.is_guarded
    assert not overrides.Method(own, "run").is_guarded
    assert not overrides.Method(None, "run").is_guarded
    for method, reaches in ((Calling(), True), (Alone(), False), (Tool(), True), (None, False)):
        assert overrides.Method(method, "run").reaches("fake:Tool") is reaches
    for kind, leads_on in ((Calling, True), (Alone, False), (Tool, False)):
        made = kind()
        method = vars(kind)["run"].__wrapped__.__get__(made)
        assert overrides.Method(made, "run").calls_on(method) is leads_on


# -- between packages -----------------------------------------------------------------------------


def test_a_call_in_another_form_is_judged_again_on_its_span(governed: Any) -> None:
    """The outer seat, of another package, sees the arguments one level deeper."""
    governed(policies=[NOT_ETC])
    assert asyncio.run(Shell(Tool()).use("/etc")).text == REASON
    assert asyncio.run(Shell(Tool()).use("/tmp")) == "done"
    assert ran == ["/tmp"]
    assert decisions(governed) == ["deny", "allow"]


def test_an_adapter_says_what_leads_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leads, "_leads", {})
    shown = steps.StageParams("danger", None)
    kit.Adapter(
        "fake",
        kit.Package("fake", ">=1", module="fake"),
        leads={"fake:Shell": ("fake.other", lambda tool, name: shown)},
    )
    shell = Shell(Tool())
    assert next_seat_of(shell, "danger") == NextSeat("fake.other", "danger")
    assert stages_of(shell, "danger") is shown


def test_a_name_is_taken_from_the_copy_that_an_object_is_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module: Any = python_types.ModuleType("fake")
    module.Refusal = type("Refusal", (), {"__module__": "fake"})
    monkeypatch.setitem(sys.modules, "fake", module)
    assert kit.native("fake:Refusal") is module.Refusal
    assert kit.native("fake:Refusal", Tool()) is Refusal
    assert kit.native("fake:Tool", Calling()) is Tool
    assert kit.native("fake:Refusal", object()) is module.Refusal


# -- steps ----------------------------------------------------------------------------------------


def guard(place: str, log: list[Any]) -> Any:
    async def should_block(self: Any, context: Any, params: Any, method: str) -> bool:
        log.append((place, params.normalized_params, params.core_action_result))
        return params.normalized_params == {"path": "/etc"}

    described = {
        "name": "Guard",
        "description": "stops it",
        "relevant_tools": ("*",),
        f"should_block_{place}": should_block,
    }
    return type("Guard", (policy.AbstractPolicy,), described)()


def test_hooks_between_the_steps_stop_the_rest(governed: Any) -> None:
    log: list[Any] = []
    governed(hooks=[guard("post_params_normalization", log), guard("post_core_action", log)])
    assert "stops it" in call(Calling(), "/etc").text
    assert ran == []
    assert call(Calling()) == "done"
    assert log == [
        ("post_params_normalization", {"path": "/etc"}, None),
        ("post_params_normalization", {"path": "/tmp"}, None),
        ("post_core_action", {"path": "/tmp"}, "done"),
    ]
    assert decisions(governed) == ["deny", None]


def test_steps_that_are_called_by_themselves_run_as_they_are(governed: Any) -> None:
    log: list[Any] = []
    governed(hooks=[guard("post_params_normalization", log)])
    assert asyncio.run(Tool().prepare({"path": "/etc"})) == {"path": "/etc"}
    assert log == []


def test_the_running_call_is_that_of_its_owner_only(governed: Any) -> None:
    governed(policies=[NOT_ETC])
    found: list[Any] = []

    class Looking(Tool):
        async def commit(self, prepared: Any) -> Any:
            found.extend(steps.StagedCall.running(each) for each in (self, Tool()))

    tool = Looking()
    call(tool)
    assert found[0].owner is tool
    assert found[1] is None
    assert steps.StagedCall.running(tool) is None
