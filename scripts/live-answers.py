"""Runs the snippets of internal/live/testdata/snippets.txt in ipykernel, one kernel
for all, and prints its answers as JSON."""

import json
import sys

from jupyter_client.manager import start_new_kernel


def answers(client, code):
    outputs = []

    def text(name, value):
        if outputs and outputs[-1]["type"] == name:
            outputs[-1]["text"] += value
        else:
            outputs.append({"type": name, "text": value})

    def hook(message):
        content, kind = message["content"], message["msg_type"]
        if kind == "stream":
            text(content["name"], content["text"])
        elif kind in ("display_data", "execute_result", "update_display_data"):
            data = content["data"]
            outputs.append({
                "type": "result" if kind == "execute_result" else "display",
                "kinds": sorted(data), "plain": data.get("text/plain", ""), "update": kind.startswith("update"),
            })
        elif kind == "error":
            outputs.append({"type": "error", "name": content["ename"], "value": content["evalue"]})

    reply = client.execute_interactive(code, output_hook=hook, timeout=60, allow_stdin=False)["content"]
    return {"code": code, "status": reply["status"], "count": reply["execution_count"], "outputs": outputs}


manager, client = start_new_kernel(kernel_name="python3")
with open(sys.argv[1], encoding="utf-8") as file:
    snippets = file.read().rstrip("\n").split("\n---\n")
all_answers = [answers(client, snippet) for snippet in snippets]
client.stop_channels()
manager.shutdown_kernel(now=True)
print(json.dumps(all_answers, indent=1, ensure_ascii=False).replace(sys.prefix, "/venv"))
