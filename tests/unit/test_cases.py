"""Policy cases as data: rules, call, verdict, deciding rule, failed rules."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ruamel.yaml import YAML

from otelhooks import policy, types
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive

CASES = pathlib.Path(__file__).parent.parent / "cases"
BUILDERS = {
    "allow": policy.allow,
    "deny": policy.deny,
    "ask": policy.ask_user,
    "veto": policy.veto,
    "hide": policy.hide,
}
CALL = {"says": "server_says", "claimed": "claimed_server"}


def _cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        for suite in YAML(typ="safe").load(path.read_text()):
            for number, case in enumerate(suite["cases"]):
                name = f"{path.stem}: {suite['suite']}: {number}"
                found.append(pytest.param(suite, case, id=name))
    return found


def _rule(entry: dict[str, Any], ids: str, failed: list[str]) -> policy.Policy:
    """Build a rule; its id is its decision and tool where the case gives none."""
    entry = dict(entry)
    verb = next(word for word in BUILDERS if word in entry)
    tool = entry.pop(verb)
    entry.setdefault("id", tool if ids == "tool" else f"{verb} {tool}")
    if "when" in entry:
        expression, rule_id = compile(entry["when"], "<case>", "eval"), entry["id"]

        def when(args: dict[str, Any]) -> Any:
            try:
                return eval(expression, {"args": args})
            except Exception:
                failed.append(rule_id)
                raise

        entry["when"] = when
    return BUILDERS[verb](tool, **entry)


@pytest.mark.parametrize(("suite", "case"), _cases())
def test_case(suite: dict[str, Any], case: dict[str, Any]) -> None:
    """The call of the case gets its verdict, from the rule it names."""
    failed: list[str] = []
    servers = [types.McpStdioServer(command="x", **server) for server in suite.get("servers", ())]
    rules = policy.PolicySet(
        [_rule(entry, suite.get("ids", ""), failed) for entry in suite["rules"]],
        mcp_servers=servers,
        mode=suite.get("mode", "enforce"),
        default=suite.get("default", "allow"),
        channel=True,
    )
    given = {CALL.get(key, key): value for key, value in case["call"].items()}
    given["canonical"] = tuple(given.get("canonical", ()))
    call = Call(given.pop("tool"), given.pop("args", {}), **given)

    ruling = drive(rules.evaluate(call, asked=case.get("asked", False)))

    assert ruling.decision == case["verdict"]
    assert (ruling.rule.id if ruling.rule else None) == case.get("rule")
    assert failed == case.get("failed", [])
    assert (ruling.error is not None) == (ruling.decision == "deny" and bool(failed))
    observed = [f"{decision} {rule.id}" for decision, rule in ruling.observed]
    assert observed == case.get("observed", [])
    if "message" in case:
        assert ruling.message == case["message"]
    if ruling.decision == "allow":
        assert ruling.message == ""


def test_there_are_at_least_eighty_cases() -> None:
    assert len(_cases()) >= 80
