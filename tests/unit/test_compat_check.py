"""`python -m otelhooks.hooks.compat.check`: what it says of a file, and what it changes in it."""

from __future__ import annotations

import ast
import json
import os
import runpy
import stat
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from click.testing import CliRunner

from otelhooks_migrate.check import check
from otelhooks_migrate.source import MOST_BYTES

if TYPE_CHECKING:
    from click.testing import Result

GUARD = """\
from google.antigravity.hooks import policy, pre_tool_call_decide
from google.antigravity.types import HookResult, ToolCall


@pre_tool_call_decide
async def guard(data: ToolCall) -> HookResult:
    return HookResult(allow="rm" not in data.args["CommandLine"])


rules = [policy.deny("run_command"), policy.allow_all()]
"""


class Said(NamedTuple):
    """One record of `--json`, without the file."""

    place: str
    verdict: str
    name: str
    write: str
    reason: str


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(check, [str(each) for each in arguments])


@pytest.fixture
def said(tmp_path: Path) -> Any:
    """A function of source that returns what is said about it, in order."""

    def about(source: str) -> list[Said]:
        file = tmp_path / "given.py"
        file.write_text(source, encoding="utf-8", newline="")
        return [
            Said(
                f"{each['line']}:{each['column']}",
                each["verdict"],
                each["name"],
                each["write"],
                each["reason"],
            )
            for each in json.loads(run("--json", file).stdout)
        ]

    return about


@pytest.fixture
def changed(tmp_path: Path) -> Any:
    """A function of source that returns it after `--write`."""

    def after(source: str) -> str:
        file = tmp_path / "given.py"
        file.write_text(source, encoding="utf-8", newline="")
        run("--write", file)
        text = file.read_bytes().decode("utf-8")
        ast.parse(text)
        return text

    return after


# -- imports --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "write"),
    [
        ("import google.antigravity.hooks", "import otelhooks.hooks"),
        ("import google.antigravity.hooks.policy as p", "import otelhooks.hooks.policy as p"),
        ("from google.antigravity import hooks", "from otelhooks import hooks"),
        ("from google.antigravity import types as t", "from otelhooks import types as t"),
        ("from google.antigravity import BuiltinTools", "from otelhooks.types import BuiltinTools"),
        ("from google.antigravity import policy", "from otelhooks import policy"),
        ("from google.antigravity.hooks import policy", "from otelhooks.hooks import policy"),
        (
            "from google.antigravity.hooks.hook_runner import HookRunner as R",
            "from otelhooks.hooks.hook_runner import HookRunner as R",
        ),
        (
            "from google.antigravity.utils.interactive import QuestionResponse",
            "from otelhooks.types import QuestionResponse",
        ),
        ("from hedera_agent_kit import AbstractHook", "from otelhooks.hooks import AbstractHook"),
        (
            "from hedera_agent_kit.shared.policy import AbstractPolicy as P",
            "from otelhooks.policy import AbstractPolicy as P",
        ),
        (
            "from hedera_agent_kit.policies import RejectToolPolicy",
            "from otelhooks.policy import RejectToolPolicy",
        ),
    ],
)
def test_the_new_import_is_spelled_out_and_works(said: Any, statement: str, write: str) -> None:
    (only,) = said(statement)

    assert (only.verdict, only.write) == ("works", write)
    exec(write, {})


def test_each_name_of_an_import_has_a_place_of_its_own(said: Any) -> None:
    found = said("é = 1; from google.antigravity.types import (\n    ToolCall,\n    HookResult)\n")

    assert [each.place for each in found] == ["2:5", "3:5"]


def test_columns_count_characters(said: Any) -> None:
    (found,) = said("é = '→'; import google.antigravity.hooks\n")

    assert found.place == "1:17"


