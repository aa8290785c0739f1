"""Measures E2B's Python client, as often as the first argument says: sandboxes are made and deleted, one at a time and
twenty at once; made, with a first result; and used for commands. Prints milliseconds by rows."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from e2b_code_interpreter import Sandbox

COUNT = int(sys.argv[1])


def timed(do):
    began = time.perf_counter()
    result = do()
    return result, (time.perf_counter() - began) * 1000


def pair(_=None):
    sandbox, create = timed(Sandbox.create)
    _, delete = timed(sandbox.kill)
    return create, delete


def first(_=None):
    time.sleep(0.1)  # a sandbox waits again
    sandbox, create = timed(Sandbox.create)
    result, run = timed(lambda: sandbox.run_code("1+1"))
    assert result.text == "2", result
    sandbox.kill()
    return create + run


pair()  # for nothing
alone = [pair() for _ in range(COUNT)]
with ThreadPoolExecutor(20) as pool:
    list(pool.map(pair, range(20)))  # for nothing
    together = list(pool.map(pair, range(COUNT)))
first()
firsts = [first() for _ in range(COUNT // 4)]
sandbox = Sandbox.create()
commands = [timed(lambda: sandbox.commands.run("true"))[1] for _ in range(COUNT + 10)][10:]
sandbox.kill()
json.dump({
    "Sandbox.create(), one at a time": [p[0] for p in alone], "sandbox.kill(), one at a time": [p[1] for p in alone],
    "Sandbox.create(), 20 at once": [p[0] for p in together], "sandbox.kill(), 20 at once": [p[1] for p in together],
    'Sandbox.create() and run_code("1+1")': firsts, 'commands.run("true")': commands,
}, sys.stdout)
