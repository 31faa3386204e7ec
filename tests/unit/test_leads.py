"""Tool objects that lead to the seat of another adapter, which that adapter registers."""

from __future__ import annotations

import ast
import pathlib
from typing import Any

import pytest

import otelhooks.frameworks
from otelhooks.hooks.stages import StageParams
from otelhooks.pipeline import leads
from otelhooks.pipeline.leads import Lead, next_seat_of, register, stages_of
from otelhooks.pipeline.permits import NextSeat


class Shell:
    """A tool object of an agent framework around a tool of another package."""


class Own(Shell):
    """A user's subclass of it."""


def handler() -> None:
    """Serve a tool of another package."""


def stages(tool: Any, name: str) -> StageParams | None:
    return StageParams(name, tool) if name == "known" else None


@pytest.fixture(autouse=True)
def _nothing_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leads, "_leads", {})


def test_nothing_leads_anywhere_before_an_adapter_says_so() -> None:
    assert next_seat_of(Shell(), "known") is None
    assert stages_of(handler, "known") is None


@pytest.mark.parametrize("tool", [Shell(), Own()], ids=["class", "subclass"])
def test_objects_of_a_registered_class_lead_to_its_seat(tool: Any) -> None:
    register(__name__, "Shell", Lead("deeper", stages))
    assert next_seat_of(tool, "known", "server") == NextSeat("deeper", "known", "server")
    found = stages_of(tool, "known")
    assert found is not None
    assert found.context is tool
    assert stages_of(tool, "unknown") is None
    assert next_seat_of(handler, "known") is next_seat_of(object(), "known") is None


def test_functions_of_a_registered_module_lead_to_its_seat() -> None:
    register(__name__, "", Lead("deeper", stages))
    assert next_seat_of(handler, "known") == NextSeat("deeper", "known")
    assert next_seat_of(Shell(), "known") is None


def test_no_adapter_knows_another() -> None:
    """They meet in the registry: none imports another, or names one."""
    folder = pathlib.Path(otelhooks.frameworks.__path__[0])
    names = {each.name for each in folder.iterdir() if (each / "__init__.py").exists()}
    names.discard("kit")
    for own in names:
        for path in (folder / own).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                module = node.module if isinstance(node, ast.ImportFrom) else None
                text = node.value if isinstance(node, ast.Constant) else module
                named = tuple(f"otelhooks.frameworks.{other}." for other in names - {own})
                assert not (isinstance(text, str) and f"{text}.".startswith(named)), path
