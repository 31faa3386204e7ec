"""YAML policy files as rules."""

from __future__ import annotations

import os
import pathlib
import textwrap
import time
from typing import Any

import pytest

from otelhooks import policy
from otelhooks.errors import PolicyFileError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy.files import source
from otelhooks.policy.files.rules import RuleFile, read_rules


def _read(text: str) -> RuleFile:
    given = source.Source("f.yaml", textwrap.dedent(text), "f", "123456789abc")
    return read_rules([given])[0]


def _rules(text: str) -> list[policy.Policy]:
    return list(_read("policies:\n" + textwrap.indent(textwrap.dedent(text), "  ")).rules)


def _error(text: str) -> PolicyFileError:
    with pytest.raises(PolicyFileError) as caught:
        _read(text)
    assert caught.value.hint
    return caught.value


def _files(folder: pathlib.Path, **texts: str) -> tuple[source.Source, ...]:
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.with_name(path.name + ".yaml").write_text(textwrap.dedent(text))
    return source.read_all([folder / "main.yaml"])


def _ids(files: tuple[RuleFile, ...]) -> list[str]:
    return [file.source.policy_id for file in files]


@pytest.mark.parametrize("word", ["allow", "deny", "ask_user", "veto"])
@pytest.mark.parametrize("tools", [["a"], ["a", "s/b", "kind:net"]])
def test_python_and_yaml_take_the_same_words_lists_and_conditions(
    word: str, tools: list[str]
) -> None:
    fields = {"when": "args['n'] > 3", "name": "n", "id": "i", "reason": "No."}
    lines = "".join(f"  {key}: {value}\n" for key, value in fields.items())
    built = getattr(policy, word)(tools, **fields)
    assert _rules(f"- {word}: [{', '.join(tools)}]\n{lines}") == built
    assert [rule.tool for rule in built] == tools


def test_each_word_is_what_its_builder_builds() -> None:
    assert _rules("- allow: a\n- deny: b\n- block: c\n- ask: d\n- veto: e\n- hide: f\n") == [
        policy.allow("a"),
        policy.deny("b"),
        policy.deny("c"),
        policy.ask_user("d"),
        policy.veto("e"),
        policy.hide("f"),
    ]


def test_every_option_of_a_rule_is_read() -> None:
    (rule,) = _rules(
        """
        - deny: run_command
          when: '"rm -rf" in args["CommandLine"]'
          when_labels: [untrusted, secret]
          agent: orchestrator/*
          id: no-rm
          name: no removal
          reason: Removing is not allowed here.
          severity: critical
          mode: monitor
        """
    )
    assert rule == policy.deny(
        "run_command",
        when=rule.when,
        when_labels={"secret", "untrusted"},
        agent="orchestrator/*",
        id="no-rm",
        name="no removal",
        reason="Removing is not allowed here.",
        severity="critical",
        mode="monitor",
    )
    assert rule.when is not None
    assert rule.when({"CommandLine": "rm -rf /"}) is True  # pyright: ignore[reportCallIssue]
    assert rule.place == "f.yaml:3:5"


def test_a_reason_of_several_lines_ends_without_a_line_end() -> None:
    (rule,) = _rules("- deny: a\n  reason: |\n    one\n    two\n")
    assert rule.reason == "one\ntwo"


def test_a_list_of_tools_is_a_rule_for_each() -> None:
    assert _rules('- {allow: [view_file, "github/get_*"], id: reads, name: reading}') == [
        policy.allow("view_file", id="reads_view_file", name="reading_view_file"),
        policy.allow("github/get_*", id="reads_github/get_*", name="reading_github/get_*"),
    ]
    assert _rules("- {deny: [a], id: x}") == [policy.deny("a", id="x")]


def test_presets_are_one_word() -> None:
    assert _rules("- safe_defaults\n- deny_all\n- allow_all\n- confirm_run_command\n") == [
        *policy.safe_defaults(None),
        policy.deny_all(),
        policy.allow_all(),
        *policy.confirm_run_command(),
    ]


def test_workspace_only_is_read(tmp_path: pathlib.Path) -> None:
    assert _rules(f"- workspace_only: {tmp_path}\n  tools: {{render: [template, to]}}") == (
        policy.workspace_only([tmp_path], {"render": ["template", "to"]})
    )


