"""LlamaIndex, with Airlock's client for Python as a tool."""

import asyncio
import os

from airlock_run import AsyncAirlock
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(
    model=os.environ["OPENAI_MODEL"],
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    is_chat_model=True,
    is_function_calling_model=True,
)


async def main():
    async with AsyncAirlock() as airlock, await airlock.session() as session:
        await session.files.put("sales.csv")

        async def run_python(code: str) -> str:
            """Run Python code. Variables and files stay for the next call."""
            cell = await session.cell(code)
            return "".join(f"{o.name}: {o.value}" if o.type == "error" else o.text or "" for o in cell.outputs)

        agent = FunctionAgent(tools=[run_python], llm=llm)
        print(await agent.run("Which region of sales.csv sells most? Draw the revenue of each as revenue.png."))
        await session.files.save("revenue.png")


asyncio.run(main())
