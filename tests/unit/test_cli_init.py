"""`otelhooks init`: what it finds in a project without running it, and what it writes."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from otelhooks.cli import cli
from otelhooks.cli.project import files
from otelhooks.cli.project.survey import survey
from otelhooks.errors import ConfigError
from otelhooks.policy_tools.scaffold import write_new

POLICY, CASES = "policies/agents.yaml", "policies/cases/agents.yaml"

SHOP = """\
\"\"\"A shop.\"\"\"
import agents
from langgraph.graph import StateGraph


@agents.function_tool
def delete_order(number: int) -> str: ...


@agents.function_tool(name_override="send_mail")
def mail(to: str) -> str: ...


def look_up(text: str) -> str: ...


agent = agents.Agent("shop", tools=[look_up, mail, delete_order])

if __name__ == "__main__":
    raise SystemExit("this must not run")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "app.py").write_text(SHOP)
    monkeypatch.chdir(folder)
    return folder


def init(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["init", *arguments])


def policy(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["policy", *arguments])


def rules(project: Path) -> list[tuple[str, str]]:
    """Verb and tool of each rule that was written, as YAML reads them."""
    found = yaml.safe_load((project / POLICY).read_text(encoding="utf-8"))["policies"]
    return [(verb, rule[verb]) for rule in found for verb in ("deny", "ask") if verb in rule]


def names(folder: Path) -> list[str]:
    return [tool.name for tool in survey(folder).tools]


# -- the first policy -------------------------------------------------------------------------


def test_a_project_gets_a_policy_in_monitor_mode_with_cases_that_are_green(project: Path) -> None:
    result = init("--yes")

    assert result.exit_code == 0, result.output
    assert rules(project) == [("deny", "delete_order"), ("ask", "send_mail")]
    assert yaml.safe_load((project / POLICY).read_text())["mode"] == "monitor"
    assert policy("check", POLICY).exit_code == 0
    tested = policy("test", POLICY)
    assert (tested.exit_code, tested.stderr) == (0, "3 cases: 3 green, 0 red\n"), tested.output


def test_only_rules_that_deny_get_a_reason_that_the_model_reads(project: Path) -> None:
    init("--yes")

    denies, asks = yaml.safe_load((project / POLICY).read_text())["policies"]
    assert denies["reason"].startswith("This tool is not allowed here.")
    assert asks == {"ask": "send_mail", "severity": "medium"}


def test_the_cases_stay_green_when_the_policy_is_enforced_and_see_a_rule_that_is_gone(
    project: Path,
) -> None:
    init("--yes")
    file = project / POLICY
    file.write_text(file.read_text().replace("\nmode: monitor\n", "\nmode: enforce\n"))
    assert policy("test", POLICY).exit_code == 0

    file.write_text(file.read_text().replace("delete_order", "delete_other"))
    assert policy("test", POLICY).exit_code == 1


def test_it_says_the_line_where_it_goes_and_three_commands(project: Path) -> None:
    lines = init("--yes").stdout.splitlines()

    assert "Add this line to app.py, below its imports, so after line 3:" in lines
    start = lines.index("Then:")
    line = lines[start - 2]
    assert line == (
        '    import otelhooks; otelhooks.instrument(policies="policies/agents.yaml",'
        " approvals=otelhooks.approvals.Terminal())"
    )
    commands = [text.strip() for text in lines[start + 1 :] if text.startswith("    ")]
    assert [re.sub(r"^.*(otelhooks|python) ", "", text) for text in commands] == [
        "policy test policies/agents.yaml",
        "app.py",
        "trace show",
    ]
    assert lines[-1] == "Nothing is stopped until policies/agents.yaml says `mode: enforce`."


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "Add this line to the file that you start, below its imports:"),
        ("import agents\n", "Add this line to app.py, below its imports, so after line 1:"),
        ("print(1)\nimport agents\n", "Add this line to app.py, as its first line:"),
        (
            "import agents, otelhooks\n\notelhooks.instrument()\n",
            "app.py:3 calls instrument() already. Make that call:",
        ),
        ('"""A text\nof two lines."""\nimport agents\n', "so after line 3:"),
    ],
)
def test_the_place_of_the_line_is_that_of_the_file(project: Path, source: str, said: str) -> None:
    (project / "app.py").write_text(source)

    assert said in init("--yes").stdout


