"""Policy cases as data: rules, call, verdict, deciding rule, failed rules.

Each case runs twice: with rules from the builders, and with the same rules from a YAML file.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import yaml

from otelhooks import policy, types
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy.files.rules import read_rules
from otelhooks.policy.files.source import Source

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
        for suite in yaml.safe_load(path.read_text()):
            for number, case in enumerate(suite["cases"]):
                name = f"{path.stem}: {suite['suite']}: {number}"
                found.append(pytest.param(suite, case, id=name))
    return found


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a rule with an id: its decision and tool where the case gives none."""
    verb = next(word for word in BUILDERS if word in entry)
    return {"id": f"{verb} {entry[verb]}", **entry}


def _rule(entry: dict[str, Any], failed: list[str]) -> policy.Policy:
    entry = dict(entry)
    verb = next(word for word in BUILDERS if word in entry)
    tool = entry.pop(verb)
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


def _built(suite: dict[str, Any], entries: list[dict[str, Any]], failed: list[str]) -> Any:
    return {
        "rules": [_rule(entry, failed) for entry in entries],
        "mode": suite.get("mode", "enforce"),
        "default": suite.get("default", "allow"),
    }


def _loaded(suite: dict[str, Any], entries: list[dict[str, Any]]) -> Any:
    top = {key: suite[key] for key in ("mode", "default") if key in suite}
    text = json.dumps({**top, "policies": entries})  # which is YAML as well
    (file,) = read_rules([Source("case.yaml", text, "case", "")])
    return {
        "rules": file.rules,
        "mode": file.mode or "enforce",
        "default": file.default or "allow",
    }


@pytest.mark.parametrize("written", ["Python", "YAML"])
@pytest.mark.parametrize(("suite", "case"), _cases())
def test_case(suite: dict[str, Any], case: dict[str, Any], written: str) -> None:
    """The call of the case gets its verdict, from the rule it names."""
    failed: list[str] = []
    entries = [_entry(entry) for entry in suite["rules"]]
    given = _built(suite, entries, failed) if written == "Python" else _loaded(suite, entries)
    servers = [types.McpStdioServer(command="x", **server) for server in suite.get("servers", ())]
    rules = policy.PolicySet(given.pop("rules"), mcp_servers=servers, channel=True, **given)
    fields = {CALL.get(key, key): value for key, value in case["call"].items()}
    fields["canonical"] = tuple(fields.get("canonical", ()))
    call = Call(fields.pop("tool"), fields.pop("args", {}), **fields)

    ruling = drive(rules.evaluate(call))

    assert ruling.decision == case["verdict"]
    assert (ruling.rule.id if ruling.rule else None) == case.get("rule")
    if written == "Python":
        assert failed == case.get("failed", [])
    has_failed = bool(case.get("failed"))
    assert (ruling.error is not None) == (ruling.decision == "deny" and has_failed)
    observed = [f"{decision} {rule.id}" for decision, rule in ruling.observed]
    assert observed == case.get("observed", [])
    if "message" in case and (written == "Python" or not has_failed):
        assert ruling.message == case["message"]
    if ruling.decision == "allow":
        assert ruling.message == ""


def test_there_are_at_least_eighty_cases() -> None:
    assert len(_cases()) >= 80
