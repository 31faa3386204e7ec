# pyright: basic
"""Query engines and retrievers that call what is behind a tool, which a model chose for them."""

from __future__ import annotations

from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.objects.functions import COROUTINE, PLAIN
from otelhooks.frameworks.kit.objects.standins import stand_in

__all__ = ["SubQuestion", "route", "route_retrievers"]

_ENGINES = "llama_index.core.query_engine"
_PAIR = f"{_ENGINES}.sub_question_query_engine:SubQuestionAnswerPair"
_RESPONSE = "llama_index.core.base.response.schema:Response"
_NODES = "llama_index.core.schema"


class SubQuestion(kit.ToolCall):
    """A question that a model has for a tool."""

    def read(self, engine: Any, /, sub_q: Any, *further: Any, **given: Any) -> None:
        self.name, self._asked, self._further = sub_q.tool_name, sub_q, (further, given)
        self.take({"input": sub_q.sub_question})

    def call(self, wrapped: Any, args: Any) -> Any:
        further, given = self._further
        asked = self._asked.model_copy(update={"sub_question": args["input"]})
        return wrapped(asked, *further, **given)

    def denied(self, reason: str) -> Any:
        return kit.native(_PAIR)(sub_q=self._asked, answer=reason)

    def value(self, raw: Any) -> Any:
        return raw and raw.answer

    def with_value(self, raw: Any, value: Any) -> Any:
        return self.denied(self.text_of(value))

    def error(self, raw: Any) -> Any:
        return "it failed, as the log of LlamaIndex says" if raw is None else None


class Query(kit.ToolCall):
    """A query for an engine that a router holds."""

    def read(self, engine: Any, /, query: Any) -> None:
        tool = engine._self_of
        self.name, self.description = tool.name or "", tool.description or ""
        self._query = query
        self.take({"input": getattr(query, "query_str", query)})

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args["input"] if self.version else self._query)

    def denied(self, reason: str) -> Any:
        return kit.native(_RESPONSE)(reason)

    def value(self, raw: Any) -> Any:
        return getattr(raw, "response", None)  # a stream has none yet

    def with_value(self, raw: Any, value: Any) -> Any:
        return self.denied(self.text_of(value))


class Retrieval(Query):
    """The same for a retriever; a refusal is the one node that it finds."""

    def denied(self, reason: str) -> Any:
        node = kit.native(f"{_NODES}:TextNode")(text=reason)
        return [kit.native(f"{_NODES}:NodeWithScore")(node=node)]

    def value(self, raw: Any) -> Any:
        return [one.get_content() for one in raw]


_engine = stand_in(query=(Query, PLAIN), aquery=(Query, COROUTINE))
_retriever = stand_in(retrieve=(Retrieval, PLAIN), aretrieve=(Retrieval, COROUTINE))


def _guarded(make: Any) -> Any:
    return lambda held, tools: [make(*one) for one in zip(held, tools, strict=True)]


_router = stand_in(_query_engines=_guarded(_engine))
_retrievers = stand_in(_retrievers=_guarded(_retriever))


def route(wrapped: Any, router: Any, query_bundle: Any) -> Any:
    """Run a router's method with engines that are guarded by the names of their tools."""
    return _routed(_router, wrapped, router, query_bundle)


def route_retrievers(wrapped: Any, router: Any, query_bundle: Any) -> Any:
    """Do the same for a router of retrievers."""
    return _routed(_retrievers, wrapped, router, query_bundle)


def _routed(stand_in: Any, wrapped: Any, router: Any, query_bundle: Any) -> Any:
    if not hasattr(router, "_self_of"):  # it has been replaced where an override calls this one
        router = stand_in(router, router._metadatas)
    return wrapped.__func__(router, query_bundle)