ASKS = "otelhooks.approvals.Terminal()"


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (
            "import otelhooks\notelhooks.instrument(policies=[r])",
            f"otelhooks.instrument(policies=[r, '{POLICY}'], approvals={ASKS})",
        ),
        (
            "import otelhooks as oh\nhandle = oh.instrument(policies=RULES, approvals=ask)",
            f"oh.instrument(policies=[*RULES, '{POLICY}'], approvals=ask)",
        ),
        (
            "from otelhooks import instrument\ninstrument(policies='a.yaml, governed')",
            f"instrument(policies=['a.yaml', 'governed', '{POLICY}'], approvals={ASKS})",
        ),
        (
            "import otelhooks\notelhooks.instrument(policies=HERE / 'a.yaml')",
            f"otelhooks.instrument(policies=[HERE / 'a.yaml', '{POLICY}'], approvals={ASKS})",
        ),
        (
            "import otelhooks\notelhooks.instrument(policies='policies')",
            f"otelhooks.instrument(policies='policies', approvals={ASKS})",
        ),
        (
            "import otelhooks\notelhooks.instrument(\n    mode='monitor',  # for now\n)",
            f"otelhooks.instrument(mode='monitor', policies=['{POLICY}'], approvals={ASKS})",
        ),
    ],
)
def test_a_call_of_instrument_that_is_there_is_shown_with_what_it_lacks(
    project: Path, program: str, line: str
) -> None:
    (project / "app.py").write_text(f"import agents\n{program}\n")

    lines = init("--yes").stdout.splitlines()
    below = ", below `import otelhooks`" if program.startswith("from") else ""
    assert f"app.py:3 calls instrument() already. Make that call{below}:" in lines
    assert lines[lines.index("Then:") - 2].strip() == line


def test_settings_that_are_not_in_the_file_are_to_hold_what_the_call_lacks(project: Path) -> None:
    (project / "app.py").write_text("import otelhooks\notelhooks.instrument(**settings)\n")

    said = init("--yes").stdout
    assert "app.py:2 calls instrument() already. Add to the settings that it is given:" in said
    assert f'    policies="{POLICY}", approvals={ASKS}\n' in said


def test_a_call_that_lacks_nothing_stays_as_it_is(project: Path) -> None:
    line = init("--yes").stdout.partition("after line 3:")[2].splitlines()[2].strip()
    (project / "app.py").write_text(f"import agents\n{line}\n")

    said = init("--yes", "--force").stdout
    assert "app.py:2 calls instrument() already, with this policy." in said
    assert "Add" not in said


def test_a_call_in_another_file_than_the_entry_is_found(project: Path) -> None:
    (project / "watch.py").write_text("import otelhooks\notelhooks.instrument()\n")

    said = init("--yes").stdout
    assert "watch.py:2 calls instrument() already. Make that call:" in said
    assert "app.py" in said


def test_a_file_with_a_call_that_none_imports_is_the_one_to_start(project: Path) -> None:
    """The command said to start the other file, which ran unguarded."""
    (project / "first.py").write_text("import agents, otelhooks\notelhooks.instrument()\n")

    said = init("--yes").stdout
    assert " first.py\n" in said.partition("Then:")[2]
    assert "No file imports first.py. If you start another one, such as app.py, add" in said

    (project / "app.py").write_text(f"import first\n{SHOP}")
    said = init("--yes", "--force").stdout
    assert " app.py\n" in said.partition("Then:")[2]
    assert "No file imports" not in said


