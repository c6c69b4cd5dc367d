"""The answers of the commands for programs that ask: `tools` as functions, `server` over MCP."""
