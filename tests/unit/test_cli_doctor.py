"""``otelhooks doctor`` on a fake framework."""

import importlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from click.testing import CliRunner

import otelhooks
from otelhooks import __version__, policy
from otelhooks.cli import cli
from otelhooks.patching.builtin import BuiltIn
from otelhooks.patching.patches import Adapter, NotCovered, Package, Seat
from otelhooks.policy.mcp import pins
from otelhooks.setup import catalogue, guarded
from otelhooks.types import McpStdioServer

FAKES = Path(__file__).parent / "fake_frameworks"


@dataclass
class _Proof:
    framework: str
    version: str
    proved: bool
    detail: str


@pytest.fixture
def doctor(tmp_path, monkeypatch):
    """Run doctor with one adapter, on a fake framework of a version."""
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.syspath_prepend(str(tmp_path))

    def doctor(*arguments, version="1.4.0", seats=("helper", "Tool.run"), proofs=None, further=()):
        if version:
            info = tmp_path / "fake_fw-0.dist-info"
            info.mkdir()
            text = f"Metadata-Version: 2.1\nName: fake-fw\nVersion: {version}\n"
            (info / "METADATA").write_text(text)
        importlib.invalidate_caches()
        table = tuple(Seat("fakefw.tools", name) for name in seats)
        table += (
            Seat("fakefw.agent", "Agent.later", required=False),
            Seat("fakefw.newer", "Agent.run", required=False),  # this version has no such module
        )
        module = ModuleType("otelhooks.frameworks.fake")
        module.ADAPTER = Adapter(
            "fake",
            (Package(("fake-fw",), ">=1.2,<2", "fakefw", table),),
            (NotCovered("kept functions", "they hold no seat"), *further),
            built_in={
                "fakefw.tools:Bash": BuiltIn("bash", ("run_command",), "shell"),
                "fakefw.tools:Search": BuiltIn("search", (), "net", is_hosted=True),
                "fakefw.tools:Finish": BuiltIn("finish"),
            },
            in_part=(("agent.stop", "a run is not sent on"),),
            offline={"FAKEFW_OFFLINE": "1", "FAKEFW_CACHE": "none"},
        )
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(catalogue, "ADAPTERS", {"fake": ("fakefw",)})
        if proofs is not None:
            prove = ModuleType("otelhooks.frameworks.proof")
            prove.prove_all = lambda: proofs
            monkeypatch.setitem(sys.modules, prove.__name__, prove)
        return CliRunner().invoke(cli, ["doctor", *arguments])

    yield doctor
    for name in [name for name in sys.modules if name.partition(".")[0] == "fakefw"]:
        del sys.modules[name]


def test_a_guarded_framework_is_shown_with_its_seats_tools_and_gaps(doctor):
    result = doctor("--all")

    assert result.stdout == (
        "FRAMEWORK  DISTRIBUTION  VERSION  SUPPORTED  STATE    SEATS\n"
        "fake       fake-fw       1.4.0    >=1.2,<2   patched  2/3\n"
        "fake-fw: optional seat missing: fakefw.agent.Agent.later\n"
        "\n"
        "Built-in tools (a rule for one of the words on the right matches the tool on the left)\n"
        "  fake  bash    run_command, kind:shell\n"
        "  fake  search  kind:net, runs at the provider\n"
        "\n"
        "Not covered\n"
        "  fake  kept functions  they hold no seat\n"
        "\n"
        "In part (events of hook files, and rules)\n"
        "  fake  agent.stop  a run is not sent on\n"
        "\n"
        "Questions of ask rules\n"
        "  no answer within 300 s denies (approval_timeout: default)\n"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert guarded.coverage() == ()


def test_without_all_it_tells_what_is_here_what_is_wrong_and_what_no_seat_covers(doctor):
    more = [NotCovered(f"calls of the {word} kind", "no seat") for word in ("first", "second")]
    result = doctor(further=more)

    assert result.stdout == (
        "FRAMEWORK  DISTRIBUTION  VERSION  STATE    SEATS\n"
        "fake       fake-fw       1.4.0    patched  2/3\n"
        "SEATS: guarded/known; --all names those that a version does not have\n"
        "\n"
        "Not covered (--all says why)\n"
        "  fake: kept functions; calls of the first kind; calls of the second kind\n"
        "\n"
        "`otelhooks doctor --all` shows more\n"
    )
    assert (result.exit_code, result.stderr) == (0, "")


def test_it_fits_into_80_columns_and_ends_lines_between_words(doctor, monkeypatch):
    monkeypatch.setitem(sys.modules, "fakefw.base", ModuleType("fakefw.base"))
    more = [NotCovered(f"what the part number {n} does by itself", "no seat") for n in range(9)]
    result = doctor(further=more)
    lines = result.stdout.splitlines()

    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines if " " in line.strip())
    words = " ".join(result.stdout.split())
    for gap in more:
        assert gap.what in words


