# Says that it is done by the call that means it, and is called back from that by a storm of signals.
# ends: anyhow
# timeout: 2s
import ctypes, os, signal, threading, time
libc = ctypes.CDLL(None, use_errno=True)
call = 180 if os.uname().machine == "x86_64" else 42
signal.signal(signal.SIGALRM, lambda *a: None)
signal.siginterrupt(signal.SIGALRM, True)
open("before", "w").write("x")
if os.fork() == 0:
    parent = os.getppid()
    while True:
        try: os.kill(parent, signal.SIGALRM)
        except OSError: os._exit(0)
signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
tried("end")
for i in range(1000):
    libc.syscall(ctypes.c_long(call), ctypes.c_long(0))
    with open("after%d" % (i % 20), "a") as f: f.write("x" * 4096)
done()
