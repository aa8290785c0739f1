# Sends packets to the same.
# weaken: network namespace, bring up loopback
import socket
for family, address in ((2, "127.0.0.1"), (2, H["ADDRESS"] or "10.0.0.1"), (2, "8.8.8.8"), (2, "169.254.169.254"), (2, "255.255.255.255"), (2, "224.0.0.251"), (2, "127.255.255.255"), (10, "::1"), (10, "2001:4860:4860::8888"), (10, "ff02::1%lo")):
    for port in (int(H["UDP"]), 53, 123, 5353, 1900):
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.settimeout(20 if (address, port) == ("127.0.0.1", int(H["UDP"])) else 0.05)  # that one answers; a busy machine takes its time
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        try: s.connect((address, port)); s.send(b"out"); answer = s.recv(100)
        except OSError as e: tried("%s %d: %s" % (address, port, e)); continue
        tried("%s %d" % (address, port))
        breach("%s %d answers %r" % (address, port, answer))
        done(); raise SystemExit
done()
