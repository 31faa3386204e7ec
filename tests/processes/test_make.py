"""What every command that `make` starts finds in its environment."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None or not (ROOT / "Makefile").exists(), reason="needs make"
)


def seen(name: str, **set_outside: str) -> str:
    """Return a variable as a target of the Makefile sees it."""
    rule = f'shown: ; @echo "$${name}"'
    env = {key: value for key, value in os.environ.items() if not key.startswith("UV_")}
    command = ["make", "--silent", "--eval", rule, "shown"]
    shown = subprocess.run(
        command, cwd=ROOT, env={**env, **set_outside}, capture_output=True, text=True, check=True
    )
    return shown.stdout.strip()


@pytest.mark.parametrize("name", ["UV_SYSTEM_CERTS", "UV_NATIVE_TLS"])
def test_uv_takes_the_certificates_of_the_system_as_pip_does_unless_told_otherwise(name):
    """Behind a TLS proxy, whose certificate only the system knows, uv ended every `make demo`."""
    assert seen(name) == "1"
    assert seen(name, **{name: "0"}) == "0"