def test_a_variable_is_not_the_name_of_a_tool(project: Path) -> None:
    (project / "app.py").write_text(
        "import otelhooks\nimport other\n"
        "made = {f.__name__: otelhooks.tool(f) for f in other.ALL}\n"
        "for g in other.ALL: otelhooks.tool(g)\n"
        "def wrapped(h): return otelhooks.tool(h)\n"
        "kept = otelhooks.tool(other.keep)\n"
    )
    assert [tool.name for tool in survey(project).tools] == ["keep"]


def test_a_suggested_rule_is_not_warned_about(project: Path) -> None:
    (project / "app.py").write_text("import agents\n")
    assert "warning" not in init("--yes").stderr
    assert rules(project)[1] == ("ask", "run_command")


@pytest.mark.parametrize("mode", ["monitor", "enforce"])
def test_the_comment_about_modes_is_about_the_one_that_was_chosen(project: Path, mode: str) -> None:
    init("--yes", "--mode", mode)
    text = (project / POLICY).read_text()
    assert ("nothing is stopped" in text) is (mode == "monitor")
    assert f"\nmode: {mode}\n" in text


def test_instrument_of_another_package_is_no_call_of_ours(project: Path) -> None:
    (project / "app.py").write_text("import agents, other\nother.Tracer().instrument()\n")

    assert "Add this line to app.py" in init("--yes").stdout


def test_a_program_that_imports_otelhooks_is_not_told_to_import_it_again(project: Path) -> None:
    (project / "app.py").write_text("import otelhooks\nimport agents\n")

    assert "import otelhooks;" not in init("--yes").stdout


@pytest.mark.parametrize(
    ("paths", "entry"),
    [
        (["a.py", "main.py"], "main.py"),
        (["deep/main.py", "other.py"], "deep/main.py"),
        (["one.py", "tests/main.py", "test_main.py"], "one.py"),
        (["one.py", "two.py"], None),
        (["one.py", "guarded.py"], "guarded.py"),
    ],
)
def test_the_entry_is_found_or_left_open(project: Path, paths: list[str], entry: str) -> None:
    (project / "app.py").unlink()
    for path in paths:
        file = project / path
        file.parent.mkdir(exist_ok=True)
        guard = 'if __name__ == "__main__":\n    pass\n' if path == "guarded.py" else ""
        file.write_text(f"import agents\n{guard}")

    found = survey(project).entry
    assert (None if found is None else found.path) == entry


GUARD = 'if __name__ == "__main__":\n    pass\n'


@pytest.mark.parametrize(
    "server", ["from mcp.server import MCPServer", "from fastmcp import FastMCP", "import fastmcp"]
)
def test_a_server_of_tools_is_not_taken_for_the_program_of_the_agent(
    project: Path, server: str
) -> None:
    (project / "app.py").rename(project / "shop.py")
    (project / "a_server.py").write_text(f"{server}\n{GUARD}")

    assert "Add this line to shop.py," in (said := init("--yes").stdout)
    assert "a_server.py" not in said.partition("Add this line")[2]


def test_a_server_of_tools_alone_is_the_program(project: Path) -> None:
    (project / "app.py").write_text("from mcp.server import MCPServer\n")
    (project / "b.py").write_text(f"from mcp.server import MCPServer\n{GUARD}")

    assert "Add this line to b.py," in init("--yes").stdout


def test_a_client_of_servers_may_be_the_program(project: Path) -> None:
    (project / "app.py").write_text("import agents\n")
    (project / "b.py").write_text(f"from mcp import ClientSession\n{GUARD}")

    assert "Add this line to b.py," in init("--yes").stdout


def test_other_files_that_can_be_started_are_named(project: Path) -> None:
    (project / "b.py").write_text(f"import agents\n{GUARD}")
    (project / "c.py").write_text("import agents\n")

    said = init("--yes").stdout
    assert "Add this line to app.py," in said
    assert "\nIf you start another file, such as b.py, add it there.\n" in said


