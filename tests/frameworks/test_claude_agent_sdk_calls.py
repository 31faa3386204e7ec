"""Claude Agent SDK: calls of each kind, and attempts to get round a deny, with the real CLI."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk as sdk

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import SeatError
from otelhooks.frameworks.claude_agent_sdk.scripted import ScriptedClaude
from tests.frameworks.claude_world import answer, converse, model_of, of_server, own, served, start
from tests.frameworks.contract import ANSWER, DANGER, REASON, SAFE, SECRET, World

pytestmark = pytest.mark.timeout(120)

Instrument = Callable[..., Any]


def bash(command: str) -> Any:
    """Return the step that runs a command."""
    return (("Bash", {"command": command, "description": "Run."}),)


def play(world: World, **settings: Any) -> str:
    """Run a query with the world's tools and script."""

    async def run() -> str:
        def next_step(shown: list[str]) -> Any:
            return of_server(world.next("\n".join(shown)))

        with served(next_step, mcp_servers=own(world), **settings) as options:
            return await answer(sdk.query(prompt="please begin", options=options))

    return anyio.run(run)


# -- built-in tools ---------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["Bash", "run_command", "kind:shell"])
def test_a_shell_is_denied_by_name_and_kind(
    with_rules: Instrument, tmp_path: Path, rule: str
) -> None:
    with_rules(policy.deny(rule, reason=REASON))
    answers, shown = converse(bash(f"touch {tmp_path}/ran"), ANSWER)
    assert answers == [ANSWER]
    assert not (tmp_path / "ran").exists()
    assert REASON in shown


def test_a_hook_rewrites_a_command(with_rules: Instrument) -> None:
    @hooks.pre_tool_call_decide
    def other(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"command": "echo another"})

    with_rules(hooks=[other])
    _, shown = converse(bash("echo theirs"), ANSWER)
    assert "another" in shown
    assert "theirs" not in shown.replace('"command": "echo theirs"', "")


def test_the_result_of_a_shell_is_rewritten(with_rules: Instrument) -> None:
    @hooks.post_tool_call_transform
    def redact(result: types.ToolResult) -> Any:
        return "[redacted]" if "4711" in str(result.result) else None

    with_rules(hooks=[redact])
    answers, shown = converse(bash("echo $((4700 + 11))"), ANSWER)
    assert answers == [ANSWER]
    assert "[redacted]" in shown
    assert "4711" not in shown


def test_a_result_that_cannot_be_rewritten_stops_turn_and_conversation(
    with_rules: Instrument, tmp_path: Path
) -> None:
    @hooks.post_tool_call_transform
    def redact(result: types.ToolResult) -> Any:
        return "[redacted]"

    (tmp_path / "secret-name").touch()
    with_rules(hooks=[redact])
    write = (("Write", {"file_path": str(tmp_path / "new"), "content": "x"}),)
    answers, shown = converse(write, prompts=("please begin", "go on"))
    assert answers == ["The turn was stopped, since a tool's result was taken back."] * 2
    assert "created" not in shown


# -- servers ----------------------------------------------------------------------------------


def external(tmp_path: Path, *names: str) -> dict[str, Any]:
    """Return the configuration of a server in a process of its own; it notes what ran."""
    lines = [
        "import json, sys",
        "for line in sys.stdin:",
        "    asked = json.loads(line)",
        "    if 'id' not in asked: continue",
        "    result = {}",
        "    if asked['method'] == 'initialize':",
        "        version = asked['params']['protocolVersion']",
        "        result = {'protocolVersion': version, 'capabilities': {'tools': {}},",
        "                  'serverInfo': {'name': 'files', 'version': '1'}}",
        "    if asked['method'] == 'tools/list':",
        "        result = {'tools': [{'name': n, 'inputSchema': {'type': 'object'}}",
        f"                            for n in {names or ('danger', 'safe')}]}}",
        "    if asked['method'] == 'tools/call':",
        f"        open({str(tmp_path / 'ran')!r}, 'a').write(asked['params']['name'] + ' ')",
        "        result = {'content': [{'type': 'text', 'text': 'number 1 is 4711'}]}",
        "    said = {'jsonrpc': '2.0', 'id': asked['id'], 'result': result}",
        "    print(json.dumps(said), flush=True)",
    ]
    (tmp_path / "server.py").write_text("\n".join(lines))
    return {"command": sys.executable, "args": [str(tmp_path / "server.py")]}


