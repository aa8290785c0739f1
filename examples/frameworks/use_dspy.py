"""DSPy, whose recursive language model runs its code in an Airlock session."""

import json
import os

import dspy
from airlock_run import Airlock
from dspy.primitives.code_interpreter import CodeExecutionError, FinalOutput

SUBMIT = """
import json
class Submitted(Exception): pass
def SUBMIT(**output): raise Submitted(json.dumps(output))
"""


class AirlockInterpreter:
    def __init__(self):
        self.tools = {}  # of the host: programs in the session do not reach them
        self.airlock = Airlock()
        self.session = self.airlock.session()
        self.session.files.put("sales.csv")
        self.session.cell(SUBMIT).check()

    def start(self):
        pass

    def execute(self, code, variables=None):
        given = "".join(f"{name} = {value!r}\n" for name, value in (variables or {}).items())
        cell = self.session.cell(given + code)
        for o in cell.outputs:
            if o.type == "error" and o.name == "Submitted":
                return FinalOutput(json.loads(o.value))
            if o.type == "error":
                raise CodeExecutionError(f"{o.name}: {o.value}")
        return cell.stdout

    def shutdown(self):
        self.session.files.save("revenue.png")
        self.session.delete()
        self.airlock.close()


dspy.configure(lm=dspy.LM("openai/" + os.environ["OPENAI_MODEL"]), interpreter_factory=AirlockInterpreter)
answer = dspy.RLM("question -> answer")(
    question="Which region of sales.csv sells most? Draw the revenue of each as revenue.png."
)
print(answer.answer)
