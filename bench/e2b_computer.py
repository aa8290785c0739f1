"""Runs `true` with E2B's Python client in one sandbox, as often as the first argument says,
and prints the milliseconds of each."""

import json
import sys
import time

from e2b import Sandbox

sandbox, times = Sandbox.create(), []
for _ in range(int(sys.argv[1]) + 10):
    began = time.perf_counter()
    sandbox.commands.run("true")
    times.append((time.perf_counter() - began) * 1000)
sandbox.kill()
json.dump(times[10:], sys.stdout)  # the first were for nothing