def test_limits_budgets_and_labels_are_gates_of_the_file() -> None:
    found = _read(
        """
        policies:
          - limit: {tool_calls: 100, per: session}
            severity: high
          - {limit: {turns: 5}, id: turns, mode: monitor, reason: Enough., name: n}
          - budget: {cost_usd: 0.5, per: day, prices: {"gpt-5*": {input: 1, output: 10.5}}}
          - {label: [web_fetch, "web/*"], adds: untrusted, per: turn}
        """
    )
    assert found.rules == ()
    assert [gate.id for gate in found.gates] == [
        "rate_limit_100_tool_calls_per_session",
        "turns",
        "budget_0.5_USD_per_day",
        "label_web_fetch_untrusted",
    ]
    assert {(gate.policy_id, gate.policy_version) for gate in found.gates} == {
        ("f", "123456789abc")
    }
    assert found.gates[0].severity == "high"


def test_default_and_mode_are_of_the_file() -> None:
    found = _read("version: 1\ndefault: deny\nmode: monitor\npolicies: []\n")
    assert (found.default, found.mode) == ("deny", "monitor")
    found = _read("policies: []\n")
    assert (found.default, found.mode) == (None, None)


@pytest.mark.parametrize(
    ("text", "place", "problem", "hint"),
    [
        ("", (1, 1), "the file is empty", "`policies:`"),
        ("# nothing\n", (1, 1), "the file is empty", "`policies:`"),
        ("version: 1\n", (1, 1), "the file has no rules", "`policies:`"),
        ("- deny: a\n", (1, 1), "a policy file is a list", "keys and values"),
        ("policy: []\n", (1, 1), "unknown key `policy`", "did you mean `policies`?"),
        ("rules: []\n", (1, 1), "unknown key `rules`", "`policies`"),
        ("version: 2\npolicies: []\n", (1, 10), "`version` `2` is not known", "version 1"),
        ('version: "1"\npolicies: []\n', (1, 10), "`version` is text", "a whole number"),
        ("default: dney\n", (1, 10), "unknown `default` `dney`", "did you mean `deny`?"),
        ("default: ask\n", (1, 10), "unknown `default` `ask`", "`allow`, `deny`"),
        ("mode: off\n", (1, 7), "`off` is not the same", "quotes"),
        ("mode: true\n", (1, 7), "`mode` is true or false, not text", "quotes"),
        ("policies:\n", None, "`policies` is empty, not a list", "a list"),
        ("policies: {deny: a}\n", (1, 11), "`policies` is keys and values, not a list", "list"),
        ("policies: [deny]\n", (1, 12), "unknown preset `deny`", "deny_all"),
        ("policies: [safe_default]\n", (1, 12), "unknown preset", "`safe_defaults`"),
        ("policies: [3]\n", (1, 12), "is a number", "keys and values"),
        ("policies: [{}]\n", (1, 12), "does not say what it does", "`deny`"),
        ("policies: [{reason: x}]\n", (1, 12), "does not say what it does", "`deny`"),
        ("policies: [{filter: a, id: b}]\n", (1, 13), "unknown key `filter`", "`deny`"),
        ("policies: [{dney: a}]\n", (1, 13), "unknown key `dney`", "`deny`"),
        ("policies: [{Deny: a}]\n", (1, 13), "unknown key `Deny`", "`deny`"),
        ("policies: [{ask_usr: a}]\n", (1, 13), "unknown key `ask_usr`", "`ask_user`"),
        ("policies: [{deny: a, allow: a}]\n", (1, 22), "`deny` and `allow`", "two entries"),
        ("policies: [{deny: a, whne: b}]\n", (1, 22), "unknown key `whne`", "`when`"),
        ("policies: [{deny: a, handler: b}]\n", (1, 22), "unknown key `handler`", "known"),
        ("policies: [{veto: a, mode: monitor}]\n", (1, 22), "unknown key `mode`", "known"),
        ("policies: [{hide: a, when: 'True'}]\n", (1, 22), "unknown key `when`", "known"),
        ("policies: [{deny: 'a '}]\n", (1, 19), "blanks around it", "name a tool"),
        ("policies: [{deny: ''}]\n", (1, 19), "`deny` is empty", "write text"),
        ("policies: [{deny: []}]\n", (1, 19), "`deny` is an empty list", "what it is about"),
        ("policies: [{deny: 'a['}]\n", (1, 19), "a bracket", "[...]"),
        ("policies: [{deny: '**'}]\n", (1, 19), "`**` is not known", "`*`"),
        ("policies: [{deny: 'kind:files'}]\n", (1, 19), "unknown kind `kind:files`", "file_write"),
        ("policies: [{deny: '/x'}]\n", (1, 19), "a server or a tool is missing", "server/tool"),
        ("policies: [{deny: *}]\n", None, "not YAML", "needs quotes"),
        ("policies: [{deny: 5}]\n", (1, 19), "`deny` is a number", "quotes"),
        ("policies: [{deny: no}]\n", (1, 19), "`no` is not the same", "quotes"),
        ("policies: [{deny: a, severity: hgih}]\n", (1, 32), "unknown `severity`", "`high`"),
        ("policies: [{deny: a, id: ''}]\n", (1, 26), "`id` is empty", "leave the key out"),
        ("policies: [{deny: a, id: 1}]\n", (1, 26), "`id` is a number", "quotes"),
        ('policies: [{deny: a, id: "x\\ny"}]\n', (1, 26), "has a line end", "one line"),
        ("policies: [{deny: a, reason: }]\n", None, "`reason` is empty", "text"),
        ("policies: [{deny: a, agent: '[x'}]\n", (1, 29), "a bracket", "[...]"),
        ("policies: [{deny: a, when: ''}]\n", (1, 29), "empty expression", "args"),
        ("policies: [{deny: a, when: true}]\n", (1, 28), "`when` is true or false", "quotes"),
        ("policies: [{deny: a, when: 'x > 1'}]\n", (1, 29), "`x` not found", ""),
        ("policies: [{deny: a, when: 'x = 1'}]\n", None, "", ""),
        ("policies: [{deny: a, when: 'if x'}]\n", None, "no Starlark", ""),
        ("policies: [{deny: a, when: 'http.get(args)'}]\n", None, "`http` not found", ""),
        ("policies: [{deny: a, when: 'open(args)'}]\n", None, "`open` not found", ""),
        ("policies: [{deny: a, when: '\"a\" * 1000000000 == args'}]\n", None, "constant", ""),
        ("policies: [{deny: a, when_labels: []}]\n", (1, 35), "an empty list", ""),
        ("policies: [{deny: a, when_labels: ['a b']}]\n", (1, 36), "is not a label", "letters"),
        ("policies:\n- label: a\n  adds:\n  - b\n  - a b\n", (5, 5), "is not a label", ""),
        (
            "policies:\n- deny: a\n  when_argument_from:\n    b: c\n    d: [e, f g]\n",
            (5, 12),
            "is not a label",
            "",
        ),
        ("policies: [{label: a}]\n", (1, 12), "`label` has no `adds`", "`adds:`"),
        ("policies: [{label: a, adds: unknown}]\n", (1, 12), "reserved for histories", "another"),
        ("policies: [{limit: 5}]\n", (1, 20), "`limit` is a number", "keys and values"),
        ("policies: [{limit: {}}]\n", (1, 12), "a rate limit of nothing", "`tool_calls`"),
        ("policies: [{limit: {calls: 1}}]\n", (1, 21), "unknown key `calls`", "`tool_calls`"),
        ("policies: [{limit: {turns: 0}}]\n", (1, 28), "`turns` is less than 1", "from 1 up"),
        ("policies: [{limit: {turns: 1.5}}]\n", (1, 28), "is a number", "a whole number"),
        ("policies: [{limit: {turns: 1, per: week}}]\n", (1, 36), "unknown `per`", "`day`"),
        ("policies: [{limit: {turns: 1, on_breach: ask}}]\n", (1, 12), "about a turn", "deny"),
        ("policies: [{budget: {tokens: 1, on_breach: ask}}]\n", (1, 12), "cannot ask", "deny"),
        ("policies: [{repeat: {calls: 1}}]\n", (1, 12), "would deny every call", "2 or more"),
        ("policies: [{repeat: {call: 3}}]\n", (1, 22), "unknown key `call`", "`calls`"),
        (
            "policies: [{budget: {tokens: 1, prices: {a: {input: 1, output: 1}}}}]\n",
            (1, 12),
            "`prices` without `cost_usd`",
            "as well",
        ),
        ("policies: [{budget: {cost_usd: -1}}]\n", (1, 32), "is not above 0", "above 0"),
        (
            "policies: [{budget: {cost_usd: 1, prices: {a: {input: 1}}}}]\n",
            (1, 47),
            "`a` has no `output`",
            "`output:`",
        ),
        (
            "policies: [{budget: {cost_usd: 1, prices: {a: {input: 1, output: -1}}}}]\n",
            (1, 66),
            "`output` is below 0",
            "from 0 up",
        ),
        ("policies: [{shell_only: ., programs: [a, b c]}]\n", (1, 42), "not one program", "alone"),
        ("policies: [{shell_only: ., programs: '*'}]\n", (1, 38), "not one program", "alone"),
        ("policies: [{shell_only: ., programs: bin/a}]\n", (1, 38), "not one program", "alone"),
        ("policies: [{workspace_only: []}]\n", (1, 29), "an empty list", ""),
        ("policies: [{workspace_only: ., dirs: x}]\n", (1, 32), "unknown key `dirs`", ""),
        ("policies: [{workspace_only: ., tools: {a: []}}]\n", (1, 43), "an empty list", ""),
    ],
)
def test_what_is_not_understood_is_an_error_at_its_place(
    text: str, place: tuple[int, int] | None, problem: str, hint: str
) -> None:
    error = _error(text)
    assert problem in str(error)
    assert hint in error.hint
    if place is not None:
        assert (error.line, error.column) == place


