"""Definitions of MCP tools, and which of them people have approved."""
