"""The least that a program costs: an interpreter that has run it once forks for each request over HTTP, and the child
runs it again and answers. There is no sandbox, no limit, no file that is kept, and no service: floor.py PORT CODE.
"""
import contextlib
import gc
import io
import os
import select
import signal
import socket
import sys

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
with open(sys.argv[2]) as file:
    code = compile(file.read(), sys.argv[2], "exec")
with contextlib.redirect_stdout(io.StringIO()):
    exec(code, {"__name__": "__main__"})  # it imports what it needs, and is warm
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64)
gc.collect()
gc.freeze()
poll = select.poll()
poll.register(listener, select.POLLIN)
clients = {}
while True:
    for fd, _ in poll.poll():
        if fd == listener.fileno():
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            clients[client.fileno()] = client
            poll.register(client, select.POLLIN)
            continue
        client = clients[fd]
        if not client.recv(65536):
            poll.unregister(fd)
            clients.pop(fd).close()
        elif os.fork() == 0:
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(code, {"__name__": "__main__"})
            body = said.getvalue().encode()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            os._exit(0)