def test_an_external_server_is_judged_by_the_applications_name(
    with_rules: Instrument, tmp_path: Path
) -> None:
    with_rules(policy.deny("disk/danger", reason=REASON))
    steps = (of_server((DANGER,), "disk"), of_server((SAFE,), "disk"), ANSWER)
    answers, shown = converse(*steps, mcp_servers={"disk": external(tmp_path)})
    assert answers == [ANSWER]
    assert (tmp_path / "ran").read_text().split() == ["safe"]
    assert REASON in shown
    assert SECRET in shown


@pytest.mark.parametrize("rule", ["kept/danger", "disk/danger"])
def test_an_external_server_has_the_name_that_mcp_servers_gives_its_command(
    with_rules: Instrument, tmp_path: Path, rule: str
) -> None:
    place = external(tmp_path)
    kept = types.McpStdioServer(name="kept", **place)
    rules = (policy.deny(rule, reason=REASON), policy.allow("kept/safe"), policy.deny_all())
    with_rules(*rules, mcp_servers=[kept])
    steps = (of_server((DANGER,), "disk"), of_server((SAFE,), "disk"), ANSWER)
    _, shown = converse(*steps, mcp_servers={"disk": place})
    assert (tmp_path / "ran").read_text().split() == ["safe"]
    assert REASON in shown


def test_the_result_of_an_external_server_is_rewritten(
    with_rules: Instrument, tmp_path: Path
) -> None:
    @hooks.post_tool_call_transform
    def redact(result: types.ToolResult) -> Any:
        return "[redacted]" if SECRET in str(result.result) else None

    with_rules(hooks=[redact])
    steps = (of_server((SAFE,), "disk"), ANSWER)
    _, shown = converse(*steps, mcp_servers={"disk": external(tmp_path)})
    assert "[redacted]" in shown
    assert SECRET not in shown


def test_a_projects_server_is_not_trusted_by_the_name_that_it_takes(
    with_rules: Instrument, tmp_path: Path
) -> None:
    """An allow rule for a server holds for the one that the application configured."""
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"disk": external(tmp_path)}}))
    with_rules(policy.deny_all(), policy.allow("disk/safe"))
    steps = (of_server((SAFE,), "disk"), ANSWER)
    converse(*steps, extra_args={"mcp-config": str(tmp_path / "mcp.json")})
    assert not (tmp_path / "ran").exists()


def test_a_tool_with_an_odd_name_is_judged_by_its_own(with_rules: Instrument) -> None:
    ran: list[Any] = []

    @sdk.tool("remove.all now", "Remove.", {"x": int})
    async def remove(args: dict[str, Any]) -> dict[str, Any]:
        ran.append(args)
        return {"content": []}

    servers = {"my files": sdk.create_sdk_mcp_server("inner", tools=[remove])}
    with_rules(policy.deny("my files/remove.all now", reason=REASON))
    asked = (("mcp__my_files__remove_all_now", {"x": 1}),)
    _, shown = converse(asked, ANSWER, mcp_servers=servers)
    assert ran == []
    assert REASON in shown


@pytest.mark.parametrize("name", ["mcp__files__danger", "mcp__files__*", "danger"])
def test_a_servers_tool_is_denied_by_the_name_that_the_model_sees(
    with_rules: Instrument, name: str
) -> None:
    with_rules(policy.deny(name, reason=REASON))
    world = World((DANGER,), ANSWER)
    play(world)
    assert world.bodies == []
    assert REASON in "".join(world.shown)


@pytest.mark.parametrize("server", ["my disk", "my__disk"])
def test_an_external_tool_with_an_odd_name_is_judged_by_its_own(
    with_rules: Instrument, tmp_path: Path, server: str
) -> None:
    """The model, and so the CLI's question, has `_` for each odd character."""
    with_rules(policy.deny(f"{server}/remove.all now", reason=REASON))
    prefix = f"mcp__{server.replace(' ', '_')}__"
    steps = tuple(((f"{prefix}{name}", {"x": 1}),) for name in ("remove_all_now", "read_file"))
    names = ("remove.all now", "read_file")
    _, shown = converse(*steps, ANSWER, mcp_servers={server: external(tmp_path, *names)})
    assert (tmp_path / "ran").read_text().split() == ["read_file"]
    assert REASON in shown


