# pyright: basic, reportMissingImports=false
"""Models of Google ADK that answer from a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otelhooks.frameworks.google_adk.scripted import scripted_model

__all__ = ["scripted"]


def scripted(name: str, steps: Sequence[Any]) -> Any:
    """Return a model that answers with these steps."""
    left = [step if isinstance(step, str) else (step,) for step in steps]
    return scripted_model(lambda shown: left.pop(0), name)
