"""Makes sandboxes with E2B's Python client, runs 1+1 in each, and kills them. Prints the
milliseconds of making and running, for each of as many as the first argument says."""

import json
import sys
import time

from e2b_code_interpreter import Sandbox

times = []
for _ in range(int(sys.argv[1]) + 1):
    time.sleep(0.025)
    began = time.perf_counter()
    sandbox = Sandbox.create()
    text = sandbox.run_code("1+1").text
    times.append((time.perf_counter() - began) * 1000)
    sandbox.kill()
    assert text == "2", text
json.dump(times[1:], sys.stdout)  # the first was for nothing
