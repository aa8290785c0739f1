"""Runs code with the requests of Open WebUI 0.12 (utils/code_interpreter.py), and prints
what its user would get as JSON: openwebui.py URL TOKEN CODE. A kernel by a POST of
nothing, one execute_request at once, frames of at most 1 MiB, a DELETE."""

import asyncio
import json
import sys
import urllib.request
import uuid

import websockets

url, token, code = sys.argv[1:]


def ask(method, path):
    body = b"" if method == "POST" else None
    headers = {"Content-Type": "application/octet-stream"}
    return urllib.request.urlopen(urllib.request.Request(f"{url}/{path}?token={token}", body, headers, method=method))


async def main():
    kernel = json.load(ask("POST", "api/kernels"))["id"]
    got = {"stdout": "", "stderr": "", "result": []}
    async with websockets.connect(f"{url.replace('http', 'ws')}/api/kernels/{kernel}/channels?token={token}") as socket:
        asked = uuid.uuid4().hex
        header = {"msg_id": asked, "msg_type": "execute_request", "username": "user", "session": uuid.uuid4().hex, "date": "", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}
        await socket.send(json.dumps({"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}))
        while True:
            message = json.loads(await asyncio.wait_for(socket.recv(), 60))
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, said = message["msg_type"], message["content"]
            if kind == "stream":
                got[said["name"]] += said["text"]
            elif kind in ("execute_result", "display_data"):
                got["result"].append("image/png" if "image/png" in said["data"] else said["data"].get("text/plain", ""))
            elif kind == "error":
                got["stderr"] += "\n".join(said["traceback"])
            elif kind == "status" and said["execution_state"] == "idle":
                break
    ask("DELETE", f"api/kernels/{kernel}")
    print(json.dumps(got))


asyncio.run(main())
