"""Starlark expressions and scripts: compiled once, called within limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from otelhooks import policy
from otelhooks.errors import PolicyFileError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy.scripting.starlark import (
    Expression,
    ScriptError,
    compile_expression,
    compile_script,
    counting_time,
)


class At:
    """A text that starts on line 11, in column 3 of a file."""

    path = "policies/x.yaml"

    def within(self, line: int, column: int) -> tuple[int, int]:
        return line + 10, column + 2


def expression(text: str, **options: Any) -> Expression:
    return compile_expression(text, At(), **options)


def script(body: str, **options: Any) -> Callable[..., Any]:
    lines = "".join(f"  {line}\n" for line in body.splitlines())
    return compile_script(f"def handle(event, payload):\n{lines}", At(), **options)


class TestExpressions:
    @pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
    @pytest.mark.parametrize("text", ["args['n'] > 100", "not args['n'] <= 100"])
    def test_a_number_that_is_not_finite_cannot_be_compared_with_a_limit(
        self, number: float, text: str
    ) -> None:
        with pytest.raises(ScriptError, match="not supported"):
            expression(text)({"n": number})
        rule = policy.deny("transfer", when=expression(text))
        ruling = drive(policy.PolicySet([rule]).evaluate(Call("transfer", {"n": number})))
        assert ruling.decision == "deny"
        handle = script("return payload['args']['n'] > 100")
        with pytest.raises(ScriptError, match="not supported"):
            handle("tool.pre", {"args": {"n": number}})

    @pytest.mark.parametrize(
        ("text", "args", "expected"),
        [
            ('"rm -rf" in args["command"]', {"command": "rm -rf /"}, True),
            ('args.get("n", 0) > 3', {}, False),
            ('[key for key in args\n  if key != "a"]', {"a": 1, "b": 2}, ["b"]),
            ("args # all of them", {"a": 1}, {"a": 1}),
            ('args["a"],', {"a": 1}, 1),
            ('(args["a"], 2)', {"a": 1}, [1, 2]),
            ('any([x > 1 for x in args["l"]])', {"l": [1, 2]}, True),
            ('args["é"] == "ü"', {"é": "ü"}, True),
        ],
    )
    def test_the_value_of_an_expression(self, text: str, args: Any, expected: Any) -> None:
        assert expression(text)(args) == expected

    @pytest.mark.parametrize("text", ["args.n > 3", "1 < 2 and args.command == 'ls'"])
    def test_a_key_that_is_written_as_an_attribute_is_refused(self, text: str) -> None:
        with pytest.raises(PolicyFileError, match="has keys, and no attribute") as raised:
            expression(text)
        name = "n" if ".n" in text else "command"
        assert f'write `args["{name}"]`' in str(raised.value)

    @pytest.mark.parametrize(
        "text",
        [
            *("args.values == 'x'", "args.get == 'x'", "args.keys"),
            *("hasattr(args, 'n')", "getattr(args, 'n', 0) > 3", "'n' in dir(args)"),
        ],
    )
    def test_so_is_a_method_that_is_not_called_and_what_reads_attributes(self, text: str) -> None:
        with pytest.raises(PolicyFileError, match="has keys"):
            expression(text)

    @pytest.mark.parametrize("text", ["args.get('n')", "[args.n for args in [struct(n=1)]]"])
    def test_so_is_no_method_and_no_other_value_of_that_name(self, text: str) -> None:
        expression(text)({"n": 1})

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " \n ",
            "# nothing",
            "a b",
            "args, args",
            "args] + [args",
            "args][0",
            ") or (args",
            "x = 1",
            "*args",
            "x for x in args",
            "lambda: 1) or (1",
            "while True: pass",
            "import os",
            "yield 1",
            "await args",
            "(x := 1)",
            "unknown(args)",
            "args.get('a' 'b')",
            "args['a'",
            "'unclosed",
            "\x00",
            "'\ud800'",
            "0777",
            "args is None",
            "a < b < c",
            "load('x', 'y')",
            "print(1)",
        ],
    )
    def test_what_is_not_an_expression_is_an_error_at_its_place(self, text: str) -> None:
        with pytest.raises(PolicyFileError, match=r"^policies/x.yaml:1[123]:\d+: ") as caught:
            expression(text)
        assert "\nhint: " in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "line", "column"),
        [("args +\n  nothing", 12, 5), ("foo", 11, 3), ('"é" + foo', 11, 9)],
    )
    def test_the_place_is_that_in_the_file(self, text: str, line: int, column: int) -> None:
        with pytest.raises(PolicyFileError) as caught:
            expression(text)
        assert (caught.value.line, caught.value.column) == (line, column)

    def test_it_stands_as_when_of_a_rule(self) -> None:
        rule = policy.deny("t", when=expression('args["n"] > 3'))
        rules = policy.PolicySet([rule])
        assert drive(rules.evaluate(Call("t", {"n": 4}))).decision == "deny"
        assert drive(rules.evaluate(Call("t", {"n": 3}))).decision == "allow"
        failed = drive(rules.evaluate(Call("t", {})))
        assert failed.decision == "deny"
        assert isinstance(failed.error, ScriptError)

    def test_identities_of_rules_follow_its_text(self) -> None:
        def id_of(text: str) -> str:
            [rule] = policy.PolicySet([policy.deny("t", when=expression(text))]).rules
            return rule.identity

        assert id_of("args") == id_of("args") != id_of("not args")
        assert expression("args") == expression("args") != expression("not args")
        assert repr(expression("args")) == "starlark('args')"
        assert len({expression("args"), expression("args")}) == 1

    @pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
    def test_a_host_function_that_raises_while_a_script_is_loaded(
        self, error: type[BaseException]
    ) -> None:
        def stop() -> None:
            raise error

        text = "x = stop()\ndef handle(event, payload):\n  return x"
        expected = PolicyFileError if error is ValueError else error
        with pytest.raises(expected):
            compile_script(text, At(), functions={"stop": stop})

    def test_two_threads_may_call_it_at_once(self) -> None:
        test = expression('len(args["l"])')
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda n=n: found.append(test({"l": [0] * n})))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == list(range(8))


class TestScripts:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "x = 1",
            "def other(event, payload):\n  return 1",
            "def handle(event):\n  return 1",
            "def handle(event, payload, more):\n  return 1",
            "def handle(event, *, payload):\n  return 1",
            "def handle():\n  return 1",
            "handle = 1",
            "def handle(e, p):\n  return 1\ndef handle(e, p):\n  return 2",
            "def handle(e, p):\n  return 1\nhandle = None",
            "if True:\n  def handle(e, p):\n    return 1",
        ],
    )
    def test_handle_must_take_event_and_payload(self, text: str) -> None:
        with pytest.raises(PolicyFileError, match=r"handle|`if`|top level"):
            compile_script(text, At())

    def test_a_function_inside_it_may_have_its_name(self) -> None:
        text = "def handle(e, p):\n  def handle(e, p):\n    return p\n  return handle(e, p)"
        assert compile_script(text, At())("e", {"a": 1}) == {"a": 1}

    def test_more_parameters_may_have_defaults(self) -> None:
        text = "def handle(event, payload, more=3, *rest):\n  return more"
        assert compile_script(text, At())("e", {}) == 3

    @pytest.mark.parametrize(
        ("text", "line", "column"),
        [
            ("def handle(e, p):\n  return 1 +\n", 12, 15),
            ("def handle(e, p):\n  return foo()\n", 12, 12),
            ("x = 1 // 0\ndef handle(e, p):\n  return 1\n", 11, 7),
            ("def handle(e, p):\n\tif e:\n        return 1", 13, 3),
        ],
    )
    def test_errors_have_their_place(self, text: str, line: int, column: int) -> None:
        with pytest.raises(PolicyFileError) as caught:
            compile_script(text, At())
        assert (caught.value.line, caught.value.column) == (line, column)

    def test_a_failure_names_its_place(self) -> None:
        with pytest.raises(ScriptError, match='line 12:12: Key `"a"` was not found') as caught:
            script('return payload["a"]')("e", {})
        assert (caught.value.line, caught.value.column) == (12, 12)

    def test_a_value_that_is_not_plain_is_a_failure(self) -> None:
        for body in ("return handle", "return [handle]"):
            with pytest.raises(ScriptError):
                script(body)("e", {})

    def test_globals_cannot_be_changed_between_calls(self) -> None:
        text = "seen = []\ndef handle(e, p):\n  seen.append(e)\n  return len(seen)"
        with pytest.raises(ScriptError, match=r"[Ii]mmutable|frozen"):
            compile_script(text, At())("e", {})


class TestWhatIsRead:
    @pytest.mark.parametrize(
        ("body", "keys"),
        [
            ("return 1", set()),
            ('return payload["a"] + payload.get("b", 1)', {"a", "b"}),
            ('return payload["a"].get("x")', {"a"}),
            ("return payload", None),
            ("return payload[event]", None),
            ("return payload.get(event)", None),
            ("return payload.keys()", None),
            ('payload = {"a": 1}\nreturn payload["a"]', None),
            ('payload["a"] = 1\nreturn 1', None),
            ('return "a" in payload', None),
            ("return str(*[payload])", None),
            ('return f"{payload}"', None),
            ('return [payload["a"] for payload in [{"a": 1}]]', None),
        ],
    )
    def test_the_keys_of_the_payload_that_a_script_reads(self, body: str, keys: Any) -> None:
        found = script(body)
        assert found.reads == keys  # type: ignore[attr-defined]

    def test_a_function_that_hands_the_payload_on_reads_all(self) -> None:
        text = (
            'def f(p):\n  return p["a"]\ndef handle(event, payload):\n'
            '  return f(payload) + payload["b"]'
        )
        assert compile_script(text, At()).reads is None
        assert compile_script("def handle(*given):\n  return given[1]", At()).reads is None

    def test_expressions_too(self) -> None:
        assert expression('args["a"] == args.get("b")').reads == {"a", "b"}
        assert expression("args").reads is None


class TestLimits:
    @pytest.mark.parametrize(
        "body",
        [
            "for i in range(1000000):\n  for j in range(1000000):\n    pass",
            "return len([1 for i in range(1000000) for j in range(1000000)])",
        ],
    )
    def test_an_endless_loop_is_stopped(self, body: str) -> None:
        call = script(body)
        started = time.monotonic()
        with pytest.raises(ScriptError, match=r"stopped after 0.05 s"):
            call("e", {})
        assert time.monotonic() - started < 5

    def test_what_came_too_late_does_not_count(self) -> None:
        """Class of the fault: one native operation is not interrupted, and its result counted."""
        late = compile_expression("args['n'] > 0", At(), limit_s=-1.0)
        with pytest.raises(ScriptError, match="stopped after -1 s"):
            late({"n": 1})
        with pytest.raises(ScriptError, match=r"stopped after 0.05 s"):
            expression("len('a' * args['n']) > 0")({"n": 6 * 10**7})

    def test_nor_does_what_a_file_does_too_long_while_it_is_loaded(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("otelhooks.policy.scripting.starlark._LOAD_LIMIT_S", -1.0)
        with pytest.raises(PolicyFileError, match="stopped after -1 s"):
            compile_script("def handle(event, payload):\n  return 1", At())

    @pytest.mark.parametrize(
        "body", ["return handle(event, payload)", "return (lambda x: x(x))(lambda x: x(x))"]
    )
    def test_deep_recursion_is_stopped(self, body: str) -> None:
        with pytest.raises(ScriptError, match="stack overflow"):
            script(body)("e", {})

    @pytest.mark.parametrize(
        "text",
        [
            '"a" * 1000000000',
            "10000000 * [1]",
            "[0] * 100000 * 100000",
            "range(30000000)",
            "list(range(30000000))",
            "range(0, 100000000, 2)",
            "range(-50000000, 0)",
            "sorted(range(1000 * 1000 * 30))",
            "(1, 2) * 9999999",
            '("ab" + "cd") * 1000000',
            "1 << 100000000",
            'len("x" * (1 << 30))',
        ],
    )
    def test_constants_that_fill_the_memory_are_refused_at_load(self, text: str) -> None:
        with pytest.raises(PolicyFileError, match="a constant of more than 1000000 parts"):
            expression(text)

    def test_they_are_followed_through_names(self) -> None:
        text = "N = 1000\nM = N * N * N\ndef handle(e, p):\n  return [0] * M"
        with pytest.raises(PolicyFileError, match=r"x.yaml:14:12: a constant"):
            compile_script(text, At())

    @pytest.mark.parametrize(
        "text",
        [
            "N = 100000000\ndef f(N):\n  return [0] * N\ndef handle(e, p):\n  return 1",
            "N = 100000000\ndef handle(e, p):\n  return p['n'] * N",
            "def handle(e, p):\n  return range(1, 100000000, 0)",
            "def handle(e, p):\n  return range()",
        ],
    )
    def test_what_is_not_a_constant_is_not(self, text: str) -> None:
        compile_script(text, At())

    @pytest.mark.parametrize(
        "text",
        [
            "(" * 500 + "1" + ")" * 500,
            "[" * 150 + "]" * 150 + " or " + "[" * 250 + "]" * 250,
            "not " * 100_000 + "1",
            "-" * 3_000 + "1",
            "+".join(["1"] * 30_000),
            " and ".join(["args"] * 30_000),
            "1 if args else " * 3_000 + "1",
            "lambda: " * 3_000 + "1",
            "args" + ".a" * 30_000,
            "args" + "[0]" * 30_000,
            "[1 " + "for x in args " * 3_000 + "]",
        ],
        ids=range(11),
    )
    def test_nesting_that_would_overflow_the_stack_is_refused(self, text: str) -> None:
        with pytest.raises(PolicyFileError, match=r"nested|too many|too deep|longer"):
            expression(text)

    def test_so_is_a_text_that_takes_long_to_read(self) -> None:
        with pytest.raises(PolicyFileError, match="longer than 65536 characters"):
            expression("+".join(["1"] * 100_000))

    def test_an_if_with_thousands_of_branches_is_refused(self) -> None:
        branches = "".join(f"  elif event == {n}:\n    return {n}\n" for n in range(1_000))
        with pytest.raises(PolicyFileError, match="nested"):
            compile_script(f"def handle(event, payload):\n  if event:\n    pass\n{branches}", At())

    def test_what_is_neither_an_exception_nor_an_order_to_stop_is_a_failure(self) -> None:
        class Panic(BaseException):
            """As the interpreter raises when it cannot go on."""

        def panic() -> None:
            raise Panic

        with pytest.raises(ScriptError):
            script("return panic()", functions={"panic": panic})("e", {})


class Odd:
    """Nothing that a script can be given."""


class TestValues:
    @pytest.mark.parametrize("value", [Odd(), {(1, 2): 3}, {1: "a", "1": "b"}, lambda: 1])
    def test_what_cannot_be_handed_over_is_a_failure(self, value: Any) -> None:
        with pytest.raises(ScriptError):
            expression("True")({"x": value})

    def test_so_is_what_is_nested_in_itself(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        with pytest.raises(ScriptError, match="nested deeper than 200"):
            expression("True")({"x": loop})

    def test_a_number_that_json_does_not_know_fits_no_comparison(self) -> None:
        test = expression('args["n"] > 100')
        for value in (float("nan"), float("inf")):
            with pytest.raises(ScriptError):
                test({"n": value})


class TestHostFunctions:
    def test_functions_and_members_of_functions(self) -> None:
        functions = {
            "log": lambda *args, **fields: ["log", args, fields],
            "log.info": lambda *args: ["info", *args],
            "time.now": lambda: 5,
        }
        call = script("return [log(1, a=2), log.info(3), time.now()]", functions=functions)
        assert call("e", {}) == [["log", [1], {"a": 2}], ["info", 3], 5]

    def test_a_member_of_a_function_is_written_in_one_piece(self) -> None:
        functions = {"log": print, "log.info": print}
        with pytest.raises(PolicyFileError, match=r"x.yaml:12:5: `log.info` in pieces"):
            script("log . info(1)", functions=functions)

    def test_their_time_is_their_own(self) -> None:
        functions = {"slow": lambda: sum(range(10_000_000)) and None}
        assert script("slow()\nreturn 1", functions=functions)("e", {}) == 1

    def test_some_count_as_the_script(self) -> None:
        slow = counting_time(lambda: sum(range(300_000)))
        call = script("for i in range(100):\n  slow()\nreturn 1", functions={"slow": slow})
        with pytest.raises(ScriptError):
            call("e", {})

    def test_what_they_raise_is_kept_as_the_cause(self) -> None:
        def broken() -> None:
            raise KeyError("k")

        with pytest.raises(ScriptError, match="KeyError") as caught:
            script("return broken()", functions={"broken": broken})("e", {})
        assert isinstance(caught.value.__cause__, KeyError)

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_what_stops_the_caller_goes_through(self, error: type[BaseException]) -> None:
        def stop() -> None:
            raise error

        with pytest.raises(error):
            script("return stop()", functions={"stop": stop})("e", {})

    def test_a_script_may_be_entered_again(self) -> None:
        calls: list[Any] = []

        def again() -> Any:
            calls.append(1)
            return run("e", {}) if len(calls) < 3 else "deep"

        run = script("return again()", functions={"again": again})
        assert run("e", {}) == "deep"

    def test_what_they_return_is_made_plain(self) -> None:
        call = script("return give()", functions={"give": lambda: {1: b"x"}})
        assert call("e", {}) == {"1": "x"}
