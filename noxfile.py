"""What can be checked, one session each; `make` prepares `.venv` and calls these.

Sessions do not use nox's own environments. Each needs what one lock file in `tests/locks` says, so
an environment is keyed by the content of its lock and kept in the user's cache folder: it is made
once, whichever session asks first, and never lies in the repository.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["test", "lint", "typing"]

ROOT = Path(__file__).parent.resolve()
LOCKS = ROOT / "tests" / "locks"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otelhooks"

# As in the classifiers of pyproject.toml.
PYTHONS = ("3.10", "3.11", "3.12", "3.13")

# Locks of frameworks, newest and oldest. The tests are `tests/frameworks/test_<subject>*.py`, the
# modules are imported as a first proof that the environment is what it says.
FRAMEWORKS = {
    # name: (subject, modules)
    "openai_agents": ("openai_agents", ("agents", "mcp")),
    "mcp1": ("mcp", ("mcp",)),
    "mcp2": ("mcp", ("mcp",)),
    "langchain": ("langchain", ("langchain.agents", "langchain_core.tools", "langgraph.graph")),
}

# Further arguments for `uv pip compile`, by lock. Reasons stand in the `.in` files.
CERTIFI = ("--override", "tests/locks/certifi-override.txt")
LOWEST = ("--resolution", "lowest-direct")
LOCK_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "dev": ("--group", "dev"),
    "demo": ("--group", "test", *CERTIFI),
    "otel-oldest": ("--group", "test", *LOWEST),
    "openai_agents-latest": ("--group", "test"),
    "openai_agents-oldest": ("--group", "test", *LOWEST),
    "mcp1-latest": ("--group", "test"),
    "mcp1-oldest": ("--group", "test", *LOWEST),
    "mcp2-latest": ("--group", "test"),
    "mcp2-oldest": ("--group", "test", *LOWEST),
    "langchain-latest": ("--group", "test", *CERTIFI),
    "langchain-oldest": ("--group", "test", *LOWEST),
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


def environment(session: nox.Session, lock: str, base: str = sys.executable) -> str:
    """Return the Python of the environment for a lock file, made first where it is missing.

    Args:
        session: The session that asks; it prints what is installed.
        lock: Stem of a file in `tests/locks`.
        base: Python to build on.

    Returns:
        Path of a Python that has the locked packages, and otelhooks from this folder, editable.
    """
    content = (LOCKS / f"{lock}.txt").read_bytes()
    version = subprocess.run([base, "-VV"], capture_output=True, check=True).stdout
    key = hashlib.sha256(b"\0".join([content, version, str(ROOT).encode()]))
    folder = CACHE / "envs" / key.hexdigest()[:16]
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    built_from, stamp = pyproject_hash(), folder / "otelhooks-ready"
    if not stamp.exists():
        session.log(f"making the environment of tests/locks/{lock}.txt in {folder}")
        session.run("uv", "venv", "--quiet", "--clear", "--python", base, str(folder))
        session.run(
            *("uv", "pip", "install", "--python", python, "--no-deps"),
            *("-r", f"tests/locks/{lock}.txt"),
        )
    if not stamp.exists() or stamp.read_text() != built_from:
        # Editable, so entry points and metadata exist; anew when pyproject.toml changes them.
        session.run("uv", "pip", "install", "--quiet", "--python", python, "--no-deps", "-e", ".")
        stamp.write_text(built_from)
    return python


def pyproject_hash() -> str:
    """Return a hash of what the metadata of an editable install is made from."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


@nox.session
def locks(session: nox.Session) -> None:
    """Resolve every lock anew: newest versions as of today, oldest as pyproject.toml says.

    Names can be given: `nox -s locks -- dev demo`. The files hold no index address, so any index
    will do, and hold for each Python and platform.
    """
    for name in session.posargs or LOCK_ARGUMENTS:
        wanted = LOCKS / f"{name}.in"
        session.run(
            *("uv", "pip", "compile", "--quiet", "--upgrade", "--universal"),
            *("--python-version", PYTHONS[0]),
            *("--no-emit-index-url", "--no-annotate", "--no-header"),
            *("pyproject.toml", *LOCK_ARGUMENTS[name]),
            *([f"tests/locks/{name}.in"] if wanted.exists() else []),
            *("--output-file", f"tests/locks/{name}.txt"),
            silent=True,
        )


@nox.session
@nox.parametrize("lock", [nox.param(name, id=name) for name in LOCK_ARGUMENTS])
def env(session: nox.Session, lock: str) -> None:
    """Make the environment of one lock file and print its Python."""
    print(environment(session, lock))