def test_nothing_is_loaded_of_a_file_with_one_wrong_rule() -> None:
    error = _error("policies:\n  - deny: a\n  - deny: b\n    sevrity: high\n")
    assert (error.line, error.column) == (4, 5)


class TestWhen:
    def _decide(self, when: str, args: dict[str, Any]) -> Any:
        rules = _rules(f"- {{deny: a, when: {when!r}}}")
        return drive(policy.PolicySet(rules).evaluate(Call("a", args)))

    @pytest.mark.parametrize(
        ("when", "args", "decision"),
        [
            ("args['n'] > 3", {"n": 4}, "deny"),
            ("args['n'] > 3", {"n": 3}, "allow"),
            ("args.get('x')", {}, "allow"),
            ("args.get('x')", {"x": "text"}, "deny"),
            ("[c for c in args['l'] if c == 'rm']", {"l": ["ls", "rm"]}, "deny"),
            ("args['p'].startswith('/etc')", {"p": "/etc/passwd"}, "deny"),
            ("re.search('rm +-rf?', args['c'])", {"c": "sudo rm  -r /"}, "deny"),
            ("re.match('rm', args['c'])", {"c": "sudo rm"}, "allow"),
            ("json.decode(args['j'])['x'] == 1", {"j": '{"x": 1}'}, "deny"),
            ("time.now() > 0", {}, "deny"),
        ],
    )
    def test_a_rule_applies_where_its_expression_holds(
        self, when: str, args: dict[str, Any], decision: str
    ) -> None:
        assert self._decide(when, args).decision == decision

    @pytest.mark.parametrize(
        ("when", "args"),
        [
            ("args['missing']", {}),
            ("re.search('(', args['c'])", {"c": ""}),
            ("args['n'] > 'x'", {"n": 1}),
            ("[i for i in range(9999) for j in range(9999) if j < 0]", {}),
            ("args['o'] == 1", {"o": object()}),
            ("args['x'] == 1", {"x": float("nan"), "deep": [[[[object()]]]]}),
        ],
    )
    def test_an_expression_that_fails_denies_within_its_time(
        self, when: str, args: dict[str, Any]
    ) -> None:
        start = time.monotonic()
        ruling = self._decide(when, args)
        assert time.monotonic() - start < 5
        assert ruling.decision == "deny"
        assert ruling.error is not None
        assert ruling.message.startswith("Policy evaluation failed for policy 'a': ")

    def test_an_expression_is_not_evaluated_for_other_tools(self) -> None:
        rules = policy.PolicySet(_rules("- deny: a\n  when: args['missing']"))
        ruling = drive(rules.evaluate(Call("b", {})))
        assert (ruling.decision, ruling.evaluations) == ("allow", 0)

    def test_an_expression_cannot_change_the_arguments(self) -> None:
        args = {"l": [1]}
        assert self._decide("args['l'].append(2) or False", args).decision in {"allow", "deny"}
        assert args == {"l": [1]}

    def test_equal_rules_of_two_loads_have_one_identity(self) -> None:
        one, other = (
            policy.PolicySet(_rules("- deny: a\n  when: args['n'] > 3")).rules[0].identity
            for _ in range(2)
        )
        third = policy.PolicySet(_rules("- deny: a\n  when: args['n'] > 4")).rules[0].identity
        assert one == other != third