@pytest.mark.parametrize(
    "statement",
    [
        "from google.antigravity import Agent",
        "from google.antigravity.agent import Agent",
        "from google.antigravity import agent, tools, utils",
        "import google.antigravity.agent\ngoogle.antigravity.agent.Agent()",
        "from hedera_agent_kit import plugins",
        "from google.antigravity import ToolContext",
        "from google.antigravity.types import CapabilitiesConfig",
        "import google.antigravity.triggers",
        "import google.antigravity",
        "from google.antigravity.types import AntigravityExecutionError",
        "from hedera_agent_kit import Context, Configuration",
        "from hedera_agent_kit.langchain.toolkit import HederaLangchainToolkit",
        "from hedera_agent_kit.shared import hook",
    ],
)
def test_what_is_neither_a_hook_nor_a_policy_stays(said: Any, statement: str) -> None:
    assert {each.verdict for each in said(statement)} == {"stays"}


@pytest.mark.parametrize(
    "statement",
    [
        "from google.antigravity.hooks import NoSuchHook",
        "from google.antigravity.hooks.hooks import Hook",
        "from google.antigravity.hooks.policy import _policy_sort_key",
        "from google.antigravity.utils import otel",
        "from google.antigravity.utils.otel import get_otel_hooks",
        "from google.antigravity.utils.interactive import run_interactive_loop",
        "from hedera_agent_kit.hooks import HolAuditTrailHook",
    ],
)
def test_what_is_not_here_is_missing_with_a_reason(said: Any, statement: str) -> None:
    (only,) = said(statement)

    assert only.verdict == "missing"
    assert only.reason
    assert not only.write


@pytest.mark.parametrize(
    "source",
    [
        "",
        "import os",
        "from google.cloud import storage",
        "import google.auth",
        "import google",
        "from . import hooks",
        "from .google.antigravity import hooks",
        "from googlex.antigravity import hooks",
        "import google.antigravity2",
        "class A(Unknown): x = y.z",
    ],
)
def test_other_packages_are_none_of_our_business(tmp_path: Path, source: str) -> None:
    file = tmp_path / "other.py"
    file.write_text(source, encoding="utf-8")

    done = run(file)

    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "no hooks or policies of another package\n"


def test_a_star_import_is_said_to_bring_other_names_and_its_names_are_followed(said: Any) -> None:
    star, use = said("from google.antigravity.hooks.policy import *\nworkspace_only.x\n")[:2]

    assert (star.verdict, star.write) == ("differs", "from otelhooks.hooks.policy import ...")
    assert (use.place, use.name) == ("2:1", "google.antigravity.hooks.policy.workspace_only")


# -- uses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "from google.antigravity.hooks import policy\npolicy.workspace_only(['.'])",
        "from google.antigravity import policy as p\np.workspace_only(['.'])",
        "import google.antigravity.hooks.policy as p\np.workspace_only(['.'])",
        "import google.antigravity.hooks.policy\ngoogle.antigravity.hooks.policy.workspace_only()",
        "from google.antigravity.hooks import policy\np = policy\np.workspace_only(['.'])",
        "def f():\n    from google.antigravity import policy\n    policy.workspace_only(['.'])",
        (
            "try:\n  from google.antigravity import policy\nexcept ImportError:\n  policy = None\n"
            "policy.workspace_only(['.'])"
        ),
        "from google.antigravity import policy\nclass A:\n  def f(s): policy.workspace_only()",
        "from google.antigravity import policy\nx = [policy.workspace_only(y) for y in z]",
        "from google.antigravity import policy\nx = lambda y=policy.workspace_only: y",
        "from google.antigravity import policy\n@policy.workspace_only\ndef f(): ...",
        "from google.antigravity import policy\ndef f() -> policy.workspace_only: ...",
        (
            "from google.antigravity import policy\nasync def f():\n  global policy\n"
            "  return policy.workspace_only()"
        ),
    ],
)
def test_aliases_are_followed_to_where_a_name_differs(said: Any, source: str) -> None:
    differs = [each for each in said(source) if each.verdict == "differs"]

    assert [each.name.rpartition(".")[2] for each in differs] == ["workspace_only"]
    assert "enforced here" in differs[0].reason


