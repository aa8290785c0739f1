"""What LiteLLM does: its code interpreter for a model that has none, and containers of OpenAI's form."""

import asyncio
import os

import litellm

from airlock_litellm import Airlock, interpreter

TOOL = {"type": "code_interpreter", "container": {"type": "auto"}}
URL = os.environ["AIRLOCK_URL"]
litellm.suppress_debug_info = True


async def sandboxes():
    """The sandbox by itself: output, an error, files that stay until it is deleted."""
    airlock = Airlock(os.environ["AIRLOCK_E2B_URL"], os.environ["AIRLOCK_E2B_KEY"])
    box = await airlock.acreate_sandbox()
    ran = await airlock.arun_code(container=box, code="open('a.txt', 'w').write('kept')\nprint(6 * 7)")
    assert ran.stdout == "42\n" and ran.error is None, ran
    ran = await airlock.arun_code(container=box, code="print(open('a.txt').read())\n1/0")
    assert ran.stdout == "kept\n" and ran.error["name"] == "ZeroDivisionError", ran
    assert await airlock.adelete_sandbox(container=box)
    assert not await airlock.adelete_sandbox(container=box)


async def interception():
    """The model calls the function that stands for the code interpreter, and is asked again with the output."""
    litellm.callbacks = [interpreter]
    how = {"api_base": os.environ["MODEL_URL"], "api_key": "test", "model": "openai/tiny"}
    got = await litellm.acompletion(messages=[{"role": "user", "content": "What is 6 * 7?"}], tools=[TOOL], **how)
    assert got.choices[0].message.content == "The sandbox said 42.", got
    got = await litellm.aresponses(input="What is 6 * 7?", tools=[TOOL], **how)
    assert "The sandbox said 42." in str(got.output), got
    litellm.callbacks = []


def containers():
    """Containers and their files by /openai/v1."""
    how = {"api_base": URL + "/openai/v1", "api_key": os.environ["AIRLOCK_KEY"], "custom_llm_provider": "openai"}
    made = litellm.create_container(name="work", **how)
    assert made.id.startswith("cntr_"), made
    assert litellm.retrieve_container(container_id=made.id, **how).name == "work"
    assert made.id in [c.id for c in litellm.list_containers(**how).data]
    assert litellm.list_container_files(container_id=made.id, **how).data == []
    assert litellm.delete_container(container_id=made.id, **how).deleted


asyncio.run(sandboxes())
asyncio.run(interception())
containers()
print("LiteLLM is well")
