"""LangChain's deep agents, whose files and commands are those of an E2B sandbox, which is Airlock's."""

import os
from pathlib import Path

from deepagents import create_deep_agent
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox
from e2b import CommandExitException, Sandbox
from langchain_openai import ChatOpenAI


class AirlockBackend(BaseSandbox):
    def __init__(self, sandbox):
        self.sandbox = sandbox

    @property
    def id(self):
        return self.sandbox.sandbox_id

    def execute(self, command, *, timeout=None):
        try:
            ended = self.sandbox.commands.run(command, timeout=timeout or 60)
        except CommandExitException as failed:
            ended = failed
        return ExecuteResponse(ended.stdout + ended.stderr, ended.exit_code)

    def upload_files(self, files):
        return [FileUploadResponse(self.sandbox.files.write(path, content).path) for path, content in files]

    def download_files(self, paths):
        return [FileDownloadResponse(path, bytes(self.sandbox.files.read(path, format="bytes"))) for path in paths]


with Sandbox.create() as sandbox:
    sandbox.files.write("sales.csv", Path("sales.csv").read_bytes())
    agent = create_deep_agent(ChatOpenAI(model=os.environ["OPENAI_MODEL"]), backend=AirlockBackend(sandbox))
    task = "Which region of sales.csv sells most? Draw the revenue of each as revenue.png."
    answer = agent.invoke({"messages": [("user", task)]})
    print(answer["messages"][-1].text)
    Path("revenue.png").write_bytes(sandbox.files.read("revenue.png", format="bytes"))
