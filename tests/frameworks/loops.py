"""Loops that are written by hand around a raw model client: what every client's loops must show.

The loops are unchanged: they know nothing of otelhooks. A client's test gives its own as `Path`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import otelhooks
from otelhooks import errors, hooks, policy
from otelhooks.hooks import HookResult
from otelhooks.policy import stops
from tests.frameworks.model_double import Double
from tests.frameworks.paths import performed

REASON = "Deleting is not allowed."
DENY = [policy.deny("danger", reason=REASON)]
DANGER, SAFE = ("call_d", "danger", {"path": "/"}), ("call_s", "safe", {"x": 1})


class Tools:
    """What the loops run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, name: str, arguments: str) -> str:
        self.ran.append(name)
        return f"{name} done with {json.loads(arguments)}"


@dataclasses.dataclass(frozen=True)
class Path:
    """A loop as a path of the contract, of which `make paths` tells."""

    loop: Callable[[Double, Tools], str]
    subagent: None = None

    def __call__(self, model: Double, tools: Tools) -> str:
        performed(self.name, "async" if "async" in self.name else "sync")
        return self.loop(model, tools)

    @property
    def name(self) -> str:
        return self.loop.__name__

    @property
    def chunks(self) -> Callable[[Double, Tools], str] | None:
        return self.loop if self.name.endswith("stream") else None

    def selector(self, tool: str) -> str:
        return tool


def told(model: Double) -> str:
    """Everything that the model was shown."""
    return json.dumps(model.requests)


def by_the_model(request: dict[str, Any]) -> list[Any]:
    """Return the messages of a request that the model has said."""
    messages = request.get("messages") or request.get("contents") or request["input"]
    return [one for one in messages if one.get("role") in ("assistant", "model")]


def gaps(caplog: Any) -> list[str]:
    return [r.getMessage() for r in caplog.records if "coverage gap" in r.getMessage()]