def test_a_tool_whose_name_the_cli_does_not_tell_is_denied(
    with_rules: Instrument, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def status(query: Any) -> dict[str, Any]:
        return {}

    monkeypatch.setattr("claude_agent_sdk._internal.query.Query.get_mcp_status", status)
    with_rules(policy.deny("disk/remove.all", reason=REASON))
    asked = (("mcp__disk__remove_all", {"x": 1}),)
    converse(asked, ANSWER, mcp_servers={"disk": external(tmp_path, "remove.all")})
    assert not (tmp_path / "ran").exists()


# -- ways round -------------------------------------------------------------------------------


def test_a_hook_of_the_applications_cannot_change_what_was_judged(with_rules: Instrument) -> None:
    async def change(given: Any, id: Any, context: Any) -> Any:
        said = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
        return {"hookSpecificOutput": {**said, "updatedInput": {"x": 666}}}

    world = World((SAFE,), ANSWER)
    with_rules(policy.deny("files/safe", when=lambda args: args["x"] == 666, reason=REASON))
    matchers: Any = {"PreToolUse": [sdk.HookMatcher(matcher="mcp__files__.*", hooks=[change])]}
    assert play(world, hooks=matchers) == ANSWER
    assert world.ran == []
    assert REASON in world.told


def test_a_permission_callback_cannot_change_what_was_judged(
    with_rules: Instrument, tmp_path: Path
) -> None:
    async def change(name: str, args: Any, context: Any) -> Any:
        return sdk.PermissionResultAllow(updated_input={**args, "command": f"touch {tmp_path}/ran"})

    rule = policy.deny("Bash", when=lambda args: "ran" in args["command"], reason=REASON)
    with_rules(rule)
    settings = {"can_use_tool": change, "permission_mode": "default"}
    _, shown = converse(bash("mkdir new-folder"), ANSWER, **settings)
    assert not (tmp_path / "ran").exists()
    assert REASON in shown


def test_hooks_of_the_applications_still_deny(with_rules: Instrument) -> None:
    async def refuse(given: Any, id: Any, context: Any) -> Any:
        said = {"permissionDecision": "deny", "permissionDecisionReason": "Theirs."}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}

    world = World((SAFE,), ANSWER)
    with_rules(policy.deny("something_else"))
    assert play(world, hooks={"PreToolUse": [sdk.HookMatcher(hooks=[refuse])]}) == ANSWER
    assert world.ran == []
    assert "Theirs." in world.told


@pytest.mark.parametrize(
    "settings",
    [
        {"extra_args": {"bare": None}},
        {"env": {"CLAUDE_CODE_SIMPLE": "1"}},
        {"settings": json.dumps({"env": {"CLAUDE_CODE_SIMPLE": "1"}})},
    ],
)
def test_a_cli_without_hooks_is_refused(with_rules: Instrument, settings: dict[str, Any]) -> None:
    with_rules(policy.deny("Bash"))
    with pytest.raises(SeatError, match="without asking"):
        converse(bash("true"), ANSWER, **settings)


def cli_of(options: Any) -> str:
    """Return the path of the CLI that the package carries."""
    transport = importlib.import_module("claude_agent_sdk._internal.transport.subprocess_cli")
    return transport.SubprocessCLITransport(prompt="", options=options)._find_cli()


def test_a_users_setting_that_switches_hooks_off_is_refused(with_rules: Instrument) -> None:
    shown: list[Any] = []

    async def run() -> None:
        with served(lambda seen: shown.append(seen) or ANSWER, setting_sources=["user"]) as options:
            settings = Path(options.env["CLAUDE_CONFIG_DIR"]) / "settings.json"
            settings.write_text(json.dumps({"env": {"CLAUDE_CODE_SIMPLE": "1"}}))
            with pytest.raises(SeatError, match="without asking"):
                await answer(sdk.query(prompt="please begin", options=options))

    with_rules(policy.deny("Bash"))
    anyio.run(run)
    assert shown == []


@pytest.mark.parametrize("is_client", [False, True])
def test_a_wrapper_of_the_cli_that_switches_hooks_off_is_refused(
    with_rules: Instrument, tmp_path: Path, is_client: bool
) -> None:
    """The CLI is ended when it begins its turn, while the model thinks."""

    def next_step(shown: list[str]) -> Any:
        time.sleep(2)
        return bash(f"touch {tmp_path}/ran")

    async def run() -> None:
        with served(next_step) as options:
            cli, options.cli_path = cli_of(options), tmp_path / "claude"
            options.cli_path.write_text(f'#!/bin/sh\nexec {cli} --bare "$@"\n')
            options.cli_path.chmod(0o755)
            if not is_client:
                with pytest.raises(SeatError, match="without asking"):
                    await answer(sdk.query(prompt="please begin", options=options))
                return
            async with sdk.ClaudeSDKClient(options) as client:
                await client.query("please begin")
                with pytest.raises(SeatError, match="without asking"):
                    await answer(client.receive_response())
                await anyio.sleep(3)

    with_rules(policy.deny("Bash"))
    anyio.run(run)
    assert not (tmp_path / "ran").exists()