def test_spans_go_where_the_answer_says(project: Path) -> None:
    collector = init("--yes", "--spans", "collector").stdout
    nowhere = init("--yes", "--spans", "none", "--force").stdout

    assert "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318" in collector
    assert "doctor --telemetry" in collector
    assert "OTEL_SDK_DISABLED=true" in nowhere
    assert "trace show" not in collector + nowhere


# -- flags and answers ------------------------------------------------------------------------


def test_flags_name_tools_servers_globs_and_kinds_and_each_has_a_green_case(project: Path) -> None:
    result = init("--deny", "kind:shell, github/delete_*", "--deny", "drop_[ab]", "--ask", "*")

    assert result.exit_code == 0, result.output
    assert rules(project) == [
        ("deny", "kind:shell"),
        ("deny", "github/delete_*"),
        ("deny", "drop_[ab]"),
        ("ask", "*"),
    ]
    suite = yaml.safe_load((project / CASES).read_text())
    assert [case["verdict"] for case in suite["cases"]] == ["deny", "deny", "deny", "ask", "ask"]
    assert policy("test", POLICY).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mode", "monitr"], "Did you mean 'monitor'?"),
        (["--spans", "colector"], "Did you mean 'collector'?"),
        (["--spans", "xyz"], "is not one of 'local', 'collector', 'none'."),
        (["--mod", "monitor"], "--mode"),
        (["--deny", "kind:shel"], "unknown kind `kind:shel`"),
        (["--deny", "a", "--ask", "a"], "`a` is both denied and asked about"),
        (["--deny", "a\u200bb"], "cannot be seen"),
        (["--deny", "delete_order drop"], "hint: write commas between tools"),
        (["--ask", "pay_bill find_x"], "`pay_bill find_x` is not one tool"),
        (["--dir", "nowhere"], "does not exist"),
    ],
)
def test_what_cannot_be_used_is_an_error_and_nothing_is_written(
    project: Path, arguments: list[str], said: str
) -> None:
    result = init(*arguments)

    assert result.exit_code == 2
    assert said in result.stderr
    assert sorted(path.name for path in project.iterdir()) == ["app.py"]


def test_a_name_that_no_file_defines_is_said(project: Path) -> None:
    result = init("--deny", "nope_tool,files/x,read_*,kind:shell,delete_order,delete_ordr")

    warnings = [line for line in result.stderr.splitlines() if "warning" in line]
    assert warnings == [
        "otelhooks: warning: no file defines `delete_ordr`: did you mean `delete_order`?",
        "otelhooks: warning: no file defines `nope_tool`",
    ]


def test_a_framework_may_have_a_tool_with_blanks_in_its_name(project: Path) -> None:
    result = init("--ask", "Delegate work to coworker")

    assert "no file defines `Delegate work to coworker`" in result.stderr
    assert rules(project) == [("ask", "Delegate work to coworker")]


def test_a_name_that_is_almost_a_tools_is_said_and_written_as_it_was_given(project: Path) -> None:
    result = init("--deny", "delete_ordr")

    assert "no file defines `delete_ordr`: did you mean `delete_order`?" in result.stderr
    assert rules(project) == [("deny", "delete_ordr")]


def test_without_a_terminal_nothing_is_asked_and_that_is_said(project: Path) -> None:
    result = init()

    assert (result.exit_code, rules(project)[0]) == (0, ("deny", "delete_order"))
    assert "There is no terminal: these are the default answers." in result.stderr


def test_if_flags_answer_everything_no_default_is_spoken_of(project: Path) -> None:
    answered = init("--deny", "delete_order", "--spans", "none", "--mode", "enforce")

    assert "No terminal" not in answered.stderr


