# Listens on every port and address, and waits for somebody to come by.
import select, socket
sockets = []
for port in list(range(1, 400)) + [8000, 8080, 9090, 3000, 5432]:
    for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((host, port)); s.listen()
            sockets.append(s)
        except OSError: pass
    try:
        u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("0.0.0.0", port)); sockets.append(u)
    except OSError: pass
tried("%d sockets" % len(sockets))
ready, _, _ = select.select(sockets, [], [], 2)
for s in ready: breach("somebody came to %s" % (s.getsockname(),))
done()
