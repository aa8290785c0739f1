"""Uses a sandbox as OpenAI's Agents SDK does: commands, files, a terminal, a port, and a
workspace that is packed and unpacked."""

import asyncio
import io
import urllib.request
from pathlib import Path

from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.sandbox import Manifest


async def use(kind):
    client = E2BSandboxClient()
    options = E2BSandboxClientOptions(sandbox_type=kind, timeout=86400, exposed_ports=(8000,))
    s = await client.create(options=options, manifest=Manifest())
    await s.start()
    r = await s.exec("echo out; echo err >&2; exit 3", shell=True)
    assert (r.exit_code, r.stdout, r.stderr) == (3, b"out\n", b"err\n"), r
    await s.write(Path("d/a.txt"), io.BytesIO(b"hello"))
    assert (await s.read(Path("d/a.txt"))).read() == b"hello"
    p = await s.pty_exec_start("python3 -q", shell=True, tty=True, yield_time_s=2)
    shown = b""
    for _ in range(10):
        shown += (await s.pty_write_stdin(session_id=p.process_id, chars="print(6 * 7)\n", yield_time_s=2)).output
        if b"42" in shown:
            break
    assert b"42" in shown, shown
    server = asyncio.ensure_future(s.exec("cd /tmp && echo served > s.txt && exec python3 -m http.server 8000", shell=True))
    at = await s.resolve_exposed_port(8000)
    for _ in range(100):
        try:
            url = urllib.request.Request("http://127.0.0.1:%d/s.txt" % at.port, headers={"Host": "%s:%d" % (at.host, at.port)})
            body = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read())
            break
        except OSError:
            await asyncio.sleep(0.1)
    assert body == b"served\n", body
    packed = (await s.persist_workspace()).read()
    await s.exec("rm -rf d", shell=True)
    await s.hydrate_workspace(io.BytesIO(packed))
    assert (await s.read(Path("d/a.txt"))).read() == b"hello"
    assert await s.running()
    await s.stop()
    await s.shutdown()
    await client.delete(s)
    server.cancel()


for kind in ("e2b", "e2b_code_interpreter"):
    asyncio.run(use(kind))
