"""Calls that return what MCP tools return: content blocks, and whether the tool failed."""
# pyright: basic

from __future__ import annotations

from typing import Any

from otelhooks.frameworks.kit import contents
from otelhooks.frameworks.kit.tools import ToolCall

__all__ = ["ResultCall"]


class ResultCall(ToolCall):
    """One such call: hooks see the text of a result, or its content if that is not all text.

    Attributes:
        keeps_schema: Whether its result is still checked against the tool's schema.
    """

    must = ("read", "call")
    words = "keeps_schema made inner"
    keeps_schema = False

    # -- what an adapter writes ---------------------------------------------------------------

    def made(self, **result: Any) -> Any:
        """Return what the function returns for a result, whose fields are those on the wire."""
        return result

    def inner(self, raw: Any) -> Any:
        """Return the result in what the function returned."""
        return raw

    # -- what the kit makes of it -------------------------------------------------------------

    def denied(self, reason: str) -> Any:
        return self._failure(reason)

    def value(self, raw: Any) -> Any:
        return contents.value_of(self.inner(raw))

    def with_value(self, raw: Any, value: Any) -> Any:
        given, keeps = self.inner(raw), self.keeps_schema
        return self.made(**contents.replaced(given, value, keeps_schema=keeps))

    def error(self, raw: Any) -> str | None:
        return contents.error_of(self.inner(raw))

    def failed(self, error: BaseException, message: str) -> Any:
        return self._failure(message)

    def recovered(self, value: Any) -> Any:
        fields: dict[str, Any] = {"content": contents.blocks_of(value)}
        if self.keeps_schema:
            fields["structuredContent"] = value if isinstance(value, dict) else {"result": value}
        return self.made(**fields)

    def _failure(self, text: str) -> Any:
        return self.made(content=contents.blocks_of(text), isError=True)
