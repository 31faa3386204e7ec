"""What of langchain's packages no seat guards, and what refuses under a policy therefore."""

from __future__ import annotations

from otelhooks.patching.patches import NotCovered, Seat

__all__ = ["NOT_COVERED"]


def _refusing(
    what: str, why: str, distribution: str, module: str, *targets: str, copied_to: str = ""
) -> NotCovered:
    """Return an entry for what refuses to work under a policy that can deny."""
    places = [module, copied_to] if copied_to else [module]
    seats = tuple(Seat(place, target) for place in places for target in targets)
    return NotCovered(what, why, distribution=distribution, module=module, seats=seats)


NOT_COVERED = (
    NotCovered(
        "`tool.func(...)` and `tool._run(...)`",
        "user code that calls a tool's function itself calls a plain function",
    ),
    NotCovered(
        "provider-side tools",
        "web search and the like run at the provider: those that a rule is against are not offered "
        "to models, but for those in a definition of Google's that declares functions as well",
    ),
    NotCovered(
        "what a chain does by itself, such as the requests of `APIChain`",
        "only its model calls and its tools are calls that a seat sees",
        distribution="langchain-classic",
    ),
    NotCovered("completion models", "only chat models have a seat; they ask for no tools"),
    _refusing(
        "an agent behind `RemoteGraph`",
        "its tools run on a server",
        "langgraph",
        "langgraph.pregel.remote",
        *(f"RemoteGraph.{name}" for name in ("stream", "astream", "invoke", "ainvoke")),
    ),
    _refusing(
        "the code interpreter",
        "code that a model writes is not judged yet, only the tools that it calls",
        "langchain-quickjs",
        "langchain_quickjs.middleware",
        "CodeInterpreterMiddleware.__init__",
    ),
)
