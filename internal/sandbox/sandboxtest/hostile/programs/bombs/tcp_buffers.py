# Fills the buffers of TCP connections to itself, which count as nobody's memory on some kernels.
# ends: anyhow
# memory: 128
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0), backlog=1000)
kept, sent = [], 0
tried("fill")
try:
    for i in range(400):
        a = socket.socket()
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
        a.settimeout(2)
        a.connect(server.getsockname())
        b, _ = server.accept()
        kept += [a, b]
        a.setblocking(False)
        try:
            while True: sent += a.send(b"x" * (1 << 20))
        except BlockingIOError: pass
except OSError as e: tried(e)
tried("%d MiB" % (sent >> 20))
if sent > 256 << 20: breach("%d MiB wait in sockets, on 128" % (sent >> 20))
