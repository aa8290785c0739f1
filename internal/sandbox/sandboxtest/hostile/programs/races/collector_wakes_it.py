# Is told by the kernel when its files are read, and goes on then.
# ends: anyhow
# timeout: 2s
import fcntl, os, signal, ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGCONT, lambda *a: None)
watcher = libc.inotify_init1(os.O_NONBLOCK)
open("aa", "w").write("x")
for i in range(900): os.mkdir("f%03d" % i)
for path in (b"/workspace", b"/workspace/f000"): libc.inotify_add_watch(watcher, path, 0xfff)
fcntl.fcntl(watcher, fcntl.F_SETOWN, os.getpid())
fcntl.fcntl(watcher, 10, signal.SIGCONT)  # F_SETSIG
fcntl.fcntl(watcher, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
tried("watch")
for line in open("/proc/self/maps"):
    if line.split()[1].endswith("s") and "w" in line.split()[1] and line.split()[-1] == "(deleted)":
        ctypes.memmove(int(line.split("-")[0], 16), struct.pack("=Ii", 0x646F6E65, 0), 8)
done()
os.kill(os.getpid(), signal.SIGSTOP)
# From here on it should not exist: what grows now is longer than it was collected as.
file = open("aa", "ab", 0)
while True:
    try: file.write(b"x" * 512)
    except OSError: pass
