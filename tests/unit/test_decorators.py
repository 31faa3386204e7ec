"""Plain functions under the pipeline."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.records import semconv

Result = types.HookResult


class TestTool:
    def test_without_instrument_it_is_the_plain_function(self) -> None:
        @otelhooks.tool
        def add(a: int, b: int = 2) -> int:
            """Add."""
            return a + b

        @otelhooks.tool
        async def aadd(a: int) -> int:
            return a

        @otelhooks.tool
        def items() -> Any:
            got = yield 1
            return got

        @otelhooks.tool
        async def aitems() -> Any:
            yield 1

        async def collect() -> list[int]:
            return [item async for item in aitems()]

        assert add(1) == 3
        assert (add.__name__, add.__doc__) == ("add", "Add.")
        assert asyncio.run(aadd(1)) == 1
        assert list(items()) == [1]
        assert asyncio.run(collect()) == [1]
        assert inspect.iscoroutinefunction(aadd)
        assert inspect.isgeneratorfunction(items)
        assert inspect.isasyncgenfunction(aitems)

    def test_rules_see_arguments_by_name_with_defaults(self, governed: Any) -> None:
        seen: list[dict[str, Any]] = []

        @otelhooks.tool
        def f(a: int, b: int = 2, *, c: int = 3) -> tuple[int, int, int]:
            return a, b, c

        @otelhooks.tool
        def g(a: int, /, *rest: int, **more: int) -> Any:
            return a, rest, more

        governed(hooks=[hooks.pre_tool_call_decide(lambda d: seen.append(d.args) or Result())])
        assert f(1, c=5) == (1, 2, 5)
        assert g(1, 2, 3, x=4) == (1, (2, 3), {"x": 4})
        assert seen == [{"a": 1, "b": 2, "c": 5}, {"a": 1, "rest": (2, 3), "x": 4}]

    def test_a_function_whose_parameters_are_not_known_is_a_type_error(self) -> None:
        with pytest.raises(TypeError, match="Python knows no parameters of `str`"):
            otelhooks.call_tool("t", {}, str)

    def test_what_was_given_comes_before_defaults(self, governed: Any) -> None:
        """A person who is asked reads the first arguments first."""
        seen: list[list[str]] = []

        @otelhooks.tool
        def transfer(account: str, amount: int, note: str = "", tags: str = "") -> None: ...

        governed(hooks=[hooks.pre_tool_call_decide(lambda d: seen.append([*d.args]) or Result())])
        transfer(account="a", amount=1)
        transfer("a", tags="x", amount=1)
        assert seen == [
            ["account", "amount", "note", "tags"],
            ["account", "tags", "amount", "note"],
        ]

    def test_arguments_that_do_not_fit_are_a_type_error(self, governed: Any) -> None:
        @otelhooks.tool
        def f(a: int) -> None: ...

        governed()
        for call in (lambda: f(), lambda: f(1, 2), lambda: f(1, a=1), lambda: f(b=1)):
            with pytest.raises(TypeError):
                call()

    def test_an_argument_that_a_hook_made_up_is_a_type_error(self, governed: Any) -> None:
        @otelhooks.tool
        def f(a: int, context: types.ToolContext) -> None: ...

        governed(hooks=[hooks.pre_tool_call_decide(lambda d: Result(modified_args={"z": 1}))])
        with pytest.raises(TypeError, match="unexpected argument `z`"):
            f(1)  # type: ignore[call-arg]

    def test_the_tool_context_is_filled_kept_a_session_and_hidden_from_rules(
        self, governed: Any
    ) -> None:
        seen: list[Any] = []

        @otelhooks.tool
        def count(step: int, state: types.ToolContext) -> int:
            return state.update_state("n", lambda n: n + step, 0)

        look = hooks.pre_tool_call_decide(
            lambda context, data: seen.append((data.args, context.get("n"))) or Result()
        )
        governed(hooks=[look])
        with otelhooks.session("one"):
            assert [count(1), count(2)] == [1, 3]  # type: ignore[call-arg]
        with otelhooks.session("two"):
            assert count(5) == 5  # type: ignore[call-arg]
        assert seen == [({"step": 1}, None), ({"step": 2}, None), ({"step": 5}, None)]

    def test_an_annotation_that_cannot_be_resolved_is_not_a_context(self, governed: Any) -> None:
        def f(a: Nowhere) -> Any:  # type: ignore[name-defined]  # noqa: F821
            return a

        governed()
        assert otelhooks.tool(f)(1) == 1

    def test_name_and_server_are_what_rules_see(self, governed: Any) -> None:
        @otelhooks.tool(name="search", server="github")
        def anything() -> None: ...

        governed(
            policies=[policy.deny("github/search")],
            mcp_servers=[types.McpStdioServer(name="github", command="x")],
        )
        with pytest.raises(Denied):
            anything()

    def test_an_async_tool_is_judged_when_it_is_awaited(self, governed: Any) -> None:
        ran: list[int] = []

        @otelhooks.tool
        async def t() -> None:
            ran.append(1)

        governed(policies=[policy.deny("t")])
        coroutine = t()
        assert governed.spans == []
        with pytest.raises(Denied):
            asyncio.run(coroutine)
        assert ran == []


def everything(path: str, /, *args: Any, size: int = 1, **kwargs: Any) -> Any:
    return path, args, size, kwargs


class Shop:
    @otelhooks.tool
    def pay(self, amount: int) -> Any:
        return self, amount

    @otelhooks.tool
    async def apay(self, amount: int) -> Any:
        return self, amount

    @classmethod
    @otelhooks.tool(name="open")
    def of(cls, amount: int) -> Any:
        return cls, amount

    @staticmethod
    @otelhooks.tool
    def price(amount: int) -> int:
        return amount


class TestMethods:
    """The class: what a model cannot choose is not shown to rules, what it can is."""

    def test_the_object_is_not_an_argument_that_rules_see(self, governed: Any) -> None:
        rule = policy.deny("*", when=lambda args: args != {"amount": 5})
        seen: list[Any] = []
        governed(
            policies=[rule],
            hooks=[hooks.pre_tool_call_decide(lambda d: seen.append(d.args) or Result())],
        )
        shop = Shop()
        assert shop.pay(5) == (shop, 5)
        assert asyncio.run(shop.apay(amount=5)) == (shop, 5)
        assert Shop.of(5) == (Shop, 5)
        assert Shop.price(5) == 5
        assert seen == [{"amount": 5}] * 4
        with pytest.raises(Denied):
            shop.pay(6)

    def test_a_hook_file_can_judge_a_method(self, governed: Any, tmp_path: Any) -> None:
        file = tmp_path / "rules.yaml"
        file.write_text("version: 1\npolicies:\n- deny: pay\n  when: args['amount'] > 5\n")
        governed(policies=[str(file)])
        assert Shop().pay(5)[1] == 5
        with pytest.raises(Denied):
            Shop().pay(6)

    def test_an_argument_that_a_model_calls_self_is_seen(self, governed: Any) -> None:
        def pay(self: Any, amount: int) -> Any: ...

        governed(policies=[policy.deny("pay", when=lambda args: args["self"] == "x")])
        for call in (
            lambda: otelhooks.call_tool("pay", {"self": "x", "amount": 1}, pay),
            lambda: otelhooks.tool(pay)("x", 1),
            lambda: otelhooks.call_tool("pay", {"self": "x", "amount": 1}, Shop.pay.__wrapped__),  # type: ignore[attr-defined]
        ):
            with pytest.raises(Denied):
                call()

    @pytest.mark.parametrize("kind", [classmethod, staticmethod])
    def test_a_decorator_above_one_that_binds_is_a_clear_error(self, kind: Any) -> None:
        with pytest.raises(TypeError, match=f"write `@{kind.__name__}` above `@otelhooks.tool`"):
            otelhooks.tool(kind(everything))

    def test_what_has_no_name_needs_one(self) -> None:
        assert otelhooks.tool(functools.partial(everything, "a")).__wrapped__  # type: ignore[attr-defined]
        with pytest.raises(TypeError, match=r"has no name\nhint: write `otelhooks.tool"):
            otelhooks.tool(_Nameless())
        with pytest.raises(TypeError, match="decorates a function, not 'search'"):
            otelhooks.tool("search")  # type: ignore[call-overload]


class _Nameless:
    def __call__(self) -> None: ...


class TestMisfits:
    """The class: a call that the function cannot take is judged and recorded like any other."""

    def test_a_denied_call_with_wrong_arguments_is_denied(self, governed: Any) -> None:
        governed(policies=[policy.deny("pay", when=lambda args: "to" in args)])
        tool = otelhooks.tool(name="pay")(TestCallTool.transfer)
        by_name = functools.partial(otelhooks.call_tool, "pay", fn=TestCallTool.transfer)
        for call in (by_name, lambda a: tool(**a)):
            with pytest.raises(Denied):
                call({"to": "eve"})
            with pytest.raises(TypeError, match="unexpected keyword argument 'form'"):
                call({"form": 1})
        denied, failed = governed.spans[0], governed.spans[1]
        assert denied.attributes[semconv.ERROR_TYPE] == "policy_denied"
        assert failed.attributes[semconv.ERROR_TYPE] == "TypeError"
        assert failed.attributes[semconv.POLICY_DECISION] == "allow"

    def test_a_hook_may_mend_the_arguments(self, governed: Any) -> None:
        @hooks.pre_tool_call_decide
        def mend(call: types.ToolCall) -> types.HookResult:
            return Result(replace_args={"amount": call.args["sum"]})

        governed(hooks=[mend])
        assert otelhooks.call_tool("pay", {"sum": 5}, TestCallTool.transfer) == "sent 5"

    def test_too_many_arguments_never_run_as_fewer(self, governed: Any) -> None:
        governed(hooks=[hooks.pre_tool_call_decide(lambda d: Result(modified_args={"amount": 1}))])
        with pytest.raises(TypeError):
            otelhooks.tool(TestCallTool.transfer)(1, 2)  # type: ignore[call-arg]


class TestFurtherArguments:
    """The class: a rule finds an argument by its name, whichever parameter takes it."""

    @pytest.mark.parametrize(
        ("positional", "by_name", "seen"),
        [
            (("a",), {}, {"path": "a", "args": (), "size": 1}),
            (("a", 2), {"size": 3, "x": 4}, {"path": "a", "args": (2,), "size": 3, "x": 4}),
            (("a",), {"args": 5}, {"path": "a", "args": (), "size": 1, "kwargs": {"args": 5}}),
            (
                ("a", 2),
                {"path": "/etc", "kwargs": {"y": 1}, "x": 4},
                {"path": "a", "args": (2,), "size": 1, "x": 4}
                | {"kwargs": {"path": "/etc", "kwargs": {"y": 1}}},
            ),
        ],
    )
    def test_what_keywords_take_is_seen_by_name_and_given_back_as_it_was(
        self, governed: Any, positional: Any, by_name: Any, seen: dict[str, Any]
    ) -> None:
        shown: list[Any] = []
        governed(hooks=[hooks.pre_tool_call_decide(lambda d: shown.append(d.args) or Result())])
        ran = otelhooks.tool(everything)(*positional, **by_name)
        assert ran == everything(*positional, **by_name)
        assert shown == [seen]

    def test_a_model_cannot_hide_an_argument_behind_the_name_of_the_parameter(
        self, governed: Any
    ) -> None:
        @otelhooks.tool
        def t(**kwargs: Any) -> Any:
            return kwargs

        governed(policies=[policy.deny("t", when=lambda args: args.get("path") == "/etc")])
        for args in ({"path": "/etc"}, {"kwargs": {}, "path": "/etc"}):
            with pytest.raises(Denied):
                t(**args)
        assert t(path="/tmp", kwargs={"path": 1}) == {"path": "/tmp", "kwargs": {"path": 1}}

    def test_a_hook_rewrites_and_adds_what_keywords_take(self, governed: Any) -> None:
        changes = {"path": "/tmp", "new": 1}
        governed(hooks=[hooks.pre_tool_call_decide(lambda d: Result(modified_args=changes))])

        @otelhooks.tool
        def t(**kwargs: Any) -> Any:
            return kwargs

        assert t(path="/etc", x=2) == {"path": "/tmp", "new": 1, "x": 2}


class TestCallTool:
    @staticmethod
    def transfer(amount: int = 500) -> str:
        return f"sent {amount}"

    def test_without_instrument_it_is_a_plain_call(self) -> None:
        assert otelhooks.call_tool("transfer", {"amount": 5}, self.transfer, id="c1") == "sent 5"

    def test_it_is_judged_by_the_name_the_model_used_with_defaults(self, governed: Any) -> None:
        governed(policies=[policy.deny("pay", when=lambda args: args["amount"] > 100)])
        with pytest.raises(Denied):
            otelhooks.call_tool("pay", {}, self.transfer)
        assert otelhooks.call_tool("pay", {"amount": 5}, self.transfer, id="c1") == "sent 5"
        span = governed.spans[-1]
        assert span.name == "execute_tool pay"
        assert span.attributes[semconv.GEN_AI_TOOL_CALL_ID] == "c1"

    def test_a_servers_tool_is_judged_as_one(self, governed: Any) -> None:
        governed(policies=[policy.deny("bank/*")], mcp_servers=[])
        with pytest.raises(Denied):
            otelhooks.call_tool("pay", {}, self.transfer, server="bank")

    def test_a_password_in_the_address_of_a_server_is_not_recorded(
        self, governed: Any, exporter: Any
    ) -> None:
        url = "https://user:s3cret@host:8/mcp?key=s3cret#s3cret"
        governed()
        otelhooks.call_tool("pay", {}, self.transfer, server=url)
        otelhooks.tool(self.transfer, server=url)()

        spans = exporter.get_finished_spans()
        servers = [span.attributes[semconv.TOOL_SERVER] for span in spans]
        assert servers == ["https://host:8/mcp"] * 2

    def test_what_is_asynchronous_is_judged_when_it_is_awaited(self, governed: Any) -> None:
        ran: list[str] = []

        async def act(x: str) -> str:
            ran.append(x)
            return x

        class Tool:
            async def __call__(self, x: str) -> str:
                return await act(x)

        governed(policies=[policy.deny("t", when=lambda args: args["x"] == "no")])
        for fn in (act, Tool(), functools.partial(act)):
            assert asyncio.run(otelhooks.call_tool("t", {"x": "yes"}, fn)) == "yes"
            with pytest.raises(Denied):
                asyncio.run(otelhooks.call_tool("t", {"x": "no"}, fn))
        assert ran == ["yes"] * 3

    def test_a_call_that_the_model_asked_for_is_not_a_gap(self, governed: Any) -> None:
        @otelhooks.model_call(model="m")
        def ask(messages: list[Any]) -> types.ModelResponse:
            calls = [types.ToolCall(name="pay", args={}, id="c1")]
            return types.ModelResponse(text="", tool_calls=calls)

        governed(policies=[policy.deny("other")])
        with otelhooks.session("s"), otelhooks.turn("pay"):
            (call,) = ask([]).tool_calls
            otelhooks.call_tool(call.name, call.args, self.transfer, id=call.id)
        assert governed.total(semconv.METRIC_COVERAGE_GAPS) == 0

    def test_text_of_a_model_that_was_not_decoded_is_a_clear_error(self) -> None:
        given: Any = '{"amount": 5}'
        with pytest.raises(TypeError, match="are not a mapping: str\nhint: decode"):
            otelhooks.call_tool("pay", given, self.transfer)


class TestGenerators:
    def tool(self, log: list[Any]) -> Any:
        @otelhooks.tool
        def items(n: int = 3) -> Any:
            try:
                for i in range(n):
                    log.append(i)
                    yield i
            finally:
                log.append("closed")

        return items

    def test_a_generator_is_decided_before_its_first_item(self, governed: Any) -> None:
        log: list[Any] = []
        items = self.tool(log)
        governed(policies=[policy.deny("items")])
        with pytest.raises(Denied):
            next(items())
        assert log == []

    def test_one_of_call_tool_is_decided_in_the_block_that_makes_it(self, governed: Any) -> None:
        log: list[Any] = []

        def items(n: int = 3) -> Any:
            log.append("ran")
            yield from range(n)

        governed()
        with otelhooks.scope(policies=[policy.deny("items")]), pytest.raises(Denied):
            otelhooks.call_tool("items", {}, items)
        with otelhooks.scope(policies=[policy.allow("items", when=lambda args: args["n"] == 2)]):
            made = otelhooks.call_tool("items", {"n": 2}, items)
        assert list(made) == [0, 1]
        assert log == ["ran"]
        assert [span.name for span in governed.spans] == ["execute_tool items"] * 2

    def test_so_is_an_asynchronous_one(self, governed: Any) -> None:
        log: list[Any] = []

        async def items(n: int = 3) -> Any:
            log.append("ran")
            for item in range(n):
                yield item

        async def read(made: Any) -> list[int]:
            return [item async for item in made]

        governed()
        with otelhooks.scope(policies=[policy.deny("items")]), pytest.raises(Denied):
            otelhooks.call_tool("items", {}, items)
        with otelhooks.scope(policies=[policy.allow("items", when=lambda args: args["n"] == 2)]):
            made = otelhooks.call_tool("items", {"n": 2}, items)
        assert asyncio.run(read(made)) == [0, 1]
        assert log == ["ran"]
        assert [span.name for span in governed.spans] == ["execute_tool items"] * 2

    def test_items_pass_without_a_transform_and_the_span_ends_with_the_last(
        self, governed: Any
    ) -> None:
        log: list[Any] = []
        items = self.tool(log)
        governed()
        stream = items()
        assert next(stream) == 0
        assert log == [0]
        assert governed.spans == []
        assert list(stream) == [1, 2]
        assert governed.attributes("execute_tool items")

    def test_with_a_transform_they_are_collected(self, governed: Any) -> None:
        log: list[Any] = []
        items = self.tool(log)
        governed(hooks=[hooks.post_tool_call_transform(lambda d: [i * 10 for i in d.result])])
        stream = items()
        assert next(stream) == 0
        assert log == [0, 1, 2, "closed"]
        assert list(stream) == [10, 20]

    def test_a_transform_of_an_agents_scope_holds_back_too(self, governed: Any) -> None:
        log: list[Any] = []
        items = self.tool(log)
        governed()
        mask = hooks.post_tool_call_transform(lambda data: "masked")
        with otelhooks.scope(agent="a", hooks=[mask]):
            assert list(items()) == [0, 1, 2]
            with hooks.agent_scope("a"):
                assert list(items()) == ["masked"]

    def test_early_close_runs_the_inspectors_as_partial(self, governed: Any) -> None:
        log: list[Any] = []
        seen: list[Any] = []
        items = self.tool(log)
        governed(hooks=[hooks.post_tool_call(lambda d: seen.append((d.result, d.partial)))])
        stream = items()
        next(stream)
        stream.close()
        assert log == [0, "closed"]
        assert seen == [([0], True)]
        assert governed.span("execute_tool items")

    def test_a_failure_in_the_middle_goes_to_the_error_hooks(self, governed: Any) -> None:
        @otelhooks.tool
        def items() -> Any:
            yield 1
            raise ValueError("boom")

        handle = governed()
        with pytest.raises(ValueError, match="boom"):
            list(items())
        handle.register(hooks.on_tool_error(lambda error: ["instead"]))
        assert list(items()) == [1, "instead"]

    def test_the_consumers_code_does_not_run_under_the_span(self, governed: Any) -> None:
        from opentelemetry import trace

        inside: list[bool] = []

        @otelhooks.tool
        def items() -> Any:
            inside.append(trace.get_current_span().get_span_context().is_valid)
            yield 1
            inside.append(trace.get_current_span().get_span_context().is_valid)

        governed()
        outside = [trace.get_current_span().get_span_context().is_valid for _ in items()]
        assert (inside, outside) == ([True, True], [False])

    def test_async_generators_do_all_the_same(self, governed: Any) -> None:
        log: list[Any] = []

        @otelhooks.tool
        async def items(fail: bool = False) -> Any:
            try:
                for i in range(3):
                    log.append(i)
                    yield i
                if fail:
                    raise ValueError("boom")
            finally:
                log.append("closed")

        async def collect(**args: Any) -> list[Any]:
            return [item async for item in items(**args)]

        async def first() -> Any:
            stream = items()
            async for item in stream:
                await stream.aclose()
                return item

        seen: list[Any] = []
        handle = governed(
            hooks=[hooks.post_tool_call(lambda d: seen.append((d.result, d.partial)))]
        )
        assert asyncio.run(collect()) == [0, 1, 2]
        assert asyncio.run(first()) == 0
        assert seen == [([0, 1, 2], False), ([0], True)]
        with pytest.raises(ValueError, match="boom"):
            asyncio.run(collect(fail=True))
        handle.register(hooks.on_tool_error(lambda error: "instead"))
        assert asyncio.run(collect(fail=True)) == [0, 1, 2, "instead"]
        handle.register(hooks.post_tool_call_transform(lambda d: ["masked"]))
        assert asyncio.run(collect()) == ["masked"]
        handle.register(policy.deny("items"))
        with pytest.raises(Denied):
            asyncio.run(collect())


class TestAgent:
    def test_without_a_name_it_has_the_functions(self, governed: Any) -> None:
        @otelhooks.agent
        def ops(message: str) -> str:
            return message.upper()

        governed()
        assert ops("hi") == "HI"
        assert governed.span("invoke_agent ops")
        with pytest.raises(TypeError, match="decorates a function, not None"):
            otelhooks.agent(None)  # type: ignore[call-overload]

    def test_the_first_argument_is_the_users_message(self, governed: Any) -> None:
        @otelhooks.agent("ops")
        def ops(message: str, loud: bool = False) -> str:
            return message.upper() if loud else message

        governed(hooks=[hooks.pre_turn(lambda data: Result(modified_prompt=data + "!"))])
        assert ops("hi", loud=True) == "HI!"
        assert governed.attributes("invoke_agent ops")[semconv.GEN_AI_AGENT_NAME] == "ops"

    def test_it_may_take_no_message(self, governed: Any) -> None:
        @otelhooks.agent("cron")
        async def cron() -> str:
            return "done"

        governed(hooks=[hooks.pre_turn(lambda data: Result(modified_prompt="x"))])
        assert asyncio.run(cron()) == "done"

    def test_a_ready_answer_is_its_answer(self, governed: Any) -> None:
        @otelhooks.agent("ops")
        def ops(message: str) -> str:
            raise AssertionError

        governed(hooks=[hooks.pre_agent(lambda data: Result(response="ready"))])
        assert ops("x") == "ready"

    def test_a_streamed_answer_waits_for_a_hook_that_may_change_it(self, governed: Any) -> None:
        seen: list[Any] = []

        @otelhooks.agent("ops")
        def ops(message: str) -> Any:
            yield from ("a", "b")

        handle = governed(hooks=[hooks.post_turn(lambda data: seen.append(data))])
        assert list(ops("x")) == ["a", "b"]
        assert seen == ["ab"]
        handle.register(hooks.post_agent_transform(lambda answer: answer.upper()))
        assert list(ops("x")) == ["AB"]