def test_what_is_not_installed_is_counted(doctor):
    result = doctor(version="")

    assert result.stdout == (
        "no supported framework is installed here; functions under @otelhooks.tool,\n"
        "  @otelhooks.model_call and @otelhooks.agent are guarded without one\n"
        "\n"
        "`otelhooks doctor --all` shows more, and the supported packages that are not\n"
        "  here: 1\n"
    )
    assert result.exit_code == 0


def test_a_module_that_can_be_imported_at_the_second_try_is_no_failure(doctor, monkeypatch):
    """In a circle of imports the first one fails, whichever of its modules it begins with."""
    load, failed = importlib.import_module, []

    def once(name, *further):
        if name == "fakefw.tools" and not failed:
            failed.append(name)
            raise ImportError(name)
        return load(name, *further)

    monkeypatch.setattr(importlib, "import_module", once)
    result = doctor()

    assert failed
    assert "cannot be imported" not in result.stdout


def test_a_framework_is_imported_without_the_network(doctor, monkeypatch):
    seen = {}
    monkeypatch.setenv("FAKEFW_CACHE", "mine")
    names = ("FAKEFW_OFFLINE", "FAKEFW_CACHE")
    monkeypatch.setattr(
        guarded, "coverage", lambda: seen.update({name: os.environ[name] for name in names}) or ()
    )
    doctor()
    assert seen == {"FAKEFW_OFFLINE": "1", "FAKEFW_CACHE": "mine"}
    assert ("FAKEFW_OFFLINE" in os.environ, os.environ["FAKEFW_CACHE"]) == (False, "mine")


def test_a_part_that_is_not_covered_has_no_row(doctor):
    seats = (Seat("fakefw.tools", "Tool.stream"),)
    remote = NotCovered("remote agents", "they run elsewhere", seats=seats, module="fakefw")
    result = doctor("--all", further=(remote,))
    rows = [line for line in result.stdout.splitlines() if line.startswith("fake ")]
    assert len(rows) == 1
    assert "fake-fw: remote agents is not covered: they run elsewhere" in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"version": "2.0"}, "fake-fw: this version is not supported"),
        ({"seats": ("helper", "gone")}, "fake-fw: required seat missing: fakefw.tools.gone"),
    ],
)
def test_a_framework_that_is_not_guarded_says_why_and_exits_with_1(doctor, fields, shown, caplog):
    result = doctor(**fields)

    assert shown in result.stdout
    assert "refused" in result.stdout
    assert result.exit_code == 1
    assert not caplog.records


def test_a_framework_that_is_not_installed_is_fine(doctor):
    result = doctor("--all", version="")

    assert "fake       fake-fw       -        >=1.2,<2   not installed  -" in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"), [((), " (--all says why)\n"), (("--all",), ": ImportError(")]
)
def test_a_framework_that_cannot_be_imported_says_so(doctor, monkeypatch, arguments, said):
    monkeypatch.setitem(sys.modules, "fakefw.base", ModuleType("fakefw.base"))
    result = doctor(*arguments)

    assert f"fakefw.tools: cannot be imported{said}" in result.stdout
    assert result.exit_code == 1


def test_json_holds_the_same(doctor):
    report = json.loads(doctor("--json").stdout)

    assert report["version"] == __version__
    assert [row["state"] for row in report["frameworks"]] == ["patched"]
    assert report["frameworks"][0]["not_covered"] == [
        {"what": "kept functions", "why": "they hold no seat"}
    ]
    assert report["built_in_tools"]["fake"][0] == {
        "name": "bash",
        "canonical": ["run_command"],
        "kind": "shell",
        "is_hosted": False,
    }
    assert report["unmatched"] == []
    assert report["in_part"] == [
        {"framework": "fake", "what": "agent.stop", "how_far": "a run is not sent on"}
    ]
    assert report["unfired"] == []
    assert report["failed_imports"] == {}
    assert "proofs" not in report


