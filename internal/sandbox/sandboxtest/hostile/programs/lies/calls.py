# Abuses its channel for calls: lengths that lie, open files, nonsense, and the process behind it.
# calls: yes
import array, json, os, socket, struct
s = socket.socket(fileno=os.dup(3))
s.settimeout(1)
for option in (17, 77, 31, 59):  # peer's credentials, process, label, groups
    try: tried("option %d: %r" % (option, s.getsockopt(socket.SOL_SOCKET, option, 64)[:12]))
    except OSError as e: tried("option %d: %s" % (option, e))
def send(data, rights=()):
    try: s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", rights))] if rights else [])
    except OSError as e: tried("send: %s" % e)
    else: tried("send")
call = json.dumps({"id": 1, "name": "x" * 1000, "input": {"a": [[]] * 100}}).encode()
send(struct.pack(">I", len(call)) + call, [1] * 200)
send(struct.pack(">I", len(call)) + call)
send(struct.pack(">I", 0xffffffff) + b"x" * 100)
for i in range(1000):
    try: s.send(b"\xff" * 1000)
    except OSError: break
tried("nonsense")
done()