class TestIncludes:
    def test_included_rules_come_first_each_file_with_its_own_id(
        self, tmp_path: pathlib.Path
    ) -> None:
        given = _files(
            tmp_path,
            main="include: [base.yaml, deeper/more.yaml]\npolicies: [{deny: c}]\n",
            base="policies: [{deny: a}]\n",
            deeper__more="include: ../deeper/least.yaml\npolicies: [{deny: b}]\n",
            deeper__least="policies: [{deny: z}]\n",
        )
        files = read_rules(given)
        assert _ids(files) == ["base", "least", "more", "main"]
        assert [rule.tool for file in files for rule in file.rules] == ["a", "z", "b", "c"]
        assert len({file.source.version for file in files}) == 4

    def test_a_file_that_is_included_twice_is_read_once(self, tmp_path: pathlib.Path) -> None:
        given = _files(
            tmp_path,
            main="include: [a.yaml, b.yaml]\n",
            a="include: base.yaml\n",
            b="include: ./base.yaml\n",
            base="policies: [{deny: a}]\n",
        )
        assert _ids(read_rules(given)) == ["base", "a", "b", "main"]

    def test_files_that_include_one_another_are_an_error(self, tmp_path: pathlib.Path) -> None:
        given = _files(tmp_path, main="include: a.yaml\n", a="include:\n  - main.yaml\n")
        with pytest.raises(PolicyFileError, match=r"a\.yaml:2:5: `main\.yaml` includes this file"):
            read_rules(given)
        given = _files(tmp_path, main="include: main.yaml\n")
        with pytest.raises(PolicyFileError, match="includes this file again"):
            read_rules(given)

    def test_a_long_chain_of_files_is_an_error(self, tmp_path: pathlib.Path) -> None:
        chain = {f"f{n}": f"include: f{n + 1}.yaml\n" for n in range(50)}
        given = _files(tmp_path, main="include: f0.yaml\n", **chain)
        with pytest.raises(PolicyFileError, match=r"f14\.yaml:1:10: .*deeper than 16"):
            read_rules(given)

    @pytest.mark.parametrize("named", ["../outside.yaml", "link.yaml", "folder/outside.yaml"])
    def test_a_file_outside_of_the_folder_is_an_error(
        self, tmp_path: pathlib.Path, named: str
    ) -> None:
        (tmp_path / "outside.yaml").write_text("policies: []\n")
        inside = tmp_path / "inside"
        inside.mkdir()
        (inside / "link.yaml").symlink_to(tmp_path / "outside.yaml")
        (inside / "folder").symlink_to(tmp_path, target_is_directory=True)
        given = _files(inside, main=f"include: {named}\n")
        with pytest.raises(PolicyFileError, match=r"main\.yaml:1:10: .*leads out of the folder"):
            read_rules(given)

    def test_an_absolute_path_may_lead_anywhere(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "outside.yaml").write_text("policies: []\n")
        (tmp_path / "inside").mkdir()
        given = _files(tmp_path / "inside", main=f"include: {tmp_path / 'outside.yaml'}\n")
        assert _ids(read_rules(given)) == ["outside", "main"]

    @pytest.mark.parametrize(
        ("named", "problem"),
        [
            ("gone.yaml", "does not exist"),
            ("folder", "is not a YAML file"),
            ("hook.md", "is not a YAML file"),
            ("https://example.org/a.yaml", "does not exist"),
        ],
    )
    def test_what_cannot_be_included_is_an_error(
        self, tmp_path: pathlib.Path, named: str, problem: str
    ) -> None:
        (tmp_path / "folder").mkdir()
        given = _files(tmp_path, main=f"include: {named}\n")
        with pytest.raises(PolicyFileError, match=rf"main\.yaml:1:10: .*{problem}"):
            read_rules(given)

    @pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners of files")
    def test_an_included_file_that_everybody_may_write_is_refused(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("OTELHOOKS_ALLOW_UNSAFE_POLICY_FILES", raising=False)
        given = _files(tmp_path, main="include: base.yaml\n", base="policies: []\n")
        (tmp_path / "base.yaml").chmod(0o666)
        with pytest.raises(PolicyFileError, match="every user may write"):
            read_rules(given)

    def test_two_included_files_of_one_name_are_an_error(self, tmp_path: pathlib.Path) -> None:
        given = _files(
            tmp_path,
            main="include: [a/x.yaml, b/x.yaml]\n",
            a__x="mode: enforce",
            b__x="mode: enforce",
        )
        with pytest.raises(PolicyFileError, match="is called `x` as well"):
            read_rules(given)

    def test_included_files_take_the_mode_of_who_includes_them(
        self, tmp_path: pathlib.Path
    ) -> None:
        given = _files(
            tmp_path,
            main="mode: monitor\ninclude: [a.yaml, b.yaml]\n",
            a="policies: []\n",
            b="mode: enforce\npolicies: []\n",
        )
        assert [file.mode for file in read_rules(given)] == ["monitor", "enforce", "monitor"]


def test_ten_thousand_rules_load_in_seconds() -> None:
    lines = ["policies:"]
    for number in range(10_000):
        lines += [
            f"  - deny: tool_{number}",
            "    severity: high",
            f"    reason: No tool {number}.",
        ]
    start = time.perf_counter()
    found = _read("\n".join(lines))
    assert len(found.rules) == 10_000
    assert time.perf_counter() - start < 20  # some two seconds on an idle machine
