# Abuses its channel for calls: lengths that lie, nonsense, the other ends of its pipes, and what they tell of the host.
# cell: anyhow
# calls: yes
import fcntl, json, os, socket, struct
answers, calls = (os.dup(int(fd)) for fd in os.environ["AIRLOCK_CALLS_FDS"].split())
for fd in (answers, calls):
    for name, request in (("list interfaces", 0x8912), ("name interface 2", 0x8910), ("its namespace", 0x894C)):
        try: fcntl.ioctl(fd, request, struct.pack("16si40x", b"", 2))
        except OSError as e: tried("%s: %s" % (name, e))
        else: breach("%s: it answers for a network" % name)
    try: s = socket.socket(fileno=os.dup(fd)); s.bind("\0airlock-%d" % fd)
    except OSError as e: tried("take a name: %s" % e)
    else: breach("a name is taken with a socket that was there")
    try: fcntl.fcntl(fd, 1031, 1 << 30)  # F_SETPIPE_SZ
    except OSError as e: tried("a large pipe: %s" % e)
    else: breach("a pipe of a gigabyte")
    try: other = os.open("/proc/self/fd/%d" % fd, os.O_RDWR | os.O_NONBLOCK)
    except OSError as e: tried("both ends: %s" % e)
    else: tried("both ends: %r" % os.fstat(other).st_mode)
def send(data):
    try: os.write(calls, data)
    except OSError as e: tried("send: %s" % e)
    else: tried("send")
call = json.dumps({"id": 1, "name": "x" * 1000, "input": {"a": [[]] * 100}}).encode()
send(struct.pack(">I", len(call)) + call)
send(struct.pack(">I", 0xffffffff) + b"x" * 100)
os.set_blocking(calls, False)
for i in range(1000):
    try: os.write(calls, b"\xff" * 1000)
    except OSError: break
tried("nonsense")
done()