@pytest.mark.parametrize(
    "source",
    [
        "def f(policy): return policy.workspace_only()",
        "def f(*policy): return policy.workspace_only",
        "lambda policy: policy.workspace_only()",
        "[policy.workspace_only() for policy in x]",
        "def f():\n  policy = g()\n  policy.workspace_only()",
        "def f():\n  with x as policy:\n    policy.workspace_only()",
        "def f():\n  for policy in x: policy.workspace_only()",
        "def f():\n  try: ...\n  except E as policy: policy.workspace_only()",
        "def f():\n  match x:\n    case [*policy]: policy.workspace_only()",
        "def f():\n  match x:\n    case {**policy}: policy.workspace_only()",
        "def f():\n  match x:\n    case policy: policy.workspace_only()",
        "def f():\n  class policy: ...\n  policy.workspace_only()",
        "class A:\n  workspace_only = 1\n  def f(self): return self.workspace_only",
    ],
)
def test_a_name_that_is_bound_again_is_not_the_imported_one(said: Any, source: str) -> None:
    found = said(f"from google.antigravity.hooks import policy\n{source}\n")

    assert [each.verdict for each in found] == ["works"]


def test_a_circle_of_aliases_ends(said: Any) -> None:
    assert said("a = b\nb = a\na.b.c\n") == []


def test_a_name_that_works_is_said_at_its_first_use_only(said: Any) -> None:
    found = said("from google.antigravity import types\ntypes.ToolCall\ntypes.ToolCall\n")

    assert [(each.place, each.verdict) for each in found] == [("1:32", "works"), ("2:1", "works")]
    assert found[1].write == ""  # the import is what changes


@pytest.mark.parametrize(
    ("call", "name", "reason"),
    [
        ("policy.workspace_only(workspaces=[])", "workspace_only(workspaces)", "`dirs`"),
        ("policy.auto(model='m')", "auto(model)", "not used"),
        ("policy.AutoPolicy(None, 'n', 'm')", "AutoPolicy(2)", "by keyword"),
        ("policy.deny('x', severity=1)", "deny(severity)", "takes no such keyword"),
        ("hook_runner.HookRunner(_pre_step_hooks=[])", "HookRunner(_pre_step_hooks)", "no point"),
        ("runner.dispatch_post_tool_call(c, result=1)", "post_tool_call(result)", "`tool_result`"),
        ("made.dispatch_post_tool_call(c, result=1)", "post_tool_call(result)", "`tool_result`"),
        ("quoted.dispatch_post_tool_call(c, result=1)", "post_tool_call(result)", "`tool_result`"),
        ("runner.dispatch_pre_step(1, 2)", "HookRunner.dispatch_pre_step", "no point"),
        ("LocalAgentConfig(hooks=[])", "LocalAgentConfig(hooks)", "instrument(hooks=[...])"),
        ("LocalAgentConfig(policies=[])", "LocalAgentConfig(policies)", "instrument(policies="),
        ("PreToolExecutionParams(1, 2, 3, 4)", "PreToolExecutionParams()", "StageParams"),
        (
            "configs.LocalAgentConfig(hooks=[])",
            "LocalAgentConfig(hooks)",
            "instrument(hooks=[...])",
        ),
        ("Context(hooks=[])", "Context(hooks)", "instrument(hooks=[...])"),
    ],
)
def test_arguments_that_differ_are_named(said: Any, call: str, name: str, reason: str) -> None:
    found = said(
        "from google.antigravity import LocalAgentConfig\n"
        "from google.antigravity.connections.local import local_connection_config as configs\n"
        "from google.antigravity.hooks import policy, hook_runner\n"
        "from hedera_agent_kit import Context, PreToolExecutionParams\n"
        "made = hook_runner.HookRunner()\n"
        "def f(runner: hook_runner.HookRunner, quoted: 'hook_runner.HookRunner', **kw):\n"
        f"    {call}\n    str(*kw, **kw)\n    quoted.other\n    other: '1 +' = 1\n    other.x\n"
    )
    (one,) = [each for each in found if each.name.endswith(name)]

    assert one.verdict in {"differs", "missing"}
    assert reason in one.reason


