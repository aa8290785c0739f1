# Opens files, sockets, timers and watchers up to the limit, and passes them on to have more.
# kernel: shared
import array, os, resource, socket
n = 0
try:
    while n < 1 << 20: os.open("/dev/null", os.O_RDONLY); n += 1
except OSError as e: tried("%d files: %s" % (n, e))
if n > 1024: breach("%d files are open" % n)
os.closerange(10, 2000)
try: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
except (OSError, ValueError) as e: tried("more: %s" % e)
else: breach("the limit was raised")
sent = 0
pairs = []
try:
    while sent < 1 << 20:
        a, b = socket.socketpair(); a.setblocking(False); pairs += [a, b]
        try:
            while True: a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))]); sent += 250
        except BlockingIOError: pass
except OSError as e: tried("%d files under way: %s" % (sent, e))
if sent > 100000: breach("%d files are under way" % sent)
done()
