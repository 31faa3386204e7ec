"""The demonstration behind ``otelhooks demo``: real agents under a policy, with scripted models."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from otelhooks.errors import ConfigError

__all__ = ["scripted_model"]

_SCRIPTED = ("openai_agents", "langchain", "pydantic_ai", "google_adk")


def scripted_model(framework: str, steps: Sequence[Any], name: str = "scripted") -> Any:
    """Return a model of a framework that answers from a script instead of a paid one.

    Args:
        framework: ``openai_agents``, ``langchain``, ``pydantic_ai`` or ``google_adk``; it must be
            installed.
        steps: Answers of the model, one per call: a text, or a tool's name and arguments, such as
            ``("search", {"query": "x"})``. No answer calls several tools.
        name: Name of the model.

    Raises:
        ImportError: The framework is not installed, or there is no such model for it here.
        ConfigError: A step is something else.
    """
    if framework not in _SCRIPTED:
        msg = f"no scripted model for `{framework}`: there are {', '.join(_SCRIPTED)}"
        raise ImportError(msg)
    for number, step in enumerate(steps, 1):
        match step:
            case str() | (str(), dict()):
                continue
            case _:
                raise ConfigError(
                    f"step {number} of the script is neither a text nor a call of one tool",
                    hint='write "a text", or ("tool", {"argument": 1})',
                )
    return importlib.import_module(f"otelhooks.demo.with_{framework}").scripted(name, steps)
