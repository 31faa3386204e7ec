"""`AbstractHook` and `AbstractPolicy`: bound to tools, at the four places beside their steps."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.hooks import HookRunner, base
from otelhooks.hooks.registry import HookSet, registrations
from otelhooks.hooks.stages import StageParams
from otelhooks.records import semconv

pytestmark = pytest.mark.anyio
Result = types.HookResult
METHODS = [
    "pre_tool_execution_hook",
    "post_params_normalization_hook",
    "post_core_action_hook",
    "post_secondary_action_hook",
]
BLOCKS = [method.replace("_hook", "").join(("should_block_", "")) for method in METHODS]


def _hook(tools: Any = ("*",), **methods: Any) -> Any:
    """Make a hook whose methods are these functions of (context, params, method)."""
    members = {name: staticmethod(function) for name, function in methods.items()}
    return type("Made", (hooks.AbstractHook,), {"relevant_tools": list(tools), **members})()


def _policy(tools: Any = ("*",), name: str = "Made", description: str = "", **blocks: Any) -> Any:
    members = {each: staticmethod(function) for each, function in blocks.items()}
    body = {"relevant_tools": list(tools), "name": name, "description": description, **members}
    return type("Made", (policy.AbstractPolicy,), body)()


async def _call(
    runner: HookRunner, args: dict[str, Any] | None = None, result: Any = "r", **fields: Any
) -> tuple[Result, types.ToolCall, Any]:
    """Dispatch a tool call and, where it is allowed, its result."""
    _, turn = await runner.dispatch_pre_turn("hi")
    call = types.ToolCall(name="t", args=args if args is not None else {"x": 1}, **fields)
    answer, call, context = await runner.dispatch_pre_tool_call(turn, call)
    if not answer.allow:
        return answer, call, None
    tool_result = types.ToolResult(name="t", result=result)
    return answer, call, await runner.dispatch_post_tool_call(context, tool_result)


class TestPlaces:
    async def test_each_method_stands_at_its_place_with_what_there_is(self) -> None:
        seen: dict[str, tuple[Any, ...]] = {}

        def noting(name: str) -> Any:
            async def method(context: Any, params: StageParams, method: str) -> None:
                values = (params.raw_params, params.normalized_params)
                seen[name] = (*values, params.core_action_result, params.tool_result, method)

            return method

        await _call(HookRunner([_hook(**{name: noting(name) for name in METHODS})]))
        args = {"x": 1}
        assert list(seen.items()) == [
            ("pre_tool_execution_hook", (args, None, None, None, "t")),
            ("post_params_normalization_hook", (args, args, None, None, "t")),
            ("post_core_action_hook", (args, args, "r", None, "t")),
            ("post_secondary_action_hook", (args, args, "r", "r", "t")),
        ]

    async def test_the_last_places_know_the_arguments_though_no_hook_stood_at_the_first(
        self,
    ) -> None:
        seen: list[Any] = []
        rewriting = hooks.pre_tool_call_decide(lambda call: Result(modified_args={"y": 2}))
        after = _hook(post_secondary_action_hook=lambda c, p, m: seen.append(p.normalized_params))
        await _call(HookRunner([rewriting, after]))
        assert seen == [{"x": 1, "y": 2}]

    async def test_only_methods_that_are_overridden_are_registered(self) -> None:
        assert registrations(_hook()) == []
        found = registrations(_hook(post_core_action_hook=lambda c, p, m: None))
        assert [(r.point, r.kind) for r in found] == [("post_core_action", "transform")]

    async def test_a_method_that_is_set_on_the_object_counts(self) -> None:
        def fail(context: Any, params: StageParams, method: str) -> None:
            raise ValueError("no")

        hook = _hook()
        hook.pre_tool_execution_hook = fail
        reject = policy.RejectToolPolicy(["another"])
        reject.relevant_tools = ["t"]
        reject.should_block_post_core_action = lambda c, p, m: True  # type: ignore[method-assign]
        assert [r.point for r in registrations(reject)] == ["pre_tool_call", "post_core_action"]
        for made in (hook, reject):
            result, _, _ = await _call(HookRunner([made]))
            assert not result.allow

    async def test_a_tool_in_steps_has_them_between_its_steps(self) -> None:
        every = HookSet(registrations(_hook(**dict.fromkeys(METHODS, lambda c, p, m: None))))
        assert len(every.at("pre_tool_call").deciders) == 2
        assert len(every.at("post_tool_call").transformers) == 2
        staged = every.in_stages()
        for point in ("pre_tool_call", base.PostParamsNormalizationHook.POINT):
            assert len(staged.at(point).deciders) == 1
        for point in (base.PostCoreActionHook.POINT, "post_tool_call"):
            assert len(staged.at(point).transformers) == 1
        assert staged.in_stages() is staged

    async def test_nothing_is_reported_of_a_tool_that_failed(self) -> None:
        seen: list[Any] = []
        hook = _hook(post_secondary_action_hook=lambda c, p, m: seen.append(p))
        runner = HookRunner([hook])
        _, turn = await runner.dispatch_pre_turn("hi")
        _, _, context = await runner.dispatch_pre_tool_call(turn, types.ToolCall(name="t"))
        failed = types.ToolResult(name="t", error="boom")
        assert (await runner.dispatch_post_tool_call(context, failed)).error == "boom"
        assert seen == []

    async def test_without_a_context_of_the_frameworks_they_get_ours(self) -> None:
        seen: list[Any] = []

        def method(context: Any, params: StageParams, method: str) -> None:
            seen.append((context.get("tool_name"), params.context is context, params.client))

        await _call(HookRunner([_hook(pre_tool_execution_hook=method)]))
        assert seen == [("t", True, None)]


class TestBinding:
    @pytest.mark.parametrize(
        ("tools", "applies"),
        [(["t"], True), (["*"], True), ([], False), (["T"], False), (["t*"], False)],
    )
    async def test_names_are_exact_a_star_is_all_and_none_is_none(
        self, tools: list[str], applies: bool
    ) -> None:
        result, _, _ = await _call(HookRunner([policy.RejectToolPolicy(tools)]))
        assert result.allow is not applies

    async def test_results_of_other_tools_are_not_shown(self) -> None:
        seen: list[Any] = []
        made = _hook(["other"], post_secondary_action_hook=lambda c, p, m: seen.append(m))
        await _call(HookRunner([made]))
        assert seen == []

    async def test_a_tool_of_a_server_is_bound_by_either_name(self) -> None:
        for tools in (["t"], ["s/t"]):
            runner = HookRunner([policy.RejectToolPolicy(tools)])
            result, _, _ = await _call(runner, server_name="s")
            assert not result.allow
        result, _, _ = await _call(
            HookRunner([policy.RejectToolPolicy(["other/t"])]), server_name="s"
        )
        assert result.allow

    @pytest.mark.parametrize("tools", ["t", None, 3, [1], {"t": 1}])
    def test_what_is_not_a_list_of_names_is_an_error_at_registration(self, tools: Any) -> None:
        made = type("Made", (hooks.AbstractHook,), {"relevant_tools": tools})()
        with pytest.raises(TypeError, match=r"`relevant_tools` of `Made`.* list of names"):
            HookRunner([made])

    def test_without_it_registration_is_an_error(self) -> None:
        class Unbound(hooks.AbstractHook):
            pass

        class Property(hooks.AbstractHook):
            @property
            def relevant_tools(self) -> list[str]:
                raise NotImplementedError

        for unbound in (Unbound(), Property()):
            with pytest.raises(TypeError, match="has no `relevant_tools`"):
                HookRunner([unbound])

    async def test_name_and_tools_may_be_properties(self) -> None:
        class Guard(policy.AbstractPolicy):
            @property
            def name(self) -> str:  # type: ignore[override]
                return "Guard"

            @property
            def relevant_tools(self) -> list[str]:  # type: ignore[override]
                return ["t"]

            async def should_block_pre_tool_execution(
                self, context: Any, params: StageParams, method: str
            ) -> bool:
                return True

        result, _, _ = await _call(HookRunner([Guard()]))
        assert result.message == "Action blocked by policy: Guard"


class TestRewriting:
    @pytest.mark.parametrize(
        ("method", "field"),
        [
            ("pre_tool_execution_hook", "raw_params"),
            ("post_params_normalization_hook", "normalized_params"),
        ],
    )
    async def test_arguments_by_changing_or_assigning_the_field(
        self, method: str, field: str
    ) -> None:
        def change(context: Any, params: StageParams, name: str) -> None:
            getattr(params, field)["x"] = 2

        def assign(context: Any, params: StageParams, name: str) -> None:
            setattr(params, field, {"y": [3]})

        _, call, _ = await _call(HookRunner([_hook(**{method: change})]))
        assert call.args == {"x": 2}
        _, call, _ = await _call(HookRunner([_hook(**{method: change}), _hook(**{method: assign})]))
        assert call.args == {"y": [3]}

    @pytest.mark.parametrize(
        ("method", "field"),
        [
            ("post_core_action_hook", "core_action_result"),
            ("post_secondary_action_hook", "tool_result"),
        ],
    )
    @pytest.mark.parametrize("new", ["new", None, 0, {"a": 1}])
    async def test_the_result_by_assigning_the_field(
        self, method: str, field: str, new: Any
    ) -> None:
        def assign(context: Any, params: StageParams, name: str) -> None:
            setattr(params, field, new)

        _, _, result = await _call(HookRunner([_hook(**{method: assign})]), result="secret")
        assert result.result == new

    async def test_the_fields_of_an_object_count(self, governed: Any) -> None:
        @dataclasses.dataclass
        class Response:
            message: str

        def redact(context: Any, params: StageParams, name: str) -> None:
            params.tool_result.message = "redacted"

        governed(hooks=[_hook(post_secondary_action_hook=redact)])
        own = Response("secret")

        @otelhooks.tool
        def t() -> Response:
            return own

        assert t() == Response("redacted")
        assert own == Response("secret")
        [span] = governed.spans
        assert span.attributes[semconv.POLICY_DECISION] == "modify"

    async def test_who_sees_it_next_sees_the_change(self) -> None:
        seen: list[Any] = []

        def change(context: Any, params: StageParams, name: str) -> None:
            params.raw_params["x"] = 2

        first = _hook(pre_tool_execution_hook=change)
        then = hooks.pre_tool_call_decide(lambda call: seen.append(call.args["x"]) or Result())
        await _call(HookRunner([first, then]))
        assert seen == [2]

    @pytest.mark.parametrize("wrong", [None, "text", ["a"]])
    async def test_arguments_that_are_not_a_dict_deny(self, wrong: Any) -> None:
        def assign(context: Any, params: StageParams, name: str) -> None:
            params.raw_params = wrong

        result, call, _ = await _call(HookRunner([_hook(pre_tool_execution_hook=assign)]))
        assert not result.allow
        assert "`raw_params` became" in result.message
        assert call.args == {"x": 1}

    async def test_a_field_of_another_place_denies(self) -> None:
        def change(context: Any, params: StageParams, name: str) -> None:
            params.raw_params["x"] = 2

        early = _hook(pre_tool_execution_hook=lambda c, p, m: None)
        late = _hook(post_params_normalization_hook=change)
        result, call, _ = await _call(HookRunner([early, late]))
        assert not result.allow
        assert "changed `raw_params`: only `normalized_params` can be" in result.message
        assert call.args == {"x": 1}

    async def test_a_field_of_another_place_withholds_a_result(self) -> None:
        def change(context: Any, params: StageParams, name: str) -> None:
            params.normalized_params["x"] = 2

        _, _, result = await _call(HookRunner([_hook(post_secondary_action_hook=change)]))
        assert result.result != "r"

    async def test_a_policy_changes_nothing(self) -> None:
        def change(context: Any, params: StageParams, name: str) -> bool:
            params.raw_params["x"] = 2
            return False

        result, call, _ = await _call(HookRunner([_policy(should_block_pre_tool_execution=change)]))
        assert not result.allow
        assert "a policy cannot do that" in result.message
        assert call.args == {"x": 1}

    async def test_the_same_value_is_not_a_change(self, governed: Any) -> None:
        def assign(context: Any, params: StageParams, name: str) -> None:
            params.raw_params = dict(params.raw_params)

        governed(hooks=[_hook(pre_tool_execution_hook=assign)])
        otelhooks.tool(lambda x: x)(x=1)
        assert governed.spans[0].attributes[semconv.POLICY_DECISION] == "allow"


class TestPolicies:
    @pytest.mark.parametrize(
        ("description", "message"),
        [
            ("", "Action blocked by policy: P"),
            ("about it", "Action blocked by policy: P (about it)"),
        ],
    )
    async def test_the_message_names_policy_and_description(
        self, description: str, message: str
    ) -> None:
        made = _policy(
            name="P", description=description, should_block_pre_tool_execution=lambda c, p, m: True
        )
        result, _, _ = await _call(HookRunner([made]))
        assert result.message == message

    @pytest.mark.parametrize("method", BLOCKS[:2])
    async def test_before_the_effect_they_deny(self, method: str) -> None:
        result, _, _ = await _call(HookRunner([_policy(**{method: lambda c, p, m: True})]))
        assert not result.allow

    @pytest.mark.parametrize("method", BLOCKS[2:])
    async def test_after_the_effect_they_withhold(self, method: str) -> None:
        _, _, result = await _call(HookRunner([_policy(**{method: lambda c, p, m: True})]))
        assert result.result == "Action blocked by policy: Made"

    async def test_they_judge_after_everybody_has_rewritten(self) -> None:
        seen: list[Any] = []

        def see(context: Any, params: StageParams, name: str) -> bool:
            seen.append(params.raw_params["x"])
            return False

        first = _policy(should_block_pre_tool_execution=see)

        def change(context: Any, params: StageParams, name: str) -> None:
            params.normalized_params["x"] = 2

        await _call(HookRunner([first, _hook(post_params_normalization_hook=change)]))
        assert seen == [2]

    @pytest.mark.parametrize("answer", [None, 1, "yes", 0])
    async def test_neither_yes_nor_no_denies(self, answer: Any) -> None:
        made = _policy(should_block_pre_tool_execution=lambda c, p, m: answer)
        result, _, _ = await _call(HookRunner([made]))
        assert not result.allow

    async def test_one_that_raises_denies_and_tells_the_model_nothing_of_it(
        self, governed: Any
    ) -> None:
        def fail(context: Any, params: StageParams, name: str) -> bool:
            raise RuntimeError("secret of the policy")

        governed(policies=[_policy(should_block_pre_tool_execution=fail)])
        with pytest.raises(Denied) as denied:
            otelhooks.tool(lambda: None)()
        assert "secret" not in str(denied.value)

    def test_one_without_a_block_is_refused_when_the_class_is_made(self) -> None:
        with pytest.raises(TypeError, match="`Idle` overrides none of should_block_pre_tool"):
            type("Idle", (policy.AbstractPolicy,), {"relevant_tools": []})

    @pytest.mark.parametrize("method", METHODS)
    def test_one_that_overrides_a_hook_is_refused_when_the_class_is_made(self, method: str) -> None:
        async def block(*args: Any) -> bool:
            return False

        body = {method: block, "should_block_pre_tool_execution": block}
        with pytest.raises(TypeError, match=f"overrides `{method}`: a policy blocks in `should_"):
            type("Both", (policy.AbstractPolicy,), body)

    def test_neither_does_one_that_is_set_on_the_object(self) -> None:
        reject: Any = policy.RejectToolPolicy(["t"])
        reject.post_core_action_hook = lambda c, p, m: None
        with pytest.raises(TypeError, match="overrides `post_core_action_hook`"):
            HookRunner([reject])

    def test_a_mixin_does_not_get_round_that(self) -> None:
        class Mixin:
            async def post_core_action_hook(self, *args: Any) -> None:
                pass

        async def block(*args: Any) -> bool:
            return False

        with pytest.raises(TypeError, match="overrides `post_core_action_hook`"):
            type("Both", (Mixin, policy.AbstractPolicy), {"should_block_post_core_action": block})

    @pytest.mark.parametrize("place", range(4))
    async def test_called_by_hand_its_hooks_raise(self, place: int) -> None:
        made = _policy(["t"], **{BLOCKS[place]: lambda c, p, m: True})
        hook, params = getattr(made, METHODS[place]), StageParams("t", None)
        with pytest.raises(ValueError, match="Action blocked by policy: Made"):
            await hook(None, params, "t")
        await hook(None, params, "another")
        await getattr(made, METHODS[place - 1])(None, params, "t")

    def test_a_policy_may_be_derived_from_another(self) -> None:
        class Mine(policy.RejectToolPolicy):
            name = "Mine"

        assert len(registrations(Mine(["t"]))) == 1

    @pytest.mark.parametrize("place", ["policies", "hooks"])
    def test_an_instrumented_tool_does_not_run_and_the_span_names_it(
        self, governed: Any, place: str
    ) -> None:
        ran: list[int] = []
        governed(**{place: [policy.RejectToolPolicy(["t"])]})

        @otelhooks.tool
        def t() -> None:
            ran.append(1)

        with pytest.raises(Denied, match="Action blocked by policy: Reject Tool Policy"):
            t()
        assert ran == []
        attributes = governed.spans[0].attributes
        assert attributes[semconv.POLICY_RULE_ID] == "Reject Tool Policy"
        assert attributes[semconv.POLICY_ID] == "code"

    def test_monitor_mode_records_and_lets_run(self, governed: Any) -> None:
        governed(policies=[policy.RejectToolPolicy(["*"])], mode="monitor")
        assert otelhooks.tool(lambda: "ran")() == "ran"

    async def test_after_an_approvers_edit_they_are_asked_again(self) -> None:
        seen: list[Any] = []

        def see(context: Any, params: StageParams, name: str) -> bool:
            seen.append(dict(params.raw_params))
            return params.raw_params["x"] > 1

        made = _policy(should_block_pre_tool_execution=see)
        raising = hooks.pre_tool_call_decide(lambda call: Result(modified_args={"x": 5}))
        raising.priority = 2**32
        result, _, _ = await _call(HookRunner([made, raising]))
        assert seen == [{"x": 1}, {"x": 5}]
        assert not result.allow


class TestSteps:
    """A tool in steps of its own, as an adapter runs them."""

    @staticmethod
    def _context(**values: Any) -> hooks.OperationContext:
        context = hooks.OperationContext(hooks.TurnContext(hooks.SessionContext()))
        context.know(tool_name="t")
        context.stages = StageParams("t", "the kit's", is_staged=True)
        for name, value in values.items():
            setattr(context.stages, name, value)
        return context

    @staticmethod
    def _run(made: Any, context: Any, data: Any) -> Any:
        [registration] = registrations(made)
        return registration.call(context, data)

    def test_normalized_arguments_are_what_the_tool_made_of_them(self) -> None:
        def change(context: Any, params: StageParams, method: str) -> None:
            assert (context, params.normalized_params) == ("the kit's", ["as validated"])
            params.normalized_params = ["changed"]

        context = self._context(normalized_params=["as validated"])
        made = _hook(post_params_normalization_hook=change)
        answer = self._run(made, context, types.ToolCall(name="t", args={"x": 1}))
        assert answer == Result()
        assert context.stages is not None
        assert context.stages.normalized_params == ["changed"]
        assert context.stages.rewritten_by == ["Made"]

    def test_what_was_prepared_is_given_as_it_is(self) -> None:
        def change(context: Any, params: StageParams, method: str) -> None:
            params.core_action_result = "other"

        context = self._context(core_action_result="prepared")
        made = _hook(post_core_action_hook=change)
        assert self._run(made, context, "prepared") == "other"
        assert context.stages is not None
        assert context.stages.core_action_result == "other"

    def test_without_an_operation_each_call_stands_alone(self) -> None:
        seen: list[Any] = []

        def see(context: Any, params: StageParams, method: str) -> None:
            seen.append((params.raw_params, method))

        made = _hook(pre_tool_execution_hook=see)
        assert self._run(made, None, types.ToolCall(name="t", args={"x": 1})) == Result()
        assert seen == [({"x": 1}, "t")]
