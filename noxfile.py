"""What can be checked, one session each; `make` prepares `.venv` and calls these.

Sessions do not use nox's own environments. Each needs what one lock file in `tests/locks` says, so
an environment is keyed by the content of its lock and kept in the user's cache folder: it is made
once, whichever session asks first, and never lies in the repository.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import filelock
import nox
from nox.command import CommandFailed

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["test", "lint", "typing"]

ROOT = Path(__file__).parent.resolve()
LOCKS = ROOT / "tests" / "locks"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otelhooks"

# As in the Makefile, for sessions that are called without it.
os.environ.setdefault("UV_SYSTEM_CERTS", "1")
os.environ.setdefault("UV_NATIVE_TLS", "1")
# Python keeps byte code of what a test imports; to compile whole environments takes far longer.
os.environ["UV_COMPILE_BYTECODE"] = "0"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its import fetches a file otherwise

# As in the classifiers of pyproject.toml.
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")

# The fast tests, and those of `tests/processes` that show what a wheel's commands do.
FAST = nox.project.load_toml("pyproject.toml")["tool"]["pytest"]["ini_options"]["testpaths"]
PROCESSES = "tests/processes"
COMMAND_TESTS = [f"{PROCESSES}/test_{name}.py" for name in ("cli_run", "commands", "imports")]

# Frameworks still use what Python 3.14 calls deprecated, and ADK what it does itself; our own code
# must not.
THEIRS = (
    *("-W", "ignore:'asyncio.:DeprecationWarning"),
    *("-W", "ignore:'_UnionGenericAlias':DeprecationWarning"),
    *("-W", "ignore:BaseAgentConfig is deprecated:DeprecationWarning"),
    *("-W", "ignore:MCPTool class is deprecated:DeprecationWarning"),
    *("-W", "ignore:[EXPERIMENTAL]:UserWarning"),
    *("-W", "ignore:You are using a Python version:FutureWarning"),  # of Google's libraries
)

# Locks of frameworks: newest, oldest, and between where releases differ. The tests are
# `tests/frameworks/test_<subject>*.py`; the modules are imported as a first proof that the
# environment is what it says.
FRAMEWORKS = {
    # name: (subject, modules)
    "openai_agents": ("openai_agents", ("agents", "mcp")),
    "mcp1": ("mcp", ("mcp",)),
    "mcp2": ("mcp", ("mcp",)),
    "langchain": ("langchain", ("langchain.agents", "langchain_core.tools", "langgraph.graph")),
    "hedera_agent_kit": ("hedera_agent_kit", ("hedera_agent_kit", "hedera_agent_kit.langchain")),
    "hedera_adk": ("hedera_adk", ("hedera_agent_kit.adk", "google.adk.runners")),
    "google_antigravity": ("google_antigravity", ("google.antigravity", "mcp")),
    "fastmcp": ("fastmcp", ("fastmcp", "mcp")),
    "google_adk": ("google_adk", ("google.adk.tools.base_tool", "google.adk.runners")),
    "pydantic_ai": ("pydantic_ai", ("pydantic_ai.mcp", "pydantic_ai.tool_manager")),
    "strands": ("strands", ("strands.multiagent", "strands.tools.mcp")),
    "claude_agent_sdk": ("claude_agent_sdk", ("claude_agent_sdk", "mcp")),
    "haystack": ("haystack", ("haystack.components.agents", "haystack_integrations.tools.mcp")),
    "crewai": ("crewai", ("crewai.agents.cache.cache_handler", "mcp")),
    "llama_index": ("llama_index", ("llama_index.core.agent.workflow", "workflows")),
    "clients": ("clients", ("anthropic", "google.genai", "openai")),
    "litellm": ("litellm", ("litellm",)),
}

AGES = ("latest", "between", "oldest")

# Further arguments for `uv pip compile`, by lock. Reasons stand in the `.in` files.
CERTIFI = ("--override", "tests/locks/certifi-override.txt")
ADK = ("--override", "tests/locks/hedera_adk-override.txt")
LOWEST = ("--resolution", "lowest-direct")
LOCK_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "dev": ("--group", "dev"),
    "demo": CERTIFI,
    "demo-tests": ("--group", "test", *CERTIFI),
    "docs": ("--group", "test", *CERTIFI),
    "site": ("--group", "test"),
    "ui": ("--group", "test", "--extra", "ui"),
    "together-latest": ("--group", "test", *CERTIFI),
    "bench": CERTIFI,
    "bench_adapters-latest": ("--group", "test", *CERTIFI),
    "refused": (),
    "dojo": ("--group", "test"),
    "otel-oldest": ("--group", "test", *LOWEST),
    "rollout": ("--group", "test"),
    "hcs-latest": ("--group", "test", "--extra", "hedera"),
    "hcs-oldest": ("--group", "test", "--extra", "hedera", *LOWEST),
    "openai_agents-latest": ("--group", "test"),
    "openai_agents-oldest": ("--group", "test", *LOWEST),
    "mcp1-latest": ("--group", "test"),
    "mcp1-oldest": ("--group", "test", *LOWEST),
    "mcp2-latest": ("--group", "test"),
    "mcp2-oldest": ("--group", "test", *LOWEST),
    "langchain-latest": ("--group", "test", *CERTIFI),
    "langchain-oldest": ("--group", "test", *LOWEST),
    "hedera_agent_kit-latest": ("--group", "test", *CERTIFI),
    "hedera_agent_kit-oldest": ("--group", "test", *LOWEST),
    "hedera_adk-latest": ("--group", "test", *CERTIFI, *ADK),
    "google_antigravity-latest": ("--group", "test"),
    "google_antigravity-oldest": ("--group", "test", *LOWEST),
    "google_adk-latest": ("--group", "test"),
    "google_adk-between": ("--group", "test"),
    "google_adk-oldest": ("--group", "test", *LOWEST),
    "pydantic_ai-latest": ("--group", "test"),
    "pydantic_ai-between": ("--group", "test"),
    "pydantic_ai-oldest": ("--group", "test", *LOWEST),
    "fastmcp-latest": ("--group", "test", *CERTIFI),
    "fastmcp-between": ("--group", "test", *CERTIFI),
    "fastmcp-oldest": ("--group", "test", *LOWEST),
    "strands-latest": ("--group", "test"),
    "strands-between": ("--group", "test"),
    "strands-oldest": ("--group", "test", *LOWEST),
    "claude_agent_sdk-latest": ("--group", "test"),
    "claude_agent_sdk-between": ("--group", "test"),
    "claude_agent_sdk-oldest": ("--group", "test", *LOWEST),
    "haystack-latest": ("--group", "test", *CERTIFI),
    "haystack-between": ("--group", "test", *CERTIFI),
    "haystack-oldest": ("--group", "test", *LOWEST),
    "crewai-latest": ("--group", "test", *CERTIFI),
    "crewai-between": ("--group", "test", *CERTIFI),
    "crewai-oldest": ("--group", "test", *LOWEST),
    "llama_index-latest": ("--group", "test", *CERTIFI),
    "llama_index-between": ("--group", "test", *CERTIFI),
    "llama_index-oldest": ("--group", "test", *LOWEST),
    "clients-latest": ("--group", "test"),
    "clients-between": ("--group", "test"),
    "clients-oldest": ("--group", "test", *LOWEST),
    "litellm-latest": ("--group", "test", *CERTIFI),
    "viewers-latest": ("--group", "test", *CERTIFI),
    "viewers_mlflow-latest": ("--group", "test", *CERTIFI),
    "beside-latest": ("--group", "test", *CERTIFI),
    "beside_clients-latest": ("--group", "test", *CERTIFI),
    "beside_v2-latest": ("--group", "test"),
}


def interpreter(version: str) -> str | None:
    """Find a Python of this minor version that really runs, or None.

    A `python3.x` on the path may be a version manager's shim without a version behind it, and a
    version that is installed may be on no path.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [
        sys.executable,
        shutil.which(f"python{version}"),
        *sorted(map(str, pyenv.glob(f"{version}.*/bin/python"))),
    ]
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(None, candidates):
        found = subprocess.run([candidate, "-c", script], capture_output=True, text=True)
        if found.returncode == 0 and found.stdout.strip() == version:
            return candidate
    return None


