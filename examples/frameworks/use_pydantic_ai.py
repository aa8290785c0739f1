"""Pydantic AI, with Airlock's tools by MCP."""

import os

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

airlock = MCPToolset(StdioTransport("airlock", ["mcp", "--files", ".", "--output", "."], env=dict(os.environ)))
agent = Agent("openai:" + os.environ["OPENAI_MODEL"], toolsets=[airlock])
answer = agent.run_sync("Which region of sales.csv sells most? Draw the revenue of each as revenue.png.")
print(answer.output)