def test_a_project_without_risky_tools_gets_rules_for_what_any_agent_may_be_given(
    project: Path,
) -> None:
    (project / "app.py").write_text("import agents\n")
    init("--yes")

    assert rules(project) == [("deny", "delete_*"), ("ask", "run_command")]
    assert policy("test", POLICY).exit_code == 0


def test_tools_that_only_read_need_no_question_and_those_that_act_do(project: Path) -> None:
    tools = ("read_mail", "getEmail", "list_orders", "get_order", "fetch_and_send", "mail_user")
    functions = "".join(f"@agents.function_tool\ndef {tool}(): ...\n" for tool in tools)
    (project / "app.py").write_text(f"import agents\n{functions}")
    init("--yes")

    assert rules(project) == [("ask", "fetch_and_send"), ("ask", "mail_user")]


# -- what is found ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from langchain_core.tools import tool\n@tool\ndef a(): ...\n", ["a"]),
        ("from langchain_core.tools import tool\n@tool('b')\ndef a(): ...\n", ["b"]),
        ("import crewai\n@crewai.tools.tool('Drop it')\ndef a(): ...\n", ["Drop it"]),
        ("import strands\n@strands.tool(name='b')\nasync def a(): ...\n", ["b"]),
        ("from pydantic_ai import Agent\nx = Agent()\n@x.tool_plain\ndef a(): ...\n", ["a"]),
        ("from mcp.server import FastMCP\ns = FastMCP()\n@s.tool()\ndef a(): ...\n", ["a"]),
        ("from google.adk import Agent\ndef a(): ...\nAgent(tools=[a])\n", ["a"]),
        ("from google import adk\ndef a(): ...\nadk.Agent(tools=(a,))\n", ["a"]),
        ("import llama_index.core as l\ndef a(): ...\nl.FunctionTool.from_defaults(a)\n", ["a"]),
        (
            "import llama_index.core as l\ndef a(): 0\nl.FunctionTool.from_defaults(a, name='b')\n",
            ["b"],
        ),
        ("import pydantic_ai as p\ndef a(): 0\np.FunctionToolset([a]).prefixed('b')\n", ["a"]),
        ("import pydantic_ai as p\ndef a(): 0\np.Tool(a, name='b')\n", ["b"]),
        ("import pydantic_ai as p\ndef a(): 0\nt = p.Set()\nt.add_function(a, name='b')\n", ["b"]),
        ("import pydantic_ai as p\ndef a(): 0\nt = p.Set()\nt.add_function(a)\n", ["a"]),
        ("import fastmcp as f\ndef a(): 0\ns = f.FastMCP()\ns.add_tool(a)\n", ["a"]),
        (
            "import fastmcp as f\nt = f.a()\nf.tools.Tool.from_tool(t, name='b')\n",
            ["b"],
        ),
        (
            "import haystack as h\ndef a(): 0\nh.tools.create_tool_from_function(a, name='b')\n",
            ["b"],
        ),
        ("from crewai.tools import BaseTool\nclass A(BaseTool):\n    name: str = 'a'\n", ["a"]),
        ("import openai\nt = {'name': 'a', 'description': '', 'parameters': {}}\n", ["a"]),
        ("import anthropic\nt = [{'name': 'a', **{}, 'input_schema': {}}]\n", ["a"]),
        ("import otelhooks\n@otelhooks.tool\ndef a(): ...\n", ["a"]),
        ("import agents\n@agents.function_tool(name_override=NAME)\ndef a(): ...\n", []),
        ("import unknown\n@unknown.tool\ndef a(): ...\n", []),
        ("import openai\nt = {'name': 'a'}\n", []),
    ],
)
def test_tools_are_found_by_the_ways_in_which_frameworks_are_told_of_them(
    project: Path, source: str, found: list[str]
) -> None:
    (project / "app.py").write_text(source)

    assert names(project) == found


def test_a_function_that_another_file_defines_is_found_where_an_agent_lists_it(
    project: Path,
) -> None:
    (project / "work.py").write_text("def refund(): ...\n")
    (project / "app.py").write_text(
        "import agents, work\nagents.Agent('x', tools=[work.refund, work.other])\n"
    )

    assert names(project) == ["refund"]


