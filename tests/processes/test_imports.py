"""What an import, a command's help and `instrument()` load: nothing heavy before it is used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from otelhooks import cli
from tests.test_public_api import NOT_AT_IMPORT

LOADED = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"


def loaded_by(code: str, *flags: str) -> set[str]:
    """Return the modules of a program that has done this and nothing else."""
    run = subprocess.run(
        [sys.executable, *flags, "-c", code + LOADED], capture_output=True, text=True, check=True
    )
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_import_loads_no_framework_no_sdk_and_nothing_heavy() -> None:
    # -I: no environment variable and no working folder can add modules of their own.
    loaded = loaded_by("import otelhooks", "-I") - loaded_by("", "-I")

    assert "otelhooks" in loaded
    assert {m for m in loaded if any(f"{m}.".startswith(f"{n}.") for n in NOT_AT_IMPORT)} == set()


def test_importing_the_trail_loads_neither_pipeline_nor_telemetry() -> None:
    code = """
import importlib.util, sys, types
# The package itself loads what it likes: an empty one stands in for it.
spec = importlib.util.find_spec("otelhooks")
sys.modules["otelhooks"] = package = types.ModuleType("otelhooks")
package.__path__ = spec.submodule_search_locations
import otelhooks.audit
"""
    heavy = {"otelhooks.hooks", "otelhooks.types", "pydantic", "opentelemetry.sdk", "click"}
    assert not loaded_by(code) & {*heavy, "sqlite3"}


def test_importing_the_audit_hooks_does_not_import_hederas_sdk() -> None:
    assert "hiero_sdk_python" not in loaded_by("import otelhooks.audit, otelhooks")


def test_importing_the_chooser_of_providers_does_not_import_the_sdk() -> None:
    loaded = loaded_by(
        "import otelhooks.config, otelhooks.telemetry.providers, otelhooks.telemetry.metrics\n"
        "import otelhooks.telemetry.events, otelhooks.telemetry.content"
    )
    assert not loaded & {"opentelemetry.sdk", "sqlite3", "opentelemetry.exporter", "yaml"}


def test_the_machinery_imports_no_framework_and_no_sdk() -> None:
    """It also leaves out the heavy modules that are to be imported where they are used."""
    loaded = loaded_by("import otelhooks.setup.guarded, otelhooks.patching.patches")
    assert not loaded & {"agents", "mcp", "langchain_core", "langgraph", "yaml", "packaging"}
    assert not loaded & {"click", "opentelemetry.sdk", "opentelemetry.instrumentation"}
    assert not loaded & {"sqlite3", "rich"}


def test_help_lists_every_command_and_imports_none_of_them() -> None:
    code = (
        "import sys\nfrom otelhooks.cli import COMMANDS, main\nsys.argv[1:] = ['--help']\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "modules = {module for module, _, _ in COMMANDS.values()} - {'otelhooks.cli'}\n"
        "print([name for name in (*modules, 'rich', 'sqlite3', 'opentelemetry.sdk', 'mcp')\n"
        "       if name in sys.modules])"
    )

    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout

    assert all(f"\n  {name} " in output for name in cli.COMMANDS)
    assert output.endswith("[]\n")


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return loaded_by(
        "import otelhooks\nfrom otelhooks import policy\n"
        "otelhooks.instrument(policies=[policy.deny('run_command')])"
    )


class TestStart:
    """A program that has called `instrument()` and done nothing yet."""

    def test_instrumenting_imports_no_framework(self, loaded: set[str]) -> None:
        packages = {name.partition(".")[0] for name in loaded}
        frameworks = {"agents", "langchain", "langchain_core", "langgraph", "mcp", "openai"}
        assert not packages & frameworks
        assert not packages & {"yaml", "ruamel", "click", "rich", "starlark", "pydantic"}

    def test_instrumenting_loads_no_adapter_of_a_framework_that_is_not_imported(
        self, loaded: set[str]
    ) -> None:
        assert not {name for name in loaded if name.startswith("otelhooks.frameworks.")}

    def test_instrumenting_builds_no_model(self, loaded: set[str]) -> None:
        """A model takes a millisecond to build; a quoted annotation or base class asks for none."""
        models = {"mcp_servers", "calls", "hook_result", "steps", "media"}
        assert not loaded & {f"otelhooks.records.{name}" for name in models}

    def test_what_few_programs_use_is_not_loaded(self, loaded: set[str]) -> None:
        assert not loaded & {
            "otelhooks.policy.auto_policy",
            "otelhooks.audit.trail",
            "otelhooks.policy.workspace",
            "otelhooks.policy.files",
            "otelhooks.policy.labels",
            "otelhooks.policy.limits.limit",
        }

    def test_a_program_with_providers_of_its_own_loads_nothing_that_builds_any(self) -> None:
        loaded = loaded_by(
            "from opentelemetry.sdk.metrics import MeterProvider\n"
            "from opentelemetry.sdk.trace import TracerProvider\n"
            "import otelhooks\notelhooks.instrument("
            "tracer_provider=TracerProvider(), meter_provider=MeterProvider())"
        )
        assert not loaded & {
            "opentelemetry._logs",
            "otelhooks.telemetry.exporters",
            "otelhooks.telemetry.sdk",
        }

    def test_nothing_for_policy_files_is_imported_without_any(self) -> None:
        assert not loaded_by("import otelhooks; otelhooks.instrument()") & {"starlark", "yaml"}
