"""LangChain and LangGraph, with Airlock's client for Python as a tool."""

import os

from airlock_run import Airlock
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

with Airlock() as airlock, airlock.session() as session:
    session.files.put("sales.csv")

    def run_python(code: str) -> str:
        """Run Python code. Variables and files stay for the next call."""
        cell = session.cell(code)
        return "".join(f"{o.name}: {o.value}" if o.type == "error" else o.text or "" for o in cell.outputs)

    agent = create_agent(ChatOpenAI(model=os.environ["OPENAI_MODEL"]), [run_python])
    task = "Which region of sales.csv sells most? Draw the revenue of each as revenue.png."
    answer = agent.invoke({"messages": [("user", task)]})
    print(answer["messages"][-1].text)
    session.files.save("revenue.png")
