"""``otelhooks run``, with real processes and a stand-in for the package in the child."""

import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from otelhooks.cli import cli
from otelhooks.cli.run import AUTOSTART, environment, spawn

STAND_IN = """
import os
class Handle:
    def set_global_providers(self):
        print("instrumented", os.environ.get("OTELHOOKS_RUN"), flush=True)
def instrument():
    {body}
    return Handle()
"""
# the parent is the real command; only its children see the stand-in
PARENT = (
    "import os, sys\nfrom otelhooks.cli import main\nos.environ['PYTHONPATH'] = {path!r}\nmain()"
)


@pytest.fixture
def run(tmp_path):
    """Run ``otelhooks run`` with these arguments; `body` is what the stand-in does."""

    def run(*command, body="pass", start=subprocess.run, **options):
        package = tmp_path / "lib" / "otelhooks"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(STAND_IN.format(body=body))
        (package / "errors.py").write_text("class ConfigError(ValueError): pass\n")
        code = PARENT.format(path=str(tmp_path / "lib"))
        options = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return start([sys.executable, "-c", code, "run", "--", *command], cwd=tmp_path, **options)

    return run


def _invoke(*arguments):
    return CliRunner().invoke(cli, ["run", *arguments])


def test_the_program_runs_instrumented_with_its_arguments_and_exit_code(run, tmp_path):
    (tmp_path / "app.py").write_text("import sys\nprint(sys.argv)\nsys.exit(7)\n")

    result = run(sys.executable, "app.py", "--flag", "x y")

    assert result.stdout == "instrumented 1\n['app.py', '--flag', 'x y']\n"
    assert (result.returncode, result.stderr) == (7, "")


def test_the_program_warns_of_a_variable_and_not_the_command_as_well(run):
    result = run(sys.executable, "-c", "", env={**os.environ, "OTELHOOKS_FOO": "1"})
    assert (result.returncode, result.stderr) == (0, "")


def test_a_python_child_of_the_program_is_instrumented_too(run):
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1)'])"

    assert run(sys.executable, "-c", code).stdout == "instrumented 1\n" * 2 + "1\n"


def test_a_script_is_run_through_its_first_line(run, tmp_path):
    script = tmp_path / "tool"
    script.write_text(f"#!{sys.executable}\nprint('script')\n")
    script.chmod(0o755)

    assert run("./tool").stdout == "instrumented 1\nscript\n"


def test_the_users_own_sitecustomize_still_runs_and_first(run, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "sitecustomize.py").write_text("print('own')\nvalue = 3\n")

    result = run(sys.executable, "-c", "import sitecustomize; print(sitecustomize.value)")

    assert (result.stdout, result.stderr) == ("own\ninstrumented 1\n3\n", "")


def test_an_error_in_the_users_own_sitecustomize_does_not_switch_us_off(run, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "sitecustomize.py").write_text("1 / 0\n")

    result = run(sys.executable, "-c", "print('app')")

    assert result.stdout == "instrumented 1\napp\n"
    assert "ZeroDivisionError" in result.stderr


def test_our_folder_is_not_on_the_path_of_the_program(run):
    result = run(
        sys.executable, "-c", "import sys; print([p for p in sys.path if 'autostart' in p])"
    )

    assert result.stdout == "instrumented 1\n[]\n"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            "from otelhooks.errors import ConfigError; raise ConfigError('bad policy')",
            "error: otelhooks could not start, so the program does not run: bad policy\n",
        ),
        ("raise KeyError('bug')", "Traceback"),
    ],
)
def test_if_otelhooks_cannot_start_the_program_does_not_run(run, body, shown):
    result = run(sys.executable, "-c", "print('app')", body=body)

    assert result.returncode == 2
    assert "app" not in result.stdout
    assert shown in result.stderr


@pytest.mark.parametrize("is_child", [False, True])
def test_a_python_without_otelhooks_does_not_run_but_a_child_does(tmp_path, monkeypatch, is_child):
    """`-S` leaves out site-packages; sitecustomize is imported by hand then."""
    monkeypatch.setenv("PYTHONPATH", "")
    env = {**environment(), "OTELHOOKS_RUN_PID": "1" if is_child else str(os.getpid())}
    code = "import sitecustomize; print('app')"

    result = subprocess.run(
        [sys.executable, "-S", "-c", code], env=env, cwd=tmp_path, text=True, capture_output=True
    )

    assert "otelhooks is not installed for `" in result.stderr
    expected = ("app\n", "otelhooks: warning: ", 0) if is_child else ("", "error: ", 2)
    assert (result.stdout, result.stderr[: len(expected[1])], result.returncode) == expected


