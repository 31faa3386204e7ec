"""Policies that ship with otelhooks, as files that can be used by name, read, and copied."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PACKS", "folder"]

PACKS = ("governed", "owasp-agentic", "shell", "tool-output")
"""Names of folders of policy files, accepted wherever policies are named."""


def folder(name: str) -> Path | None:
    """Return the folder of a pack, None if there is no pack with that name.

    Args:
        name: Such as ``governed``; a path is never one.
    """
    return Path(__file__).parent / name if name in PACKS else None
