"""What the environment of this process says besides settings.

Settings are read by `otelhooks.config`.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = [
    "HEDERA_VARIABLES",
    "UNSAFE_FILES",
    "allows_unsafe_files",
    "exporter_variable",
    "hedera_operator",
    "is_helper",
    "is_run",
    "openai_agents_traces",
    "stops",
    "store_path",
]

UNSAFE_FILES = "OTELHOOKS_ALLOW_UNSAFE_POLICY_FILES"
"""Variable that allows policy files that others can write, if its value is ``1``."""


def is_run() -> bool:
    """Return whether ``otelhooks run`` switched otelhooks on."""
    return "OTELHOOKS_RUN" in os.environ


def is_helper() -> bool:
    """Return whether ``otelhooks run`` started the program that started this process."""
    started = os.environ.get("OTELHOOKS_RUN_PID")
    # If a process cannot be replaced (Windows), the program is a child of the named one.
    program = os.getppid() if os.name == "nt" else os.getpid()
    return started is not None and started != str(program)


def allows_unsafe_files() -> bool:
    """Return whether policy files that others can write are read. No argument can allow this."""
    return os.environ.get(UNSAFE_FILES) == "1"


def store_path() -> Path | None:
    """Return the file that ``OTELHOOKS_STORE`` names; None if it is not set."""
    named = os.environ.get("OTELHOOKS_STORE", "")
    return Path(named).expanduser() if named.strip() else None


def stops() -> str:
    """Return what ``OTELHOOKS_STOPS`` says; empty if it is not set."""
    return os.environ.get("OTELHOOKS_STOPS", "").strip()


def exporter_variable() -> str | None:
    """Return a variable that has traces go elsewhere than to the local store; None if none is set.

    They go there unless a program has providers of its own.
    """
    names = sorted(n for n, text in os.environ.items() if n.startswith("OTEL_") and text.strip())
    return next((n for n in names if "EXPORTER" in n or n == "OTEL_CONFIG_FILE"), None)


HEDERA_VARIABLES = ("OPERATOR_ID", "OPERATOR_KEY", "NETWORK")
"""Variables that define an operator for Hedera's SDKs. Source: hiero-sdk-python, `from_env`."""


def hedera_operator() -> tuple[str, str, str] | None:
    """Return account, private key and network of Hedera's operator; None if there is none.

    The network defaults to ``testnet``, as in the SDK.
    """
    account, key, network = (os.environ.get(name, "").strip() for name in HEDERA_VARIABLES)
    return (account, key, network or "testnet") if account and key else None


def openai_agents_traces() -> tuple[bool, bool]:
    """Return whether openai-agents finds a key to send its own traces, and whether they are off.

    Source: agents.tracing.provider and agents.tracing.processors of openai-agents 0.24.
    """
    is_off = os.environ.get("OPENAI_AGENTS_DISABLE_TRACING", "").lower() in {"1", "true"}
    return bool(os.environ.get("OPENAI_API_KEY")), is_off
