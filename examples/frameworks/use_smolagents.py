"""smolagents, whose code agent runs its code in an E2B sandbox, which is Airlock's."""

import os
from pathlib import Path

from smolagents import CodeAgent, OpenAIModel

model = OpenAIModel(os.environ["OPENAI_MODEL"])
with CodeAgent(tools=[], model=model, executor_type="e2b", verbosity_level=0) as agent:
    files = agent.python_executor.sandbox.files
    files.write("sales.csv", Path("sales.csv").read_bytes())
    print(agent.run("Which region of sales.csv sells most? Draw the revenue of each as revenue.png."))
    Path("revenue.png").write_bytes(files.read("revenue.png", format="bytes"))
