"""What a program measures of its network: python3 network.py SERVER PROXY ROUNDS. SERVER speaks first: a byte, then,
if it is asked for N bytes, those. Without a proxy (PROXY is -) it is connected to directly."""

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


if KIND == "idle":
    held = [connect(HOST, int(PORT)) for _ in range(ROUNDS)]
    for c in held:
        assert c.recv(1) == b"x"
    held[0].sendall(b"%d\n" % 1)
    held[0].recv(1)  # when it was looked at
    print("[]")
elif KIND == "bytes":
    c, total = connect(HOST, int(PORT)), 0
    c.recv(1)
    began, buffer = time.perf_counter(), bytearray(1 << 20)
    c.sendall(b"%d\n" % ROUNDS)
    while total < ROUNDS:
        n = c.recv_into(buffer)
        assert n
        total += n
    print(json.dumps([time.perf_counter() - began]))
else:
    once()
    print(json.dumps([once() for _ in range(ROUNDS)]))
