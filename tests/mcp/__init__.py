"""Suite: change. The MCP server, as agents start it."""