def test_keywords_of_records_and_of_open_signatures_are_not_counted(said: Any) -> None:
    found = said("from google.antigravity.types import ToolCall\nToolCall(name='x', more=1, **y)\n")

    assert [each.verdict for each in found] == ["works"]


def test_a_module_under_an_alias_has_only_what_its_counterpart_has(said: Any) -> None:
    """`types.CapabilitiesConfig` would be gone with the import of `types` changed."""
    found = said(
        "from google.antigravity import types\nimport google.antigravity.hooks as h\n"
        "import google.antigravity as g\n"
        "types.CapabilitiesConfig\nh.policy.deny\ng.types.ToolCall\ng.Agent\n"
        "types.UsageMetadata\ntypes.__file__\n"
    )[3:]

    assert [(each.place, each.verdict) for each in found] == [
        ("4:1", "stays"),
        ("5:1", "differs"),
        ("6:1", "differs"),
        ("8:1", "missing"),
    ]
    assert found[3].reason.startswith("write `otelhooks.types.Usage`")
    assert found[0].reason.startswith("import it by its name: `from google.antigravity.types impo")
    assert found[1].reason == "import it by its name: `from otelhooks.hooks.policy import deny`"


def test_text_that_names_a_module_is_found(said: Any) -> None:
    found = said(
        '"""google.antigravity.hooks"""\nimportlib.import_module("google.antigravity.hooks")\n'
        'patch("google.antigravity.hooks.policy.enforce", "no name.", "google.antigravity.agent",'
        ' "google.antigravity.utils.otel")\n'
    )

    assert [(each.place, each.write) for each in found] == [
        ("2:25", "otelhooks.hooks"),
        ("3:7", "otelhooks.hooks.policy.enforce"),
        ("3:90", ""),
    ]


# -- classes --------------------------------------------------------------------------------------


def test_members_that_a_class_overrides_are_said_to_differ(said: Any) -> None:
    found = said(
        "from google.antigravity.hooks.hook_runner import HookRunner\n"
        "class Mine(HookRunner):\n    async def dispatch_pre_turn(self, prompt): ...\n"
    )

    assert [(each.place, each.verdict) for each in found] == [("1:50", "works"), ("3:5", "differs")]


@pytest.mark.parametrize(
    "change",
    [
        "call.args['x'] = 1",
        "call.args['x'] += 1",
        "del call.args['x']",
        "call.args = {}",
        "call.args['list'].append(1)",
        "call.args.update(x=1)",
        "args = call.args; args.pop('x')",
        "call.args['x'].y.z = 1",
    ],
)
@pytest.mark.parametrize(
    "hook",
    [
        "@h.pre_tool_call_decide\ndef guard(call):\n    {}",
        "@h.pre_tool_call_decide\nasync def guard(context, *, call):\n    {}",
        "@h.pre_tool_call_decide\ndef guard(call: ToolCall, c: 'h.HookContext'):\n    {}",
        "class Guard(h.PreToolCallDecideHook):\n  async def run(self, context, call):\n    {}",
    ],
)
def test_arguments_that_a_hook_changes_in_place_are_found(
    said: Any, hook: str, change: str
) -> None:
    found = said(f"import google.antigravity.hooks as h\n{hook.format(change)}\n")[-1]

    assert (found.verdict, found.place.partition(":")[0]) == ("differs", "4")
    assert "in place" in found.reason


@pytest.mark.parametrize(
    "line",
    [
        "args = dict(call.args); args['x'] = 1",
        "call.args.get('x')",
        "seen['x'] = call.args",
        "seen.update(call.args)",
        "other.args['x'] = 1",
        "call.name = 'x'",
        "f(call)['x'] = 1",
    ],
)
@pytest.mark.parametrize(
    "hook",
    [
        "@h.pre_tool_call_decide\ndef guard(call):\n    {}",
        "@h.pre_tool_call_decide\ndef guard(context):\n    {}",
        "class Guard(h.PreToolCallDecideHook):\n  async def run(self): {}\n  async def other(s): 1",
        "@plain\ndef guard(call):\n    call.args['x'] = 1; {}",
    ],
)
def test_what_changes_something_else_is_not(said: Any, hook: str, line: str) -> None:
    found = said(f"import google.antigravity.hooks as h\n{hook.format(line)}\n")

    assert {each.verdict for each in found} == {"works"}