def test_hook_files_that_never_run_are_listed(doctor, tmp_path):
    """Files for another harness must not look like guards here."""
    script = "script: |\n  def handle(e, p): return allow()"
    (tmp_path / "audits_new_tools.md").write_text(f"---\nevent: meta.tool_added\n{script}\n---\n")
    (tmp_path / "guard.md").write_text(f"---\nevent: tool.pre\n{script}\n---\n")

    result = doctor("--policy", str(tmp_path))

    assert "Hook files that never run (nothing here fires their event)\n" in result.stdout
    assert "  audits_new_tools  meta.tool_added\n" in result.stdout
    assert "  guard" not in result.stdout


@pytest.mark.parametrize(("proved", "code"), [(True, 0), (False, 1)])
def test_prove_exits_with_1_if_one_framework_is_not_proved(doctor, proved, code):
    proofs = [_Proof("mcp", "2.3.0", True, "body not run"), _Proof("fake", "1.4.0", proved, "why")]
    result = doctor("--prove", proofs=proofs)

    last = "  fake  1.4.0  proved  why\n" if proved else "  fake  1.4.0  NOT PROVED  why\n"
    assert result.stdout.endswith(last)
    assert result.exit_code == code


def test_prove_in_json(doctor):
    result = doctor("--prove", "--json", proofs=[_Proof("fake", "1.4.0", False, "ran")])

    expected = {"framework": "fake", "version": "1.4.0", "proved": False, "detail": "ran"}
    assert json.loads(result.stdout)["proofs"] == [expected]
    assert result.exit_code == 1


def test_nothing_to_prove_is_said(doctor):
    result = doctor("--prove", version="", proofs=[])

    assert result.stdout.endswith("  nothing was proved: no supported framework is installed\n")
    assert result.exit_code == 1


