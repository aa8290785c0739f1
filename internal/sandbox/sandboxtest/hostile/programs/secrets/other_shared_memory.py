# Opens the shared memory, queues and semaphores of the host.
# kernel: shared
# control: host
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    result = getattr(libc, name)(*args)
    if result == -1: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
refused("segment by key", call, "shmget", int(H["KEY"]), 0, 0)
for i in range(2000):
    try: call("shmat", i, 0, 0o10000)
    except OSError: continue
    breach("attached segment %d" % i); break
tried("2000 segments by number")
refused("file in /dev/shm", open, H["SHM"])
if os.path.exists("/workspace"):
    refused("message queue", call, "mq_open", b"/airlock", 0o102, 0o600, 0)
    refused("queues of messages", call, "msgget", 1, 0o1600)
done()
