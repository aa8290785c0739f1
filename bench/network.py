"""What a program measures of its network: network.py SERVER PROXY ROUNDS KIND. The server, of the kind serve, speaks
first: a byte, then as many as it is asked for. Without a proxy (PROXY is -) it is connected to directly. Prints
milliseconds."""

import json
import socket
import sys
import time

HOST, PORT = sys.argv[1].rsplit(":", 1)
PROXY, ROUNDS, KIND = sys.argv[2], int(sys.argv[3]), sys.argv[4]


def connect(host, port):
    if PROXY == "-":
        return socket.create_connection((host, port))
    c = socket.create_connection(("127.0.0.1", int(PROXY)))
    c.sendall(b"CONNECT %s:%d HTTP/1.1\r\nHost: x\r\n\r\n" % (host.encode(), port))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        got = c.recv(1)
        if not got:
            break
        head += got
    return c if b" 200 " in head else None


def once():
    began = time.perf_counter()
    if KIND == "refusal":
        assert connect("refused.example", 443) is None
    else:
        c = connect(HOST, int(PORT))
        assert c.recv(1) == b"x"
        c.close()
    return (time.perf_counter() - began) * 1000


def download():
    c, total = connect(HOST, int(PORT)), 0
    c.recv(1)
    began, buffer = time.perf_counter(), bytearray(1 << 20)
    c.sendall(b"%d\n" % ROUNDS)
    while total < ROUNDS:
        n = c.recv_into(buffer)
        assert n
        total += n
    return (time.perf_counter() - began) * 1000


def serve():
    listener, zeros = socket.create_server((HOST, int(PORT)), backlog=64), bytes(1 << 20)
    while True:
        with listener.accept()[0] as c:
            try:
                c.sendall(b"x")
                wanted = int(c.recv(100) or 0)
                while wanted > 0:
                    wanted -= c.send(zeros[:wanted])
            except OSError:
                pass  # the client has gone


if KIND == "serve":
    serve()
once()
print(json.dumps([download()] if KIND == "bytes" else [once() for _ in range(ROUNDS)]))
