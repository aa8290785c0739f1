"""Uses a kernel as jupyter-kernel-client does, and prints what it got as JSON:
client.py URL TOKEN."""

import json
import sys

from jupyter_kernel_client import JupyterKernelClient, KernelHttpManager

url, token = sys.argv[1:]
got = {}


def texts(reply):
    return {
        stream: "".join(o["text"] for o in reply["outputs"] if o["output_type"] == "stream" and o["name"] == stream)
        for stream in ("stdout", "stderr")
    }


with JupyterKernelClient(server_url=url, token=token) as kernel:
    first = kernel.execute("import sys\nprint('out'); print('err', file=sys.stderr)\nx = 41\nx + 1")
    got["first"] = first["status"], texts(first), first["outputs"][-1]["data"], first["execution_count"]
    got["second"] = kernel.execute("x + 1")["outputs"][-1]["execution_count"]
    plot = kernel.execute("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone")
    got["plot"] = [sorted(o.get("data", {})) for o in plot["outputs"]]
    wrong = kernel.execute("def f():\n    1 / 0\nf()")
    got["wrong"] = wrong["status"], wrong["outputs"][0]["ename"], "\x1b" in str(wrong)
    got["variables"] = sorted(v["name"] for v in kernel.list_variables())
    child = kernel.execute("!echo from a child; echo to stderr >&2")
    got["child"] = sorted("".join(texts(child).values()).split("\n"))
    kernel.restart()
    again = kernel.execute("x")
    got["restarted"] = again["status"], again["execution_count"], texts(again)["stderr"]
    manager = KernelHttpManager(server_url=url, token=token)
    got["listed"] = [k["id"] == kernel.id for k in manager.list_kernels()]
    got["state"] = kernel.execution_state
got["left"] = len(manager.list_kernels())
print(json.dumps(got))