def oldest_interpreter() -> str:
    """Return the oldest supported Python of this machine."""
    return next(found for found in map(interpreter, PYTHONS) if found is not None)


def newest_interpreter() -> str:
    """Return the newest supported Python of this machine."""
    return next(found for found in map(interpreter, reversed(PYTHONS)) if found is not None)


def environment(session: nox.Session, lock: str | Path, base: str = sys.executable) -> str:
    """Return the Python of the environment for a lock file, made first where it is missing.

    Args:
        session: The session that asks; it prints what is installed.
        lock: The file, or the stem of one in `tests/locks`.
        base: Python to build on.

    Returns:
        Path of a Python that has the locked packages, and otelhooks from this folder, editable.
    """
    file = lock if isinstance(lock, Path) else LOCKS / f"{lock}.txt"
    content = file.read_bytes()
    version = subprocess.run([base, "-VV"], capture_output=True, check=True).stdout
    key = hashlib.sha256(b"\0".join([content, version, str(ROOT).encode()]))
    folder = CACHE / "envs" / key.hexdigest()[:16]
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    built_from, stamp = pyproject_hash(), folder / "otelhooks-ready"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder.with_suffix(".lock")):  # checks may run side by side
        if not stamp.exists():
            session.log(f"making the environment of {file} in {folder}")
            session.run("uv", "venv", "--quiet", "--clear", "--python", base, str(folder))
            packages = ("--python", python, "--no-deps", "-r", str(file))
            session.run("uv", "pip", "install", *packages)
        if not stamp.exists() or stamp.read_text() != built_from:
            # Editable, so entry points and metadata exist; anew when pyproject.toml changes them.
            editable = ("--no-deps", "--editable", ".", "--editable", CHECKER)
            session.run("uv", "pip", "install", "--quiet", "--python", python, *editable)
            stamp.write_text(built_from)
    return python


