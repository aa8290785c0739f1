"""Haystack, with Airlock's tools by MCP."""

import os

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack_integrations.tools.mcp import MCPToolset, StdioServerInfo

airlock = MCPToolset(
    StdioServerInfo(
        command="airlock", args=["mcp", "--files", ".", "--output", ".", "--images", "0"], env=dict(os.environ)
    )
)
agent = Agent(chat_generator=OpenAIChatGenerator(model=os.environ["OPENAI_MODEL"]), tools=airlock)
task = "Which region of sales.csv sells most? Draw the revenue of each as revenue.png."
answer = agent.run(messages=[ChatMessage.from_user(task)])
print(answer["last_message"].text)
airlock.close()
