"""Fields that hold functions, guarded by a descriptor on their class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from otelhooks.instrumentation._openai_agents_fields import install_function


def test_an_instance_that_was_guarded_before_is_guarded_by_the_next_guard():
    @dataclass
    class Tool:
        on_invoke: Callable[[], str]

    def guard(name: str) -> Any:
        return lambda wrapped, instance, args, kwargs: f"{name}: {wrapped()}"

    tool = Tool(lambda: "ran")
    undo = install_function(Tool, "on_invoke", guard("first"))
    assert tool.on_invoke() == "first: ran"
    undo()
    assert tool.on_invoke() == "ran"
    undo = install_function(Tool, "on_invoke", guard("second"))
    assert tool.on_invoke() == "second: ran"
    undo()