def test_frameworks_are_those_imported_then_those_declared_and_unguarded_ones_are_named(
    project: Path,
) -> None:
    (project / "other.py").write_text("from smolagents import Tool\nfrom .agents import x\n")
    (project / "requirements.txt").write_text("# agents\n-r more.txt\nStrands.Agents[otel]>=1\n")
    found = {each.name: each for each in survey(project).frameworks}

    assert list(found) == ["langchain", "openai_agents", "smolagents", "strands"]
    assert [each.is_imported for each in found.values()] == [True, True, True, False]
    assert not found["smolagents"].is_guarded
    shown = init("--yes").stdout
    assert "strands-agents not installed here  (requirements.txt, and no file imports it)" in shown
    assert "NOT GUARDED: decorate its tools with @otelhooks.tool" in shown


def test_each_imported_package_of_a_framework_is_shown(project: Path) -> None:
    (project / "other.py").write_text("from langchain_core.tools import tool\n")
    (project / "requirements.txt").write_text("langgraph\nlangchain-core\n")
    shown = init("--yes").stdout

    assert len(re.findall(r"^  langgraph .*\(app.py\)", shown, re.MULTILINE)) == 1
    assert len(re.findall(r"^  langchain-core .*\(other.py\)", shown, re.MULTILINE)) == 1


def test_a_notebook_is_said_to_be_left_out(project: Path) -> None:
    (project / "work.ipynb").write_text("{}")

    assert "not read: work.ipynb: notebooks are not read" in init("--yes").stdout


def test_a_module_of_the_project_is_no_framework(project: Path) -> None:
    (project / "agents").mkdir()
    (project / "agents" / "mine.py").write_text("x = 1\n")

    assert [each.name for each in survey(project).frameworks] == ["langchain"]


def test_without_a_framework_it_says_so_and_writes_a_policy_all_the_same(project: Path) -> None:
    (project / "app.py").write_text("print(1)\n")
    result = init("--yes")

    assert "No agent framework was found" in result.stdout
    assert policy("test", POLICY).exit_code == 0


def test_a_folder_without_python_is_an_error_that_says_where_to_run_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    result = init("--yes", "--dir", str(tmp_path))

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"there is no Python file in `{tmp_path}`" in result.stderr
    assert "hint: run it in your project's folder, or name that with --dir" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "work.ipynb").write_text("{}")
    assert init("--yes", "--dir", str(tmp_path)).exit_code == 0


def test_requirements_of_a_project_file_are_read_where_python_can(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        "[project]\ndependencies = ['crewai>=1']\nkeywords = ['mcp']\n"
        "[dependency-groups]\ndev = ['haystack-ai', {include-group = 'x'}]\n"
        "[tool.poetry.dependencies]\nlitellm = '*'\n"
    )
    declared = {f.name for f in survey(project).frameworks if not f.is_imported}

    assert declared == ({"crewai", "haystack", "litellm"} if has_toml() else set())


def has_toml() -> bool:
    return importlib.util.find_spec("tomllib") is not None


# -- files that are in the way ----------------------------------------------------------------


def test_what_is_there_already_stays_unless_it_is_to_be_replaced(project: Path) -> None:
    (project / "policies").mkdir()
    (project / POLICY).write_text("mine")

    result = init("--yes")
    assert (result.exit_code, (project / POLICY).read_text()) == (2, "mine")
    assert "already exists" in result.stderr
    assert not (project / CASES).exists()

    assert init("--yes", "--force").exit_code == 0
    assert policy("test", POLICY).exit_code == 0


def test_cases_that_are_there_keep_the_policy_from_being_written(project: Path) -> None:
    (project / CASES).parent.mkdir(parents=True)
    (project / CASES).write_text("mine")

    assert init("--yes").exit_code == 2
    assert (project / CASES).read_text() == "mine"
    assert not (project / POLICY).exists()


