"""`otelhooks policy`: what each command prints, writes and exits with."""

from __future__ import annotations

import json
import linecache
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from otelhooks.cli import cli

RULES = """\
policies:
  - deny: run_command
    when: '"rm" in args.get("CommandLine", "")'
    id: no-rm
    severity: high
  - {ask: send_email, agent: "lead/*", id: mail}
  - {allow: view_file}
"""


def spans(*calls: tuple[str, dict[str, Any] | None, dict[str, str]], service: str = "") -> str:
    """Return tool calls as a document of OTLP JSON: tool, arguments, further attributes."""

    def attribute(name: str, value: str) -> dict[str, Any]:
        return {"key": name, "value": {"stringValue": value}}

    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [attribute("service.name", service)]},
                    "scopeSpans": [
                        {
                            "spans": [
                                {
                                    "traceId": f"{number:032x}",
                                    "spanId": f"{number:016x}",
                                    "startTimeUnixNano": str(10**18 + number),
                                    "attributes": [
                                        attribute("gen_ai.operation.name", "execute_tool"),
                                        attribute("gen_ai.tool.name", tool),
                                        *(attribute(*pair) for pair in further.items()),
                                    ]
                                    + (
                                        []
                                        if args is None
                                        else [
                                            attribute(
                                                "gen_ai.tool.call.arguments", json.dumps(args)
                                            )
                                        ]
                                    ),
                                }
                                for number, (tool, args, further) in enumerate(calls, 1)
                            ]
                        }
                    ],
                }
            ]
        }
    )


