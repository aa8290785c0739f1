"""CrewAI, with Airlock's tools by MCP."""

import os

from crewai import LLM, Agent
from crewai.mcp import MCPServerStdio

airlock = MCPServerStdio(
    command="airlock", args=["mcp", "--files", ".", "--output", "."], env=dict(os.environ), cache_tools_list=True
)
agent = Agent(
    role="Analyst",
    goal="Answer questions about files",
    backstory="You run code and believe its output.",
    llm=LLM(model="openai/" + os.environ["OPENAI_MODEL"], base_url=os.environ["OPENAI_BASE_URL"]),
    mcps=[airlock],
)
answer = agent.kickoff("Which region of sales.csv sells most? Draw the revenue of each as revenue.png.")
print(answer.raw)
