"""Hook files in the pipeline: each event at its point, through `otelhooks.instrument()`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pydantic
import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.policy.files import load
from otelhooks.records import semconv


class Files:
    """Writes hook files and instruments with them."""

    def __init__(self, folder: Path, governed: Any) -> None:
        self.folder: Path = folder
        self._governed = governed

    def write(self, name: str, event: str, body: str, **keys: Any) -> None:
        """Write a file whose `handle` has this body."""
        when = [f"when: |\n  {keys.pop('when')}"] if "when" in keys else []
        lines = [f"event: {event}", *(f"{key}: {value}" for key, value in keys.items()), *when]
        code = "\n".join(f"      {line}" for line in body.splitlines())
        text = "\n".join(lines)
        (self.folder / f"{name}.md").write_text(
            f"---\n{text}\nscript: |\n  def handle(event, payload):\n{code}\n---\n"
        )

    def __call__(self, **settings: Any) -> otelhooks.Handle:
        """Instrument with what was written."""
        limits = {key: settings.pop(key) for key in ("http_allow", "hook_tools") if key in settings}
        loaded = load([self.folder], **limits)
        more = settings.pop("hooks", [])
        return self._governed(hooks=[*loaded.hooks, *more], **settings)


@pytest.fixture
def files(tmp_path: Path, governed: Any) -> Files:
    folder = tmp_path / "hooks"
    folder.mkdir()
    return Files(folder, governed)


class Tool:
    """A tool that notes what it was run with."""

    def __init__(self) -> None:
        self.ran: list[dict[str, Any]] = []

        @otelhooks.tool
        def run_command(command: str = "", flags: Any = None) -> Any:
            self.ran.append({"command": command, "flags": flags})
            return f"ran {command}"

        self.run_command: Callable[..., Any] = run_command


@pytest.fixture
def tool() -> Tool:
    return Tool()


@otelhooks.tool
def other() -> None:
    """A tool that never runs."""
    raise AssertionError


@otelhooks.tool
def broken() -> None:
    raise ValueError("went wrong")


@otelhooks.model_call(model="m")
def ask(messages: list[Any]) -> str:
    return "abcdef"


@otelhooks.model_call(model="m")
def never_asked(messages: list[Any]) -> str:
    raise AssertionError


@otelhooks.agent("ops")
def echo(message: str) -> str:
    return message


def delegating(answer: Callable[[str], str]) -> Callable[[str], str]:
    """Return an agent whose tool asks another agent, `researcher`, which answers so."""
    researcher = otelhooks.agent("researcher")(answer)

    @otelhooks.tool
    def research(question: str) -> str:
        return researcher(question)

    @otelhooks.agent("outer")
    def outer(message: str) -> str:
        return research(message)

    return outer


class TestLabels:
    @pytest.mark.parametrize(("per", "later"), [("session", False), ("turn", True)])
    def test_a_script_adds_one_that_rules_read(
        self, files: Files, tool: Tool, per: str, later: bool
    ) -> None:
        files.write("mark", "tool.post", f'labels.add("seen", per="{per}")\nreturn allow()')
        files(policies=[policy.deny("run_command", when_labels=["seen"])])
        with otelhooks.session("c"):
            with otelhooks.turn("hello"):
                assert tool.run_command("ls") == "ran ls"
                with pytest.raises(Denied):
                    tool.run_command("ls")
            with otelhooks.turn("and now"), nullcontext() if later else pytest.raises(Denied):
                tool.run_command("ls")

    def test_a_script_may_have_a_variable_of_that_name(self, files: Files, tool: Tool) -> None:
        files.write("own", "tool.pre", 'labels = payload["labels"]\nreturn block(str(labels))')
        files()
        with pytest.raises(Denied, match=r"\[\]"):
            tool.run_command("ls")


class TestToolPre:
    def test_a_block_stops_the_call_and_names_the_hook(
        self, files: Files, governed: Any, tool: Tool
    ) -> None:
        files.write("guard", "tool.pre", 'return block("not here")', severity="high", id="g-1")
        files()
        with pytest.raises(Denied) as caught:
            tool.run_command("ls")
        assert caught.value.reason == 'blocked by hook "guard": not here'
        assert caught.value.rule_id == "g-1"
        assert tool.ran == []
        attributes = governed.attributes("execute_tool run_command")
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.POLICY_SEVERITY] == "high"
        assert attributes[semconv.POLICY_RULE_ID] == "g-1"

    def test_when_gates_the_script(self, files: Files, tool: Tool) -> None:
        files.write("guard", "tool.pre", 'return block("x")', when='payload["name"] == "other"')
        files()
        assert tool.run_command("ls") == "ran ls"

    def test_modify_replaces_the_arguments(self, files: Files, tool: Tool) -> None:
        files.write("guard", "tool.pre", 'return modify({"args": {"command": "pwd"}})')
        files()
        assert tool.run_command("ls", flags=1) == "ran pwd"
        assert tool.ran == [{"command": "pwd", "flags": None}]

    def test_what_a_script_leaves_as_it_is_stays_the_very_object(
        self, files: Files, tool: Tool
    ) -> None:
        files.write(
            "guard",
            "tool.pre",
            'args = dict(payload["args"])\nargs["command"] = "pwd"\nreturn modify({"args": args})',
        )
        files()
        given = {1, 2}
        tool.run_command("ls", flags=[b"\xff", given])
        assert tool.ran == [{"command": "pwd", "flags": [b"\xff", given]}]

    def test_a_later_hook_sees_what_an_earlier_one_modified(self, files: Files, tool: Tool) -> None:
        files.write("a", "tool.pre", 'return modify({"args": {"command": "rm"}})', priority=1)
        files.write(
            "b", "tool.pre", 'return block("rm")', when='payload["args"]["command"] == "rm"'
        )
        files()
        with pytest.raises(Denied, match='blocked by hook "b": rm'):
            tool.run_command("ls")

    def test_a_rewrite_cannot_slip_past_an_earlier_gate(self, files: Files, tool: Tool) -> None:
        files.write(
            "a",
            "tool.pre",
            'return block("rm")',
            when='payload["args"]["command"] == "rm"',
            priority=1,
        )
        files.write("b", "tool.pre", 'return modify({"args": {"command": "rm"}})')
        files()
        with pytest.raises(Denied, match='blocked by hook "a": rm'):
            tool.run_command("ls")
        assert tool.ran == []

    def test_rules_judge_what_scripts_made_of_the_arguments(self, files: Files, tool: Tool) -> None:
        files.write("a", "tool.pre", 'return modify({"args": {"command": "rm"}})')
        files(policies=[policy.deny("run_command", when=lambda args: args["command"] == "rm")])
        with pytest.raises(Denied, match="Denied by policy"):
            tool.run_command("ls")

    @pytest.mark.parametrize(
        "body",
        [
            "return None",
            "return True",
            'return "allow"',
            "return {}",
            'return {"action": "perhaps"}',
            'return {"action": "modify", "payload": 1}',
            'return {"action": "block", "reason": "x", "severity": "enormous"}',
            'return {"action": "block", "reason": 1}',
            "return modify(1)",
            'return modify({"args": "text"})',
            'return modify({"name": "other"})',
            'return modify({"args": {}, "arguments": {"command": "x"}})',
            'return modify({"arguments_json": "{"})',
            'return block("x", severity="enormous")',
            "return block(1)",
            'return payload["nothing"]',
            "return 1 // 0",
            'fail("no")',
            "for i in range(1000000):\n    [j for j in range(1000)]\nreturn allow()",
            "return handle(event, payload)",
            'return {"action": "allow", "x": handle}',
            "return allow",
        ],
    )
    def test_whatever_is_not_a_decision_blocks(self, files: Files, tool: Tool, body: str) -> None:
        files.write("guard", "tool.pre", body)
        files()
        with pytest.raises(Denied):
            tool.run_command("ls")
        assert tool.ran == []

    @pytest.mark.parametrize("when", ['payload["nothing"]', "1 // 0", "[payload] + 1", "lambda: 1"])
    def test_a_failing_when_blocks(self, files: Files, tool: Tool, when: str) -> None:
        files.write("guard", "tool.pre", "return allow()", when=when)
        files()
        with pytest.raises(Denied):
            tool.run_command("ls")
        assert tool.ran == []

    @pytest.mark.parametrize("value", [object(), {(1, 2): 3}, {1: 2, "1": 3}, type("X", (), {})()])
    def test_arguments_that_no_script_can_be_given_block(
        self, files: Files, tool: Tool, value: Any
    ) -> None:
        files.write("guard", "tool.pre", "return allow()")
        files()
        with pytest.raises(Denied):
            tool.run_command("ls", flags=value)
        assert tool.ran == []

    def test_the_payload_is_the_published_one(self, files: Files, governed: Any) -> None:
        files.write("guard", "tool.pre", 'cache.set("seen", payload)\nreturn allow()')
        files()
        seen: list[Any] = []

        @otelhooks.tool(server="disk")
        def add(a: int, b: list[int]) -> int:
            seen.append(otelhooks.cache.get("seen"))
            return a

        @otelhooks.agent("ops")
        def ops(message: str) -> int:
            return add(1, [2])

        with otelhooks.session("s-1"):
            ops("hello")
        [payload] = seen
        assert len(payload.pop("trace_id")) == 32
        assert payload == {
            "id": None,
            "name": "add",
            "args": {"a": 1, "b": [2]},
            "arguments": {"a": 1, "b": [2]},
            "arguments_json": '{"a": 1, "b": [2]}',
            "server": "disk",
            "kind": None,
            "canonical": [],
            "session": "s-1",
            "turn": 1,
            "agent": "ops",
            "branch": "ops",
            "labels": [],
            "prompt": "hello",
            "prompts": ["hello"],
            "user": None,
        }

    def test_keys_that_a_script_adds_are_shown_to_those_after_it(
        self, files: Files, tool: Tool
    ) -> None:
        files.write("a", "tool.pre", 'return modify({"note": "n"})', priority=1)
        files.write("b", "tool.pre", 'return block(payload["note"])')
        files()
        with pytest.raises(Denied, match='blocked by hook "b": n'):
            tool.run_command("ls")

    def test_asynchronous_tools_are_governed_alike(self, files: Files) -> None:
        files.write("guard", "tool.pre", 'return block("no")')
        files()

        @otelhooks.tool
        async def work() -> None:
            raise AssertionError

        with pytest.raises(Denied, match="no"):
            asyncio.run(work())


class TestToolPost:
    def test_a_block_withholds_the_result(self, files: Files, governed: Any, tool: Tool) -> None:
        files.write("guard", "tool.post", 'return block("secret")')
        files()
        assert tool.run_command("ls") == 'blocked by hook "guard": secret'
        assert governed.attributes("execute_tool run_command")[semconv.WITHHELD] is True

    def test_modify_rewrites_it(self, files: Files, tool: Tool) -> None:
        files.write(
            "guard",
            "tool.post",
            'return modify({"content": payload["content"].replace("ls", "[cut]")})',
        )
        files()
        assert tool.run_command("ls") == "ran [cut]"

    def test_a_failure_withholds_it(self, files: Files, tool: Tool) -> None:
        files.write("guard", "tool.post", "return 1")
        files()
        assert "ran ls" not in str(tool.run_command("ls"))

    def test_structured_results_keep_what_is_not_touched(self, files: Files) -> None:
        files.write(
            "guard",
            "tool.post",
            'r = dict(payload["result"])\nr["key"] = "[cut]"\nreturn modify({"result": r})',
        )
        files()

        class Account(pydantic.BaseModel):
            key: str
            raw: bytes

        @otelhooks.tool
        def account() -> Account:
            return Account(key="k", raw=b"\xff")

        assert account() == Account(key="[cut]", raw=b"\xff")

    def test_a_result_that_no_script_can_be_given_is_shown_as_text(self, files: Files) -> None:
        files.write(
            "guard",
            "tool.post",
            'return block("seen") if "frame" in payload["content"] else allow()',
        )
        files()

        class Frame:
            def __str__(self) -> str:
                return "a frame"

        @otelhooks.tool
        def frame() -> Any:
            return Frame()

        assert frame() == 'blocked by hook "guard": seen'

    def test_a_failed_tool_is_shown_as_an_error(self, files: Files) -> None:
        files.write(
            "guard",
            "tool.post",
            'if payload["is_error"]:\n    cache.set("error", payload["content"])\nreturn allow()',
        )
        files()

        @otelhooks.agent("ops")
        def ops(message: str) -> Any:
            with pytest.raises(ValueError, match="went wrong"):
                broken()
            return otelhooks.cache.get("error")

        assert ops("hi") == "went wrong"


class TestTurns:
    def test_turn_start_refuses(self, files: Files) -> None:
        files.write("guard", "turn.start", 'return block("empty")', when='payload["prompt"] == ""')
        files()
        assert echo("hi") == "hi"
        with pytest.raises(Denied, match='blocked by hook "guard": empty'):
            echo("")

    def test_turn_start_rewrites_the_prompt(self, files: Files) -> None:
        files.write("stamp", "turn.start", 'return modify({"prompt": payload["prompt"] + "!"})')
        files()
        assert echo("hi") == "hi!"

    def test_turn_end_withholds_and_rewrites(self, files: Files) -> None:
        files.write("guard", "turn.end", 'return block("x")', when='"secret" in payload["text"]')
        files.write("stamp", "turn.end", 'return modify({"text": payload["text"].upper()})')
        files()
        assert echo("hi") == "HI"
        assert echo("secret") == 'blocked by hook "guard": x'

    def test_logs_of_the_turn_are_in_its_end(self, files: Files, governed: Any, tool: Tool) -> None:
        files.write("audit", "tool.pre", 'log.warn("called", tool=payload["name"])\nreturn allow()')
        files.write("end", "turn.end", 'return modify({"text": json.encode(payload["logs"])})')
        files()

        @otelhooks.agent("ops")
        def ops(message: str) -> str:
            return tool.run_command("ls")

        expected = (
            '[{"hook":"audit","level":"warn","message":"called","fields":{"tool":"run_command"}}]'
        )
        assert ops("hi") == expected
        assert ops("hi") == expected  # of this turn alone
        [first, _] = [r for r in governed.records if r.event_name == semconv.EVENT_HOOK_LOG]
        assert first.body == {"message": "called", "fields": {"tool": "run_command"}}
        assert first.attributes[semconv.HOOK_NAME] == "audit"

    def test_a_sub_agents_answer_does_not_end_a_turn(self, files: Files) -> None:
        files.write("end", "turn.end", 'return modify({"text": payload["text"] + "."})')
        files()

        @otelhooks.agent("inner")
        def inner(message: str) -> str:
            return message

        @otelhooks.agent("outer")
        def outer(message: str) -> str:
            return inner(message)

        assert outer("hi") == "hi."


class TestSessions:
    def test_a_block_at_the_start_refuses_the_turns_that_follow(self, files: Files) -> None:
        files.write(
            "guard", "session.start", 'return block("closed")', when='payload["session"] == "bad"'
        )
        files()
        with otelhooks.session("good"):
            assert echo("hi") == "hi"
        with otelhooks.session("bad"):
            for _ in range(2):
                with pytest.raises(Denied, match='blocked by hook "guard": closed'):
                    echo("hi")

    def test_a_failure_at_the_start_refuses_them_too(self, files: Files) -> None:
        files.write("guard", "session.start", "return 1")
        files()
        with pytest.raises(Denied):
            echo("hi")

    def test_the_end_runs_and_cannot_block(self, files: Files, governed: Any) -> None:
        files.write("end", "session.end", 'metrics.incr("sessions.ended")\nreturn block("x")')
        files()
        with otelhooks.session("s"):
            assert echo("hi") == "hi"
        assert governed.total("sessions.ended") == 1


class TestCompletions:
    def test_pre_refuses(self, files: Files) -> None:
        files.write(
            "guard", "completion.pre", 'return block("long")', when='payload["model"] == "m"'
        )
        files()
        with pytest.raises(Denied, match='blocked by hook "guard": long'):
            never_asked([{"role": "user", "content": "hi"}])

    def test_pre_rewrites_messages_and_leaves_the_others_as_they_are(self, files: Files) -> None:
        files.write(
            "cap",
            "completion.pre",
            'return modify({"messages": payload["messages"][-1:]})',
        )
        files()
        seen: list[Any] = []

        class Message(pydantic.BaseModel):
            role: str
            content: str

        @otelhooks.model_call(model="m")
        def ask(messages: list[Any]) -> str:
            seen.extend(messages)
            return "ok"

        last = Message(role="user", content="b")
        ask([Message(role="user", content="a"), last])
        assert seen == [last]
        assert seen[0] is last

    def test_post_rewrites_and_withholds(self, files: Files) -> None:
        files.write("cut", "completion.post", 'return modify({"content": payload["content"][:2]})')
        files()
        assert ask([]) == "ab"

    def test_tools_without_a_plain_form_are_shown_by_name(self, files: Files) -> None:
        files.write(
            "guard",
            "completion.pre",
            'return block("x") if payload["tools"][0]["name"] == "shell" else allow()',
        )
        files()

        class Definition:
            name = "shell"

            def run(self) -> None: ...

        @otelhooks.model_call(model="m")
        def ask(messages: list[Any], tools: list[Any]) -> str:
            raise AssertionError

        with pytest.raises(Denied):
            ask([], [Definition()])


class TestDelegation:
    def test_a_tool_call_that_starts_an_agent_is_a_delegation(self, files: Files) -> None:
        files.write("guard", "delegation.pre", 'return block(payload["task"] + payload["agent"])')
        files()

        @otelhooks.tool
        def invoke_subagent(agent: str, task: str) -> str:
            raise AssertionError

        with pytest.raises(Denied, match='blocked by hook "guard": digresearcher'):
            invoke_subagent("researcher", "dig")

    def test_other_tools_are_none(self, files: Files, tool: Tool) -> None:
        files.write("guard", "delegation.pre", 'return block("x")')
        files.write("after", "delegation.post", 'return block("x")')
        files()
        assert tool.run_command("ls") == "ran ls"

    def test_the_task_can_be_rewritten_and_the_answer_withheld(self, files: Files) -> None:
        files.write("a", "delegation.pre", 'return modify({"task": payload["task"] + "!"})')
        files.write(
            "b",
            "delegation.post",
            'return block("no") if "bad" in payload["content"] else allow()',
        )
        files()

        @otelhooks.tool
        def invoke_subagent(agent: str, task: str) -> str:
            return task

        assert invoke_subagent("r", "dig") == "dig!"
        assert invoke_subagent("r", "bad") == 'blocked by hook "b": no'

    def test_an_agent_below_a_tool_is_judged_as_a_delegation(self, files: Files) -> None:
        files.write("guard", "delegation.pre", 'return block(payload["agent"])')
        files()

        def never(message: str) -> str:
            raise AssertionError

        outer = delegating(never)
        with pytest.raises(Denied, match='blocked by hook "guard": researcher'):
            outer("dig")

    def test_an_answer_that_is_not_verified_is_withheld(self, files: Files) -> None:
        files.write("verify", "delegation.post_verify", 'return block("no source")')
        files()
        outer = delegating(lambda message: "42")
        assert outer("dig") == 'blocked by hook "verify": no source'


class TestStop:
    def test_modify_rewrites_the_answer(self, files: Files) -> None:
        files.write("end", "agent.stop", 'return modify({"text": payload["text"] + "."})')
        files()
        assert echo("hi") == "hi."

    def test_a_failure_lets_the_agent_stop(self, files: Files) -> None:
        files.write("end", "agent.stop", "return 1")
        files()
        assert echo("hi") == "hi"


class TestErrors:
    def test_the_text_of_a_failure_can_be_replaced(self, files: Files) -> None:
        files.write("hide", "error", 'return block("the tool failed")')
        files()
        with pytest.raises(Exception, match='blocked by hook "hide": the tool failed'):
            broken()

    def test_allow_passes_it_on(self, files: Files, governed: Any) -> None:
        files.write(
            "count", "error", 'metrics.incr("errors", kind=payload["error"])\nreturn allow()'
        )
        files()
        with pytest.raises(ValueError, match="went wrong"):
            broken()
        assert governed.total("errors", kind="ValueError") == 1


class TestPolicies:
    def test_a_folder_in_policies_governs(self, files: Files, governed: Any, tool: Tool) -> None:
        files.write(
            "guard", "tool.pre", 'return block("no")', when='"rm" in payload["args"]["command"]'
        )
        governed(policies=[files.folder])
        assert tool.run_command("ls") == "ran ls"
        with pytest.raises(Denied, match='blocked by hook "guard": no'):
            tool.run_command("rm x")

    def test_rules_and_hooks_of_one_folder_hold_together(
        self, files: Files, governed: Any, tool: Tool
    ) -> None:
        files.write("stamp", "tool.pre", 'return modify({"args": {"command": "rm"}})')
        (files.folder / "rules.yaml").write_text(
            "policies:\n  - deny: run_command\n    when: args['command'] == 'rm'\n"
        )
        governed(policies=[files.folder])
        with pytest.raises(Denied, match="Denied by policy 'run_command'"):
            tool.run_command("ls")

    def test_settings_reach_the_scripts(self, files: Files, governed: Any, tool: Tool) -> None:
        files.write(
            "ask",
            "tool.pre",
            'return block(call_tool("run_command", {"command": "id"}))',
            when='payload["name"] == "other"',
        )
        governed(policies=[files.folder], hook_tools=["run_command"])
        with pytest.raises(Denied, match="ran id"):
            other()


class TestTogether:
    def test_file_hooks_and_hooks_in_code_share_one_order(self, files: Files, tool: Tool) -> None:
        files.write("last", "tool.pre", 'return block("file")', priority=200)

        @hooks.pre_tool_call_decide(priority=100)
        def first(call: types.ToolCall) -> types.HookResult:
            return types.HookResult(allow=False, message="code")

        files(hooks=[first])
        with pytest.raises(Denied, match=r"^code$"):
            tool.run_command("ls")

    def test_a_script_that_waits_does_not_hold_up_the_event_loop(self, files: Files) -> None:
        files.write("slow", "tool.pre", 'http.get("http://localhost:1/")\nreturn allow()')
        loaded_blocking = load([files.folder], http_allow=["localhost:1"]).hooks
        assert [hook.blocking for hook in loaded_blocking] == [True]

    def test_spans_carry_what_a_script_writes(
        self, files: Files, governed: Any, tool: Tool
    ) -> None:
        files.write(
            "note",
            "tool.pre",
            'span.set("app.kind", payload["name"])\n'
            'span.event("app.seen", {"n": 1})\nreturn allow()',
        )
        files()
        tool.run_command("ls")
        assert governed.attributes("execute_tool run_command")["app.kind"] == "run_command"
        [event] = governed.span("execute_tool run_command").events
        assert (event.name, dict(event.attributes or {})) == ("app.seen", {"n": 1})

    def test_a_script_cannot_write_over_a_verdict(self, files: Files, tool: Tool) -> None:
        files.write(
            "liar", "tool.pre", f'span.set("{semconv.POLICY_DECISION}", "allow")\nreturn allow()'
        )
        files()
        with pytest.raises(Denied):
            tool.run_command("ls")


class TestCustomEvents:
    def test_hooks_answer_the_emitter(self, files: Files) -> None:
        files.write(
            "guard", "custom.deploy", 'return block("frozen")', when='payload["env"] == "p"'
        )
        files.write("stamp", "custom.deploy", 'return modify({"by": "hook"})')
        files.write("all", "custom.*", 'metrics.incr("seen", event=event)\nreturn allow()')
        files()
        assert otelhooks.emit("custom.deploy", {"env": "q"}) == (
            "modify",
            {"env": "q", "by": "hook"},
            "",
        )
        action, payload, reason = otelhooks.emit("custom.deploy", {"env": "p"})
        assert (action, payload["env"]) == ("block", "p")
        assert reason == 'blocked by hook "guard": frozen'
        assert otelhooks.emit("custom.other", {"env": "p"}) == ("allow", {"env": "p"}, "")

    def test_a_failure_blocks(self, files: Files) -> None:
        files.write("guard", "custom.deploy", "return 1")
        files()
        action, _, reason = otelhooks.emit("custom.deploy")
        assert (action, reason) == ("block", 'blocked by hook "guard": the hook failed')


class TestRecords:
    def test_a_verdict_names_file_and_version(
        self, files: Files, governed: Any, tool: Tool
    ) -> None:
        files.write("guard", "tool.pre", 'return block("no")')
        files()
        with pytest.raises(Denied) as caught:
            tool.run_command("ls")
        assert caught.value.policy_id == "guard"
        attributes = governed.attributes("execute_tool run_command")
        assert attributes[semconv.POLICY_ID] == "guard"
        assert attributes[semconv.POLICY_RULE_ID] == "guard"
        assert len(attributes[semconv.POLICY_VERSION]) == 12

    def test_of_a_failure_the_model_is_told_no_more_than_that(
        self, files: Files, governed: Any, tool: Tool
    ) -> None:
        files.write("guard", "tool.pre", 'return payload["secret"]')
        files()
        with pytest.raises(Denied, match=r'^blocked by hook "guard": the hook failed$'):
            tool.run_command("ls")
        attributes = governed.attributes("execute_tool run_command")
        assert attributes[semconv.ERROR_TYPE] == "policy_error"

    def test_a_file_in_monitor_mode_is_recorded_and_not_enforced(
        self, files: Files, governed: Any, tool: Tool
    ) -> None:
        files.write("guard", "tool.pre", 'return block("no")', mode="monitor")
        files.write("after", "tool.post", 'return block("no")', mode="monitor")
        files()
        assert tool.run_command("ls") == "ran ls"
        attributes = governed.attributes("execute_tool run_command")
        assert attributes[semconv.POLICY_ENFORCEMENT] == "observed"
        assert attributes[semconv.POLICY_DECISION] == "deny"

    def test_a_file_that_says_enforce_blocks_in_a_process_in_monitor_mode(
        self, files: Files, tool: Tool
    ) -> None:
        files.write("guard", "tool.pre", 'return block("no")', mode="enforce")
        files(mode="monitor")
        with pytest.raises(Denied, match="no"):
            tool.run_command("ls")

    def test_a_file_in_monitor_mode_does_not_switch_off_the_others(
        self, files: Files, tool: Tool
    ) -> None:
        files.write("a", "tool.pre", 'return block("a")', mode="monitor", priority=1)
        files.write("b", "tool.pre", 'return block("b")')
        files()
        with pytest.raises(Denied, match="b"):
            tool.run_command("ls")


class TestSentOn:
    def test_an_agent_is_sent_on_with_the_reason(self, files: Files) -> None:
        files.write(
            "more", "agent.stop", 'return block("go on")', when='"done" not in payload["text"]'
        )
        files()
        said: list[str] = []

        @otelhooks.agent("ops")
        def ops(message: str) -> str:
            said.append(message)
            return "done" if len(said) == 2 else "not yet"

        assert ops("hi") == "done"
        assert said == ["hi", 'blocked by hook "more": go on']

    def test_it_is_sent_on_twice_at_most(self, files: Files) -> None:
        files.write("more", "agent.stop", 'return block("go on")')
        files()
        said: list[str] = []

        @otelhooks.agent("ops")
        def ops(message: str) -> str:
            said.append(message)
            return "no"

        assert ops("hi") == "no"
        assert len(said) == 3

    def test_a_delegate_is_asked_again_twice_and_then_withheld(self, files: Files) -> None:
        files.write(
            "verify",
            "delegation.post_verify",
            'return allow() if payload["content"] == "good" else block("bad")',
        )
        files()
        answers = iter(["bad", "good", "bad", "bad", "bad"])
        asked: list[str] = []

        def researcher(message: str) -> str:
            asked.append(message)
            return next(answers)

        outer = delegating(researcher)
        assert outer("dig") == "good"
        assert asked == ["dig", 'blocked by hook "verify": bad']
        assert outer("dig") == 'blocked by hook "verify": bad'
        assert len(asked) == 5


class TestCallTool:
    def test_a_named_tool_runs_through_the_pipeline(
        self, files: Files, governed: Any, tool: Tool
    ) -> None:
        files.write(
            "ask",
            "tool.pre",
            'return block(call_tool("run_command", {"command": "id"}))',
            when='payload["name"] == "other"',
        )
        files(hook_tools=["run_command"])
        with pytest.raises(Denied, match="ran id"):
            other()
        assert governed.span("execute_tool run_command")

    @pytest.mark.parametrize("allowed", [[], ["another"]])
    def test_any_other_tool_is_refused(self, files: Files, tool: Tool, allowed: list[str]) -> None:
        files.write("ask", "tool.pre", 'call_tool("run_command", {})\nreturn allow()')
        files(hook_tools=allowed)
        with pytest.raises(Denied):
            tool.run_command("ls")
        assert tool.ran == []

    def test_a_tool_that_a_hook_calls_cannot_make_it_call_tools(
        self, files: Files, tool: Tool
    ) -> None:
        files.write("ask", "tool.pre", 'call_tool("run_command", {})\nreturn allow()')
        files(hook_tools=["run_command"])
        with pytest.raises(Denied):
            tool.run_command("ls")
        assert tool.ran == []

    def test_a_tool_that_policy_refuses_is_not_run(self, files: Files, tool: Tool) -> None:
        files.write(
            "ask",
            "tool.pre",
            'call_tool("run_command", {})\nreturn allow()',
            when='payload["name"] == "other"',
        )
        files(hook_tools=["run_command"], policies=[policy.deny("run_command")])
        with pytest.raises(Denied):
            other()
        assert tool.ran == []


class TestWhatIsLeft:
    """Decisions at points whose common ways are tested above."""

    def test_prompts_that_are_not_text_are_shown_plain(self, files: Files) -> None:
        files.write("a", "turn.start", 'return block(json.encode(payload["prompt"]))')
        files()

        @otelhooks.agent("ops")
        def ops(message: Any) -> Any:
            raise AssertionError

        with pytest.raises(Denied, match=r'\["a",{"b":"c"}\]'):
            ops(["a", {"b": b"c"}])

    def test_messages_that_cannot_be_shown_block(self, files: Files) -> None:
        files.write("a", "completion.pre", "return allow()")
        files()
        with pytest.raises(Denied):
            never_asked([lambda: 1])

    @pytest.mark.parametrize(
        ("event", "change"),
        [
            ("completion.pre", '{"messages": "text"}'),
            ("completion.pre", '{"model": "other"}'),
            ("completion.post", '{"content": 1}'),
            ("completion.post", '{"tool_calls": 1}'),
            ("completion.post", '{"tool_calls": [{"args": {}}]}'),
        ],
    )
    def test_changes_of_another_form_are_a_failure(
        self, files: Files, event: str, change: str
    ) -> None:
        files.write("a", event, f"return modify({change})")
        files()
        try:
            answer = ask([{"role": "user", "content": "x"}])
        except Denied as denied:
            answer = denied.reason
        assert answer == 'blocked by hook "a": the hook failed'

    def test_tools_and_calls_of_a_model_can_be_changed(self, files: Files) -> None:
        files.write("a", "completion.pre", 'return modify({"tools": payload["tools"][1:]})')
        files.write(
            "b", "completion.post", 'return modify({"tool_calls": payload["tool_calls"][:1]})'
        )
        files()
        seen: list[Any] = []

        @otelhooks.model_call(model="m")
        def ask(messages: list[Any], tools: list[Any]) -> types.ModelResponse:
            seen.extend(tools)
            calls = [types.ToolCall(name=name, args={"x": 1}, id=name) for name in ("t", "u")]
            return types.ModelResponse(text="x", tool_calls=calls, usage=types.Usage())

        answer = ask([], [{"name": "t"}, {"name": "u"}])
        assert seen == [{"name": "u"}]
        assert [call.name for call in answer.tool_calls] == ["t"]

    def test_a_model_answer_can_be_withheld(self, files: Files) -> None:
        files.write("b", "completion.post", 'return block("no")')
        files()
        assert ask([]) == 'blocked by hook "b": no'

    def test_arguments_go_by_their_other_names_too(self, files: Files, tool: Tool) -> None:
        files.write(
            "a",
            "tool.pre",
            'return modify({"arguments_json": payload["arguments_json"].replace("ls", "id")})',
        )
        files()
        assert tool.run_command("ls") == "ran id"

    def test_the_error_of_a_tool_can_be_rewritten(self, files: Files) -> None:
        files.write("a", "tool.post", 'return modify({"content": "hidden"})')
        files()
        with pytest.raises(Exception, match="hidden"):
            broken()

    def test_a_task_without_a_name_is_all_arguments(self, files: Files) -> None:
        files.write(
            "a", "delegation.pre", 'return modify({"task": {"q": payload["task"]["q"] + 1}})'
        )
        files.write("b", "delegation.post", 'return modify({"content": payload["content"] + "."})')
        files()

        @otelhooks.tool
        def invoke_subagent(q: int) -> str:
            return str(q)

        assert invoke_subagent(1) == "2."

    def test_a_task_that_no_script_can_be_given_blocks(self, files: Files) -> None:
        files.write("a", "delegation.pre", "return allow()")
        files()

        @otelhooks.tool
        def invoke_subagent(task: Any) -> str:
            raise AssertionError

        with pytest.raises(Denied):
            invoke_subagent(object())

    def test_a_verification_that_fails_withholds(self, files: Files) -> None:
        files.write("verify", "delegation.post_verify", "return 1")
        files()
        outer = delegating(lambda message: "42")
        assert outer("dig") == 'blocked by hook "verify": the hook failed'

    def test_a_ready_answer_needs_no_verification(self, files: Files) -> None:
        files.write("verify", "delegation.post_verify", 'return block("x")')
        files.write("end", "agent.stop", 'return modify({"text": "y"})')

        @hooks.pre_agent
        def ready(call: types.AgentCall) -> types.HookResult:
            return types.HookResult(response="ready" if call.agent == "researcher" else None)

        files(hooks=[ready])

        @otelhooks.agent("researcher")
        def researcher(message: str) -> str:
            raise AssertionError

        @otelhooks.tool
        def research(question: str) -> str:
            assert researcher(question) == "ready"
            return "ready"

        @otelhooks.agent("outer")
        def outer(message: str) -> str:
            return research(message)

        assert outer("dig") == "y"

    def test_the_text_of_a_failure_can_be_modified(self, files: Files) -> None:
        files.write("a", "error", 'return modify({"message": payload["name"] + " failed"})')
        files()
        with pytest.raises(Exception, match="broken failed"):
            broken()

    def test_a_runner_by_hand_runs_them_too(self, files: Files) -> None:
        files.write("a", "tool.post", 'return modify({"content": payload["content"].upper()})')
        files.write("b", "tool.pre", 'return block("no")')
        runner = hooks.HookRunner(load([files.folder]).hooks)
        turn = hooks.TurnContext(runner.session_context)

        async def work() -> tuple[Any, Any]:
            result, _, context = await runner.dispatch_pre_tool_call(turn, types.ToolCall(name="t"))
            return result, await runner.dispatch_post_tool_call(context, "plain")

        result, after = asyncio.run(work())
        assert result.message == 'blocked by hook "b": no'
        assert getattr(after, "result", after) == "PLAIN"
