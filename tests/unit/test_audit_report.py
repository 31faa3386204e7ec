"""`otelhooks audit report`: what a trail holds about a period, also one that was changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import otelhooks
from otelhooks import approvals, hooks, policy, types
from otelhooks.audit import Audit
from otelhooks.cli.audit import audit as command

DAY_NS = 86_400 * 10**9
NOVEMBER_10 = 1_794_268_800 * 10**9  # 2026-11-10 in UTC


def invoke(*args: object) -> Result:
    return CliRunner().invoke(command, ["report", *map(str, args)])


def report(*args: object) -> dict[str, Any]:
    return json.loads(invoke(*args, "--json").stdout)


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """A trail with one verdict on each of five days, from 10 November on, in UTC."""
    now = [NOVEMBER_10 - 1]
    with Audit(tmp_path, clock=lambda: now[0]) as trail:
        for day in range(5):
            now[0] = NOVEMBER_10 + day * DAY_NS
            trail.append({"decision": "allow", "session_id": f"day {day}", "tool_name": "t"})
        now[0] += DAY_NS
    return tmp_path


def test_what_a_run_leaves_in_a_trail(governed: Any, tmp_path: Path) -> None:
    def desk(call: types.ToolCall) -> approvals.Approval:
        return approvals.Approval("approved", approver_type="human", approver_id="u-17")

    def broken(args: dict[str, Any]) -> bool:
        raise ValueError

    @otelhooks.tool
    def act(x: int) -> int:
        return x

    @otelhooks.tool
    def mail() -> None: ...

    @otelhooks.tool
    def fragile() -> None: ...

    rules = [
        policy.deny("act", when=lambda args: args["x"] > 1, id="small"),
        policy.ask_user("mail", id="mail"),
        policy.deny("fragile", when=broken, id="broken"),
    ]
    governed(policies=rules, approvals=desk, audit=tmp_path / "trail")
    for conversation, numbers in (("a", (1, 2)), ("b", (3,))):
        with otelhooks.session(conversation):
            for number in numbers:
                try:
                    act(number)
                except otelhooks.errors.Denied:
                    pass
    mail()
    with pytest.raises(otelhooks.errors.Denied):
        fragile()
    otelhooks.uninstrument()
    found = report(tmp_path / "trail")

    assert found["records"] == 5
    assert found["trail"] == {"errors": 0, "warnings": 0}
    assert found["processes"] == {"began": 1, "ended": 1, "lost": 0}
    assert found["verdicts"] == {"allow, allowed": 1, "deny, blocked": 3, "ask, approved": 1}
    assert found["failures"] == {"policy_error": 1}
    version = found["policies"][0]["version"]
    assert found["rules"][0] == {
        "rule": "small",
        "policy": "code",
        "version": version,
        "decision": "deny",
        "enforcement": "blocked",
        "calls": 2,
    }
    assert {row["rule"] for row in found["rules"]} == {"small", "mail", "broken"}
    assert found["people"] == [{"type": "human", "id": "u-17", "answer": "approved", "calls": 1}]
    uses = {use["conversation"]: use for use in found["uses"]}
    assert {name: (use["verdicts"], use["not_allowed"]) for name, use in uses.items()} == {
        "a": (2, 1),
        "b": (1, 1),
        "": (2, 1),
    }
    assert all(use["start"] <= use["end"] for use in uses.values())


@pytest.mark.parametrize(
    ("mode", "status", "stopped", "failures"),
    [
        ("enforce", "rejected", 1, {}),
        ("enforce", "expired", 1, {"approval_expired": 1}),
        ("enforce", "approved", 0, {}),
        ("monitor", "rejected", 0, {}),
    ],
)
def test_what_people_refuse_is_not_allowed_and_their_no_is_no_failure(
    governed: Any, tmp_path: Path, mode: str, status: Any, stopped: int, failures: dict[str, int]
) -> None:
    @otelhooks.tool
    def mail() -> None: ...

    def desk(call: types.ToolCall) -> approvals.Approval:
        return approvals.Approval(status, approver_type="human", approver_id="u-17")

    rules = [policy.ask_user("mail")]
    governed(policies=rules, approvals=desk, audit=tmp_path / "trail", mode=mode)
    try:
        mail()
    except otelhooks.errors.Denied:
        pass
    otelhooks.uninstrument()
    found = report(tmp_path / "trail")
    shown = CliRunner().invoke(command, ["show", str(tmp_path / "trail"), "--denied"]).stdout

    assert [use["not_allowed"] for use in found["uses"]] == [stopped]
    assert found["failures"] == failures
    assert len(shown.splitlines()) == stopped


def test_a_deny_that_is_only_observed_is_not_counted(governed: Any, tmp_path: Path) -> None:
    @otelhooks.tool
    def mail() -> None: ...

    governed(policies=[policy.deny("mail")], audit=tmp_path / "trail", mode="monitor")
    mail()
    otelhooks.uninstrument()

    assert report(tmp_path / "trail")["uses"][0]["not_allowed"] == 0


def test_a_question_that_was_withdrawn_is_not_rejected_by_anyone(tmp_path: Path) -> None:
    asked = {"decision": "ask", "enforcement": "rejected", "approval_status": "withdrawn"}
    with Audit(tmp_path) as trail:
        trail.append(asked)
    found = report(tmp_path)

    assert found["verdicts"] == {"ask, withdrawn": 1}
    assert found["people"] == []
    assert found["uses"][0]["not_allowed"] == 1


def test_a_withheld_result_is_not_a_call_that_did_not_run(governed: Any, tmp_path: Path) -> None:
    hide = hooks.post_tool_call_transform(rule_id="hide")(
        lambda data: types.HookResult(allow=False, message="It holds a key.")
    )

    @otelhooks.tool
    def read() -> str:
        return "key"

    governed(hooks=[hide], audit=tmp_path / "trail")
    assert read() == "It holds a key."
    otelhooks.uninstrument()
    found = report(tmp_path / "trail")

    assert found["verdicts"] == {"allow, allowed": 1, "deny, withheld": 1}
    assert [rule["enforcement"] for rule in found["rules"]] == ["withheld"]
    assert found["uses"][0]["not_allowed"] == 0
    shown = CliRunner().invoke(command, ["show", str(tmp_path / "trail")]).stdout
    assert "Z  deny withheld  read " in shown
    assert not CliRunner().invoke(command, ["show", str(tmp_path / "trail"), "--denied"]).stdout


def test_a_call_whose_record_failed_counts_once_as_refused(tmp_path: Path) -> None:
    with Audit(tmp_path) as trail:
        allow = {"decision": "allow", "enforcement": "allowed", "session_id": "s"}
        trail.append({**allow, "decision_id": "a"})
        trail.append({**allow, "decision_id": "b"})
        trail.append(
            {
                "decision": "deny",
                "enforcement": "blocked",
                "decision_id": "b",
                "policy_id": "audit",
                "rule_id": "record_required",
                "session_id": "s",
            }
        )
    found = report(tmp_path)

    assert found["verdicts"] == {"allow, allowed": 1, "deny, blocked": 1}
    assert (found["uses"][0]["verdicts"], found["uses"][0]["not_allowed"]) == (2, 1)
    assert found["may_lack"] == ""


def test_a_trail_that_may_lack_records_does_not_claim_that_none_is_lost(tmp_path: Path) -> None:
    with Audit(tmp_path) as trail:
        trail.append({"decision": "allow"})
    [segment] = tmp_path.glob("*.jsonl")
    # A disk that was full until the end of the process leaves neither a count nor a closing record.
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:-1]))
    shown = invoke(tmp_path).stdout

    assert "0 records lost, maybe more\n" in shown
    assert "its disk was full to its end" in shown
    assert "the check found not closed" in shown


def test_the_agents_of_a_use_and_the_records_of_scripts(tmp_path: Path) -> None:
    with Audit(tmp_path) as trail:
        for agent in ("ops", "ops", "helper"):
            trail.append({"decision": "allow", "agent_name": agent, "session_id": "s"})
        trail.append({"hook": "audit_tool_pre", "record": {"tool": "t"}})
    found = report(tmp_path)

    assert (found["records"], found["uses"][0]["verdicts"]) == (4, 3)
    assert found["uses"][0]["agents"] == ["ops", "helper"]
    assert "agents ops, helper" in invoke(tmp_path).stdout


def test_a_period_begins_with_its_first_moment_and_ends_before_its_last(days: Path) -> None:
    def of(*period: str) -> list[str]:
        return [use["conversation"] for use in report(days, *period)["uses"]]

    assert of() == [f"day {day}" for day in range(5)]
    assert of("--from", "2026-11-12T00:00:00+00:00") == ["day 2", "day 3", "day 4"]
    assert of("--to", "2026-11-12T00:00:00+00:00") == ["day 0", "day 1"]
    both = ("--from", "2026-11-11T00:00:00+00:00", "--to", "2026-11-12T00:00:00+00:00")
    assert of(*both) == ["day 1"]
    found = report(days, *both)
    assert (found["from"], found["to"]) == (
        "2026-11-11T00:00:00.000000000Z",
        "2026-11-12T00:00:00.000000000Z",
    )
    assert found["processes"] == {"began": 0, "ended": 0, "lost": 0}


def test_a_period_without_records_is_a_report_too(days: Path) -> None:
    result = invoke(days, "--to", "2026-01-01")

    assert result.exit_code == 0
    assert "Records    0, from - to -" in result.stdout
    assert "Verdicts   none" in result.stdout
    assert result.stdout.count("\n  none\n") == 4
    assert "Not in a trail" in result.stdout


def test_a_trail_that_was_changed_is_reported_with_what_is_left(days: Path) -> None:
    [segment] = days.glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"day 1"', b'"day 9"'))
    result = invoke(days)

    assert result.exit_code == 1
    assert "1 errors, 0 warnings" in result.stdout
    assert "Records    4" in result.stdout


def test_several_segments_are_one_process_and_lost_records_are_counted(tmp_path: Path) -> None:
    with Audit(tmp_path, rotate_bytes=1500) as trail:
        for number in range(30):
            trail.append({"decision": "allow", "number": number})
    assert report(tmp_path)["processes"] == {"began": 1, "ended": 1, "lost": 0}

    from otelhooks.audit.period import summary

    assert summary([{"audit": "lost", "count": 3}])["processes"]["lost"] == 3


def test_a_record_does_not_speak_to_the_terminal(tmp_path: Path) -> None:
    with Audit(tmp_path) as trail:
        trail.append({"decision": "deny", "session_id": "\x1b[2Jgone\nforged", "rule_id": "r"})
    out = invoke(tmp_path).stdout

    assert "\x1b" not in out
    assert "\\x1b[2Jgone\\nforged" in out


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--from", "yesterday"), "neither a duration nor a time"),
        (("--from", "2026-11-12", "--to", "2026-11-11"), "is not before"),
        (("--from", "2026-11-12", "--to", "2026-11-12"), "is not before"),
    ],
)
def test_a_period_that_is_not_one_is_bad_input(
    days: Path, args: tuple[str, ...], problem: str
) -> None:
    result = invoke(days, *args)

    assert (result.exit_code, problem in result.stderr) == (2, True)


def test_a_path_without_a_trail_is_bad_input(tmp_path: Path) -> None:
    assert invoke(tmp_path / "nowhere").exit_code == 2
