"""MCP servers as the application configures them."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic
from typing_extensions import Self

__all__ = [
    "BaseMcpServerConfig",
    "McpHttpServer",
    "McpServerConfig",
    "McpStdioServer",
    "McpStreamableHttpServer",
]


class BaseMcpServerConfig(pydantic.BaseModel):
    """What the application knows about an MCP server; rules use its ``name``.

    Attributes:
        name: Letters, digits, ``_`` and ``-``.
        timeout_seconds: Seconds to connect and list tools.
        enabled_tools: Only these are shown and allowed; excludes ``disabled_tools``.
        disabled_tools: These are hidden and denied.
        force_all_tools_eager: Kept for configurations written for google-antigravity.
    """

    name: Annotated[str, pydantic.Field(pattern=r"^[a-zA-Z0-9_-]+$")]
    timeout_seconds: int | None = None
    enabled_tools: list[str] | None = None
    disabled_tools: list[str] | None = None
    force_all_tools_eager: bool = False

    @pydantic.model_validator(mode="after")
    def _one_list_only(self) -> Self:
        if self.enabled_tools is not None and self.disabled_tools is not None:
            msg = "enabled_tools and disabled_tools should be mutually exclusive."
            raise ValueError(msg)
        return self


class McpStdioServer(BaseMcpServerConfig):
    """An MCP server that is started as a process."""

    command: str
    type: Literal["stdio"] = "stdio"
    args: list[str] = pydantic.Field(default_factory=list)
    env: dict[str, str] | None = None


class McpStreamableHttpServer(BaseMcpServerConfig):
    """An MCP server at a URL; ``timeout`` and ``sse_read_timeout`` are seconds."""

    url: str
    type: Literal["http"] = "http"
    headers: dict[str, str] | None = None
    timeout: float = 30.0
    sse_read_timeout: float = 300.0
    terminate_on_close: bool = True


McpHttpServer = McpStreamableHttpServer
McpServerConfig = McpStdioServer | McpStreamableHttpServer