KIT = "from hedera_agent_kit import AbstractHook, AbstractPolicy\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("class P(AbstractPolicy): relevant_tools = []", "overrides no `should_block_...`"),
        ("class H(AbstractHook): ...", "without `relevant_tools`"),
        ("class H(AbstractHook): name: str = 'x'", "without `relevant_tools`"),
        (
            (
                "class P(AbstractPolicy):\n  def should_block_pre_tool_execution(s, *a): ...\n"
                "  async def pre_tool_execution_hook(s, *a): ..."
            ),
            "override `should_block_pre_tool_execution`",
        ),
    ],
)
def test_classes_that_cannot_be_defined_or_registered_here_are_found(
    said: Any, body: str, reason: str
) -> None:
    assert reason in said(KIT + body)[2].reason


@pytest.mark.parametrize(
    "body",
    [
        "class H(AbstractHook): relevant_tools = ['x']",
        "class H(AbstractHook): relevant_tools: list = ['x']",
        "class H(AbstractHook):\n  @property\n  def relevant_tools(self): return []",
        "class H(AbstractHook):\n  def __init__(self): self.relevant_tools = []",
        "class A(AbstractHook): relevant_tools = []\nclass B(A): ...",
        "class A(AbstractHook[int]): relevant_tools = []\nclass B(A, x[0]): ...",
        "class P(AbstractPolicy):\n  should_block_post_core_action = blocks",
        "class A(A): ...",
    ],
)
def test_classes_that_are_complete_are_not(said: Any, body: str) -> None:
    assert len(said(KIT + body)) == 2


# -- the command ----------------------------------------------------------------------------------


def test_lines_say_place_verdict_name_and_new_import(tmp_path: Path) -> None:
    file = tmp_path / "guard.py"
    file.write_text(GUARD, encoding="utf-8")

    done = run(file)

    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == (
        f"{file}:1:38: works: `google.antigravity.hooks.policy`; "
        "write `from otelhooks.hooks import policy`"
    )
    assert done.stderr == "6 works\n"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("from google.antigravity.hooks import policy", 0),
        ("from google.antigravity import Agent", 0),
        ("from google.antigravity.policy import auto", 1),
        ("from google.antigravity.utils import otel", 1),
        ("def", 2),
    ],
)
def test_exit_codes_are_for_scripts(tmp_path: Path, source: str, code: int) -> None:
    file = tmp_path / "given.py"
    file.write_text(source, encoding="utf-8")

    assert run(file).exit_code == code


def test_without_the_checker_one_hint_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "otelhooks_migrate":
                raise ModuleNotFoundError(name=name)

    for name in [each for each in sys.modules if each.startswith("otelhooks_migrate")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Gone, *sys.meta_path])
    with pytest.raises(SystemExit) as left:
        runpy.run_module("otelhooks.hooks.compat.check", run_name="__main__")

    hint = 'hint: `pip install "otelhooks[migrate]"`'
    assert left.value.code == 2
    assert capsys.readouterr().err == f"error: the checker is not installed\n{hint}\n"


def test_a_checker_with_a_part_missing_is_not_taken_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "otelhooks_migrate.check", None)
    with pytest.raises(ModuleNotFoundError, match=r"otelhooks_migrate\.check"):
        runpy.run_module("otelhooks.hooks.compat.check", run_name="__main__")


def test_the_checker_is_of_the_version_whose_names_it_knows() -> None:
    assert version("otelhooks-migrate") == version("otelhooks")


