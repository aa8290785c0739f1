"""Runs smolagents' E2B executor as it is: code, variables, pictures, errors, and an
agent, whose model is a list of answers, with a tool and a final answer."""

from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import E2BExecutor

executor = E2BExecutor([], AgentLogger(level=LogLevel.OFF))
got = executor("x = 6 * 7\nprint('one', 'two')\nx")
# It joins pieces of output with newlines, and print may come in several.
assert (str(got.output), got.logs.split(), got.is_final_answer) == ("42", ["one", "two"], False), got
executor.send_variables({"data": [1, 2, 3]})
assert str(executor("sum(data)").output) == "6"
try:
    executor("1 / 0")
except Exception as error:
    assert "ZeroDivisionError" in str(error), error
else:
    raise AssertionError("no error")
assert executor("import PIL.Image; PIL.Image.new('RGB', (4, 3), 'red')").output.size == (4, 3)
executor.cleanup()


class Scripted(Model):
    def __init__(self, *answers):
        super().__init__()
        self.answers = list(answers)

    def generate(self, messages, **options):
        return ChatMessage(role=MessageRole.ASSISTANT, content=self.answers.pop(0))


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: one
        b: the other
    """
    return a + b


model = Scripted("Thought: add\n<code>\ny = add(40, 2)\nprint(y)\n</code>", "Thought: done\n<code>\nfinal_answer({'answer': y})\n</code>")
with CodeAgent(tools=[add], model=model, executor_type="e2b", verbosity_level=0) as agent:
    assert agent.run("What is 40 + 2?") == {"answer": 42}