TRACES = spans(
    ("run_command", {"CommandLine": "rm -rf x"}, {}),
    ("run_command", {"CommandLine": "ls"}, {}),
    ("run_command", None, {}),
    ("view_file", None, {}),
)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `rules.yaml` and `traces.json`, to work in."""
    monkeypatch.chdir(tmp_path)
    for variable in ("OTELHOOKS_POLICIES", "OTELHOOKS_STORE"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "traces.json").write_text(TRACES)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["policy", *words], prog_name="otelhooks")


@pytest.mark.parametrize("words", [["check"], ["test"], ["explain", "a"], ["replay"], ["export"]])
def test_a_policy_must_be_named(work: Path, words: list[str]) -> None:
    result = run(*words)

    assert result.exit_code == 2
    assert "no policy is named" in result.stderr
    assert "OTELHOOKS_POLICIES" in result.stderr


def test_policies_of_the_variable_are_meant_where_none_are_named(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELHOOKS_POLICIES", "rules.yaml, governed")

    assert "3 rules, 7 hooks: 0 errors" in run("check").stderr


def test_a_file_that_cannot_be_loaded_is_exit_code_2_with_its_place(work: Path) -> None:
    (work / "bad.yaml").write_text("policies:\n  - {dney: a}\n")

    result = run("check", "bad.yaml")

    assert result.exit_code == 2
    assert "bad.yaml:2:6: unknown key `dney`" in result.stderr
    assert "hint: did you mean `deny`?" in result.stderr


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('lambda args: "rm" in args["x"]', 'lambda args: "rm" in args["x"]'),
        ("lambda args: (\n    True\n    or False\n)", "lambda args: ( True or False )"),
        ("is_bad", "is_bad (shown.py:3)"),
        ("two[0]", "<lambda> (shown.py:4)"),
        ('policy.workspace_only(["/ws"])[0].when', "a path leads out of /ws"),
    ],
    ids=["lambda", "lines", "function", "ambiguous", "ready-made"],
)
def test_explain_shows_a_condition_in_python_as_it_is_written(
    work: Path, monkeypatch: pytest.MonkeyPatch, written: str, shown: str
) -> None:
    (work / "shown.py").write_text(
        "from otelhooks import policy\n\n"
        "def is_bad(args): return True\n"
        "two = [lambda args: True, lambda args: False]\n"
        f'RULES = [policy.deny("t", when={written})]\n'
    )
    monkeypatch.syspath_prepend(work)
    monkeypatch.delitem(sys.modules, "shown", raising=False)
    linecache.clearcache()

    result = run("explain", "--policy", "shown:RULES", "t", "x=rm")

    assert f"when {shown} -> " in result.stdout


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (("run_command", "CommandLine=ls"), "a text names rules.yaml"),
        (("create_file", "path=other"), "a path leads to rules.yaml"),
    ],
)
def test_explain_says_which_files_a_built_in_rule_keeps(
    work: Path, call: tuple[str, str], shown: str
) -> None:
    result = run("explain", "--policy", "rules.yaml", *call)

    assert f"when {shown} -> False" in result.stdout


# -- new ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--yaml"], [], ["--event", "completion.post"]])
def test_a_new_policy_passes_check_and_test(work: Path, words: list[str]) -> None:
    made = run("new", "guard", "--dir", "p", *words)

    assert made.exit_code == 0
    assert len(made.stderr.splitlines()) == 2
    assert run("check", "p", "--require", "priority,description").exit_code == 0
    assert run("test", "p").exit_code == 0


def test_a_new_policy_is_not_written_over_another(work: Path) -> None:
    assert run("new", "guard").exit_code == 0

    again = run("new", "guard")

    assert again.exit_code == 2
    assert "already exists" in again.stderr


@pytest.mark.parametrize(
    "words", [["../x"], ["a/b"], [".x"], ["hook"], ["x", "--event", "tool.per"]]
)
def test_a_new_policy_needs_a_name_and_an_event(work: Path, words: list[str]) -> None:
    result = run("new", *words)

    assert result.exit_code == 2
    assert not (work / "cases").exists()


# -- check ----------------------------------------------------------------------------------------


def test_check_says_where_a_rule_is_that_never_decides(work: Path) -> None:
    (work / "two.yaml").write_text("policies:\n  - {deny: a}\n  - {allow: a}\n")

    result = run("check", "two.yaml")

    assert result.exit_code == 1
    assert result.stdout == (
        "two.yaml:3:5: error: `allow: a` contradicts `deny: a` (two.yaml:2:5), which decides\n"
        "hint: keep the one that you mean\n"
    )


def test_check_knows_tools_of_servers_from_recorded_calls(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "traces.json").write_text(spans(("create_pr", {}, {"otelhooks.tool.server": "github"})))
    (work / "bare.yaml").write_text("policies: [{allow: create_pr}]")
    monkeypatch.setenv("OTELHOOKS_STORE", "traces.json")

    assert run("check", "bare.yaml").exit_code == 0
    result = run("check", "bare.yaml", "--store")
    assert result.exit_code == 0
    assert "write `github/create_pr` or `*/create_pr`" in result.stdout


def test_the_store_of_check_takes_no_path(work: Path) -> None:
    (work / "bare.yaml").write_text("policies: [{allow: search}]")
    result = run("check", "bare.yaml", "--store", "other.db")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: `--store` of `policy check` takes no path, such as `other.db`\n"
        "hint: name another store in OTELHOOKS_STORE\n"
    )


def test_tools_of_configured_servers_count(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "my_servers.py").write_text(
        "from otelhooks import types\n"
        "servers = [types.McpStdioServer(name='github', command='x', enabled_tools=['search'])]\n"
    )
    monkeypatch.syspath_prepend(str(work))
    monkeypatch.setenv("OTELHOOKS_MCP_SERVERS", "my_servers:servers")
    (work / "bare.yaml").write_text("policies: [{allow: search}, {allow: github/serach}]")
    traces = spans(("push", {}, {"otelhooks.tool.server": "github"}))
    (work / "push.json").write_text(traces)

    checked = run("check", "bare.yaml").stdout
    assert "`allow: search` never matches: `search` is a tool of server `github`" in checked
    assert "`allow: github/serach` never matches" in checked
    explained = run("explain", "push", "--server", "github", "--policy", "rules.yaml")
    assert "deny  github/push\n  rule     mcp_servers/github/enabled_tools\n" in explained.stdout
    replayed = run("replay", "push.json", "--policy", "rules.yaml")
    assert "mcp_servers/github/enabled_tools  allow -> deny" in replayed.stdout


def test_check_warns_of_an_event_that_nothing_fires(work: Path) -> None:
    run("new", "ours", "--event", "meta.hook_added")

    result = run("check", "ours.md")

    assert result.exit_code == 0
    assert "ours.md:1:1: warning: nothing here fires `meta.hook_added`" in result.stdout


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("severity", "rules.yaml:7:5: error: the rule `view_file` has no `severity`"),
        ("audit", "rules.yaml: error: nothing audits every `tool.pre`"),
        ("banana", "`banana` cannot be required"),
    ],
)
def test_check_requires_what_it_is_told_to(work: Path, keys: str, said: str) -> None:
    result = run("check", "rules.yaml", "--require", keys)

    assert result.exit_code == (2 if keys == "banana" else 1)
    assert said in result.output


def test_a_hook_before_the_one_that_audits_is_found(work: Path) -> None:
    early = (
        "---\nevent: tool.pre\npriority: 0\nscript: |\n  def handle(e, p): return allow()\n---\n"
    )
    (work / "early.md").write_text(early)

    result = run("check", "early.md", "governed", "--require", "audit")

    assert result.exit_code == 1
    assert "`early` runs before the hook that audits every `tool.pre`" in result.stdout


# -- test -----------------------------------------------------------------------------------------


def test_a_red_case_is_shown_with_what_differs(work: Path) -> None:
    (work / "cases").mkdir()
    (work / "cases" / "rules.yaml").write_text(
        "cases:\n"
        "  - {name: ls, call: {tool: run_command, args: {CommandLine: ls}}, verdict: allow}\n"
        "  - {name: rm, call: {tool: run_command, args: {CommandLine: RM}}, verdict: deny,"
        " rule: no-rm}\n"
    )

    result = run("test", "rules.yaml", "--junit", "out.xml")

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "RED    cases/rules.yaml:3  rm",
        "       verdict  expected deny   seen allow",
        "       rule     expected no-rm  seen (none)",
        '       call  run_command {"CommandLine": "RM"}',
    ]
    assert result.stderr == "2 cases: 1 green, 1 red\n"
    assert ElementTree.parse(work / "out.xml").getroot().get("failures") == "1"


def test_a_red_case_says_why_its_rule_failed(work: Path) -> None:
    (work / "cases").mkdir()
    (work / "late.yaml").write_text("policies: [{ask: refund, when: 'args[\"amount\"] > 100'}]\n")
    (work / "cases" / "late.yaml").write_text(
        "cases: [{name: refund, call: {tool: refund, args: {}}, verdict: ask}]\n"
    )

    result = run("test", "late.yaml")

    assert "       verdict  expected ask  seen deny\n       message  " in result.stdout
    assert 'Key `"amount"` was not found' in result.stdout


def test_explain_says_what_the_model_reads_if_a_person_refuses(work: Path) -> None:
    (work / "ask.yaml").write_text("policies: [{ask: refund, reason: Too much.}]\n")

    assert "  if refused  Too much.\n" in run("explain", "refund", "--policy", "ask.yaml").stdout


def test_every_error_of_every_file_is_told(work: Path) -> None:
    (work / "bad.yaml").write_text(
        "polices: []\n"
        "policies:\n"
        "  - {deny: a, sevrity: high, when: nosuch(args)}\n"
        "  - foo: bar\n"
        "  - {deny: b, when: 1 +}\n"
    )
    (work / "worse.md").write_text("---\nevent: tool.pree\n---\n")
    (work / "good.yaml").write_text("policies: [{deny: b}]")

    result = run("check", "bad.yaml", "worse.md", "good.yaml")

    assert result.exit_code == 2
    assert result.stdout == ""
    told = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert [Path(line.split(": ")[1]).name for line in told] == [
        *("bad.yaml:1:1", "bad.yaml:3:15", "bad.yaml:3:36", "bad.yaml:4:5", "bad.yaml:5:21"),
        *("worse.md:2:1", "worse.md:2:8"),
    ]


def test_an_ask_without_a_channel_is_a_warning(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "ask.yaml").write_text("policies: [{ask: [mail, pay]}, {deny: x}]")

    result = run("check", "ask.yaml")

    assert result.exit_code == 0
    assert "`ask: mail` (and 1 more) needs an approval channel" in result.stdout
    assert result.stderr == "3 rules, 0 hooks: 0 errors, 1 warning\n"
    monkeypatch.setenv("OTELHOOKS_APPROVALS", "app:ask")
    assert run("check", "ask.yaml").stdout == ""
    monkeypatch.delenv("OTELHOOKS_APPROVALS")
    (work / "ask.yaml").write_text("mode: monitor\npolicies: [{ask: mail}]")
    assert run("check", "ask.yaml").stdout == ""


def test_a_limit_that_asks_without_a_channel_is_a_warning(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = "{repeat: {calls: 3, on_breach: ask}, id: loop%s}"
    (work / "ask.yaml").write_text(f"policies: [{entry % ''}]")

    result = run("check", "ask.yaml")

    assert result.exit_code == 0
    assert result.stdout.startswith(
        "ask.yaml:1:12: warning: limit `repeat 3 of arguments per turn` needs an approval channel"
    )
    monkeypatch.setenv("OTELHOOKS_APPROVALS", "app:ask")
    assert run("check", "ask.yaml").stdout == ""
    monkeypatch.delenv("OTELHOOKS_APPROVALS")
    (work / "ask.yaml").write_text(f"policies: [{entry % ', mode: monitor'}]")
    assert run("check", "ask.yaml").stdout == ""


@pytest.mark.parametrize(
    ("entry", "is_found"),
    [
        ("{label: web, adds: tainted}", False),
        ("{label: web, adds: [other, secret]}", False),
        ("{label: web, adds: other}", True),
        ("{deny: y}", True),
    ],
)
def test_a_label_that_nothing_adds_is_a_warning(work: Path, entry: str, is_found: bool) -> None:
    rule = "{deny: mail, when_labels: [tainted, secret]}"
    known = "{deny: mail, when_labels: unknown}"
    (work / "labels.yaml").write_text(f"policies: [{rule}, {known}, {entry}]")

    result = run("check", "labels.yaml")

    assert result.exit_code == 0
    said = "`deny: mail` waits for `secret`, `tainted`, which nothing here adds"
    assert (said in result.stdout) is is_found


def test_check_and_export_count_alike(work: Path) -> None:
    entries = "[{workspace_only: .}, {limit: {turns: 3}}, {label: a, adds: b}, {deny: z}]"
    (work / "many.yaml").write_text(f"policies: {entries}")

    counts, _, found = run("check", "many.yaml").stderr.partition(": ")

    assert counts.endswith(" rules, 1 limit, 1 label, 0 hooks")
    assert found == "0 errors, 0 warnings\n"
    assert run("export", "many.yaml").stderr == f"loaded: {counts}\n"


def test_green_cases_are_named_on_request(work: Path) -> None:
    (work / "c.yaml").write_text("cases: [{call: {tool: view_file}, verdict: allow}]")

    assert run("test", "rules.yaml", "--cases", "c.yaml").stdout == ""
    assert run("test", "rules.yaml", "--cases", "c.yaml", "-v").stdout == "green  c.yaml:1  c: 1\n"


def test_no_cases_is_not_success(work: Path) -> None:
    result = run("test", "rules.yaml")

    assert result.exit_code == 2
    assert "there are no cases" in result.stderr


# -- explain --------------------------------------------------------------------------------------


def test_explain_has_one_row_for_rules_of_shell_only_with_one_outcome(work: Path) -> None:
    def rows(command: str) -> list[str]:
        result = run("explain", "sh", f"command={command}", "--policy", "shell")
        return [line for line in result.stdout.splitlines() if line.startswith("  7")]

    [row] = rows("ls")
    assert row.split("  ")[1:] == [
        "7 to 8, every call ask",
        "shell/shell_only (6 rules)",
        "does not apply: its condition does not hold",
    ]
    tried, deciding, rest = rows("rm -rf /")
    assert "shell/shell_only (2 rules)  " in tried
    assert "decides  " in deciding
    assert "a command has a problem of the kind `outside` -> True" in deciding
    assert "shell/shell_only (3 rules)  " in rest
    assert rest.endswith("not reached")


@pytest.mark.parametrize(
    ("label", "outcome"),
    [("untrusted", "decides"), ("secret", "does not apply: it is for calls under")],
)
def test_explain_shows_what_must_hold_besides_the_condition(
    work: Path, label: str, outcome: str
) -> None:
    rule = "{deny: pay, id: leak, when_labels: untrusted, unless_user_said: [to], when: 'True'}"
    (work / "more.yaml").write_text(f"policies: [{rule}]")
    words = ("explain", "pay", "to=x", "--labels", label, "--policy", "more.yaml")

    [row] = [line for line in run(*words).stdout.splitlines() if "more/leak  " in line]

    assert outcome in row
    assert "  unless_user_said: to, when_labels: untrusted; when True -> " in row
    [tried] = json.loads(run(*words, "--json").stdout)["tried"]
    assert tried["selectors"] == "unless_user_said: to, when_labels: untrusted"


def test_explain_does_not_list_a_hook_whose_condition_does_not_hold(work: Path) -> None:
    hook = 'event: tool.pre\nwhen: payload["name"] == "search"\nscript: |\n'
    hook += "  def handle(event, payload):\n      return allow()\n"
    (work / "at_most.md").write_text(f"---\n{hook}---\n")
    for tool, names in (("refund", []), ("search", ["at_most"])):
        words = ("explain", tool, "--policy", "at_most.md")
        assert ("hooks that ran" in run(*words).stdout) is bool(names)
        assert json.loads(run(*words, "--json").stdout)["hooks"] == names


def test_explain_tells_of_a_rule_for_a_tool_of_almost_the_same_name(work: Path) -> None:
    result = run("explain", "run_comand", "--policy", "rules.yaml")
    assert result.exit_code == 0
    assert (
        "hint: rule `rules/no-rm` is about a tool `run_command`: did you mean it?" in result.stdout
    )
    as_json = json.loads(run("explain", "run_comand", "--policy", "rules.yaml", "--json").stdout)
    assert as_json["misspelt"] == [{"policy": "rules", "rule": "no-rm", "tool": "run_command"}]


LABELLED = """
policies:
  - {deny: pay, when_argument_from: {iban: untrusted}}
  - {deny: send, when_labels: [secret]}
