# Fills the buffers of UDP sockets.
# ends: anyhow
# memory: 128
# needs: groups
import socket
kept, sent = [], 0
source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
source.setblocking(False)
tried("fill")
try:
    for i in range(900):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        s.bind(("127.0.0.1", 0))
        kept.append(s)
        for n in range(8): sent += source.sendto(b"x" * 60000, s.getsockname())
except OSError as e: tried(e)
def waiting(s):
    s.setblocking(False)
    total = 0
    try:
        while True: total += len(s.recv(65536))
    except OSError: return total
held = sum(map(waiting, kept))
tried("%d MiB were kept" % (held >> 20))
if held > 256 << 20: breach("%d MiB waited in sockets, on 128" % (held >> 20))
