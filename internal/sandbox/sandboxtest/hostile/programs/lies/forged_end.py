# Gives the sign that it has ended, from a child, while it goes on.
# ends: anyhow
# timeout: 2s
import ctypes, os, signal, struct, time
pages = [int(l.split("-")[0], 16) for l in open("/proc/self/maps") if l.split()[1].endswith("s") and "w" in l.split()[1]]
tried("%d pages" % len(pages))
parent = os.getpid()
if os.fork() == 0:
    os.setsid()
    for i in range(1000):
        for page in pages: ctypes.memmove(page, struct.pack("=Ii", 0x646F6E65, 0x7fffffff - i), 8)
        os.kill(parent, signal.SIGSTOP); os.kill(parent, signal.SIGCONT)
    time.sleep(60)
for i in range(100):
    if os.fork() == 0: time.sleep(60)