def test_a_signal_reaches_the_program_and_its_end_is_passed_on(run):
    code = "import time; print('up', flush=True); time.sleep(30)"
    with run(sys.executable, "-c", code, start=subprocess.Popen) as process:
        assert process.stdout.readline() == "instrumented 1\n"
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)

        assert process.wait(10) == -signal.SIGTERM


def test_running_under_run_twice_adds_the_folder_once(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(AUTOSTART), "lib"]))

    assert environment()["PYTHONPATH"] == os.pathsep.join([str(AUTOSTART), "lib"])


def test_a_program_that_does_not_exist_is_an_error():
    result = _invoke("--", "no-such-program-here")

    assert result.exit_code == 2
    assert result.stderr.startswith("error: program not found: `no-such-program-here`\nhint: ")


def test_a_python_file_alone_is_an_error_that_says_how(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").touch()
    result = _invoke("app.py")

    assert result.exit_code == 2
    assert (
        "`app.py`: it is not executable\nhint: for a Python file use `otelhooks run -- python"
        in (result.stderr)
    )


def test_a_file_the_system_cannot_execute_is_an_error(tmp_path, run):
    (tmp_path / "data.bin").write_bytes(b"\x00\x01")
    (tmp_path / "data.bin").chmod(0o755)
    result = run("./data.bin")

    assert result.returncode == 2
    assert "error: program cannot be run: `./data.bin`: Exec format error" in result.stderr


@pytest.mark.parametrize("flags", [["-I"], ["-uE"], ["-W", "error", "-S"], ["-Xdev", "-sI"]])
def test_flags_that_would_leave_otelhooks_out_are_an_error(flags):
    result = _invoke("--", sys.executable, *flags, "-c", "print(1)")

    assert result.exit_code == 2
    assert "error: Python would run without otelhooks: `-" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["-c", "pass", "-I"], ["-W", "error", "-um", "timeit", "-n1", "-S"], ["-Wignore::E"]],
)
def test_flags_of_the_program_itself_are_its_own(run, arguments):
    arguments = [*arguments, "-c", "pass"] if arguments == ["-Wignore::E"] else arguments

    result = run(sys.executable, *arguments)

    assert result.stdout.startswith("instrumented 1\n")


def test_without_a_command_the_usage_is_shown():
    result = _invoke()

    assert result.exit_code == 2
    assert "Missing argument 'COMMAND...'" in result.stderr


@pytest.fixture
def default_interrupt():
    """Have interrupts raise, as in a program at a terminal; one in the background ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


class TestSpawn:
    """The way on Windows, which works everywhere."""

    def test_it_passes_the_exit_code(self):
        command = (sys.executable, "-c", "raise SystemExit(5)")

        assert spawn(sys.executable, command, dict(os.environ)) == 5

    def test_it_passes_a_signal_as_shells_do(self):
        code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

        assert spawn(sys.executable, (sys.executable, "-c", code), dict(os.environ)) == 137

    def test_an_interrupt_is_left_to_the_child(self):
        parent = (
            "import os, sys\nfrom otelhooks.cli.run import spawn\n"
            "child = 'import signal, sys, time\\n"
            "signal.signal(signal.SIGINT, lambda *a: sys.exit(9))\\n"
            "print(1, flush=True); time.sleep(30)'\n"
            "sys.exit(spawn(sys.executable, (sys.executable, '-c', child), dict(os.environ)))"
        )
        command = [sys.executable, "-c", parent]
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
            assert process.stdout.readline() == b"1\n"
            time.sleep(0.1)  # the parent is in wait() by then
            os.killpg(process.pid, signal.SIGINT)

            assert process.wait(10) == 9

    def test_an_interrupt_when_the_child_has_just_ended_does_not_lose_its_exit_code(
        self, monkeypatch, default_interrupt
    ):
        waitpid = os.waitpid

        def interrupted(pid, flags):
            found = waitpid(pid, flags)
            signal.raise_signal(signal.SIGINT)
            return found

        monkeypatch.setattr(os, "waitpid", interrupted)
        command = (sys.executable, "-c", "raise SystemExit(9)")

        assert spawn(sys.executable, command, dict(os.environ)) == 9
        assert signal.getsignal(signal.SIGINT) is default_interrupt