def test_a_file_in_the_way_of_a_folder_is_an_error_with_nothing_left_behind(project: Path) -> None:
    (project / "policies").mkdir()
    (project / "policies" / "cases").write_text("a file")

    result = init("--yes")

    assert (result.exit_code, result.stderr.count("cannot be written")) == (2, 1)
    assert sorted(path.name for path in (project / "policies").iterdir()) == ["cases"]


@pytest.mark.parametrize("step", ["fdopen", "replace"])
def test_a_disk_that_is_full_leaves_all_files_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    number = 0
    owner = os if step == "fdopen" else Path
    real = getattr(owner, step)

    def second_fails(*given: object, **named: object) -> object:
        nonlocal number
        number += 1
        if number == 2:
            raise OSError(28, "No space left on device")
        return real(*given, **named)

    monkeypatch.setattr(owner, step, second_fails)
    with pytest.raises(ConfigError, match="No space left"):
        write_new({tmp_path / "a.yaml": "a", tmp_path / "b.yaml": "b"})

    assert list(tmp_path.iterdir()) == []


def test_files_are_written_for_the_loader_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_new({tmp_path / "a.yaml": "a"})
    finally:
        os.umask(before)

    assert (tmp_path / "a.yaml").stat().st_mode & 0o777 == 0o644


# -- attacks: the project was written by somebody else, or by an agent --------------------------