def pyproject_hash() -> str:
    """Return a hash of what the metadata of an editable install is made from."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


def pytest(session: nox.Session, python: str, *arguments: str, **options: Any) -> None:
    """Run tests with a Python; without further arguments those of `testpaths`."""
    session.run(python, "-m", "pytest", *arguments, *session.posargs, **options)


@nox.session
def test(session: nox.Session) -> None:
    """The fast tests in `.venv`, on every core. No framework, no server, no other process."""
    workers = (os.cpu_count() or 1) + 1  # one more than cores, as some tests wait for a lock
    pytest(session, sys.executable, "--numprocesses", str(workers), "--dist", "worksteal")


@nox.session
def processes(session: nox.Session) -> None:
    """Programs, forks, workers of others, and signals: the tests that start a process."""
    pytest(session, sys.executable, PROCESSES)


@nox.session
def kills(session: nox.Session) -> None:
    """Kill the console, or the program that waits, 200 times: no answer is lost, or made."""
    test = "tests/processes/test_kills.py"
    env = {"OTELHOOKS_KILLS": os.environ.get("OTELHOOKS_KILLS", "200")}
    pytest(session, sys.executable, "--capture", "no", test, env=env)


@nox.session
def configs(session: nox.Session) -> None:
    """The files that servers start from: collector, compose, dashboards; and `make stack`."""
    pytest(session, sys.executable, "tests/deploy")


CHECKER = "./docs/coming-from/checker"
ONE_VERDICT = "tests/unit/test_one_verdict.py"


@nox.session
def fuzz(session: nox.Session) -> None:
    """The loaders of policy files, with some ten minutes of made-up texts each, and one verdict."""
    env = {"FUZZ_EXAMPLES": os.environ.get("FUZZ_EXAMPLES", "12000")}
    pytest(session, sys.executable, "--timeout", "0", "tests/fuzz", ONE_VERDICT, env=env)


@nox.session
def mutants(session: nox.Session) -> None:
    """Small changes to the code that decides and records, each of which a test should notice."""
    session.run(sys.executable, "-m", "tests.mutants", *session.posargs)


@nox.session
@nox.parametrize("version", [nox.param(version, id=version) for version in PYTHONS])
def unit(session: nox.Session, version: str) -> None:
    """Fast tests and processes on a Python that no other session has, if this machine has it."""
    base = interpreter(version)
    if base is None:
        session.skip(f"no Python {version} on this machine")
    if "{}.{}".format(*sys.version_info) == version:
        session.skip("the sessions `test` and `processes` are of this Python")
    if base == oldest_interpreter():
        session.skip("the session `otel_oldest` is of this Python")
    if base == newest_interpreter():
        session.skip("the session `coverage` is of this Python")
    pytest(session, environment(session, "dev", base), *FAST, PROCESSES)


@nox.session
def otel_oldest(session: nox.Session) -> None:
    """Fast tests and processes with the lowest version of everything, OpenTelemetry 1.38 too."""
    python = environment(session, "otel-oldest", oldest_interpreter())
    pytest(session, python, *FAST, PROCESSES)


@nox.session
def coverage(session: nox.Session) -> None:
    """Fast tests and processes with the newest Python here take every branch of what decides."""
    with tempfile.TemporaryDirectory() as folder:
        env = {"COVERAGE_FILE": str(Path(folder, "coverage"))}
        run = (environment(session, "dev", newest_interpreter()), "-m", "coverage")
        # Only what is counted, `hooks` and `policy`, is traced: the rest runs at its usual speed.
        source = ("--source", "otelhooks/hooks,otelhooks/policy")
        tests = (*FAST, PROCESSES, *session.posargs)
        session.run(*run, "run", *source, "-m", "pytest", *tests, env=env)
        session.run(
            *(*run, "report", "--show-missing", "--skip-covered", "--fail-under", "100"),
            *("--include", "otelhooks/hooks/*,otelhooks/policy/*"),
            *("--omit", "otelhooks/hooks/compat/check.py"),  # a command; it decides nothing
            env=env,
        )


@nox.session
@nox.parametrize(
    ("name", "age"),
    [
        nox.param(name, age, id=f"{name}-{age}")
        for name in FRAMEWORKS
        for age in AGES
        if f"{name}-{age}" in LOCK_ARGUMENTS
    ],
)
def frameworks(session: nox.Session, name: str, age: str) -> None:
    """An adapter's contract against the real framework: newest, oldest, and some between.

    Newest versions always run; others are left out if nothing that they are made of has changed
    since they were last green on this machine.
    """
    subject, modules = FRAMEWORKS[name]
    python, lock = environment(session, f"{name}-{age}"), LOCKS / f"{name}-{age}.txt"
    files = tests_of(subject)
    if not files:
        session.error(f"there is no `tests/frameworks/test_{subject}*.py`")
    green = CACHE / "green" / digest(sys.version, lock, *files, *made_of(lock))
    if age != "latest" and green.exists() and not session.posargs:
        session.skip(f"nothing in it has changed since {green.read_text()}")
    session.run(python, "-c", f"import {', '.join(modules)}")
    shared = ("test_imported_again.py", "test_model_clients.py")
    files += [ROOT / "tests" / "frameworks" / name for name in shared]
    imports = "test_imports.py::test_import_loads_no_framework_no_sdk_and_nothing_heavy"
    with tempfile.TemporaryDirectory() as folder:
        report = (*PLAYED, f"{folder}/{name}-{age}.json")
        pytest(session, python, *THEIRS, *report, *map(str, files), f"{PROCESSES}/{imports}")
        if not session.posargs:
            if name not in UNPLAYED:
                session.run(python, "-m", "tests.frameworks.paths", folder, silent=True)
            green.parent.mkdir(exist_ok=True)
            green.write_text(f"{datetime.now():%Y-%m-%d %H:%M}")


def made_of(lock: Path) -> Iterator[Path]:
    """Yield what the tests of an adapter run besides their own files.

    Other adapters count where the environment holds their frameworks.
    """
    from otelhooks.setup import catalogue

    there = {line.partition("==")[0] for line in lock.read_text(encoding="utf-8").splitlines()}
    others = [
        f"otelhooks/frameworks/{name}/"
        for name in catalogue.ADAPTERS
        if all(there.isdisjoint(each.distributions) for each in catalogue.adapter(name).packages)
    ]
    for folder in ("otelhooks", "tests"):
        for file in sorted((ROOT / folder).rglob("*")):
            is_anothers = file.name.startswith("test_") or any(
                other in file.as_posix() for other in others
            )
            if file.is_file() and file.suffix != ".pyc" and not is_anothers:
                yield file
    yield ROOT / "pyproject.toml"


def digest(text: str, *files: Path) -> str:
    """Return a hash of a text, and of names and contents of files."""
    found = hashlib.sha256(text.encode())
    for file in files:
        found.update(b"\0".join([str(file.relative_to(ROOT)).encode(), file.read_bytes(), b""]))
    return found.hexdigest()


# On these no contract is played: their tests are about one framework inside another.
UNPLAYED = ("hedera_adk",)

# Has the contract's paths reported to the file that comes after it.
PLAYED = ("-p", "tests.frameworks.paths", "--paths-to")


def tests_of(subject: str) -> list[Path]:
    """Return the files with the tests of an adapter."""
    return sorted((ROOT / "tests" / "frameworks").glob(f"test_{subject}*.py"))


@nox.session
def paths(session: nox.Session) -> None:
    """The contract on every path of every framework and version, as a table; the README's rows.

    Names of locks can be given, such as `openai_agents-oldest`; a red path makes it fail.
    """
    locks = [f"{name}-{age}" for name in FRAMEWORKS for age in AGES]
    locks = [lock for lock in locks if lock in LOCK_ARGUMENTS]
    wanted = session.posargs or locks
    if unknown := ", ".join(name for name in wanted if name not in locks):
        session.error(f"no framework has the lock `{unknown}`; there are {', '.join(locks)}")
    with tempfile.TemporaryDirectory() as folder:
        for lock in wanted:
            files = tests_of(FRAMEWORKS[lock.rpartition("-")[0]][0])
            options = ("-q", *THEIRS, *PLAYED, f"{folder}/{lock}.json", "--paths-only")
            python = environment(session, lock)
            session.run(python, "-m", "pytest", *options, *map(str, files), success_codes=[0, 1])
        session.run(sys.executable, "-m", "tests.frameworks.paths", folder, "--write")


@nox.session
def redis(session: nox.Session) -> None:
    """Limits that processes share through a real Redis server, newest and oldest client."""
    if shutil.which("redis-server") is None:
        if shutil.which("apt-get") is None:
            session.error("there is no redis-server: install one, it need not be started")
        session.run("apt-get", "update", "-qq")
        session.run("apt-get", "install", "-qq", "--no-install-recommends", "redis-server")
    for python in (sys.executable, environment(session, "otel-oldest", oldest_interpreter())):
        pytest(session, python, "tests/servers")


@nox.session
def rollout(session: nox.Session) -> None:
    """Real web servers are told to stop, and nothing that their workers recorded is lost."""
    pytest(session, environment(session, "rollout"), "tests/servers/test_rollout.py")


@nox.session
def e2e(session: nox.Session) -> None:
    """Real agents through the servers of `make stack`, started from the shipped files."""
    python = environment(session, "demo-tests")
    session.run(python, "-m", "tests.e2e.stack", "--build")
    pytest(session, python, "--timeout", "900", "tests/e2e")


@nox.session
def e2e_full(session: nox.Session) -> None:
    """Fleets of collectors, two tiers and Kafka; slow turns; every fault, as a table at the end."""
    python = environment(session, "demo-tests")
    session.run(python, "-m", "tests.e2e.stack", "--build")
    session.run(python, "-m", "tests.fleet")
    pytest(session, python, "--timeout", "900", "tests/e2e/test_faults.py", "tests/fleet")


@nox.session
def viewers(session: nox.Session) -> None:
    """A run in a real Phoenix and MLflow, our console and our site, through Chromium.

    Chromium must be installed. Pictures of the pages are left in the user's cache. Phoenix's plugin
    for pytest is not ours.
    """
    # A test's time limit includes its fixtures, which wait up to 300 s for a server.
    options = ("-p", "no:phoenix", "--timeout", "600", "-o", "tmp_path_retention_policy=all")
    locks = {"phoenix": "viewers-latest", "mlflow": "viewers_mlflow-latest"}
    locks |= {"ui": "ui", "site": "viewers-latest"}
    for viewer, lock in locks.items():
        python, kept = environment(session, lock), CACHE / "viewers" / viewer
        kept.parent.mkdir(exist_ok=True)
        site = build_site(session) if viewer == "site" else {}
        test = f"tests/viewers/test_{viewer}.py"
        pytest(session, python, *options, "--basetemp", str(kept), test, env=site)
        session.log(f"pictures are in {kept}")


@nox.session
def hcs(session: nox.Session) -> None:
    """The audit trail on a Hedera topic, against nodes on loopback, newest and oldest SDK."""
    for age in ("latest", "oldest"):
        python = environment(session, f"hcs-{age}")
        session.run(python, "-c", "import hiero_sdk_python")
        page = "tests/test_docs.py::test_the_python_blocks_of_a_page_run[docs/audit.md]"
        pytest(session, python, "tests/servers/test_hcs.py", page)


@nox.session
def upstream(session: nox.Session) -> None:
    """Other packages' own tests against our modules; tests/upstream/README.md says which.

    Those of the Hedera Agent Kit are in its repository only: HEDERA_AGENT_KIT names a copy of it.
    """
    session.run(environment(session, "google_antigravity-latest"), "-m", "tests.upstream.run")
    checkout = os.environ.get("HEDERA_AGENT_KIT")
    if checkout is None:
        session.log("left out: tests of the Hedera Agent Kit, as HEDERA_AGENT_KIT names no copy")
    else:
        python = environment(session, "hedera_agent_kit-latest")
        session.run(python, "-m", "tests.upstream.run_kit", checkout)


@nox.session
def prove(session: nox.Session) -> None:
    """Frameworks against a deny: no denied body, no attack, no stranger runs; files govern.

    All but hedera-agent-kit, whose pins exclude CrewAI and Google ADK, share one environment.
    """
    python, doctor = environment(session, "demo-tests"), ("-m", "otelhooks", "doctor", "--prove")
    session.run(python, *doctor)
    session.run(environment(session, "together-latest"), *doctor)
    files = (f"tests/frameworks/test_{name}.py" for name in ("attacks", "policy_files", "demo"))
    pytest(session, python, *files)
    # A version outside the range is refused, and `doctor` says so.
    session.run(environment(session, "refused"), *doctor, success_codes=[1])


@nox.session
def beside(session: nox.Session) -> None:
    """Agents that others trace as well: Logfire, OpenInference, Traceloop, OpenTelemetry's own."""
    for lock in ("beside-latest", "beside_v2-latest"):
        pytest(session, environment(session, lock), *THEIRS, "tests/beside")
    page = "tests/test_docs.py::test_a_page_of_the_guide_runs[docs/guide/beside.md]"
    pytest(session, environment(session, "beside-latest"), page)
    clients = environment(session, "beside_clients-latest")
    pytest(session, clients, *THEIRS, "tests/beside/test_clients.py")