class Loops:
    """The contract of a client, on each of its paths."""

    framework: ClassVar[str]
    also: ClassVar[tuple[str, ...]] = ()

    def test_the_user_says_what_may_run_and_a_result_does_not(self, path, model, tools):
        model.steps = [
            [("call_1", "safe", {"x": 4711})],
            [("call_2", "danger", {"path": "4711"})],
            [("call_3", "danger", {"path": "begin"})],
            "done",
        ]
        otelhooks.instrument(
            policies=[policy.deny("danger", unless_user_said=["path"], reason=REASON)]
        )
        assert path(model, tools) == "done"
        repeats = "begin" in json.dumps(model.requests[1])  # or else it is not known any more
        assert tools.ran == ["safe", *(["danger"] if repeats else [])]
        assert REASON in told(model)

    def test_what_a_labelled_result_has_said_may_not_run(self, path, model, tools):
        model.steps = [
            [("call_1", "safe", {"x": 4711})],
            [("call_2", "danger", {"path": "4711"})],
            [("call_3", "danger", {"path": "/tmp/mine"})],
            "done",
        ]
        rule = policy.deny("danger", when_argument_from={"path": "untrusted"}, reason=REASON)
        otelhooks.instrument(policies=[policy.label("safe", adds="untrusted"), rule])
        assert path(model, tools) == "done"
        assert tools.ran == ["safe", "danger"]
        assert REASON in told(model)

    def test_a_loop_works_as_without(self, path, model, tools):
        model.steps = [[DANGER], [SAFE], "done"]
        otelhooks.instrument()
        assert path(model, tools) == "done"
        assert tools.ran == ["danger", "safe"]
        assert len(model.requests) == 3

    def test_a_denied_body_does_not_run_and_the_model_is_told(self, path, model, tools):
        model.steps = [[DANGER], [SAFE], "done"]
        otelhooks.instrument(policies=DENY)
        assert path(model, tools) == "done"
        assert tools.ran == ["safe"]
        assert json.dumps(model.requests[1]).count(REASON) == 1

    def test_parallel(self, path, model, tools):
        """Beside an allowed call, the model is told with that call's result."""
        model.steps = [[DANGER, SAFE], "done"]
        otelhooks.instrument(policies=DENY)
        assert path(model, tools) == "done"
        assert tools.ran == ["safe"]
        assert len(model.requests) == 2
        second = json.dumps(model.requests[1])
        assert second.count(REASON) == 1
        assert second.count("safe done") == 1

    def test_parallel_after_a_text(self, path, model, tools):
        """The model reads the reason as a result, and not as its own words."""
        model.steps = [["Let me see. ", DANGER, SAFE], "done"]
        otelhooks.instrument(policies=DENY)
        assert path(model, tools).removeprefix("Let me see. ") == "done"
        assert tools.ran == ["safe"]
        assert len(model.requests) == 2
        second = json.dumps(model.requests[1])
        assert second.count(REASON) == 1
        assert second.count("safe done") == 1
        assert REASON not in json.dumps(by_the_model(model.requests[1]))

    def test_after_a_text_the_call_is_not_shown_either(self, path, model, tools):
        model.steps = [["Let me see. ", DANGER], "done"]
        otelhooks.instrument(policies=DENY)
        assert path(model, tools) in ("done", f"Let me see. \n{REASON}", f"Let me see. {REASON}")
        assert tools.ran == []

    def test_a_call_of_a_tool_that_was_not_offered_is_judged(self, path, model, tools):
        model.steps = [[("call_o", "other", {})], "done"]
        otelhooks.instrument(policies=[policy.deny("other", reason=REASON)])
        assert path(model, tools) == "done"
        assert tools.ran == []

    def test_dropped_calls_leave_their_reason(self, path, model, tools):
        model.steps = [[DANGER]]
        otelhooks.instrument(policies=DENY, frameworks={self.framework: {"on_denied": "drop"}})
        assert path(model, tools) == REASON
        assert tools.ran == []

    def test_a_deny_can_raise(self, path, model, tools):
        model.steps = [[DANGER]]
        otelhooks.instrument(policies=DENY, frameworks={self.framework: {"on_denied": "raise"}})
        with pytest.raises(errors.Denied, match="Deleting"):
            path(model, tools)
        assert tools.ran == []

    def test_hooks_rewrite_arguments_in_the_answer(self, path, model, tools):
        class Rewrite(hooks.PreToolCallDecideHook):
            async def run(self, context, data):
                return HookResult(allow=True, modified_args={"x": 2})

        model.steps = [[SAFE], "done"]
        otelhooks.instrument(hooks=[Rewrite()])
        assert path(model, tools) == "done"
        assert "'x': 2" in told(model)

    def test_a_hook_that_changes_a_text_leaves_the_arguments(self, path, model, tools):
        seen = []

        @hooks.post_model_call_transform
        def changed(data):
            seen.extend(call.args for call in data.tool_calls)
            return data.model_copy(update={"text": "changed"})

        model.steps = [["text", SAFE], "done"]
        otelhooks.instrument(hooks=[changed])
        path(model, tools)
        assert seen == [{"x": 1}]
        assert "{'x': 1}" in told(model)

    def test_a_hook_leaves_out_a_call_by_its_arguments_and_changes_another(
        self, path, model, tools
    ):
        @hooks.post_model_call_transform
        def chosen(data):
            calls = [call for call in data.tool_calls if call.args.get("x") != 1]
            calls = [call.model_copy(update={"args": {"x": 3}}) for call in calls]
            return data.model_copy(update={"tool_calls": calls})

        model.steps = [[SAFE, ("call_t", "safe", {"x": 2})], "done"]
        otelhooks.instrument(hooks=[chosen])
        assert path(model, tools) == "done"
        assert tools.ran == ["safe"]
        assert "{'x': 3}" in told(model)

    def test_hooks_see_and_replace_results(self, path, model, tools):
        @hooks.post_tool_call_transform
        def masked(data):
            assert data.name == "safe"
            return "masked"

        model.steps = [[SAFE], "done"]
        otelhooks.instrument(hooks=[masked])
        assert path(model, tools) == "done"
        assert "safe done" not in told(model)
        assert "masked" in json.dumps(model.requests[1])

    def test_a_replaced_result_stays_replaced_in_later_requests(self, path, model, tools):
        @hooks.post_tool_call_transform
        def masked(data):
            return "masked"

        model.steps = [[SAFE], [("call_t", "safe", {"x": 2})], "done"]
        otelhooks.instrument(hooks=[masked])
        assert path(model, tools) == "done"
        assert len(model.requests) == 3
        assert "safe done" not in told(model)

    def test_a_stop_while_a_person_is_asked_reaches_the_answers_other_calls(
        self, path, model, tools, caplog
    ):
        def approve(call, reason):
            handle._stop((stops.stop_now(why="Fire."),))
            return True

        model.steps = [[SAFE, DANGER, ("call_t", "safe", {"x": 2})], "done"]
        handle = otelhooks.instrument(policies=[policy.ask_user("danger", handler=approve)])
        assert path(model, tools) == "done"
        assert tools.ran == []
        assert json.dumps(model.requests[1]).count("Stopped: Fire.") == 3
        assert gaps(caplog) == []

    def test_and_only_calls_that_it_names(self, path, model, tools):
        def approve(call, reason):
            handle._stop((stops.stop_now(tool="danger", why="Fire."),))
            return True

        model.steps = [[SAFE, DANGER], "done"]
        handle = otelhooks.instrument(policies=[policy.ask_user("danger", handler=approve)])
        assert path(model, tools) == "done"
        assert tools.ran == ["safe"]

    def test_a_model_that_insists_is_stopped(self, path, model, tools):
        model.steps = [[DANGER]] * 10
        otelhooks.instrument(policies=DENY)
        with pytest.raises(errors.Denied):
            path(model, tools)
        assert tools.ran == []
        assert len(model.requests) == 6

    def test_a_refused_model_call_sends_nothing(self, path, model, tools):
        class Refuse(hooks.PreModelCallHook):
            async def run(self, context, data):
                return HookResult(allow=False, message="No models today.")

        otelhooks.instrument(hooks=[Refuse()])
        assert path(model, tools) == "No models today."
        assert model.requests == []

    def test_limits_count_a_call_once(self, path, model, tools):
        model.steps = [[SAFE], [("call_t", "safe", {"x": 2})], "done"]
        otelhooks.instrument(policies=[policy.RateLimit(tool_calls=2)])
        assert path(model, tools) == "done"
        assert tools.ran == ["safe", "safe"]

    def test_a_loop_that_keeps_to_the_verdict_is_not_told_of(self, path, model, tools, caplog):
        model.steps = [[DANGER, SAFE], [DANGER], [SAFE], "done"]
        otelhooks.instrument(policies=DENY, strict=True)
        path(model, tools)
        assert gaps(caplog) == []