HOSTILE = [
    'x\n  - allow: "*"',
    'x"\n  - allow: "*',
    "x: y, allow: '*'",
    "x # comment",
    "{deny: x}",
    "&a",
    "*a",
    "!!python/object:os.system",
    "---",
    "no",
    "null",
    "1e3",
    "010",
    "*",
    "delete_*",
    "[a-z]",
    "kind:shell",
    "server/tool",
    "\x1b[2J",
    "\u202edelete",
    "\u200b",
    " x",
    "",
    "d" * 100_000,
    "a,b",
    "${HOME}",
    "{mode}",
    "%s",
    "../../etc/passwd",
    "\ud800",
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_no_name_in_the_source_becomes_anything_but_one_rule_about_that_tool(
    project: Path, name: str
) -> None:
    source = f"import agents\n@agents.function_tool(name_override={name!a})\ndef f(): ...\n"
    (project / "app.py").write_text(source + SHOP)
    offered = [found for found in names(project) if found == name]

    result = init("--yes", *(["--deny", name] if offered and "," not in name else []))

    assert result.exit_code == 0, result.output
    written = rules(project)
    assert {verb for verb, _ in written} <= {"deny", "ask"}
    assert {tool for _, tool in written} <= {name, "delete_order", "send_mail"}
    assert (("deny", name) in written) is bool(offered)
    assert policy("check", POLICY).exit_code == 0
    assert policy("test", POLICY).exit_code == 0
    assert not set(result.output) & {"\x1b", "\u202e", "\u200b"}


@pytest.mark.parametrize("name", ["*", "delete_*", "kind:shell", "server/tool", "a,b", "[a-z]"])
def test_a_name_that_a_rule_takes_for_more_is_left_out_and_that_is_said(
    project: Path, name: str
) -> None:
    (project / "app.py").write_text(f"import agents\n@agents.tool({name!r})\ndef f(): ...\n")

    assert names(project) == []
    assert (
        "left out, because a rule with this name is about other tools: app.py:" in init("-y").stdout
    )


def test_links_are_not_followed_and_neither_are_pipes(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("import crewai\n")
    (project / "linked").symlink_to(outside)
    (project / "linked.py").symlink_to(outside / "secret.py")
    (project / "round").symlink_to(project)
    (project / "requirements.txt").symlink_to(outside / "secret.py")
    if hasattr(os, "mkfifo"):
        os.mkfifo(project / "pipe.py")  # reading it would wait for a writer

    found = survey(project)

    assert (found.files, found.unread) == (1, ())
    assert "crewai" not in {each.name for each in found.frameworks}


@pytest.mark.parametrize("part", ["policies", "policies/cases"])
def test_a_link_out_of_the_folder_is_not_written_through(
    project: Path, tmp_path: Path, part: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / part).parent.mkdir(exist_ok=True)
    (project / part).symlink_to(outside)

    result = init("--yes", "--force")

    assert (result.exit_code, list(outside.iterdir())) == (2, [])
    assert "leads out of the folder" in result.stderr


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["new", "force"])
def test_a_link_in_the_place_of_the_policy_never_changes_what_it_leads_to(
    project: Path, tmp_path: Path, force: list[str]
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (project / "policies").mkdir()
    (project / POLICY).symlink_to(precious)

    assert init("--yes", *force).exit_code == (0 if force else 2)
    assert precious.read_text() == "mine"


def test_a_dangling_link_is_no_way_to_make_a_file_elsewhere(project: Path, tmp_path: Path) -> None:
    (project / "policies").mkdir()
    (project / POLICY).symlink_to(tmp_path / "made")

    assert init("--yes").exit_code == 2
    assert not (tmp_path / "made").exists()


def test_environments_and_large_trees_are_skipped_and_bounds_are_said(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (".venv/lib", "node_modules/x", "site-packages", ".git", "mine", "build"):
        (project / folder).mkdir(parents=True)
        (project / folder / "x.py").write_text("import crewai\n")
    (project / "mine" / "pyvenv.cfg").write_text("")
    assert [each.path for each in files.read(project).modules] == ["app.py"]

    for number in range(5):
        (project / f"{number}.py").write_text("")
    monkeypatch.setattr(files, "MAX_FILES", 3)
    found = survey(project)
    assert (found.files, found.is_cut) == (3, True)
    assert "not read: more files than this command looks at" in init("--yes").stdout


def test_folders_without_end_come_to_an_end(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FOLDERS", 3)
    for number in range(5):
        (project / str(number)).mkdir()
        (project / str(number) / "x.py").write_text("")

    found = files.read(project)
    assert (len(found.modules), found.is_cut) == (3, True)


@pytest.mark.parametrize(
    "content",
    [
        b"def (:",
        b"\xff\xfe",
        b"a\0b",
        b"# coding: nope\n",
        b"x" + b".a" * 90_000,
        b"not " * 40_000 + b"1",
        b"-" * 150_000 + b"1",
        b"(" * 90_000,
        b"x" * 200_001,
    ],
    ids=lambda content: ascii(content[:6]),
)
def test_a_file_that_cannot_be_parsed_is_said_and_the_others_are_read(
    project: Path, content: bytes
) -> None:
    (project / "broken.py").write_bytes(content)
    result = init("--yes")

    assert result.exit_code == 0
    assert "delete_order" in result.stdout
    deep = sys.version_info < (3, 11) and content.startswith(b"x.a")
    assert ("not read: broken.py: " in result.stdout) is not deep


def test_names_of_files_cannot_write_to_the_terminal(project: Path) -> None:
    (project / "a\x1b[2J\n.py").write_text("import crewai\n")
    (project / "b\x1b[2J\n.py").write_text("(")

    shown = init("--yes").output

    assert "\x1b" not in shown
    assert "\\x1b" in shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [("-c print(1)#.py", "'./-c print(1)#.py'"), ("a\x1b]0;x\x07\n b #.py", "your_program.py")],
)
def test_the_command_for_an_odd_file_name_runs_no_other_thing(
    name: str, shown: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("import crewai\nif __name__ == '__main__': ...\n")
    result = init("--yes", "--dir", str(tmp_path))

    lines = [line for line in result.stdout.splitlines() if line.endswith(f" {shown}")]
    assert len(lines) == 1
    assert "\x1b" not in result.stdout
