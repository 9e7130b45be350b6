"""The desk as tools for agents: an MCP server on standard input and output."""