def test_one_file_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(GUARD, encoding="utf-8")
    bad.write_text("def f(:\n", encoding="utf-8")

    done = run(bad, good, tmp_path / "none.py")

    assert done.exit_code == 2
    assert f"error: {bad}:1:7: no Python of this version: " in done.stderr
    assert f"error: {tmp_path / 'none.py'}: no such file or directory\n" in done.stderr
    assert f"{good}:1:38: works" in done.stdout


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"x = '\xff'\n", "not in the encoding that it declares"),
        (b"# coding: nonsense\n", "not in the encoding that it declares"),
        (b"x = 1\0\n", ""),
        (b"(" * 10_000, ""),
        (b"-" * 100_000 + b"1", ""),
        (b"lambda: " * 400 + b"1", "nested too deeply"),
        (b"# " + b"x" * MOST_BYTES, "larger than 5 MB"),
    ],
    ids=[
        "not utf-8",
        "unknown coding",
        "null",
        "brackets",
        "deep",
        "functions",
        "huge",
    ],
)
def test_a_file_that_is_not_source_is_an_error_that_names_it(
    tmp_path: Path, content: bytes, error: str
) -> None:
    file = tmp_path / "given.py"
    file.write_bytes(content)

    done = run(file)

    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {file}:1") or "larger" in done.stderr
    assert error in done.stderr


def test_a_long_chain_of_attributes_is_read_or_refused(tmp_path: Path) -> None:
    """Which of the two depends on the Python."""
    file = tmp_path / "given.py"
    file.write_bytes(b"x" + b".a" * 50_000)

    done = run(file)

    assert done.exit_code in {0, 2}
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_a_folder_and_a_pipe_are_not_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert f"error: {tmp_path}: no file\nhint: " in run(tmp_path).stderr
    assert run(tmp_path / "pipe").exit_code == 2  # without waiting for a writer


def test_declared_encodings_are_read(said: Any, tmp_path: Path) -> None:
    file = tmp_path / "latin.py"
    file.write_bytes(
        "# coding: latin-1\nx = 'é'; import google.antigravity.hooks\n".encode("latin-1")
    )

    assert f"{file}:2:17: works" in run(file).stdout


def test_a_long_sum_is_read(said: Any) -> None:
    found = said("from google.antigravity import policy\nx = policy.deny" + " + 1" * 2_000 + "\n")

    assert [each.place for each in found] == ["1:32", "2:5"]


def test_json_cannot_be_mixed_with_a_diff(tmp_path: Path) -> None:
    assert run("--json", "--diff", tmp_path).exit_code == 2


# -- new imports ----------------------------------------------------------------------------------


def test_a_diff_shows_the_new_imports_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "guard.py"
    file.write_text(GUARD, encoding="utf-8")

    done = run("--diff", file)

    assert "-from google.antigravity.types import HookResult, ToolCall\n" in done.stdout
    assert "+from otelhooks.types import HookResult, ToolCall\n" in done.stdout
    assert file.read_text(encoding="utf-8") == GUARD


