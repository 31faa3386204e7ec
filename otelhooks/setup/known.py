"""Agent frameworks and model clients that are known but not guarded by an adapter.

A framework is recognised by its import. A model client is not an agent: guarded frameworks use it
too, and so do loops whose functions are decorated. If it is known which functions of a client send
requests, only requests outside a guarded model call count (see `ungoverned`). Module and
distribution names are those that the projects publish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Asks = Callable[[tuple[object, ...], Mapping[str, object]], bool]

__all__ = ["AMBIGUOUS", "KNOWN", "Known", "Requests", "named"]

_MODEL_PATHS = (
    "/completions",
    "/responses",
    "/responses/compact",
    "/v1/messages",
    "/runs",
    "/submit_tool_outputs",
)


class Requests(NamedTuple):
    """Where a model client sends its requests.

    Args:
        module: Module that holds the methods.
        methods: ``Class.method`` of each.
        asks: Takes positional and keyword arguments; returns whether a model's answer is requested.
    """

    module: str
    methods: tuple[str, ...]
    asks: Asks


class Known(NamedTuple):
    """A package without an adapter.

    Args:
        modules: Import names, the most usual first; top-level, or of a namespace.
        distributions: Names that it is published under, most usual first.
        is_client: Whether it calls models but runs no tools of its own.
        requests: Where it sends requests; None if unknown.
    """

    modules: tuple[str, ...]
    distributions: tuple[str, ...]
    is_client: bool = False
    requests: Requests | None = None

    @property
    def name(self) -> str:
        """The name that ``frameworks=`` uses for it, such as ``llama_index_core``."""
        return self.modules[0].replace(".", "_")


def _posts(args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    """Read ``request(cast_to, options, ...)`` of the clients that Stainless generates."""
    options = kwargs["options"] if "options" in kwargs else args[1]
    path = str(getattr(options, "url", "")).partition("#")[0].partition("?")[0].rstrip("/")
    return str(getattr(options, "method", "")).lower() == "post" and path.endswith(_MODEL_PATHS)


def _agent(modules: str, distributions: str = "") -> Known:
    names = tuple(modules.split())
    return Known(names, tuple(distributions.split()) or (names[0].replace("_", "-"),))


def _client(module: str, distribution: str = "", requests: Requests | None = None) -> Known:
    return Known((module,), (distribution or module,), True, requests)


def _stainless(name: str) -> Known:
    methods = ("SyncAPIClient.request", "AsyncAPIClient.request")
    return _client(name, requests=Requests(f"{name}._base_client", methods, _posts))


KNOWN = (
    _agent("agent_framework", "agent-framework-core agent-framework"),
    _agent("agno"),
    _agent("autogen", "ag2 pyautogen"),
    _agent("autogen_agentchat autogen_core"),
    _agent("beeai_framework"),
    _agent("browser_use"),
    _agent("camel", "camel-ai"),
    _agent("dspy"),
    _agent("griptape"),
    _agent("instructor"),
    _agent("langroid"),
    _agent("letta"),
    _agent("livekit.agents", "livekit-agents"),
    _agent("magentic"),
    _agent("marvin"),
    _agent("mcp_agent"),
    _agent("mirascope"),
    _agent("pipecat", "pipecat-ai"),
    _agent("qwen_agent"),
    _agent("semantic_kernel"),
    _agent("smolagents"),
    _stainless("groq"),
    _client("cohere"),
    _client("mistralai"),
    _client("ollama"),
)

AMBIGUOUS = frozenset(("autogen", "camel", "haystack", "instructor", "letta", "marvin"))
"""Names that other packages have too, such as django-haystack; only the distribution decides."""

_BY_NAME = {known.name: known for known in KNOWN}


def named(name: str) -> Known | None:
    """Return the package with this name in ``frameworks=``; None if there is none."""
    return _BY_NAME.get(name)