@nox.session
def matrix(session: nox.Session) -> None:
    """The examples of five systems beside the frameworks that play them, newest, as a table.

    Names of locks can be given, such as `openai_agents-oldest`; a red example makes it fail.
    """
    players = {"no framework": ("dev", "tests/unit/test_examples.py")}
    for name, (subject, _) in FRAMEWORKS.items():
        file = f"tests/frameworks/test_{subject}_examples.py"
        if (ROOT / file).exists():
            locks = (f"{name}-{age}" for age in ("latest", "oldest"))
            players |= {lock: (lock, file) for lock in locks if lock in LOCK_ARGUMENTS}
    wanted = session.posargs or [name for name in players if not name.endswith("-oldest")]
    if unknown := ", ".join(name for name in wanted if name not in players):
        session.error(f"nothing plays examples with `{unknown}`; there are {', '.join(players)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            lock, file = players[name]
            python = sys.executable if lock == "dev" else environment(session, lock)
            report = f"--junitxml={folder}/{name.removesuffix('-latest')}.xml"
            # The older family says of a single test why it is otherwise than elsewhere.
            options = ("-q", report, "-o", "junit_family=xunit1")
            session.run(python, "-m", "pytest", file, *options, success_codes=[0, 1])
        session.run(sys.executable, "-m", "tests.examples.matrix", folder)


@nox.session
def docs(session: nox.Session) -> None:
    """Every block of README and docs, where the frameworks are; the guide's commands too."""
    pytest(session, environment(session, "docs"), "tests/test_docs.py", "tests/test_pictures.py")


@nox.session
def site(session: nox.Session) -> None:
    """The documentation as a site: no broken link, no page left out, nothing from elsewhere."""
    pytest(session, environment(session, "site"), "tests/site", env=build_site(session))
    session.log(f"open {CACHE / 'site' / 'index.html'}")


def build_site(session: nox.Session) -> dict[str, str]:
    """Build the site, and return the variable that tells tests where it is."""
    built = ("--strict", "--site-dir", str(CACHE / "site"))
    quiet = {"NO_MKDOCS_2_WARNING": "1"}
    session.run(environment(session, "site"), "-m", "mkdocs", "build", *built, env=quiet)
    return {"SITE_FOLDER": str(CACHE / "site")}


@nox.session
def demo_console(session: nox.Session) -> None:
    """A person watches an agent in the console, edits and approves its call on a phone.

    Chromium must be installed. Pictures of each step are left in the user's cache.
    """
    folder = str(CACHE / "viewers" / "session")
    session.run(environment(session, "ui"), "-m", "tests.console_session", folder)


@nox.session
def pictures(session: nox.Session) -> None:
    """Draw the pictures of README and docs from real runs, where those show something new.

    Those of the console need Chromium.
    """
    session.run(environment(session, "demo-tests"), "-m", "tests.pictures", "docs/pictures")
    session.run(environment(session, "ui"), "-m", "tests.console_pictures", "docs/pictures")


@nox.session
def redcode(session: nox.Session) -> None:
    """What the pack `shell` says to RedCode's scripts, in a folder that is given, and to ours."""
    session.run(sys.executable, "-m", "tests.redcode", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Print each budget beside its figure, all measured in this run."""
    session.run(environment(session, "bench"), "-m", "tests.bench", *session.posargs)


@nox.session
def bench_adapters(session: nox.Session) -> None:
    """Print what each newer adapter adds to a run, beside what others trace it with."""
    python = environment(session, "bench_adapters-latest")
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true", "HAYSTACK_TELEMETRY_ENABLED": "False"}
    quiet |= {"OTELHOOKS_ANNOUNCE": "false"}
    session.run(python, "-m", "tests.bench.adapters", *session.posargs, env=quiet)


@nox.session
def bench_collector(session: nox.Session) -> None:
    """Print what a span costs in each collector configuration, and what open turns take."""
    session.run(sys.executable, "-m", "tests.bench.collector", *session.posargs)


@nox.session
def dojo(session: nox.Session) -> None:
    """Replay AgentDojo without a model: attacks that succeed, tasks that still work, questions."""
    python = environment(session, "dojo")
    session.run(python, "-m", "pytest", "-q", "tests/dojo")
    session.run(python, "-m", "tests.dojo", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff's rules and its format, and the words of all prose."""
    session.run(sys.executable, "-m", "ruff", "check", ".")
    session.run(sys.executable, "-m", "ruff", "format", "--check", ".")
    session.run(sys.executable, "-m", "tests.words")


# Packages that are private as a whole, none of whose classes a user meets.
PRIVATE = ("otelhooks.frameworks.", "otelhooks.patching.", "otelhooks.pipeline.")


@nox.session
def typing(session: nox.Session) -> None:
    """Types: strict inside, complete outside, and what the public API promises to callers."""
    pyright = (sys.executable, "-m", "pyright")
    # `--verifytypes` looks for the package in the first Python on the path, whatever it is told.
    env = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    session.run(*pyright, env=env)
    session.run(*pyright, "tests/typing", env=env)
    # It counts every module without an underscore as public, and ends with 1 if any is incomplete.
    report = session.run(
        *(*pyright, "--verifytypes", "otelhooks", "--ignoreexternal", "--outputjson"),
        env=env,
        silent=True,
        success_codes=[0, 1],
    )
    symbols = json.loads(report)["typeCompleteness"]["symbols"]
    incomplete = [
        symbol["name"]
        for symbol in symbols
        if not symbol["name"].startswith(PRIVATE)
        and (symbol["isTypeAmbiguous"] or not symbol["isTypeKnown"])
    ]
    if incomplete:
        session.error("incomplete types: " + ", ".join(incomplete))
    session.log(f"{len(symbols)} symbols, the public ones complete")


# Run by a Python that has nothing but the wheel and what it asks for.
SMOKE = """
import otelhooks
from otelhooks import errors, policy

assert "site-packages" in otelhooks.__file__, otelhooks.__file__
ran = []

@otelhooks.tool
def danger() -> str:
    ran.append("danger")
    return "done"

@otelhooks.tool
def safe() -> str:
    ran.append("safe")
    return "done"

otelhooks.instrument(policies=[policy.deny("danger")])
assert safe() == "done"
try:
    danger()
except errors.Denied:
    pass
otelhooks.uninstrument()
assert ran == ["safe"], ran
print("otelhooks", otelhooks.__version__, "denies and allows")
"""


def wheel_in(session: nox.Session, folder: Path, *groups: str) -> str:
    """Build the wheel by way of the sdist, install it in an environment of its own in a folder.

    Args:
        session: The session that asks.
        folder: Empty folder, takes archives and environment.
        groups: Dependency groups to add.

    Returns:
        Path of the environment's Python.
    """
    session.run("uv", "build", "--quiet", "--out-dir", str(folder / "dist"))
    (wheel,) = (folder / "dist").glob("*.whl")
    session.run("uv", "venv", "--quiet", "--python", sys.executable, str(folder / "env"))
    python = str(folder / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    session.run(
        *("uv", "pip", "install", "--python", python, "--constraints", "tests/locks/dev.txt"),
        *(str(wheel), *(part for group in groups for part in ("--group", group))),
    )
    return python


def smoke(session: nox.Session, python: str, folder: Path) -> None:
    """Deny and allow a plain tool, and show the command's help, away from the repository."""
    env = {"OTELHOOKS_STORE": str(folder / "store.db"), "XDG_DATA_HOME": str(folder / "data")}
    (folder / "smoke.py").write_text(SMOKE, encoding="utf-8")
    with session.chdir(folder):
        session.run(python, "-I", "smoke.py", env=env)
        session.run(str(Path(python).with_name("otelhooks")), "--help", env=env, silent=True)


@nox.session
def wheel(session: nox.Session) -> None:
    """The wheel has every file of the package, and works in a folder without our sources."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = wheel_in(session, folder, "test")
        files = {file.relative_to(ROOT).as_posix() for file in (ROOT / "otelhooks").rglob("*.*")}
        with zipfile.ZipFile(*(folder / "dist").glob("*.whl")) as archive:
            if missing := {name for name in files if "__pycache__" not in name} - {
                *archive.namelist()
            }:
                session.error(f"the wheel lacks {', '.join(sorted(missing))}")
        session.run("uv", "pip", "install", "--python", python, "--no-deps", CHECKER)
        smoke(session, python, folder)
        copy = folder / "elsewhere"
        shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("locks"))
        texts = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
        for part in (
            "docs",
            "collector",
            "dashboards",
            "docker-compose.yml",
            *texts,
            "pyproject.toml",
        ):
            source = ROOT / part
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / part)
        with session.chdir(copy):
            pytest(session, python, "tests/test_public_api.py", *COMMAND_TESTS)


@nox.session
def minimal(session: nox.Session) -> None:
    """The bare package, with nothing but its dependencies, imports and denies."""
    with tempfile.TemporaryDirectory() as name:
        smoke(session, wheel_in(session, Path(name)), Path(name))


@nox.session
def locks(session: nox.Session) -> None:
    """Resolve every lock anew: newest versions as of today, oldest as pyproject.toml says.

    Names can be given: `nox -s locks -- dev demo`. The files hold no index address, so any index
    will do, and hold for each Python and platform.
    """
    for name in session.posargs or LOCK_ARGUMENTS:
        resolve(session, name, Path(f"tests/locks/{name}.in"), Path(f"tests/locks/{name}.txt"))


def resolve(session: nox.Session, name: str, wanted: Path, lock: Path) -> None:
    """Write the lock file of requirements, with the arguments of the lock that has this name."""
    session.run(
        *("uv", "pip", "compile", "--quiet", "--upgrade", "--universal"),
        *("--python-version", PYTHONS[0]),
        *("--no-emit-index-url", "--no-annotate", "--no-header"),
        *("pyproject.toml", *LOCK_ARGUMENTS[name]),
        *([str(wanted)] if wanted.exists() else []),
        *("--output-file", str(lock)),
        silent=True,
    )


@nox.session
def canary(session: nox.Session) -> None:
    """The newest release of every framework, above our bounds too: seats, proof and contract.

    Names of frameworks can be given, as in `FRAMEWORKS`. What is red comes at the end; a seat that
    has moved is no failure while proof and contract hold.
    """
    folder = CACHE / "canary"
    folder.mkdir(parents=True, exist_ok=True)
    said: list[str] = []
    if unknown := ", ".join(name for name in session.posargs if name not in FRAMEWORKS):
        session.error(f"there is no framework `{unknown}`; there are {', '.join(FRAMEWORKS)}")
    for name in session.posargs or FRAMEWORKS:
        said.append(f"{name}:")
        subject, _ = FRAMEWORKS[name]
        wanted, lock = folder / f"{name}.in", folder / f"{name}.txt"
        locked = environment(session, f"{name}-latest")
        run = (locked, "-m", "tests.canary")
        given = (subject, f"tests/locks/{name}-latest.in")
        text = session.run(*run, "requirements", *given, silent=True)
        wanted.write_text(str(text), encoding="utf-8")
        try:
            resolve(session, f"{name}-latest", wanted, lock)
            newest = environment(session, lock)
        except CommandFailed:
            said.append("  FAILED: the newest releases cannot be installed together; see above")
            continue
        for python, file in ((locked, f"{name}.locked.json"), (newest, f"{name}.newest.json")):
            session.run(python, "-m", "tests.canary", "seats", subject, str(folder / file))
        files = (str(folder / f"{name}.{age}.json") for age in ("locked", "newest"))
        said.append(str(session.run(*run, "compare", *files, silent=True)).rstrip())
        options = (*THEIRS, "-q", "-p", "tests.frameworks.paths", "--paths-only")
        for check, command in {
            "proof": ("otelhooks", "doctor", "--prove"),
            "contract": ("pytest", *options, *map(str, tests_of(subject))),
        }.items():
            try:
                session.run(newest, "-m", *command)
            except CommandFailed:
                said.append(f"  FAILED: {check}")
            else:
                said.append(f"  {check} holds")
    session.log("\n".join(["the newest releases:", *said]))
    if any("FAILED" in line for line in said):
        session.error("a newest release breaks us")


@nox.session
@nox.parametrize("lock", [nox.param(name, id=name) for name in LOCK_ARGUMENTS])
def env(session: nox.Session, lock: str) -> None:
    """Make the environment of one lock file and print its Python."""
    sys.stdout.write(f"{environment(session, lock)}\n")