def test_a_changed_file_runs_and_decides(tmp_path: Path) -> None:
    file = tmp_path / "guard.py"
    file.write_text(
        f"{GUARD}\nimport asyncio\nasked = asyncio.run(policy.enforce(rules).run(None,"
        " ToolCall(name='run_command')))\nassert asked.message == \"Denied by policy"
        " 'run_command'.\"\n",
        encoding="utf-8",
    )
    file.chmod(0o640)

    done = run("--write", file)

    assert done.stderr.startswith(f"{file}: imports changed\n")
    runpy.run_path(str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(tmp_path.iterdir()) == [file]
    assert run(file).stderr == "no hooks or policies of another package\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "from google.antigravity.types import (\n    ToolCall,  # kept\n)\n",
            "from otelhooks.types import (\n    ToolCall,  # kept\n)\n",
        ),
        (
            "from google.antigravity import Agent, types, BuiltinTools as B\n",
            (
                "from google.antigravity import Agent\nfrom otelhooks import types\n"
                "from otelhooks.types import BuiltinTools as B\n"
            ),
        ),
        (
            "if x:\r\n\tfrom google.antigravity import Agent, types\r\n",
            "if x:\r\n\tfrom google.antigravity import Agent\r\n\tfrom otelhooks import types\r\n",
        ),
        ("from google.antigravity import types", "from otelhooks import types"),
        (
            "import google.antigravity.hooks as h, os\nh.PreTurnHook\n",
            "import otelhooks.hooks as h, os\nh.PreTurnHook\n",
        ),
        (
            (
                "import google.antigravity.hooks\nx = google.antigravity.hooks.policy.deny('é') or"
                " google.antigravity.hooks.PreTurnHook\n"
            ),
            (
                "import otelhooks.hooks, otelhooks.hooks.policy\nx = "
                "otelhooks.hooks.policy.deny('é') or otelhooks.hooks.PreTurnHook\n"
            ),
        ),
        ("import google.antigravity.hooks\n", "import otelhooks.hooks\n"),
        ("from google.antigravity import Agent\n", "from google.antigravity import Agent\n"),
        (
            "from hedera_agent_kit import Context, AbstractHook, AbstractPolicy\n",
            (
                "from hedera_agent_kit import Context\nfrom otelhooks.hooks import AbstractHook\n"
                "from otelhooks.policy import AbstractPolicy\n"
            ),
        ),
        (
            f"from hedera_agent_kit import Context, AbstractHook as {'H' * 70}\n",
            (
                "from hedera_agent_kit import Context\n"
                f"from otelhooks.hooks import (\n    AbstractHook as {'H' * 70},\n)\n"
            ),
        ),
    ],
)
def test_imports_are_changed_and_nothing_else(changed: Any, before: str, after: str) -> None:
    assert changed(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "from google.antigravity.hooks.hooks import Hook, PreTurnHook\n",
        "from google.antigravity.hooks import *\n",
        "from google.antigravity import types\ntypes.CapabilitiesConfig\n",
        "from google.antigravity import Agent, types  # both\n",
        "x = 1; from google.antigravity import Agent, types\n",
        "from google.antigravity import Agent, types; x = 1\n",
        "from google.antigravity import (\n    Agent,\n    # a comment\n    types,\n)\n",
        "from google.antigravity.\\\n  hooks import policy\n",
        "from google import antigravity\nantigravity.types.ToolCall\n",
        "import google.antigravity\ngoogle.antigravity.Agent, google.antigravity.types.ToolCall\n",
        "import google.antigravity.hooks\nx = 'google.antigravity.hooks'\n",
        # There it would record nothing any more, unnoticed.
        "from hedera_agent_kit import Context, HcsAuditTrailHook as T\nContext(hooks=[T([])])\n",
    ],
)
def test_a_file_that_needs_a_human_is_left_as_it_is(
    tmp_path: Path, changed: Any, source: str
) -> None:
    assert changed(source) == source

    done = run("--diff", tmp_path / "given.py")
    assert ": imports not changed: " in done.stderr
    assert "+++" not in done.stdout
    assert done.exit_code == 1


@pytest.mark.parametrize("text", ["def", GUARD])
def test_what_does_not_come_out_clean_is_never_written(
    changed: Any, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr("otelhooks_migrate.check.rewrite", lambda *_: text)

    assert changed(f"import google.antigravity.hooks\n{GUARD}").startswith("import google.anti")


def test_a_file_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "guard.py"
    file.write_text(GUARD, encoding="utf-8")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    done = run("--write", file)

    assert done.exit_code == 2
    assert f"error: {file}: cannot be written: Permission denied\n" in done.stderr
    assert sorted(tmp_path.iterdir()) == [file]
    assert file.read_text(encoding="utf-8") == GUARD


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "guard.py", tmp_path / "link.py"
    file.write_text(GUARD, encoding="utf-8")
    link.symlink_to(file)

    run("--write", link)

    assert link.is_symlink()
    assert "otelhooks" in file.read_text(encoding="utf-8")
