"""OpenAI's Agents SDK, with Airlock's tools by MCP."""

import asyncio
import os

from agents import Agent, Runner
from agents.mcp import MCPServerStdio

command = {"command": "airlock", "args": ["mcp", "--files", ".", "--output", "."], "env": dict(os.environ)}


async def main():
    async with MCPServerStdio(command, client_session_timeout_seconds=60) as airlock:
        agent = Agent("analyst", model=os.environ["OPENAI_MODEL"], mcp_servers=[airlock])
        task = "Which region of sales.csv sells most? Draw the revenue of each as revenue.png."
        answer = await Runner.run(agent, task)
        print(answer.final_output)


asyncio.run(main())