"""


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("untrustd", "hint: no rule looks at a label `untrustd`: did you mean `untrusted`?"),
        ("web", "hint: no rule looks at a label `web`: known: secret, unknown, untrusted"),
        ("untrusted", ""),
        ("unknown", ""),
    ],
)
def test_a_label_that_no_rule_looks_at_is_said(work: Path, label: str, said: str) -> None:
    (work / "labels.yaml").write_text(LABELLED)
    shown = run("explain", "pay", "--labels", label, "--policy", "labels.yaml").stdout
    assert said in shown
    assert ("hint" in shown) is bool(said)
    (work / "c.yaml").write_text(
        f"cases: [{{call: {{tool: pay, results: {{{label}: x}}}}, verdict: deny}}]"
    )
    shown = run("test", "labels.yaml", "--cases", "c.yaml").stdout
    assert said in shown
    assert ("hint" in shown) is bool(said)
    assert "hint" not in run("explain", "pay", "--labels", label, "--policy", "rules.yaml").stdout


def test_a_case_whose_condition_fails_is_not_logged_and_one_case_is_one(
    work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (work / "pay.yaml").write_text("policies:\n- {deny: pay, when: 'args[\"n\"] > 1'}\n")
    (work / "cases.yaml").write_text("cases:\n- {call: {tool: pay}, verdict: deny}\n")
    result = run("test", "pay.yaml", "--cases", "cases.yaml")
    assert result.stderr == "1 case: 1 green, 0 red\n"
    assert caplog.text == ""


def test_explain_does_not_advise_to_call_it(work: Path, caplog: pytest.LogCaptureFixture) -> None:
    (work / "n.yaml").write_text("policies: [{deny: pay, when: 'args[\"n\"] > 1'}]")
    result = run("explain", "pay", "n=a", "--policy", "n.yaml")
    assert "error    ScriptError" in result.stdout
    assert caplog.text == ""


def test_explain_says_who_decides_and_what_the_condition_saw(work: Path) -> None:
    result = run("explain", "run_command", "CommandLine=rm x", "--policy", "rules.yaml")

    assert result.exit_code == 1
    first, *rows = result.stdout.splitlines()
    assert first == "deny  run_command"
    assert rows[:5] == [
        "  rule     rules/no-rm",
        "  level    1, exact tool deny",
        "  place    rules.yaml:2:5",
        "  message  Denied by policy 'run_command'.",
        '  args     {"CommandLine": "rm x"}',
    ]
    assert 'when "rm" in args.get("CommandLine", "") -> True' in result.stdout


def test_explain_takes_a_call_in_json_and_says_it_in_json(work: Path) -> None:
    call = '{"name": "run_command", "arguments": {"CommandLine": "ls"}, "branch": "lead/x"}'

    result = run("explain", call, "--policy", "rules.yaml", "--json")

    said = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (said["decision"], said["rule"], said["branch"]) == ("allow", None, "lead/x")
    tried = {each["rule"]: (each["outcome"], each["value"]) for each in said["tried"]}
    assert tried["no-rm"] == ("does not apply: its condition does not hold", "False")


@pytest.mark.parametrize(
    ("agent", "decision", "outcome"),
    [
        ("lead/writer", "ask", "decides"),
        ("other", "allow", "does not apply: it is for agents `lead/*`"),
    ],
)
def test_explain_as_an_agent(work: Path, agent: str, decision: str, outcome: str) -> None:
    result = run("explain", "send_email", "--agent", agent, "--policy", "rules.yaml", "--json")

    said = json.loads(result.stdout)
    assert said["decision"] == decision
    assert [e["outcome"] for e in said["tried"] if e["rule"] == "mail"] == [outcome]


def test_explain_names_the_hooks_that_ran_and_what_they_rewrote(work: Path) -> None:
    (work / "cap.md").write_text(
        "---\nevent: tool.pre\nwhen: payload['name'] == 'search'\nscript: |\n"
        '  def handle(e, p): return modify({"args": {"limit": 10}})\n---\n'
    )

    result = run("explain", "search", "limit=99", "--policy", "cap.md")

    assert result.stdout.splitlines()[0] == "modify  search"
    assert '  args    {"limit": 99}' in result.stdout
    assert '  become  {"limit": 10}' in result.stdout
    assert "  100  cap  if payload['name'] == 'search'" in result.stdout


@pytest.mark.parametrize(
    ("labels", "decision", "outcome"),
    [("a,untrusted", "deny", "decides"), ("a", "allow", "does not apply: it is for calls under")],
)
def test_explain_under_labels(work: Path, labels: str, decision: str, outcome: str) -> None:
    (work / "leak.yaml").write_text("policies: [{deny: send, when_labels: [untrusted], id: leak}]")

    result = run("explain", "send", "--labels", labels, "--policy", "leak.yaml")

    assert result.stdout.splitlines()[0] == f"{decision}  send"
    assert outcome in result.stdout


def test_explain_of_a_condition_that_fails(work: Path) -> None:
    (work / "broken.yaml").write_text("policies: [{allow: a, when: 'args[\"x\"] > 1', id: b}]")

    result = run("explain", "a", "--policy", "broken.yaml")

    assert result.exit_code == 1
    assert "raises ScriptError" in result.stdout


@pytest.mark.parametrize(
    "words",
    [
        ['run_command CommandLine="rm -rf x"'],
        ["  run_command  'CommandLine=rm -rf x' "],
        ["run_command CommandLine='rm -rf x'", "Cwd=/tmp"],
    ],
)
def test_explain_reads_a_call_that_the_shell_took_for_one_word(
    work: Path, words: list[str]
) -> None:
    result = run("explain", *words, "--policy", "rules.yaml", "--json")

    said = json.loads(result.stdout)
    assert (result.exit_code, said["tool"], said["rule"]) == (1, "run_command", "no-rm")
    assert said["args"]["CommandLine"] == "rm -rf x"


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("run_command CommandLine=rm -rf x", "`-rf` is not KEY=VALUE"),
        ('run_command CommandLine="rm', "the call cannot be read: No closing quotation"),
        (" ", "`` is not the name of a tool"),
        ("CommandLine=ls", "`CommandLine=ls` is not the name of a tool"),
        (
            "run_command(CommandLine='ls')",
            "`run_command(CommandLine=ls)` is not the name of a tool",
        ),
    ],
)
def test_a_word_that_cannot_be_read_as_a_call_is_an_error(
    work: Path, word: str, problem: str
) -> None:
    result = run("explain", word, "--policy", "rules.yaml")

    assert result.exit_code == 2
    assert f"error: {problem}\n" in result.stderr
    assert 'hint: write `run_command CommandLine="rm -rf x"`, or ' in result.stderr


@pytest.mark.parametrize(
    ("words", "decision"),
    [
        ([], "deny"),
        (["--user", "ada"], "deny"),
        (["--user", "ada", "--role", "clerk", "--role", "admin"], "allow"),
        (["--role", "admin"], "allow"),
        (["--role", "clerk", "--tenant", "acme"], "allow"),
        (["--user", "root"], "allow"),
    ],
)
def test_explain_takes_the_user(work: Path, words: list[str], decision: str) -> None:
    (work / "users.yaml").write_text(
        "default: deny\npolicies:\n- {allow: export, when_user: {role: admin}}\n"
        "- {allow: export, when_user: {id: root}}\n"
        "- {allow: export, when_user: {tenant: acme}}\n"
    )

    result = run("explain", "export", "--policy", "users.yaml", "--json", *words)

    assert json.loads(result.stdout)["decision"] == decision, result.stdout


@pytest.mark.parametrize("words", [["a", "b"], ["{"], ['{"args": {}}'], ["[1]", "x=1", "y"]])
def test_what_is_not_a_call_is_an_error_that_shows_one(work: Path, words: list[str]) -> None:
    result = run("explain", *words, "--policy", "rules.yaml")

    assert result.exit_code == 2
    assert "error: " in result.stderr


# -- replay ---------------------------------------------------------------------------------------


def test_replay_names_what_flips_and_what_it_cannot_judge(work: Path) -> None:
    result = run("replay", "traces.json", "--policy", "rules.yaml")

    assert result.exit_code == 1
    text = result.stdout
    assert "1 of 3 judged calls would be decided differently" in text
    assert "  1  rules/no-rm  allow -> deny" in text
    assert '  allow -> deny  run_command {"CommandLine": "rm -rf x"}' in text
    assert f"span {1:016x}; trace {1:032x} in traces.json" in text
    assert "1 of 4 calls cannot be judged" in text
    assert "  tools: run_command (1)" in text
    assert "SPAN_ONLY" in text


@pytest.mark.parametrize(
    ("selector", "gap"),
    [
        ("when_argument_from: {to: untrusted}", "results not recorded"),
        ("unless_user_said: [to]", "user and prompt not recorded"),
    ],
)
def test_replay_hints_at_cases_for_what_no_span_has(work: Path, selector: str, gap: str) -> None:
    """The hint was to capture arguments, which were captured."""
    (work / "pay.yaml").write_text(f"policies:\n- {{deny: pay, {selector}}}\n")
    labels = {"otelhooks.labels": "untrusted"}
    (work / "pay.json").write_text(spans(("pay", {"to": "x"}, labels)))

    text = run("replay", "pay.json", "--policy", "pay.yaml").stdout

    assert f"  1  {gap}\n" in text
    assert "hint: write cases with `results`, `prompt` or `user`" in text
    assert "SPAN_ONLY" not in text


def test_replay_of_the_policy_that_held_changes_nothing(work: Path) -> None:
    (work / "none.yaml").write_text("policies: [allow_all]")

    result = run("replay", "traces.json", "--policy", "none.yaml")

    assert result.exit_code == 0
    assert result.stdout == "0 of 4 judged calls would be decided differently\n"


def test_replay_lists_what_a_stop_decided_as_left_out(work: Path) -> None:
    attributes = {
        "otelhooks.policy.decision": "deny",
        "otelhooks.policy.id": "stop",
        "otelhooks.policy.rule.id": "stop-1a2b",
    }
    (work / "stopped.json").write_text(spans(("view_file", {}, attributes)))
    words = ("replay", "stopped.json", "--policy", "rules.yaml")

    result = run(*words)

    assert result.exit_code == 0
    assert "0 of 0 judged calls would be decided differently" in result.stdout
    assert "1 of 1 calls are left out" in result.stdout
    assert "  1  stop/stop-1a2b" in result.stdout
    assert json.loads(run(*words, "--json").stdout)["left_out"] == {"stop/stop-1a2b": 1}


def test_replay_in_json_has_every_call(work: Path) -> None:
    said = json.loads(run("replay", "traces.json", "--policy", "rules.yaml", "--json").stdout)

    assert (said["calls"], said["judged"]) == (4, 3)
    assert [change["rule"] for change in said["changes"]] == ["rules/no-rm"]
    assert said["not_judged"] == {"arguments not captured": 1}


def test_replay_and_learn_can_be_limited_to_one_program(work: Path) -> None:
    of_two = [
        spans(("run_command", {"CommandLine": "rm -rf x"}, {}), service="shop"),
        spans(("view_file", {"path": "a"}, {}), service="bill\x1b[2Jing"),
    ]
    (work / "two.json").write_text("\n".join(of_two))
    words = ("two.json", "--policy", "rules.yaml")

    both = run("replay", *words)
    one = run("replay", *words, "--service", "bill*")
    other = run("replay", *words, "--service", "shop")

    assert "1 of 2 judged calls would" in both.stdout
    assert (
        "otelhooks: warning: these are calls of 2 programs: `bill\\x1b[2Jing`, `shop`"
        in both.stderr
    )
    assert "--service NAME" in both.stderr
    assert (one.exit_code, one.stdout) == (0, "0 of 1 judged calls would be decided differently\n")
    assert (other.exit_code, other.stderr) == (1, "")
    assert run("replay", *words, "--service", "Shop").exit_code == 2
    assert "run_command" not in run("learn", "two.json", "--service", "bill*").stdout
    assert "of 2 programs" in run("learn", "two.json").stderr


def test_replay_lists_ten_calls_of_a_tool_unless_told_otherwise(work: Path) -> None:
    (work / "many.json").write_text(spans(*[("view_file", {"n": n}, {}) for n in range(15)]))
    (work / "no.yaml").write_text("policies: [{deny: view_file, id: never}]")

    short = run("replay", "many.json", "--policy", "no.yaml").stdout
    long = run("replay", "many.json", "--policy", "no.yaml", "--all").stdout

    assert short.count("  allow -> deny  view_file") == 10
    assert "... and 5 more calls of view_file: see --all" in short
    assert long.count("  allow -> deny  view_file") == 15


def test_a_name_that_would_steer_the_terminal_is_shown_plain(work: Path) -> None:
    """Tool names come from models and remote servers."""
    (work / "evil.json").write_text(spans(("a\x1b[2J\u202egod", {"x": "\x1b]0;t\x07"}, {})))
    (work / "no.yaml").write_text("policies: [deny_all]")

    result = run("replay", "evil.json", "--policy", "no.yaml")

    assert result.exit_code == 1
    assert not set("\x1b\x07\u202e") & set(result.output)


@pytest.mark.parametrize("since", ["7 days", "d", "-1h", "1w"])
def test_a_duration_that_is_none(work: Path, since: str) -> None:
    result = run("replay", "traces.json", "--policy", "rules.yaml", f"--since={since}")

    assert result.exit_code == 2
    assert "is neither a duration nor a time" in result.stderr


# -- diff, learn, schema, export ------------------------------------------------------------------


def test_diff_shows_a_change_field_by_field(work: Path) -> None:
    (work / "new.yaml").write_text(RULES.replace("high", "critical").replace("allow:", "deny:"))
    (work / "old.yaml").write_text(RULES)

    result = run("diff", "old.yaml", "old.yaml")
    assert (result.exit_code, result.stderr) == (0, "nothing differs\n")

    (work / "was").mkdir()
    (work / "old.yaml").rename(work / "was" / "p.yaml")
    (work / "new.yaml").rename(work / "p.yaml")
    result = run("diff", "was/p.yaml", "p.yaml")
    assert result.exit_code == 1
    assert "~ rule p/no-rm\n    severity: - high\n    severity: + critical\n" in result.stdout
    assert "- rule p/allow:view_file" in result.stdout
    assert "+ rule p/deny:view_file" in result.stdout


def test_diff_leaves_out_a_rule_whose_id_alone_has_changed(work: Path) -> None:
    """The second rule for a tool gives the first one a hash in its id."""
    (work / "new").mkdir()
    (work / "rules.yaml").write_text("policies: [{deny: a, agent: x}]")
    two = "policies: [{deny: a, agent: x}, {deny: a, agent: y}]"
    (work / "new" / "rules.yaml").write_text(two)

    said = run("diff", "rules.yaml", "new/rules.yaml").stdout

    assert said.count("rule rules/deny:a:") == 1
    assert "+ rule rules/deny:a:" in said
    assert "agent: y" in said


def test_diff_shows_the_lines_of_a_script(work: Path) -> None:
    for folder in ("a", "b"):
        run("new", "guard", "--dir", folder)
    file = work / "b" / "guard.md"
    file.write_text(file.read_text().replace("return allow()", 'return block("no")'))

    result = run("diff", "a/guard.md", "b/guard.md")

    assert "~ hook guard" in result.stdout
    assert "    script: + def handle(event, payload):" in result.stdout
    assert '            +     return block("no")' in result.stdout


def test_learn_then_test_closes_the_loop(work: Path) -> None:
    assert run("learn", "traces.json").stdout.startswith("# Drafted from 4 calls in 4 traces")

    written = run("learn", "traces.json", "--output", "learned/draft.yaml")

    assert written.exit_code == 0
    assert run("check", "learned").exit_code == 0
    tested = run("test", "learned/draft.yaml", "-v")
    assert tested.exit_code == 0
    assert "4 green" in tested.stderr
    assert run("replay", "traces.json", "--policy", "learned").exit_code == 0
    assert run("learn", "traces.json", "--output", "learned/draft.yaml").exit_code == 2


def test_schema_is_json_and_markdown(work: Path) -> None:
    assert json.loads(run("schema").stdout)["title"] == "otelhooks policy file"
    assert "| key |" in run("schema", "--markdown").stdout


def test_what_is_exported_loads_again_as_the_same(work: Path) -> None:
    (work / "again").mkdir()
    (work / "again" / "rules.yaml").write_text(run("export", "rules.yaml").stdout)

    assert run("diff", "rules.yaml", "again/rules.yaml").exit_code == 0
