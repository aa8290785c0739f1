"""AutoGen's AgentChat, with Airlock's tools by MCP."""

import asyncio
import os

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams

airlock = StdioServerParams(
    command="airlock",
    args=["mcp", "--files", ".", "--output", ".", "--images", "0", "--no-links"],
    env=dict(os.environ),
    read_timeout_seconds=60,
)


async def main():
    async with McpWorkbench(airlock) as workbench:
        model = OpenAIChatCompletionClient(model=os.environ["OPENAI_MODEL"])
        agent = AssistantAgent("analyst", model, workbench=workbench, reflect_on_tool_use=True)
        answer = await agent.run(task="Which region of sales.csv sells most? Draw the revenue of each as revenue.png.")
        print(answer.messages[-1].content)


asyncio.run(main())
