"""The frame of the ``otelhooks`` command."""

import importlib
import sys

import click
import pytest
from click.testing import CliRunner

from otelhooks import __version__, cli
from otelhooks.errors import ConfigError

OWN = ("run", "doctor", "version")


def _invoke(*arguments):
    return CliRunner().invoke(cli.cli, arguments)


@pytest.fixture
def boom(monkeypatch):
    """Add a command ``boom`` that raises; returns a function that sets what."""
    module = type(sys)("fake_command")
    monkeypatch.setitem(sys.modules, "fake_command", module)
    monkeypatch.setitem(cli.COMMANDS, "boom", ("fake_command", "boom", "Raise."))

    def set_error(error):
        @click.command()
        def boom():
            raise error

        module.boom = boom

    return set_error


@pytest.mark.parametrize("name", OWN)
def test_the_line_in_the_list_is_the_first_of_the_commands_own_help(name):
    module, attribute, line = cli.COMMANDS[name]
    command = getattr(importlib.import_module(module), attribute)

    assert command.help.splitlines()[0] == line
    assert line in _invoke(name, "--help").output


def test_version_is_a_command_and_an_option():
    assert _invoke("version").output == f"{__version__}\n"
    assert _invoke("--version").output == f"otelhooks, version {__version__}\n"


def test_an_unknown_command_is_a_usage_error():
    result = _invoke("nope")

    assert result.exit_code == cli.ExitCode.USAGE
    assert "No such command 'nope'" in result.stderr


def test_an_error_of_otelhooks_is_words_and_exit_code_2(boom):
    boom(ConfigError("policy cannot be read: `x.yaml`", hint="check the path"))
    result = _invoke("boom")

    assert result.exit_code == cli.ExitCode.USAGE
    assert result.stderr == "error: policy cannot be read: `x.yaml`\nhint: check the path\n"
    assert result.stdout == ""


def test_a_mistake_of_ours_shows_its_traceback_and_exit_code_3(boom):
    boom(ZeroDivisionError("oops"))
    result = _invoke("boom")

    assert result.exit_code == cli.ExitCode.UNEXPECTED
    assert "Traceback" in result.stderr
    assert "error: unexpected: ZeroDivisionError('oops')\nhint: " in result.stderr


@pytest.mark.parametrize(
    ("error", "code"), [(SystemExit(1), 1), (click.UsageError("no"), 2), (click.Abort(), 1)]
)
def test_exits_of_commands_keep_their_code(boom, error, code):
    boom(error)

    assert _invoke("boom").exit_code == code


def test_a_reader_that_leaves_ends_the_command_quietly(boom):
    boom(BrokenPipeError(32, "Broken pipe"))
    result = _invoke("boom")

    assert (result.exit_code, result.stderr) == (141, "")


@pytest.mark.parametrize("exporter", [None, "none"])
def test_a_demo_suggests_commands_only_for_traces_that_are_in_its_store(
    monkeypatch, tmp_path, exporter
):
    import otelhooks
    from otelhooks.cli import demo

    def run():
        with otelhooks.session(), otelhooks.turn("hi", agent="a"):
            pass

    module = type(sys)("otelhooks.demo.with_fake")
    module.run = run
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(demo, "STORIES", {"fake": ((), "")})
    if exporter is not None:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", exporter)
    store = tmp_path / "demo.db"
    output = CliRunner().invoke(demo.demo, ["--store", str(store)]).output
    assert ("trace show last" in output) == (exporter is None)
    assert ("the traces went elsewhere" in output) == (exporter is not None)