def test_a_client_that_connected_before_is_refused(with_rules: Instrument) -> None:
    async def run() -> None:
        with served(lambda shown: ANSWER) as options:
            async with sdk.ClaudeSDKClient(options) as client:
                with_rules(policy.deny("Bash"))
                with pytest.raises(SeatError, match="before"):
                    await client.query("please begin")

    anyio.run(run)


def test_a_judge_that_fails_denies(with_rules: Instrument, tmp_path: Path) -> None:
    @hooks.pre_tool_call_decide
    def fail(call: types.ToolCall) -> types.HookResult:
        raise ValueError("the checker is down")

    with_rules(hooks=[fail])
    converse(bash(f"touch {tmp_path}/ran"), ANSWER)
    assert not (tmp_path / "ran").exists()


def test_everything_works_as_before_without_rules(with_rules: Instrument, tmp_path: Path) -> None:
    with_rules()
    answers, _ = converse(bash(f"touch {tmp_path}/ran"), ANSWER)
    assert answers == [ANSWER]
    assert (tmp_path / "ran").exists()
    otelhooks.uninstrument()


def test_an_agent_in_the_background_is_judged(with_rules: Instrument) -> None:
    world = World((DANGER,), (SAFE,), "sub done")
    with_rules(policy.deny("files/danger", reason=REASON))

    async def run() -> None:
        model = model_of(world, start(background=True), ANSWER)
        with served(model, mcp_servers=own(world)) as options:
            await answer(sdk.query(prompt="please begin", options=options))

    anyio.run(run)
    assert world.bodies == ["safe"]
    assert REASON in world.told


# -- turns ------------------------------------------------------------------------------------


def test_a_label_of_one_turn_holds_in_the_next_and_in_a_resumed_conversation(
    with_rules: Instrument,
) -> None:
    world = World((SAFE,), "read", (DANGER,), ANSWER)
    with_rules(
        policy.label("files/safe", adds="untrusted"),
        policy.deny("files/danger", when_labels={"untrusted"}, reason=REASON),
    )

    def next_step(shown: list[str]) -> Any:
        return of_server(world.next("\n".join(shown)))

    async def run() -> None:
        with served(next_step, mcp_servers=own(world)) as options:
            async for message in sdk.query(prompt="read", options=options):
                if isinstance(message, sdk.ResultMessage):
                    options.resume = message.session_id
            await answer(sdk.query(prompt="go on", options=options))

    anyio.run(run)
    assert world.bodies == ["safe"]
    assert REASON in world.told


def test_a_turn_that_used_up_its_budget_is_stopped(with_rules: Instrument) -> None:
    world = World((SAFE,), (SAFE,), ANSWER)
    with_rules(policy.Budget(tokens=1, id="budget"))
    assert "Budget" in play(world)
    assert len(world.shown) <= 2


def test_tokens_that_the_cli_reports_at_the_end_count_for_the_next_turn(
    with_rules: Instrument, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells of an answer's tokens only after the turn; before, of those at its start."""
    events = ScriptedClaude.events

    def longer(model: Any, asked: Any) -> Any:
        for event in events(model, asked):
            late = {"usage": {"output_tokens": 3000}} if event["type"] == "message_delta" else {}
            yield {**event, **late}

    async def run() -> list[str]:
        with served(lambda seen: ANSWER) as options:
            async with sdk.ClaudeSDKClient(options) as client:
                answers: list[str] = []
                for text in ("one", "two"):
                    await client.query(text)
                    answers.append(await answer(client.receive_response()))
                return answers

    monkeypatch.setattr(ScriptedClaude, "events", longer)
    with_rules(policy.Budget(tokens=2000, per="session", id="budget"))
    first, second = anyio.run(run)
    assert first == ANSWER
    assert second.startswith("Budget exceeded")


def test_a_message_sent_while_the_agent_works_is_judged(with_rules: Instrument) -> None:
    @hooks.pre_turn
    def refuse(prompt: Any) -> types.HookResult:
        return types.HookResult(allow="secret" not in str(prompt), message=REASON)

    shown: list[str] = []
    ready = anyio.Event()

    def next_step(seen: list[str]) -> Any:
        shown.append("\n".join(seen))
        return bash("sleep 1") if len(shown) == 1 else ANSWER

    async def run() -> None:
        with served(next_step) as options:
            async with sdk.ClaudeSDKClient(options) as client:
                await client.query("please begin")
                async for message in client.receive_response():
                    if isinstance(message, sdk.AssistantMessage) and not ready.is_set():
                        ready.set()
                        await client.query("the secret is 4711")
                with anyio.move_on_after(3):
                    await answer(client.receive_response())

    with_rules(hooks=[refuse])
    anyio.run(run)
    assert "4711" not in "\n".join(shown)
