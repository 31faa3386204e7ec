"""Exceptions are built from facts."""

from __future__ import annotations

from otelhooks import errors


def test_a_policy_file_error_says_where_and_what_to_do() -> None:
    error = errors.PolicyFileError("p.yaml", 12, 7, "unknown decision `alow`", hint="write `allow`")
    assert str(error) == "p.yaml:12:7: unknown decision `alow`\nhint: write `allow`"
    assert (error.path, error.line, error.column) == ("p.yaml", 12, 7)
    assert isinstance(error, ValueError)
    assert isinstance(error, errors.ConfigError)


def test_a_config_error_without_a_hint_is_its_problem() -> None:
    assert str(errors.ConfigError("wrong")) == "wrong"


def test_a_seat_error_names_version_range_and_the_way_out() -> None:
    error = errors.SeatError("langchain", "langchain-core", "9.9", ">=1,<2", "no `BaseTool.run`")
    assert "langchain-core 9.9" in str(error)
    assert ">=1,<2" in str(error)
    assert 'frameworks={"langchain": "off"}' in str(error)
    assert "hint: install a supported version, or" in str(error)
    own = "`read` lacks `/`\nhint: give `read` the parameters of the function"
    said = str(errors.SeatError("shop", "shop-agents", "3.1", ">=3.0,<4", own))
    assert "`read` lacks `/` (supported: >=3.0,<4)\nhint: give `read` the parameters of the" in said
    assert "install" not in said
    loop = str(errors.SeatError("openai", "openai", "2", "none", "x"))
    assert "hint: decorate its calls and tools (see help(otelhooks.tool)), or lift" in loop
    assert "install" not in loop
    assert "(unknown version)" in str(errors.SeatError("f", "d", "", "x", "y"))


def test_a_refusal_carries_what_decided() -> None:
    error = errors.ApprovalTimeout("no", rule_id="r", policy_id="p", decision_id="d")
    assert isinstance(error, errors.Denied)
    assert (str(error), error.reason, error.rule_id) == ("no", "no", "r")
    assert (error.policy_id, error.decision_id) == ("p", "d")
