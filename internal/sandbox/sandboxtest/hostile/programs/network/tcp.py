# Connects to the host's loopback, the host's addresses, its neighbours and the world.
# weaken: network namespace, bring up loopback
import errno, select, socket
port = int(H["TCP"])
addresses = ["127.0.0.1", "127.0.0.2", "0.0.0.0", H["ADDRESS"] or "10.0.0.1", "localhost", "10.0.0.1", "10.0.2.2", "172.17.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200", "8.8.8.8", "1.1.1.1", "192.0.2.1", "255.255.255.255"]
for address in addresses:
    for p in (port, 80, 443, 8000):
        s = socket.socket()
        s.settimeout(0.1)
        try: s.connect((address, p))
        except OSError as e: tried("%s %d: %s" % (address, p, e)); s.close(); continue
        s.settimeout(60)  # it answers; a busy machine takes its time
        tried("%s %d" % (address, p))
        breach("%s %d answers %r" % (address, p, s.recv(100)))
        done(); raise SystemExit
for address in ("::1", "fe80::1%lo", "2001:4860:4860::8888", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::808:808"):
    s = socket.socket(socket.AF_INET6)
    s.settimeout(0.1)
    refused(address, s.connect, (address, port))
done()
