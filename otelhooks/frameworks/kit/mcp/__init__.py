"""What adapters know of MCP servers: their names, their lists, their questions."""