class TestInstalledAndNotGuarded:
    """The class: an environment that looks governed, with agents that no rule is asked about."""

    @pytest.fixture
    def others(self, tmp_path):
        folder = tmp_path / "others"
        for name, requires in (("marvin", "openai"), ("openai", ""), ("cohere", "")):
            info = folder / f"{name}-1.0.dist-info"
            info.mkdir(parents=True)
            needs = f"Requires-Dist: {requires}>=1\n" if requires else ""
            (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n{needs}")
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        yield
        sys.path.remove(str(folder))

    @pytest.fixture
    def rules(self, tmp_path):
        path = tmp_path / "rules.yaml"
        path.write_text("policies: [{deny: run_command}]\n")
        return str(path)

    def test_they_are_listed_and_fail_nothing_without_a_policy(self, doctor, others):
        result = doctor()

        listed = (
            "Installed, not guarded (no rule is asked about what they do)\n"
            "  marvin  marvin  1.0\n"
            "  cohere  cohere  1.0\n"
        )
        assert listed in result.stdout
        assert result.exit_code == 0

    def test_with_a_policy_the_answer_is_no(self, doctor, others, rules):
        result = doctor("--policy", rules)

        assert "OTELHOOKS_FRAMEWORKS=marvin=off,cohere=off says that you know" in result.stdout
        assert result.exit_code == 1

    def test_with_the_policy_of_the_variable_too(self, doctor, others, rules, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_POLICIES", rules)
        assert doctor().exit_code == 1

    def test_a_policy_that_can_deny_nothing_fails_nothing(self, doctor, others, rules, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_MODE", "monitor")
        assert doctor("--policy", rules).exit_code == 0

    def test_what_the_settings_turn_off_is_known(self, doctor, others, rules, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_FRAMEWORKS", "marvin=off,cohere=off")
        result = doctor("--policy", rules)

        assert "Installed, not guarded" not in result.stdout
        assert result.exit_code == 0

    def test_json_holds_them(self, doctor, others):
        report = json.loads(doctor("--json").stdout)

        assert report["not_guarded"] == [
            {"framework": name, "distribution": name, "version": "1.0"}
            for name in ("marvin", "cohere")
        ]


def test_rules_for_a_kind_that_no_tool_here_has_are_listed(doctor, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("version: 1\npolicies:\n  - deny: kind:shell\n  - veto: kind:file_write\n")
    result = doctor("--policy", str(file))

    assert "Rules that match nothing" in result.stdout
    assert "  kind:file_write  kind:file_write\n  hint: name the tools" in result.stdout
    report = json.loads(doctor("--json", "--policy", str(file), version="").stdout)
    assert report["unmatched"] == [{"rule": "kind:file_write", "tool": "kind:file_write"}]


class TestTracedByOthers:
    @pytest.fixture
    def logfire(self, tmp_path):
        info = tmp_path / "tracers" / "logfire-5.4.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Name: logfire\nVersion: 5.4.0\n")
        sys.path.insert(0, str(info.parent))
        importlib.invalidate_caches()
        yield
        sys.path.remove(str(info.parent))

    def test_what_could_trace_the_same_agents_is_listed_with_what_to_set(self, doctor, logfire):
        result = doctor()
        assert "Installed, can trace the same agents\n  logfire  5.4.0\nhint:" in result.stdout
        assert 'set spans="annotate"' in result.stdout
        assert result.exit_code == 0

    def test_who_has_chosen_needs_no_hint(self, doctor, logfire, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_SPANS", "auto")
        assert 'set spans="annotate"' not in doctor().stdout

    def test_traces_that_openai_agents_sends_are_told_with_what_ends_that(
        self, doctor, monkeypatch
    ):
        module = SimpleNamespace(GLOBAL_TRACE_PROVIDER=None)
        monkeypatch.setitem(sys.modules, "agents.tracing.setup", module)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        assert "openai-agents sends its own, with prompts and results" in doctor().stdout

    def test_json_holds_both(self, doctor, logfire):
        report = json.loads(doctor("--json").stdout)
        assert report["tracers"] == [{"distribution": "logfire", "version": "5.4.0"}]
        assert report["openai_agents_sends_traces"] is False


def test_the_time_that_people_have_to_answer_is_shown(doctor, monkeypatch):
    assert "no answer within 300 s denies (approval_timeout: default)" in doctor("--all").output
    monkeypatch.setenv("OTELHOOKS_APPROVAL_TIMEOUT", "12.5")
    shown = "no answer within 12.5 s denies (approval_timeout: OTELHOOKS_APPROVAL_TIMEOUT)"
    assert shown in doctor("--all", version=None).output
    assert json.loads(doctor("--json", version=None).stdout)["approval_timeout"] == 12.5


class TestMisspelt:
    """Rules that programs were warned about: named almost like an existing tool."""

    @pytest.fixture
    def told(self):
        otelhooks.instrument(policies=[policy.deny("run_comand")], frameworks=[])
        otelhooks.tool(lambda: 1, name="run_command")()
        otelhooks.uninstrument()

    def test_they_are_taken_from_the_local_store(self, told, doctor):
        result = doctor()

        assert "Rules that met no tool" in result.stdout
        assert "  run_comand  code  run_command\n" in result.stdout
        assert result.exit_code == 0

    def test_json_holds_them(self, told, doctor):
        expected = {"rule": "run_comand", "policy": "code", "tool": "run_command"}
        assert json.loads(doctor("--json").stdout)["misspelt"] == [expected]

    def test_those_that_were_corrected_since_are_left_out(self, told, doctor, tmp_path):
        path = tmp_path / "rules.yaml"
        path.write_text("policies: [{deny: run_command}]\n")
        assert "Rules that met no tool" not in doctor("--policy", str(path)).stdout


@pytest.fixture
def pinned(tmp_path, monkeypatch):
    file = tmp_path / "pins.json"
    file.write_text(pins.text_of({"notes": {"read": {"description": "Read."}}}))
    monkeypatch.setenv("OTELHOOKS_MCP_PINS", f"monitor:{file}")
    monkeypatch.setenv("OTELHOOKS_MCP_SERVERS", f"{__name__}:PINNED")
    return str(file)


def test_pinned_definitions_are_shown(doctor, pinned):
    assert (
        "\nPinned definitions of MCP tools (mcp_pins: monitor)\n"
        f"  {pinned}\n"
        "  notes  1 tool\n"
        "  mail  NOT PINNED: none of its tools is approved\n"
    ) in doctor("--all").stdout


def test_pinned_definitions_are_in_the_report(doctor, pinned):
    assert json.loads(doctor("--json").stdout)["mcp_pins"] == {
        "file": pinned,
        "is_there": True,
        "mode": "monitor",
        "tools": {"notes": 1},
        "not_pinned": ["mail"],
    }


def test_a_missing_file_of_pins_is_shown(doctor, tmp_path, monkeypatch):
    monkeypatch.setenv("OTELHOOKS_MCP_PINS", str(tmp_path / "none.json"))
    result = doctor("--all")
    assert f"  {tmp_path / 'none.json'}  MISSING: no MCP tool is approved\n" in result.stdout


PINNED = [McpStdioServer(name=name, command="x") for name in ("notes", "mail")]
