"""Sends a kernel what a page with widgets sends, and prints what it answers, one message in a
line: widgets.py ADDRESS TOKEN. Of the state of a widget only what changes is printed, and of a
traceback its last line; ids have names in the order in which they come."""

import asyncio
import json
import re
import sys
import urllib.request

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

address, token = sys.argv[1:]
STATE = ("value", "msg_id")
SLIDER = "a page's name of the slider"
EXECUTE = {"silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}


def cell(code):
    return "execute_request", {"code": code, **EXECUTE}


def update(value):
    return "comm_msg", {"comm_id": SLIDER, "data": {"method": "update", "state": {"value": value}, "buffer_paths": []}}


REQUESTS = [
    ("comm_info_request", {"target_name": "jupyter.widget"}),
    ("comm_open", {"comm_id": "early", "target_name": "jupyter.widget.control", "data": {}}),
    cell("import ipywidgets as w\ns = w.IntSlider(3)\nprint(s.model_id)"),
    cell("s"),
    ("comm_info_request", {"target_name": "jupyter.widget"}),
    ("comm_info_request", {"target_name": "other"}),
    update(7),
    ("comm_msg", {"comm_id": SLIDER, "data": {"method": "request_state"}}),
    ("comm_open", {"comm_id": "bad", "target_name": "jupyter.widget.control", "data": {}}),  # without its version
    ("comm_msg", {"comm_id": "nobody's", "data": {"method": "request_state"}}),
    cell("o = w.Output()\nwith o:\n    print('inside')"),
    cell("s.observe(lambda change: 1 / 0, 'value')"),
    update(8),
    cell("i = w.Image(value=b'abc', format='png')"),
    cell("s.close()"),
    ("comm_close", {"comm_id": SLIDER, "data": {}}),
]


def parsed(frame):
    """A message in the framing of both servers, and how many buffers it has."""
    if isinstance(frame, str):
        return json.loads(frame), 0
    count = int.from_bytes(frame[:4], "big")
    ends = [int.from_bytes(frame[4 * i : 4 * i + 4], "big") for i in range(1, count + 1)] + [len(frame)]
    return json.loads(frame[ends[0] : ends[1]]), count - 1


def plain(content):
    state = content.get("data", {}).get("state") if isinstance(content.get("data"), dict) else None
    if state:
        content["data"]["state"] = {name: state[name] for name in STATE if name in state}
    if "comms" in content:
        content["comms"] = [about for _, about in sorted(content["comms"].items())]
    if content.get("name") == "stderr":
        content["text"] = content["text"].strip().splitlines()[-1]
    content.pop("traceback", None)
    return content


async def main():
    post = urllib.request.Request(address + "/api/kernels?token=" + token, data=b"{}", headers={"Content-Type": "application/json"})
    kernel = json.load(urllib.request.urlopen(post))["id"]
    channels = "%s/api/kernels/%s/channels?token=%s" % (address.replace("http", "ws", 1), kernel, token)
    socket = await websocket_connect(HTTPRequest(channels, headers={"User-Agent": "a page"}))  # not a gateway's client
    names, slider = {}, ""
    for number, (kind, content) in enumerate(REQUESTS):
        print("==", kind, json.dumps(content))
        if content.get("comm_id") == SLIDER:
            content["comm_id"] = slider
        request = "request-%d" % number
        header = {"msg_id": request, "msg_type": kind, "session": "s", "username": "u", "date": "", "version": "5.3"}
        await socket.write_message(json.dumps({
            "header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell", "buffers": []}))
        waits, lines = {"idle", "reply"} if kind.endswith("_request") else {"idle"}, []
        while waits:
            message, buffers = parsed(await asyncio.wait_for(socket.read_message(), 60))
            if message["parent_header"].get("msg_id") != request:
                continue
            what, about = message["header"]["msg_type"], message["content"]
            waits.discard("reply" if what.endswith("_reply") else about.get("execution_state"))
            if not slider and about.get("name") == "stdout":
                slider = about["text"].strip()
            text = json.dumps(plain(about), sort_keys=True)
            for name in re.findall(r"\b[0-9a-f]{32}\b", text):
                text = text.replace(name, names.setdefault(name, "widget-%d" % len(names)))
            if what.startswith("comm_"):
                text += " %s %d" % (json.dumps(message["metadata"]) if what == "comm_open" else "", buffers)
            lines.append("%s %s %s" % (message["channel"], what, text))
        print("\n".join(sorted(lines, key=lambda line: line.startswith("shell"))))  # a reply has no place among them


asyncio.run(main())
