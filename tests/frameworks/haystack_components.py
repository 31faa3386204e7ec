"""Haystack's components around a world's tools, and functions with annotations that are types."""

from typing import Any

from haystack import component
from haystack.components.agents import State


@component
class Safe:
    """Reads a number."""

    def __init__(self, world: Any) -> None:
        self.world = world

    @component.output_types(text=str)
    def run(self, x: int) -> dict[str, str]:
        return {"text": self.world.safe(x)}


@component
class Unsafe:
    """Removes a path."""

    def __init__(self, world: Any) -> None:
        self.world = world

    @component.output_types(text=str)
    def run(self, path: str) -> dict[str, str]:
        return {"text": self.world.danger(path)}


def stateful(world: Any) -> Any:
    """Return tools that look into the run's state, and write to it."""

    def danger(path: str, state: State) -> str:
        """Remove a path."""
        assert state.get("owner") == "somebody"
        return world.danger(path)

    def safe(x: int, owner: str = "") -> dict[str, Any]:
        """Read number x."""
        assert owner == "somebody"
        return {"found": world.safe(x)}

    return danger, safe
