# Resolves names, by libc and by hand: each look-up would carry data out.
# only: machine
import os, socket, subprocess
for name in ("example.org", "localhost.example.org", "metadata.google.internal", "kubernetes.default.svc", "host.docker.internal", "airlock.local", "_gateway", "a" * 60 + ".example.org"):
    refused(name, socket.getaddrinfo, name, 80)
    refused(name, socket.gethostbyname, name)
query = b"\x12\x34\1\0\0\1\0\0\0\0\0\0\7example\3org\0\0\1\0\1"
for server in ("127.0.0.53", "127.0.0.1", "127.0.0.11", "8.8.8.8", "1.1.1.1", "10.96.0.10", "169.254.169.253"):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        s = socket.socket(socket.AF_INET, kind)
        s.settimeout(0.1)
        def ask():
            s.connect((server, 53)); s.send(query if kind == socket.SOCK_DGRAM else b"\0\x1d" + query)
            return s.recv(100)
        refused("ask " + server, ask)
found = subprocess.run(["getent", "hosts", "example.org"], capture_output=True, text=True)
tried("getent: %d" % found.returncode)
if found.returncode == 0: breach("getent says " + found.stdout)
refused("resolver", open, "/etc/resolv.conf")
done()
