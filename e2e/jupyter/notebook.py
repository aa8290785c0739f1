"""Runs code in a kernel that outlives its client, and prints what it got as JSON: notebook.py URL TOKEN KERNEL CODE.
Without a KERNEL it starts one."""

import json
import os
import sys

from jupyter_kernel_client import JupyterKernelClient

url, token, kernel, code = sys.argv[1:]
client = JupyterKernelClient(server_url=url, token=token, kernel_id=kernel or None)
client.start()
reply = client.execute(code)
print(json.dumps({
    "kernel": client.id,
    "text": "".join(o.get("data", {}).get("text/plain", "") for o in reply["outputs"]),
    "stderr": "".join(o["text"] for o in reply["outputs"] if o.get("name") == "stderr"),
    "error": "".join(o["evalue"] for o in reply["outputs"] if o["output_type"] == "error"),
}), flush=True)
client.stop(shutdown_kernel=False)
os._exit(0)  # at its end a client shuts down the kernel that it has started
