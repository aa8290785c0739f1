"""The official SDK of Python as a client, of version 1 or 2: client.py URL, or client.py -- COMMAND...

Version 2 speaks 2026-07-28, which has no handshake, version 1 those before. It runs two cells of one session, reads a file of it, cancels a program, and
prints what it got as one JSON document.
"""

import asyncio
import contextlib
import json
import os
import re
import sys

import mcp
from mcp import StdioServerParameters

SECOND = hasattr(mcp, "Client")


@contextlib.asynccontextmanager
async def connect(server):
    """Yields a client of a server, which is an address or a command, and the version that both speak."""
    if SECOND:
        async with mcp.Client(server) as client:
            yield client, client.protocol_version
        return
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(server) if isinstance(server, str) else stdio_client(server) as (read, write, *_):
        async with mcp.ClientSession(read, write) as session:
            yield session, (await session.initialize()).protocolVersion


async def talk(server):
    async with connect(server) as (session, version):
        tools = await session.list_tools()
        first = await session.call_tool("run_code", {"code": "x = 41\nopen('made.txt', 'w').write('from python')"})
        handle = re.search(r"s_[A-Za-z0-9_-]{21}", first.content[0].text).group()
        second = await session.call_tool("run_code", {"code": "print(x + 1)", "session": handle})
        waiting = await session.call_tool("run_code", {"code": "import time; print('up', flush=True); time.sleep(2); print('done')", "session": handle, "wait_seconds": 1})
        run = re.search(r"r_[A-Za-z0-9_-]+", waiting.content[0].text).group()
        ended = await session.call_tool("wait_run", {"run": run})
        await session.call_tool("write_file", {"path": "data/in.txt", "content": "from the agent", "session": handle})
        listed = await session.call_tool("list_files", {"session": handle})
        read = await session.call_tool("run_code", {"code": "print(open('data/in.txt').read())", "session": handle})
        await session.call_tool("delete_file", {"path": "made.txt", "session": handle})
        gone = await session.call_tool("read_file", {"path": "made.txt", "session": handle})
        there = await session.call_tool("read_file", {"path": "data/in.txt", "session": handle})
        wrong = await session.call_tool("run_code", {"code": 1})
        print(json.dumps({
            "version": version,
            "tools": [t.name for t in tools.tools],
            "files": [c.type for c in first.content],
            "second": second.content[0].text,
            "waiting": waiting.content[0].text,
            "ended": ended.content[0].text,
            "worked": [r.content[0].text for r in (listed, read, gone, there)],
            "wrong": [wrong.is_error if SECOND else wrong.isError, wrong.content[0].text],
        }))


if sys.argv[1] == "--":
    asyncio.run(talk(StdioServerParameters(command=sys.argv[2], args=sys.argv[3:], env=dict(os.environ))))
else:
    asyncio.run(talk(sys.argv[1]))
